//! Checks the direction of the crates' dependencies: `functions -> server -> fleet -> adapters`,
//! and below both `core -> {helmrelease -> source -> verify} -> kernel -> plans -> flux`, then the
//! engines `{kustomize, helm, gotmpl, notify, sops, cel} -> manifest -> {go, fuel}`. Engines are
//! pure.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::OnceLock;

use crate::text::read;
use driftless_harness::{files, tools};
use serde_json::Value;

/// The crates of the workspace that each crate may use. A listed crate that does
/// not exist is ignored; a crate that is not listed fails the test.
const MAY_USE: [(&str, &[&str]); 34] = [
    ("driftless-cel", &["driftless-fuel"]),
    ("driftless-go", &[]),
    ("driftless-fuel", &[]),
    ("driftless-manifest", &["driftless-fuel", "driftless-go"]),
    ("driftless-gotmpl", &["driftless-fuel", "driftless-go"]),
    (
        "driftless-kustomize",
        &["driftless-fuel", "driftless-go", "driftless-manifest"],
    ),
    (
        "driftless-helm",
        &[
            "driftless-fuel",
            "driftless-go",
            "driftless-manifest",
            "driftless-gotmpl",
        ],
    ),
    (
        "driftless-sops",
        &["driftless-fuel", "driftless-go", "driftless-manifest"],
    ),
    ("driftless-notify", &["driftless-go", "driftless-manifest"]),
    ("driftless-dyff", &["driftless-manifest"]),
    ("driftless-git", &["driftless-fuel", "driftless-manifest"]),
    ("driftless-flux", &["driftless-go", "driftless-manifest"]),
    (
        "driftless-plans",
        &[
            "driftless-cel",
            "driftless-manifest",
            "driftless-kustomize",
            "driftless-flux",
            "driftless-fuel",
        ],
    ),
    (
        "driftless-kernel",
        &[
            "driftless-fuel",
            "driftless-go",
            "driftless-manifest",
            "driftless-notify",
            "driftless-flux",
            "driftless-plans",
        ],
    ),
    (
        "driftless-memory",
        &[
            "driftless-manifest",
            "driftless-notify",
            "driftless-flux",
            "driftless-kernel",
        ],
    ),
    (
        "driftless-verify",
        &["driftless-manifest", "driftless-flux", "driftless-kernel"],
    ),
    (
        "driftless-source",
        &[
            "driftless-fuel",
            "driftless-manifest",
            "driftless-helm",
            "driftless-flux",
            "driftless-plans",
            "driftless-kernel",
            "driftless-verify",
            "driftless-go",
        ],
    ),
    (
        "driftless-helmrelease",
        &[
            "driftless-fuel",
            "driftless-go",
            "driftless-manifest",
            "driftless-kustomize",
            "driftless-helm",
            "driftless-flux",
            "driftless-plans",
            "driftless-kernel",
            "driftless-source",
        ],
    ),
    (
        "driftless-core",
        &[
            "driftless-manifest",
            "driftless-kustomize",
            "driftless-notify",
            "driftless-sops",
            "driftless-flux",
            "driftless-plans",
            "driftless-kernel",
            "driftless-verify",
            "driftless-source",
            "driftless-helmrelease",
            "driftless-fuel",
        ],
    ),
    (
        "driftless-apiserver",
        &[
            "driftless-cel",
            "driftless-fuel",
            "driftless-go",
            "driftless-manifest",
        ],
    ),
    (
        "driftless-dashboard",
        &[
            "driftless-manifest",
            "driftless-flux",
            "driftless-plans",
            "driftless-kernel",
            "driftless-source",
            "driftless-core",
        ],
    ),
    (
        "driftless-adapters",
        &[
            "driftless-fuel",
            "driftless-manifest",
            "driftless-git",
            "driftless-go",
            "driftless-notify",
            "driftless-sops",
            "driftless-apiserver",
            "driftless-flux",
            "driftless-kernel",
            "driftless-memory",
            "driftless-source",
        ],
    ),
    ("driftless-nats", &["driftless-kernel"]),
    (
        "driftless-fleet",
        &[
            "driftless-fuel",
            "driftless-manifest",
            "driftless-kustomize",
            "driftless-helm",
            "driftless-sops",
            "driftless-flux",
            "driftless-plans",
            "driftless-kernel",
            "driftless-memory",
            "driftless-source",
            "driftless-helmrelease",
            "driftless-core",
            "driftless-adapters",
            "driftless-apiserver",
        ],
    ),
    (
        "driftless-server",
        &[
            "driftless-manifest",
            "driftless-flux",
            "driftless-kernel",
            "driftless-core",
            "driftless-adapters",
            "driftless-dashboard",
            "driftless-fleet",
            "driftless-nats",
        ],
    ),
    ("webhook", &OUTER),
    ("reconcile", &OUTER),
    ("drift", &OUTER),
    ("capsule", &OUTER),
    (
        "plan",
        &[
            "driftless-manifest",
            "driftless-sops",
            "driftless-flux",
            "driftless-kernel",
            "driftless-source",
            "driftless-core",
            "driftless-adapters",
            "driftless-fleet",
        ],
    ),
    ("kubeconfig", &OUTER),
    (
        "dashboard",
        &[
            "driftless-kernel",
            "driftless-adapters",
            "driftless-dashboard",
        ],
    ),
    ("driftless", &EVERYTHING),
    // Test code: runs the core against models of its ports.
    (
        "driftless-sim",
        &[
            "driftless-manifest",
            "driftless-helm",
            "driftless-flux",
            "driftless-plans",
            "driftless-kernel",
            "driftless-memory",
            "driftless-source",
            "driftless-core",
            "driftless-apiserver",
            "driftless-adapters",
            "drift",
            "reconcile",
            "webhook",
        ],
    ),
];
const OUTER: [&str; 4] = [
    "driftless-flux",
    "driftless-kernel",
    "driftless-core",
    "driftless-adapters",
];
const EVERYTHING: [&str; 18] = [
    "driftless-fuel",
    "driftless-go",
    "driftless-manifest",
    "driftless-kustomize",
    "driftless-helm",
    "driftless-sops",
    "driftless-flux",
    "driftless-plans",
    "driftless-kernel",
    "driftless-verify",
    "driftless-source",
    "driftless-dyff",
    "driftless-core",
    "driftless-adapters",
    "driftless-apiserver",
    "driftless-fleet",
    "driftless-nats",
    "driftless-server",
];

