//! The demo: a whole installation in one process, without anything else on the machine.

use crate::check::{fleet, kustomization};
use driftless_harness::command::{Done, driftless, run_in};
use driftless_harness::process::PATIENCE;
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn once(home: &Path, more: &[&str]) -> Done {
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

    // The second run takes the directory as it is; a broken file is told with its line and the others are ready.
    let file = home.path().join("demo/fleet/team-b/apps/api.yaml");
    std::fs::write(&file, "kind: [\n").expect("break a file");
    let done = once(home.path(), &["-o", "json"]);
    assert_eq!(done.code, 1, "{}", done.err);
    assert!(done.err.contains("team-b/apps/api.yaml:2"), "{}", done.err);
    let told: Value = serde_json::from_str(&done.out).expect("JSON");
    assert_eq!(told["ready"], false);
    let state = |object: &str| {
        let objects = told["objects"].as_array().expect("objects");
        let found = objects.iter().find(|one| one["object"] == object);
        found.unwrap_or_else(|| panic!("no {object}"))["state"].clone()
    };
    assert_eq!(state("Kustomization/team-b/apps"), "Failed");
    assert_eq!(state("Kustomization/team-a/apps"), "Ready");
}

/// A demo that stays up; ends with it.
pub struct Demo {
    child: Child,
    said: Arc<Mutex<String>>,
}

impl Demo {
    /// Starts it in the home's directory `demo`.
    pub fn start(home: &Path, more: &[&str]) -> Self {
        let mut command = driftless(home);
        command
            .args(["demo", "--dir"])
            .arg(home.join("demo"))
            .args(more)
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("start the demo");
        let said = Arc::new(Mutex::new(String::new()));
        let (out, err) = (said.clone(), child.stderr.take().expect("stderr"));
        std::thread::spawn(move || {
            for line in BufReader::new(err).lines().map_while(Result::ok) {
                let mut said = out.lock().expect("the text");
                said.push_str(&line);
                said.push('\n');
            }
        });
        Self { child, said }
    }

    /// Waits until it has said something; how long that took.
    pub fn says(&self, what: &str) -> Duration {
        let start = Instant::now();
        loop {
            let said = self.said.lock().expect("the text").clone();
            if said.contains(what) {
                return start.elapsed();
            }
            assert!(start.elapsed() < PATIENCE, "'{what}' is not in:\n{said}");
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

    // The kubeconfig is for everybody: here for this program's own commands.
    let text = kubeconfig.to_str().expect("UTF-8");
    let get = |args: &[&str]| run_in(home.path(), &[args, &["--kubeconfig", text]].concat(), &[]);
    let all = get(&["get", "kustomizations", "-A", "-o", "json"]).json();
    assert_eq!(all["items"].as_array().map(Vec::len), Some(7), "{all}");

    let file = home.path().join("demo/fleet/team-b/apps/api.yaml");
    let good = std::fs::read_to_string(&file).expect("read a file");
    std::fs::write(&file, "kind: [\n").expect("break a file");
    let took = demo.says("team-b/apps/api.yaml:2");
    assert!(took < Duration::from_secs(3), "{took:?}");
    std::fs::write(&file, good.replace("2.3.0", "2.4.0")).expect("mend the file");
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
        assert!(start.elapsed() < PATIENCE, "not mended");
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
fn a_directory_that_cannot_be_written_is_told() {
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

/// A fleet of one's own lacks what its clusters have: variables, definitions, namespaces, hosts that are not reached.
#[test]
fn a_fleet_of_ones_own_has_what_a_check_makes_up() {
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
    let told: Value = serde_json::from_str(&done.out).expect("JSON");
    assert_eq!(told["ready"], true, "{told:#}");
    done.ok();
}
