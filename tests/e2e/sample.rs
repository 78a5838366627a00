//! The sample fleet: a platform, two tenants, two hubs and a remote cluster.

use crate::world::*;
use driftless_tests::cluster::Cluster;
use driftless_tests::github::{Change, Repository};
use driftless_tests::tools;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// The sample fleet, served and bootstrapped.
struct Sample {
    world: World,
    fleet: Arc<Repository>,
    team_a: Arc<Repository>,
    team_b: Arc<Repository>,
}

impl Sample {
    fn start(watch: bool) -> Self {
        let hub = |name, path| HubSpec {
            name,
            repository: "acme/fleet",
            branch: "main",
            path,
        };
        let hubs = [
            hub("staging", "./clusters/staging"),
            hub("production", "./clusters/production"),
        ];
        let world = World::start(watch, &hubs, &["edge"]);
        let folder = tools::tests().join("fleet");
        let fleet = world
            .github
            .repository_from("acme/fleet", &folder.join("platform"));
        let team_a = world
            .github
            .repository_from("acme/team-a", &folder.join("team-a"));
        team_a.set_private(true);
        world.github.add_token("ghp_team_a", &["acme/team-a"]);
        let team_b = world
            .github
            .repository_from("acme/team-b", &folder.join("team-b"));
        let sample = Self {
            world,
            fleet,
            team_a,
            team_b,
        };
        sample.give_secrets();
        sample
    }

