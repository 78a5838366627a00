//! The patches that Helm sends without server-side apply: the live object gets the changes between
//! two manifests, and the fields that others added stay. Pure.
//!
//! Helm makes a strategic merge patch for the kinds that its client knows and a JSON merge patch
//! for all others. Here the merged object is computed locally, and the difference is sent as one
//! JSON merge patch for the `resourceVersion` that was read: the outcome is the same.
//! `managedFields` of the live object shows which lists merge by key, and which are sets.

use super::change_detection::SERVER_METADATA;
use super::fieldset::{FieldSet, Step, canonical};
use driftless_fuel::{Fuel, FuelLimits, OutOfFuel, Tank};
use driftless_manifest::{Object, value_nodes};
use serde_json::{Map, Value, json};

/// The groups whose kinds Helm 4's client knows, in addition to those without a dot.
const KNOWN_GROUPS: [&str; 15] = [
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
];

/// The ceilings of one merge.
const CEILINGS: FuelLimits = FuelLimits {
    steps: 40_000_000,
    ..FuelLimits::NONE
};

/// Checks whether Helm's client has a type for an object's kind.
pub fn is_known(object: &Object) -> bool {
    let group = object.group();
    !group.contains('.') || KNOWN_GROUPS.contains(&group)
}

/// Returns the JSON merge patch that applies the changes from `original` to `modified` to `live`,
/// and corrects the live fields that differ from `modified`. `None` if no field changes.
///
/// # Errors
/// The merge needs too much work, or more than is left of the fuel of the step.
pub fn three_way(
    original: &Object,
    modified: &Object,
    live: &Object,
    step: &Tank,
) -> Result<Option<Value>, OutOfFuel> {
    let fuel = step.part(CEILINGS);
    for object in [original, modified, live] {
        // Each value is copied once for each level above it: few objects have more than eight.
        let values = object.as_map().values().map(value_nodes).sum::<usize>();
        fuel.steps(values.saturating_mul(8))?;
    }
    let owned = match is_known(modified) {
        true => all_owned(live),
        false => FieldSet::default(),
    };
    let place = OwnedField {
        owned: Some(&owned),
        exact: false,
        fuel: &fuel,
    };
    let merged = place.map(
        Some(original.as_map()),
        modified.as_map(),
        Some(live.as_map()),
    )?;
    Ok(patch(live, merged))
}

/// Returns the JSON merge patch with only the changes from `original` to `modified`, which Helm
/// sends for kinds that it does not know. Changes of others stay.
pub fn two_way(original: &Object, modified: &Object) -> Option<Value> {
    let changes = difference(original.as_map(), modified.as_map());
    (!changes.is_empty()).then_some(Value::Object(changes))
}

/// Returns the JSON merge patch that makes `live` equal to `modified`, without the fields of
/// others.
pub fn replacement(modified: &Object, live: &Object) -> Option<Value> {
    patch(live, modified.as_map().clone())
}

/// Returns the difference for the version that was read, without the fields that the server sets.
fn patch(live: &Object, mut desired: Map<String, Value>) -> Option<Value> {
    if let Some(status) = live.as_map().get("status") {
        desired.insert("status".to_owned(), status.clone());
    }
    if let Some(Value::Object(metadata)) = desired.get_mut("metadata") {
        for field in SERVER_METADATA {
            match live.pointer(&format!("/metadata/{field}")) {
                Some(value) => drop(metadata.insert(field.to_owned(), value.clone())),
                None => drop(metadata.remove(field)),
            }
        }
    }
    let mut changes = difference(live.as_map(), &desired);
    if changes.is_empty() {
        return None;
    }
    let metadata = changes.entry("metadata").or_insert_with(|| json!({}));
    metadata["resourceVersion"] = json!(live.meta("resourceVersion"));
    Some(Value::Object(changes))
}

/// Returns the fields of all managers: they show how the API server merges the lists of the live
/// object.
fn all_owned(live: &Object) -> FieldSet {
    let entries = live.pointer("/metadata/managedFields");
    let entries = entries.and_then(Value::as_array).into_iter().flatten();
    let mut all = FieldSet::default();
    for set in entries.filter_map(|entry| FieldSet::parse(entry.get("fieldsV1")?).ok()) {
        all.unite(&set);
    }
    all
}

