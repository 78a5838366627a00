//! The heir of an object that its Kustomization prunes, and prunes whose heirs are unknown.

use super::*;
use http::Method;

const BINDING: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/team-a-reader";
const ROLE_BINDING: &str =
    "/apis/rbac.authorization.k8s.io/v1/namespaces/team-b/rolebindings/team-a-reader";
const VOLUME: &str = "/api/v1/namespaces/team-b/persistentvolumeclaims/data";

/// Returns bindings that the platform gives to a tenant, and a ConfigMap of another tenant.
fn rights() -> String {
    let binding = |kind: &str, namespace: &str| {
        format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata: {{name: team-a-reader{namespace}}}\n\
             roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}}\n\
             subjects: [{{kind: ServiceAccount, name: team-a, namespace: team-a}}]\n---\n"
        )
    };
    let (cluster, team_b) = (
        binding("ClusterRoleBinding", ""),
        binding("RoleBinding", ", namespace: team-b"),
    );
    format!("{cluster}{team_b}{}", config("theirs"))
}

/// The tenant's account with its rights: everything in its own namespace, and read access to all
/// others.
const TENANT: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: {name: team-a, namespace: team-a}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: all, namespace: team-a}
rules: [{apiGroups: ['*'], resources: ['*'], verbs: ['*']}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: all, namespace: team-a}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: all}
subjects: [{kind: ServiceAccount, name: team-a, namespace: team-a}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules: [{apiGroups: ['*'], resources: ['*'], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: team-a-views}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
subjects: [{kind: ServiceAccount, name: team-a, namespace: team-a}]
";

fn owner(object: &Value) -> String {
    let labels = &object["metadata"]["labels"];
    let label = |key: &str| {
        let label = labels[format!("kustomize.toolkit.fluxcd.io/{key}")].as_str();
        label.unwrap_or_default().to_owned()
    };
    format!("{}/{}", label("namespace"), label("name"))
}

#[test]
fn a_tenant_inherits_nothing() {
    let world = start(&[
        Change::write("clusters/hub/tenant.yaml", TENANT),
        Change::write("clusters/hub/rights.yaml", rights()),
        Change::write("stolen/rights.yaml", rights()),
    ]);
    let hub = world.cluster("hub");
    is_true(&world, "Kustomization", "flux-system", "flux-system");
    let mut stolen = sync("./stolen");
    stolen["serviceAccountName"] = json!("team-a");
    create(&world, "Kustomization", "team-a", "stolen", stolen.clone());
    // Refused objects are not listed. But a tenant can write any inventory, as if all objects were
    // applied.
    assert!(inventory(&world, "team-a", "stolen").is_empty());
    let listed = [
        "_team-a-reader_rbac.authorization.k8s.io_ClusterRoleBinding",
        "team-b_team-a-reader_rbac.authorization.k8s.io_RoleBinding",
        "team-b_theirs__ConfigMap",
    ];
    // An account with an invalid name does not block others.
    stolen["serviceAccountName"] = json!("No Name");
    create(&world, "Kustomization", "team-a", "nameless", stolen);
    let entries = json!({"status": {"inventory": {"entries": listed.iter().map(|id| json!({"id": id, "v": "v1"})).collect::<Vec<_>>()}}});
    for name in ["stolen", "nameless"] {
        let thief = path("Kustomization", "team-a", name);
        hub.patch(&format!("{thief}/status"), &entries);
    }
    look(&world, "Kustomization", "team-a", "stolen");
    assert_eq!(inventory(&world, "team-a", "stolen"), listed);

    world.push(FLEET, &[Change::remove("clusters/hub/rights.yaml")]);
    world.settle();
    is_true(&world, "Kustomization", "flux-system", "flux-system");
    let theirs = path("ConfigMap", "team-b", "theirs");
    for gone in [BINDING, ROLE_BINDING, &theirs] {
        assert!(hub.find(gone).is_none(), "{gone} is still there");
    }
    let left = inventory(&world, "flux-system", "flux-system");
    assert!(
        !left.iter().any(|id| id.contains("team-a-reader")),
        "{left:?}"
    );
    // The tenant's own step does not restore them either.
    look(&world, "Kustomization", "team-a", "stolen");
    assert!(hub.find(BINDING).is_none() && hub.find(&theirs).is_none());
}

#[test]
fn an_account_that_may_apply_an_object_inherits_it() {
    let world = start(&[
        Change::write("clusters/hub/tenant.yaml", TENANT),
        Change::write("own/own.yaml", config("own").replace("team-b", "team-a")),
    ]);
    let hub = world.cluster("hub");
    let mut own = sync("./own");
    own["serviceAccountName"] = json!("team-a");
    create(&world, "Kustomization", "team-a", "own", own);
    is_true(&world, "Kustomization", "team-a", "own");
    let both = config("own").replace("team-b", "team-a");
    let files = [
        Change::write("clusters/hub/own.yaml", both),
        Change::write("clusters/hub/many.yaml", configs(3)),
    ];
    world.push(FLEET, &files);
    world.settle();
    let there = path("ConfigMap", "team-a", "own");
    assert_eq!(owner(&hub.get(&there)), "flux-system/flux-system");

    let before = request_count(hub);
    let removed = ["own", "many"].map(|name| Change::remove(&format!("clusters/hub/{name}.yaml")));
    world.push(FLEET, &removed);
    world.settle();
    is_true(&world, "Kustomization", "flux-system", "flux-system");
    assert_eq!(owner(&hub.get(&there)), "team-a/own");
    assert!(hub.find(&path("ConfigMap", "team-b", "app-1")).is_none());
    let changed = writes_since(hub, before).into_iter();
    let changed: Vec<_> = changed.filter(|write| write.name == "own").collect();
    let heir = "system:serviceaccount:team-a:team-a";
    assert!(
        changed.iter().any(|write| write.as_user == heir),
        "{changed:#?}"
    );
    // One LIST for the consumers of the push, one for all objects that the prune deletes.
    let lists = hub.requests().into_iter().skip(before).filter(|one| {
        one.verb == "list" && one.resource == "kustomizations" && one.namespace.is_empty()
    });
    assert_eq!(lists.count(), 2);
}

/// Starts a hub with two Kustomizations `one` and `two` with the same volume claim, which belongs
/// to `one`.
fn shared() -> Embedded {
    let claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data, namespace: team-b}\nspec:\n  \
                 accessModes: [ReadWriteOnce]\n  resources: {requests: {storage: 1Gi}}\n";
    let world = start(&[
        Change::write("both/claim.yaml", claim),
        Change::write("none/none.yaml", config("none")),
    ]);
    // The last one to apply it is the owner.
    for name in ["two", "one"] {
        create(&world, "Kustomization", "flux-system", name, sync("./both"));
        is_true(&world, "Kustomization", "flux-system", name);
    }
    let claim = world.cluster("hub").get(VOLUME);
    assert_eq!(owner(&claim), "flux-system/one");
    world
}

fn leave(world: &Embedded) {
    let one = path("Kustomization", "flux-system", "one");
    let elsewhere = json!({"spec": {"path": "./none"}});
    world.cluster("hub").patch(&one, &elsewhere);
    look(world, "Kustomization", "flux-system", "one");
}

#[test]
fn an_unknown_heir_deletes_nothing() {
    for (method, unreadable, code) in [
        (Method::GET, "/kustomizations", 500),
        (Method::PATCH, "/persistentvolumeclaims/data", 500),
        // All writes of the claim are refused: that does not show whether the heir may apply it.
        (Method::PATCH, "/persistentvolumeclaims/data", 403),
        (Method::PATCH, "/persistentvolumeclaims/data", 422),
    ] {
        let world = shared();
        let hub = world.cluster("hub");
        world.fail("hub", method, unreadable, code);
        leave(&world);
        assert!(hub.find(VOLUME).is_some(), "{unreadable}: deleted");
        let (status, reason, message) = condition(&world, "Kustomization", "flux-system", "one");
        assert_eq!(
            (&*status, &*reason),
            ("False", "PruneFailed"),
            "{unreadable}: {message}"
        );
        let listed = inventory(&world, "flux-system", "one");
        assert!(listed.iter().any(|id| id.contains("data")), "{listed:?}");

        // The retry succeeds and hands the claim over.
        world.heal("hub");
        look(&world, "Kustomization", "flux-system", "one");
        is_true(&world, "Kustomization", "flux-system", "one");
        assert_eq!(owner(&hub.get(VOLUME)), "flux-system/two");
        let listed = inventory(&world, "flux-system", "one");
        assert!(!listed.iter().any(|id| id.contains("data")), "{listed:?}");
    }
}

#[test]
fn a_deletion_with_unknown_heirs_deletes_nothing() {
    let world = shared();
    let hub = world.cluster("hub");
    let one = path("Kustomization", "flux-system", "one");
    world.fail("hub", Method::GET, "/kustomizations", 500);
    hub.delete(&one);
    world.request("hub", "Kustomization", "flux-system", "one");
    let site: &dyn Site = &world;
    site.eventually("an event PruneFailed", || {
        let events = hub.get("/api/v1/namespaces/flux-system/events");
        let events = events["items"].as_array().cloned().unwrap_or_default();
        let is_failure = |event: &Value| event["reason"] == "PruneFailed";
        match events.iter().any(is_failure) {
            true => Ok(()),
            false => Err("no event".to_owned()),
        }
    });
    assert!(hub.find(VOLUME).is_some(), "deleted");
    assert!(hub.find(&one).is_some(), "the finalizer stays");
    world.heal("hub");
    look(&world, "Kustomization", "flux-system", "one");
    assert!(
        hub.find(&one).is_none(),
        "the object must be deleted in the end"
    );
    assert_eq!(owner(&hub.get(VOLUME)), "flux-system/two");
}
