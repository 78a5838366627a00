//! The unchanged flux2-multi-tenancy: two hubs, a tenant in a branch, service-account lock-down.
//! Only the tenant's chart repository is replaced by one on loopback, with `tests/charts/podinfo`
//! in several versions.

use crate::world::{World, shared_fleet};
use driftless_harness::charts::{self, Host};
use driftless_harness::github::{Change, Repository};
use driftless_tests::site::*;
use std::path::Path;
use tempfile::TempDir;

const CRD: &str = include_str!("../kyverno.yaml");

/// The local replacement of the OCI artifact with Kyverno's manifests.
const SOURCE: &str = r"apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata:
  name: kyverno-controller
  namespace: flux-system
spec:
  interval: 120m0s
  url: https://github.com/kyverno/manifests
  ref:
    branch: main
";

/// The tenant's chart repository.
struct Podinfo {
    host: Host,
    directory: TempDir,
}

impl Podinfo {
    /// Starts with three versions: too old for both environments, for both, and for staging alone,
    /// whose range allows pre-releases.
    fn start() -> Self {
        let podinfo = Self {
            host: Host::start(),
            directory: TempDir::new().expect("a directory"),
        };
        podinfo.publish(&["0.9.0", "6.5.4", "6.6.0-rc.1"]);
        podinfo
    }

    fn publish(&self, versions: &[&str]) {
        let chart = charts::public_chart("podinfo");
        for version in versions {
            charts::package_directory(self.directory.path(), &chart, version);
        }
        charts::index(self.directory.path(), &self.host, "/podinfo", "");
    }

    /// Commits the tenant's branch, with this repository in place of the original one.
    fn commit(&self, repository: &Repository, directory: &Path) {
        repository.commit_directory("dev-team", directory, "The tenant's branch");
        let file = "base/podinfo-repository.yaml";
        let text = std::fs::read_to_string(directory.join(file)).expect("the tenant's source");
        let url = format!("{}/podinfo", self.host.url());
        let text = text.replace("https://stefanprodan.github.io/podinfo", &url);
        assert!(text.contains(&url), "{text}");
        repository.commit("dev-team", &[Change::write(file, text)], "Loopback");
    }

    /// Checks that the release of a hub is ready with this chart, and that its objects exist.
    fn is_released(
        hub: &dyn Node,
        revision: u32,
        version: &str,
        replicas: u32,
    ) -> Result<(), String> {
        let current = ready(hub, "HelmRelease", "apps", "podinfo");
        let (reason, verb) = match revision {
            1 => ("InstallSucceeded", "install"),
            _ => ("UpgradeSucceeded", "upgrade"),
        };
        let message = format!(
            "Helm {verb} succeeded for release apps/podinfo.v{revision} with chart podinfo@{version}"
        );
        let expected = ("True".to_owned(), reason.to_owned(), message);
        if current != expected {
            return Err(format!("{}: {current:?}", hub.name()));
        }
        let release = hub.get(&path("HelmRelease", "apps", "podinfo"));
        let newest = &release["status"]["history"][0];
        assert_eq!(newest["chartVersion"], version);
        assert_eq!(newest["version"], revision);
        let deployment = hub.get(&path("Deployment", "apps", "podinfo"));
        let image = &deployment["spec"]["template"]["spec"]["containers"][0]["image"];
        let image = image.as_str().unwrap_or_default();
        assert!(image.contains("/podinfo:"), "{image}");
        assert_eq!(deployment["spec"]["replicas"], replicas, "{}", hub.name());
        let service = hub.get(&path("Service", "apps", "podinfo"));
        assert_eq!(
            service["metadata"]["labels"]["helm.sh/chart"],
            format!("podinfo-{version}")
        );
        Ok(())
    }
}

/// The environments with the replicas of their overlays.
const REPLICAS: [(&str, u32); 2] = [("staging", 1), ("production", 2)];

/// Waits until each hub has its version of the chart, while its workloads behave as with
/// controllers.
fn released(world: &World, description: &str, revision: u32, versions: [&str; 2]) {
    world.eventually(description, || {
        for ((hub, replicas), version) in REPLICAS.into_iter().zip(versions) {
            world.hub(hub).run_workloads("apps");
            Podinfo::is_released(world.hub(hub), revision, version, replicas)?;
        }
        Ok(())
    });
}

/// Checks that the tenant's objects, those of its release and the release's record were written as
/// the tenant, and never as the platform. Finalizers and statuses are written by the controllers
/// themselves.
fn written_as_the_tenant(hub: &dyn Node) {
    let tenant = "system:serviceaccount:apps:dev-team";
    let writes = writes_since(hub, 0).into_iter();
    let writes: Vec<_> = writes
        .filter(|write| write.namespace == "apps" && write.subresource.is_empty())
        .collect();
    for resource in [
        "helmreleases",
        "helmrepositories",
        "deployments",
        "services",
        "secrets",
    ] {
        let of_tenant = writes.iter().filter(|write| write.resource == resource);
        let of_tenant: Vec<_> = match resource.starts_with("helm") {
            true => of_tenant
                .filter(|write| write.uri.contains("fieldManager=kustomize-controller"))
                .collect(),
            false => of_tenant.collect(),
        };
        let all = of_tenant.iter().all(|write| write.as_user == tenant);
        assert!(!of_tenant.is_empty() && all, "{of_tenant:#?}");
    }
}

