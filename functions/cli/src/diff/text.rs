//! The printed differences.

use crate::term;
use driftless_fleet::plan::{bare, mask};
use driftless_manifest::{Object, ObjectId, yaml};
use serde_json::Value;
use similar::TextDiff;

/// Returns the line of an object.
pub fn line(id: &ObjectId, what: &str, colour: Option<&str>) -> String {
    let text = format!("► {} {what}", term::plain(&id.to_string()));
    let colour = colour.filter(|_| term::colours_on_stdout());
    term::painted(colour, &text) + "\n"
}

/// The annotation in which `kubectl apply` keeps the whole object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Returns the differences of an object as `flux diff kustomization` prints them. The values of
/// Secrets are masked, and what `kubectl apply` kept of a Secret is left out.
pub fn report(live: &Object, applied: &Object) -> String {
    let (mut before, mut after) = (live.as_map().clone(), applied.as_map().clone());
    let is_secret = live.kind() == "Secret";
    for fields in [&mut before, &mut after] {
        if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
            metadata.remove("managedFields");
            if let Some(Value::Object(annotations)) = metadata.get_mut("annotations")
                && is_secret
            {
                annotations.remove(LAST_APPLIED);
            }
        }
    }
    if is_secret {
        for field in ["data", "stringData"] {
            mask(&mut before, &mut after, field);
        }
    }
    let (before, after) = (Value::Object(before), Value::Object(after));
    let text = driftless_dyff::report(&before, &after, term::width_of_stdout());
    let text = term::plain(&text);
    if !term::colours_on_stdout() {
        return text.into_owned();
    }
    let paint = |line: &str| {
        let colour = match line.chars().next() {
            Some('+') => Some("32"),
            Some('-') => Some("31"),
            Some('±' | '⇆') => Some("33"),
            _ => None,
        };
        term::painted(colour, line)
    };
    let lines: Vec<String> = text.split('\n').map(paint).collect();
    lines.join("\n")
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
            "-  a: '*** (before)'",
            "+  a: '*** (after)'",
            "-  gone: '***'",
            "+  new: '***'",
            "   same: '***'",
        ] {
            assert!(text.contains(want), "{want}: {text}");
        }
        assert!(!text.contains("Y2FuYXJ5"), "{text}");
        let text = report(
            &secret(json!({"a": "Y2FuYXJ5", "gone": "Y2FuYXJ5", "same": "Y2FuYXJ5"})),
            &secret(json!({"a": "Y2FuYXJ5Mg==", "new": "Y2FuYXJ5", "same": "Y2FuYXJ5"})),
        );
        for want in [
            "data.a\n± value change\n- *** (before)\n+ *** (after)\n",
            "- one map entry removed:   + one map entry added:\ngone: \"***\"                  new: \"***\"\n",
        ] {
            assert!(text.contains(want), "{want}: {text}");
        }
        assert!(!text.contains("Y2FuYXJ5"), "{text}");
    }
}
