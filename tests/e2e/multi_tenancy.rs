//! flux2-multi-tenancy as it is: two hubs, a tenant in a branch, service-account lock-down.

use crate::site::*;
use crate::world::{World, shared_fleet};
use driftless_tests::github::Change;
use serde_json::json;

const CRD: &str = r"apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: clusterpolicies.kyverno.io
spec:
  group: kyverno.io
  scope: Cluster
  names: {kind: ClusterPolicy, listKind: ClusterPolicyList, plural: clusterpolicies, singular: clusterpolicy}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
";

/// The local stand-in for the OCI artifact with Kyverno's manifests.
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
    repository.commit_folder("dev-team", &fleet.join("dev-team"), "The tenant's branch");
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
                ("source", source.1, "NotSupported"),
                (
                    "kyverno-controller",
                    state(hub, "kyverno-controller").1,
                    "ArtifactFailed",
                ),
                ("kyverno", state(hub, "kyverno").1, "HealthCheckFailed"),
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
    let release = ready(hubs[0], "HelmRelease", "apps", "podinfo");
    world.eventually(
        "the release waits for its chart, which no repository here serves",
        || {
            let (status, reason, _) = ready(hubs[0], "HelmRelease", "apps", "podinfo");
            if (status.as_str(), reason.as_str()) == ("False", "SourceNotReady") {
                Ok(())
            } else {
                Err(format!("{status} {reason} {release:?}"))
            }
        },
    );
    for (hub, replicas) in hubs.into_iter().zip([1, 2]) {
        let podinfo = hub
            .api()
            .get(&path("HelmRelease", "apps", "podinfo"))
            .expect("podinfo");
        let values = &podinfo["spec"]["values"]["replicaCount"];
        assert!(
            values == &json!(replicas) || values.is_number(),
            "{}: {values}",
            hub.name()
        );
        assert!(
            hub.api()
                .find("/apis/kyverno.io/v1/clusterpolicies/verify-flux-images")
                .is_some()
        );
    }

    // The tenant's objects were applied as the tenant, nothing of the tenant's in the platform's name. Finalizers are the
    // controllers' own.
    let tenant = "system:serviceaccount:apps:dev-team";
    let writes = writes_since(hubs[0], 0);
    let of_tenant: Vec<_> = writes
        .iter()
        .filter(|write| write.name == "podinfo" && write.subresource.is_empty())
        .filter(|write| write.uri.contains("fieldManager=kustomize-controller"))
        .collect();
    assert!(
        !of_tenant.is_empty() && of_tenant.iter().all(|write| write.as_user == tenant),
        "{of_tenant:?}"
    );

    world.settle();
    let still = Still::watch(&hubs.map(|hub| hub as &dyn Node));
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
    }
    world.settle();
    still.check();
}
