//! Takes over the fields of other tools, as kustomize-controller does before it applies.

use super::annotations::Policy;
use super::fieldset::FieldSet;
use driftless_manifest::{Object, pointer};
use serde_json::{Value, json};

/// Managers whose fields become ours, by the prefix of their name and their operation. Fields that
/// `kubectl apply` once set could otherwise never be removed.
const TAKEN_OVER: [(&str, &str); 3] = [
    ("kubectl", "Apply"),
    ("kubectl", "Update"),
    ("before-first-apply", "Update"),
];

/// Annotations of other tools that are removed.
const ANNOTATIONS: [&str; 3] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "kustomize.toolkit.fluxcd.io/checksum",
    "fluxcd.io/sync-checksum",
];
/// Labels of other tools that are removed.
const LABELS: [&str; 1] = ["fluxcd.io/sync-gc-mark"];

/// The fields that some managers own.
pub(super) struct FieldOwners(Vec<FieldSet>);

impl FieldOwners {
    /// Returns the fields that other managers than `manager` have applied. Entries of subresources
    /// and those that cannot be read are left out, as in fluxcd/pkg ssa.
    pub(super) fn others_by_apply(live: &Object, manager: &str) -> Self {
        let entries = live.pointer("/metadata/managedFields");
        let entries = entries.and_then(Value::as_array).into_iter().flatten();
        let others = entries.filter(|entry| {
            let has_subresource = entry.get("subresource").is_some_and(|one| one != "");
            entry["operation"] == "Apply" && entry["manager"] != manager && !has_subresource
        });
        let sets = others.filter_map(|entry| FieldSet::parse(entry.get("fieldsV1")?).ok());
        Self(sets.collect())
    }

    /// Checks whether one of the managers owns the field of a JSON pointer into the live object.
    pub(super) fn own(&self, pointer: &str, live: &Object) -> bool {
        self.0.iter().any(|set| set.has(pointer, live))
    }
}

/// Returns the JSON patch that removes other tools' marks from a live object and makes their fields
/// ours; `None` if the object has no such marks and fields, if the live object has `ssa: Merge`, or
/// if its `managedFields` cannot be read.
///
/// Fields of the managers `kubectl*` and `before-first-apply*`, and updates of `manager` itself
/// from before server-side apply, are united with the fields that `manager` applied (fluxcd/pkg ssa
/// `PatchReplaceFieldsManagers`). Entries for subresources stay.
pub fn managed_fields_patch(live: &Object, manager: &str) -> Option<Value> {
    if !Policy::default().takes_over(live) {
        return None;
    }
    let mut operations = Vec::new();
    for (field, keys) in [
        ("annotations", ANNOTATIONS.as_slice()),
        ("labels", LABELS.as_slice()),
    ] {
        let map = live.meta_map(field);
        for key in keys
            .iter()
            .filter(|key| map.is_some_and(|map| map.contains_key(**key)))
        {
            let path = format!("/metadata/{field}/{}", pointer::escape(key));
            operations.push(json!({"op": "remove", "path": path}));
        }
    }
    if let Some(entries) = replace_entries(live, manager, &|entry| is_taken_over(entry, manager)) {
        operations
            .push(json!({"op": "replace", "path": "/metadata/managedFields", "value": entries}));
    }
    (!operations.is_empty()).then_some(Value::Array(operations))
}

/// Returns the JSON patch that makes the fields ours which Helm sent without server-side apply:
/// updates of `helm` and of `manager` itself. `None` if the object has no such fields.
pub fn helm_fields_patch(live: &Object, manager: &str) -> Option<Value> {
    let is_helms = |entry: &Value| {
        text(entry, "subresource").is_empty()
            && text(entry, "operation") == "Update"
            && [manager, "helm"].contains(&text(entry, "manager"))
    };
    let entries = replace_entries(live, manager, &is_helms)?;
    Some(json!([{"op": "replace", "path": "/metadata/managedFields", "value": entries}]))
}

/// Returns the new `managedFields` if they change.
fn replace_entries(
    live: &Object,
    manager: &str,
    is_taken_over: &dyn Fn(&Value) -> bool,
) -> Option<Vec<Value>> {
    let entries = live.pointer("/metadata/managedFields")?.as_array()?;
    let ours = entries.iter().rposition(|entry| {
        text(entry, "manager") == manager && text(entry, "operation") == "Apply"
    });
    let mut own = ours.map(|at| entries[at].clone());
    let mut rest = Vec::new();
    let mut edited = false;
    for (at, entry) in entries.iter().enumerate() {
        if Some(at) == ours {
            continue;
        }
        if !is_taken_over(entry) {
            rest.push(entry.clone());
            continue;
        }
        edited = true;
        own = Some(match own {
            Some(own) => unite_entries(own, entry)?,
            None => rename_entry(entry, manager)?,
        });
    }
    if !edited {
        return None;
    }
    rest.extend(own);
    Some(rest)
}