/// Crates that must not depend on I/O, directly or through others.
const PURE: [&str; 20] = [
    "driftless-cel",
    "driftless-fuel",
    "driftless-go",
    "driftless-manifest",
    "driftless-gotmpl",
    "driftless-kustomize",
    "driftless-helm",
    "driftless-notify",
    "driftless-sops",
    "driftless-flux",
    "driftless-plans",
    "driftless-kernel",
    "driftless-memory",
    "driftless-verify",
    "driftless-source",
    "driftless-helmrelease",
    "driftless-core",
    "driftless-apiserver",
    "driftless-dashboard",
    "driftless-dyff",
];

/// Crates that do I/O: SDKs, HTTP, sockets.
const OUTSIDE: [&str; 15] = [
    "async-nats",
    "axum",
    "hyper",
    "kube",
    "kube-client",
    "lambda_runtime",
    "lambda_http",
    "mio",
    "native-tls",
    "octocrab",
    "oci-client",
    "openssl-sys",
    "reqwest",
    "rustls",
    "ureq",
];

/// Crates that must not be shipped: another TLS stack, C libraries.
const NOWHERE: [&str; 4] = ["openssl-sys", "native-tls", "ring", "libgit2-sys"];

/// Crates that only tests use. They may use all crates.
const TESTS: [&str; 5] = [
    "driftless-tests",
    "driftless-harness",
    "driftless-hostile",
    "driftless-acceptance",
    "driftless-oracles",
];

fn is_test_code(name: &str) -> bool {
    TESTS.contains(&name)
}

struct Graph {
    /// The name of each package by its id.
    names: BTreeMap<String, String>,
    /// The ids of each package's normal and build dependencies, with the features of this
    /// workspace.
    uses: BTreeMap<String, Vec<String>>,
    /// The package ids of the workspace's crates by name.
    ours: BTreeMap<String, String>,
}

