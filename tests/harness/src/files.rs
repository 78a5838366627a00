//! Lists the files of test data.

use std::path::{Path, PathBuf};

/// Returns the files below a directory, each with its path from there, in the order of these.
pub fn below(directory: &Path) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        for path in entries(&next) {
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let name = path.strip_prefix(directory).expect("below the directory");
            found.push((name.to_str().expect("a name in UTF-8").to_owned(), path));
        }
    }
    found.sort();
    found
}

/// Returns the directories in a directory, in the order of their names.
pub fn directories(directory: &Path) -> Vec<PathBuf> {
    let mut found = entries(directory);
    found.retain(|path| path.is_dir());
    found.sort();
    found
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory)
        .unwrap_or_else(|error| panic!("list {}: {error}", directory.display()));
    entries
        .map(|entry| entry.expect("an entry").path())
        .collect()
}
