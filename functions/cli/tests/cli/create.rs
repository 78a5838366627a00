//! `driftless create` on a hub. What it writes with `--export` is held against Flux's own command line in the acceptance tier.

use crate::demo::Demo;
use driftless_harness::command::{Done, run_in};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// A fleet with folders that no Kustomization applies yet.
const FLEET: [(&str, &str); 3] = [
    (
        "clusters/demo/namespace.yaml",
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: web}\n",
    ),
    (
        "apps/good/map.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: good, namespace: web}\n",
    ),
    ("apps/bad/map.yaml", "kind: [\n"),
];

/// A hub that is served, and its kubeconfig.
struct Hub {
    home: tempfile::TempDir,
    kubeconfig: PathBuf,
    _demo: Demo,
}

impl Hub {
    fn start() -> Self {
        let home = tempfile::tempdir().expect("a home");
        let fleet = home.path().join("fleet");
        for (name, text) in FLEET {
            let path = fleet.join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("make the folder");
            fs::write(path, text).expect("write");
        }
        let args = ["--fleet", text(&fleet), "--path", "clusters/demo"];
        let demo = Demo::start(home.path(), &args);
        demo.says("synced in");
        Self {
            kubeconfig: home.path().join("demo/kubeconfig"),
            home,
            _demo: demo,
        }
    }

    fn run(&self, line: &str) -> Done {
        let args: Vec<&str> = line.split(' ').collect();
        run_in(
            self.home.path(),
            &args,
            &[("KUBECONFIG", text(&self.kubeconfig))],
        )
    }

    /// Runs a command that has to succeed and say these things, in order.
    fn says(&self, line: &str, words: &[&str]) {
        let done = self.run(line);
        assert_eq!(
            (done.code, done.out.as_str()),
            (0, ""),
            "{line}: {}",
            done.err
        );
        let mut rest = done.err.as_str();
        for word in words {
            let (_, after) = rest
                .split_once(word)
                .unwrap_or_else(|| panic!("{line}: no '{word}' in:\n{}", done.err));
            rest = after;
        }
    }

    fn get(&self, line: &str) -> Value {
        self.run(&format!("get {line} -o json")).json()
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn objects_are_applied_and_waited_for() {
    let hub = Hub::start();
    let good =
        "create kustomization good --source GitRepository/flux-system --path apps/good --prune";
    hub.says(
        good,
        &[
            "applying Kustomization",
            "Kustomization created",
            "waiting for Kustomization reconciliation",
            "Kustomization good is ready",
            "applied revision main@sha1:",
        ],
    );
    let found = hub.get("kustomization good");
    assert_eq!(found["spec"]["path"], "./apps/good", "{found}");
    assert_eq!(found["spec"]["interval"], "1m0s", "{found}");

    // A second time it is another object of the same name, and not suspended any more.
    hub.run("suspend kustomization good").ok();
    let again = format!("{good} --interval 5m --label team=a");
    hub.says(
        &again,
        &["Kustomization updated", "Kustomization good is ready"],
    );
    let found = hub.get("kustomization good");
    assert_eq!(found["spec"]["interval"], "5m0s", "{found}");
    assert_ne!(found["spec"]["suspend"], true, "{found}");
    assert_eq!(found["metadata"]["labels"]["team"], "a", "{found}");

    // What is not ready in time is told, with the reason.
    let bad = hub.run("create ks bad --source flux-system --path apps/bad --timeout 3s");
    bad.refused(
        1,
        &[
            "Kustomization flux-system/bad: not ready in time",
            "map.yaml",
        ],
    );
    let absent = hub.run("create ks absent --source absent --timeout 2s");
    absent.refused(1, &["Kustomization flux-system/absent: not ready in time"]);
}

#[test]
fn secrets_and_tenants_are_applied() {
    let hub = Hub::start();
    let secret = "create secret git login --url https://git.test/a --username me --password";
    for password in ["one", "two"] {
        let line = format!("{secret} {password}");
        hub.says(
            &line,
            &["git secret 'login' created in 'flux-system' namespace"],
        );
    }
    // Keys that are not there any more are gone.
    hub.says(
        "create secret git login --url https://git.test/a --bearer-token three",
        &["git secret 'login'"],
    );
    let tenant = "create tenant dev --with-namespace dev-web,dev-data --cluster-role";
    for role in ["view", "edit"] {
        hub.says(
            &format!("{tenant} {role}"),
            &[
                "applying namespace dev-web",
                "applying service account dev",
                "applying role binding dev-reconciler",
                "applying namespace dev-data",
                "tenant setup completed",
            ],
        );
    }
    let source = "create source helm charts --url oci://ghcr.io/acme/charts --username me --password p -n dev-web";
    hub.says(
        source,
        &[
            "applying secret with repository credentials",
            "authentication configured",
            "applying HelmRepository source",
            "HelmRepository source created",
        ],
    );
    let found = hub.get("sources helm charts -n dev-web");
    assert_eq!(found["spec"]["secretRef"]["name"], "helm-charts", "{found}");
    assert_eq!(found["spec"]["type"], "oci", "{found}");
}
