//! Kamaji's guide to GitOps: a management cluster keeps cert-manager installed in a tenant's
//! cluster, whatever the tenant changes there.
//!
//! The objects are the guide's, in its versions and with its fields: `tests/guides/kamaji`. None of
//! them comes from Git. The chart is the one of `tests/charts`.

use crate::world::World;
use driftless_harness::charts::{self, Host};
use driftless_harness::kubectl::Kubectl;
use driftless_harness::tools;
use driftless_tests::site::*;
use serde_json::{Value, json};
use tempfile::TempDir;

const HUB: &str = "management";
/// The tenant's control plane, in the namespace `tenants` of the hub.
const TENANT: &str = "tenant1";
/// The user of the kubeconfig that Kamaji writes, and its Secret.
const ADMIN: &str = "kubernetes-admin";
const SECRET: &str = "tenant1-admin-kubeconfig";
const VERSION: &str = "v1.10.1";
/// Flux's name of the release, which includes the target namespace.
const RELEASE: &str = "default-tenant1-cert-manager";

/// Returns the manifests that an administrator applies on the management cluster, with this chart
/// repository.
fn guide(charts: &str) -> String {
    let file = "guides/kamaji/clusters/management/cert-manager.yaml";
    let text = std::fs::read_to_string(tools::tests().join(file)).expect("the guide");
    assert!(text.contains(SECRET) && text.contains(VERSION), "{text}");
    text.replace("https://charts.jetstack.io", charts)
}

/// The setting for what the guide promises in addition: changes of the tenant are reverted.
const CORRECT: &str = r#"{"spec": {"driftDetection": {"mode": "enabled"}}}"#;

struct Guide {
    world: World,
    charts: Host,
    _directory: TempDir,
}

impl Guide {
    fn start() -> Self {
        let hub = HubSpec {
            name: HUB,
            repository: "",
            branch: "",
            path: "",
        };
        let (world, charts) = (World::start(false, &[hub], &[TENANT]), Host::start());
        let directory = TempDir::new().expect("a directory");
        let chart = charts::public_chart("cert-manager");
        charts::package_directory(directory.path(), &chart, VERSION);
        charts::index(directory.path(), &charts, "/jetstack", "");
        world.hub(HUB).namespace("tenants");
        // Flux keeps a release's records in a namespace named like the HelmRelease's own, and does
        // not create it.
        world.remote(TENANT).namespace("tenants");
        Self {
            world,
            charts,
            _directory: directory,
        }
    }

    fn hub(&self) -> &dyn Node {
        self.world.hub(HUB)
    }

    fn tenant(&self) -> &dyn Node {
        self.world.remote(TENANT)
    }

    /// Returns the administrator's kubectl for the management cluster.
    fn kubectl(&self) -> Kubectl {
        Kubectl::new(&self.hub().kubeconfig())
    }

    /// Returns Kamaji's kubeconfig of the tenant's administrator.
    fn admin_conf(&self) -> String {
        let tenant = self.world.remote(TENANT);
        tenant.kubeconfig_with_certificate(ADMIN, "system:masters")
    }

    fn release(&self) -> Value {
        let path = path("HelmRelease", "tenants", "tenant1-cert-manager");
        self.hub().get(&path)
    }

    /// Returns the status, reason and message of the condition Ready.
    fn ready(&self) -> (String, String, String) {
        ready(self.hub(), "HelmRelease", "tenants", "tenant1-cert-manager")
    }

