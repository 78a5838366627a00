//! The commands for fleets whose environments are branches, compared with the scripts of
//! microsoft/multicluster-gitops and with the real sops.

use driftless_harness::cluster::KUBECONFIG;
use driftless_harness::command::{program, run_in};
use driftless_harness::skip::skip;
use driftless_harness::{files, tools};
use driftless_manifest::yaml::{self, Dialect, Limits};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const FLEET: &str = "https://github.com/kaizentm/multicluster-gitops";
const SHOP: &str = "https://github.com/acme/shop";
const NEWS: &str = "https://github.com/acme/news";
/// The directory with the scripts, if it is not in the shared material.
const SCRIPTS: &str = "DRIFTLESS_FLEET_SCRIPTS";

/// The scripts with their arguments, each with the arguments of our command.
const STEPS: [(&str, &str); 9] = [
    ("init-environment.sh dev FLEET", "env init dev --repo FLEET"),
    (
        "add-cluster-environment.sh america",
        "env add-cluster america",
    ),
    (
        "add-tenant.sh shop SHOP dev",
        "tenant add shop --repo SHOP --branch dev",
    ),
    ("add-app.sh shop cart", "app add shop cart"),
    (
        "add-remote-cluster-environment.sh america south edge.conf",
        "env add-remote america south --kubeconfig edge.conf --plain",
    ),
    (
        "add-cluster-environment.sh pacific",
        "env add-cluster pacific",
    ),
    (
        "add-release-env.sh shop 1-0-x SHOP release/1-0-x/dev",
        "release-env add shop 1-0-x --repo SHOP --branch release/1-0-x/dev",
    ),
    ("add-cluster-environment.sh asia", "env add-cluster asia"),
    (
        "remove-cluster-from-environment.sh pacific",
        "env remove-cluster pacific",
    ),
];

/// The documents of each file of a fleet.
type Tree = BTreeMap<String, Vec<Value>>;

/// Returns the directory `utils` with the scripts.
fn scripts() -> Option<PathBuf> {
    let shared = "../shared/fleets/multicluster-gitops/dev/utils";
    let directory = match std::env::var_os(SCRIPTS) {
        Some(given) => PathBuf::from(given),
        None => tools::workspace().join(shared),
    };
    if directory.join("init-environment.sh").is_file() {
        return Some(directory);
    }
    skip(&format!(
        "the scripts of multicluster-gitops are not in {} ({SCRIPTS} names another directory)",
        directory.display()
    ));
    None
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory") {
        let from = entry.expect("an entry").path();
        let to = to.join(from.file_name().expect("a name"));
        match from.is_dir() {
            true => copy(&from, &to),
            false => drop(fs::copy(&from, &to).expect("copy")),
        }
    }
}

fn program_at(path: &Path, text: &str) {
    fs::write(path, text).expect("write");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("make it a program");
}

fn with_urls(line: &str) -> String {
    line.replace("FLEET", FLEET)
        .replace("SHOP", SHOP)
        .replace("NEWS", NEWS)
}

/// Reads the files of the layout.
fn tree(root: &Path) -> Tree {
    let mut tree = Tree::new();
    for directory in ["clusters", "infra", "tenants"] {
        for (path, file) in files::below(&root.join(directory)) {
            let name = format!("{directory}/{path}");
            let text = fs::read(file).expect("a file");
            let documents = yaml::documents(&text, &name, Dialect::V2, &Limits::default());
            let mut documents = documents.unwrap_or_else(|error| panic!("{error}"));
            documents.retain(|document| !document.is_null());
            for document in &mut documents {
                let resources = document.get_mut("resources").and_then(Value::as_array_mut);
                if let Some(resources) = resources {
                    resources.sort_by_key(Value::to_string);
                }
            }
            tree.insert(name, documents);
        }
    }
    tree
}

