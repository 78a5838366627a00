//! The printed differences.

use crate::term;
use driftless_manifest::{Object, ObjectId, yaml};
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
/// The values of a Secret in place of the real ones.
const SAME: &str = "*****";
const BEFORE: &str = "***** (before)";
const AFTER: &str = "***** (after)";

/// Returns the line of an object.
pub fn line(id: &ObjectId, what: &str, colour: Option<&str>) -> String {
    let text = format!("► {} {what}", term::plain(&id.to_string()));
    let colour = colour.filter(|_| term::colours_on_stdout());
    term::painted(colour, &text) + "\n"
}

/// Returns the changed lines of an object as YAML, with the lines around them.
pub fn changes(live: &Object, applied: &Object) -> String {
    let (mut before, mut after) = (bare(live), bare(applied));
    if live.kind() == "Secret" {
        for field in ["data", "stringData"] {
            mask(&mut before, &mut after, field);
        }
    }
    let before = yaml::to_string(&Value::Object(before));
    let after = yaml::to_string(&Value::Object(after));
    let diff = TextDiff::from_lines(before.as_str(), after.as_str());
    let text = diff.unified_diff().context_radius(3).to_string();
    let text = term::plain(&text);
    let is_coloured = term::colours_on_stdout();
    let paint = |line: &str| {
        let colour = match line.chars().next() {
            Some('+') => Some("32"),
            Some('-') => Some("31"),
            Some('@') => Some("36"),
            _ => None,
        };
        term::painted(colour.filter(|_| is_coloured), line) + "\n"
    };
    text.lines().map(paint).collect::<String>() + "\n"
}

/// Returns the fields that a user writes.
fn bare(object: &Object) -> Map<String, Value> {
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
fn mask(before: &mut Map<String, Value>, after: &mut Map<String, Value>, field: &str) {
    let values = |of: &Map<String, Value>| {
        let values = of.get(field).and_then(Value::as_object);
        values.cloned().unwrap_or_default()
    };
    let (old, new) = (values(before), values(after));
    let masked = |of: &Map<String, Value>, other: &Map<String, Value>, mark: &str| {
        let one = |(key, value): (&String, &Value)| {
            let text = match other.get(key) {
                Some(same) if same == value => SAME,
                Some(_) => mark,
                None => SAME,
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_of_secrets_are_not_printed() {
        let secret = |data: Value| {
            let canary = "{\"data\":{\"a\":\"Y2FuYXJ5\"}}";
            let object = json!({"apiVersion": "v1", "kind": "Secret", "data": data,
                "metadata": {"name": "s", "uid": "1", "annotations": {LAST_APPLIED: canary}}});
            Object::new(object).unwrap()
        };
        let text = changes(
            &secret(json!({"a": "Y2FuYXJ5", "gone": "Y2FuYXJ5", "same": "Y2FuYXJ5"})),
            &secret(json!({"a": "Y2FuYXJ5Mg==", "new": "Y2FuYXJ5", "same": "Y2FuYXJ5"})),
        );
        for want in [
            "-  a: '***** (before)'",
            "+  a: '***** (after)'",
            "-  gone: '*****'",
            "+  new: '*****'",
            "   same: '*****'",
        ] {
            assert!(text.contains(want), "{want}: {text}");
        }
        assert!(!text.contains("Y2FuYXJ5"), "{text}");
    }
}
