//! Every directory with a kustomization in real fleet repositories and in the sample fleet renders
//! to the bytes of `kustomize build`.

use driftless_harness::skip::has_material;
use driftless_harness::{files, tools};
use driftless_kustomize::{Build, ErrorKind, FILE_NAMES, documents_to_yaml};
use driftless_manifest::{EntryKind, FileTree, Reader, TreePath};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The numbers of results for the directories of one repository.
#[derive(Default)]
struct Count {
    same: usize,
    both_refuse: usize,
    remote: usize,
}

#[test]
fn renders_the_sample_fleet_as_kustomize_does() {
    let fleet = tools::workspace().join("tests/fleet");
    let count = check_all(&files::directories(&fleet));
    assert!(count.same > 3, "the sample fleet has kustomizations");
}

#[test]
fn renders_real_fleets_as_kustomize_does() {
    let fleets = tools::workspace().join("../shared/fleets");
    if !has_material(&fleets) {
        return;
    }
    let repositories = files::directories(&fleets);
    let branches = repositories.iter().map(|one| files::directories(one));
    let roots: Vec<PathBuf> = branches.flatten().collect();
    let count = check_all(&roots);
    assert!(count.same > 0, "the fleets have kustomizations");
}

fn check_all(roots: &[PathBuf]) -> Count {
    let mut total = Count::default();
    for root in roots {
        let count = check(root);
        let Count {
            same,
            both_refuse,
            remote,
        } = count;
        println!(
            "{}: {same} the same, {both_refuse} refused by both, {remote} with remote parts",
            root.display()
        );
        total.same += same;
        total.both_refuse += both_refuse;
        total.remote += remote;
    }
    total
}

fn check(root: &Path) -> Count {
    let (tree, dirs) = read(root);
    let mut count = Count::default();
    for dir in dirs {
        let ours = Build::new(&Reader::new(&tree), &dir).documents();
        if ours
            .as_ref()
            .is_err_and(|error| matches!(error.kind, ErrorKind::Remote { .. }))
        {
            // The real tool would access the network.
            count.remote += 1;
            continue;
        }
        let mut tool = Command::new(tools::KUSTOMIZE.path());
        let theirs = tool
            .arg("build")
            .arg(dir.as_str())
            .current_dir(root)
            .output()
            .expect("run kustomize");
        match (ours, theirs.status.success()) {
            (Ok(documents), true) => {
                let want = String::from_utf8(theirs.stdout).expect("kustomize writes UTF-8");
                assert_eq!(
                    documents_to_yaml(&documents),
                    want,
                    "{dir} in {}",
                    root.display()
                );
                count.same += 1;
            }
            (Err(_), false) => count.both_refuse += 1,
            (Ok(_), false) => panic!(
                "only kustomize refuses {dir} in {}: {}",
                root.display(),
                String::from_utf8_lossy(&theirs.stderr)
            ),
            (Err(error), true) => panic!(
                "only the engine refuses {dir} in {}: {error}",
                root.display()
            ),
        }
    }
    count
}

/// Reads a directory into a tree, and collects the directories with a kustomization.
fn read(root: &Path) -> (FileTree, BTreeSet<TreePath>) {
    let (mut tree, mut dirs) = (FileTree::new(), BTreeSet::new());
    for (path, file) in files::below(root) {
        let (directory, name) = path.rsplit_once('/').unwrap_or((".", &path));
        if FILE_NAMES.contains(&name) {
            dirs.insert(TreePath::new(directory).expect("a path of the fleet"));
        }
        let content = std::fs::read(file).expect("read a file");
        let place = TreePath::new(&path).expect("a path of the fleet");
        tree.insert(place, EntryKind::File, content)
            .expect("a file of the fleet");
    }
    (tree, dirs)
}