impl Graph {
    fn shared() -> &'static Self {
        static GRAPH: OnceLock<Graph> = OnceLock::new();
        GRAPH.get_or_init(Self::read)
    }

    fn read() -> Self {
        let text = driftless_harness::process::run(
            Command::new(env!("CARGO"))
                .current_dir(tools::workspace())
                .args(["metadata", "--format-version=1", "--locked"])
                .args(["--filter-platform", "x86_64-unknown-linux-gnu"]),
        );
        let metadata: Value = serde_json::from_str(&text).expect("metadata");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let array = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let packages = array(&metadata["packages"]);
        let names: BTreeMap<_, _> = packages
            .iter()
            .map(|p| (text(&p["id"]), text(&p["name"])))
            .collect();
        let members = array(&metadata["workspace_members"]);
        let nodes = array(&metadata["resolve"]["nodes"]);
        let shipped = |dependency: &&Value| {
            array(&dependency["dep_kinds"])
                .iter()
                .any(|k| k["kind"] != "dev")
        };
        let uses = |node: &Value| {
            let all = array(&node["deps"]);
            all.iter()
                .filter(shipped)
                .map(|d| text(&d["pkg"]))
                .collect::<Vec<_>>()
        };
        Self {
            ours: members
                .iter()
                .map(text)
                .map(|id| (names[&id].clone(), id))
                .collect(),
            uses: nodes.iter().map(|n| (text(&n["id"]), uses(n))).collect(),
            names,
        }
    }

    fn direct(&self, name: &str) -> BTreeSet<&str> {
        let ids = self.ours.get(name).map(|id| &self.uses[id]);
        ids.into_iter()
            .flatten()
            .map(|id| self.names[id].as_str())
            .collect()
    }

    /// Returns all direct and indirect dependencies of a crate, each with the path that leads to
    /// it.
    fn all(&self, name: &str) -> BTreeMap<&str, String> {
        let mut found = BTreeMap::new();
        let mut open: Vec<(&String, String)> = self
            .ours
            .get(name)
            .map(|id| (id, name.to_owned()))
            .into_iter()
            .collect();
        while let Some((id, way)) = open.pop() {
            for next in &self.uses[id] {
                let name = self.names[next].as_str();
                let way = format!("{way} -> {name}");
                if found.insert(name, way.clone()).is_none() {
                    open.push((next, way));
                }
            }
        }
        found
    }
}

/// The functions of AWS have none of another platform's client: it would make their packages and
/// their cold starts larger.
#[test]
fn the_functions_on_aws_do_not_link_nats() {
    let graph = Graph::shared();
    for name in [
        "webhook",
        "reconcile",
        "drift",
        "capsule",
        "plan",
        "dashboard",
    ] {
        let all = graph.all(name);
        assert!(!all.is_empty(), "{name} is not a crate of the workspace");
        assert_eq!(all.get("async-nats"), None, "{name}");
    }
    assert!(graph.all("driftless").contains_key("async-nats"));
}

#[test]
fn crates_use_only_lower_crates() {
    let graph = Graph::shared();
    let rules: BTreeMap<_, _> = MAY_USE.into_iter().collect();
    for name in graph.ours.keys().filter(|name| !is_test_code(name)) {
        let allowed = rules.get(name.as_str()).unwrap_or_else(|| {
            panic!("{name} has no rule: list in MAY_USE which crates it may use")
        });
        for used in graph.direct(name) {
            let ours = graph.ours.contains_key(used);
            assert!(
                !ours || allowed.contains(&used),
                "{name} uses {used}, which MAY_USE does not allow"
            );
        }
    }
}

#[test]
fn engines_and_core_do_no_io() {
    let graph = Graph::shared();
    for name in PURE {
        for (used, way) in graph.all(name) {
            let sdk = used.starts_with("aws-sdk-") || used == "aws-config";
            assert!(!sdk && !OUTSIDE.contains(&used), "{way}");
        }
    }
}

