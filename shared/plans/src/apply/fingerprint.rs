//! A fingerprint of our fields of a live object in a few bytes: enough for the sweep to see that
//! another client changed them.

use driftless_manifest::Object;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The state of an object after its apply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AppliedState {
    /// The API version that it was applied in, such as `v1`.
    pub version: String,
    /// The [`fingerprint`]; empty if the object did not exist.
    pub fields: String,
    /// True for a Job with `ttlSecondsAfterFinished`, which may be gone because it is finished.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub expires: bool,
}

impl AppliedState {
    /// Records the state of `live`, to which `object` was applied.
    pub fn new(object: &Object, live: Option<&Object>, manager: &str) -> Self {
        Self {
            version: object.gvk().version,
            fields: live
                .map(|live| fingerprint(live, manager))
                .unwrap_or_default(),
            expires: expires(object),
        }
    }

    /// Checks whether the object has changed since; `now` is the fingerprint of the live object,
    /// `None` if it does not exist.
    pub fn is_changed(&self, now: Option<&str>) -> bool {
        match now {
            Some(now) => now != self.fields,
            None => !self.fields.is_empty() && !self.expires,
        }
    }
}

/// Checks whether Kubernetes deletes an object when it is finished.
pub fn expires(object: &Object) -> bool {
    (object.group(), object.kind()) == ("batch", "Job")
        && object.pointer("/spec/ttlSecondsAfterFinished").is_some()
}

/// Returns a digest of the fields of a live object that a field manager owns. When another client
/// changes the value of such a field, the API server removes the field from the manager's entry, so
/// the digest changes; the fields of other managers are not part of it.
pub fn fingerprint(live: &Object, manager: &str) -> String {
    let entries = live.pointer("/metadata/managedFields");
    let entries = entries.and_then(Value::as_array).into_iter().flatten();
    let ours = entries
        .filter(|entry| entry["manager"] == manager && entry.get("subresource").is_none())
        .filter_map(|entry| entry.get("fieldsV1"));
    let fields: String = ours.map(Value::to_string).collect();
    hex::encode(&Sha256::digest(fields)[..8])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn live(entries: Value) -> Object {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "managedFields": entries}});
        Object::new(object).unwrap()
    }

    #[test]
    fn fields_of_other_managers_do_not_count() {
        let own =
            json!({"manager": "us", "operation": "Apply", "fieldsV1": {"f:data": {"f:a": {}}}});
        let others =
            json!({"manager": "them", "operation": "Update", "fieldsV1": {"f:data": {"f:b": {}}}});
        let status = json!({"manager": "us", "operation": "Update", "subresource": "status", "fieldsV1": {}});
        let patched =
            json!({"manager": "us", "operation": "Update", "fieldsV1": {"f:data": {"f:c": {}}}});
        let alone = fingerprint(&live(json!([own])), "us");
        assert_eq!(
            fingerprint(&live(json!([own, others, status])), "us"),
            alone
        );
        assert_ne!(fingerprint(&live(json!([own, patched])), "us"), alone);
        assert_ne!(fingerprint(&live(json!([own])), "them"), alone);
    }

    #[test]
    fn a_missing_object_may_stay_missing() {
        let there = live(json!([]));
        let gone = AppliedState::new(&there, None, "us");
        assert!(!gone.is_changed(None) && gone.is_changed(Some("x")));
        let left = AppliedState::new(&there, Some(&there), "us");
        assert!(left.is_changed(None) && !left.is_changed(Some(&fingerprint(&there, "us"))));
        let mut job = left;
        job.expires = true;
        assert!(!job.is_changed(None) && job.is_changed(Some("x")));
    }
}
