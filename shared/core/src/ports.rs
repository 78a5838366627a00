//! What the core needs from outside, in its own words. Adapters implement these traits; no SDK type stands in a signature.

mod blobs;
mod buckets;
mod charts;
mod clouds;
mod gate;
mod git;
mod throttle;
mod tokens;

pub use blobs::BlobCache;
pub use buckets::{Bucket, BucketAddress, BucketEntry, BucketObject, Buckets};
pub use charts::{Charts, Connection, Fetched, Layer, Manifest, Referrer, Validator};
pub use clouds::{
    AcrRegistry, AksCluster, Aws, AwsIdentity, Azure, Clouds, ClusterPlace, EcrRegistry,
    EksCluster, EntraIdentity, GkeCluster, Google, GoogleIdentity, RegistryLogin,
    is_google_registry,
};
pub use gate::{Gate, GatedCluster, GatedClusters};
pub use git::{Commit, FetchLimits, Git, GitAuth, GitServer, SshKey};
pub use throttle::Throttle;
pub use tokens::{Token, TokenAsk};

use crate::flux::ObjectRef;
use crate::unpacked::Unpacked;
use async_trait::async_trait;
use bytes::Bytes;
use driftless_manifest::{Gvk, Object};
use futures::channel::oneshot;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What went wrong outside, as far as the core must tell cases apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// It does not exist, or access to it was lost without saying so.
    NotFound,
    /// Credentials are missing, wrong or not sufficient.
    Denied,
    /// Somebody else was there first (409, 412).
    Conflict,
    /// The request itself is wrong (400, 422): the same again fails the same.
    Invalid,
    /// Too many requests; `retry_after` says how long to stay away.
    RateLimited,
    /// No answer, or an answer that says "later": the outcome of a write is unknown.
    Unavailable,
    /// An answer that is not what was asked for (HTML, a truncated body, a checksum that does not fit). Never the same as "empty".
    Unreadable,
    /// This installation cannot do it, and says so.
    Unsupported,
}

/// A port's refusal. The message names what was tried; it never carries a secret.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct PortError {
    /// The case.
    pub kind: ErrorKind,
    /// What was tried and what came back.
    pub message: String,
    /// How long to wait before the next try, when the other side said so.
    pub retry_after: Option<Duration>,
    /// The API server's word for it, such as `Invalid` or `Forbidden`; empty when there is none.
    pub reason: String,
}

impl PortError {
    /// An error without a given delay.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            retry_after: None,
            reason: String::new(),
        }
    }
}

/// A port's answer.
pub type Result<T, E = PortError> = std::result::Result<T, E>;

/// Bytes that are shown nowhere: `Debug` and `Display` say `[redacted]`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(Bytes);

impl Secret {
    /// Wraps secret bytes.
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        Self(bytes.into())
    }

    /// The bytes, for the one place that needs them.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// The bytes as text, if they are UTF-8.
    pub fn expose_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// The version of a stored blob, as the store names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Version(pub String);

/// What must hold for a write to happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// Nothing.
    None,
    /// No blob stands there.
    Absent,
    /// Exactly this version stands there.
    Is(Version),
}

/// How a conditional write ended. An unclear end is `Err(Unavailable)`: read before you decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Put {
    /// Written.
    Done(Version),
    /// The precondition did not hold.
    PreconditionFailed,
}

/// A blob as a list of the bucket has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobEntry {
    /// Its key.
    pub key: String,
    /// How many bytes it has.
    pub size: u64,
    /// Its version; `None` where a list does not tell.
    pub version: Option<Version>,
}

/// The bucket: content-addressed blobs and small JSON under compare-and-swap.
#[async_trait]
pub trait Blobs: Send + Sync {
    /// A blob and its version.
    async fn get(&self, key: &str) -> Result<Option<(Bytes, Version)>>;
    /// Writes a blob.
    async fn put(&self, key: &str, content: Bytes, when: Precondition) -> Result<Put>;
    /// Removes a blob; absent is fine.
    async fn delete(&self, key: &str) -> Result<()>;
    /// Every blob whose key starts with `prefix`, in the order of the keys. Reads no content.
    async fn list(&self, prefix: &str) -> Result<Vec<BlobEntry>>;
    /// How many bytes a blob has; `None` when there is none. Reads no content.
    async fn size(&self, key: &str) -> Result<Option<u64>>;
    /// Takes a blob away that nobody can use, if it is still this version; its bytes are kept for people. Absent is fine.
    async fn set_aside(&self, key: &str, version: &Version) -> Result<()>;
    /// An address of the blob for people and status fields (`s3://bucket/key`, `file:///directory/key`).
    fn url(&self, key: &str) -> String;
}

/// Why an object is looked at.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Cause {
    /// A verified push.
    Push,
    /// The timer: the interval is over, or a message may be lost.
    Timer,
    /// The live objects differ from what was applied.
    Drift,
    /// The source has a new artifact.
    Source,
    /// What the object waits for is ready, or failed.
    Dependency,
    /// The object is new, or somebody changed it, asked for it or deleted it.
    Changed,
    /// The step put itself back: a wait or a retry.
    #[serde(alias = "again")]
    Requeue,
}

