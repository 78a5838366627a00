//! The parts of an object's status that commands print.

use driftless_flux::{Conditions, FluxKind, HelmRepository};
use driftless_manifest::Object;

pub use driftless_flux::short_hashes as shorten;

/// Returns `status` and `message` of the condition `Ready`, as `flux get` prints them.
pub fn ready(object: &Object) -> (String, String) {
    if HelmRepository::is_static(object) {
        return ("True".to_owned(), "Helm repository is Ready".to_owned());
    }
    match Conditions::of(object).ready() {
        Some(ready) => (ready.status.as_str().to_owned(), ready.message.clone()),
        None => ("False".to_owned(), "waiting to be reconciled".to_owned()),
    }
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
