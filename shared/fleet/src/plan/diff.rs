//! The changed lines of an object, without secret values.

use super::redact::{HIDDEN, Redactor};
use driftless_manifest::{Object, yaml};
use serde_json::{Map, Value};
use similar::TextDiff;

/// The annotation of kubectl, which repeats the whole object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The fields of `metadata` that the server sets.
const OF_SERVER: [&str; 6] = [
    "creationTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];
/// The fields that the server assigns unless a manager sets them.
const ASSIGNED: [(&str, &str); 4] = [
    ("Service", "/spec/clusterIP"),
    ("Service", "/spec/clusterIPs"),
    ("Service", "/spec/healthCheckNodePort"),
    ("ServiceAccount", "/secrets"),
];
/// The values of a Secret that differ.
const BEFORE: &str = "*** (before)";
const AFTER: &str = "*** (after)";
/// The number of unchanged lines around a change.
const CONTEXT: usize = 3;

/// Returns the fields that a user writes.
pub fn bare(object: &Object) -> Map<String, Value> {
    let mut fields = object.as_map().clone();
    fields.remove("status");
    if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
        metadata.retain(|field, _| !OF_SERVER.contains(&field.as_str()));
        if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
            annotations.remove(LAST_APPLIED);
        }
    }
    fields
}

/// Replaces the values of a field of Secrets; only whether they differ stays.
pub fn mask(before: &mut Map<String, Value>, after: &mut Map<String, Value>, field: &str) {
    let values = |of: &Map<String, Value>| {
        let values = of.get(field).and_then(Value::as_object);
        values.cloned().unwrap_or_default()
    };
    let (old, new) = (values(before), values(after));
    let masked = |of: &Map<String, Value>, other: &Map<String, Value>, mark: &str| {
        let one = |(key, value): (&String, &Value)| {
            let text = match other.get(key) {
                Some(same) if same == value => HIDDEN,
                Some(_) => mark,
                None => HIDDEN,
            };
            (key.clone(), Value::from(text))
        };
        of.iter().map(one).collect::<Map<String, Value>>()
    };
    if before.contains_key(field) {
        before.insert(field.to_owned(), masked(&old, &new, BEFORE).into());
    }
    if after.contains_key(field) {
        after.insert(field.to_owned(), masked(&new, &old, AFTER).into());
    }
}

