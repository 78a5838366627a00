//! The ports: what the core needs from outside, as traits with the core's own types. Adapters
//! implement them; no signature has a type of an SDK.

pub mod blob_key;
mod blobs;
mod buckets;
mod charts;
mod clouds;
mod follow;
mod git;
mod key_services;
mod layer;
mod notifiers;
mod origin;
mod pages;
mod pull_requests;
mod pushes;
mod throttle;
mod tokens;
mod watches;
mod write_gate;

pub use blobs::BlobCache;
pub use buckets::{
    AzureBucketLogin, Bucket, BucketAddress, BucketEntry, BucketLogin, BucketObject, Buckets,
    LdapLogin,
};
pub use charts::{Charts, Connection, DownloadOutcome, Layer, Manifest, Referrer, Validator};
pub use clouds::{
    AcrRegistry, AksCluster, Aws, AwsIdentity, Azure, Clouds, ClusterEndpoint, CodeCommit,
    EcrRegistry, EksCluster, EntraIdentity, EntraProof, GkeCluster, Google, GoogleIdentity,
    RegistryLogin, is_google_registry,
};
pub use follow::{FollowEvent, FollowRequest, Following};
pub use git::{Commit, FetchLimits, Git, GitAuth, GitServer, SignedObjects, SshKey};
pub use key_services::*;
pub use layer::ClusterLayer;
pub use notifiers::Notifiers;
pub use origin::{Origin, TraceIds, TraceParent, delivery_id};
pub use pages::all_pages;
pub use pull_requests::{
    Annotation, AnnotationLevel, Check, Comment, Conclusion, PlanRequest, PullRequest, PullRequests,
};
pub use pushes::PushedCommit;
pub use throttle::Throttle;
pub use tokens::{Token, TokenRequest};
pub use watches::{Alerts, Values, WatchCache, WatchSnapshot};
pub use write_gate::{Gate, GatedCluster, GatedClusters};

use crate::file_cache::FileCache;
use async_trait::async_trait;
use bytes::Bytes;
use driftless_flux::ObjectRef;
use driftless_manifest::{Gvk, Object};
use futures::channel::oneshot;
use futures::future::{BoxFuture, Either, select};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// The kind of a [`PortError`], as far as the core must distinguish cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The resource does not exist, or the server hides it from a caller without access.
    NotFound,
    /// Credentials are missing, wrong or not sufficient.
    Denied,
    /// Another writer was first (409, 412).
    Conflict,
    /// The request itself is wrong (400, 422): the same request fails again.
    Invalid,
    /// Too many requests; `retry_after` holds how long to wait.
    RateLimited,
    /// No answer, or an answer that asks to try later: the outcome of a write is unknown.
    Unavailable,
    /// An answer of an unexpected form (HTML, a truncated body, a wrong checksum). Never the same
    /// as "empty".
    Unreadable,
    /// This installation does not support the request.
    Unsupported,
}

/// The error of a port. The message names what was tried; it never contains a secret.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct PortError {
    /// The kind of the error.
    pub kind: ErrorKind,
    /// A description of the request and of the answer.
    pub message: String,
    /// The delay before the next try, if the server gave one.
    pub retry_after: Option<Duration>,
    /// The reason in the API server's `Status`, such as `Invalid` or `Forbidden`; empty if there is
    /// no reason.
    pub reason: String,
}

impl PortError {
    /// Returns an error without a delay and without a reason.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            retry_after: None,
            reason: String::new(),
        }
    }

    /// Returns whether the API server no longer has what a continuation token or a resourceVersion
    /// refers to. Only the reason is checked: the message about Secrets is withheld.
    pub fn is_expired(&self) -> bool {
        matches!(self.reason.as_str(), "Expired" | "Gone")
    }
}

/// The result of a port.
pub type Result<T, E = PortError> = std::result::Result<T, E>;

/// Secret bytes: `Debug` prints `[redacted]`, and there is no `Display`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(Bytes);

