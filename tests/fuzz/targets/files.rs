//! Several files as one input, and the files of the corpora.

use driftless_manifest::{EntryKind, FileTree, TreePath};
use std::path::Path;

/// Begins the line that names the next file. The file before the first such line is `kustomization.yaml`.
const MARK: &str = "%% ";

/// The files of one input. Names that no tree takes are left out.
pub fn tree(data: &[u8]) -> FileTree {
    let mut tree = FileTree::new();
    for (path, file) in split(data) {
        add(&mut tree, &path, file);
    }
    tree
}

/// The files of one input, by name.
pub fn split(data: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut files = vec![("kustomization.yaml".to_owned(), Vec::new())];
    for line in data.split_inclusive(|byte| *byte == b'\n') {
        match (line.strip_prefix(MARK.as_bytes()), files.last_mut()) {
            (None, Some((_, file))) => file.extend_from_slice(line),
            (name, _) => {
                let name = String::from_utf8_lossy(name.unwrap_or_default());
                files.push((name.trim_end().to_owned(), Vec::new()));
            }
        }
    }
    files
}

/// Adds a file where the tree takes it.
pub fn add(tree: &mut FileTree, path: &str, bytes: Vec<u8>) {
    if let Ok(path) = TreePath::new(path) {
        // A file in the place of a directory: the input is only odd.
        let _ = tree.insert(path, EntryKind::File, bytes);
    }
}

/// Files as one input.
pub fn input(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut input = Vec::new();
    for (path, bytes) in files {
        input.extend_from_slice(format!("{MARK}{path}\n").as_bytes());
        input.extend_from_slice(bytes);
        if !bytes.ends_with(b"\n") {
            input.push(b'\n');
        }
    }
    input
}

/// The files below a directory, with their paths from there, in order.
pub fn below(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    gather(directory, "", &mut files);
    files.sort();
    files
}

fn gather(root: &Path, below: &str, files: &mut Vec<(String, Vec<u8>)>) {
    let directory = root.join(below);
    let entries = std::fs::read_dir(&directory)
        .unwrap_or_else(|error| panic!("list {}: {error}", directory.display()));
    for entry in entries {
        let entry = entry.expect("an entry of a directory");
        let name = entry.file_name().into_string().expect("a name in UTF-8");
        let path = if below.is_empty() {
            name
        } else {
            format!("{below}/{name}")
        };
        if entry.file_type().expect("the type of an entry").is_dir() {
            gather(root, &path, files);
        } else {
            let bytes = std::fs::read(entry.path()).expect("a file of the corpus");
            files.push((path, bytes));
        }
    }
}
