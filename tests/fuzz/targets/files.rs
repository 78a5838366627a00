//! Several files as one input, and the files of the corpora.

use driftless_manifest::{EntryKind, FileTree, TreePath};
use std::path::Path;

/// The start of a line that names the next file. The file before the first such line is
/// `kustomization.yaml`.
const MARK: &str = "%% ";

/// Returns the files of one input, without those whose names are not valid in a tree.
pub fn tree(data: &[u8]) -> FileTree {
    let mut tree = FileTree::new();
    for (path, file) in split(data) {
        add(&mut tree, &path, file);
    }
    tree
}

/// Returns the files of one input with their names.
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

/// Adds a file to the tree if it is valid there.
pub fn add(tree: &mut FileTree, path: &str, bytes: Vec<u8>) {
    if let Ok(path) = TreePath::new(path) {
        // This fails for a file in place of a directory: an odd but allowed input.
        let _ = tree.insert(path, EntryKind::File, bytes);
    }
}

/// Joins files to one input.
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

/// Returns the files below a directory, with their relative paths, in order.
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
