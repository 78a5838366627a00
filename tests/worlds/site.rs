//! The interface that a scenario uses, with two implementations: the real parts (`world` of the
//! acceptance tests) and all parts in this process ([`crate::embedded`]).

use driftless_flux::FluxKind;
use driftless_harness::cluster::{Cluster, Refused, Request};
use driftless_harness::github::{Change, Delivery};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// The default timeout of a wait.
pub const LIMIT: Duration = Duration::from_secs(300);

/// A hub and its directory in the fleet repository.
#[derive(Clone, Copy)]
pub struct HubSpec<'a> {
    /// The name of the hub.
    pub name: &'a str,
    /// The fleet repository. If it is empty, the hub has no root: it serves the objects that it
    /// has.
    pub repository: &'a str,
    /// The branch that the hub follows.
    pub branch: &'a str,
    /// The hub's directory in the repository.
    pub path: &'a str,
}

/// Returns a hub of the name `hub` that follows `clusters/hub` of a repository's branch `main`.
pub const fn one_hub(repository: &str) -> [HubSpec<'_>; 1] {
    [HubSpec {
        name: "hub",
        repository,
        branch: "main",
        path: "./clusters/hub",
    }]
}

/// GitHub, clusters, and a worker that runs the steps.
pub trait Site {
    /// Returns a hub or remote cluster.
    fn cluster(&self, name: &str) -> &dyn Node;
    /// Makes a public repository with a directory's content as branch `main`.
    fn import(&self, repository: &str, directory: &Path);
    /// Makes a repository private; only these tokens may read it.
    fn set_private(&self, repository: &str, tokens: &[&str]);
    /// Returns the head of `main`.
    fn head(&self, repository: &str) -> String;
    /// Commits to `main` without a webhook. Returns the commit.
    fn commit(&self, repository: &str, changes: &[Change]) -> String;
    /// Commits to `main` and sends the webhook. Returns its deliveries.
    fn push(&self, repository: &str, changes: &[Change]) -> Vec<Delivery>;
    /// Sends a delivery again.
    fn redeliver(&self, delivery: &Delivery) -> Vec<Delivery>;
    /// Posts a body to the webhook with this signature. Returns the status.
    fn post(&self, body: &[u8], signature: &str) -> u16;
    /// Returns the number of requests in the queue.
    fn queued(&self) -> usize;
    /// Runs a sweep, as the timer does.
    fn sweep(&self);
    /// Queues a step of an object.
    fn request(&self, hub: &str, kind: &str, namespace: &str, name: &str);
    /// Waits until the queue is empty and stays so.
    fn settle(&self);
    /// Waits until `check` succeeds; panics with its last error after `limit`. `description` names
    /// what is awaited.
    fn until(
        &self,
        limit: Duration,
        description: &str,
        check: &mut dyn FnMut() -> Result<(), String>,
    );
}

impl dyn Site + '_ {
    /// Waits until `check` succeeds, at most [`LIMIT`].
    pub fn eventually(&self, description: &str, mut check: impl FnMut() -> Result<(), String>) {
        self.until(LIMIT, description, &mut check);
    }
}

/// One API server.
pub trait Node {
    /// Returns the cluster's name.
    fn name(&self) -> &str;
    /// Sends a request as an administrator.
    fn send(
        &self,
        method: &str,
        path: &str,
        media: &str,
        body: Option<&Value>,
    ) -> Result<Value, Refused>;
    /// Returns every request so far, oldest first.
    fn requests(&self) -> Vec<Request>;
    /// Returns the number of write requests so far, as the server counts them, without events and
    /// the server's own bookkeeping.
    fn writes(&self) -> u64;
    /// Returns a kubeconfig of an administrator.
    fn kubeconfig(&self) -> String;
    /// Makes the server unreachable.
    fn stop(&self);
    /// Makes the server reachable again, with its data.
    fn resume(&self);
}

impl dyn Node + '_ {
    /// Returns an object; panics if it does not exist.
    pub fn get(&self, path: &str) -> Value {
        self.find(path)
            .unwrap_or_else(|| panic!("{}: no {path}", self.name()))
    }

    /// Returns an object, or `None` if it does not exist.
    pub fn find(&self, path: &str) -> Option<Value> {
        match self.send("GET", path, "application/json", None) {
            Ok(object) => Some(object),
            Err(refused) if refused.code == 404 => None,
            Err(refused) => panic!("GET {path}: {refused}"),
        }
    }

    /// Creates an object.
    pub fn create(&self, path: &str, object: &Value) {
        self.must("POST", path, "application/json", Some(object));
    }

    /// Merges a patch into an object.
    pub fn patch(&self, path: &str, patch: &Value) {
        self.must("PATCH", path, "application/merge-patch+json", Some(patch));
    }

    /// Deletes an object.
    pub fn delete(&self, path: &str) {
        self.must("DELETE", path, "application/json", None);
    }

    /// Creates a namespace if it does not exist.
    pub fn namespace(&self, name: &str) {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let path = format!("/api/v1/namespaces/{name}?fieldManager=platform-team&force=true");
        self.must(
            "PATCH",
            &path,
            "application/apply-patch+yaml",
            Some(&object),
        );
    }

    /// Creates a Secret.
    pub fn secret(&self, namespace: &str, name: &str, data: &Value) {
        let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data});
        self.create(&format!("/api/v1/namespaces/{namespace}/secrets"), &object);
    }

    fn must(&self, method: &str, path: &str, media: &str, body: Option<&Value>) {
        let sent = self.send(method, path, media, body);
        sent.unwrap_or_else(|refused| panic!("{}: {method} {path}: {refused}", self.name()));
    }
}

