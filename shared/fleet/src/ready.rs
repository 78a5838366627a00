//! The parts of an object's status that commands print.

use driftless_core::flux::{Conditions, FluxKind, HelmRepository};
use driftless_manifest::Object;
use regex::Regex;
use std::sync::LazyLock;

/// Returns `status` and `message` of the condition `Ready`, as `flux get` prints them.
pub fn ready(object: &Object) -> (String, String) {
    if is_static(object) {
        return ("True".to_owned(), "Helm repository is Ready".to_owned());
    }
    match Conditions::of(object).ready() {
        Some(ready) => (ready.status.as_str().to_owned(), ready.message.clone()),
        None => ("False".to_owned(), "waiting to be reconciled".to_owned()),
    }
}

/// Returns whether the object is never reconciled and has no status: a HelmRepository that is a
/// registry.
pub fn is_static(object: &Object) -> bool {
    FluxKind::of(&object.gvk()) == Some(FluxKind::HelmRepository)
        && HelmRepository::is_static(object)
}

/// Returns whether the object is suspended.
pub fn suspended(object: &Object) -> bool {
    driftless_core::flux::is_suspended(object)
}

/// Returns the revision in the status, from the field of the kind; empty if there is none yet.
pub fn revision(object: &Object) -> String {
    let fields: &[&str] = match FluxKind::of(&object.gvk()) {
        Some(FluxKind::Kustomization) => &["/status/lastAppliedRevision"],
        Some(FluxKind::HelmRelease) => &[
            "/status/history/0/chartVersion",
            "/status/lastAttemptedRevision",
        ],
        _ => &["/status/artifact/revision"],
    };
    fields
        .iter()
        .find_map(|field| text(object, field))
        .unwrap_or_default()
}

/// Returns a string of the object; `None` if it is missing or empty.
pub fn text(object: &Object, pointer: &str) -> Option<String> {
    object
        .pointer(pointer)?
        .as_str()
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
}

/// Shortens every hash of 40 to 128 digits in a string to 8, as Flux's command line does.
pub fn shorten(text: &str) -> String {
    static HASH: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"\b[a-f0-9]{40,128}\b").ok());
    match HASH.as_ref() {
        Some(hash) => hash
            .replace_all(text, |found: &regex::Captures<'_>| found[0][..8].to_owned())
            .into_owned(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_shortened() {
        let sha = "6f2c1a9e0b3d4c5f6a7b8c9d0e1f2a3b4c5d6e7f";
        assert_eq!(shorten(&format!("main@sha1:{sha}")), "main@sha1:6f2c1a9e");
        assert_eq!(
            shorten(&format!("stored {sha} and sha256:{sha}{}", &sha[..24])),
            "stored 6f2c1a9e and sha256:6f2c1a9e"
        );
        assert_eq!(shorten("6f2c1a9e0b"), "6f2c1a9e0b");
    }
}
