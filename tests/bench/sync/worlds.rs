//! The worlds that are synced: W(N), N Kustomizations of four objects each, and H(N), N
//! HelmReleases of a chart of four objects.

use driftless_harness::charts::{self, Host};
use driftless_harness::github::Change;
use serde_json::{Value, json};
use std::path::Path;

/// The namespace of the Flux objects.
pub const FLUX: &str = "fleet";
/// The namespace of the objects that are applied.
pub const APPS: &str = "apps";
/// The collections of the objects that are applied, with their kinds.
pub const COLLECTIONS: [(&str, &str); 4] = [
    ("/api/v1", "configmaps"),
    ("/api/v1", "serviceaccounts"),
    ("/api/v1", "services"),
    ("/apis/apps/v1", "deployments"),
];

/// The kind of the world.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum World {
    /// N Kustomizations of one Git repository.
    Kustomizations,
    /// N HelmReleases of one chart.
    Releases,
}

impl World {
    /// Returns the letter in the table.
    pub fn letter(self) -> &'static str {
        match self {
            Self::Kustomizations => "W",
            Self::Releases => "H",
        }
    }

    /// Returns the collection of the measured objects of Flux.
    pub fn collection(self) -> String {
        match self {
            Self::Kustomizations => {
                format!("/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/{FLUX}/kustomizations")
            }
            Self::Releases => {
                format!("/apis/helm.toolkit.fluxcd.io/v2/namespaces/{FLUX}/helmreleases")
            }
        }
    }

    /// Returns the files of one application at a version.
    pub fn files(self, app: usize, version: usize) -> Change {
        let name = name(app);
        match self {
            Self::Kustomizations => {
                let objects = objects(app, version);
                let text = objects.iter().map(|object| format!("---\n{object}\n"));
                Change::write(&format!("apps/{name}/app.yaml"), text.collect::<String>())
            }
            Self::Releases => Change::write(
                &format!("apps/{name}.yaml"),
                release(&name, version).to_string(),
            ),
        }
    }

    /// Returns the objects of Flux that are created beforehand, without the Git source.
    pub fn followers(self, size: usize) -> Vec<Value> {
        match self {
            Self::Kustomizations => (0..size)
                .map(|app| kustomization(&name(app), &format!("./apps/{}", name(app))))
                .collect(),
            Self::Releases => vec![kustomization("releases", "./apps")],
        }
    }
}

/// Returns the name of an application.
pub fn name(app: usize) -> String {
    format!("app-{app:04}")
}

/// Returns the four objects of one application at a version: each differs from the version before.
pub fn objects(app: usize, version: usize) -> [Value; 4] {
    let name = name(app);
    let metadata = json!({"name": name, "namespace": APPS, "labels": {"app": name},
        "annotations": {"version": version.to_string()}});
    let object = |api: &str, kind: &str, rest: Value| {
        let mut object = json!({"apiVersion": api, "kind": kind, "metadata": metadata});
        for (field, value) in rest.as_object().into_iter().flatten() {
            object[field] = value.clone();
        }
        object
    };
    [
        object(
            "v1",
            "ConfigMap",
            json!({"data": {"version": version.to_string()}}),
        ),
        object("v1", "ServiceAccount", json!({})),
        object(
            "v1",
            "Service",
            json!({"spec": {"clusterIP": "None", "selector": {"app": name},
                "ports": [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]}}),
        ),
        object(
            "apps/v1",
            "Deployment",
            json!({"spec": {"replicas": 2, "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}}, "spec": {"serviceAccountName": name,
                    "containers": [{"name": "app", "image": format!("registry.example.com/app:{version}"),
                        "ports": [{"containerPort": 8080, "protocol": "TCP"}]}]}}}}),
        ),
    ]
}

fn kustomization(name: &str, path: &str) -> Value {
    json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": name, "namespace": FLUX},
        "spec": {"interval": "1h", "path": path, "prune": true,
            "sourceRef": {"kind": "GitRepository", "name": "fleet"}}})
}

fn release(name: &str, version: usize) -> Value {
    json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
        "metadata": {"name": name, "namespace": FLUX},
        "spec": {"interval": "1h", "targetNamespace": APPS, "releaseName": name,
            "install": {"disableWait": true}, "upgrade": {"disableWait": true},
            "chart": {"spec": {"chart": "app", "version": "1.x",
                "sourceRef": {"kind": "HelmRepository", "name": "charts"}}},
            "values": {"version": version.to_string()}}})
}

/// Returns the Git source.
pub fn git_repository(url: &str) -> Value {
    json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
        "metadata": {"name": "fleet", "namespace": FLUX},
        "spec": {"interval": "1h", "url": url, "ref": {"branch": "main"}}})
}

/// Returns the source of the chart.
pub fn helm_repository(host: &Host) -> Value {
    json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "HelmRepository",
        "metadata": {"name": "charts", "namespace": FLUX},
        "spec": {"interval": "1h", "url": format!("{}/stable", host.url())}})
}

/// Publishes the chart of H(N) on the host.
pub fn publish_chart(directory: &Path, host: &Host) {
    let text: String = objects(0, 0)
        .iter()
        .map(|object| format!("---\n{object}\n"))
        .collect();
    let template = text
        .replace(&format!("\"{}\"", name(0)), "{{ .Release.Name | quote }}")
        .replace("\"0\"", "{{ .Values.version | quote }}")
        .replace("app:0", "app:{{ .Values.version }}");
    let files = [
        ("templates/app.yaml", template.as_str()),
        ("values.yaml", "version: \"0\"\n"),
    ];
    charts::package(directory, "app", "1.0.0", &files);
    charts::index(directory, host, "/stable", "");
}