fn is_taken_over(entry: &Value, manager: &str) -> bool {
    let (name, operation) = (text(entry, "manager"), text(entry, "operation"));
    let listed = TAKEN_OVER
        .iter()
        .any(|(start, of)| name.starts_with(start) && operation == *of);
    text(entry, "subresource").is_empty()
        && (listed || (name.starts_with(manager) && operation == "Update"))
}

fn text<'e>(entry: &'e Value, field: &str) -> &'e str {
    entry.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn rename_entry(entry: &Value, manager: &str) -> Option<Value> {
    let mut entry = entry.as_object()?.clone();
    entry.insert("manager".to_owned(), manager.into());
    entry.insert("operation".to_owned(), "Apply".into());
    Some(Value::Object(entry))
}

fn unite_entries(own: Value, other: &Value) -> Option<Value> {
    let mut own = own.as_object()?.clone();
    let fields = match (own.get("fieldsV1"), other.get("fieldsV1")) {
        (Some(mine), Some(theirs)) => {
            let mut all = FieldSet::parse(mine).ok()?;
            all.unite(&FieldSet::parse(theirs).ok()?);
            all.to_value()
        }
        (None, Some(one)) | (Some(one), None) => one.clone(),
        (None, None) => return Some(Value::Object(own)),
    };
    own.insert("fieldsV1".to_owned(), fields);
    Some(Value::Object(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(entries: Value, annotations: Value) -> Object {
        Object::new(json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "c", "managedFields": entries, "annotations": annotations}}))
        .unwrap()
    }

    fn entry(manager: &str, operation: &str, fields: Value) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsV1": fields})
    }

    #[test]
    fn kubectls_fields_become_ours() {
        let ours = entry(
            "kustomize-controller",
            "Apply",
            json!({"f:data": {"f:a": {}}}),
        );
        let kubectl = entry(
            "kubectl-client-side-apply",
            "Update",
            json!({"f:data": {".": {}, "f:b": {}}}),
        );
        let other = entry("helm", "Apply", json!({"f:data": {"f:c": {}}}));
        let mut status = entry("kubectl", "Update", json!({"f:status": {}}));
        status["subresource"] = "status".into();
        let all = json!([kubectl, ours, other, status]);
        let patch = managed_fields_patch(&live(all, json!({})), "kustomize-controller").unwrap();
        let united = entry(
            "kustomize-controller",
            "Apply",
            json!({"f:data": {".": {}, "f:a": {}, "f:b": {}}}),
        );
        assert_eq!(
            patch,
            json!([{"op": "replace", "path": "/metadata/managedFields", "value": [other, status, united]}])
        );
    }

    #[test]
    fn the_first_is_renamed_when_we_own_nothing_yet() {
        let first = entry(
            "before-first-apply",
            "Update",
            json!({"f:data": {"f:a": {}}}),
        );
        let old = entry(
            "kustomize-controller",
            "Update",
            json!({"f:data": {"f:b": {}}}),
        );
        let patch = managed_fields_patch(
            &live(json!([first, old]), json!({})),
            "kustomize-controller",
        )
        .unwrap();
        let united = entry(
            "kustomize-controller",
            "Apply",
            json!({"f:data": {"f:a": {}, "f:b": {}}}),
        );
        assert_eq!(
            patch,
            json!([{"op": "replace", "path": "/metadata/managedFields", "value": [united]}])
        );
    }

    #[test]
    fn marks_go_and_merge_keeps_all() {
        let mark = "kubectl.kubernetes.io/last-applied-configuration";
        let ours = entry("kustomize-controller", "Apply", json!({}));
        let patch = managed_fields_patch(
            &live(json!([ours]), json!({mark: "{}"})),
            "kustomize-controller",
        );
        let path = "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration";
        assert_eq!(patch, Some(json!([{"op": "remove", "path": path}])));
        let merge = json!({mark: "{}", "kustomize.toolkit.fluxcd.io/ssa": "merge"});
        assert_eq!(
            managed_fields_patch(&live(json!([ours]), merge), "kustomize-controller"),
            None
        );
        assert_eq!(
            managed_fields_patch(&live(json!([ours]), json!({})), "kustomize-controller"),
            None
        );
    }
}
