//! Commands that edit a fleet whose environments are branches: `fleet`, `env`, `tenant`, `app` and
//! `release-env`.

use crate::help::is_snapshot;
use driftless_harness::cluster::KUBECONFIG;
use driftless_harness::command::{Done, run_in};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A temporary checkout of a fleet repository.
struct Checkout(tempfile::TempDir);

impl Checkout {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    /// Creates an environment with a hub, a remote cluster, a tenant and an application.
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

    /// Checks that commands are refused with a code and these words, and change no file.
    fn refuses(&self, cases: &[(&str, i32, &str)]) {
        let before = self.files();
        for (line, code, words) in cases {
            let done = self.run(line);
            assert_eq!(done.code, *code, "{line}: {}{}", done.out, done.err);
            let err = &done.err;
            assert!(err.contains(words), "{line}: '{words}' is not in:\n{err}");
            assert_eq!(self.files(), before, "{line}");
        }
    }

    fn ok(&self, line: &str) -> String {
        let done = self.run(line);
        assert_eq!(done.code, 0, "{line}: {}", done.err);
        done.err
    }

    /// Returns every file and its content.
    fn files(&self) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        collect(self.0.path(), self.0.path(), &mut files);
        files
    }
}

fn collect(root: &Path, directory: &Path, files: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(root, &path, files);
        } else {
            let name = path
                .strip_prefix(root)
                .expect("below")
                .display()
                .to_string();
            files.insert(name, fs::read_to_string(&path).expect("a file"));
        }
    }
}

/// Returns all files of a directory as one string.
pub fn listing_of(root: &Path) -> String {
    let mut files = BTreeMap::new();
    collect(root, root, &mut files);
    listing(&files)
}

/// Returns all files as one string.
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

/// The commands write the files of the snapshots, in the newest API versions and in those of the
/// scripts. The objects of the second snapshot are those that the scripts of
/// microsoft/multicluster-gitops (644821b) wrote with kustomize 5.8.2 for the same arguments,
/// except for the intentional differences (functions/cli/src/layout/mod.rs), the Secrets of
/// --plain, and the version of `flux create source git`.
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
        let output = checkout.ok(line);
        assert!(output.contains("nothing to change"), "{line}: {output}");
    }
    assert_eq!(checkout.files(), before);
}

#[test]
fn the_edits_of_users_stay() {
    let checkout = Checkout::filled();
    let path = checkout.0.path().join("tenants/america/kustomization.yaml");
    let text = fs::read_to_string(&path).expect("a file");
    let edited = format!("# ours\n{}", text.replace("- shop", "- shop # the first"));
    fs::write(&path, edited).expect("write");
    checkout.ok("tenant add bank --repo https://github.com/acme/bank --branch dev");
    let text = fs::read_to_string(&path).expect("a file");
    assert!(text.starts_with("# ours\n"), "{text}");
    assert!(
        text.ends_with("- shop # the first\n- news\n- bank\n"),
        "{text}"
    );
}