impl Secret {
    /// Returns a secret of these bytes.
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        Self(bytes.into())
    }

    /// Returns the bytes, for the one place that needs them.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// Returns the bytes as a string, if they are UTF-8.
    pub fn expose_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// The version of a stored blob, in the store's format.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Version(pub String);

/// The condition under which a write happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// The write is unconditional.
    None,
    /// The key must not exist.
    Absent,
    /// The stored blob must have exactly this version.
    Is(Version),
}

/// The outcome of a conditional write. An unclear outcome is `Err(Unavailable)`: read before you
/// decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PutOutcome {
    /// The blob was written and has this version.
    Done(Version),
    /// The precondition did not hold.
    PreconditionFailed,
}

/// A blob in a listing of the bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobEntry {
    /// The blob's key.
    pub key: String,
    /// The blob's size in bytes.
    pub size: u64,
    /// The blob's version; `None` if a listing does not include versions.
    pub version: Option<Version>,
}

/// The bucket: content-addressed blobs and small JSON under compare-and-swap.
#[async_trait]
pub trait Blobs: Send + Sync {
    /// Returns a blob and its version.
    async fn get(&self, key: &str) -> Result<Option<(Bytes, Version)>>;
    /// Returns the bytes of a blob in a range, or those up to its end if it is shorter; `None` if
    /// the blob does not exist.
    ///
    /// # Errors
    /// `Unreadable` if the blob has no byte of the range.
    async fn get_range(&self, key: &str, range: Range<u64>) -> Result<Option<Bytes>> {
        let Some((content, _)) = self.get(key).await? else {
            return Ok(None);
        };
        part(key, &content, range).map(Some)
    }
    /// Writes a blob if the precondition holds.
    async fn put(&self, key: &str, content: Bytes, when: Precondition) -> Result<PutOutcome>;
    /// Deletes a blob; an absent one is not an error.
    async fn delete(&self, key: &str) -> Result<()>;
    /// Deletes a blob if it still has this version; returns `false` if another one has replaced it.
    /// An absent blob is not an error.
    async fn delete_version(&self, key: &str, version: &Version) -> Result<bool>;
    /// Lists every blob whose key starts with `prefix`, in the order of the keys. Reads no content.
    async fn list(&self, prefix: &str) -> Result<Vec<BlobEntry>>;
    /// Lists the first blobs whose key starts with `prefix`, at most `most` of them.
    async fn list_some(&self, prefix: &str, most: usize) -> Result<Vec<BlobEntry>> {
        let mut all = self.list(prefix).await?;
        all.truncate(most);
        Ok(all)
    }
    /// Returns the size of a blob in bytes; `None` if it does not exist. Reads no content.
    async fn size(&self, key: &str) -> Result<Option<u64>>;
    /// Moves a blob that cannot be used out of the way, if it still has this version; its bytes are
    /// kept for inspection. An absent blob is not an error.
    async fn set_aside(&self, key: &str, version: &Version) -> Result<()>;
    /// Returns the address of a blob for people and status fields (`s3://bucket/key`,
    /// `file:///directory/key`).
    fn url(&self, key: &str) -> String;
    /// Returns a link with which anyone can read a blob for this time at most; `None` if the store
    /// has no such links. The blob need not exist.
    async fn link(&self, _key: &str, _valid: Duration) -> Result<Option<String>> {
        Ok(None)
    }
}

/// Returns the bytes of a blob's content in a range, as [`Blobs::get_range`] does.
///
/// # Errors
/// `Unreadable` if the content has no byte of the range.
pub fn part(key: &str, content: &Bytes, range: Range<u64>) -> Result<Bytes> {
    let length = content.len() as u64;
    if range.start >= length || range.end < range.start {
        let message = format!("{key}: the blob ends before byte {}", range.start);
        return Err(PortError::new(ErrorKind::Unreadable, message));
    }
    let place = |at: u64| usize::try_from(at.min(length)).unwrap_or(content.len());
    Ok(content.slice(place(range.start)..place(range.end)))
}

