//! The sample fleet: a platform, two tenants, two hubs and a remote cluster.

use crate::site::*;
use driftless_harness::github::Change;
use driftless_harness::tools;
use serde_json::json;
use std::time::Duration;

const FLEET: &str = "acme/fleet";
const TEAM_A: &str = "acme/team-a";
const TEAM_B: &str = "acme/team-b";

/// The sample fleet on a site.
pub struct Sample {
    site: Box<dyn Site>,
}

impl Sample {
    /// Sets up the sample fleet on the site that `start` creates for these hubs, which must have
    /// the remote cluster `edge`.
    pub fn on(start: impl FnOnce(&[HubSpec<'_>]) -> Box<dyn Site>) -> Self {
        let hub = |name, path| HubSpec {
            name,
            repository: FLEET,
            branch: "main",
            path,
        };
        let site = start(&[
            hub("staging", "./clusters/staging"),
            hub("production", "./clusters/production"),
        ]);
        let directory = tools::tests().join("fleet");
        for (repository, place) in [(FLEET, "platform"), (TEAM_A, "team-a"), (TEAM_B, "team-b")] {
            site.import(repository, &directory.join(place));
        }
        site.set_private(TEAM_A, &["ghp_team_a"]);
        let sample = Self { site };
        sample.create_secrets();
        sample
    }

    /// Creates the Secrets that a platform team creates on its hubs by hand: the key, the token and
    /// the remote cluster's kubeconfig.
    fn create_secrets(&self) {
        let key =
            std::fs::read_to_string(tools::tests().join("fleet/age.agekey")).expect("read the key");
        for hub in [self.staging(), self.production()] {
            hub.namespace("team-a");
            hub.secret("team-a", "sops-age", &json!({"age.agekey": key}));
            let token = json!({"username": "git", "password": "ghp_team_a"});
            hub.secret("team-a", "git-token", &token);
        }
        let kubeconfig = json!({"value": self.edge().kubeconfig()});
        self.staging()
            .secret("flux-system", "edge-kubeconfig", &kubeconfig);
    }

    fn staging(&self) -> &dyn Node {
        self.site.cluster("staging")
    }

    fn production(&self) -> &dyn Node {
        self.site.cluster("production")
    }

    fn edge(&self) -> &dyn Node {
        self.site.cluster("edge")
    }

    fn clusters(&self) -> [&dyn Node; 3] {
        [self.staging(), self.production(), self.edge()]
    }

    /// Checks that every Kustomization of the fleet is ready at the head of its repository.
    fn all_ready(&self) -> Result<(), String> {
        let (fleet, a, b) = (
            self.site.head(FLEET),
            self.site.head(TEAM_A),
            self.site.head(TEAM_B),
        );
        for hub in [self.staging(), self.production()] {
            for name in ["flux-system", "infrastructure", "tenants"] {
                is_ready(hub, "flux-system", name, &fleet)?;
            }
            is_ready(hub, "team-a", "apps", &a)?;
            is_ready(hub, "team-b", "apps", &b)?;
        }
        is_ready(self.staging(), "flux-system", "edge", &fleet)
    }

    /// Checks that the first sweep applies the fleet on every cluster.
    pub fn first_sync(&self) {
        self.site.sweep();
        self.site
            .eventually("the fleet is ready", || self.all_ready());
        let get = |kind: &str, namespace: &str, name: &str| {
            self.staging().get(&path(kind, namespace, name))
        };
        let web = get("Deployment", "team-a", "web");
        assert_eq!(web["spec"]["replicas"], 2);
        assert_eq!(
            web["metadata"]["labels"]["kustomize.toolkit.fluxcd.io/name"],
            "apps"
        );
        let settings =
            web["spec"]["template"]["spec"]["containers"][0]["envFrom"][0]["configMapRef"]["name"]
                .clone();
        assert!(
            settings
                .as_str()
                .is_some_and(|name| name.starts_with("settings-")),
            "{settings}"
        );
        let database = get("Secret", "team-a", "database");
        assert_eq!(
            database["data"]["password"],
            "Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5LXN0YXBsZQ=="
        );
        assert!(database.get("sops").is_none());
        let deployment = get("Deployment", "team-b", "api");
        assert_eq!(
            (
                &deployment["metadata"]["labels"]["cluster"],
                &deployment["spec"]["replicas"]
            ),
            (&json!("staging"), &json!(1))
        );
        assert_eq!(
            get("ConfigMap", "team-b", "limits")["data"]["template"],
            "${not_ours}"
        );
        let production = self.production().get(&path("Deployment", "team-a", "web"));
        assert_eq!(production["spec"]["replicas"], 5);
        assert_eq!(
            production["spec"]["template"]["spec"]["containers"][0]["image"],
            "registry.example/web:1.0.1"
        );
        assert!(
            self.edge()
                .find(&path("Deployment", "edge", "agent"))
                .is_some()
        );
        assert!(self.edge().find("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/kustomizations.kustomize.toolkit.fluxcd.io").is_none());
    }

    /// Checks that a second sync writes nothing.
    pub fn second_sync_writes_nothing(&self) {
        self.site.settle();
        let writes = NoWrites::watch(&self.clusters());
        for hub in ["staging", "production"] {
            self.site
                .request(hub, "GitRepository", "flux-system", "flux-system");
            for (namespace, name) in [
                ("flux-system", "flux-system"),
                ("flux-system", "infrastructure"),
                ("flux-system", "tenants"),
                ("team-a", "apps"),
                ("team-b", "apps"),
            ] {
                self.site.request(hub, "Kustomization", namespace, name);
            }
        }
        self.site
            .request("staging", "Kustomization", "flux-system", "edge");
        self.site.settle();
        writes.check();
    }

    /// Checks that a push to a tenant's repository writes only that tenant's objects.
    pub fn a_push_of_one_tenant_touches_that_tenant_only(&self) {
        let starts = self.clusters().map(request_count);
        let text =
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: motd\ndata:\n  text: changed\n";
        let deliveries = self
            .site
            .push(TEAM_A, &[Change::write("base/motd.yaml", text)]);
        accepted(&deliveries);
        self.site
            .eventually("the tenant's push landed", || self.all_ready());
        self.site.settle();
        for (cluster, start) in self.clusters().into_iter().zip(starts) {
            for write in writes_since(cluster, start) {
                assert_eq!(write.namespace, "team-a", "{}: {write:?}", cluster.name());
                let status = write.subresource == "status";
                let object =
                    write.as_user == "system:serviceaccount:team-a:team-a" && write.name == "motd";
                assert!(status || object, "{}: {write:?}", cluster.name());
            }
        }
        let motd = self.production().get(&path("ConfigMap", "team-a", "motd"));
        assert_eq!(motd["data"]["text"], "changed");

        let starts = self.clusters().map(request_count);
        for delivery in &deliveries {
            accepted(&self.site.redeliver(delivery));
        }
        self.site.settle();
        for (cluster, start) in self.clusters().into_iter().zip(starts) {
            assert_eq!(
                writes_since(cluster, start),
                [],
                "{}: the redelivered push caused writes",
                cluster.name()
            );
        }
    }

    fn a_removed_file_is_pruned_on_the_right_cluster_only(&self) {
        let start = request_count(self.production());
        let kustomization = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: edge\nresources:\n  - namespace.yaml\n";
        let changes = [
            Change::remove("edge/agent.yaml"),
            Change::write("edge/kustomization.yaml", kustomization),
        ];
        accepted(&self.site.push(FLEET, &changes));
        self.site.eventually("the agent is pruned", || {
            self.all_ready()?;
            match self.edge().find(&path("Deployment", "edge", "agent")) {
                None => Ok(()),
                Some(_) => Err("the agent is still there".into()),
            }
        });
        assert!(self.edge().find(&path("Namespace", "", "edge")).is_some());
        self.site.settle();
        let deletes: Vec<_> = writes_since(self.production(), start)
            .into_iter()
            .filter(|write| write.verb == "delete")
            .collect();
        assert_eq!(deletes, [], "production");
    }

    /// Checks that changes and deletions by hand are reverted.
    pub fn drift_is_repaired(&self) {
        let staging = self.staging();
        staging.delete(&path("ConfigMap", "shared", "company"));
        let hand = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "annotations": {"hand/made": "yes"}},
            "spec": {"replicas": 9}});
        let web = path("Deployment", "team-a", "web");
        staging.patch(&format!("{web}?fieldManager=hand"), &hand);
        self.site.sweep();
        self.site.eventually("the drift is repaired", || {
            let web = staging.get(&web);
            if web["spec"]["replicas"] != 2 {
                return Err(format!("replicas {}", web["spec"]["replicas"]));
            }
            assert_eq!(
                web["metadata"]["annotations"]["hand/made"], "yes",
                "a field of another manager was removed"
            );
            let company = staging.find(&path("ConfigMap", "shared", "company"));
            company.map(|_| ()).ok_or("company is still gone".into())
        });
        self.site.settle();
    }

    fn an_unreachable_cluster_blocks_only_its_own_objects(&self) {
        self.edge().stop();
        let namespace =
            "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: edge\n  labels:\n    lit: again\n";
        accepted(
            &self
                .site
                .push(FLEET, &[Change::write("edge/namespace.yaml", namespace)]),
        );
        let limits = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: limits\ndata:\n  cluster: ${CLUSTER}\n  dark: edge\n";
        accepted(
            &self
                .site
                .push(TEAM_B, &[Change::write("apps/rules/limits.yaml", limits)]),
        );
        self.site.eventually("the other objects are ready", || {
            let (fleet, team_b) = (self.site.head(FLEET), self.site.head(TEAM_B));
            is_ready(self.staging(), "team-b", "apps", &team_b)?;
            is_ready(self.production(), "team-b", "apps", &team_b)?;
            is_ready(self.staging(), "flux-system", "tenants", &fleet)?;
            let (status, reason, message) =
                ready(self.staging(), "Kustomization", "flux-system", "edge");
            if status == "False" && reason == "ReconciliationFailed" {
                Ok(())
            } else {
                Err(format!("edge: {status} {reason} {message}"))
            }
        });
        self.edge().resume();
        self.site.eventually("the remote cluster catches up", || {
            self.all_ready()?;
            let namespace = self.edge().get(&path("Namespace", "", "edge"));
            if namespace["metadata"]["labels"]["lit"] == "again" {
                Ok(())
            } else {
                Err("the label is missing".into())
            }
        });
        self.site.settle();
    }

    /// Checks that a delivery with a wrong signature is refused.
    pub fn a_wrong_signature_queues_nothing(&self) {
        // A delayed message of an earlier step may still be in the queue.
        let before = self.site.queued();
        let body = br#"{"ref": "refs/heads/main", "repository": {"full_name": "acme/fleet", "html_url": "https://github.com/acme/fleet"}}"#;
        assert_eq!(
            self.site.post(
                body,
                "sha256=0000000000000000000000000000000000000000000000000000000000000000"
            ),
            401
        );
        assert_eq!(self.site.post(body, ""), 401);
        let after = self.site.queued();
        assert!(after <= before, "{after} messages, {before} before");
    }

    fn a_lost_message_is_repaired_by_the_timer(&self) {
        // This push sends no webhook: the source finds it after its interval of a minute.
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: motd\ndata:\n  text: unannounced\n";
        self.site
            .commit(TEAM_A, &[Change::write("base/motd.yaml", text)]);
        let mut check = || {
            self.site.sweep();
            let motd = self.production().get(&path("ConfigMap", "team-a", "motd"));
            if motd["data"]["text"] == "unannounced" {
                self.all_ready()
            } else {
                Err("not there".into())
            }
        };
        let limit = Duration::from_secs(180);
        self.site
            .until(limit, "the unannounced push landed", &mut check);
    }

    /// Runs the whole scenario.
    pub fn all(&self) {
        self.first_sync();
        self.a_push_of_one_tenant_touches_that_tenant_only();
        self.a_removed_file_is_pruned_on_the_right_cluster_only();
        self.drift_is_repaired();
        self.an_unreachable_cluster_blocks_only_its_own_objects();
        self.a_wrong_signature_queues_nothing();
        self.a_lost_message_is_repaired_by_the_timer();
        self.second_sync_writes_nothing();
    }
}