#[test]
fn engines_and_core_do_not_use_tokio() {
    let graph = Graph::shared();
    for name in PURE {
        if let Some(way) = graph.all(name).get("tokio") {
            panic!("{way}");
        }
    }
}

/// Uses `cargo tree`: `cargo metadata` also lists dependencies of features that
/// are switched off.
#[test]
fn one_tls_stack_and_no_foreign_library_is_shipped() {
    let tree = driftless_harness::process::run(
        Command::new(env!("CARGO"))
            .current_dir(tools::workspace())
            .args(["tree", "--locked", "--workspace"])
            .args(
                TESTS
                    .iter()
                    .chain(&["driftless-sim"])
                    .flat_map(|name| ["--exclude", name]),
            )
            .args([
                "--edges",
                "normal,build",
                "--prefix",
                "none",
                "--format",
                "{p}",
            ])
            .args(["--target", "x86_64-unknown-linux-gnu"]),
    );
    let crates: BTreeSet<(&str, &str)> = tree
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, rest)| (name, rest.split(' ').next().unwrap_or_default()))
        .collect();
    for (name, version) in &crates {
        assert!(
            !NOWHERE.contains(name),
            "{name} {version}: see cargo tree -i {name}"
        );
    }
    for single in ["rustls", "hyper", "http", "tokio"] {
        let versions: Vec<_> = crates.iter().filter(|(name, _)| *name == single).collect();
        assert!(versions.len() <= 1, "one {single} only: {versions:?}");
    }
}

/// Returns the features with which each package of other authors is built for the tests of
/// `selection`, a set for each of its builds.
fn features(selection: &[&str]) -> BTreeMap<String, BTreeSet<String>> {
    let tree = driftless_harness::process::run(
        Command::new(env!("CARGO"))
            .current_dir(tools::workspace())
            .args(["tree", "--locked", "--edges", "normal,build,dev"])
            .args(["--prefix", "none", "--format", "{p}|{f}"])
            .args(["--target", "x86_64-unknown-linux-gnu"])
            .args(selection),
    );
    let mut packages = BTreeMap::<_, BTreeSet<_>>::new();
    for (package, features) in tree.lines().filter_map(|line| line.split_once('|')) {
        let features = features.trim_end_matches(" (*)").to_owned();
        if !package.contains(" (/") {
            let builds = packages.entry(package.to_owned()).or_default();
            builds.insert(features);
        }
    }
    packages
}

/// A package with other features is compiled again, with all crates that depend on it.
#[test]
fn both_tiers_of_tests_share_one_build_of_the_dependencies() {
    let default = features(&[]);
    let tools = features(&["-p", "driftless-acceptance", "-p", "driftless-oracles"]);
    for (package, builds) in &tools {
        let shared = default
            .get(package)
            .is_none_or(|default| !default.is_disjoint(builds));
        assert!(
            shared,
            "{package}: the acceptance tier has the features {builds:?}, the default tier {:?}: \
             list the missing ones in tests/acceptance/Cargo.toml",
            default[package]
        );
    }
}

/// A credential plugin is a program that a kubeconfig names. Only the kubeconfig of the user who
/// runs a command may name one.
#[test]
fn only_hub_commands_run_credential_plugins() {
    let mut users = Vec::new();
    for group in ["functions", "shared"] {
        for (path, file) in files::below(&tools::workspace().join(group)) {
            if !path.ends_with(".rs") {
                continue;
            }
            let text = std::fs::read_to_string(file).expect("read a file");
            if text.contains("cluster::Plugin") || text.contains("ExecConfig") {
                users.push(format!("{group}/{path}"));
            }
        }
    }
    let want = [
        "functions/cli/src/hub/plugin.rs",
        "shared/adapters/src/cluster/plugin.rs",
    ];
    assert_eq!(users, want);
    let commands = read("functions/cli/src/hub.rs");
    // Only the connection of get, reconcile, suspend and resume uses a plugin, and that of plan.
    assert_eq!(commands.matches("plugin::take(").count(), 1);
    let live = read("functions/cli/src/hub/live.rs");
    assert_eq!(live.matches("plugin::UserClusters").count(), 1);
}
