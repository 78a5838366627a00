//! Tests that are skipped because the machine lacks something. In CI (the variable `CI` is set) only listed ones may be.

use std::path::Path;

/// What CI may skip: the beginning of the reason.
const LISTED: [&str; 1] = [
    // Not a test but the way to record answers.
    "DRIFTLESS_HELM_RECORD is not set",
];

/// Prints that the calling test is skipped, and why.
///
/// # Panics
///
/// In CI, unless the reason is listed: a test that never runs there would prove nothing.
pub fn skip(reason: &str) {
    println!("skipped: {reason}");
    let is_listed = LISTED.iter().any(|listed| reason.starts_with(listed));
    let is_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
    assert!(is_listed || !is_ci, "CI must not skip a test: {reason}");
}

/// Whether a directory of `../shared`, material beside the repository, is there. Prints that the calling test is skipped
/// where it is not.
///
/// # Panics
///
/// In CI where `../shared` is there and the directory is not. A CI without any of the material skips.
pub fn has_material(directory: &Path) -> bool {
    if directory.is_dir() {
        return true;
    }
    let root = directory.ancestors().find(|path| path.ends_with("shared"));
    match root {
        Some(root) if !root.is_dir() => println!("skipped: {} is absent", root.display()),
        _ => skip(&format!("{} is absent", directory.display())),
    }
    false
}