/// A difference that is intended: its name, and the change that makes our tree that of the scripts.
type Difference = (&'static str, fn(&mut Tree));

fn resources(tree: &mut Tree, path: &str, keep: impl Fn(&str) -> bool) {
    let list = tree.get_mut(path).and_then(|file| file.first_mut());
    let list = list.and_then(|list| list["resources"].as_array_mut());
    let list = list.unwrap_or_else(|| panic!("{path} has no resources"));
    let count = list.len();
    list.retain(|entry| entry.as_str().is_some_and(&keep));
    assert!(list.len() < count, "{path}: nothing differs");
}

/// The intended differences, as functions/cli/src/layout/mod.rs names them.
const DIFFERENCES: [Difference; 6] = [
    (
        "the source follows the branch of the environment's name",
        |tree| {
            let sync = &mut tree.get_mut("clusters/base/sync.yaml").expect("a source")[0];
            let branch = &mut sync["spec"]["ref"]["branch"];
            assert_eq!(*branch, "dev");
            *branch = json!("dev-flux-system");
        },
    ),
    (
        "the hub's kustomization lists its remote clusters",
        |tree| {
            resources(tree, "clusters/america/kustomization.yaml", |entry| {
                entry != "south"
            });
        },
    ),
    ("infra/base has a kustomization from the start", |tree| {
        assert!(tree.remove("infra/base/kustomization.yaml").is_some());
    }),
    (
        "the infrastructure of a remote cluster has the tenants' accounts",
        |tree| {
            let directory = "infra/america/clusters/south";
            assert!(
                tree.remove(&format!("{directory}/tenants/shop.yaml"))
                    .is_some()
            );
            let list = format!("{directory}/kustomization.yaml");
            resources(tree, &list, |entry| entry != "tenants/shop.yaml");
        },
    ),
    ("the kubeconfig is in Git, as --plain asks for", |tree| {
        for directory in [
            "clusters/america/south",
            "tenants/america/clusters/south/shop",
        ] {
            assert!(
                tree.remove(&format!("{directory}/kubeconfig.yaml"))
                    .is_some()
            );
            let list = format!("{directory}/kustomization.yaml");
            resources(tree, &list, |entry| entry != "kubeconfig.yaml");
        }
    }),
    ("flux create writes the version that it knows", |tree| {
        for (path, documents) in tree.iter_mut() {
            if path.ends_with("/git-manifests.yaml") {
                documents[0]["apiVersion"] = json!("source.toolkit.fluxcd.io/v1");
            }
        }
    }),
];

/// The scripts run with the real kustomize, with `driftless create` in place of flux, and with a
/// kubectl that does nothing; our commands write the same files with the same objects.
#[test]
fn multicluster_gitops_scripts() {
    let Some(scripts) = scripts() else {
        return;
    };
    let home = tempfile::tempdir().expect("a home");
    let (bin, theirs, ours) = (
        home.path().join("bin"),
        home.path().join("theirs"),
        home.path().join("ours"),
    );
    fs::create_dir_all(&bin).expect("a directory");
    fs::create_dir_all(&ours).expect("a directory");
    copy(&scripts, &theirs.join("utils"));
    let flux = format!("#!/bin/sh\nexec {} \"$@\"\n", program().display());
    program_at(&bin.join("flux"), &flux);
    program_at(&bin.join("kubectl"), "#!/bin/sh\ncat > /dev/null\n");
    fs::copy(tools::KUSTOMIZE.path(), bin.join("kustomize")).expect("copy");
    let conf = home.path().join("edge.conf");
    fs::write(&conf, KUBECONFIG).expect("write");
    let conf = conf.to_str().expect("UTF-8");
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let dir = ours.to_str().expect("UTF-8");
    for (script, command) in STEPS {
        let script = with_urls(script).replace("edge.conf", conf);
        let line = format!("./utils/{script} < /dev/null");
        let mut shell = Command::new("bash");
        shell
            .env_clear()
            .env("PATH", &path)
            .env("HOME", home.path());
        let done = shell
            .current_dir(&theirs)
            .args(["-c", &line])
            .output()
            .expect("run bash");
        // The scripts go on after an error, for example of `mkdir`.
        println!("{line}: {}", String::from_utf8_lossy(&done.stderr));
        let command = with_urls(command).replace("edge.conf", conf);
        let args: Vec<&str> = command
            .split(' ')
            .chain(["--api-compat", "--dir", dir])
            .collect();
        run_in(home.path(), &args, &[]).ok();
    }
    let (theirs, mut ours) = (tree(&theirs), tree(&ours));
    for (name, undo) in DIFFERENCES {
        println!("intended: {name}");
        undo(&mut ours);
    }
    let files = |tree: &Tree| tree.keys().cloned().collect::<Vec<_>>();
    assert_eq!(files(&ours), files(&theirs));
    let wrong: Vec<String> = ours
        .iter()
        .filter(|(path, documents)| theirs[*path] != **documents)
        .map(|(path, documents)| {
            format!("{path}\nours: {documents:#?}\ntheirs: {:#?}", theirs[path])
        })
        .collect();
    println!(
        "{} files are those of the scripts",
        ours.len() - wrong.len()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// The real sops opens the kubeconfigs that `--sops` writes, for each of two recipients, and finds
/// a change of a value that is not encrypted.
#[test]
fn encrypted_kubeconfigs_open_with_sops() {
    let home = tempfile::tempdir().expect("a home");
    let dir = home.path().join("fleet");
    fs::create_dir(&dir).expect("a directory");
    let conf = home.path().join("edge.conf");
    fs::write(&conf, KUBECONFIG).expect("write");
    let key = tools::tests().join("fleet/age.agekey");
    let key = fs::read_to_string(key).expect("the key of the tests");
    let recipient = key.split_whitespace().find(|word| word.starts_with("age1"));
    let recipient = recipient.expect("a recipient");
    let other = "age1lzd99uklcjnc0e7d860axevet2cz99ce9pq6tzuzd05l5nr28ams36nvun";
    let remote = format!(
        "env add-remote america south --kubeconfig {} --sops {other} --sops {recipient}",
        conf.display()
    );
    for line in [
        "env init dev --repo https://github.com/acme/fleet",
        "env add-cluster america",
        "tenant add shop --repo https://github.com/acme/shop --branch dev",
        &remote,
    ] {
        let args: Vec<&str> = line
            .split(' ')
            .chain(["--dir", dir.to_str().expect("UTF-8")])
            .collect();
        run_in(home.path(), &args, &[]).ok();
    }
    let decrypt = |file: &Path| {
        let mut sops = Command::new(tools::SOPS.path());
        sops.env_clear()
            .env("HOME", home.path())
            .env("SOPS_AGE_KEY", &key)
            .args(["decrypt", "--output-type", "json"])
            .arg(file);
        sops.output().expect("run sops")
    };
    let directory = dir.join("clusters/america/south/kubeconfigs");
    for namespace in ["dev-flux-system", "dev-shop"] {
        let file = directory.join(format!("{namespace}.yaml"));
        let text = fs::read_to_string(&file).expect("a file");
        assert!(!text.contains("a-token"), "{text}");
        let done = decrypt(&file);
        let stderr = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{stderr}");
        let secret: Value = serde_json::from_slice(&done.stdout).expect("JSON");
        assert_eq!(secret["stringData"]["value"], KUBECONFIG);
        assert_eq!(secret["metadata"]["namespace"], namespace);
        let moved = home.path().join("moved.yaml");
        fs::write(&moved, text.replace(namespace, "elsewhere")).expect("write");
        let done = decrypt(&moved);
        let stderr = String::from_utf8_lossy(&done.stderr);
        assert!(stderr.contains("MAC mismatch"), "{stderr}");
    }
}