#[test]
fn added_clusters_can_be_removed() {
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
    for (name, words) in [
        (
            "asia",
            "cluster 'asia' does not exist; the hubs are: america, pacific",
        ),
        (
            "asia/north",
            "hub 'asia' does not exist; the hubs are: america, pacific",
        ),
        (
            "america/north",
            "remote cluster 'america/north' does not exist; the remote clusters of america are: south",
        ),
    ] {
        let done = checkout.run(&format!("env remove-cluster {name}"));
        done.refused(1, &[words]);
    }
    assert_eq!(checkout.files(), before);
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
    let output = checkout.ok("fleet add-cluster store-43 --group stores");
    assert!(output.contains("nothing to change"), "{output}");
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
    checkout.refuses(&[
        (
            "app add missing cart",
            1,
            "tenant 'missing' does not exist; the tenants are: news, shop",
        ),
        ("app add shop Cart", 2, "lowercase RFC 1123 label"),
        (
            "tenant add base --repo https://a.example/b --branch dev",
            2,
            "a directory of the layout",
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
            "tenants/pacific/kustomization.yaml:1: resources is not a list in block style",
        ),
        (
            "env add-remote nowhere x --kubeconfig edge.conf --plain",
            1,
            "hub 'nowhere' does not exist; the hubs are: america, pacific",
        ),
        (
            "env add-remote america x --kubeconfig edge.conf",
            2,
            "--apply applies the Secret to the hub",
        ),
        (
            "env add-remote america x --kubeconfig absent.conf --plain",
            2,
            "--kubeconfig: absent.conf does not exist",
        ),
        ("env add-cluster ../x", 2, "lowercase RFC 1123 label"),
        (
            "fleet add-cluster x",
            1,
            "the branch is the environment dev",
        ),
        (
            "release-env add missing 1-0-x --repo https://a.example/b --branch r",
            1,
            "tenant 'missing' does not exist",
        ),
        (
            "tenant add flux-system --repo https://a.example/b --branch dev",
            2,
            "'flux-system' is the name of Flux's own directory",
        ),
        (
            "tenant add x-flux-system --repo https://a.example/b --branch dev",
            2,
            "the namespace would be dev-x-flux-system, which is the namespace of the objects of an environment",
        ),
        (
            "tenant add 1-0-x-shop --repo https://a.example/b --branch dev",
            2,
            "the namespace would be dev-1-0-x-shop, which is the namespace of the release environment 1-0-x of shop",
        ),
        ("env add-cluster releases", 2, "a directory of the layout"),
        (
            "env add-remote america america --kubeconfig edge.conf --plain",
            2,
            "the remote cluster cannot have the name of its hub, 'america'",
        ),
        (
            "env add-remote america x --kubeconfig edge.conf --apply",
            1,
            "set KUBECONFIG to a kubeconfig of the hub",
        ),
        ("env remove-cluster x", 1, "cluster 'x' does not exist"),
        (
            "env add-cluster x --apply",
            1,
            "connect to the hub: no kubeconfig was found",
        ),
        (
            "env add-cluster x --context hub",
            2,
            "the following required arguments were not provided:\n  --apply",
        ),
        (
            "env remove-cluster america --apply --kubeconfig absent.conf",
            2,
            "--kubeconfig: absent.conf does not exist",
        ),
        (
            "env add-remote america x --kubeconfig edge.conf --sops age1x",
            2,
            "expected an age recipient",
        ),
        (
            "env add-remote america x --kubeconfig edge.conf --sops-secret s --plain",
            2,
            "--sops",
        ),
        (
            "env remove-cluster america --apply --timeout soon",
            2,
            "--timeout",
        ),
    ]);
    let shared = Checkout::new();
    shared.refuses(&[
        (
            "fleet add-cluster x --apply",
            2,
            "--repo is required with --apply: the checkout has no remote origin",
        ),
        (
            "fleet add-cluster x --apply --repo ssh://git@github.com/acme/fleet",
            2,
            "is read with a login, which this command does not create",
        ),
        (
            "fleet add-cluster x --apply --repo https://github.com/acme/fleet",
            1,
            "connect to the hub: no kubeconfig was found",
        ),
        (
            "fleet remove-cluster x --apply",
            1,
            "cluster 'x' does not exist",
        ),
    ]);
    let empty = Checkout::new();
    let done = empty.run("env add-cluster x");
    done.refused(
        1,
        &[
            "the file ENV_NAME does not exist",
            "driftless env init NAME",
        ],
    );
    assert!(empty.files().is_empty());
}