    /// What a platform team puts on its hubs by hand: the key, the token and the remote cluster's kubeconfig.
    fn give_secrets(&self) {
        let key =
            std::fs::read_to_string(tools::tests().join("fleet/age.agekey")).expect("read the key");
        for hub in self.world.hubs.values() {
            hub.namespace("team-a");
            let secret = |name: &str, data: serde_json::Value| {
                let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data});
                hub.api()
                    .create("/api/v1/namespaces/team-a/secrets", &object)
                    .expect("create a Secret");
            };
            secret("sops-age", json!({"age.agekey": key}));
            secret(
                "git-token",
                json!({"username": "git", "password": "ghp_team_a"}),
            );
        }
        self.staging()
            .add_remote("flux-system", "edge-kubeconfig", self.edge());
    }

    fn staging(&self) -> &Cluster {
        self.world.hub("staging")
    }

    fn production(&self) -> &Cluster {
        self.world.hub("production")
    }

    fn edge(&self) -> &Cluster {
        self.world.remote("edge")
    }

    fn clusters(&self) -> [&Cluster; 3] {
        [self.staging(), self.production(), self.edge()]
    }

    /// Every Kustomization of the fleet with the repository it takes its files from.
    fn all_ready(&self) -> Result<(), String> {
        let head = |repository: &Repository| repository.resolve("main").expect("a head");
        let (fleet, a, b) = (head(&self.fleet), head(&self.team_a), head(&self.team_b));
        for hub in [self.staging(), self.production()] {
            for name in ["flux-system", "infrastructure", "tenants"] {
                is_ready(hub, "flux-system", name, &fleet)?;
            }
            is_ready(hub, "team-a", "apps", &a)?;
            is_ready(hub, "team-b", "apps", &b)?;
        }
        is_ready(self.staging(), "flux-system", "edge", &fleet)
    }

    fn first_sync(&self) {
        self.world.sweep();
        self.world
            .eventually("the fleet is ready", || self.all_ready());
        let api = self.staging().api();
        let get = |kind: &str, namespace: &str, name: &str| {
            api.get(&path(kind, namespace, name)).expect(name)
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
        let production = self
            .production()
            .api()
            .get(&path("Deployment", "team-a", "web"))
            .expect("web");
        assert_eq!(production["spec"]["replicas"], 5);
        assert_eq!(
            production["spec"]["template"]["spec"]["containers"][0]["image"],
            "registry.example/web:1.0.1"
        );
        assert!(
            self.edge()
                .api()
                .find(&path("Deployment", "edge", "agent"))
                .is_some()
        );
        assert!(self.edge().api().find("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/kustomizations.kustomize.toolkit.fluxcd.io").is_none());
    }

    fn second_sync_writes_nothing(&self) {
        self.world.settle();
        let still = Still::watch(self.clusters());
        for hub in ["staging", "production"] {
            self.world
                .request(hub, "GitRepository", "flux-system", "flux-system", "timer");
            for (namespace, name) in [
                ("flux-system", "flux-system"),
                ("flux-system", "infrastructure"),
                ("flux-system", "tenants"),
                ("team-a", "apps"),
                ("team-b", "apps"),
            ] {
                self.world
                    .request(hub, "Kustomization", namespace, name, "timer");
            }
        }
        self.world
            .request("staging", "Kustomization", "flux-system", "edge", "timer");
        self.world.settle();
        still.check();
    }

    fn a_push_of_one_tenant_touches_that_tenant_only(&self) {
        let marks = self.clusters().map(mark);
        let text =
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: motd\ndata:\n  text: changed\n";
        let push = self.world.github.push(
            &self.team_a,
            "main",
            &[Change::write("base/motd.yaml", text)],
        );
        accepted(&push.deliveries);
        self.world
            .eventually("the tenant's push landed", || self.all_ready());
        self.world.settle();
        for (cluster, mark) in self.clusters().into_iter().zip(marks) {
            for write in writes_since(cluster, mark) {
                assert_eq!(write.namespace, "team-a", "{}: {write:?}", cluster.name());
                let status = write.subresource == "status";
                let object =
                    write.as_user == "system:serviceaccount:team-a:team-a" && write.name == "motd";
                assert!(status || object, "{}: {write:?}", cluster.name());
            }
        }
        let motd = self
            .production()
            .api()
            .get(&path("ConfigMap", "team-a", "motd"))
            .expect("motd");
        assert_eq!(motd["data"]["text"], "changed");

        let marks = self.clusters().map(mark);
        for delivery in &push.deliveries {
            accepted(&self.world.github.redeliver(delivery));
        }
        self.world.settle();
        for (cluster, mark) in self.clusters().into_iter().zip(marks) {
            assert_eq!(
                writes_since(cluster, mark),
                [],
                "{}: the same push again wrote",
                cluster.name()
            );
        }
    }

    fn a_removed_file_is_pruned_on_the_right_cluster_only(&self) {
        let marks = [mark(self.production())];
        let kustomization = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: edge\nresources:\n  - namespace.yaml\n";
        let changes = [
            Change::remove("edge/agent.yaml"),
            Change::write("edge/kustomization.yaml", kustomization),
        ];
        accepted(
            &self
                .world
                .github
                .push(&self.fleet, "main", &changes)
                .deliveries,
        );
        self.world.eventually("the agent is pruned", || {
            self.all_ready()?;
            match self.edge().api().find(&path("Deployment", "edge", "agent")) {
                None => Ok(()),
                Some(_) => Err("the agent is still there".into()),
            }
        });
        assert!(
            self.edge()
                .api()
                .find(&path("Namespace", "", "edge"))
                .is_some()
        );
        self.world.settle();
        let deletes: Vec<_> = writes_since(self.production(), marks[0])
            .into_iter()
            .filter(|write| write.verb == "delete")
            .collect();
        assert_eq!(deletes, [], "production");
    }

    fn drift_is_repaired(&self) {
        let api = self.staging().api();
        api.delete(&path("ConfigMap", "shared", "company"))
            .expect("delete by hand");
        let hand = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "annotations": {"hand/made": "yes"}},
            "spec": {"replicas": 9}});
        let web = format!("{}?fieldManager=hand", path("Deployment", "team-a", "web"));
        api.patch(&web, &hand).expect("edit by hand");
        self.world.sweep();
        self.world.eventually("the drift is repaired", || {
            let web = api
                .get(&path("Deployment", "team-a", "web"))
                .map_err(|e| e.to_string())?;
            if web["spec"]["replicas"] != 2 {
                return Err(format!("replicas {}", web["spec"]["replicas"]));
            }
            assert_eq!(
                web["metadata"]["annotations"]["hand/made"], "yes",
                "a foreign field was taken"
            );
            api.find(&path("ConfigMap", "shared", "company"))
                .map(|_| ())
                .ok_or("company is still gone".into())
        });
        self.world.settle();
    }

    fn a_dark_remote_cluster_is_waited_for_alone(&self) {
        self.edge().stop();
        let namespace =
            "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: edge\n  labels:\n    lit: again\n";
        accepted(
            &self
                .world
                .github
                .push(
                    &self.fleet,
                    "main",
                    &[Change::write("edge/namespace.yaml", namespace)],
                )
                .deliveries,
        );
        let limits = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: limits\ndata:\n  cluster: ${CLUSTER}\n  dark: edge\n";
        accepted(
            &self
                .world
                .github
                .push(
                    &self.team_b,
                    "main",
                    &[Change::write("apps/rules/limits.yaml", limits)],
                )
                .deliveries,
        );
        self.world.eventually("the others go on", || {
            is_ready(
                self.staging(),
                "team-b",
                "apps",
                &self.team_b.resolve("main").expect("a head"),
            )?;
            is_ready(
                self.production(),
                "team-b",
                "apps",
                &self.team_b.resolve("main").expect("a head"),
            )?;
            is_ready(
                self.staging(),
                "flux-system",
                "tenants",
                &self.fleet.resolve("main").expect("a head"),
            )?;
            let (status, reason, message) =
                ready(self.staging(), "Kustomization", "flux-system", "edge");
            if status == "False" && reason == "ReconciliationFailed" {
                Ok(())
            } else {
                Err(format!("edge: {status} {reason} {message}"))
            }
        });
        self.edge().resume();
        self.world.eventually("the remote cluster catches up", || {
            self.all_ready()?;
            let namespace = self
                .edge()
                .api()
                .get(&path("Namespace", "", "edge"))
                .map_err(|e| e.to_string())?;
            if namespace["metadata"]["labels"]["lit"] == "again" {
                Ok(())
            } else {
                Err("not lit".into())
            }
        });
        self.world.settle();
    }

    fn a_wrong_signature_queues_nothing(&self) {
        let queue = self.world.stack.output("QueueUrl");
        let body = br#"{"ref": "refs/heads/main", "repository": {"full_name": "acme/fleet", "html_url": "https://github.com/acme/fleet"}}"#;
        assert_eq!(
            self.world.post(
                body,
                "sha256=0000000000000000000000000000000000000000000000000000000000000000"
            ),
            401
        );
        assert_eq!(self.world.post(body, ""), 401);
        assert_eq!(self.world.ministack.aws().messages(queue), (0, 0));
    }

    fn a_lost_message_is_repaired_by_the_timer(&self) {
        // Nobody says anything about this push; the source's interval of a minute finds it.
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: motd\ndata:\n  text: unannounced\n";
        self.team_a.commit(
            "main",
            &[Change::write("base/motd.yaml", text)],
            "Unannounced",
        );
        self.world.within(
            Duration::from_secs(180),
            "the unannounced push landed",
            || {
                self.world.sweep();
                let motd = self
                    .production()
                    .api()
                    .get(&path("ConfigMap", "team-a", "motd"))
                    .map_err(|e| e.to_string())?;
                if motd["data"]["text"] == "unannounced" {
                    self.all_ready()
                } else {
                    Err("not there".into())
                }
            },
        );
    }
}

#[test]
fn push_lands_everywhere() {
    let sample = Sample::start(false);
    sample.first_sync();
    sample.a_push_of_one_tenant_touches_that_tenant_only();
    sample.a_removed_file_is_pruned_on_the_right_cluster_only();
    sample.drift_is_repaired();
    sample.a_dark_remote_cluster_is_waited_for_alone();
    sample.a_wrong_signature_queues_nothing();
    sample.a_lost_message_is_repaired_by_the_timer();
    sample.second_sync_writes_nothing();
}

#[test]
fn second_sync_writes_nothing() {
    let sample = Sample::start(false);
    sample.first_sync();
    sample.second_sync_writes_nothing();
}

#[test]
fn push_lands_everywhere_under_cargo_lambda() {
    let sample = Sample::start(true);
    sample.first_sync();
    sample.second_sync_writes_nothing();
    sample.a_push_of_one_tenant_touches_that_tenant_only();
    sample.drift_is_repaired();
    sample.a_wrong_signature_queues_nothing();
}