/// The cause of a step.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Cause {
    /// A verified push.
    Push,
    /// The timer: the interval is over, or a message may be lost.
    Timer,
    /// The live objects differ from those that were applied.
    Drift,
    /// The source has a new artifact.
    Source,
    /// A dependency of the object is ready, or has failed.
    Dependency,
    /// The object is new, or was changed, deleted, or requested by a user.
    Changed,
    /// The step requeued itself: a wait or a retry.
    #[serde(alias = "again")]
    Requeue,
}

impl Cause {
    /// Returns the cause in words, as in `the step ran after a push`.
    pub fn in_words(&self) -> &'static str {
        match self {
            Self::Push => "after a push",
            Self::Timer => "by the timer",
            Self::Drift => "after drift",
            Self::Source => "after a new artifact",
            Self::Dependency => "after a dependency",
            Self::Changed => "after a change",
            Self::Requeue => "continued",
        }
    }

    /// Returns whether the step reads the live objects even if no file has changed.
    pub fn reads_cluster(&self) -> bool {
        match self {
            Self::Timer | Self::Drift | Self::Changed | Self::Requeue => true,
            Self::Push | Self::Source | Self::Dependency => false,
        }
    }

    /// Returns the cause of one step for both causes: that which makes the step do more. A message
    /// of the timer can be dropped, so with another cause it is as a step that requeued itself.
    #[must_use]
    pub fn stronger(self, other: &Self) -> Self {
        match (self, other) {
            (Self::Timer, Self::Timer) => Self::Timer,
            (Self::Timer, cause) if cause.reads_cluster() => cause.clone(),
            (cause, Self::Timer) if cause.reads_cluster() => cause,
            (Self::Timer, _) | (_, Self::Timer) => Self::Requeue,
            (_, Self::Changed) => Self::Changed,
            (cause, other) if !cause.reads_cluster() && other.reads_cluster() => other.clone(),
            (cause, _) => cause,
        }
    }
}

/// A request to run a step of an object. Duplicates and order do not matter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// The hub's name in the registry.
    pub hub: String,
    /// The object of the step.
    pub object: ObjectRef,
    /// The cause of the step.
    pub cause: Cause,
    /// The token of the message that requeues an object ([`crate::schedule`]). Absent in a request
    /// of a webhook, a source, the timer or a dependency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// True if the step runs apart from those of other objects, in a process with more memory.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub isolated: bool,
    /// The time at which the webhook received the delivery that the request is for, in milliseconds
    /// since 1970. Absent in other requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received: Option<u64>,
    /// The commit that the delivery describes, for the audit log. Absent in other requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<PushedCommit>,
    /// Kustomizations that follow the object, which is a source: not the object has a step, but
    /// each of these whose revision alone moves. The others are queued.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consumers: Vec<ObjectRef>,
    /// The event that began the work. Absent in a request that begins work, and in messages of
    /// earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

impl Request {
    /// Returns a request without a token.
    pub fn new(hub: impl Into<String>, object: ObjectRef, cause: Cause) -> Self {
        Self {
            hub: hub.into(),
            object,
            cause,
            token: None,
            isolated: false,
            received: None,
            commit: None,
            consumers: Vec::new(),
            origin: None,
        }
    }

    /// Returns the request of a delivery that was received at a time since 1970.
    #[must_use]
    pub fn received_at(self, time: Duration) -> Self {
        Self {
            received: u64::try_from(time.as_millis()).ok(),
            ..self
        }
    }

    /// Merges another request for the same object into this one: the cause that makes the step do
    /// more, and the earlier of two deliveries, with the commit of the later one. Of two origins,
    /// the first remains.
    pub fn merge(&mut self, other: &Self) {
        self.cause = self.cause.clone().stronger(&other.cause);
        let received = [self.received, other.received];
        self.received = received.into_iter().flatten().min();
        if other.commit.is_some() {
            self.commit.clone_from(&other.commit);
        }
        if self.origin.is_none() {
            self.origin.clone_from(&other.origin);
        }
    }
}

