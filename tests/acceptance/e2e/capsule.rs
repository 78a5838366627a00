//! The oil tenant of capsule-addon-fluxcd on a real API server: the deployed functions give its
//! owner a kubeconfig, and requests through it are made as that account.

use crate::world::World;
use driftless_harness::capsule::{self, CapsuleProxy};
use driftless_harness::github::Change;
use driftless_harness::http::Http;
use driftless_harness::tools;
use driftless_tests::capsule::{APPS, TENANT, config, definitions};
use driftless_tests::site::*;
use serde_json::{Value, json};

const FLEET: &str = "acme/fleet";
const OIL: &str = "oil/oil-apps";
const HUB: HubSpec<'static> = one_hub(FLEET)[0];
const OWNER: &str = "system:serviceaccount:oil-system:gitops-reconciler";
const SECRET: &str = "/api/v1/namespaces/oil-system/secrets/gitops-reconciler-kubeconfig";
const GLOBAL: &str =
    "/apis/capsule.clastix.io/v1beta2/globaltenantresources/oil-gitops-reconciler-kubeconfig";

/// Returns the value of a line of a kubeconfig.
fn line<'a>(kubeconfig: &'a str, key: &str) -> &'a str {
    let found = kubeconfig
        .lines()
        .find_map(|line| line.trim().strip_prefix(key));
    found
        .unwrap_or_else(|| panic!("no {key} in the kubeconfig"))
        .trim()
        .trim_matches('"')
}

fn push(world: &World, fleet: &str) {
    Site::push(
        world,
        FLEET,
        &[Change::write("clusters/hub/tenants.yaml", fleet)],
    );
    world.settle();
}

#[test]
fn oil_tenant() {
    let world = World::start(false, &[HUB], &[]);
    let hub: &dyn Node = world.hub("hub");
    // The API server itself replaces the Capsule proxy: it authenticates the kubeconfig's user.
    let kubeconfig = hub.kubeconfig();
    let directory = tempfile::tempdir().expect("a directory");
    let authority = directory.path().join("ca.crt");
    let encoded = line(&kubeconfig, "certificate-authority-data:");
    let decoded = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, encoded);
    std::fs::write(&authority, decoded.expect("base64")).expect("write the authority");
    let authority = authority.to_str().expect("a path");
    let server = line(&kubeconfig, "server:");
    world.bootstrap(
        &HUB,
        &["--capsule-proxy", server, "--capsule-proxy-ca", authority],
    );

    world.commit(
        OIL,
        &[Change::write("app.yaml", config("oil-system", "app"))],
    );
    world.commit(
        FLEET,
        &[Change::write("clusters/hub/capsule.yaml", definitions())],
    );
    push(&world, &format!("{TENANT}{APPS}"));
    let app = "/api/v1/namespaces/oil-system/configmaps/app";
    world.eventually("the tenant's app is there", || match hub.find(app) {
        Some(_) => Ok(()),
        None => Err(format!(
            "{:?}",
            ready(hub, "Kustomization", "oil-system", "oil-apps")
        )),
    });
    assert!(hub.get(SECRET)["data"]["kubeconfig"].is_string());
    let requests = hub.requests();
    let mut writes = requests
        .iter()
        .filter(|one| one.is_write() && one.namespace == "oil-system");
    assert!(
        writes.any(|one| one.user == OWNER && one.name == "app"),
        "the app was not applied through the owner's kubeconfig"
    );

    // When nothing has changed, the timer's run writes nothing.
    let rest = json!({"hubs": [{"hub": "hub", "applied": [], "deleted": []}]});
    assert_eq!(world.capsule(), rest);

    // The Secret is copied to the tenant's namespaces, and removed again.
    let global = TENANT.replace(
        "enabled: \"true\"",
        "enabled: \"true\"\n    capsule.addon.fluxcd/kubeconfig-global: \"true\"",
    );
    push(&world, &format!("{global}{APPS}"));
    world.capsule();
    let spread: Value = hub.get(GLOBAL);
    let copy = &spread["spec"]["resources"][0]["rawItems"][0];
    assert_eq!(copy["data"], hub.get(SECRET)["data"]);

    push(&world, &TENANT.replace("\"true\"", "\"false\""));
    world.capsule();
    for path in [SECRET, GLOBAL] {
        assert!(hub.find(path).is_none(), "{path}");
    }
}

