//! Commands that edit a fleet whose environments are branches: `fleet`, `env`, `tenant`, `app` and `release-env`.

use crate::help::is_snapshot;
use driftless_harness::command::{Done, run_in};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const KUBECONFIG: &str = "apiVersion: v1
kind: Config
clusters:
- name: c
  cluster: {server: 'https://edge-1.example.com:6443'}
users:
- name: u
  user: {token: a-token}
contexts:
- name: x
  context: {cluster: c, user: u}
current-context: x
";

/// A checkout.
struct Checkout(tempfile::TempDir);

impl Checkout {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    /// An environment with a hub, a remote cluster, a tenant and an application.
    fn filled() -> Self {
        let checkout = Self::new();
        for line in FILLED {
            checkout.ok(line);
        }
        checkout
    }

    fn run(&self, line: &str) -> Done {
        let outside = tempfile::tempdir().expect("a home");
        fs::write(outside.path().join("edge.conf"), KUBECONFIG).expect("write");
        let dir = self.0.path().to_str().expect("UTF-8");
        let conf = outside.path().join("edge.conf");
        let conf = conf.to_str().expect("UTF-8");
        let line = line.replace("edge.conf", conf);
        let args: Vec<&str> = line.split(' ').chain(["--dir", dir]).collect();
        run_in(outside.path(), &args, &[])
    }

    fn ok(&self, line: &str) -> String {
        let done = self.run(line);
        assert_eq!(done.code, 0, "{line}: {}", done.err);
        done.err
    }

    /// Every file and its text.
    fn files(&self) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        collect(self.0.path(), self.0.path(), &mut files);
        files
    }
}

fn collect(root: &Path, folder: &Path, files: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(root, &path, files);
        } else {
            let name = path
                .strip_prefix(root)
                .expect("below")
                .display()
                .to_string();
            files.insert(name, fs::read_to_string(&path).expect("a text"));
        }
    }
}

/// All files as one text.
fn listing(files: &BTreeMap<String, String>) -> String {
    let file = |(path, text): (&String, &String)| format!("=== {path}\n{text}");
    files.iter().map(file).collect()
}

const FILLED: [&str; 9] = [
    "env init dev --repo https://github.com/acme/fleet",
    "env add-cluster america",
    "tenant add shop --repo https://github.com/acme/shop --branch dev",
    "app add shop cart",
    "env add-remote america south --kubeconfig edge.conf --plain",
    "env add-cluster pacific",
    "tenant add news --repo https://github.com/acme/news --branch dev",
    "app add news feed",
    "release-env add shop 1-0-x --repo https://github.com/acme/shop --branch release/1-0-x/dev",
];

/// What the commands write, in the newest API versions and in those of the scripts. The objects of the second text are those that
/// the scripts of microsoft/multicluster-gitops (644821b) wrote with kustomize 5.8.2 for the same arguments, but for the differences
/// on purpose (functions/cli/src/layout/mod.rs), the Secrets of --plain, and the version of `flux create source git`.
#[test]
fn multicluster_gitops_replay() {
    is_snapshot("layout.txt", &listing(&Checkout::filled().files()));
    let compat = Checkout::new();
    for line in FILLED {
        compat.ok(&format!("{line} --api-compat"));
    }
    is_snapshot("layout-compat.txt", &listing(&compat.files()));
}

#[test]
fn a_second_run_changes_nothing() {
    let checkout = Checkout::filled();
    let before = checkout.files();
    for line in FILLED {
        let said = checkout.ok(line);
        assert!(said.contains("nothing to change"), "{line}: {said}");
    }
    assert_eq!(checkout.files(), before);
}