/// A field of the object with the parts that are owned.
#[derive(Clone, Copy)]
struct OwnedField<'s> {
    owned: Option<&'s FieldSet>,
    /// True if fields that are not sent are removed: Kubernetes' `retainKeys`.
    exact: bool,
    fuel: &'s Fuel,
}

impl<'s> OwnedField<'s> {
    fn field(self, parent: &Map<String, Value>, name: &str) -> Self {
        // The strategy of a Deployment, and each volume of a Pod, has only one type at a time.
        let is_strategy = name == "strategy" && parent.contains_key("template");
        Self {
            owned: self.owned.and_then(|owned| owned.field(name)),
            exact: self.owned.is_some() && (is_strategy || name == "volumes"),
            fuel: self.fuel,
        }
    }

    fn value(
        self,
        original: Option<&Value>,
        modified: &Value,
        live: Option<&Value>,
    ) -> Result<Value, OutOfFuel> {
        Ok(match (modified, live) {
            (Value::Object(modified), _) => Value::Object(self.map(
                original.and_then(Value::as_object),
                modified,
                live.and_then(Value::as_object),
            )?),
            (Value::Array(modified), Some(Value::Array(live))) => {
                let original = original.and_then(Value::as_array);
                Value::Array(self.list(original.map_or(&[], Vec::as_slice), modified, live)?)
            }
            _ => modified.clone(),
        })
    }

    fn map(
        self,
        original: Option<&Map<String, Value>>,
        modified: &Map<String, Value>,
        live: Option<&Map<String, Value>>,
    ) -> Result<Map<String, Value>, OutOfFuel> {
        let mut merged = match live {
            Some(live) if !self.exact => live.clone(),
            _ => Map::new(),
        };
        let dropped = original.into_iter().flat_map(Map::keys);
        for field in dropped.filter(|field| !modified.contains_key(*field)) {
            merged.remove(field);
        }
        for (field, value) in modified {
            let before = original.and_then(|original| original.get(field));
            let live_value = live.and_then(|live| live.get(field));
            match value {
                // Null removes a field.
                Value::Null => drop(merged.remove(field)),
                _ => {
                    let value = self
                        .field(modified, field)
                        .value(before, value, live_value)?;
                    merged.insert(field.clone(), value);
                }
            }
        }
        Ok(merged)
    }

    fn list(
        self,
        original: &[Value],
        modified: &[Value],
        live: &[Value],
    ) -> Result<Vec<Value>, OutOfFuel> {
        let steps = self.owned.into_iter().flat_map(|owned| owned.parts.keys());
        let mut steps = steps.filter(|step| matches!(step, Step::Key(_) | Step::Value(_)));
        let step = steps.next();
        if step.is_some() {
            // Each item is compared with those of the other lists.
            let others = original.len().saturating_add(live.len());
            let dropped = live.len().saturating_sub(modified.len());
            let own = modified.len().saturating_mul(others);
            let rest = dropped.saturating_mul(original.len());
            self.fuel.steps(own.saturating_add(rest))?;
        }
        match step {
            Some(Step::Key(key)) => {
                let keys: Vec<&str> = key.iter().map(|(name, _)| name.as_str()).collect();
                self.merge_keyed(&keys, original, modified, live)
            }
            Some(_) => Ok(merge_set(original, modified, live)),
            None => Ok(modified.to_vec()),
        }
    }

