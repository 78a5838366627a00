//! The oil tenant of capsule-addon-fluxcd: the kubeconfig of a Capsule Tenant's owner is created,
//! renewed and removed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use driftless_harness::github::Change;
use driftless_kernel::hub::CapsuleProxy;
use driftless_tests::capsule::{APPS, TENANT, config, definitions};
use driftless_tests::embedded::Embedded;
use driftless_tests::site::*;
use serde_json::{Value, json};
use std::time::Duration;

const FLEET: &str = "acme/fleet";
const OIL: &str = "oil/oil-apps";
const HUB: [HubSpec<'static>; 1] = one_hub(FLEET);
const PROXY: &str = "https://hub.embedded.internal";
const SECRET: &str = "/api/v1/namespaces/oil-system/secrets/gitops-reconciler-kubeconfig";
const ACCOUNT: &str = "/api/v1/namespaces/oil-system/serviceaccounts/gitops-reconciler";
const BINDING: &str =
    "/apis/rbac.authorization.k8s.io/v1/namespaces/oil-system/rolebindings/gitops-reconciler";
const NAMESPACE: &str = "/api/v1/namespaces/oil-system";
const OWNER: &str = "/apis/capsule.clastix.io/v1beta2/tenants/oil";
const GLOBAL: &str =
    "/apis/capsule.clastix.io/v1beta2/globaltenantresources/oil-gitops-reconciler-kubeconfig";

/// Starts a hub with Capsule's definitions, a proxy, and the objects in `fleet`.
fn start(fleet: &str) -> Embedded {
    let world = Embedded::start(&HUB, &[]);
    world.commit(
        FLEET,
        &[
            Change::write("clusters/hub/capsule.yaml", definitions()),
            Change::write("clusters/hub/tenants.yaml", fleet),
        ],
    );
    world.commit(
        OIL,
        &[Change::write("app.yaml", config("oil-system", "app"))],
    );
    world.change("hub", |settings| {
        settings.capsule_proxy = Some(CapsuleProxy {
            url: PROXY.to_owned(),
            certificate_authority: Some("-----BEGIN CERTIFICATE-----".to_owned()),
        });
    });
    world.sweep();
    world.settle();
    world
}

fn push(world: &Embedded, fleet: &str) {
    world.push(FLEET, &[Change::write("clusters/hub/tenants.yaml", fleet)]);
    world.settle();
}

fn kubeconfig(secret: &Value) -> String {
    let text = secret["data"]["kubeconfig"].as_str().expect("a kubeconfig");
    String::from_utf8(STANDARD.decode(text).expect("base64")).expect("text")
}

/// Returns the owner references of the account's Namespace.
fn namespace_owners(world: &Embedded) -> Value {
    let metadata = &world.cluster("hub").get(NAMESPACE)["metadata"];
    metadata["ownerReferences"].clone()
}

/// Reconciles the owners as the timer does. Returns the messages of the failures.
fn failures(world: &Embedded) -> Vec<String> {
    let reports = world.capsule();
    let failures = reports.iter().flat_map(|report| &report.failures);
    failures.map(ToString::to_string).collect()
}

#[test]
fn oil_tenant() {
    let world = start(&format!("{TENANT}{APPS}"));
    let hub = world.cluster("hub");
    // Created by the step that applied the account, not by the timer.
    let text = kubeconfig(&hub.get(SECRET));
    for line in [
        "    server: https://hub.embedded.internal\n",
        "current-context: default\n",
        "    certificate-authority-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
    let role =
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/oil-system-gitops-reconciler-impersonator";
    assert_eq!(
        hub.get(role)["rules"],
        json!([{"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"],
            "resourceNames": ["system:serviceaccount:oil-system:gitops-reconciler"]}])
    );
    assert_eq!(hub.get(BINDING)["roleRef"]["name"], "cluster-admin");
    assert!(hub.find(GLOBAL).is_none());
    let (status, reason, message) = ready(hub, "Kustomization", "oil-system", "oil-apps");
    assert_eq!(status, "True", "{reason}: {message}");
    assert!(
        hub.find("/api/v1/namespaces/oil-system/configmaps/app")
            .is_some()
    );

    // Without a change nothing is written.
    let writes = hub.writes();
    assert_eq!(failures(&world), Vec::<String>::new());
    assert_eq!(hub.writes(), writes);

    // The kubeconfig gives no access outside of the tenant's namespace.
    let outside = config("oil-system", "app") + &config("default", "stolen");
    world.push(OIL, &[Change::write("app.yaml", outside)]);
    world.settle();
    let (status, _, message) = ready(hub, "Kustomization", "oil-system", "oil-apps");
    assert_eq!(status, "False");
    assert!(message.contains("forbidden"), "{message}");
    assert!(
        hub.find("/api/v1/namespaces/default/configmaps/stolen")
            .is_none()
    );

    // The token is renewed before it expires.
    world.advance(Duration::from_secs(50 * 60));
    assert_eq!(failures(&world), Vec::<String>::new());
    let renewed = kubeconfig(&hub.get(SECRET));
    assert_ne!(renewed, text);

    // Objects that the tenant broke are repaired, and all are removed when the platform disables
    // the add-on for the account.
    hub.patch(SECRET, &json!({"data": {"kubeconfig": "eA=="}}));
    hub.delete(BINDING);
    assert_eq!(failures(&world), Vec::<String>::new());
    assert!(kubeconfig(&hub.get(SECRET)).contains(PROXY));
    assert!(hub.find(BINDING).is_some());
    push(&world, &TENANT.replace("\"true\"", "\"false\""));
    assert_eq!(failures(&world), Vec::<String>::new());
    for path in [SECRET, BINDING, role] {
        assert!(hub.find(path).is_none(), "{path}");
    }
    assert!(hub.find(ACCOUNT).is_some());
}

#[test]
fn oil_tenant_global() {
    let global = TENANT.replace(
        "enabled: \"true\"",
        "enabled: \"true\"\n    capsule.addon.fluxcd/kubeconfig-global: \"true\"",
    );
    let world = start(&global);
    let hub = world.cluster("hub");
    let spread = hub.get(GLOBAL);
    assert_eq!(
        spread["spec"]["tenantSelector"],
        json!({"matchLabels": {"kubernetes.io/metadata.name": "oil"}})
    );
    let copy = &spread["spec"]["resources"][0]["rawItems"][0];
    assert_eq!(copy["metadata"]["name"], "gitops-reconciler-kubeconfig");
    assert_eq!(kubeconfig(copy), kubeconfig(&hub.get(SECRET)));

    world.advance(Duration::from_secs(50 * 60));
    assert_eq!(failures(&world), Vec::<String>::new());
    let copy = &hub.get(GLOBAL)["spec"]["resources"][0]["rawItems"][0];
    assert_eq!(kubeconfig(copy), kubeconfig(&hub.get(SECRET)));

    push(&world, TENANT);
    assert_eq!(failures(&world), Vec::<String>::new());
    assert!(hub.find(GLOBAL).is_none());
    assert!(hub.find(SECRET).is_some());

    // An account that no longer owns a Tenant loses its kubeconfig.
    let owner = "system:serviceaccount:oil-system:gitops-reconciler";
    push(
        &world,
        &TENANT.replace(owner, "system:serviceaccount:oil-system:another-account"),
    );
    assert_eq!(failures(&world), Vec::<String>::new());
    assert!(hub.find(SECRET).is_none());
}

/// The Tenant is the controller of the account's Namespace, as with the addon: the Namespace is
/// deleted with it, and left alone when the account is no longer its owner.
#[test]
fn a_tenant_owns_the_namespace_of_its_account() {
    let world = start(&format!("{TENANT}{APPS}"));
    let hub = world.cluster("hub");
    let reference = |uid: &Value| {
        json!([{"apiVersion": "capsule.clastix.io/v1beta2", "kind": "Tenant", "name": "oil", "uid": uid,
            "controller": true, "blockOwnerDeletion": true}])
    };
    assert_eq!(
        namespace_owners(&world),
        reference(&hub.get(OWNER)["metadata"]["uid"])
    );

    // A client that removes the reference does not keep it away; a second run writes nothing.
    hub.patch(NAMESPACE, &json!({"metadata": {"ownerReferences": null}}));
    assert_eq!(failures(&world), Vec::<String>::new());
    assert_eq!(
        namespace_owners(&world),
        reference(&hub.get(OWNER)["metadata"]["uid"])
    );
    let writes = hub.writes();
    assert_eq!(failures(&world), Vec::<String>::new());
    assert_eq!(hub.writes(), writes);

    // The account is disabled, and enabled again.
    push(&world, &(TENANT.replace("\"true\"", "\"false\"") + APPS));
    assert_eq!(failures(&world), Vec::<String>::new());
    assert_eq!(namespace_owners(&world), Value::Null);
    assert_eq!(
        hub.get(NAMESPACE)["metadata"]["labels"]["driftless.dev/capsule"],
        Value::Null
    );
    push(&world, &format!("{TENANT}{APPS}"));
    assert_eq!(failures(&world), Vec::<String>::new());
    assert_eq!(
        namespace_owners(&world),
        reference(&hub.get(OWNER)["metadata"]["uid"])
    );

    // Another controller is not replaced.
    let tenants = "/apis/capsule.clastix.io/v1beta2/tenants";
    let gas = json!({"apiVersion": "capsule.clastix.io/v1beta2", "kind": "Tenant", "metadata": {"name": "gas"}});
    hub.create(tenants, &gas);
    let uid = hub.get(&format!("{tenants}/gas"))["metadata"]["uid"].clone();
    let mut other = reference(&uid);
    other[0]["name"] = json!("gas");
    hub.patch(NAMESPACE, &json!({"metadata": {"ownerReferences": other}}));
    let messages = failures(&world).join("\n");
    let words = "service account oil-system/gitops-reconciler: Namespace/oil-system is controlled by Tenant/gas, and not by Tenant/oil: remove";
    assert!(messages.contains(words), "{messages}");
    assert!(hub.find(SECRET).is_some());
    hub.patch(NAMESPACE, &json!({"metadata": {"ownerReferences": null}}));
    assert_eq!(failures(&world), Vec::<String>::new());

    // Without its Tenant the Namespace is the garbage collector's.
    hub.delete(OWNER);
    assert_eq!(failures(&world), Vec::<String>::new());
    assert!(hub.find(NAMESPACE).is_none());
}

#[test]
fn an_account_may_request_a_token_without_expiry() {
    let fleet = TENANT.replace(
        "enabled: \"true\"",
        "enabled: \"true\"\n    driftless.dev/capsule-token: secret",
    );
    let world = start(&fleet);
    let hub = world.cluster("hub");
    let path = "/api/v1/namespaces/oil-system/secrets/gitops-reconciler-token";
    assert_eq!(hub.get(path)["type"], "kubernetes.io/service-account-token");
    assert!(
        hub.find(SECRET).is_none(),
        "the cluster has not set the token yet"
    );
    // Set the token as the token controller does, first for a deleted account of the same name.
    let fill = |uid: &Value, token: &str| {
        let annotations = json!({"kubernetes.io/service-account.uid": uid});
        let data = json!({"token": STANDARD.encode(token)});
        hub.patch(
            path,
            &json!({"metadata": {"annotations": annotations}, "data": data}),
        );
        assert_eq!(failures(&world), Vec::<String>::new());
    };
    fill(&json!("old"), "eyJ.old");
    assert!(hub.find(SECRET).is_none());
    fill(&hub.get(ACCOUNT)["metadata"]["uid"], "eyJ.new");
    assert!(kubeconfig(&hub.get(SECRET)).ends_with("token: eyJ.new\n"));
}

#[test]
fn accounts_cannot_take_over_foreign_roles() {
    // Both would have the cluster role `a-b-c-impersonator`.
    let owner = |namespace: &str, name: &str, tenant: &str| {
        TENANT
            .replace("oil-system", namespace)
            .replace("gitops-reconciler", name)
            .replace("name: oil\n", &format!("name: {tenant}\n"))
    };
    let both = owner("a-b", "c", "one") + &owner("a", "b-c", "two");
    let world = start(&(both + &owner("team", "own", "three")));
    let hub = world.cluster("hub");
    let messages = failures(&world).join("\n");
    let words = ["a-b/c", "a/b-c", "rename one of the accounts"];
    assert!(
        words.iter().all(|word| messages.contains(word)),
        "{messages}"
    );
    let secret = |namespace: &str, name: &str| {
        hub.find(&format!(
            "/api/v1/namespaces/{namespace}/secrets/{name}-kubeconfig"
        ))
    };
    assert!(secret("a-b", "c").is_none() && secret("a", "b-c").is_none());
    assert!(
        secret("team", "own").is_some(),
        "other accounts must get their kubeconfigs"
    );

    // A foreign role that has the name of an account's role.
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "platform-role-impersonator"}, "rules": rules});
    hub.create(roles, &role);
    push(&world, &owner("platform", "role", "four"));
    let messages = failures(&world).join("\n");
    assert!(
        messages.contains("service account platform/role: ClusterRole/platform-role-impersonator exists and was not created"),
        "{messages}"
    );
    let left = hub.get(&format!("{roles}/platform-role-impersonator"));
    assert_eq!(left["rules"], rules);
    assert!(secret("platform", "role").is_none());
}
