//! The result of Helm's apply without server-side apply: computed here, because it has no dry run.

use crate::plan::diff::stated;
use driftless_kernel::context::step_fuel;
use driftless_manifest::Object;
use driftless_plans::apply::three_way::{is_known, three_way, two_way};
use serde_json::{Map, Value};

/// Returns the live object after the changes from `before` to `after`, which are the objects of two
/// releases. `None` if nothing changes, or if it needs more work than a step may do.
pub fn applied(before: &Object, after: &Object, live: &Object) -> Option<Object> {
    let [before, after] = [before, after].map(|one| Object::new(Value::Object(stated(one))).ok());
    let (before, after) = (before?, after?);
    let patch = match is_known(&after) {
        true => three_way(&before, &after, live, &step_fuel()).ok()?,
        false => two_way(&before, &after),
    };
    let mut object = live.to_value();
    merge(&mut object, &patch?);
    Object::new(object).ok()
}

/// Applies a JSON merge patch (RFC 7386).
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(fields) = target else {
        return;
    };
    for (name, change) in changes {
        match change {
            Value::Null => drop(fields.remove(name)),
            change => merge(fields.entry(name).or_insert(Value::Null), change),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn changes_of_the_release_are_merged_into_the_live_object() {
        let map = |data: Value| {
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data});
            Object::new(object).unwrap()
        };
        let (before, after) = (map(json!({"a": "1", "b": "1"})), map(json!({"a": "2"})));
        let live = map(json!({"a": "1", "b": "1", "other": "x"}));
        let result = applied(&before, &after, &live).unwrap();
        assert_eq!(
            result.pointer("/data"),
            Some(&json!({"a": "2", "other": "x"}))
        );
        assert_eq!(applied(&after, &after, &result), None);
    }
}