    /// Merges lists by key. Items with equal keys are the same; a key that is not sent has the
    /// server's default.
    fn merge_keyed(
        self,
        keys: &[&str],
        original: &[Value],
        modified: &[Value],
        live: &[Value],
    ) -> Result<Vec<Value>, OutOfFuel> {
        let is_same = |sent: &Value, other: &Value| {
            keys.iter().any(|key| sent.get(key).is_some())
                && keys.iter().all(|key| {
                    sent.get(key)
                        .is_none_or(|value| other.get(key) == Some(value))
                })
        };
        let mut is_used = vec![false; live.len()];
        let mut merged: Vec<(Option<usize>, Value)> = Vec::new();
        for item in modified {
            let at = (0..live.len()).find(|at| !is_used[*at] && is_same(item, &live[*at]));
            if let Some(at) = at {
                is_used[at] = true;
            }
            let before = original.iter().find(|one| is_same(item, one));
            let below = OwnedField {
                owned: at.and_then(|at| self.owned_item(keys, &live[at])),
                exact: self.exact,
                fuel: self.fuel,
            };
            let value = below.value(before, item, at.map(|at| &live[at]))?;
            // The API server orders a new item as if it were at the end.
            merged.push((at.or(Some(live.len())), value));
        }
        let is_dropped = |item: &Value| {
            let mut sent_before = original.iter().filter(|one| is_same(one, item));
            sent_before.any(|one| !modified.iter().any(|new| is_same(one, new)))
        };
        let others = (0..live.len()).filter(|at| !is_used[*at] && !is_dropped(&live[*at]));
        Ok(order_items(live, others.collect(), merged))
    }

    fn owned_item(self, keys: &[&str], item: &Value) -> Option<&'s FieldSet> {
        let mut key: Vec<(String, String)> = keys
            .iter()
            .filter_map(|key| Some(((*key).to_owned(), canonical(item.get(key)?))))
            .collect();
        key.sort();
        self.owned?.parts.get(&Step::Key(key))
    }
}

/// Merges a set: items that are no longer sent are removed, items that others added stay.
fn merge_set(original: &[Value], modified: &[Value], live: &[Value]) -> Vec<Value> {
    let is_theirs = |at: &usize| {
        let item = &live[*at];
        !original.contains(item) && !modified.contains(item)
    };
    let others = (0..live.len()).filter(is_theirs).collect();
    let sent = modified
        .iter()
        .map(|item| (live.iter().position(|one| one == item), item.clone()));
    order_items(live, others, sent.collect())
}

/// Orders a list as the API server does after a strategic merge: the sent items in their own order,
/// and before each of them the items of others that precede it in the live list. Sent items come
/// with their indexes in the live list.
fn order_items(
    live: &[Value],
    others: Vec<usize>,
    sent: Vec<(Option<usize>, Value)>,
) -> Vec<Value> {
    let mut others = others.into_iter().peekable();
    let mut all = Vec::new();
    for (at, item) in sent {
        while let Some(other) = others.next_if(|other| at.is_some_and(|at| *other < at)) {
            all.push(live[other].clone());
        }
        all.push(item);
    }
    all.extend(others.map(|other| live[other].clone()));
    all
}