/// A message that requests the sweep of a hub.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepRequest {
    /// The hub's name.
    pub sweep: String,
}

/// The queue of work.
#[async_trait]
pub trait Queue: Send + Sync {
    /// Queues every request with its delay (at most 15 minutes); returns when the queue has them
    /// all.
    async fn send(&self, requests: Vec<(Request, Duration)>) -> Result<()>;

    /// Sets when a message that was received and not processed is delivered again; `source` (on AWS
    /// the queue's ARN) and `receipt` came with the message. Without this call it is delivered when
    /// the queue's visibility timeout is over. A queue that gives no receipts does nothing.
    async fn redeliver(&self, _source: &str, _receipt: &str, _after: Duration) -> Result<()> {
        Ok(())
    }

    /// Queues a sweep of each hub, each in a separate invocation. Returns `false` if this queue
    /// does not carry sweeps: then the caller sweeps the hubs.
    async fn sweep(&self, _hubs: &[String]) -> Result<bool> {
        Ok(false)
    }

    /// Queues the plan of a pull request. Returns `false` if this installation makes no plans.
    async fn plan(&self, _request: &PlanRequest) -> Result<bool> {
        Ok(false)
    }
}

/// The port to the secret manager.
#[async_trait]
pub trait SecretStore: Send + Sync {
    /// Returns the secret of that name below the installation's prefix, such as `hubs/staging` or
    /// `tenants/staging/apps`.
    async fn secret(&self, name: &str) -> Result<Option<Secret>>;
}

/// The address and the credentials of a cluster. Made only by [`crate::kubeconfig`]'s parser and
/// [`crate::target`]: inline data and https only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The URL of the API server: `https://host:port/path`.
    pub server: String,
    /// The certificate authorities as PEM; the system's if absent.
    pub certificate_authority: Option<Vec<u8>>,
    /// The name to check the certificate against, if it is not the server's.
    pub tls_server_name: Option<String>,
    /// True if the server's certificate is not checked; only if the operator allows it.
    pub insecure_skip_tls_verify: bool,
    /// True if addresses that lead back into this installation ([`crate::address`]) may be reached;
    /// only if the operator allows it.
    pub allow_local: bool,
    /// The credentials for the server.
    pub login: Login,
    /// The namespace of the context, `default` if absent.
    pub namespace: Option<String>,
}

/// A digest of a list of parts: different lists have different digests.
#[derive(Default)]
pub struct PartsDigest(Sha256);

impl PartsDigest {
    /// Adds a part.
    pub fn part(&mut self, bytes: &[u8]) {
        // The length before each part keeps different lists of parts from the same bytes.
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
    }

    /// Returns the digest in hex.
    pub fn hex(self) -> String {
        hex::encode(self.0.finalize())
    }
}

impl Access {
    /// Returns a digest of the server and the login. It is the same for all tokens that are issued
    /// for this installation, because each one is replaced after minutes.
    pub fn identity(&self) -> String {
        let mut digest = PartsDigest::default();
        let mut part = |bytes: &[u8]| digest.part(bytes);
        part(self.server.as_bytes());
        part(self.certificate_authority.as_deref().unwrap_or_default());
        part(
            self.tls_server_name
                .as_deref()
                .unwrap_or_default()
                .as_bytes(),
        );
        match &self.login {
            Login::Anonymous => part(b"anonymous"),
            Login::Token(token) => {
                part(b"token");
                part(token.expose());
            }
            Login::Issued(_) => part(b"issued"),
            Login::Certificate { certificate, key } => {
                part(b"certificate");
                part(certificate);
                part(key.expose());
            }
            Login::Basic { username, password } => {
                part(b"basic");
                part(username.as_bytes());
                part(password.expose());
            }
        }
        digest.hex()
    }
}

