//! Limits failing requests of one tenant to one host, and obeys a host's rate limit for each login.
//!
//! A tenant is a namespace of a hub. Each tenant has its own budget, so that one tenant's failing
//! sources do not use up the host's limit for the shared address of the installation, and not the
//! time of the functions. A budget is kept in memory: each process has its own. Requests that
//! succeed cost nothing.

use super::{
    Bucket, BucketAddress, BucketEntry, BucketObject, Buckets, Charts, Clock, Commit, Connection,
    ErrorKind, FetchLimits, Fetched, Git, GitAuth, Layer, Manifest, PortError, Ports, Referrer,
    Result, Validator,
};
use crate::address::authority;
use crate::flux::GitReference;
use async_trait::async_trait;
use bytes::Bytes;
use driftless_manifest::FileTree;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Requests of a tenant to a host that may fail in a row.
const BURST: f64 = 100.0;
/// The time until one more request may fail: 600 an hour, as many as a hundred objects need that
/// are tried every ten minutes.
const REFILL: Duration = Duration::from_secs(6);
/// The longest rate limit of a host that is obeyed.
const MAX_RATE_LIMIT: Duration = Duration::from_secs(3600);
/// The most budgets that are kept; a full budget need not be kept.
const MAX_BUDGETS: usize = 4096;

/// The budgets of a process.
#[derive(Default)]
pub struct Throttle {
    budgets: Mutex<BTreeMap<Party, Budget>>,
}

/// A tenant and a host: the key of a budget.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Party {
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
    /// The end of the host's rate limit for each login, by the digest of the login.
    limited: BTreeMap<String, Duration>,
}

impl Budget {
    fn full(now: Duration) -> Self {
        Self {
            left: BURST,
            at: now,
            limited: BTreeMap::new(),
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
        self.limited.retain(|_, until| *until > now);
    }

    fn is_full(&self, now: Duration) -> bool {
        self.left(now) >= BURST && self.limited.values().all(|until| *until <= now)
    }
}

impl Throttle {
    /// Allows a request, unless the tenant has used up its budget or the host's rate limit for this
    /// login is not over.
    fn pass(&self, party: &Party, login: &str, now: Duration) -> Result<()> {
        let mut budgets = self.lock();
        let Some(budget) = budgets.get_mut(party) else {
            return Ok(());
        };
        budget.refill(now);
        let host = &party.host;
        if let Some(until) = budget.limited.get(login) {
            let left = until.saturating_sub(now);
            let reason = format!("{host} asked for fewer requests");
            return Err(refusal(reason, left));
        }
        if budget.left < 1.0 {
            let namespace = &party.namespace;
            let reason = format!("too many requests of namespace '{namespace}' to {host} failed");
            return Err(refusal(reason, REFILL.mul_f64(1.0 - budget.left)));
        }
        Ok(())
    }

    /// Charges a failed request to the budget, and keeps the host's rate limit.
    fn note(&self, party: &Party, login: &str, now: Duration, error: &PortError) {
        let mut budgets = self.lock();
        if !budgets.contains_key(party) {
            make_room(&mut budgets, now);
        }
        let budget = budgets
            .entry(party.clone())
            .or_insert_with(|| Budget::full(now));
        budget.refill(now);
        budget.left = (budget.left - 1.0).max(0.0);
        if let (ErrorKind::RateLimited, Some(after)) = (error.kind, error.retry_after) {
            let until = now + after.min(MAX_RATE_LIMIT);
            budget.limited.insert(login.to_owned(), until);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Party, Budget>> {
        self.budgets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes the full budgets if there are too many, and if none is full, the one that was used
/// longest ago.
fn make_room(budgets: &mut BTreeMap<Party, Budget>, now: Duration) {
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
    clock: Arc<dyn Clock>,
    hub: String,
    namespace: String,
}

impl Tenant {
    /// Runs a request to the host of an address, within the budget.
    async fn run<T>(
        &self,
        address: &str,
        login: &str,
        request: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let party = Party {
            hub: self.hub.clone(),
            namespace: self.namespace.clone(),
            host: host_of(address).to_ascii_lowercase(),
        };
        self.throttle.pass(&party, login, self.clock.now())?;
        let answer = request.await;
        if let Err(error) = &answer {
            let now = self.clock.now();
            self.throttle.note(&party, login, now, error);
        }
        answer
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

/// Returns a digest of the connection's login; empty without a login.
fn login_of(connection: &Connection) -> String {
    let Some((user, password)) = &connection.login else {
        return String::new();
    };
    let mut digest = Sha256::new();
    digest.update((user.len() as u64).to_be_bytes());
    digest.update(user.as_bytes());
    digest.update(password.expose());
    hex::encode(digest.finalize())
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
        let login = auth.identity();
        let request = self.0.resolve(url, reference, auth, known);
        self.1.run(url, &login, request).await
    }

    async fn fetch(
        &self,
        url: &str,
        commit: &Commit,
        auth: &GitAuth,
        limits: FetchLimits,
    ) -> Result<FileTree> {
        let login = auth.identity();
        let request = self.0.fetch(url, commit, auth, limits);
        self.1.run(url, &login, request).await
    }

    async fn base(&self, url: &str, reference: &GitReference, auth: &GitAuth) -> Result<FileTree> {
        let login = auth.identity();
        let request = self.0.base(url, reference, auth);
        self.1.run(url, &login, request).await
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
    ) -> Result<Fetched> {
        let request = self.0.get(url, connection, known, limit);
        self.1.run(url, &login_of(connection), request).await
    }

    async fn file(&self, url: &str, connection: &Connection, limit: u64) -> Result<Fetched> {
        let request = self.0.file(url, connection, limit);
        self.1.run(url, &login_of(connection), request).await
    }

    async fn tags(&self, repository: &str, connection: &Connection) -> Result<Vec<String>> {
        let request = self.0.tags(repository, connection);
        self.1.run(repository, &login_of(connection), request).await
    }

    async fn manifest(
        &self,
        repository: &str,
        reference: &str,
        connection: &Connection,
    ) -> Result<Manifest> {
        let request = self.0.manifest(repository, reference, connection);
        self.1.run(repository, &login_of(connection), request).await
    }

    async fn referrers(
        &self,
        repository: &str,
        digest: &str,
        connection: &Connection,
    ) -> Result<Vec<Referrer>> {
        let request = self.0.referrers(repository, digest, connection);
        self.1.run(repository, &login_of(connection), request).await
    }

    async fn layer(
        &self,
        repository: &str,
        layer: &Layer,
        connection: &Connection,
        limit: u64,
    ) -> Result<Bytes> {
        let request = self.0.layer(repository, layer, connection, limit);
        self.1.run(repository, &login_of(connection), request).await
    }
}

#[async_trait]
impl Buckets for Throttled<dyn Buckets> {
    async fn open(&self, address: &BucketAddress) -> Result<Arc<dyn Bucket>> {
        let request = self.0.open(address);
        let login = login_of(&address.connection);
        let bucket = self.1.run(&address.endpoint, &login, request).await?;
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
    login: String,
}

#[async_trait]
impl Bucket for ThrottledBucket {
    async fn list(&self, prefix: &str, most: usize) -> Result<Vec<BucketEntry>> {
        let request = self.bucket.list(prefix, most);
        self.tenant.run(&self.endpoint, &self.login, request).await
    }

    async fn get(&self, key: &str, limit: u64) -> Result<Option<BucketObject>> {
        let request = self.bucket.get(key, limit);
        self.tenant.run(&self.endpoint, &self.login, request).await
    }
}

#[cfg(test)]
mod tests;
