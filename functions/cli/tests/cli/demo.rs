//! The demo: a whole installation in one process, without anything else on the machine.

use crate::check::{fleet, kustomization};
use crate::check_findings::capsule_fleet;
use driftless_harness::command::{Done, driftless, run_in};
use driftless_harness::process::PATIENCE;
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Runs `demo --once` in the directory `demo` of the home.
pub fn once(home: &Path, more: &[&str]) -> Done {
    let dir = home.join("demo");
    let args = [
        &["demo", "--once", "--dir", dir.to_str().expect("UTF-8")],
        more,
    ]
    .concat();
    run_in(home, &args, &[])
}

#[test]
fn once_ends_with_a_table_of_every_object() {
    let home = tempfile::tempdir().expect("a home");
    let table = once(home.path(), &[]).ok();
    let lines: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split('\t').map(str::trim).collect())
        .collect();
    assert_eq!(lines[0][..4], ["CLUSTER", "OBJECT", "REVISION", "STATE"]);
    for (cluster, object, state) in [
        ("hub", "GitRepository/flux-system/flux-system", "Ready"),
        ("hub", "Kustomization/team-b/apps", "Ready"),
        ("hub", "Deployment/team-a/web", "Current"),
        ("hub", "Secret/team-a/database", "Current"),
        ("edge", "Deployment/edge/agent", "Current"),
        ("factory", "Deployment/edge/agent", "Current"),
    ] {
        let line = lines.iter().find(|line| line[..2] == [cluster, object]);
        let line = line.unwrap_or_else(|| panic!("no {cluster} {object} in:\n{table}"));
        assert!(line[2].starts_with("main@sha1:"), "{table}");
        assert_eq!(line[3], state, "{table}");
    }

    // The second run uses the existing directory: a broken file is reported with its line, and the
    // other objects are ready.
    let file = home.path().join("demo/fleet/team-b/apps/api.yaml");
    std::fs::write(&file, "kind: [\n").expect("break a file");
    let done = once(home.path(), &["-o", "json"]);
    assert_eq!(done.code, 1, "{}", done.err);
    assert!(done.err.contains("team-b/apps/api.yaml:2"), "{}", done.err);
    let report: Value = serde_json::from_str(&done.out).expect("JSON");
    assert_eq!(report["ready"], false);
    let state = |object: &str| {
        let objects = report["objects"].as_array().expect("objects");
        let found = objects.iter().find(|one| one["object"] == object);
        found.unwrap_or_else(|| panic!("no {object}"))["state"].clone()
    };
    assert_eq!(state("Kustomization/team-b/apps"), "Failed");
    assert_eq!(state("Kustomization/team-a/apps"), "Ready");
}

/// A running demo, which is ended on drop.
pub struct Demo {
    child: Child,
    log: Arc<Mutex<String>>,
}

impl Demo {
    /// Starts the demo in the directory `demo` of the home.
    pub fn start(home: &Path, more: &[&str]) -> Self {
        let mut command = driftless(home);
        command
            .args(["demo", "--dir"])
            .arg(home.join("demo"))
            .args(more)
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("start the demo");
        let log = Arc::new(Mutex::new(String::new()));
        let (out, err) = (log.clone(), child.stderr.take().expect("stderr"));
        std::thread::spawn(move || {
            for line in BufReader::new(err).lines().map_while(Result::ok) {
                let mut log = out.lock().expect("the log");
                log.push_str(&line);
                log.push('\n');
            }
        });
        Self { child, log }
    }