#[test]
fn what_people_wrote_stays() {
    let checkout = Checkout::filled();
    let path = checkout.0.path().join("tenants/america/kustomization.yaml");
    let text = fs::read_to_string(&path).expect("a text");
    let edited = format!("# ours\n{}", text.replace("- shop", "- shop # the first"));
    fs::write(&path, edited).expect("write");
    checkout.ok("tenant add bank --repo https://github.com/acme/bank --branch dev");
    let text = fs::read_to_string(&path).expect("a text");
    assert!(text.starts_with("# ours\n"), "{text}");
    assert!(
        text.ends_with("- shop # the first\n- news\n- bank\n"),
        "{text}"
    );
}

#[test]
fn what_was_added_can_be_removed() {
    let checkout = Checkout::filled();
    let before = checkout.files();
    checkout.ok("env add-cluster asia");
    checkout.ok("env add-remote asia north --kubeconfig edge.conf --plain");
    assert!(
        checkout
            .files()
            .contains_key("tenants/asia/clusters/north/shop/cart/sync-patch.yaml")
    );
    checkout.ok("env remove-cluster asia/north");
    assert!(!checkout.files().keys().any(|path| path.contains("north")));
    checkout.ok("env remove-cluster asia");
    assert_eq!(checkout.files(), before);
    assert!(!checkout.0.path().join("clusters/asia").exists());
    let said = checkout.ok("env remove-cluster asia");
    assert!(
        said.contains("there is no cluster 'asia'; the hubs are: america, pacific"),
        "{said}"
    );
}

#[test]
fn another_environment_begins_empty() {
    let checkout = Checkout::filled();
    checkout.ok("env init qa");
    let files = checkout.files();
    let paths: Vec<&str> = files.keys().map(String::as_str).collect();
    assert_eq!(
        paths,
        [
            "ENV_NAME",
            "clusters/base/kustomization.yaml",
            "clusters/base/namespace.yaml",
            "clusters/base/sync.yaml",
            "infra/base/kustomization.yaml",
        ]
    );
    let sync = &files["clusters/base/sync.yaml"];
    assert!(sync.contains("branch: qa\n"), "{sync}");
    assert!(
        sync.contains("url: https://github.com/acme/fleet\n"),
        "{sync}"
    );
}

#[test]
fn clusters_of_the_shared_branch() {
    let checkout = Checkout::new();
    checkout.ok("fleet add-cluster america");
    checkout.ok("fleet add-cluster store-42 --group stores");
    let said = checkout.ok("fleet add-cluster store-43 --group stores");
    assert!(said.contains("nothing to change"), "{said}");
    checkout.ok("fleet add-remote america south --kubeconfig edge.conf --plain");
    let files = checkout.files();
    let infra = &files["clusters/america/south/infra.yaml"];
    assert!(
        infra.contains("path: ./infra/america/clusters/south\n"),
        "{infra}"
    );
    assert!(infra.contains("name: south-kubeconfig\n"), "{infra}");
    checkout.ok("fleet remove-cluster america/south");
    checkout.ok("fleet remove-cluster america");
    checkout.ok("fleet remove-cluster stores");
    let paths: Vec<String> = checkout.files().into_keys().collect();
    assert_eq!(paths, ["infra/base/kustomization.yaml"]);
}

#[test]
fn a_dry_run_prints_the_diff() {
    let checkout = Checkout::filled();
    let before = checkout.files();
    let done = checkout.run("app add shop bill --dry-run");
    for words in [
        "--- /dev/null\n+++ b/tenants/base/shop/bill/sync.yaml\n",
        "--- a/tenants/america/shop/kustomization.yaml\n",
        " - ../../base/shop\n+- bill\n - cart\n",
    ] {
        assert!(
            done.out.contains(words),
            "'{words}' is not in:\n{}",
            done.out
        );
    }
    assert_eq!(checkout.files(), before);
    let done = checkout.run("app add shop bill -o json");
    let found = done.json();
    assert_eq!(found["files"][0]["change"], "created", "{found:#}");
}

