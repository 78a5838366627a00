//! The commands that inspect a hub, on the hub of the demo. Their output is compared with
//! snapshots, in which revisions, times and sizes are placeholders.

use crate::demo::Demo;
use crate::help::is_snapshot;
use driftless_harness::command::{Done, run_in};
use regex::Regex;
use std::path::PathBuf;

/// The demo, and the commands on its hub.
pub struct Inspected {
    home: tempfile::TempDir,
    _demo: Demo,
}

impl Inspected {
    /// Starts the demo and waits until everything is applied.
    pub fn start() -> Self {
        let home = tempfile::tempdir().expect("a home");
        let demo = Demo::start(home.path(), &[]);
        demo.says("synced in");
        Self { home, _demo: demo }
    }

    /// Returns the home directory.
    pub fn home(&self) -> PathBuf {
        self.home.path().to_owned()
    }

    /// Returns the kubeconfig of the hub.
    pub fn kubeconfig(&self) -> String {
        let file = self.home.path().join("demo/kubeconfig");
        file.to_str().expect("UTF-8").to_owned()
    }

    /// Runs a command line on the hub.
    pub fn run(&self, line: &str) -> Done {
        let args: Vec<&str> = line.split(' ').collect();
        run_in(
            self.home.path(),
            &args,
            &[("KUBECONFIG", &self.kubeconfig())],
        )
    }
}

/// Replaces what differs between two runs.
fn masked(text: &str) -> String {
    let mut text = text.to_owned();
    for (pattern, to) in [
        (r"[0-9a-f]{40,64}", "HASH"),
        (r"main@sha1:[0-9a-f]{8}", "main@sha1:HASH"),
        (r"sha256:[0-9a-f]{8}\b", "sha256:HASH"),
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\dZ?", "TIME"),
        (r"\b\d+(\.\d+)? [KM]iB *", "SIZE"),
        (r"\b\d+(\.\d+)?m?s\b", "AGE"),
        (r"driftless: \S+", "driftless: VERSION"),
        // The width of a column depends on the ages in it.
        (r" +\t", "\t"),
        (r" +\n", "\n"),
    ] {
        let pattern = Regex::new(pattern).expect("a pattern");
        text = pattern.replace_all(&text, to).into_owned();
    }
    text
}

#[test]
fn a_hub_is_inspected() {
    let hub = Inspected::start();
    for (name, line) in [
        ("inspect-tree", "tree kustomization flux-system"),
        ("inspect-tree-compact", "tree ks flux-system --compact"),
        ("inspect-tree-yaml", "tree ks apps -n team-b -o yaml"),
        ("inspect-trace", "trace deploy/web cm/motd -n team-a"),
        ("inspect-export", "export kustomization --all"),
        ("inspect-export-source", "export source git flux-system"),
        ("inspect-stats", "stats -A"),
        ("inspect-history", "history kustomization apps -n team-a"),
        ("inspect-version", "version"),
        ("inspect-get-wide", "get kustomizations -A -o wide"),
    ] {
        let done = hub.run(line);
        assert_eq!(done.code, 0, "{line}: {}", done.err);
        is_snapshot(&format!("{name}.txt"), &masked(&done.out));
    }

    let events = hub.run("events -n team-a").ok();
    let lines: Vec<&str> = events.lines().collect();
    assert!(lines[0].starts_with("LAST SEEN\tTYPE"), "{events}");
    let is_about = |line: &str, words: [&str; 3]| words.iter().all(|word| line.contains(word));
    let applied = ["Normal", "Progressing", "Deployment/team-a/web created"];
    assert!(lines.iter().any(|line| is_about(line, applied)), "{events}");
    let all = hub.run("events -A").ok();
    assert!(all.starts_with("NAMESPACE"), "{all}");
    assert!(all.lines().count() > lines.len(), "{all}");
    let one = hub
        .run("events --for kustomization/apps -n team-a -o json")
        .json();
    let items = one["items"].as_array().expect("items");
    assert!(!items.is_empty());
    for item in items {
        let kind = &item["involvedObject"]["kind"];
        assert!(kind == "Kustomization" || kind == "GitRepository", "{item}");
    }
    let none = hub.run("events -n default");
    assert_eq!((none.code, none.out.as_str()), (0, ""));
    assert!(none.err.contains("No events found in default namespace."));

    let stats = hub.run("stats -n team-a -o json").json();
    let count = |kind: &str| {
        let kinds = stats.as_array().expect("a list").iter();
        let mut found = kinds.filter(|one| one["kind"] == kind);
        found.next().expect("the kind")["running"].clone()
    };
    assert_eq!(
        (count("Kustomization"), count("HelmRelease")),
        (1.into(), 0.into())
    );
    let history = hub.run("history source git apps -n team-a -o json").json();
    assert!(history.to_string().contains("NewArtifact"), "{history}");
    let version = hub.run("version --client -o json").json();
    assert_eq!(version["driftless"], env!("CARGO_PKG_VERSION"));
    let exported = hub
        .run("export source git apps -n team-a --with-credentials")
        .ok();
    assert!(exported.contains("kind: Secret\n"), "{exported}");
}