impl Node for Cluster {
    fn name(&self) -> &str {
        Cluster::name(self)
    }

    fn send(
        &self,
        method: &str,
        path: &str,
        media: &str,
        body: Option<&Value>,
    ) -> Result<Value, Refused> {
        self.api().request(method, path, media, body)
    }

    fn requests(&self) -> Vec<Request> {
        Cluster::requests(self)
    }

    fn writes(&self) -> u64 {
        Cluster::writes(self).total()
    }

    fn kubeconfig(&self) -> String {
        Cluster::kubeconfig(self)
    }

    fn stop(&self) {
        Cluster::stop(self);
    }

    fn resume(&self) {
        Cluster::resume(self);
    }
}

/// Returns an object's path on the API server; without a name, that of the collection.
pub fn path(kind: &str, namespace: &str, name: &str) -> String {
    let (group, version, plural) = match kind {
        "Deployment" => ("apps", "v1", "deployments"),
        "ConfigMap" => return core("configmaps", namespace, name),
        "Secret" => return core("secrets", namespace, name),
        "Service" => return core("services", namespace, name),
        "Namespace" => return format!("/api/v1/namespaces/{name}"),
        other => {
            let kind = FluxKind::parse(other).unwrap_or_else(|| panic!("no path for {other}"));
            (kind.group(), kind.versions()[0], kind.plural())
        }
    };
    let slash = if name.is_empty() { "" } else { "/" };
    format!("/apis/{group}/{version}/namespaces/{namespace}/{plural}{slash}{name}")
}

fn core(plural: &str, namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/{plural}/{name}")
}

/// Returns the status, reason and message of a Flux object's Ready condition; each is `none` if it
/// is missing.
pub fn ready(
    cluster: &dyn Node,
    kind: &str,
    namespace: &str,
    name: &str,
) -> (String, String, String) {
    let object = cluster
        .find(&path(kind, namespace, name))
        .unwrap_or_default();
    let conditions = object["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let found = conditions
        .into_iter()
        .find(|condition| condition["type"] == "Ready")
        .unwrap_or_default();
    let text = |key: &str| found[key].as_str().unwrap_or("none").to_owned();
    (text("status"), text("reason"), text("message"))
}

/// Checks that a Kustomization is ready at a revision that ends with `sha`; the error describes its
/// state.
pub fn is_ready(cluster: &dyn Node, namespace: &str, name: &str, sha: &str) -> Result<(), String> {
    let (status, reason, message) = ready(cluster, "Kustomization", namespace, name);
    let object = cluster
        .find(&path("Kustomization", namespace, name))
        .unwrap_or_default();
    let revision = object["status"]["lastAppliedRevision"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    if status == "True" && revision.ends_with(sha) {
        Ok(())
    } else {
        Err(format!(
            "{}: {namespace}/{name}: {status} {reason}: {message} ({revision})",
            cluster.name()
        ))
    }
}

/// Returns the writes of a cluster without the first `start` requests, Events and dry runs.
pub fn writes_since(cluster: &dyn Node, start: usize) -> Vec<Request> {
    cluster
        .requests()
        .into_iter()
        .skip(start)
        .filter(|request| {
            request.is_write() && request.resource != "events" && !request.uri.contains("dryRun")
        })
        .collect()
}

/// Checks that clusters receive no writes: compares the API servers' own counts, and lists
/// unexpected writes from their logs.
pub struct NoWrites<'c>(Vec<(&'c dyn Node, u64, usize)>);

impl<'c> NoWrites<'c> {
    /// Stores the current counts of the clusters.
    pub fn watch(clusters: &[&'c dyn Node]) -> Self {
        let now = |cluster: &&'c dyn Node| (*cluster, cluster.writes(), request_count(*cluster));
        Self(clusters.iter().map(now).collect())
    }

    /// Panics with the requests if a cluster received a write.
    pub fn check(self) {
        for (cluster, before, start) in self.0 {
            let writes = cluster.writes() - before;
            let logged: Vec<String> = writes_since(cluster, start)
                .iter()
                .map(|write| {
                    format!(
                        "{} {} {} {}",
                        write.verb, write.uri, write.code, write.as_user
                    )
                })
                .collect();
            let name = cluster.name();
            assert!(logged.is_empty(), "{name}: {}", logged.join("\n"));
            assert_eq!(writes, 0, "{name}: writes that are missing in its log");
        }
    }
}

/// Returns the number of a cluster's requests so far, for [`writes_since`].
pub fn request_count(cluster: &dyn Node) -> usize {
    cluster.requests().len()
}

/// Checks that all deliveries of a push were accepted; panics otherwise.
pub fn accepted(deliveries: &[Delivery]) {
    assert!(!deliveries.is_empty(), "no webhook was sent");
    for delivery in deliveries {
        assert!(
            delivery.status.is_some_and(|status| status < 300),
            "{delivery:?}"
        );
    }
}