impl Cause {
    /// Whether the step looks at what is on the cluster even when no file has changed.
    pub fn looks_at_cluster(&self) -> bool {
        match self {
            Self::Timer | Self::Drift | Self::Changed | Self::Requeue => true,
            Self::Push | Self::Source | Self::Dependency => false,
        }
    }

    /// Of two causes the one that makes the step do more.
    #[must_use]
    pub fn stronger(self, other: &Self) -> Self {
        match !self.looks_at_cluster() && other.looks_at_cluster() {
            true => other.clone(),
            false => self,
        }
    }
}

/// One piece of work: look at this object. Duplicates and order do not matter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// The hub's name in the registry.
    pub hub: String,
    /// The object.
    pub object: ObjectRef,
    /// Why.
    pub cause: Cause,
    /// Which message it is, when it brings an object back ([`crate::schedule`]). Absent in what a webhook, a source, the timer or
    /// a dependency asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

impl Request {
    /// A request of somebody who asks.
    pub fn new(hub: impl Into<String>, object: ObjectRef, cause: Cause) -> Self {
        Self {
            hub: hub.into(),
            object,
            cause,
            token: None,
        }
    }
}

/// A message that asks for the sweep of a hub.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepRequest {
    /// The hub's name.
    pub sweep: String,
}

/// The queue of work.
#[async_trait]
pub trait Queue: Send + Sync {
    /// Puts every request in with its delay (at most 15 minutes); returns when the queue has them all.
    async fn send(&self, requests: Vec<(Request, Duration)>) -> Result<()>;

    /// Says when a message that was received and not dealt with is delivered again; `receipt` came with it. Without this word it
    /// is when the queue's own time for a message is over. A queue that gives no receipts has nothing to do.
    async fn redeliver(&self, _receipt: &str, _after: Duration) -> Result<()> {
        Ok(())
    }

    /// Asks for a sweep of each hub, by an invocation of its own. `false`: this queue does not carry that, and the hubs are swept
    /// by who asks.
    async fn sweep(&self, _hubs: &[String]) -> Result<bool> {
        Ok(false)
    }
}

/// The secret manager.
#[async_trait]
pub trait SecretStore: Send + Sync {
    /// The secret of that name below the installation's prefix, such as `hubs/staging` or `tenants/staging/apps`.
    async fn secret(&self, name: &str) -> Result<Option<Secret>>;
}

/// Where a cluster is and how to log in. Made only by [`crate::kubeconfig`]'s parser and [`crate::target`]: inline data and https
/// alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// `https://host:port/path`.
    pub server: String,
    /// PEM of the certificate authorities; the system's when absent.
    pub certificate_authority: Option<Vec<u8>>,
    /// The name to check the certificate against, when it is not the server's.
    pub tls_server_name: Option<String>,
    /// Skip the check of the server's certificate; only when the operator allows it.
    pub insecure_skip_tls_verify: bool,
    /// Reach addresses that lead back into this installation ([`crate::address`]); only when the operator allows it.
    pub allow_local: bool,
    /// How to log in.
    pub login: Login,
    /// The namespace of the context, `default` when absent.
    pub namespace: Option<String>,
}

/// How to log in to a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Login {
    /// No credentials.
    Anonymous,
    /// A bearer token.
    Token(Secret),
    /// A bearer token that was made for this installation, and ends.
    Issued(Token),
    /// A client certificate and key, PEM.
    Certificate {
        /// The certificate chain.
        certificate: Vec<u8>,
        /// The private key.
        key: Secret,
    },
    /// User and password.
    Basic {
        /// The user.
        username: String,
        /// The password.
        password: Secret,
    },
}

/// The user a request is made as, checked by the API server's RBAC.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Impersonation {
    /// `system:serviceaccount:NAMESPACE:NAME`.
    pub user: String,
}

impl Impersonation {
    /// A service account. As in client-go, the API server derives no groups from the name, so Flux sends the user alone.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        Self {
            user: format!("system:serviceaccount:{namespace}:{name}"),
        }
    }
}

/// A way to every cluster.
#[async_trait]
pub trait Clusters: Send + Sync {
    /// A client for `access`, acting as `user` when given. Clients are kept and shared by the adapter.
    async fn connect(
        &self,
        access: &Access,
        user: Option<&Impersonation>,
    ) -> Result<Arc<dyn Cluster>>;
}

/// An API resource, from discovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Group, version and kind.
    pub gvk: Gvk,
    /// The plural name in the URL.
    pub plural: String,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
}

/// What an API server says of itself: what charts may ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiCapabilities {
    /// `gitVersion`, such as `v1.36.0`.
    pub version: String,
    /// `v1`, `apps/v1`, `apps/v1/Deployment`, …
    pub api_versions: Vec<String>,
}

/// How an apply is made.
#[derive(Clone, Copy, Debug)]
pub struct Apply<'a> {
    /// The field manager.
    pub manager: &'a str,
    /// Take over fields that others own.
    pub force: bool,
    /// Only ask what would happen.
    pub dry_run: bool,
}