#[test]
fn a_directory_is_compared_with_the_hub() {
    let hub = Inspected::start();
    let local = hub.home().join("local");
    let copy = |from: &str, to: &str| {
        let (from, to) = (hub.home().join("demo/fleet").join(from), local.join(to));
        std::fs::create_dir_all(&to).expect("make the directory");
        for entry in std::fs::read_dir(from).expect("list the files") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name");
            std::fs::copy(&path, to.join(name)).expect("copy a file");
        }
    };
    copy("team-a/base", "base");
    copy("team-a/staging", "staging");
    let path = local.join("staging");
    let line = format!(
        "diff kustomization apps -n team-a --path {}",
        path.display()
    );
    let same = hub.run(&line);
    assert_eq!((same.code, same.out.as_str()), (0, ""), "{}", same.err);

    let file = local.join("base/motd.yaml");
    let text = std::fs::read_to_string(&file).expect("read");
    let more = "\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: added}\ndata: {a: b}\n";
    let changed = text.replace("\ndata:\n", "\ndata:\n  canary: changed\n");
    std::fs::write(&file, changed + more).expect("write");
    let build = local.join("base/kustomization.yaml");
    let text = std::fs::read_to_string(&build).expect("read");
    let text = text.replace("greeting=hello", "greeting=hello\n      - more=yes");
    std::fs::write(&build, text).expect("write");
    let before = hub.run("get kustomizations apps -n team-a -o json").json();
    let done = hub.run(&line);
    assert_eq!(done.code, 1, "{}", done.err);
    for words in [
        "► ConfigMap/team-a/motd drifted\n",
        "\ndata\n+ one map entry added:\n  canary: changed\n",
        "► ConfigMap/team-a/added created\n",
        "► ConfigMap/team-a/settings-",
        "► ConfigMap/team-a/settings-c6hbd9c85t deleted\n",
        "► Deployment/team-a/web drifted\n",
    ] {
        assert!(done.out.contains(words), "{words}: {}", done.out);
    }
    assert!(done.err.contains("5 objects differ"), "{}", done.err);
    let yaml = hub.run(&format!("{line} --format yaml"));
    assert!(yaml.out.contains("+  canary: changed\n"), "{}", yaml.out);
    // Nothing was stored.
    let after = hub.run("get kustomizations apps -n team-a -o json").json();
    assert_eq!(
        before["metadata"]["generation"],
        after["metadata"]["generation"]
    );
    let added = hub.run("trace cm/added -n team-a");
    added.refused(1, &["configmaps \"added\" not found"]);

    let misspelt = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: motd}\ndate: {}\n";
    std::fs::write(&file, misspelt).expect("write");
    let refused = hub.run(&line);
    assert_eq!(refused.code, 2, "{}", refused.err);
    for words in [
        "ConfigMap/team-a/motd dry-run failed",
        ".date: field not declared",
        "Next: correct the field",
    ] {
        assert!(refused.err.contains(words), "{words}: {}", refused.err);
    }

    std::fs::write(&file, "kind: [\n").expect("break a file");
    let broken = hub.run(&line);
    broken.refused(2, &["motd.yaml", "Next:"]);
}