#[test]
fn push_lands_everywhere_multi_tenancy() {
    let Some(fleet) = shared_fleet("flux2-multi-tenancy") else {
        return;
    };
    let hub = |name, path| HubSpec {
        name,
        repository: "fluxcd/flux2-multi-tenancy",
        branch: "main",
        path,
    };
    let hubs = [
        hub("staging", "./clusters/staging"),
        hub("production", "./clusters/production"),
    ];
    let world = World::start(false, &hubs, &[]);
    let repository = world
        .github
        .repository_from("fluxcd/flux2-multi-tenancy", &fleet.join("main"));
    let podinfo = Podinfo::start();
    podinfo.commit(&repository, &fleet.join("dev-team"));
    let hubs = [world.hub("staging"), world.hub("production")];
    let state = |hub, name: &str| ready(hub, "Kustomization", "flux-system", name);

    world.sweep();
    world.eventually("what can be ready is ready, the rest says why not", || {
        for hub in hubs {
            is_ready(
                hub,
                "flux-system",
                "flux-system",
                &repository.resolve("main").expect("a head"),
            )?;
            let source = ready(hub, "OCIRepository", "flux-system", "kyverno-controller");
            for (what, found, expected) in [
                // The public registry cannot be reached in tests.
                ("source", source.1, "OCIArtifactPullFailed"),
                (
                    "kyverno-controller",
                    state(hub, "kyverno-controller").1,
                    "ArtifactFailed",
                ),
                ("kyverno", state(hub, "kyverno").1, "Progressing"),
                (
                    "kyverno-policies",
                    state(hub, "kyverno-policies").1,
                    "DependencyNotReady",
                ),
                ("tenants", state(hub, "tenants").1, "DependencyNotReady"),
            ] {
                if found != expected {
                    return Err(format!(
                        "{}: {what}: {found}, expected {expected}",
                        hub.name()
                    ));
                }
            }
        }
        Ok(())
    });

    let kyverno = world.github.repository("kyverno/manifests");
    kyverno.commit("main", &[Change::write("crds.yaml", CRD)], "Kyverno");
    let sync = std::fs::read_to_string(fleet.join("main/infrastructure/kyverno/sync.yaml"))
        .expect("sync.yaml");
    let sync = sync.replace("kind: OCIRepository", "kind: GitRepository");
    let changes = [
        Change::write("infrastructure/kyverno/source.yaml", SOURCE),
        Change::write("infrastructure/kyverno/sync.yaml", sync),
    ];
    let push = world.github.push(&repository, "main", &changes);
    accepted(&push.deliveries);
    world.eventually("all is ready with a source that can be read", || {
        for hub in hubs {
            for name in ["flux-system", "kyverno", "kyverno-policies", "tenants"] {
                is_ready(hub, "flux-system", name, &push.sha)?;
            }
            is_ready(
                hub,
                "flux-system",
                "kyverno-controller",
                &kyverno.resolve("main").expect("a head"),
            )?;
            is_ready(
                hub,
                "apps",
                "dev-team",
                &repository.resolve("dev-team").expect("a head"),
            )?;
        }
        Ok(())
    });
    let versions = ["6.6.0-rc.1", "6.5.4"];
    released(&world, "each range has its version", 1, versions);
    for hub in hubs {
        let policy = "/apis/kyverno.io/v1/clusterpolicies/verify-flux-images";
        assert!(hub.api().find(policy).is_some());
        written_as_the_tenant(hub);
    }

    // Both ranges allow this version.
    podinfo.publish(&["6.6.0"]);
    for (hub, _) in REPLICAS {
        world.request(hub, "HelmRepository", "apps", "podinfo", "timer");
    }
    released(&world, "a new version", 2, ["6.6.0", "6.6.0"]);

    world.settle();
    let still = NoWrites::watch(&hubs.map(|hub| hub as &dyn Node));
    for hub in ["staging", "production"] {
        for name in [
            "flux-system",
            "kyverno",
            "kyverno-controller",
            "kyverno-policies",
            "tenants",
        ] {
            world.request(hub, "Kustomization", "flux-system", name, "timer");
        }
        world.request(hub, "Kustomization", "apps", "dev-team", "timer");
        for (kind, name) in [
            ("HelmRepository", "podinfo"),
            ("HelmChart", "apps-podinfo"),
            ("HelmRelease", "podinfo"),
        ] {
            world.request(hub, kind, "apps", name, "timer");
        }
    }
    world.settle();
    still.check();
}