/// The fleet that the commands write, with the repositories of the tenants, is applied without an
/// error.
#[test]
fn the_fleet_of_the_commands_is_sound() {
    let checkout = Checkout::filled();
    // With --apply the Secret is on the hub; a check has a stand-in for it.
    for (path, text) in checkout.files() {
        let file = checkout.0.path().join(&path);
        if path.ends_with("/kubeconfig.yaml") {
            fs::remove_file(file).expect("remove");
        } else if path.ends_with("/kustomization.yaml") {
            fs::write(file, text.replace("- kubeconfig.yaml\n", "")).expect("write");
        }
    }
    let config = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: hello\n";
    let manifests = tempfile::tempdir().expect("a directory");
    for directory in ["cart", "feed"] {
        for place in ["america", "pacific", "south", "manifest"] {
            let directory = manifests.path().join(directory).join(place);
            fs::create_dir_all(&directory).expect("a directory");
            fs::write(directory.join("config.yaml"), config).expect("write");
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

/// All names of kustomization files are supported: the existing file is edited, and two files are
/// an error.
#[test]
fn two_kustomization_files_are_refused() {
    for name in ["kustomization.yml", "Kustomization"] {
        let checkout = Checkout::filled();
        let root = checkout.0.path();
        let mut directories = Vec::new();
        for path in checkout.files().keys() {
            if let Some(directory) = path.strip_suffix("/kustomization.yaml") {
                let directory = root.join(directory);
                let (from, to) = (directory.join("kustomization.yaml"), directory.join(name));
                fs::rename(from, to).expect("rename");
                directories.push(directory);
            }
        }
        let before = checkout.files();
        for line in FILLED {
            let output = checkout.ok(line);
            assert!(output.contains("nothing to change"), "{line}: {output}");
        }
        checkout.ok("tenant add bank --repo https://github.com/acme/bank --branch dev");
        checkout.ok("app add shop bill");
        for directory in &directories {
            assert!(
                !directory.join("kustomization.yaml").exists(),
                "{directory:?}"
            );
        }
        let list = format!("tenants/america/{name}");
        let want = format!("{}- bank\n", before[&list]);
        assert_eq!(checkout.files()[&list], want);
    }

    let checkout = Checkout::filled();
    let second = checkout.0.path().join("tenants/america/kustomization.yml");
    fs::write(second, "resources: [shop]\n").expect("write");
    let before = checkout.files();
    let words =
        "found multiple kustomization files (kustomization.yaml, kustomization.yml): keep one";
    for line in [
        "tenant add bank --repo https://github.com/acme/bank --branch dev",
        "tenant add shop --repo https://github.com/acme/shop --branch dev",
    ] {
        checkout.run(line).refused(1, &["tenants/america: ", words]);
    }
    assert_eq!(checkout.files(), before);
    let home = tempfile::tempdir().expect("a home");
    let root = checkout.0.path().to_str().expect("UTF-8");
    let directory = format!("{root}/tenants/america");
    run_in(home.path(), &["build", &directory], &[]).refused(1, &[words]);
    let check = ["check", root, "--path", "clusters/america"];
    let done = run_in(home.path(), &check, &[]);
    assert_eq!(done.code, 1, "{}{}", done.out, done.err);
    assert!(done.out.contains(words), "{}", done.out);
}

/// In a directory without a kustomization Flux applies everything: a command creates none, or one
/// that lists everything.
#[test]
fn directories_without_a_kustomization_lose_nothing() {
    let checkout = Checkout::filled();
    let root = checkout.0.path();
    fs::remove_file(root.join("tenants/america/kustomization.yaml")).expect("remove");
    fs::remove_file(root.join("tenants/pacific/shop/kustomization.yaml")).expect("remove");
    checkout.ok("tenant add bank --repo https://github.com/acme/bank --branch dev");
    checkout.ok("app add shop bill");
    let files = checkout.files();
    assert!(!files.contains_key("tenants/america/kustomization.yaml"));
    let list = &files["tenants/pacific/shop/kustomization.yaml"];
    assert!(
        list.ends_with("resources:\n- ../../base/shop\n- bill\n- cart\n"),
        "{list}"
    );
}

/// Each command runs two times over files that users edited: their fields, comments and line ends
/// stay.
#[test]
fn commands_keep_what_people_wrote() {
    let crlf = |text: &str| text.replace('\n', "\r\n");
    let checkout = Checkout::filled();
    for (path, text) in checkout.files() {
        // The edits of users for a private repository, and those of their editors to the other
        // files.
        let edited = match path.rsplit('/').next().unwrap_or_default() {
            "git-manifests.yaml" | "sync.yaml" if text.contains("kind: GitRepository") => text
                .replace(
                    "  interval: 1m0s\n",
                    "  interval: 17m # rarely\n  secretRef:\n    name: login\n",
                )
                .replace("branch: ", "branch: # of this environment\n      "),
            _ => text,
        };
        let edited = format!("# ours\n{edited}");
        let edited = match path.as_str() {
            "ENV_NAME" => "dev\r\n".to_owned(),
            _ => crlf(&edited),
        };
        fs::write(checkout.0.path().join(&path), edited).expect("write");
    }
    let before = checkout.files();
    for _ in 0..2 {
        for line in FILLED {
            let output = checkout.ok(line);
            assert!(output.contains("nothing to change"), "{line}: {output}");
        }
        assert_eq!(checkout.files(), before);
    }

    // Only the requested fields change.
    let source = "tenants/base/shop/git-manifests.yaml";
    for _ in 0..2 {
        checkout.ok("tenant add shop --repo https://github.com/acme/store --branch dev");
        checkout.ok("env init dev --repo https://github.com/acme/ships");
        checkout.ok("app add shop bill");
        let files = checkout.files();
        let want = before[source].replace("acme/shop", "acme/store");
        assert_eq!(files[source], want);
        let sync = "clusters/base/sync.yaml";
        assert_eq!(
            files[sync],
            before[sync].replace("acme/fleet", "acme/ships")
        );
        let list = "tenants/america/shop/kustomization.yaml";
        let want = before[list].replace("- cart\r\n", "- bill\r\n- cart\r\n");
        assert_eq!(files[list], want);
    }
    checkout.ok("env remove-cluster america/south");
    let list = "clusters/america/kustomization.yaml";
    let want = before[list].replace("- south\r\n", "");
    assert_eq!(checkout.files()[list], want);

    // Another environment reads the repository with the same credentials.
    checkout.ok("env init qa");
    let sync = &checkout.files()["clusters/base/sync.yaml"];
    for words in [
        "secretRef:",
        "name: login",
        "17m # rarely",
        "name: qa-flux-system",
    ] {
        assert!(sync.contains(words), "{sync}");
    }
    assert!(!sync.contains("dev"), "{sync}");

    // A file that cannot be edited is refused with its line.
    let checkout = Checkout::filled();
    let file = checkout.0.path().join(source);
    let pinned = fs::read_to_string(&file).expect("a file");
    fs::write(&file, pinned.replace("branch: dev", "tag: v1")).expect("write");
    let line = "tenant add shop --repo https://github.com/acme/shop --branch dev";
    let words = [
        "git-manifests.yaml:",
        "spec.ref.tag of GitRepository 'shop-manifests' takes precedence over a branch",
    ];
    let before = checkout.files();
    checkout.run(line).refused(1, &words);
    assert_eq!(checkout.files(), before);
    let secret = "clusters/america/south/kubeconfig.yaml";
    let file = checkout.0.path().join(secret);
    let text = fs::read_to_string(&file).expect("a file");
    fs::write(&file, format!("{text}sops:\n  mac: ENC[x]\n")).expect("write");
    let before = checkout.files();
    let line = "env add-remote america south --kubeconfig edge.conf --plain";
    checkout
        .run(line)
        .refused(1, &[secret, "encrypted with SOPS"]);
    assert_eq!(checkout.files(), before);
}

/// No hub follows a new directory automatically: the command that makes a hub follow it is printed.
#[test]
fn the_command_that_follows_a_new_directory_is_printed() {
    let checkout = Checkout::filled();
    let serve = "driftless serve --repository https://github.com/acme/fleet --branch dev --path clusters/asia --root dev-flux-system";
    let root = checkout.0.path().display().to_string();
    let build = format!("driftless build {root}/clusters/asia | kubectl apply -f -");
    let output = checkout.ok("env add-cluster asia");
    for words in [serve, &build] {
        assert!(output.contains(words), "'{words}' is not in:\n{output}");
    }
    let found = checkout.run("env add-cluster asia -o json").json();
    assert_eq!(found["next"][0]["command"], serve, "{found:#}");
    let bootstrap = serve.replace("serve", "bootstrap --name asia");
    assert_eq!(found["next"][1]["command"], bootstrap, "{found:#}");
    assert_eq!(found["next"][2]["command"], build, "{found:#}");
    let shared = Checkout::new();
    let output = shared.ok("fleet add-cluster america");
    let serve = "driftless serve --repository OWNER/NAME --branch main --path clusters/america";
    assert!(output.contains(serve), "{output}");
    let clone = Checkout::new();
    let git = clone.0.path().join(".git");
    std::fs::create_dir_all(&git).expect("make .git");
    let config = "[remote \"origin\"]\n\turl = git@github.com:acme/fleet.git\n";
    std::fs::write(git.join("config"), config).expect("write .git/config");
    let output = clone.ok("fleet add-cluster america");
    let serve = "driftless serve --repository ssh://git@github.com/acme/fleet.git --branch main";
    assert!(output.contains(serve), "{output}");
}

/// Objects that were applied by hand must be deleted by hand: the commands are printed, in order.
#[test]
fn the_commands_that_delete_a_cluster_are_printed() {
    let checkout = Checkout::filled();
    let found = Checkout::filled()
        .run("env remove-cluster america -o json")
        .json();
    let next = found["next"].as_array().expect("commands");
    let commands: Vec<&str> = next
        .iter()
        .filter_map(|next| next["command"].as_str())
        .collect();
    let [first, rest @ .., last] = commands.as_slice() else {
        panic!("{found:#}");
    };
    assert!(
        first.starts_with("kubectl -n dev-flux-system patch kustomization dev-flux-system "),
        "{first}"
    );
    let syncs = [
        "south-tenants",
        "south-infrastructure",
        "tenants",
        "infrastructure",
    ];
    let syncs = syncs.map(|sync| format!("kubectl -n dev-flux-system delete kustomization {sync}"));
    assert_eq!(rest, syncs);
    assert_eq!(*last, "kubectl delete namespace dev-flux-system");
    // The root of the hub prunes the objects of a remote cluster, with a kubeconfig that is plain.
    let output = checkout.ok("env remove-cluster america/south --dry-run");
    assert!(!output.contains("kubectl"), "{output}");
    let recipient = "age1n0eplj3zp3dyd3y2yz2lsp9sltnjw6al0qwqqd9mp65de5s9e3ssvlh42l";
    checkout.ok(&format!(
        "env add-remote america south --kubeconfig edge.conf --sops {recipient}"
    ));
    let output = checkout.ok("env remove-cluster america/south");
    for space in ["dev-flux-system", "dev-news", "dev-shop"] {
        let command = format!("kubectl -n {space} delete secret south-kubeconfig ");
        assert!(output.contains(&command), "{output}");
    }
}

/// A dry run of --apply connects to no hub, and prints what would be applied.
#[test]
fn a_dry_run_needs_no_hub() {
    let checkout = Checkout::filled();
    let before = checkout.files();
    let output =
        checkout.ok("env add-remote america north --kubeconfig edge.conf --apply --dry-run");
    let words = "Secret/dev-flux-system/north-kubeconfig would be applied to the hub";
    assert!(output.contains(words), "{output}");
    let words = "Kustomization/dev-flux-system/north-tenants would be applied to the hub";
    assert!(output.contains(words), "{output}");
    let output = checkout
        .ok("env add-remote america north --kubeconfig edge.conf --secret-manager --dry-run");
    let words =
        "remotes/america/dev-flux-system/north-kubeconfig would be stored in Secrets Manager";
    assert!(output.contains(words), "{output}");
    let output = checkout.ok("env add-cluster asia --apply --dry-run");
    for words in [
        "Kustomization/dev-flux-system/dev-flux-system would be created on the hub",
        "Kustomization/dev-flux-system/tenants would be applied to the hub",
    ] {
        assert!(output.contains(words), "{output}");
    }
    let output = checkout.ok("env remove-cluster america --apply --dry-run");
    let words = "Namespace/dev-flux-system would be deleted from the hub";
    assert!(output.contains(words), "{output}");
    assert_eq!(checkout.files(), before);
}

/// Clusters of Kamaji and Cluster API: the objects that create them, and the name of the Secret
/// with the kubeconfig that each provider writes.
#[test]
fn provisioned_clusters() {
    let checkout = Checkout::new();
    checkout.ok("fleet add-cluster america");
    let azure =
        "fleet provision america/azure --provider capz --region westeurope --subscription 1234";
    let lines = [
        "fleet provision tenant --provider kamaji",
        azure,
        "fleet provision america/aws --provider capa --region eu-west-1 --replicas 3 --machine-type t3.large",
        "fleet provision america/local --provider docker",
    ];
    let before = checkout.files();
    for line in lines {
        let output = checkout.ok(&format!("{line} --dry-run"));
        assert!(
            output.contains("/cluster.yaml would be created"),
            "{output}"
        );
        assert_eq!(checkout.files(), before, "{line}");
    }
    for line in lines {
        checkout.ok(line);
    }
    let before = checkout.files();
    is_snapshot("layout-provision.txt", &listing(&before));
    for (name, secret) in [
        (
            "tenant",
            "key: admin.conf\n      name: tenant-admin-kubeconfig\n",
        ),
        ("azure", "name: azure-kubeconfig\n"),
        ("aws", "name: aws-kubeconfig\n"),
        ("local", "name: local-kubeconfig\n"),
    ] {
        let sync = &before[&format!("clusters/america/{name}/infra.yaml")];
        assert!(sync.contains(secret), "{sync}");
    }
    for line in lines {
        let output = checkout.ok(line);
        assert!(output.contains("nothing to change"), "{line}: {output}");
    }
    checkout.refuses(&[
        (
            "fleet provision america/tenant --provider docker",
            1,
            "clusters/america/tenant/cluster.yaml: the file has no DockerCluster",
        ),
        (
            "fleet provision america/x --provider capa",
            2,
            "--region is required with the provider capa",
        ),
        (
            "fleet provision america/x --provider kamaji --region eu-west-1",
            2,
            "--region is not a setting of the provider kamaji",
        ),
        (
            "fleet provision america/x --provider capz --region westeurope",
            2,
            "--subscription is required with the provider capz",
        ),
        (
            "fleet provision nowhere/x --provider kamaji",
            1,
            "hub 'nowhere' does not exist; the hubs are: america",
        ),
        (
            "fleet provision america/x --provider kind",
            2,
            "possible values: kamaji, capz, capa, docker",
        ),
        (
            "fleet provision america/x --provider docker --kubernetes-version 1.34",
            2,
            "expected vMAJOR.MINOR.PATCH",
        ),
        (
            "fleet provision america/x --provider docker --replicas 0",
            2,
            "0 is not in 1..=1000",
        ),
        (
            "fleet provision america/america --provider kamaji",
            2,
            "the remote cluster cannot have the name of its hub",
        ),
    ]);
    checkout.ok("fleet add-cluster pacific");
    let done = checkout.run("fleet provision x --provider kamaji");
    done.refused(1, &["the hubs are: america, pacific", "give HUB/x"]);
    let done = Checkout::filled().run("fleet provision america/x --provider kamaji");
    done.refused(1, &["the branch is the environment dev"]);
}
