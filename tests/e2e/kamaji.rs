//! Kamaji's guide to GitOps: a management cluster keeps cert-manager installed in a tenant's cluster, whatever the tenant does there.
//!
//! The objects are the guide's, in the versions and with the fields that it has; nothing comes from Git. The chart is the one
//! of `tests/charts`.

use crate::site::*;
use crate::world::World;
use driftless_tests::charts::{self, Host};
use driftless_tests::cluster::Cluster;
use driftless_tests::kubectl::Kubectl;
use driftless_tests::tools;
use serde_json::json;
use tempfile::TempDir;

const HUB: &str = "management";
/// The tenant's control plane, in the namespace `tenants` of the hub.
const TENANT: &str = "tenant1";
const VERSION: &str = "v1.10.1";
/// What Flux calls the release: the target namespace is part of it.
const RELEASE: &str = "default-tenant1-cert-manager";

/// What an administrator applies on the management cluster.
fn guide(charts: &str) -> String {
    format!(
        "apiVersion: source.toolkit.fluxcd.io/v1beta2
kind: HelmRepository
metadata:
  name: jetstack
  namespace: flux-system
spec:
  interval: 1m
  url: {charts}
---
apiVersion: helm.toolkit.fluxcd.io/v2beta1
kind: HelmRelease
metadata:
  name: tenant1-cert-manager
  namespace: tenants
spec:
  interval: 5m
  kubeConfig:
    secretRef:
      name: tenant1-admin-kubeconfig
      key: admin.conf
  targetNamespace: default
  chart:
    spec:
      chart: cert-manager
      version: {VERSION}
      sourceRef:
        kind: HelmRepository
        name: jetstack
        namespace: flux-system
      interval: 1m
  values:
    replicaCount: 2
"
    )
}

struct Guide {
    world: World,
    charts: Host,
    _folder: TempDir,
}

impl Guide {
    fn start() -> Self {
        let hub = HubSpec {
            name: HUB,
            repository: "",
            branch: "",
            path: "",
        };
        let guide = Self {
            world: World::start(false, &[hub], &[TENANT]),
            charts: Host::start(),
            _folder: TempDir::new().expect("a folder"),
        };
        let folder = guide._folder.path();
        let chart = tools::tests().join("charts/cert-manager");
        charts::package_folder(folder, &chart, VERSION);
        charts::index(folder, &guide.charts, "/jetstack", "");
        guide.hub().namespace("tenants");
        // Flux keeps the release's records in a namespace of the HelmRelease's name, and makes none for them.
        guide.tenant().namespace("tenants");
        guide
    }

    fn hub(&self) -> &Cluster {
        self.world.hub(HUB)
    }

    fn tenant(&self) -> &Cluster {
        self.world.remote(TENANT)
    }

    /// Applies the guide's objects, as it says, before the control plane is there.
    fn apply(&self) {
        let url = format!("{}/jetstack", self.charts.url());
        Kubectl::new(&self.hub().kubeconfig()).apply(&guide(&url));
        self.world.sweep();
    }

    /// Kamaji's kubeconfig of the administrator, with a certificate of the tenant's own authority.
    fn give_kubeconfig(&self) {
        let kubeconfig = self
            .tenant()
            .kubeconfig_with_certificate("kubernetes-admin", "system:masters");
        let hub: &dyn Node = self.hub();
        hub.secret(
            "tenants",
            "tenant1-admin-kubeconfig",
            &json!({ "admin.conf": kubeconfig }),
        );
    }

    /// Ready's status, reason and message.
    fn ready(&self) -> (String, String, String) {
        ready(self.hub(), "HelmRelease", "tenants", "tenant1-cert-manager")
    }

    fn becomes_ready(&self, what: &str) {
        self.world.eventually(what, || {
            self.tenant().run_workloads("default");
            match self.ready() {
                (status, ..) if status == "True" => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
    }
}

#[test]
fn kamaji_guide() {
    let guide = Guide::start();
    guide.apply();
    guide.world.eventually(
        "the release waits for the tenant's kubeconfig",
        || match guide.ready() {
            (status, reason, message)
                if status == "False" && message.contains("tenant1-admin-kubeconfig") =>
            {
                eprintln!("  {reason}: {message}");
                Ok(())
            }
            other => Err(format!("{other:?}")),
        },
    );
    guide.give_kubeconfig();
    guide.becomes_ready("cert-manager is installed");
    let tenant: &dyn Node = guide.tenant();
    let deployment = tenant.get(&path("Deployment", "default", RELEASE));
    assert_eq!(deployment["spec"]["replicas"], 2);
}
