//! What a scenario works with, whichever world plays it: the real parts (`crate::world`) or all of it in this process
//! ([`crate::embedded`]).

use driftless_harness::cluster::{Cluster, Refused, Request};
use driftless_harness::github::{Change, Delivery};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// How long something may take.
pub const LIMIT: Duration = Duration::from_secs(300);

/// A hub's place in its fleet repository.
pub struct HubSpec<'a> {
    /// Its name.
    pub name: &'a str,
    /// Empty: none, what is on the hub is served.
    pub repository: &'a str,
    /// The branch that it follows.
    pub branch: &'a str,
    /// The directory of its cluster.
    pub path: &'a str,
}

/// GitHub, clusters, and something that runs the steps.
pub trait Site {
    /// A hub or remote cluster.
    fn cluster(&self, name: &str) -> &dyn Node;
    /// Makes a public repository with a directory's content as branch `main`.
    fn import(&self, repository: &str, directory: &Path);
    /// Makes a repository private, but for tokens that may read it.
    fn set_private(&self, repository: &str, tokens: &[&str]);
    /// The head of `main`.
    fn head(&self, repository: &str) -> String;
    /// Commits to `main` without telling anybody.
    fn commit(&self, repository: &str, changes: &[Change]) -> String;
    /// Commits to `main` and sends the webhook; what became of it.
    fn push(&self, repository: &str, changes: &[Change]) -> Vec<Delivery>;
    /// Sends a delivery once more.
    fn redeliver(&self, delivery: &Delivery) -> Vec<Delivery>;
    /// Posts a body to the webhook with this signature; the status.
    fn post(&self, body: &[u8], signature: &str) -> u16;
    /// How many requests the queue has.
    fn queued(&self) -> usize;
    /// Runs the timer now.
    fn sweep(&self);
    /// Queues a look at an object.
    fn request(&self, hub: &str, kind: &str, namespace: &str, name: &str);
    /// Waits until the queue is empty and stays so.
    fn settle(&self);
    /// Waits until `check` is content; panics with what it said last.
    fn until(&self, limit: Duration, what: &str, check: &mut dyn FnMut() -> Result<(), String>);
}

impl dyn Site + '_ {
    /// Waits until `check` is content.
    pub fn eventually(&self, what: &str, mut check: impl FnMut() -> Result<(), String>) {
        self.until(LIMIT, what, &mut check);
    }
}

/// One API server.
pub trait Node {
    /// Its name.
    fn name(&self) -> &str;
    /// Sends a request as an administrator.
    fn send(
        &self,
        method: &str,
        path: &str,
        media: &str,
        body: Option<&Value>,
    ) -> Result<Value, Refused>;
    /// Every request so far.
    fn requests(&self) -> Vec<Request>;
    /// Write requests so far, as the server itself counts them; without events and the server's own bookkeeping.
    fn writes(&self) -> u64;
    /// A kubeconfig of an administrator.
    fn kubeconfig(&self) -> String;
    /// Goes dark.
    fn stop(&self);
    /// Comes back as it was.
    fn resume(&self);
}

impl dyn Node + '_ {
    /// An object; panics when it is not there.
    pub fn get(&self, path: &str) -> Value {
        self.find(path)
            .unwrap_or_else(|| panic!("{}: no {path}", self.name()))
    }

    /// An object.
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

    /// Makes a namespace that may be there.
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

/// A custom resource's path on the API server.
pub fn path(kind: &str, namespace: &str, name: &str) -> String {
    let (group, version, plural) = match kind {
        "Kustomization" => ("kustomize.toolkit.fluxcd.io", "v1", "kustomizations"),
        "GitRepository" => ("source.toolkit.fluxcd.io", "v1", "gitrepositories"),
        "OCIRepository" => ("source.toolkit.fluxcd.io", "v1", "ocirepositories"),
        "Bucket" => ("source.toolkit.fluxcd.io", "v1", "buckets"),
        "HelmRepository" => ("source.toolkit.fluxcd.io", "v1", "helmrepositories"),
        "HelmChart" => ("source.toolkit.fluxcd.io", "v1", "helmcharts"),
        "HelmRelease" => ("helm.toolkit.fluxcd.io", "v2", "helmreleases"),
        "Deployment" => ("apps", "v1", "deployments"),
        "ConfigMap" => return core("configmaps", namespace, name),
        "Secret" => return core("secrets", namespace, name),
        "Service" => return core("services", namespace, name),
        "Namespace" => return format!("/api/v1/namespaces/{name}"),
        other => panic!("no path for {other}"),
    };
    let slash = if name.is_empty() { "" } else { "/" };
    format!("/apis/{group}/{version}/namespaces/{namespace}/{plural}{slash}{name}")
}

fn core(plural: &str, namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/{plural}/{name}")
}

/// The Ready condition of a Flux object, as `status reason message`.
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

/// Fails unless a Kustomization is ready at a revision that ends in `sha`.
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

/// The writes of a cluster since a mark, without Events.
pub fn writes_since(cluster: &dyn Node, mark: usize) -> Vec<Request> {
    cluster
        .requests()
        .into_iter()
        .skip(mark)
        .filter(|request| {
            request.is_write() && request.resource != "events" && !request.uri.contains("dryRun")
        })
        .collect()
}

/// Where clusters are before something that must not write: the API server's own counts, and the log to tell what it was.
pub struct Still<'c>(Vec<(&'c dyn Node, u64, usize)>);

impl<'c> Still<'c> {
    /// Begins to watch them.
    pub fn watch(clusters: &[&'c dyn Node]) -> Self {
        let now = |cluster: &&'c dyn Node| (*cluster, cluster.writes(), mark(*cluster));
        Self(clusters.iter().map(now).collect())
    }

    /// Panics with the requests when there was a write.
    pub fn check(self) {
        for (cluster, before, mark) in self.0 {
            let writes = cluster.writes() - before;
            let told: Vec<String> = writes_since(cluster, mark)
                .iter()
                .map(|write| {
                    format!(
                        "{} {} {} {}",
                        write.verb, write.uri, write.code, write.as_user
                    )
                })
                .collect();
            let name = cluster.name();
            assert!(told.is_empty(), "{name}: {}", told.join("\n"));
            assert_eq!(writes, 0, "{name}: writes that its log does not have");
        }
    }
}

/// Where a cluster's requests are now.
pub fn mark(cluster: &dyn Node) -> usize {
    cluster.requests().len()
}

/// The deliveries of a push were all taken.
pub fn accepted(deliveries: &[Delivery]) {
    assert!(!deliveries.is_empty(), "no webhook was sent");
    for delivery in deliveries {
        assert!(
            delivery.status.is_some_and(|status| status < 300),
            "{delivery:?}"
        );
    }
}
