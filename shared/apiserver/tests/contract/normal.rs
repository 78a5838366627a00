//! Replaces the values that differ between any two servers: uids, versions, times, generated names,
//! addresses, descriptions.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::{Value, json};

use super::cases::Answer;

/// Go lists unknown fields in the order of its maps, which changes each time.
const UNKNOWN_FIELD: &str = "unknown field ";

/// Returns a message with its unknown fields in alphabetical order.
fn in_order(text: String) -> String {
    let Some((head, tail)) = text.split_once(UNKNOWN_FIELD) else {
        return text;
    };
    let separator = format!(", {UNKNOWN_FIELD}");
    let mut fields: Vec<&str> = tail.split(separator.as_str()).collect();
    fields.sort_unstable();
    format!("{head}{UNKNOWN_FIELD}{}", fields.join(&separator))
}

/// The versions of one case, numbered as they appear.
pub struct Normal {
    namespace: String,
    versions: BTreeMap<String, usize>,
}

impl Normal {
    pub fn new(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            versions: BTreeMap::new(),
        }
    }

    pub fn answer(&mut self, answer: &Answer) -> Value {
        let mut body = answer.body.clone();
        self.value(&mut body, "");
        let mut out = json!({"status": answer.status, "body": body});
        if !answer.warnings.is_empty() {
            let mut warnings = answer.warnings.clone();
            if warnings.iter().all(|text| text.contains(UNKNOWN_FIELD)) {
                warnings.sort();
            }
            out["warnings"] = json!(warnings);
        }
        out
    }

    fn version(&mut self, text: &str) -> String {
        if text.is_empty() {
            return String::new();
        }
        let next = self.versions.len() + 1;
        let number = self.versions.entry(text.to_owned()).or_insert(next);
        format!("<version {number}>")
    }

    fn value(&mut self, value: &mut Value, key: &str) {
        match value {
            Value::Object(map) => {
                let generated = map
                    .get("generateName")
                    .and_then(Value::as_str)
                    .filter(|text| !text.is_empty())
                    .map(|text| format!("{text}<generated>"));
                if let Some(name) = generated
                    && map.contains_key("name")
                {
                    map.insert("name".into(), name.into());
                }
                // A list's version, and a bookmark's, is that of the last write to anything.
                let list = map.contains_key("items") || map.contains_key("rows");
                let bookmark = map.get("type").is_some_and(|kind| kind == "BOOKMARK");
                let metadata = if bookmark {
                    map.get_mut("object").and_then(|of| of.get_mut("metadata"))
                } else {
                    map.get_mut("metadata").filter(|_| list)
                };
                if let Some(Value::Object(metadata)) = metadata {
                    metadata.insert("resourceVersion".into(), "<list>".into());
                }
                for (key, value) in map.iter_mut() {
                    self.value(value, key);
                }
                map.remove("storageVersionHash");
                if map.contains_key("jsonPath") {
                    return;
                }
                if map.contains_key("priority") && map.contains_key("format") {
                    map.remove("description");
                }
            }
            Value::Array(list) => {
                for value in list.iter_mut() {
                    self.value(value, key);
                }
                if matches!(key, "managedFields" | "causes") {
                    list.sort_by_key(order);
                }
                // The real server lists bindings in any order.
                if matches!(key, "resourceRules" | "nonResourceRules") {
                    list.sort_by_key(Value::to_string);
                }
            }
            Value::String(text) => {
                if key == "resourceVersion" && text != "<list>" {
                    *text = self.version(text);
                } else if key == "token" && text.len() > 20 {
                    *text = "<token>".into();
                } else if key == "cells" && is_age(text) {
                    *text = "<age>".into();
                } else if key == "continue" {
                    *text = "<continue>".into();
                } else if key != "path" {
                    *text = self.text(text);
                }
            }
            Value::Number(number) => {
                let port = number.as_i64().unwrap_or_default();
                if key == "nodePort" && (30_000..32_768).contains(&port) {
                    *value = "<port>".into();
                }
            }
            _ => {}
        }
    }

    fn text(&self, text: &str) -> String {
        let mut out = text.replace(&self.namespace, "{ns}");
        for (pattern, with) in patterns() {
            if let std::borrow::Cow::Owned(text) = pattern.replace_all(&out, *with) {
                out = text;
            }
        }
        in_order(out)
    }
}

/// Returns whether a string is an age, such as `5s`, `324d` or `3h12m`.
fn is_age(text: &str) -> bool {
    let digits = text.starts_with(|c: char| c.is_ascii_digit());
    digits && text.ends_with(['s', 'm', 'h', 'd', 'y']) && text.len() < 8
}

/// Returns the patterns of such values, compiled once.
fn patterns() -> &'static [(regex::Regex, &'static str)] {
    static COMPILED: OnceLock<Vec<(regex::Regex, &'static str)>> = OnceLock::new();
    COMPILED.get_or_init(|| {
        let list = [
            (
                r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
                "<uid>",
            ),
            (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
            (r":3[0-2]\d\d\d/", ":<port>/"),
            (r"^\d{1,3}s$", "<age>"),
            (r"(resource version: )\d+( \(\d+\))?", "${1}<number>"),
            (r"(object meta: )\d+", "${1}<number>"),
            (r"(current: )\d+", "${1}<number>"),
            (r"( in the precondition \()\d+", "${1}<number>"),
            (r"( in record \()\d+", "${1}<number>"),
            (r"^\d+\.\d+\.\d+\.\d+:\d+$", "<host>"),
            (r"(Key: )[^,]*", "${1}<key>"),
            (r#"(Invalid value: )"\{.*\}":"#, "${1}<object>:"),
            (r"\b10\.(0|96)\.\d+\.\d+\b", "<address>"),
            (r"(in precondition: )\d+", "${1}<number>"),
        ];
        list.map(|(pattern, with)| (regex::Regex::new(pattern).expect("a pattern"), with))
            .into()
    })
}

/// Entries of the same second are in any order.
fn order(entry: &Value) -> String {
    [
        "operation",
        "manager",
        "subresource",
        "apiVersion",
        "field",
        "message",
    ]
    .iter()
    .map(|key| entry[*key].to_string())
    .collect()
}
