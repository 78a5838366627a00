//! The files that users commit, and the objects that clusters should have because of them.

use crate::git::Files;
use crate::world::EDGE;
use serde_json::{Value, json};
use sha1::{Digest, Sha1};
use std::collections::{BTreeMap, BTreeSet};

/// The fleet repository.
pub const FLEET: &str = "github.com/acme/fleet";
/// A tenant's own repository.
pub const APP: &str = "github.com/acme/app";
/// The namespace of Flux's objects.
pub const FLUX: &str = "flux-system";
/// The namespace of the objects that tenants apply.
pub const APPS: &str = "apps";

/// The content of a ConfigMap: the commit that changed it last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// The number of the commit.
    pub commit: u64,
}

/// One Kustomization below the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// The name of the cluster: `hub` or a remote cluster.
    pub cluster: String,
    /// True if its files are in [`APP`].
    pub own_repository: bool,
    /// The names of the tenants that it depends on.
    pub depends_on: Vec<String>,
    /// True if the Kustomization waits for its Deployment (`spec.wait`).
    pub waits: bool,
}

/// One HelmRelease of the chart in [`FLEET`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The name of the cluster: `hub` or a remote cluster.
    pub cluster: String,
    /// The commit in its values.
    pub content: Content,
    /// True if the chart makes a second object for it.
    pub has_extra: bool,
    /// True if a failed action is retried (`RetryOnFailure`).
    pub retries: bool,
}

/// The way in which the files of a tenant are broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// A file that is not YAML.
    Syntax,
    /// A Secret that the API server refuses with a message that quotes it.
    Refused,
}

/// The state of a repository at a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The Kustomizations, in [`FLEET`].
    pub tenants: BTreeMap<String, Tenant>,
    /// The objects in the directory of each tenant.
    pub objects: BTreeMap<String, BTreeMap<String, Content>>,
    /// The tenants whose directory is broken.
    pub broken: BTreeMap<String, Broken>,
    /// The HelmReleases, in [`FLEET`].
    pub releases: BTreeMap<String, Release>,
    /// The number of the commit that changed their chart last.
    pub chart: u64,
}

impl State {
    /// Returns the version that Chart.yaml has at this commit: `1.0.N`.
    pub fn chart_version(&self) -> String {
        format!("1.0.{}", self.chart)
    }
}

/// A commit of a repository.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The number, unique over all repositories.
    pub number: u64,
    /// The SHA-1 of the commit.
    pub sha: String,
    /// The state of the repository at this commit.
    pub state: State,
}

impl Commit {
    /// Returns a commit of a repository.
    pub fn new(repository: &str, number: u64, state: State) -> Self {
        Self {
            number,
            sha: hex::encode(Sha1::digest(format!("{repository} {number}"))),
            state,
        }
    }

    /// Renders the files of the commit. `canary` is the content of a broken Secret.
    pub fn files(&self, canary: &str) -> Files {
        let mut files = Files::new();
        files.insert("README.md".to_owned(), format!("commit {}\n", self.number));
        let edge = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": EDGE, "namespace": EDGE},
            "data": {"commit": self.number.to_string()}});
        files.insert(format!("{EDGE}/config.yaml"), edge.to_string());
        for (name, tenant) in &self.state.tenants {
            let path = format!("clusters/hub/{name}.yaml");
            files.insert(path, tenant.manifest(name).to_string());
        }
        if self.state.tenants.values().any(|one| one.own_repository) {
            let source = json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
                "metadata": {"name": "app", "namespace": FLUX},
                "spec": {"interval": "1m", "url": format!("https://{APP}"), "ref": {"branch": "main"}}});
            files.insert(
                "clusters/hub/app-source.yaml".to_owned(),
                source.to_string(),
            );
        }
        if !self.state.releases.is_empty() {
            let chart =
                json!({"apiVersion": "v2", "name": "web", "version": self.state.chart_version()});
            files.insert("charts/web/Chart.yaml".to_owned(), chart.to_string());
            let template = |name: &str| format!("charts/web/templates/{name}.yaml");
            files.insert(template("config"), CONFIG.to_owned());
            files.insert(template("extra"), EXTRA.to_owned());
        }
        for (name, release) in &self.state.releases {
            let path = format!("clusters/hub/release-{name}.yaml");
            files.insert(path, release.manifest(name).to_string());
        }
        for (tenant, objects) in &self.state.objects {
            for (name, content) in objects {
                let path = format!("tenants/{tenant}/{name}.yaml");
                files.insert(path, manifest(name, *content).to_string());
            }
            let waits = |one: &Tenant| one.waits;
            if self.state.tenants.get(tenant).is_some_and(waits) {
                let path = format!("tenants/{tenant}/web.yaml");
                files.insert(path, deployment(tenant).to_string());
            }
        }
        for (tenant, broken) in &self.state.broken {
            let text = match broken {
                Broken::Syntax => "a: [not closed\nb: {\n".to_owned(),
                Broken::Refused => json!({"apiVersion": "v1", "kind": "Secret",
                    "metadata": {"name": format!("secret-{tenant}"), "namespace": APPS},
                    "data": {"password": format!("{canary}!")}})
                .to_string(),
            };
            files.insert(format!("tenants/{tenant}/broken.yaml"), text);
        }
        files
    }
}

