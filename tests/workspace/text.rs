//! Reads the files of the workspace.

use driftless_harness::tools;

/// Returns the content of a file, whose path begins at the root of the workspace.
pub fn read(path: &str) -> String {
    let text = std::fs::read_to_string(tools::workspace().join(path));
    text.unwrap_or_else(|error| panic!("read {path}: {error}"))
}
