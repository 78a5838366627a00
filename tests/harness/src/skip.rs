//! Skips tests if the machine lacks something. In CI (the variable `CI` is set) only listed reasons
//! are allowed.

use std::path::Path;

/// The beginnings of the reasons that are allowed in CI.
const LISTED: [&str; 2] = [
    // Not a test: it records the answers of real Helm.
    "DRIFTLESS_HELM_RECORD is not set",
    // The shared material has the YAML of that repository; its scripts are optional.
    "the scripts of multicluster-gitops are not in ",
];

/// Prints that the calling test is skipped, with the reason.
///
/// # Panics
///
/// Panics in CI unless the reason is listed: a test that never runs there would prove nothing.
pub fn skip(reason: &str) {
    println!("skipped: {reason}");
    let is_listed = LISTED.iter().any(|listed| reason.starts_with(listed));
    let is_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
    assert!(is_listed || !is_ci, "CI must not skip a test: {reason}");
}

/// Checks whether a directory of `../shared` (material next to the repository) exists. If not,
/// prints that the calling test is skipped.
///
/// # Panics
///
/// Panics in CI if `../shared` exists and the directory does not. Without `../shared`, CI also
/// skips.
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
