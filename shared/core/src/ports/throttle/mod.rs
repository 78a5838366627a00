//! How often the objects of one tenant may fail at one host, and how long they stay away from a host that asks for it.
//!
//! A tenant is a namespace of a hub. Tenants have budgets of their own, so that one tenant's failing sources take nothing from
//! another's: neither from the host's limit for an address that everybody here shares, nor from the time of the functions. A
//! budget is kept by a process: each process allows each tenant as much. Requests that succeed cost nothing.

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

/// How many requests of a tenant to a host may fail in a row.
const BURST: f64 = 100.0;
/// How long it takes until one more may fail: 600 an hour, as many as a hundred objects need that are tried every ten minutes.
const REFILL: Duration = Duration::from_secs(6);
/// The longest time that a host may ask a tenant to stay away.
const LONGEST: Duration = Duration::from_secs(3600);
/// How many budgets are kept; a full one is the same as none.
const KEPT: usize = 4096;

/// The budgets of a process.
#[derive(Default)]
pub struct Throttle {
    budgets: Mutex<BTreeMap<Party, Budget>>,
}

/// A tenant at a host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Party {
    hub: String,
    namespace: String,
    host: String,
}

/// What a tenant has left at a host.
struct Budget {
    /// How many requests may fail.
    left: f64,
    /// When that was so, since 1970.
    at: Duration,
    /// Until when the host wants no request with a login; by a digest of the login.
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

    /// How many requests may fail at `now`.
    fn left(&self, now: Duration) -> f64 {
        let passed = now.saturating_sub(self.at).as_secs_f64() / REFILL.as_secs_f64();
        BURST.min(self.left + passed)
    }

    /// Brings the budget to `now`.
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
    /// Lets a request be made, unless the tenant has used up its budget or the host wants no more of this login.
    fn pass(&self, party: &Party, login: &str, now: Duration) -> Result<()> {
        let mut budgets = self.lock();
        let Some(budget) = budgets.get_mut(party) else {
            return Ok(());
        };
        budget.refill(now);
        let host = &party.host;
        if let Some(until) = budget.limited.get(login) {
            let left = until.saturating_sub(now);
            let what = format!("{host} asked for fewer requests");
            return Err(refusal(what, left));
        }
        if budget.left < 1.0 {
            let namespace = &party.namespace;
            let what = format!("too many requests of namespace '{namespace}' to {host} failed");
            return Err(refusal(what, REFILL.mul_f64(1.0 - budget.left)));
        }
        Ok(())
    }

    /// Notes how a request ended.
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
            let until = now + after.min(LONGEST);
            budget.limited.insert(login.to_owned(), until);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Party, Budget>> {
        self.budgets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets full budgets when there are too many, and when none is full the one that was used longest ago.
fn make_room(budgets: &mut BTreeMap<Party, Budget>, now: Duration) {
    if budgets.len() < KEPT {
        return;
    }
    budgets.retain(|_, budget| !budget.is_full(now));
    if budgets.len() >= KEPT {
        let oldest = budgets.iter().min_by_key(|(_, budget)| budget.at);
        let oldest = oldest.map(|(party, _)| party.clone());
        oldest.and_then(|oldest| budgets.remove(&oldest));
    }
}

fn refusal(what: String, left: Duration) -> PortError {
    let seconds = left.as_secs().max(1);
    let message = format!("not asked: {what}; the next request is made in {seconds} s");
    PortError {
        retry_after: Some(left),
        ..PortError::new(ErrorKind::RateLimited, message)
    }
}

impl Ports {
    /// These ports for the objects of a namespace: their requests to hosts come out of its budgets.
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
    /// Makes a request to the host of an address.
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

/// The host of an address with or without a scheme, and its port.
fn host_of(address: &str) -> &str {
    let authority = authority(address);
    let authority = authority.split(['?', '#']).next().unwrap_or_default();
    authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host)
}

/// Who asks, as a digest.
fn login_of(how: &Connection) -> String {
    let Some((user, password)) = &how.login else {
        return String::new();
    };
    let mut digest = Sha256::new();
    digest.update((user.len() as u64).to_be_bytes());
    digest.update(user.as_bytes());
    digest.update(password.expose());
    hex::encode(digest.finalize())
}

/// A port for one tenant.
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
        how: &Connection,
        known: &Validator,
        limit: u64,
    ) -> Result<Fetched> {
        let request = self.0.get(url, how, known, limit);
        self.1.run(url, &login_of(how), request).await
    }

    async fn file(&self, url: &str, how: &Connection, limit: u64) -> Result<Fetched> {
        let request = self.0.file(url, how, limit);
        self.1.run(url, &login_of(how), request).await
    }

    async fn tags(&self, repository: &str, how: &Connection) -> Result<Vec<String>> {
        let request = self.0.tags(repository, how);
        self.1.run(repository, &login_of(how), request).await
    }

    async fn manifest(
        &self,
        repository: &str,
        reference: &str,
        how: &Connection,
    ) -> Result<Manifest> {
        let request = self.0.manifest(repository, reference, how);
        self.1.run(repository, &login_of(how), request).await
    }

    async fn referrers(
        &self,
        repository: &str,
        digest: &str,
        how: &Connection,
    ) -> Result<Vec<Referrer>> {
        let request = self.0.referrers(repository, digest, how);
        self.1.run(repository, &login_of(how), request).await
    }

    async fn layer(
        &self,
        repository: &str,
        layer: &Layer,
        how: &Connection,
        limit: u64,
    ) -> Result<Bytes> {
        let request = self.0.layer(repository, layer, how, limit);
        self.1.run(repository, &login_of(how), request).await
    }
}

#[async_trait]
impl Buckets for Throttled<dyn Buckets> {
    async fn open(&self, address: &BucketAddress) -> Result<Arc<dyn Bucket>> {
        let request = self.0.open(address);
        let login = login_of(&address.how);
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