    /// Waits until the release is ready, while the tenant's workloads run as they would with its
    /// controllers.
    fn becomes_ready(&self, description: &str) {
        self.world.eventually(description, || {
            self.world.remote(TENANT).run_workloads("default");
            match self.ready() {
                (status, ..) if status == "True" => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
    }

    fn it_waits_for_the_kubeconfig(&self) {
        let objects = guide(&format!("{}/jetstack", self.charts.url()));
        self.kubectl().apply(&objects);
        self.world.sweep();
        let description = "the release waits for the tenant's kubeconfig";
        self.world.eventually(description, || {
            let (status, reason, message) = self.ready();
            let current = (status.as_str(), reason.as_str());
            match current == ("False", "RESTClientError") && message.contains(SECRET) {
                true => Ok(()),
                false => Err(format!("{current:?} {message}")),
            }
        });
    }

    /// Checks that the release continues without an event: it waits for the missing Secret.
    fn it_proceeds_when_the_kubeconfig_appears(&self) {
        let data = json!({ "admin.conf": self.admin_conf() });
        self.hub().secret("tenants", SECRET, &data);
        self.becomes_ready("cert-manager is installed");
        let message = format!(
            "Helm install succeeded for release default/{RELEASE}.v1 with chart cert-manager@{VERSION}"
        );
        let expected = ("True".into(), "InstallSucceeded".into(), message);
        assert_eq!(self.ready(), expected);
        let release = self.release();
        let status = &release["status"];
        assert_eq!(
            status["helmChart"],
            "flux-system/tenants-tenant1-cert-manager"
        );
        assert_eq!(status["storageNamespace"], "tenants");
        let names = ["name", "namespace", "status", "chartVersion", "appVersion"];
        let first = names.map(|field| &status["history"][0][field]);
        assert_eq!(first, [RELEASE, "default", "deployed", VERSION, VERSION]);
    }

    /// Checks the output of `kubectl get deploy -n default`, as the guide shows it.
    fn the_tenant_sees_three_deployments(&self) {
        let columns = "custom-columns=:metadata.name,:spec.replicas,:status.readyReplicas";
        let kubectl = Kubectl::new(&self.admin_conf());
        let seen = kubectl.run(&["get", "deploy", "-A", "-o", columns]);
        let seen = seen.expect("the tenant's Deployments");
        let seen: Vec<Vec<&str>> = seen
            .lines()
            .map(|line| line.split_whitespace().collect())
            .filter(|words: &Vec<_>| !words.is_empty())
            .collect();
        let expected = [("", "2"), ("-cainjector", "1"), ("-webhook", "1")];
        let expected = expected.map(|(suffix, count)| (format!("{RELEASE}{suffix}"), count));
        let expected: Vec<Vec<&str>> = expected
            .iter()
            .map(|(name, count)| vec![name.as_str(), count, count])
            .collect();
        assert_eq!(seen, expected);
    }

    fn a_second_sync_writes_nothing(&self) {
        self.world.settle();
        let still = NoWrites::watch(&[self.hub(), self.tenant()]);
        for (kind, namespace, name) in [
            ("HelmRepository", "flux-system", "jetstack"),
            ("HelmChart", "flux-system", "tenants-tenant1-cert-manager"),
            ("HelmRelease", "tenants", "tenant1-cert-manager"),
        ] {
            self.world.request(HUB, kind, namespace, name, "timer");
        }
        self.world.settle();
        still.check();
    }

    /// Checks that every write was one of the chart's objects or of the release's record.
    fn nothing_else_is_installed(&self) {
        let writes = writes_since(self.tenant(), 0);
        let writes: Vec<_> = writes
            .into_iter()
            .filter(|write| write.user == ADMIN)
            .collect();
        assert!(writes.len() > 15, "{writes:#?}");
        for write in writes {
            let names = write.uri.split(['/', '?']);
            let is_known = names.clone().any(|name| name.starts_with(RELEASE));
            // Requests that create an object have the name only in their bodies.
            let is_record = write.resource == "secrets" && write.namespace == "tenants";
            assert!(is_known || is_record, "{write:?}");
        }
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        assert_eq!(self.tenant().get(definitions)["items"], json!([]));
        let records = self.tenant().get("/api/v1/secrets")["items"].clone();
        let name = |record: &Value| record["metadata"]["name"].clone();
        let records: Vec<Value> = records.as_array().into_iter().flatten().map(name).collect();
        assert_eq!(records, [format!("sh.helm.release.v1.{RELEASE}.v1")]);
    }

    fn changes_of_the_tenant_are_reverted(&self) {
        let patch = ["patch", "helmrelease", "tenant1-cert-manager"];
        let patch = [
            &patch[..],
            &["-n", "tenants", "--type=merge", "-p", CORRECT],
        ]
        .concat();
        self.kubectl().run(&patch).expect("kubectl patch");
        self.world.sweep();
        self.world.eventually("the release detects drift", || {
            let release = self.release();
            let generations = [
                &release["status"]["observedGeneration"],
                &release["metadata"]["generation"],
            ];
            match generations[0] == generations[1] {
                true => Ok(()),
                false => Err(format!("{generations:?} {:?}", self.ready())),
            }
        });
        self.world.settle();
        let tenant = self.tenant();
        let before = places().map(|place| spec(&tenant.get(&place)));
        self.meddle();
        self.world
            .eventually("the tenant's changes are reverted", || {
                self.world.sweep();
                let now = places().map(|place| tenant.find(&place).as_ref().map(spec));
                let differ = now.iter().zip(&before).zip(places());
                let differ = differ.filter(|((now, before), _)| now.as_ref() != Some(*before));
                let differ: Vec<String> = differ.map(|(_, place)| place).collect();
                if differ.is_empty() {
                    Ok(())
                } else {
                    Err(format!("{differ:?}"))
                }
            });
        let controller = tenant.get(&places()[0]);
        assert_eq!(controller["metadata"]["annotations"]["team"], "ours");
        self.becomes_ready("the release is ready again");
        let (_, reason, _) = self.ready();
        assert_eq!(reason, "InstallSucceeded", "no new release was created");
    }

    /// Changes and deletes objects of the release as the tenant.
    fn meddle(&self) {
        let [controller, webhook, service, role, rules] = places();
        let tenant = self.tenant();
        let more = json!({"metadata": {"annotations": {"team": "ours"}}, "spec": {"replicas": 0}});
        tenant.patch(&controller, &more);
        tenant.patch(&rules, &json!({"webhooks": null}));
        for gone in [webhook, service, role] {
            tenant.delete(&gone);
        }
    }

    fn a_new_kubeconfig_is_used(&self) {
        let old = Kubectl::new(&self.admin_conf());
        old.run(&["get", "namespaces"])
            .expect("the old kubeconfig is valid");
        self.world.remote(TENANT).rotate_clients();
        let new = json!({"stringData": {"admin.conf": self.admin_conf()}});
        self.hub().patch(&path("Secret", "tenants", SECRET), &new);
        self.world
            .eventually("the old certificates are refused", || {
                match old.run(&["get", "namespaces"]) {
                    Err(error) if error.contains("Unauthorized") || error.contains("logged in") => {
                        Ok(())
                    }
                    other => Err(format!("{other:?}")),
                }
            });
        let start = request_count(self.tenant());
        let [controller, ..] = places();
        self.tenant().delete(&controller);
        self.world
            .eventually("the next sync uses the new ones", || {
                self.world.sweep();
                let back = self.tenant().find(&controller);
                back.map(|_| ())
                    .ok_or_else(|| format!("{:?}", self.ready()))
            });
        let requests = self.tenant().requests().split_off(start);
        let refused: Vec<_> = requests.iter().filter(|one| one.code == 401).collect();
        assert!(refused.is_empty(), "{refused:#?}");
        assert!(
            requests
                .iter()
                .any(|one| one.user == ADMIN && one.is_write())
        );
    }

    fn it_leaves_nothing_behind(&self) {
        let delete = ["delete", "helmrelease", "tenant1-cert-manager"];
        let delete = [&delete[..], &["-n", "tenants", "--wait=false"]].concat();
        self.kubectl().run(&delete).expect("kubectl delete");
        self.world.sweep();
        let release = path("HelmRelease", "tenants", "tenant1-cert-manager");
        self.world
            .eventually("the release is gone", || match self.hub().find(&release) {
                None => Ok(()),
                Some(_) => Err(format!("{:?}", self.ready())),
            });
        for place in places() {
            assert_eq!(self.tenant().find(&place), None, "{place}");
        }
        assert_eq!(self.tenant().get("/api/v1/secrets")["items"], json!([]));
        let chart = path("HelmChart", "flux-system", "tenants-tenant1-cert-manager");
        assert_eq!(self.hub().find(&chart), None);
    }
}

/// Returns the API paths of some of the chart's objects: of several groups, in two namespaces, and
/// cluster-wide.
fn places() -> [String; 5] {
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles";
    let webhooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let webhook = format!("{RELEASE}-webhook");
    [
        path("Deployment", "default", RELEASE),
        path("Deployment", "default", &webhook),
        path("Service", "default", &webhook),
        format!("{rbac}/{RELEASE}:leaderelection"),
        format!("{webhooks}/{webhook}"),
    ]
}

/// Removes an object's metadata and status, and the fields of its spec that the server assigns.
fn spec(object: &Value) -> Value {
    let mut object = object.clone();
    let fields = object.as_object_mut().expect("an object");
    for field in ["metadata", "status"] {
        fields.remove(field);
    }
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        for field in ["clusterIP", "clusterIPs"] {
            spec.remove(field);
        }
    }
    object
}

#[test]
fn kamaji_whole() {
    let guide = Guide::start();
    guide.it_waits_for_the_kubeconfig();
    guide.it_proceeds_when_the_kubeconfig_appears();
    guide.the_tenant_sees_three_deployments();
    guide.a_second_sync_writes_nothing();
    guide.nothing_else_is_installed();
    guide.changes_of_the_tenant_are_reverted();
    guide.a_new_kubeconfig_is_used();
    guide.it_leaves_nothing_behind();
}