/// The credentials for a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Login {
    /// No credentials are sent.
    Anonymous,
    /// A bearer token.
    Token(Secret),
    /// A bearer token that was issued for this installation, and expires.
    Issued(Token),
    /// A client certificate and its key, as PEM.
    Certificate {
        /// The certificate chain.
        certificate: Vec<u8>,
        /// The private key.
        key: Secret,
    },
    /// A user name and a password.
    Basic {
        /// The user name.
        username: String,
        /// The password of that user.
        password: Secret,
    },
}

/// The user that a request is made as, checked by the API server's RBAC.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Impersonation {
    /// The name of the user: `system:serviceaccount:NAMESPACE:NAME`.
    pub user: String,
}

impl Impersonation {
    /// Returns the user of a service account. As with client-go, the API server derives no groups
    /// from the name, so Flux sends only the user.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        Self {
            user: format!("system:serviceaccount:{namespace}:{name}"),
        }
    }
}

/// The port that connects to clusters.
#[async_trait]
pub trait Clusters: Send + Sync {
    /// Returns a client for `access` that acts as `user` if there is one. The adapter keeps and
    /// shares clients.
    async fn connect(
        &self,
        access: &Access,
        user: Option<&Impersonation>,
    ) -> Result<Arc<dyn Cluster>>;
}

/// An API resource, from discovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// The group, version and kind.
    pub gvk: Gvk,
    /// The plural name that is used in URLs.
    pub plural: String,
    /// True if its objects are in namespaces.
    pub namespaced: bool,
}

/// The version and the APIs of an API server, which charts may read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiCapabilities {
    /// The server's `gitVersion`, such as `v1.36.0`.
    pub version: String,
    /// The APIs that are served: `v1`, `apps/v1`, `apps/v1/Deployment`, …
    pub api_versions: Vec<String>,
}

/// The objects of a kind that are listed.
#[derive(Clone, Copy, Debug)]
pub struct ListRequest<'a> {
    /// The resource of the objects.
    pub resource: &'a Resource,
    /// The namespace of the objects; empty for all namespaces.
    pub namespace: &'a str,
    /// The label selector that the objects match; empty for all objects.
    pub selector: &'a str,
}

impl<'a> ListRequest<'a> {
    /// Returns the request for all objects of a kind, in all namespaces.
    #[must_use]
    pub const fn all(resource: &'a Resource) -> Self {
        Self {
            resource,
            namespace: "",
            selector: "",
        }
    }
}

/// The server-side apply of a whole object.
#[derive(Clone, Copy, Debug)]
pub struct ApplyRequest<'a> {
    /// The resource of the object.
    pub resource: &'a Resource,
    /// The object that is applied.
    pub object: &'a Object,
    /// The name of the field manager.
    pub manager: &'a str,
    /// True if fields that other managers own are taken over.
    pub force: bool,
    /// True for a dry run.
    pub dry_run: bool,
}

/// The body of a patch.
#[derive(Clone, Debug)]
pub enum Patch {
    /// A merge patch (RFC 7386).
    Merge(Value),
    /// A JSON patch (RFC 6902).
    Json(Value),
}

/// The patch of an object or of its subresource.
#[derive(Clone, Copy, Debug)]
pub struct PatchRequest<'a> {
    /// The resource of the object.
    pub resource: &'a Resource,
    /// The namespace of the object; empty for an object of the cluster.
    pub namespace: &'a str,
    /// The name of the object.
    pub name: &'a str,
    /// The subresource that is patched, such as `status`.
    pub subresource: Option<&'a str>,
    /// The body of the request.
    pub patch: &'a Patch,
    /// The name of the field manager.
    pub manager: &'a str,
}

/// The options of a delete.
#[derive(Clone, Debug, Default)]
pub struct Delete {
    /// Deletes only the object with this uid.
    pub uid: Option<String>,
    /// Deletes only this version of the object.
    pub resource_version: Option<String>,
    /// The propagation policy: `Background`, `Foreground` or `Orphan`.
    pub propagation: Option<&'static str>,
}