impl Tenant {
    fn manifest(&self, name: &str) -> Value {
        let source = if self.own_repository { "app" } else { FLUX };
        let mut spec = json!({"interval": "10m", "retryInterval": "2m", "timeout": "4m", "prune": true,
            "path": format!("./tenants/{name}"), "wait": self.waits,
            "sourceRef": {"kind": "GitRepository", "name": source}});
        if self.cluster != "hub" {
            let secret = format!("{}-kubeconfig", self.cluster);
            spec["kubeConfig"] = json!({"secretRef": {"name": secret}});
        }
        if !self.depends_on.is_empty() {
            let names = self.depends_on.iter().map(|name| json!({"name": name}));
            spec["dependsOn"] = names.collect();
        }
        json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": {"name": name, "namespace": FLUX}, "spec": spec})
    }
}

/// The template of the chart's object, which shows the values and the version of the chart.
const CONFIG: &str = r#"apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
data:
  commit: {{ .Values.commit | quote }}
  chart: {{ .Chart.Version | quote }}
"#;
/// The template of an object that exists only if the values ask for it.
const EXTRA: &str = r#"{{- if .Values.extra }}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-extra
data:
  commit: {{ .Values.commit | quote }}
  chart: {{ .Chart.Version | quote }}
{{- end }}
"#;

impl Release {
    fn manifest(&self, name: &str) -> Value {
        // Without a rollback after a failure, objects never go back to an older commit.
        let strategy = match self.retries {
            true => json!({"strategy": {"name": "RetryOnFailure", "retryInterval": "1m"}}),
            false => json!({}),
        };
        let mut spec = json!({"interval": "10m", "timeout": "4m", "releaseName": name,
            "targetNamespace": APPS, "storageNamespace": APPS,
            "chart": {"spec": {"chart": "./charts/web", "interval": "10m",
                "sourceRef": {"kind": "GitRepository", "name": FLUX}}},
            "values": {"commit": self.content.commit.to_string(), "extra": self.has_extra},
            "install": strategy, "upgrade": strategy});
        if self.cluster != "hub" {
            let secret = format!("{}-kubeconfig", self.cluster);
            spec["kubeConfig"] = json!({"secretRef": {"name": secret}});
        }
        json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
            "metadata": {"name": name, "namespace": FLUX}, "spec": spec})
    }

    /// Returns the names of the objects that the release should have.
    fn objects<'a>(&self, name: &'a str) -> impl Iterator<Item = String> + use<'a> {
        let extra = self.has_extra.then(|| format!("{name}-extra"));
        [name.to_owned()].into_iter().chain(extra)
    }
}

fn manifest(name: &str, content: Content) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": APPS},
        "data": {"commit": content.commit.to_string()}})
}

fn deployment(tenant: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": format!("web-{tenant}"), "namespace": APPS},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": tenant}},
            "template": {"metadata": {"labels": {"app": tenant}},
                "spec": {"containers": [{"name": "web", "image": "web:1"}]}}}})
}

/// The place of an object: the names of the cluster and of the object.
pub type Place = (String, String);

/// The contents that clusters should have, with the tenant or release of each.
pub type DesiredState = BTreeMap<Place, (Content, String)>;

/// Returns the state that the heads of both repositories ask for. Broken tenants keep their objects
/// of `before`.
pub fn desired_state(fleet: &State, app: &State, before: &DesiredState) -> DesiredState {
    let mut desired = DesiredState::new();
    let mut kept = BTreeSet::new();
    for (name, tenant) in &fleet.tenants {
        let source = if tenant.own_repository { app } else { fleet };
        // A directory with a file that is not YAML is not built. If one object is refused, the
        // others are still applied.
        if source.broken.get(name) == Some(&Broken::Syntax) {
            kept.insert(name);
            continue;
        }
        for (object, content) in source.objects.get(name).into_iter().flatten() {
            let place = (tenant.cluster.clone(), object.clone());
            desired.insert(place, (*content, name.clone()));
        }
    }
    for (name, release) in &fleet.releases {
        for object in release.objects(name) {
            let place = (release.cluster.clone(), object);
            desired.insert(place, (release.content, name.clone()));
        }
    }
    // A tenant that is not built keeps its objects, except those that have moved to other tenants.
    for (place, one) in before.iter().filter(|(_, (_, owner))| kept.contains(owner)) {
        desired.entry(place.clone()).or_insert_with(|| one.clone());
    }
    desired
}

/// Returns `names` and all tenants that depend on them, directly or not.
pub fn dependents(state: &State, names: BTreeSet<String>) -> BTreeSet<String> {
    let mut all = names;
    loop {
        let more = state.tenants.iter().filter(|(name, tenant)| {
            !all.contains(*name) && tenant.depends_on.iter().any(|on| all.contains(on))
        });
        let more: Vec<String> = more.map(|(name, _)| name.clone()).collect();
        if more.is_empty() {
            return all;
        }
        all.extend(more);
    }
}
