//! The commands for fleets whose environments are branches, together with `driftless serve`: what
//! they add appears on the clusters, what they remove is deleted.

use crate::create::{Server, text};
use driftless_harness::github::{Change, GitHub, Repository};
use driftless_harness::serve::Serve;
use driftless_harness::tools;
use std::fs;
use std::sync::Arc;

const SECRET: &str = "a secret of the webhook";

struct Fleet {
    checkout: tempfile::TempDir,
    home: tempfile::TempDir,
    github: GitHub,
    repository: Arc<Repository>,
    hub: Server,
    edge: Server,
}

impl Fleet {
    fn run(&self, line: &str) {
        let dir = self.checkout.path().to_str().expect("UTF-8");
        self.hub.run(&format!("{line} --dir {dir}")).ok();
    }

    /// Returns every file of the checkout, and every object of the kinds of a fleet on the hub.
    fn state(&self) -> (String, Vec<Vec<String>>) {
        let objects = [
            ("v1", "Namespace"),
            ("v1", "Secret"),
            ("v1", "ServiceAccount"),
            ("kustomize.toolkit.fluxcd.io/v1", "Kustomization"),
            ("source.toolkit.fluxcd.io/v1", "GitRepository"),
        ]
        .map(|(version, kind)| self.hub.names(version, kind));
        let files = crate::layout::listing_of(self.checkout.path());
        (files, objects.to_vec())
    }

    /// Runs commands that would change the objects of another cluster or root, or that cannot reach
    /// the hub.
    fn wrong_commands_change_nothing(&self) {
        self.run("env add-cluster pacific");
        let before = self.state();
        let refused = |line: &str, words: &[&str]| {
            let dir = text(self.checkout.path());
            let done = self.hub.run(&format!("{line} --dir {dir}"));
            done.refused(1, words);
            assert!(before == self.state(), "{line}: {}", done.err);
        };
        refused(
            "env add-cluster pacific --apply",
            &[
                "the hub already follows another root of the name dev-flux-system",
                "spec.path is ./clusters/america",
                "--context",
            ],
        );
        refused(
            "env remove-cluster pacific --apply",
            &[
                "Kustomization/dev-flux-system/",
                "america, not ",
                "choose the cluster's own hub",
            ],
        );
        refused(
            "env remove-cluster america/south --apply",
            &[
                "the root 'dev-flux-system' of the hub applies the directory",
                "leave --apply out",
            ],
        );
        refused(
            "env add-cluster pacific --apply --context absent",
            &["connect to the hub: ", "context 'absent' does not exist"],
        );
        self.run("env remove-cluster pacific");
        let data = self.home.path().join("other");
        let serve = format!(
            "serve --listen 127.0.0.1:0 --data {} --name other --repository acme/fleet --branch dev --path clusters/america",
            text(&data)
        );
        let same =
            "the root 'dev-flux-system' of the hub already applies clusters/america of branch dev";
        for (line, words) in [
            (serve.clone(), same),
            (format!("{serve} --root second"), same),
            (
                serve.replace("--branch dev", "--branch qa"),
                "the hub already follows another root",
            ),
        ] {
            let done = self.hub.run(&line);
            done.refused(1, &[words, "--root"]);
        }
    }

    /// Commits the checkout, and sends the push to the webhook.
    fn push(&self) {
        let directory = self.checkout.path();
        let sha = self.repository.commit_directory("dev", directory, "Change");
        let change = Change::write("pushed", sha);
        self.github.push(&self.repository, "dev", &[change]);
    }

    fn serve(&self) -> Serve {
        self.serve_branch("dev")
    }

    fn serve_branch(&self, branch: &str) -> Serve {
        let data = self.home.path().join("data");
        let kubeconfig = self.hub.kubeconfig();
        let args = [
            "--kubeconfig",
            text(kubeconfig),
            "--data",
            text(&data),
            "--github-api",
            self.github.url(),
            "--repository",
            "acme/fleet",
            "--branch",
            branch,
            "--path",
            "clusters/america",
        ];
        let variables = [("DRIFTLESS_WEBHOOK_SECRET", SECRET)];
        Serve::start(self.home.path(), &args, &variables)
    }
}

/// Returns whether a cluster has the ConfigMap `cart` of the application.
fn has_cart(server: &Server) -> Result<(), String> {
    match server
        .names("v1", "ConfigMap")
        .iter()
        .any(|name| name == "cart")
    {
        true => Ok(()),
        false => Err("no ConfigMap cart".to_owned()),
    }
}

/// Returns the namespaces of an environment on a cluster.
fn namespaces(server: &Server) -> Vec<String> {
    let names = server.names("v1", "Namespace");
    let ours = names.into_iter().filter(|name| name.starts_with("dev-"));
    ours.collect()
}

/// The age key of `RECIPIENT`.
const AGE_KEY: &str = include_str!("../../../../tests/fleet/age.agekey");
const RECIPIENT: &str = "age1n0eplj3zp3dyd3y2yz2lsp9sltnjw6al0qwqqd9mp65de5s9e3ssvlh42l";

