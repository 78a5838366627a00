//! The real multicluster-gitops: an environment is a branch, a management cluster and its remote
//! cluster. The platform's chart repository is replaced by one on loopback, and the infrastructure
//! of the remote cluster has the tenants' accounts, as `env add-remote` writes them.

use crate::world::{World, shared_fleet};
use driftless_harness::charts::{self, Host};
use driftless_harness::github::Change;
use driftless_tests::site::*;
use serde_json::json;
use std::path::Path;
use tempfile::TempDir;

/// The manifests that `add-env` of multicluster-gitops writes: the environment's branch as a
/// source, for the hub and its remote cluster.
const ENVIRONMENT: &str = r"apiVersion: v1
kind: Namespace
metadata:
  name: dev-flux-system
---
apiVersion: source.toolkit.fluxcd.io/v1beta1
kind: GitRepository
metadata:
  name: dev
  namespace: flux-system
spec:
  interval: 1m0s
  ref:
    branch: dev
  url: https://github.com/kaizentm/multicluster-gitops
---
apiVersion: kustomize.toolkit.fluxcd.io/v1beta1
kind: Kustomization
metadata:
  name: dev
  namespace: flux-system
spec:
  interval: 10m0s
  path: ./clusters/k3d-america
  prune: true
  sourceRef:
    kind: GitRepository
    name: dev
---
apiVersion: kustomize.toolkit.fluxcd.io/v1beta1
kind: Kustomization
metadata:
  name: dev-k3s-america-south
  namespace: flux-system
spec:
  interval: 10m0s
  path: ./clusters/k3d-america/k3s-america-south
  prune: true
  sourceRef:
    kind: GitRepository
    name: dev
";

fn application(name: &str, place: &str) -> Vec<Change> {
    let config = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  place: {place}\n"
    );
    vec![Change::write(
        &format!("{name}/{place}/config.yaml"),
        config,
    )]
}

const NGINX: &str = "apiVersion: v1
kind: Service
metadata:
  name: {{ .Release.Name }}
spec:
  type: {{ .Values.service.type }}
  ports:
    - {name: http, port: {{ .Values.service.ports.http }}}
    - {name: https, port: {{ .Values.service.ports.https }}}
";

/// Serves what the platform fetches from the internet. Returns the host and the change of the
/// repository to its URL.
fn charts(fleet: &Path) -> (Host, Change) {
    let (host, directory) = (Host::start(), TempDir::new().expect("a directory"));
    let files = [
        (
            "values.yaml",
            "service: {type: LoadBalancer, ports: {http: 80, https: 443}}\n",
        ),
        ("templates/service.yaml", NGINX),
    ];
    charts::package(
        directory.path(),
        "nginx-ingress-controller",
        "5.6.14",
        &files,
    );
    charts::index(directory.path(), &host, "/bitnami", "");
    let file = "infra/base/sources/bitnami.yaml";
    let text = std::fs::read_to_string(fleet.join(file)).expect("the platform's source");
    let url = format!("{}/bitnami", host.url());
    let text = text.replace("https://charts.bitnami.com/bitnami", &url);
    assert!(text.contains(&url), "{text}");
    (host, Change::write(file, text))
}

/// Returns the changes with which the infrastructure of the remote cluster has the namespaces, the
/// accounts and the roles of the tenants.
fn accounts(fleet: &Path, tenants: &[&str]) -> Vec<Change> {
    let directory = "infra/k3d-america/clusters/k3s-america-south";
    let mut list = "resources:\n- ../../../base\n".to_owned();
    let mut changes = Vec::new();
    for tenant in tenants {
        let base = fleet.join(format!("dev/tenants/base/{tenant}/rbac.yaml"));
        let text = std::fs::read_to_string(base).expect("the tenant's account");
        list.push_str(&format!("- tenants/{tenant}.yaml\n"));
        let file = format!("{directory}/tenants/{tenant}.yaml");
        changes.push(Change::write(&file, text));
    }
    let file = format!("{directory}/kustomization.yaml");
    changes.push(Change::write(&file, list));
    changes
}