/// Returns the fields of an object that its manifest decides, also after the API server completed
/// it.
pub fn stated(object: &Object) -> Map<String, Value> {
    let mut fields = Value::Object(bare(object));
    let managed = object.pointer("/metadata/managedFields");
    let managed = managed.map(Value::to_string).unwrap_or_default();
    for (kind, pointer) in ASSIGNED {
        let (above, field) = pointer.rsplit_once('/').unwrap_or_default();
        let is_own = managed.contains(&format!("\"f:{field}\""));
        if object.kind() == kind
            && !is_own
            && let Some(Value::Object(map)) = fields.pointer_mut(above)
        {
            map.remove(field);
        }
    }
    remove_uids(&mut fields);
    match fields {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Removes the uids of owners, which differ between two clusters.
fn remove_uids(object: &mut Value) {
    let owners = object.pointer_mut("/metadata/ownerReferences");
    for owner in owners.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Value::Object(owner) = owner {
            owner.remove("uid");
        }
    }
}

/// Returns the changed lines of an object. A missing side is an object that is created or deleted.
/// The result is empty if only values differ that are hidden in the same way.
pub fn changes(
    before: Option<&Map<String, Value>>,
    after: Option<&Map<String, Value>>,
    redactor: &Redactor,
) -> String {
    let mut sides = [before, after].map(|side| side.cloned().unwrap_or_default());
    let [old, new] = &mut sides;
    let kind = |side: &Map<String, Value>| side.get("kind").cloned();
    let secret = Some(Value::from("Secret"));
    if kind(old) == secret || kind(new) == secret {
        for field in ["data", "stringData"] {
            mask(old, new, field);
        }
    }
    let [old, new] = sides.map(Value::Object);
    let (old, new) = hidden(old, new, redactor);
    let text = |value: &Value| match value.as_object().is_some_and(Map::is_empty) {
        true => String::new(),
        false => yaml::to_string(value),
    };
    let (old, new) = (text(&old), text(&new));
    let diff = TextDiff::from_lines(old.as_str(), new.as_str());
    let text = diff.unified_diff().context_radius(CONTEXT).to_string();
    // The document was redacted value by value; this also covers what YAML joins.
    redactor.text(&text)
}

/// Hides the secret values of both sides, and marks those that differ.
fn hidden(old: Value, new: Value, redactor: &Redactor) -> (Value, Value) {
    match (old, new) {
        (Value::Object(old), Value::Object(mut new)) => {
            let (mut before, mut after) = (Map::new(), Map::new());
            for (key, old) in old {
                let shown = redactor.text(&key);
                match new.remove(&key) {
                    Some(new) => {
                        let (old, new) = hidden(old, new, redactor);
                        before.insert(shown.clone(), old);
                        after.insert(shown, new);
                    }
                    None => {
                        before.insert(shown, of_one_side(old, redactor));
                    }
                }
            }
            for (key, new) in new {
                after.insert(redactor.text(&key), of_one_side(new, redactor));
            }
            (before.into(), after.into())
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            let pairs = old.into_iter().zip(new);
            let (old, new): (Vec<_>, Vec<_>) =
                pairs.map(|(old, new)| hidden(old, new, redactor)).unzip();
            (old.into(), new.into())
        }
        (old, new) => {
            let differ = old != new;
            let (mut old, mut new) = (of_one_side(old, redactor), of_one_side(new, redactor));
            if let (true, Value::String(before), Value::String(after)) =
                (differ && old == new, &mut old, &mut new)
            {
                before.push_str(" (before)");
                after.push_str(" (after)");
            }
            (old, new)
        }
    }
}

fn of_one_side(mut value: Value, redactor: &Redactor) -> Value {
    redactor.value(&mut value);
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn diff(before: Value, after: Value, secrets: &[&str]) -> String {
        let (before, after) = (before.as_object().cloned(), after.as_object().cloned());
        changes(before.as_ref(), after.as_ref(), &Redactor::of(secrets))
    }

    #[test]
    fn a_secret_shows_which_entries_change() {
        let secret = |data: Value| json!({"kind": "Secret", "data": data});
        let text = diff(
            secret(json!({"a": "b2xkLXZhbHVl", "same": "c2FtZQ=="})),
            secret(json!({"a": "bmV3LXZhbHVl", "same": "c2FtZQ=="})),
            &[],
        );
        assert!(text.contains("-  a: '*** (before)'"), "{text}");
        assert!(text.contains("+  a: '*** (after)'"), "{text}");
        assert!(
            !text.contains("VmFsdWU") && !text.contains("dmFsdW"),
            "{text}"
        );
    }

    #[test]
    fn a_decrypted_value_in_another_object_is_hidden() {
        let map = |url: &str| json!({"kind": "ConfigMap", "data": {"url": url, "x": "y"}});
        let text = diff(
            map("db://u:old-pass@h"),
            map("db://u:new-pass@h"),
            &["old-pass", "new-pass"],
        );
        assert!(text.contains("-  url: db://u:***@h (before)"), "{text}");
        assert!(text.contains("+  url: db://u:***@h (after)"), "{text}");
        assert!(!text.contains("-pass"), "{text}");
    }

    #[test]
    fn a_new_object_is_printed_whole() {
        let object =
            json!({"kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "hunter22"}});
        let text = changes(None, object.as_object(), &Redactor::of(&["hunter22"]));
        assert!(
            text.contains("+kind: ConfigMap") && text.contains("+  k: '***'"),
            "{text}"
        );
    }
}