/// The outcome of a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// The object is gone, or did not exist.
    Gone,
    /// The object is marked for deletion, and waits for its finalizers.
    Pending,
}

/// One page of a list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// The objects of the page.
    pub objects: Vec<Object>,
    /// The token of the next page; empty after the last one.
    pub next: String,
    /// The resourceVersion of the list, from which it can be watched; empty if it cannot.
    pub version: String,
}

impl Page {
    /// Returns all objects as one page, from which nothing can be watched.
    fn whole(objects: Vec<Object>) -> Self {
        Self {
            objects,
            ..Self::default()
        }
    }
}

/// The change of an object in a watch.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The object is new or has another state.
    Written(Object),
    /// The object is gone, or no longer matches the selector.
    Deleted(Object),
}

/// The result of a watch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// The changes, oldest first.
    pub changes: Vec<Change>,
    /// The resourceVersion from which the next watch continues.
    pub version: String,
}

impl Changes {
    /// Returns the error of a client that cannot watch.
    fn unsupported() -> Result<Self> {
        let message = "this client of a cluster cannot watch";
        Err(PortError::new(ErrorKind::Unsupported, message))
    }
}

/// One Kubernetes API server, as one user.
#[async_trait]
pub trait Cluster: Send + Sync {
    /// Returns the resource of a kind; `None` if the server does not serve it. A hit is cached;
    /// after a miss the server is asked again.
    async fn resource(&self, gvk: &Gvk) -> Result<Option<Resource>>;
    /// Returns the resources of a group and kind in every served version, the preferred one first.
    async fn versions(&self, group: &str, kind: &str) -> Result<Vec<Resource>>;
    /// Returns the server's version and every API that it serves, without a cache.
    async fn abilities(&self) -> Result<ApiCapabilities>;
    /// Reads an object; `None` if it does not exist.
    async fn get(&self, resource: &Resource, namespace: &str, name: &str)
    -> Result<Option<Object>>;
    /// Lists every object that is requested. Follows pages.
    async fn list(&self, request: &ListRequest<'_>) -> Result<Vec<Object>>;
    /// Lists one page of the objects of a kind in all namespaces that match the label selector:
    /// the first one if `next` is empty. The error of a token that is too old
    /// [is expired](PortError::is_expired). A client that cannot watch returns all objects.
    async fn page(&self, resource: &Resource, selector: &str, _next: &str) -> Result<Page> {
        let all = ListRequest::all(resource);
        let objects = self.list(&ListRequest { selector, ..all }).await?;
        Ok(Page::whole(objects))
    }
    /// Returns the changes since a resourceVersion, of the objects that [`Cluster::page`] lists.
    /// Ends with a bookmark, or after `time` (whole seconds). With a `time` of zero, it ends as
    /// soon as the server has sent what it knows. Changes that come too late are those of the next
    /// watch.
    ///
    /// # Errors
    /// The error [is expired](PortError::is_expired) if the server no longer has all changes since
    /// `version`: list again.
    async fn watch(
        &self,
        _resource: &Resource,
        _selector: &str,
        _version: &str,
        _time: Duration,
    ) -> Result<Changes> {
        Changes::unsupported()
    }
    /// Follows objects: a LIST, and then each change, without an end. A client that cannot watch
    /// returns the error `Unsupported`.
    fn follow(&self, _request: &FollowRequest) -> Following {
        follow::unsupported()
    }
    /// Applies a whole object by server-side apply, and returns the result.
    async fn apply(&self, request: &ApplyRequest<'_>) -> Result<Object>;
    /// Creates an object under a field manager.
    async fn create(&self, resource: &Resource, object: &Object, manager: &str) -> Result<Object>;
    /// Patches an object, or its subresource (`status`), under a field manager.
    async fn patch(&self, request: &PatchRequest<'_>) -> Result<Object>;
    /// Deletes an object.
    async fn delete(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        options: &Delete,
    ) -> Result<Deleted>;
    /// Returns a token of an existing service account with at least a fifth of its lifetime left at
    /// `now` (since 1970). Repeated calls return the same token while that holds. The server stores
    /// nothing.
    async fn token(&self, ask: &TokenRequest, now: Duration) -> Result<Token>;
}

/// The clock. Wall time is for people and for intervals, never for safety.
#[async_trait]
pub trait Clock: Send + Sync {
    /// Returns the time since 1970, with fractions of a second.
    fn now(&self) -> Duration;
    /// Waits for `time`.
    async fn sleep(&self, time: Duration);
    /// Ends after `time`. For the limit of other work: a test clock does not advance for it.
    async fn timeout(&self, time: Duration);
    /// Returns random bytes, for nonces and event names.
    fn nonce(&self) -> [u8; 16];
}

/// Returns the result of `work`, or `None` if it takes longer than `limit`.
pub async fn in_time<T>(clock: &dyn Clock, limit: Duration, work: BoxFuture<'_, T>) -> Option<T> {
    // The timeout first: its time begins before that of the work.
    match select(clock.timeout(limit), work).await {
        Either::Left(_) => None,
        Either::Right((done, _)) => Some(done),
    }
}

/// Runs long computations, such as builds, so that they do not delay tasks that wait for I/O.
#[async_trait]
pub trait Compute: Send + Sync {
    /// Runs `work`, which needs about this many bytes of memory, to its end, even if its caller no
    /// longer waits. It starts when the computations of the process leave that many bytes.
    async fn run(&self, bytes: u64, work: Box<dyn FnOnce() + Send>);
}

/// Runs a long computation, which needs about this many bytes of memory, and returns its result.
///
/// # Errors
/// `Unavailable` if the computation panicked.
pub async fn compute<T: Send + 'static>(
    port: &dyn Compute,
    bytes: u64,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    let (done, result) = oneshot::channel();
    let work = move || {
        // An error means that the caller no longer waits, so the result is not needed.
        let _ = done.send(work());
    };
    port.run(bytes, Box::new(work)).await;
    result.await.map_err(|_| {
        let message = "a computation ended without a result";
        PortError::new(ErrorKind::Unavailable, message)
    })
}

/// Runs computations in the caller's own task, for tests that need the same order each time.
pub struct Inline;

#[async_trait]
impl Compute for Inline {
    async fn run(&self, _: u64, work: Box<dyn FnOnce() + Send>) {
        work();
    }
}

/// All ports that a step works with.
#[derive(Clone)]
pub struct Ports {
    /// The port to Git hosts.
    pub git: Arc<dyn Git>,
    /// The port to hosts of charts and OCI artifacts.
    pub charts: Arc<dyn Charts>,
    /// The port to buckets that are sources.
    pub buckets: Arc<dyn Buckets>,
    /// The installation's bucket.
    pub blobs: Arc<dyn Blobs>,
    /// The installation's queue.
    pub queue: Arc<dyn Queue>,
    /// The installation's secret manager.
    pub secrets: Arc<dyn SecretStore>,
    /// The port to clusters.
    pub clusters: Arc<dyn Clusters>,
    /// The ports to clouds.
    pub clouds: Clouds,
    /// The port to the services that get events.
    pub notifiers: Arc<dyn Notifiers>,
    /// The clock of the process.
    pub clock: Arc<dyn Clock>,
    /// The port that runs long computations.
    pub compute: Arc<dyn Compute>,
    /// The files of artifacts that steps of this process have read, kept for the next steps.
    pub files: Arc<FileCache>,
    /// The directories of blobs that this process has read from the bucket.
    pub read: Arc<BlobCache>,
    /// The objects of clusters that sweeps of this process know.
    pub watches: Arc<WatchCache>,
    /// The budgets of requests of each tenant at each host.
    pub throttle: Arc<Throttle>,
}

impl Ports {
    /// Runs a long computation that needs little memory, and returns its result.
    ///
    /// # Errors
    /// `Unavailable` if the computation panicked.
    pub async fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        compute(self.compute.as_ref(), 0, work).await
    }
}