#[test]
fn bad_input_changes_no_file() {
    let checkout = Checkout::filled();
    fs::write(
        checkout.0.path().join("tenants/pacific/kustomization.yaml"),
        "resources: [shop]\n",
    )
    .expect("write");
    let before = checkout.files();
    for (line, code, words) in [
        (
            "app add nobody cart",
            1,
            "there is no tenant 'nobody'; the tenants are: news, shop",
        ),
        ("app add shop Cart", 2, "lowercase RFC 1123 label"),
        (
            "tenant add base --repo https://a.example/b --branch dev",
            2,
            "a folder of the layout",
        ),
        (
            "tenant add x --repo a/b --branch dev",
            2,
            "expected https://HOST/PATH",
        ),
        (
            "tenant add x --repo https://a.example/b --branch -x",
            2,
            "--branch",
        ),
        (
            "tenant add x --repo https://a.example/b --branch a..b",
            2,
            "expected the name of a branch",
        ),
        (
            "tenant add bank --repo https://a.example/b --branch dev",
            1,
            "tenants/pacific/kustomization.yaml:1: resources is not a list of lines",
        ),
        (
            "env add-remote nowhere x --kubeconfig edge.conf --plain",
            1,
            "there is no hub 'nowhere'",
        ),
        (
            "env add-remote america x --kubeconfig edge.conf",
            2,
            "--apply puts the Secret on the hub",
        ),
        (
            "env add-remote america x --kubeconfig absent.conf --plain",
            1,
            "absent.conf",
        ),
        ("env add-cluster ../x", 2, "lowercase RFC 1123 label"),
        (
            "fleet add-cluster x",
            1,
            "the branch is the environment dev",
        ),
        (
            "release-env add nobody 1-0-x --repo https://a.example/b --branch r",
            1,
            "there is no tenant 'nobody'",
        ),
    ] {
        let done = checkout.run(line);
        assert_eq!(done.code, code, "{line}: {}{}", done.out, done.err);
        assert!(
            done.err.contains(words),
            "{line}: '{words}' is not in:\n{}",
            done.err
        );
        assert_eq!(checkout.files(), before, "{line}");
    }
    let empty = Checkout::new();
    let done = empty.run("env add-cluster x");
    done.refused(1, &["there is no file ENV_NAME", "driftless env init NAME"]);
    assert!(empty.files().is_empty());
}

/// The fleet that the commands write, with the tenants' repositories beside it, is applied without an error.
#[test]
fn the_fleet_of_the_commands_is_sound() {
    let checkout = Checkout::filled();
    // As with --apply: the Secret is on the hub, and a stand-in in a check.
    for (path, text) in checkout.files() {
        let file = checkout.0.path().join(&path);
        if path.ends_with("/kubeconfig.yaml") {
            fs::remove_file(file).expect("remove");
        } else if path.ends_with("/kustomization.yaml") {
            fs::write(file, text.replace("- kubeconfig.yaml\n", "")).expect("write");
        }
    }
    let config = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: hello\n";
    let manifests = tempfile::tempdir().expect("a folder");
    for folder in ["cart", "feed"] {
        for place in ["america", "pacific", "south", "manifest"] {
            let folder = manifests.path().join(folder).join(place);
            fs::create_dir_all(&folder).expect("a folder");
            fs::write(folder.join("config.yaml"), config).expect("write");
        }
    }
    let dir = manifests.path().to_str().expect("UTF-8");
    let root = checkout.0.path().to_str().expect("UTF-8");
    let source = |name: &str| format!("https://github.com/acme/{name}={dir}");
    let home = tempfile::tempdir().expect("a home");
    for hub in ["america", "pacific"] {
        let args = [
            "check",
            root,
            "--path",
            &format!("clusters/{hub}"),
            "--source",
            &source("shop"),
            "--source",
            &source("news"),
        ];
        let done = run_in(home.path(), &args, &[]);
        assert!(!done.out.contains("error"), "{hub}: {}", done.out);
        done.ok();
    }
}
