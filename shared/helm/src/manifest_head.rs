//! The fields that Helm reads of a rendered document, its `SimpleHead`, with the messages of
//! `sigs.k8s.io/yaml`.

use crate::compat::Compat;
use crate::convert;
use crate::yaml_read::{self, Refused};
use driftless_fuel::Fuel;
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// The head of a document.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// The `kind`; empty if missing.
    pub kind: String,
    /// The `metadata.name` of the document.
    pub name: String,
    annotations: BTreeMap<String, String>,
}

const METADATA: &str = r#"struct { Name string "json:\"name\""; Annotations map[string]string "json:\"annotations\"" }"#;

/// Parses a document; the caller drops it when its head is known.
fn read(content: &str, fuel: &Fuel) -> Result<Json, Refused> {
    let before = fuel.nodes_spent();
    let document = yaml_read::read_typed(content.as_bytes(), fuel);
    fuel.give_back(fuel.nodes_spent().saturating_sub(before), 0);
    document
}

impl Head {
    /// Reads a document; one without content has an empty head.
    ///
    /// # Errors
    /// Go's message for invalid YAML, a document that is not valid as JSON, or fields of another
    /// type.
    pub fn read(content: &str, compat: Compat, fuel: &Fuel) -> Result<Self, Refused> {
        let mut head = Self::default();
        let document = match read(content, fuel)? {
            Json::Null => return Ok(head),
            Json::Object(document) => document,
            other => {
                let package = match compat {
                    Compat::Helm3 => "releaseutil",
                    Compat::Helm4 => "util",
                };
                let wanted = format!("value of type {package}.SimpleHead");
                return Err(mismatch(&other, &wanted).into());
            }
        };
        for (key, value) in &document {
            match () {
                () if is(key, "kind") => set(&mut head.kind, value, "SimpleHead.kind")?,
                () if is(key, "apiVersion") => {
                    set(&mut String::new(), value, "SimpleHead.apiVersion")?;
                }
                () if is(key, "metadata") => head.metadata(value)?,
                () => {}
            }
        }
        Ok(head)
    }

    fn metadata(&mut self, value: &Json) -> Result<(), Refused> {
        let metadata = match value {
            Json::Null => return Ok(()),
            Json::Object(metadata) => metadata,
            other => return Err(misfit(other, "SimpleHead.metadata", METADATA).into()),
        };
        for (key, value) in metadata {
            if is(key, "name") {
                set(&mut self.name, value, ".metadata.name")?;
            } else if is(key, "annotations") {
                self.annotations(value)?;
            }
        }
        Ok(())
    }

    fn annotations(&mut self, value: &Json) -> Result<(), Refused> {
        const FIELD: &str = ".metadata.annotations";
        let annotations = match value {
            Json::Null => return Ok(()),
            Json::Object(annotations) => annotations,
            other => return Err(misfit(other, FIELD, "map[string]string").into()),
        };
        for (key, value) in annotations {
            set(
                self.annotations.entry(key.clone()).or_default(),
                value,
                FIELD,
            )?;
        }
        Ok(())
    }

    /// Returns the value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str)
    }

    /// Returns the parts of an annotation between commas, in lower case.
    pub fn list(&self, key: &str) -> Vec<String> {
        self.annotation(key)
            .map(|v| v.split(',').map(|p| p.trim().to_lowercase()).collect())
            .unwrap_or_default()
    }
}

/// Checks whether a key names a field: `encoding/json` ignores case.
fn is(key: &str, field: &str) -> bool {
    key.eq_ignore_ascii_case(field)
}

/// Sets a string; null leaves it unchanged.
fn set(text: &mut String, value: &Json, field: &str) -> Result<(), Refused> {
    if !value.is_null() {
        *text = convert::text_of(value).ok_or_else(|| misfit(value, field, "string"))?;
    }
    Ok(())
}

fn misfit(value: &Json, field: &str, wanted: &str) -> String {
    mismatch(value, &format!("struct field {field} of type {wanted}"))
}

fn mismatch(value: &Json, wanted: &str) -> String {
    let have = match value {
        Json::Null => "null",
        Json::Bool(_) => "bool",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    };
    format!(
        "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {have} into Go {wanted}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_fuel::FuelLimits;

    fn fuel() -> Fuel {
        Fuel::new(FuelLimits::NONE)
    }

    #[test]
    fn scalars_become_strings() {
        let text = "KIND: 0x10\nmetadata:\n  Name: 1.50\n  annotations: {a: yes, b: ~, 3: 2001-01-01, c: 1e3}";
        let head = Head::read(text, Compat::Helm4, &fuel()).unwrap();
        assert_eq!((head.kind.as_str(), head.name.as_str()), ("16", "1.5"));
        let annotations = [("3", "2001-01-01"), ("a", "true"), ("b", ""), ("c", "1000")];
        for (key, value) in annotations {
            assert_eq!(head.annotation(key), Some(value), "{key}");
        }
        for empty in ["", "~", "# nothing", "metadata: ~", "k: {a: b}\n...\nc: d"] {
            assert_eq!(
                Head::read(empty, Compat::Helm3, &fuel()),
                Ok(Head::default()),
                "{empty}"
            );
        }
    }

    /// The messages of Helm 3.22 and 4.3.
    #[test]
    fn mismatched_fields_get_helms_messages() {
        let decoding = "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal ";
        let converting = "error converting YAML to JSON: ";
        for (text, start, rest) in [
            (
                "- a",
                decoding,
                "array into Go value of type releaseutil.SimpleHead",
            ),
            (
                "3",
                decoding,
                "number into Go value of type releaseutil.SimpleHead",
            ),
            (
                "kind: {}",
                decoding,
                "object into Go struct field SimpleHead.kind of type string",
            ),
            (
                "apiVersion: []",
                decoding,
                "array into Go struct field SimpleHead.apiVersion of type string",
            ),
            (
                "metadata: x",
                decoding,
                r#"string into Go struct field SimpleHead.metadata of type struct { Name string "json:\"name\""; Annotations map[string]string "json:\"annotations\"" }"#,
            ),
            (
                "metadata: {name: []}",
                decoding,
                "array into Go struct field .metadata.name of type string",
            ),
            (
                "metadata: {annotations: x}",
                decoding,
                "string into Go struct field .metadata.annotations of type map[string]string",
            ),
            (
                "metadata: {Annotations: {a: []}, name: {}}",
                decoding,
                "array into Go struct field .metadata.annotations of type string",
            ),
            (
                "k: {{a: b}: c}",
                converting,
                r#"yaml: invalid map key: map[interface {}]interface {}{"a":"b"}"#,
            ),
            (
                "~: a",
                converting,
                r#"unsupported map key of type: %!s(<nil>), key: <nil>, value: "a""#,
            ),
            ("k: .nan", converting, "json: unsupported value: NaN"),
            (
                "k:\n  <<: 3",
                converting,
                "yaml: map merge requires map or sequence of maps as the value",
            ),
        ] {
            let refused = Head::read(text, Compat::Helm3, &fuel()).map_err(|e| e.message);
            assert_eq!(refused, Err(format!("{start}{rest}")), "{text}");
        }
        let refused = Head::read("[]", Compat::Helm4, &fuel()).map_err(|e| e.message);
        let expected = format!("{decoding}array into Go value of type util.SimpleHead");
        assert_eq!(refused, Err(expected));
    }
}
