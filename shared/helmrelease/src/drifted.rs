//! The objects of a release that drifted.

use driftless_kernel::target::objects::Item;
use driftless_manifest::Object;
use driftless_plans::apply::fingerprint::AppliedState;
use serde_json::Value;
use std::collections::BTreeMap;

/// An object that drifted, with its correction.
#[derive(Clone, Debug)]
pub struct DriftedObject {
    pub(super) item: Item,
    /// The JSON patch of the live object; `None` if the object is gone.
    pub(super) patch: Option<Vec<Value>>,
    /// The live object, before the correction.
    pub(super) live: Option<Object>,
}

/// The result of a drift check.
#[derive(Debug, Default)]
pub struct DriftReport {
    /// The objects that drifted.
    pub drifted: Vec<DriftedObject>,
    /// The message about the drift; `None` if there is none.
    pub summary: Option<String>,
    /// The fingerprints of all live objects of the release, by inventory id.
    pub seen: BTreeMap<String, AppliedState>,
}
