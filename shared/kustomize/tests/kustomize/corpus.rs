//! The cases of `tests/corpus/kustomize`, whose answers kustomize v5.8.2 has written (see
//! `tests/oracle/kustomize-corpus`).

use driftless_kustomize::{Build, documents_to_yaml};
use driftless_manifest::{EntryKind, FileTree, Reader, TreePath};
use std::path::Path;

fn add(root: &Path, below: &str, tree: &mut FileTree) {
    for entry in std::fs::read_dir(root.join(below)).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{below}/{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            add(root, path.trim_start_matches('/'), tree);
        } else {
            let place = TreePath::new(path.trim_start_matches('/')).unwrap();
            tree.insert(place, EntryKind::File, std::fs::read(entry.path()).unwrap())
                .unwrap();
        }
    }
}

/// Returns a description of the failure of a case, if it fails.
fn check(case: &Path) -> Option<String> {
    let mut tree = FileTree::new();
    add(&case.join("in"), "", &mut tree);
    let overlay = TreePath::new("overlay").unwrap();
    let dir = if tree.index().is_dir(&overlay) {
        overlay
    } else {
        TreePath::root()
    };
    let got = Build::new(&Reader::new(&tree), &dir).documents();
    match (got, std::fs::read_to_string(case.join("want.yaml"))) {
        (Ok(documents), Ok(want)) => {
            let got = documents_to_yaml(&documents);
            (got != want).then(|| format!("other bytes:\n{got}"))
        }
        (Err(error), Ok(_)) => Some(format!("fails: {error}")),
        (Ok(_), Err(_)) => Some("renders, but kustomize refuses it".to_owned()),
        (Err(_), Err(_)) => {
            (!case.join("want-error").exists()).then(|| "no want.yaml and no want-error".to_owned())
        }
    }
}

#[test]
fn renders_what_kustomize_renders() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/kustomize");
    let mut names: Vec<_> = std::fs::read_dir(cases)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    names.sort();
    let bad: Vec<String> = names
        .iter()
        .filter_map(|case| {
            check(case).map(|why| format!("{}: {why}", case.file_name().unwrap().to_string_lossy()))
        })
        .collect();
    println!("{} / {} matched", names.len() - bad.len(), names.len());
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
