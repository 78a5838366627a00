//! Bad input for the commands that inspect a hub: each error has a next step.

use crate::inspect::Inspected;
use driftless_harness::command::{Done, run, run_in};
use driftless_harness::ports;

/// The command lines that need a hub.
const LINES: [&str; 10] = [
    "tree kustomization apps",
    "trace deployment web",
    "export kustomization apps",
    "events",
    "stats",
    "delete kustomization apps --silent",
    "version",
    "get all --watch",
    "history kustomization apps",
    "diff kustomization apps --path .",
];

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

#[test]
fn without_a_hub_there_is_a_next_step() {
    for line in LINES {
        let code = if line.starts_with("diff") { 2 } else { 1 };
        let words = ["no kubeconfig was found", "Next:", "--kubeconfig FILE"];
        run(&self::words(line)).refused(code, &words);
    }
}

#[test]
fn a_hub_that_is_down_is_named() {
    let home = tempfile::tempdir().expect("a home");
    let address = format!("https://127.0.0.1:{}", ports::free());
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         contexts: [{{name: c, context: {{cluster: k, user: u}}}}]\n\
         clusters: [{{name: k, cluster: {{server: '{address}'}}}}]\n\
         users: [{{name: u, user: {{token: canary}}}}]\n"
    );
    let file = home.path().join("config");
    std::fs::write(&file, text).expect("write");
    let environment = [("KUBECONFIG", file.to_str().expect("UTF-8"))];
    for line in LINES {
        let code = if line.starts_with("diff") { 2 } else { 1 };
        let done: Done = run_in(home.path(), &words(line), &environment);
        done.refused(code, &[&address, "Next: "]);
        assert!(!done.err.contains("canary"), "{line}: {}", done.err);
    }
}

#[test]
fn missing_objects_and_unknown_kinds_have_a_next_step() {
    let hub = Inspected::start();
    let before = hub.run("get all -A -o name").ok();
    for (code, line, words) in [
        (
            1,
            "tree kustomization missing",
            &["Kustomization object 'missing' not found", "Next:"][..],
        ),
        (
            2,
            "tree gitrepository apps",
            &[
                "unrecognized subcommand",
                "Next: give one of: kustomization",
            ],
        ),
        (
            1,
            "trace deployment missing -n team-a",
            &["deployments.apps \"missing\" not found", "-n NAMESPACE"],
        ),
        (
            1,
            "trace namespace missing",
            &["namespaces \"missing\" not found", "kubectl get namespaces"],
        ),
        (
            1,
            "trace nonsense web",
            &["no resource 'nonsense'", "kubectl api-resources"],
        ),
        (
            1,
            "trace namespace kube-system",
            &["object not managed by Flux", "Next:"],
        ),
        (
            2,
            "trace web",
            &["'web' does not name an object", "deployment my-app"],
        ),
        (2, "trace a/b c", &["cannot be mixed"]),
        (2, "trace web --kind Deployment", &["--api-version"]),
        (
            1,
            "trace web --kind Deployment --api-version apps/v9",
            &["does not serve apps/v9 Deployment", "Next:"],
        ),
        (
            1,
            "export kustomization missing",
            &["Kustomization object 'missing' not found", "Next:"],
        ),
        (
            1,
            "export kustomization --all -n nothing",
            &[
                "no Kustomization objects found in nothing namespace",
                "Next:",
            ],
        ),
        (2, "export kustomization", &["<NAME>"]),
        (
            2,
            "export nonsense a",
            &["Next: give one of: kustomization"],
        ),
        (
            2,
            "export alert --all --with-credentials",
            &["names no Secret", "leave --with-credentials out"],
        ),
        (
            2,
            "events --for Nonsense/a",
            &[
                "'Nonsense' is not a recognized Flux kind",
                "give one of: GitRepository",
            ],
        ),
        (
            1,
            "events --for Kustomization/missing",
            &["'missing' not found", "Next:"],
        ),
        (2, "events --types loud", &["invalid value 'loud'"]),
        (2, "events --watch -o json", &["cannot be used with"]),
        (
            2,
            "get kustomizations -w -o json",
            &["--watch: only tables", "Next:"],
        ),
        (
            1,
            "get kustomizations missing -w",
            &["'missing' not found", "Next:"],
        ),
        (
            1,
            "history kustomization missing",
            &["'missing' not found", "Next:"],
        ),
        (
            2,
            "history alert a",
            &["has no history", "driftless events --for Alert/a"],
        ),
        (
            2,
            "diff kustomization apps --path missing",
            &["'missing' is not a directory", "Next:"],
        ),
        (
            2,
            "diff kustomization missing --path .",
            &["does not exist on the hub", "--kustomization-file"],
        ),
        (
            2,
            "diff kustomization edge --path .",
            &["not supported for remote clusters", "--kubeconfig"],
        ),
        (2, "diff kustomization apps", &["--path <DIR>"]),
        (
            2,
            "diff kustomization apps --path . --kustomization-file missing.yaml",
            &["missing.yaml does not exist"],
        ),
        (
            1,
            "delete kustomization missing --silent",
            &["'missing' not found", "Next:"],
        ),
        (
            2,
            "delete nonsense a",
            &["Next: give one of: kustomization"],
        ),
        (2, "delete kustomization", &["<NAME>"]),
        (1, "delete kustomization edge", &["not deleted", "--silent"]),
        (2, "version --installation", &["DRIFTLESS_BUCKET", "Next:"]),
    ] {
        hub.run(line).refused(code, words);
    }
    let broken = tempfile::tempdir().expect("a directory");
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  name: a\n";
    std::fs::write(broken.path().join("a.yaml"), text).expect("write a file");
    let line = format!(
        "diff kustomization apps -n team-a --path {}",
        broken.path().display()
    );
    hub.run(&line)
        .refused(2, &["a.yaml:5:3", "  name: a\n  |   ^\n", "Next:"]);
    assert_eq!(hub.run("get all -A -o name").ok(), before);
}