/// A hub follows the branch `main`, and an environment's branch as a second root: `--apply` creates
/// and removes the second, and the first stays. The kubeconfig of the remote cluster is encrypted.
#[test]
fn a_hub_follows_an_environment_as_a_second_root() {
    if !tools::has("git") {
        return;
    }
    let github = GitHub::start();
    let repository = github.repository("acme/fleet");
    let config =
        |name: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n");
    let shared = config("shared").replace("name: shared", "name: shared\n  namespace: default");
    let shared = Change::write("clusters/america/shared.yaml", shared);
    repository.commit("main", &[shared], "First");
    let shop = github.repository("acme/shop");
    let carts = ["america", "south"]
        .map(|place| Change::write(&format!("cart/{place}/config.yaml"), config("cart")));
    shop.commit("dev", &carts, "First");
    let fleet = Fleet {
        checkout: tempfile::tempdir().expect("a checkout"),
        home: tempfile::tempdir().expect("a home"),
        repository,
        github,
        hub: Server::start(),
        edge: Server::start(),
    };
    let serve = fleet.serve_branch("main");
    fleet.github.add_webhook(&serve.url("/webhook"), SECRET);
    let has_shared = || {
        let names = fleet.hub.names("v1", "ConfigMap");
        match names.iter().any(|name| name == "shared") {
            true => Ok(()),
            false => Err(format!("{names:?}")),
        }
    };
    serve.eventually("the first root is applied", has_shared);
    let becomes = |what: &str, server: &Server, want: &[&str]| {
        serve.eventually(what, || {
            let found = namespaces(server);
            match found == want {
                true => Ok(()),
                false => Err(format!("{found:?}")),
            }
        });
    };

    fleet.run("env init dev --repo https://github.com/acme/fleet");
    fleet.run("env add-cluster america --apply");
    fleet.push();
    becomes(
        "the hub has the environment",
        &fleet.hub,
        &["dev-flux-system"],
    );
    let key = fleet.home.path().join("age.agekey");
    fs::write(&key, AGE_KEY).expect("write");
    let key = text(&key);
    let secret = "create secret sops sops-age -n dev-flux-system";
    let done = fleet.hub.run(&format!("{secret} --age-key-file {key}"));
    done.ok();
    let edge = text(fleet.edge.kubeconfig()).to_owned();
    fleet.run(&format!(
        "env add-remote america south --kubeconfig {edge} --sops {RECIPIENT}"
    ));
    fleet.run("tenant add shop --repo https://github.com/acme/shop --branch dev");
    fleet.run("app add shop cart");
    fleet.run(&format!(
        "env add-remote america south --kubeconfig {edge} --sops {RECIPIENT}"
    ));
    fleet.push();
    becomes("the tenant is on the remote", &fleet.edge, &["dev-shop"]);
    for server in [&fleet.hub, &fleet.edge] {
        serve.eventually("the application is there", || has_cart(server));
    }

    fleet.wrong_commands_change_nothing();
    fleet.run("env remove-cluster america/south");
    fleet.push();
    becomes("the remote cluster is left", &fleet.edge, &[]);
    let refused = fleet.hub.run(&format!(
        "fleet remove-cluster america --apply --dir {}",
        text(fleet.checkout.path())
    ));
    refused.refused(1, &["the branch is the environment dev"]);
    fleet.run("env remove-cluster america --apply --timeout 1m");
    becomes("the environment is gone", &fleet.hub, &[]);
    assert_eq!(has_shared(), Ok(()));
    let bindings = fleet
        .hub
        .names("rbac.authorization.k8s.io/v1", "ClusterRoleBinding");
    let bindings: Vec<_> = bindings
        .iter()
        .filter(|name| name.starts_with("cluster-reconciler-"))
        .collect();
    assert_eq!(bindings, ["cluster-reconciler-flux-system"]);
}

#[test]
fn clusters_tenants_and_applications_are_added_and_removed() {
    if !tools::has("git") {
        return;
    }
    let github = GitHub::start();
    let repository = github.repository("acme/fleet");
    let shop = github.repository("acme/shop");
    let config = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: cart\n";
    shop.commit(
        "dev",
        &[Change::write("cart/america/config.yaml", config)],
        "First",
    );
    let fleet = Fleet {
        checkout: tempfile::tempdir().expect("a checkout"),
        home: tempfile::tempdir().expect("a home"),
        repository,
        github,
        hub: Server::start(),
        edge: Server::start(),
    };
    fleet.run("env init dev --repo https://github.com/acme/fleet");
    let base = fleet.checkout.path().join("infra/base");
    fs::write(
        base.join("kustomization.yaml"),
        "resources:\n- redis.yaml\n",
    )
    .expect("write");
    let redis = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: dev-redis\n";
    fs::write(base.join("redis.yaml"), redis).expect("write");
    fleet.run("env add-cluster america");
    let directory = fleet.checkout.path();
    fleet.repository.commit_directory("dev", directory, "First");
    let serve = fleet.serve();
    fleet.github.add_webhook(&serve.url("/webhook"), SECRET);
    let becomes = |what: &str, server: &Server, want: &[&str]| {
        serve.eventually(what, || {
            let found = namespaces(server);
            match found == want {
                true => Ok(()),
                false => Err(format!("{found:?}")),
            }
        });
    };
    becomes(
        "the hub has the environment",
        &fleet.hub,
        &["dev-flux-system", "dev-redis"],
    );

    fleet.run("tenant add shop --repo https://github.com/acme/shop --branch dev");
    fleet.push();
    let with_tenant = ["dev-flux-system", "dev-redis", "dev-shop"];
    becomes("the hub has the tenant", &fleet.hub, &with_tenant);

    fleet.run("app add shop cart");
    fleet.push();
    serve.eventually("the application is there", || has_cart(&fleet.hub));

    let edge = text(fleet.edge.kubeconfig()).to_owned();
    fleet.run(&format!(
        "env add-remote america south --kubeconfig {edge} --plain"
    ));
    fleet.push();
    becomes(
        "the remote cluster has its infrastructure",
        &fleet.edge,
        &["dev-redis", "dev-shop"],
    );

    fleet.run("env remove-cluster america/south");
    fleet.push();
    becomes("the remote cluster is left", &fleet.edge, &[]);
    becomes("the hub stays", &fleet.hub, &with_tenant);
}