/// Returns the JSON merge patch from one map to another.
fn difference(from: &Map<String, Value>, to: &Map<String, Value>) -> Map<String, Value> {
    let mut changes = Map::new();
    for field in from.keys().filter(|field| !to.contains_key(*field)) {
        changes.insert(field.clone(), Value::Null);
    }
    for (field, value) in to {
        match (from.get(field), value) {
            (Some(before), value) if before == value => {}
            (Some(Value::Object(before)), Value::Object(value)) => {
                let below = difference(before, value);
                if !below.is_empty() {
                    changes.insert(field.clone(), Value::Object(below));
                }
            }
            _ => drop(changes.insert(field.clone(), value.clone())),
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(kind: &str, spec: Value) -> Object {
        let version = match kind {
            "Deployment" => "apps/v1",
            _ => "acme.example/v1",
        };
        Object::new(
            json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": spec}),
        )
        .unwrap()
    }

    /// Returns the patch of a step whose fuel is not spent.
    fn merged(original: &Object, modified: &Object, live: &Object) -> Option<Value> {
        three_way(original, modified, live, &Tank::default()).unwrap()
    }

    /// Returns an object as an API server has it, with `managedFields`.
    fn live(kind: &str, spec: Value, fields: Value) -> Object {
        let mut live = object(kind, spec).into_value();
        live["metadata"]["resourceVersion"] = json!("7");
        live["metadata"]["managedFields"] =
            json!([{"manager": "m", "operation": "Update", "fieldsV1": {"f:spec": fields}}]);
        Object::new(live).unwrap()
    }

    fn spec(patch: Option<Value>) -> Value {
        let patch = patch.unwrap();
        assert_eq!(patch["metadata"], json!({"resourceVersion": "7"}));
        patch["spec"].clone()
    }

    #[test]
    fn maps_and_scalars() {
        let original = object("Deployment", json!({"a": 1, "b": 1, "c": {"x": 1, "y": 1}}));
        let modified = object("Deployment", json!({"a": 1, "c": {"x": 2}, "d": 4}));
        let theirs = json!({"a": 9, "b": 1, "c": {"x": 1, "y": 1, "z": 1}, "e": 5});
        let there = live("Deployment", theirs, json!({}));
        // Drifted fields are corrected, fields that are no longer sent are removed, and fields that
        // others added stay.
        assert_eq!(
            spec(merged(&original, &modified, &there)),
            json!({"a": 1, "b": null, "c": {"x": 2, "y": null}, "d": 4})
        );
        assert_eq!(
            two_way(&original, &modified).unwrap(),
            json!({"spec": {"b": null, "c": {"x": 2, "y": null}, "d": 4}})
        );
        assert_eq!(
            spec(replacement(&modified, &there)),
            json!({"a": 1, "b": null, "c": {"x": 2, "y": null, "z": null}, "d": 4, "e": null})
        );
        let same = json!({"a": 1, "c": {"x": 2, "w": 0}, "d": 4});
        assert_eq!(
            merged(&modified, &modified, &live("Deployment", same, json!({}))),
            None
        );
        assert_eq!(two_way(&modified, &modified), None);
    }

    #[test]
    fn lists_by_key() {
        let fields =
            json!({"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}});
        let original = object(
            "Deployment",
            json!({"ports": [{"port": 80, "x": 1}, {"port": 81}]}),
        );
        let modified = object(
            "Deployment",
            json!({"ports": [{"port": 80, "y": 2}, {"port": 80, "protocol": "UDP"}]}),
        );
        let there = json!({"ports": [
            {"port": 80, "protocol": "TCP", "x": 1, "node": 3},
            {"port": 99, "protocol": "TCP"},
            {"port": 81, "protocol": "TCP"}]});
        assert_eq!(
            spec(merged(
                &original,
                &modified,
                &live("Deployment", there.clone(), fields.clone())
            )),
            json!({"ports": [
                {"port": 80, "protocol": "TCP", "node": 3, "y": 2},
                {"port": 99, "protocol": "TCP"},
                {"port": 80, "protocol": "UDP"}]})
        );
        // Lists of a kind that the client does not know are replaced.
        assert_eq!(
            spec(merged(
                &object("Thing", json!({})),
                &object("Thing", json!({"ports": [{"port": 80}]})),
                &live("Thing", there.clone(), fields.clone())
            )),
            json!({"ports": [{"port": 80}]})
        );
        // The patch is empty if only the fields that others added differ.
        let sent = object(
            "Deployment",
            json!({"ports": [{"port": 80, "x": 1}, {"port": 81}]}),
        );
        assert_eq!(
            merged(&sent, &sent, &live("Deployment", there, fields)),
            None
        );
    }

    #[test]
    fn sets_and_whole_values() {
        let fields = json!({"f:set": {"v:\"a\"": {}}, "f:strategy": {"f:type": {}}});
        let original = object("Deployment", json!({"set": ["a", "b"], "whole": [1]}));
        let modified = object(
            "Deployment",
            json!({"set": ["b", "c"], "whole": [2], "template": {}, "strategy": {"type": "Recreate"}}),
        );
        let there = json!({"set": ["z", "a", "b"], "whole": [1, 5], "template": {},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}});
        assert_eq!(
            spec(merged(
                &original,
                &modified,
                &live("Deployment", there, fields)
            )),
            json!({"set": ["z", "b", "c"], "whole": [2],
                "strategy": {"type": "Recreate", "rollingUpdate": null}})
        );
    }
}