    /// Waits until stderr contains `words`, and returns the time that it took.
    pub fn says(&self, words: &str) -> Duration {
        let start = Instant::now();
        loop {
            let log = self.log.lock().expect("the log").clone();
            if log.contains(words) {
                return start.elapsed();
            }
            assert!(start.elapsed() < PATIENCE, "'{words}' is not in:\n{log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        self.child.kill().expect("end the demo");
        self.child.wait().expect("end the demo");
    }
}

#[test]
fn an_edit_is_applied_within_a_second_and_kubeconfigs_work() {
    let home = tempfile::tempdir().expect("a home");
    let mut demo = Demo::start(home.path(), &[]);
    demo.says("export KUBECONFIG=");
    let kubeconfig = home.path().join("demo/kubeconfig");
    let mode = std::fs::metadata(&kubeconfig)
        .expect("a kubeconfig")
        .permissions();
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777,
        0o600
    );

    // The kubeconfig works for all programs, here for driftless itself.
    let text = kubeconfig.to_str().expect("UTF-8");
    let get = |args: &[&str]| run_in(home.path(), &[args, &["--kubeconfig", text]].concat(), &[]);
    let all = get(&["get", "kustomizations", "-A", "-o", "json"]).json();
    assert_eq!(all["items"].as_array().map(Vec::len), Some(7), "{all}");

    let file = home.path().join("demo/fleet/team-b/apps/api.yaml");
    let good = std::fs::read_to_string(&file).expect("read a file");
    std::fs::write(&file, "kind: [\n").expect("break a file");
    let took = demo.says("team-b/apps/api.yaml:2");
    assert!(took < Duration::from_secs(3), "{took:?}");
    std::fs::write(&file, good.replace("2.3.0", "2.4.0")).expect("repair the file");
    let image = || {
        let one = get(&[
            "get",
            "kustomizations",
            "apps",
            "-n",
            "team-b",
            "-o",
            "json",
        ])
        .json();
        one["status"]["conditions"][0]["status"].clone()
    };
    let start = Instant::now();
    while image() != "True" {
        assert!(start.elapsed() < PATIENCE, "not repaired");
    }

    let pid = demo.child.id().to_string();
    let sent = Command::new("sh")
        .args(["-c", "kill -INT $0", &pid])
        .status()
        .expect("kill");
    assert!(sent.success());
    let ended = demo.child.wait().expect("the end");
    assert_eq!(ended.code(), Some(0), "ctrl-c ends it cleanly");
}

#[test]
fn a_directory_that_cannot_be_written_is_an_error() {
    let home = tempfile::tempdir().expect("a home");
    let file = home.path().join("file");
    std::fs::write(&file, "x").expect("write a file");
    let dir = file.join("demo");
    let done = run_in(
        home.path(),
        &["demo", "--once", "--dir", dir.to_str().expect("UTF-8")],
        &[],
    );
    done.refused(1, &["file/demo/fleet"]);
}

/// The user's own fleet lacks what its clusters have: variables, definitions, namespaces, hosts
/// that are not reached.
#[test]
fn the_users_own_fleet_gets_the_stand_ins_of_a_check() {
    let variables = "  postBuild:\n    substituteFrom:\n    - kind: ConfigMap\n      name: cluster-vars\n  targetNamespace: apps\n";
    let widget = "apiVersion: example.com/v1\nkind: Widget\nmetadata:\n  name: a\n  namespace: apps\nspec:\n  size: ${SIZE}\n";
    let release = "apiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmRepository\nmetadata:\n  name: charts\n  namespace: flux-system\nspec:\n  \
                   interval: 1h\n  url: https://charts.invalid\n---\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata:\n  name: \
                   web\n  namespace: flux-system\nspec:\n  interval: 1h\n  chart:\n    spec:\n      chart: web\n      sourceRef:\n        kind: \
                   HelmRepository\n        name: charts\n";
    let directory = fleet(&[
        ("clusters/one/apps.yaml", kustomization("apps", variables)),
        ("clusters/one/web.yaml", release.to_owned()),
        ("apps/a.yaml", widget.to_owned()),
    ]);
    let home = tempfile::tempdir().expect("a home");
    let fleet = directory.path().to_str().expect("UTF-8");
    let done = once(home.path(), &["--fleet", fleet, "-o", "json"]);
    let report: Value = serde_json::from_str(&done.out).expect("JSON");
    assert_eq!(report["ready"], true, "{report:#}");
    done.ok();
}

#[test]
fn failures_of_the_capsule_addon_are_shown() {
    let platform = capsule_fleet();
    let directory = platform.path().join("clusters/one");
    std::fs::remove_file(directory.join("apps.yaml")).expect("remove a file");
    let foreign = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: gitops-reconciler-kubeconfig\n  namespace: oil-system\nstringData:\n  \
                   token: a\n";
    std::fs::write(directory.join("foreign.yaml"), foreign).expect("write a file");
    let home = tempfile::tempdir().expect("a home");
    let fleet = platform.path().to_str().expect("UTF-8");
    let done = once(home.path(), &["--fleet", fleet, "-o", "json"]);
    let report: Value = serde_json::from_str(&done.out).expect("JSON");
    assert_eq!(report["ready"], false, "{report:#}");
    assert_eq!(done.code, 1, "{}", done.err);
    for words in [
        "foreign.yaml:1: ",
        "ServiceAccount/oil-system/gitops-reconciler: Secret/oil-system/gitops-reconciler-kubeconfig exists",
        "the Capsule addon failed, first for ServiceAccount/oil-system/gitops-reconciler: Secret/",
    ] {
        assert!(done.err.contains(words), "{words}: {}", done.err);
    }
}
