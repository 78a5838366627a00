//! Limits failing requests of one tenant to one host, and obeys the waits that a host names for a
//! login.
//!
//! A tenant is a namespace of a hub. Each tenant has its own budget, so that one tenant's failing
//! sources do not use up the time of a process, or its address's limit at the host. A budget is
//! kept in memory: each process has its own, so all processes together send more, and nothing else
//! may depend on it. A wait is known to all processes ([`waits`]). Requests that succeed cost
//! nothing.

mod host_waits;

use super::{
    Blobs, Bucket, BucketAddress, BucketEntry, BucketObject, Buckets, Charts, Clock, Commit,
    Connection, DownloadOutcome, ErrorKind, FetchLimits, Git, GitAuth, Layer, Manifest, PortError,
    Ports, Referrer, Result, SignedObjects, Validator,
};
use crate::address::authority;
use async_trait::async_trait;
use bytes::Bytes;
use driftless_flux::GitReference;
use driftless_manifest::FileTree;
use host_waits::Waits;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Requests of a tenant to a host that may fail in a row.
const BURST: f64 = 100.0;
/// The time until one more request may fail: 600 an hour, as many as a hundred objects need that
/// are tried every ten minutes.
const REFILL: Duration = Duration::from_secs(6);
/// The most budgets that are kept; a full budget need not be kept.
const MAX_BUDGETS: usize = 4096;

/// The budgets of a process, and the waits that it knows of.
#[derive(Default)]
pub struct Throttle {
    budgets: Mutex<BTreeMap<BudgetKey, Budget>>,
    waits: Waits,
}

/// A tenant and a host: the key of a budget.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct BudgetKey {
    hub: String,
    namespace: String,
    host: String,
}

/// The failures that a tenant has left at a host.
struct Budget {
    /// Requests that may fail.
    left: f64,
    /// The time of the value of `left`, since 1970.
    at: Duration,
}

impl Budget {
    fn full(now: Duration) -> Self {
        Self {
            left: BURST,
            at: now,
        }
    }

    /// Returns the number of requests that may fail at `now`.
    fn left(&self, now: Duration) -> f64 {
        let passed = now.saturating_sub(self.at).as_secs_f64() / REFILL.as_secs_f64();
        BURST.min(self.left + passed)
    }

    /// Updates the budget to `now`.
    fn refill(&mut self, now: Duration) {
        self.left = self.left(now);
        self.at = now.max(self.at);
    }

    fn is_full(&self, now: Duration) -> bool {
        self.left(now) >= BURST
    }
}

impl Throttle {
    /// Allows a request, unless the tenant has used up its budget.
    fn pass(&self, party: &BudgetKey, now: Duration) -> Result<()> {
        let mut budgets = self.lock();
        let Some(budget) = budgets.get_mut(party) else {
            return Ok(());
        };
        budget.refill(now);
        if budget.left < 1.0 {
            let BudgetKey {
                namespace, host, ..
            } = party;
            let reason = format!("too many requests of namespace '{namespace}' to {host} failed");
            return Err(refusal(reason, REFILL.mul_f64(1.0 - budget.left)));
        }
        Ok(())
    }