/// The README of capsule-addon-fluxcd from the first step to the last, with its YAML
/// (`tests/guides/capsule`), behind a proxy that acts as Capsule's does.
#[test]
fn capsule_whole() {
    let guide = Guide::start();
    guide.the_tenants_app_is_applied_through_the_proxy();
    guide.the_proxy_refuses_others();
    guide.the_tenant_stays_in_its_namespaces();
    guide.the_kubeconfig_is_distributed();
    guide.a_disabled_account_loses_its_access();
}

struct Guide {
    world: World,
    proxy: CapsuleProxy,
    /// The file `oil.yaml` of the platform's repository.
    tenant: String,
}

impl Guide {
    /// Installs Capsule and the addon: in place of `helm install`, the hub is registered with the
    /// proxy.
    fn start() -> Self {
        let world = World::start(false, &[HUB], &[]);
        let proxy = CapsuleProxy::start(world.hub("hub"));
        let directory = tempfile::tempdir().expect("a directory");
        let authority = directory.path().join("ca.crt");
        std::fs::write(&authority, proxy.authority()).expect("write the authority");
        let authority = authority.to_str().expect("a path");
        let url = proxy.url();
        world.bootstrap(
            &HUB,
            &["--capsule-proxy", &url, "--capsule-proxy-ca", authority],
        );
        let guide = tools::tests().join("guides/capsule");
        world.import(OIL, &guide.join("oil-apps"));
        world.import(FLEET, &guide.join("platform"));
        let tenant = guide.join("platform/clusters/hub/oil.yaml");
        let tenant = std::fs::read_to_string(tenant).expect("the Tenant");
        let definitions = Change::write("clusters/hub/capsule.yaml", definitions());
        Site::push(&world, FLEET, &[definitions]);
        Self {
            world,
            proxy,
            tenant,
        }
    }

    fn hub(&self) -> &dyn Node {
        self.world.hub("hub")
    }

    /// Runs Capsule's controller and the timer of the addon.
    fn reconcile(&self) {
        self.world.capsule();
        capsule::reconcile(self.world.hub("hub").api());
    }

    fn push_tenant(&self, text: &str) {
        Site::push(
            &self.world,
            FLEET,
            &[Change::write("clusters/hub/oil.yaml", text)],
        );
        self.world.settle();
        self.reconcile();
    }

    fn becomes(&self, status: &str, words: &str) {
        self.world
            .eventually(&format!("oil-apps becomes {status}"), || {
                let now = ready(self.hub(), "Kustomization", "oil-system", "oil-apps");
                match now.0 == status && now.2.contains(words) {
                    true => Ok(()),
                    false => Err(format!("{now:?}")),
                }
            });
    }

    fn the_tenants_app_is_applied_through_the_proxy(&self) {
        let app = "/api/v1/namespaces/oil-production/configmaps/web";
        self.world
            .eventually("the tenant's app is there", || match self.hub().find(app) {
                Some(_) => Ok(()),
                None => Err(format!(
                    "{:?} {:?}",
                    ready(self.hub(), "Kustomization", "oil-system", "oil-apps"),
                    self.proxy.calls().last()
                )),
            });
        self.becomes("True", "");
        let calls = self.proxy.calls();
        let applied = calls
            .iter()
            .find(|call| call.path == app && call.method == "PATCH" && call.status < 300);
        assert_eq!(applied.expect("the proxy passed the app on").user, OWNER);
        // The API server has seen the owner only behind the proxy, which impersonates it.
        let requests = self.hub().requests();
        let direct: Vec<_> = requests.iter().filter(|one| one.user == OWNER).collect();
        assert!(direct.is_empty(), "{direct:#?}");
        let mut writes = requests
            .iter()
            .filter(|one| one.is_write() && one.namespace == "oil-production");
        assert!(writes.any(|one| one.as_user == OWNER && one.name == "web"));

        // The Tenant owns the namespace of the account.
        let tenant = self
            .hub()
            .get("/apis/capsule.clastix.io/v1beta2/tenants/oil");
        let namespace = self.hub().get("/api/v1/namespaces/oil-system");
        let owner = &namespace["metadata"]["ownerReferences"][0];
        assert_eq!(owner["uid"], tenant["metadata"]["uid"]);
        assert_eq!(owner["controller"], true);
    }