/// A patch's body.
#[derive(Clone, Debug)]
pub enum Patch {
    /// RFC 7386.
    Merge(Value),
    /// RFC 6902.
    Json(Value),
}

/// How a delete is made.
#[derive(Clone, Debug, Default)]
pub struct Delete {
    /// Only the object with this uid.
    pub uid: Option<String>,
    /// Only this version of the object.
    pub resource_version: Option<String>,
    /// `Background`, `Foreground` or `Orphan`.
    pub propagation: Option<&'static str>,
}

/// What a delete led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// It is gone, or was not there.
    Gone,
    /// It is marked, and waits for its finalizers.
    Pending,
}

/// One Kubernetes API server, as one user.
#[async_trait]
pub trait Cluster: Send + Sync {
    /// The resource of a kind; `None` when the server does not know it. A miss asks the server again, a hit is remembered.
    async fn resource(&self, gvk: &Gvk) -> Result<Option<Resource>>;
    /// The resources of a group and kind in every served version, the preferred one first.
    async fn versions(&self, group: &str, kind: &str) -> Result<Vec<Resource>>;
    /// The server's version and everything it serves, asked anew.
    async fn abilities(&self) -> Result<ApiCapabilities>;
    /// One object.
    async fn get(&self, resource: &Resource, namespace: &str, name: &str)
    -> Result<Option<Object>>;
    /// Every object of a kind, in one namespace or (empty) in all, that fits the label selector (empty: all). Pages are followed.
    async fn list(
        &self,
        resource: &Resource,
        namespace: &str,
        selector: &str,
    ) -> Result<Vec<Object>>;
    /// Server-side apply of a whole object.
    async fn apply(&self, resource: &Resource, object: &Object, how: Apply<'_>) -> Result<Object>;
    /// Creates an object under a field manager.
    async fn create(&self, resource: &Resource, object: &Object, manager: &str) -> Result<Object>;
    /// Patches an object, or its subresource (`status`), under a field manager.
    async fn patch(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        subresource: Option<&str>,
        patch: &Patch,
        manager: &str,
    ) -> Result<Object>;
    /// Deletes an object.
    async fn delete(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        how: &Delete,
    ) -> Result<Deleted>;
    /// A token for a service account that is there, with a fifth of its life left at `now` (since 1970). Who asks again is
    /// given the same one while that is so. The server stores nothing.
    async fn token(&self, ask: &TokenAsk, now: Duration) -> Result<Token>;
}

/// The time. Wall time is for people and for intervals, never for safety.
#[async_trait]
pub trait Clock: Send + Sync {
    /// Seconds since 1970, with fractions.
    fn now(&self) -> Duration;
    /// Waits.
    async fn sleep(&self, time: Duration);
    /// Ends when so much time is over. Whoever only bounds other work by it does not move a clock of tests.
    async fn timeout(&self, time: Duration);
    /// Random bytes: nonces and event names.
    fn nonce(&self) -> [u8; 16];
}

/// Where computations run that take long, such as builds: those who wait for an answer are not kept waiting by them.
#[async_trait]
pub trait Compute: Send + Sync {
    /// Runs `work` to its end, also when nobody waits for it any more.
    async fn run(&self, work: Box<dyn FnOnce() + Send>);
}

/// Computes where it is asked to: whoever wants the same order each time needs that.
pub struct Inline;

#[async_trait]
impl Compute for Inline {
    async fn run(&self, work: Box<dyn FnOnce() + Send>) {
        work();
    }
}

/// Every port in one hand: what a step works with.
#[derive(Clone)]
pub struct Ports {
    /// Git hosts.
    pub git: Arc<dyn Git>,
    /// Hosts of charts and OCI artifacts.
    pub charts: Arc<dyn Charts>,
    /// Buckets that are sources.
    pub buckets: Arc<dyn Buckets>,
    /// The bucket.
    pub blobs: Arc<dyn Blobs>,
    /// The queue.
    pub queue: Arc<dyn Queue>,
    /// The secret manager.
    pub secrets: Arc<dyn SecretStore>,
    /// Clusters.
    pub clusters: Arc<dyn Clusters>,
    /// Clouds.
    pub clouds: Clouds,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Long computations.
    pub compute: Arc<dyn Compute>,
    /// Artifacts that were unpacked for a step, for the next one.
    pub unpacked: Arc<Unpacked>,
    /// The directories of blobs that this process has read.
    pub read: Arc<BlobCache>,
    /// What each tenant has left at each host.
    pub throttle: Arc<Throttle>,
}

impl Ports {
    /// What a long computation gives.
    ///
    /// # Errors
    /// It ended without a result, because it panicked.
    pub async fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let (done, result) = oneshot::channel();
        let work = move || {
            // Nobody waits for it any more: then nobody needs it.
            let _ = done.send(work());
        };
        self.compute.run(Box::new(work)).await;
        result.await.map_err(|_| {
            let what = "a computation ended without a result";
            PortError::new(ErrorKind::Unavailable, what)
        })
    }
}