    /// Charges a failed request to the budget.
    fn charge(&self, party: &BudgetKey, now: Duration) {
        let mut budgets = self.lock();
        if !budgets.contains_key(party) {
            make_room(&mut budgets, now);
        }
        let budget = budgets
            .entry(party.clone())
            .or_insert_with(|| Budget::full(now));
        budget.refill(now);
        budget.left = (budget.left - 1.0).max(0.0);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<BudgetKey, Budget>> {
        self.budgets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes the full budgets if there are too many, and if none is full, the one that was used
/// longest ago.
fn make_room(budgets: &mut BTreeMap<BudgetKey, Budget>, now: Duration) {
    if budgets.len() < MAX_BUDGETS {
        return;
    }
    budgets.retain(|_, budget| !budget.is_full(now));
    if budgets.len() >= MAX_BUDGETS {
        let oldest = budgets.iter().min_by_key(|(_, budget)| budget.at);
        let oldest = oldest.map(|(party, _)| party.clone());
        oldest.and_then(|oldest| budgets.remove(&oldest));
    }
}

fn refusal(reason: String, left: Duration) -> PortError {
    let seconds = left.as_secs().max(1);
    let message =
        format!("request not sent: {reason}; the next request is possible in {seconds} s");
    PortError {
        retry_after: Some(left),
        ..PortError::new(ErrorKind::RateLimited, message)
    }
}

impl Ports {
    /// Returns these ports for the objects of a namespace: failing requests to hosts are charged to
    /// its budgets.
    #[must_use]
    pub fn of_tenant(&self, hub: &str, namespace: &str) -> Self {
        let tenant = Tenant {
            throttle: self.throttle.clone(),
            blobs: self.blobs.clone(),
            clock: self.clock.clone(),
            hub: hub.to_owned(),
            namespace: namespace.to_owned(),
        };
        Self {
            git: Arc::new(Throttled(self.git.clone(), tenant.clone())),
            charts: Arc::new(Throttled(self.charts.clone(), tenant.clone())),
            buckets: Arc::new(Throttled(self.buckets.clone(), tenant)),
            ..self.clone()
        }
    }
}

#[derive(Clone)]
struct Tenant {
    throttle: Arc<Throttle>,
    blobs: Arc<dyn Blobs>,
    clock: Arc<dyn Clock>,
    hub: String,
    namespace: String,
}

impl Tenant {
    /// Runs a request to the host of an address, within the budget and not during a wait. `login`
    /// is the digest of the credentials, if there are any.
    async fn run<T>(
        &self,
        address: &str,
        login: Option<&str>,
        request: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let party = BudgetKey {
            hub: self.hub.clone(),
            namespace: self.namespace.clone(),
            host: host_of(address).to_ascii_lowercase(),
        };
        let (waits, blobs) = (&self.throttle.waits, self.blobs.as_ref());
        // Anyone can be anonymous, and a host may give a wait to anyone who asks for a certain
        // address: a tenant's own wait must not hold back the others.
        let key = match login {
            Some(login) => host_waits::key(&party.host, &[login]),
            None => host_waits::key(&party.host, &[&party.hub, &party.namespace, ""]),
        };
        let now = self.clock.now();
        self.throttle.pass(&party, now)?;
        if let Some(left) = waits.left(blobs, &key, now).await {
            let reason = format!("{} asked for fewer requests", party.host);
            return Err(refusal(reason, left));
        }
        let answer = request.await;
        if let Err(error) = &answer {
            let now = self.clock.now();
            self.throttle.charge(&party, now);
            if let Some(wait) = error.retry_after {
                waits.note(blobs, &key, now, wait).await;
            }
        }
        answer
    }
}

impl Throttled<dyn Charts> {
    async fn run<T>(
        &self,
        address: &str,
        connection: &Connection,
        request: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let login = connection.identity();
        self.1.run(address, login.as_deref(), request).await
    }
}

/// Returns the host and port of an address with or without a scheme.
fn host_of(address: &str) -> &str {
    let authority = authority(address);
    let authority = authority.split(['?', '#']).next().unwrap_or_default();
    authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host)
}

/// Returns the digest of the credentials for a Git server; `None` without credentials.
fn identity(auth: &GitAuth) -> Option<String> {
    let identity = auth.identity();
    (identity != GitAuth::Anonymous.identity()).then_some(identity)
}

/// A port whose requests are charged to one tenant.
struct Throttled<P: ?Sized>(Arc<P>, Tenant);

#[async_trait]
impl Git for Throttled<dyn Git> {
    async fn resolve(
        &self,
        url: &str,
        reference: &GitReference,
        auth: &GitAuth,
        known: Option<&Commit>,
    ) -> Result<Commit> {
        let login = identity(auth);
        let request = self.0.resolve(url, reference, auth, known);
        self.1.run(url, login.as_deref(), request).await
    }

    async fn fetch(
        &self,
        url: &str,
        commit: &Commit,
        auth: &GitAuth,
        limits: FetchLimits,
    ) -> Result<FileTree> {
        let login = identity(auth);
        let request = self.0.fetch(url, commit, auth, limits);
        self.1.run(url, login.as_deref(), request).await
    }

    async fn signed(
        &self,
        url: &str,
        commit: &Commit,
        auth: &GitAuth,
    ) -> Result<Option<SignedObjects>> {
        let login = identity(auth);
        let request = self.0.signed(url, commit, auth);
        self.1.run(url, login.as_deref(), request).await
    }

    async fn base(&self, url: &str, reference: &GitReference, auth: &GitAuth) -> Result<FileTree> {
        let login = identity(auth);
        let request = self.0.base(url, reference, auth);
        self.1.run(url, login.as_deref(), request).await
    }
}

#[async_trait]
impl Charts for Throttled<dyn Charts> {
    async fn get(
        &self,
        url: &str,
        connection: &Connection,
        known: &Validator,
        limit: u64,
    ) -> Result<DownloadOutcome> {
        let request = self.0.get(url, connection, known, limit);
        self.run(url, connection, request).await
    }

    async fn file(
        &self,
        url: &str,
        connection: &Connection,
        limit: u64,
    ) -> Result<DownloadOutcome> {
        let request = self.0.file(url, connection, limit);
        self.run(url, connection, request).await
    }

    async fn tags(&self, repository: &str, connection: &Connection) -> Result<Vec<String>> {
        let request = self.0.tags(repository, connection);
        self.run(repository, connection, request).await
    }

    async fn manifest(
        &self,
        repository: &str,
        reference: &str,
        connection: &Connection,
    ) -> Result<Manifest> {
        let request = self.0.manifest(repository, reference, connection);
        self.run(repository, connection, request).await
    }

    async fn referrers(
        &self,
        repository: &str,
        digest: &str,
        connection: &Connection,
    ) -> Result<Vec<Referrer>> {
        let request = self.0.referrers(repository, digest, connection);
        self.run(repository, connection, request).await
    }

    async fn layer(
        &self,
        repository: &str,
        layer: &Layer,
        connection: &Connection,
        limit: u64,
    ) -> Result<Bytes> {
        let request = self.0.layer(repository, layer, connection, limit);
        self.run(repository, connection, request).await
    }
}

#[async_trait]
impl Buckets for Throttled<dyn Buckets> {
    async fn open(&self, address: &BucketAddress) -> Result<Arc<dyn Bucket>> {
        let request = self.0.open(address);
        let login = address.identity();
        let bucket = self
            .1
            .run(&address.endpoint, login.as_deref(), request)
            .await?;
        Ok(Arc::new(ThrottledBucket {
            bucket,
            tenant: self.1.clone(),
            endpoint: address.endpoint.clone(),
            login,
        }))
    }
}

struct ThrottledBucket {
    bucket: Arc<dyn Bucket>,
    tenant: Tenant,
    endpoint: String,
    login: Option<String>,
}

impl ThrottledBucket {
    async fn run<T>(&self, request: impl Future<Output = Result<T>>) -> Result<T> {
        let login = self.login.as_deref();
        self.tenant.run(&self.endpoint, login, request).await
    }
}

#[async_trait]
impl Bucket for ThrottledBucket {
    async fn list(&self, prefix: &str, most: usize) -> Result<Vec<BucketEntry>> {
        let request = self.bucket.list(prefix, most);
        self.run(request).await
    }

    async fn get(&self, key: &str, limit: u64) -> Result<Option<BucketObject>> {
        let request = self.bucket.get(key, limit);
        self.run(request).await
    }
}

#[cfg(test)]
mod tests {
    use super::host_of;

    #[test]
    fn hosts() {
        for (address, host) in [
            ("https://git.example/a/b", "git.example"),
            ("https://u:p@git.example:8443/a", "git.example:8443"),
            ("ghcr.io/acme/app", "ghcr.io"),
            ("oci://ghcr.io/acme", "ghcr.io"),
            ("https://git.example?x=@y", "git.example"),
        ] {
            assert_eq!(host_of(address), host, "{address}");
        }
    }
}