#[test]
fn push_lands_everywhere_multicluster() {
    let Some(fleet) = shared_fleet("multicluster-gitops") else {
        return;
    };
    let hub = HubSpec {
        name: "k3d-america",
        repository: "kaizentm/multicluster-gitops",
        branch: "main",
        path: "./clusters/k3d-america",
    };
    let world = World::start(false, &[hub], &["k3s-america-south"]);
    let repository = world
        .github
        .repository_from("kaizentm/multicluster-gitops", &fleet.join("main"));
    repository.commit_directory("dev", &fleet.join("dev"), "The environment");
    let tenants = ["kaizentm", "yakuza"];
    repository.commit("dev", &accounts(&fleet, &tenants), "Accounts");
    let (_charts, change) = charts(&fleet.join("main"));
    repository.commit("main", &[change], "Loopback");
    let manifests = world.github.repository("kaizentm/gitops-manifests");
    for (branch, name) in [("dev", "azure-vote"), ("multi-dev", "katana-vote")] {
        let changes = [
            application(name, "k3d-america"),
            application(name, "k3s-america-south"),
        ]
        .concat();
        manifests.commit(branch, &changes, "Applications");
    }
    let (hub, remote) = (world.hub("k3d-america"), world.remote("k3s-america-south"));
    // The platform team creates the remote's kubeconfig for platform and tenants.
    for namespace in ["dev-flux-system", "dev-kaizentm", "dev-yakuza"] {
        hub.namespace(namespace);
        hub.add_remote(namespace, "k3s-america-south-kubeconfig", remote);
    }

    world.sweep();
    world.eventually("the management cluster's base is ready", || {
        let head = repository.resolve("main").expect("a head");
        is_ready(hub, "flux-system", "flux-system", &head)?;
        is_ready(hub, "flux-system", "infrastructure", &head)?;
        let release = ready(hub, "HelmRelease", "nginx", "nginx");
        match release.1.as_str() {
            "InstallSucceeded" => Ok(()),
            _ => Err(format!("{release:?}")),
        }
    });
    let service = path("Service", "nginx", "nginx-ingress-controller");
    let service = hub.api().get(&service).expect("the release's");
    let ports = [0, 1].map(|at| &service["spec"]["ports"][at]["port"]);
    assert_eq!(service["spec"]["type"], "ClusterIP", "the base's value");
    assert_eq!(ports, [8080, 443], "the cluster's value, and the chart's");
    let push = world.github.push(
        &repository,
        "main",
        &[Change::write("clusters/k3d-america/dev.yaml", ENVIRONMENT)],
    );
    accepted(&push.deliveries);
    let head = || repository.resolve("dev").expect("a head");
    world.eventually(
        "infrastructure is applied to both, the tenants' conflict is reported",
        || {
            is_ready(hub, "flux-system", "dev", &head())?;
            is_ready(hub, "dev-flux-system", "infrastructure", &head())?;
            is_ready(
                hub,
                "dev-flux-system",
                "k3s-america-south-infrastructure",
                &head(),
            )?;
            // kustomize itself refuses the tenants' directory: two namespaces become one.
            for name in ["tenants", "k3s-america-south-tenants"] {
                let (status, reason, message) =
                    ready(hub, "Kustomization", "dev-flux-system", name);
                if (status.as_str(), reason.as_str()) != ("False", "BuildFailed")
                    || !message.contains("two objects would become")
                {
                    return Err(format!("{name}: {status} {reason}: {message}"));
                }
            }
            Ok(())
        },
    );
    let deployment = |cluster: &driftless_harness::cluster::Cluster| {
        cluster
            .api()
            .get(&path("Deployment", "dev-redis", "redis-master"))
            .expect("redis")
    };
    let cpu = "/spec/template/spec/containers/0/resources/requests/cpu";
    assert_eq!(deployment(hub).pointer(cpu), Some(&json!("200m")));
    assert_eq!(deployment(remote).pointer(cpu), Some(&json!("100m")));

    // Without the release that shares the tenant's namespace, the build succeeds.
    let kaizentm = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n- rbac.yaml\n- git-manifests.yaml\n";
    let vote = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n- sync.yaml\n";
    let changes = [
        Change::write("tenants/base/kaizentm/kustomization.yaml", kaizentm),
        Change::write("tenants/base/kaizentm/azure-vote/kustomization.yaml", vote),
    ];
    accepted(&world.github.push(&repository, "dev", &changes).deliveries);
    world.eventually("the tenants' applications land on both clusters", || {
        for name in ["tenants", "k3s-america-south-tenants"] {
            is_ready(hub, "dev-flux-system", name, &head())?;
        }
        for (tenant, application, branch) in [
            ("kaizentm", "azure-vote", "dev"),
            ("yakuza", "katana-vote", "multi-dev"),
        ] {
            let (namespace, sha) = (
                format!("dev-{tenant}"),
                manifests.resolve(branch).expect("a head"),
            );
            is_ready(hub, &namespace, application, &sha)?;
            is_ready(
                hub,
                &namespace,
                &format!("k3s-america-south-{application}"),
                &sha,
            )?;
            for (cluster, place) in [(hub, "k3d-america"), (remote, "k3s-america-south")] {
                let config = cluster
                    .api()
                    .get(&path("ConfigMap", &namespace, application))
                    .map_err(|e| e.to_string())?;
                if config["data"]["place"] != place {
                    return Err(format!("{}: {}", cluster.name(), config["data"]));
                }
            }
        }
        Ok(())
    });

    // Two Kustomizations render the same tenants' objects: neither takes them from the other in any
    // sync.
    world.settle();
    let still = NoWrites::watch(&[hub, remote]);
    for name in [
        "infrastructure",
        "k3s-america-south-infrastructure",
        "tenants",
        "k3s-america-south-tenants",
    ] {
        world.request(
            "k3d-america",
            "Kustomization",
            "dev-flux-system",
            name,
            "timer",
        );
    }
    for name in [
        "flux-system",
        "infrastructure",
        "dev",
        "dev-k3s-america-south",
    ] {
        world.request("k3d-america", "Kustomization", "flux-system", name, "timer");
    }
    world.settle();
    still.check();
}