    fn the_proxy_refuses_others(&self) {
        let stranger = self
            .world
            .hub("hub")
            .service_account_token("default", "stranger");
        let kubeconfig = self.hub().get(SECRET)["data"]["kubeconfig"].clone();
        let encoded = kubeconfig.as_str().expect("a kubeconfig");
        let decoded = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, encoded);
        let kubeconfig = String::from_utf8(decoded.expect("base64")).expect("text");
        assert_eq!(line(&kubeconfig, "server:"), self.proxy.url());
        let own = line(&kubeconfig, "token:").to_owned();
        let url = format!(
            "{}/api/v1/namespaces/oil-production/configmaps",
            self.proxy.url()
        );
        let ask = |token: &str, acting: &str| {
            let mut client = Http::trusting(self.proxy.authority());
            for (name, value) in [("authorization", token), ("impersonate-user", acting)] {
                if !value.is_empty() {
                    client = client.with_header(name, value);
                }
            }
            client.get(&url).status
        };
        let bearer = |token: &str| format!("Bearer {token}");
        assert_eq!(ask("", ""), 401);
        assert_eq!(ask(&bearer("forged"), ""), 401);
        assert_eq!(ask(&bearer(&stranger), ""), 403);
        assert_eq!(ask(&bearer(&own), "kubernetes-admin"), 403);
        assert_eq!(ask(&bearer(&own), OWNER), 200);
    }

    fn the_tenant_stays_in_its_namespaces(&self) {
        let binding = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata:\n  name: oil\nroleRef:\n  \
                       apiGroup: rbac.authorization.k8s.io\n  kind: ClusterRole\n  name: cluster-admin\nsubjects:\n- kind: \
                       ServiceAccount\n  name: gitops-reconciler\n  namespace: oil-system\n";
        for (text, path) in [
            (
                config("default", "stolen"),
                "/api/v1/namespaces/default/configmaps/stolen",
            ),
            (
                binding.to_owned(),
                "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/oil",
            ),
        ] {
            Site::push(&self.world, OIL, &[Change::write("more.yaml", text)]);
            self.becomes("False", "forbidden");
            assert!(self.hub().find(path).is_none(), "{path}");
        }
        Site::push(&self.world, OIL, &[Change::remove("more.yaml")]);
        self.becomes("True", "");
    }

    fn the_kubeconfig_is_distributed(&self) {
        let global = self.tenant.replace(
            "enabled: \"true\"",
            "enabled: \"true\"\n    capsule.addon.fluxcd/kubeconfig-global: \"true\"",
        );
        self.push_tenant(&global);
        let copy = self.hub().get(&copied("oil-production"));
        assert_eq!(copy["data"], self.hub().get(SECRET)["data"]);
        assert!(self.hub().find(&copied("default")).is_none());
    }

    fn a_disabled_account_loses_its_access(&self) {
        self.push_tenant(&self.tenant.replace("\"true\"", "\"false\""));
        for path in [SECRET, GLOBAL, &copied("oil-production")] {
            assert!(self.hub().find(path).is_none(), "{path}");
        }
        let namespace = self.hub().get("/api/v1/namespaces/oil-system");
        assert_eq!(namespace["metadata"]["ownerReferences"], Value::Null);
    }
}

/// Returns the path of a copy of the kubeconfig.
fn copied(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/secrets/gitops-reconciler-kubeconfig")
}
