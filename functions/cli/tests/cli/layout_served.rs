//! The commands for fleets whose environments are branches, together with `driftless serve`: what
//! they add appears on the clusters, what they remove is deleted.

use crate::create::Server;
use driftless_harness::github::{Change, GitHub, Repository};
use driftless_harness::serve::Serve;
use driftless_harness::tools;
use std::fs;
use std::path::Path;
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

    /// Commits the checkout, and sends the push to the webhook.
    fn push(&self) {
        let directory = self.checkout.path();
        let sha = self.repository.commit_directory("dev", directory, "Change");
        let change = Change::write("pushed", sha);
        self.github.push(&self.repository, "dev", &[change]);
    }

    fn serve(&self) -> Serve {
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
            "dev",
            "--path",
            "clusters/america",
        ];
        let variables = [("DRIFTLESS_WEBHOOK_SECRET", SECRET)];
        Serve::start(self.home.path(), &args, &variables)
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Returns the namespaces of an environment on a cluster.
fn namespaces(server: &Server) -> Vec<String> {
    let names = server.names("v1", "Namespace");
    let ours = names.into_iter().filter(|name| name.starts_with("dev-"));
    ours.collect()
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
    serve.eventually("the application is there", || {
        match fleet
            .hub
            .names("v1", "ConfigMap")
            .iter()
            .any(|name| name == "cart")
        {
            true => Ok(()),
            false => Err("no ConfigMap cart".to_owned()),
        }
    });

    let edge = text(fleet.edge.kubeconfig()).to_owned();
    fleet.run(&format!(
        "env add-remote america south --kubeconfig {edge} --plain"
    ));
    fleet.push();
    becomes(
        "the remote cluster has its infrastructure",
        &fleet.edge,
        &["dev-redis"],
    );

    fleet.run("env remove-cluster america/south");
    fleet.push();
    becomes("the remote cluster is left", &fleet.edge, &[]);
    becomes("the hub stays", &fleet.hub, &with_tenant);
}
