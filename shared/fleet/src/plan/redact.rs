//! The values that no plan may contain: everything that was decrypted, and the Secrets of `--with`.

use crate::check::GivenObjects;
use crate::error::Error;
use crate::fleet::{Fleet, encrypted};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use driftless_manifest::yaml::{Dialect, Limits, documents};
use driftless_manifest::{FileTree, Object, TreePath};
use driftless_sops::{Format, Keyring, decrypt};
use serde_json::Value;
use std::collections::BTreeSet;

/// The text in place of a value.
pub const HIDDEN: &str = "***";
/// The length from which a value is searched for in other text, in bytes.
const MIN_VALUE: usize = 4;
/// The length from which a single line of a value is searched for.
const MIN_LINE: usize = 8;
/// The number of levels at which a value that is itself YAML is read.
const MAX_LEVELS: usize = 4;
/// The beginnings of the values of SOPS.
const ENCRYPTED: &str = "ENC[";
/// The fields of an object that are printed with every object.
const OF_OBJECTS: [&str; 3] = ["apiVersion", "kind", "type"];
const AGE_KEY: &str = "AGE-SECRET-KEY-1";
const PGP_KEY: &str = "-----BEGIN PGP PRIVATE KEY BLOCK-----";

/// The values that are replaced.
pub struct Redactor {
    values: Vec<String>,
}

impl Redactor {
    /// Reads the encrypted files of the fleets with their keys, and the Secrets that were given.
    ///
    /// # Errors
    /// The files of a fleet cannot be read.
    pub fn new(fleets: &[&Fleet], given: &GivenObjects) -> Result<Self, Error> {
        let mut found = Values::default();
        for (_, value) in given.secret_values() {
            found.add(&value, 0);
        }
        for fleet in fleets {
            // Without keys nothing is decrypted: the fleet has placeholders.
            if let Some(keys) = fleet.sops_keys.as_ref().and_then(|keys| keys.expose_str()) {
                let trees = fleet.git.all()?;
                found.add_key(keys);
                trees.iter().for_each(|(_, tree)| found.add_files(tree));
            }
        }
        let mut values: Vec<String> = found.values.into_iter().collect();
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Ok(Self { values })
    }

    /// Returns a redactor that also replaces the values of these Secrets.
    pub fn with_secrets<'s>(&self, secrets: impl IntoIterator<Item = &'s Object>) -> Self {
        let mut found = Values::default();
        for secret in secrets {
            if let Some(data) = secret.as_map().get("data") {
                found.add_leaves(data, 0);
            }
        }
        found.values.extend(self.values.iter().cloned());
        let mut values: Vec<String> = found.values.into_iter().collect();
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Self { values }
    }

    /// Creates a redactor of these values.
    #[cfg(test)]
    pub fn of(values: &[&str]) -> Self {
        let mut found = Values::default();
        values.iter().for_each(|value| found.add(value, 0));
        Self {
            values: found.values.into_iter().collect(),
        }
    }

    /// Replaces every secret value in a string. Values that overlap are replaced together.
    pub fn text(&self, text: &str) -> String {
        let mut spans: Vec<(usize, usize)> = Vec::new();
        for value in &self.values {
            spans.extend(overlapping(text, value));
        }
        spans.sort_unstable();
        let (mut out, mut at) = (String::new(), 0);
        let mut spans = spans.into_iter().peekable();
        while let Some((start, mut end)) = spans.next() {
            while let Some((_, more)) = spans.next_if(|(next, _)| *next <= end) {
                end = end.max(more);
            }
            out.push_str(text.get(at..start).unwrap_or_default());
            out.push_str(HIDDEN);
            at = end;
        }
        out.push_str(text.get(at..).unwrap_or_default());
        out
    }

    /// Replaces every secret value in the keys and values of a document.
    pub fn value(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Number(number) => {
                let text = number.to_string();
                if self.values.contains(&text) {
                    *value = HIDDEN.into();
                }
            }
            Value::Array(list) => list.iter_mut().for_each(|one| self.value(one)),
            Value::Object(map) => {
                let entries = std::mem::take(map);
                for (key, mut value) in entries {
                    self.value(&mut value);
                    let mut shown = self.text(&key);
                    while map.contains_key(&shown) {
                        shown.push('*');
                    }
                    map.insert(shown, value);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }
}

/// Returns every place of a value in a string, also those that overlap.
fn overlapping(text: &str, value: &str) -> Vec<(usize, usize)> {
    let mut all = Vec::new();
    let mut from = 0;
    while let Some(at) = text.get(from..).and_then(|rest| rest.find(value)) {
        let start = from + at;
        all.push((start, start + value.len()));
        from = start + text[start..].chars().next().map_or(1, char::len_utf8);
    }
    all
}

/// The values so far, and the keys that were found among them.
#[derive(Default)]
struct Values {
    values: BTreeSet<String>,
    keys: Keyring,
    known: BTreeSet<String>,
}

impl Values {
    /// Adds a value with everything that a cluster may have of it: its lines, its text in base64
    /// and out of it, and the values of a document that it contains.
    fn add(&mut self, value: &str, level: usize) {
        let trimmed = value.trim();
        if trimmed.len() < MIN_VALUE || level > MAX_LEVELS || !self.known.insert(value.to_owned()) {
            return;
        }
        self.add_key(value);
        self.values.insert(trimmed.to_owned());
        for text in [value, trimmed] {
            self.values.insert(STANDARD.encode(text));
        }
        let lines: Vec<&str> = value.lines().map(str::trim).collect();
        if lines.len() > 1 {
            let long = lines.into_iter().filter(|line| line.len() >= MIN_LINE);
            self.values.extend(long.map(str::to_owned));
        }
        let decoded = STANDARD.decode(trimmed).ok();
        if let Some(text) = decoded.and_then(|bytes| String::from_utf8(bytes).ok()) {
            self.add(&text, level + 1);
        }
        let is_document = value.contains(':') || trimmed.starts_with(['[', '{', '-']);
        if is_document {
            let limits = Limits::default();
            let parsed = documents(value.as_bytes(), "value", Dialect::V2, &limits);
            for document in parsed.unwrap_or_default() {
                if document.is_object() || document.is_array() {
                    self.add_leaves(&document, level + 1);
                }
            }
        }
    }

    fn add_leaves(&mut self, value: &Value, level: usize) {
        match value {
            Value::String(text) => self.add(text, level),
            Value::Number(number) => self.add(&number.to_string(), level),
            Value::Array(list) => list.iter().for_each(|one| self.add_leaves(one, level)),
            Value::Object(map) => map.values().for_each(|one| self.add_leaves(one, level)),
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Adds the keys in a string. A string without a valid key opens nothing.
    fn add_key(&mut self, text: &str) {
        if text.contains(AGE_KEY) {
            let _ = self.keys.add_age(text, "value");
        }
        if text.contains(PGP_KEY) {
            let _ = self.keys.add_pgp(text, "value");
        }
    }

    /// Adds the decrypted values of every file that the keys open. A file may contain the key of
    /// others, so files are tried until no further one opens.
    fn add_files(&mut self, tree: &FileTree) {
        let mut open = encrypted::files(tree);
        loop {
            let before = open.len();
            open.retain(|(path, format)| !self.add_file(tree, path, *format));
            if open.len() == before || open.is_empty() {
                return;
            }
        }
    }

    /// Adds the decrypted values of a file. Returns false if the keys do not open it.
    fn add_file(&mut self, tree: &FileTree, path: &TreePath, format: Format) -> bool {
        let Some(content) = tree.content(path) else {
            return true;
        };
        let Ok(plain) = decrypt(content, format, &self.keys, path.as_str()) else {
            return false;
        };
        let text = String::from_utf8_lossy(&plain).into_owned();
        match format {
            Format::Yaml | Format::Json => {
                let read =
                    |bytes: &[u8]| documents(bytes, path.as_str(), Dialect::V2, &Limits::default());
                match (read(content), read(&plain)) {
                    (Ok(hidden), Ok(plain)) if hidden.len() == plain.len() => {
                        let pairs = hidden.iter().zip(&plain);
                        pairs.for_each(|(hidden, plain)| self.add_pair(hidden, plain, true));
                    }
                    // The documents cannot be paired: every value of the file counts.
                    (_, Ok(plain)) => plain.iter().for_each(|one| self.add_leaves(one, 0)),
                    _ => self.add(&text, 0),
                }
            }
            Format::Dotenv | Format::Ini => {
                let values = text.lines().filter_map(|line| line.split_once('='));
                values.for_each(|(_, value)| self.add(value.trim().trim_matches(['"', '\'']), 0));
            }
            Format::Binary => self.add(&text, 0),
        }
        true
    }

    /// Adds the values of a decrypted document that are encrypted in the file.
    /// Those that make an object of the document are not secret: the plan names the object.
    fn add_pair(&mut self, hidden: &Value, plain: &Value, is_root: bool) {
        match (hidden, plain) {
            (Value::Object(hidden), Value::Object(plain)) => {
                for (key, plain) in plain {
                    match hidden.get(key) {
                        Some(_) if is_root && OF_OBJECTS.contains(&key.as_str()) => {}
                        Some(hidden) => self.add_pair(hidden, plain, false),
                        None => self.add_leaves(plain, 0),
                    }
                }
            }
            (Value::Array(hidden), Value::Array(plain)) if hidden.len() == plain.len() => {
                let pairs = hidden.iter().zip(plain);
                pairs.for_each(|(hidden, plain)| self.add_pair(hidden, plain, false));
            }
            (Value::String(text), plain) if text.starts_with(ENCRYPTED) => {
                self.add_leaves(plain, 0);
            }
            (hidden, plain) if hidden == plain => {}
            (_, plain) => self.add_leaves(plain, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_replaced_wherever_they_are() {
        let redactor = Redactor::of(&["hunter22", "abcd", "bcde", "on"]);
        for (text, expected) in [
            ("postgres://u:hunter22@db", "postgres://u:***@db"),
            ("aHVudGVyMjI=", "***"),
            ("abcde on", "*** on"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(redactor.text(text), expected, "{text}");
        }
        let mut value = json!({"hunter22": ["abcd", 7, true], "a": {"b": "x hunter22"}});
        redactor.value(&mut value);
        assert_eq!(value, json!({"***": ["***", 7, true], "a": {"b": "x ***"}}));
    }

    #[test]
    fn parts_of_a_value_are_replaced() {
        let redactor = Redactor::of(&[
            "db:\n  password: hunter22\n  port: 54321\n",
            "c2VjcmV0LXRleHQ=",
        ]);
        for text in ["hunter22", "54321", "secret-text", "password: hunter22"] {
            assert_eq!(redactor.text(text), HIDDEN, "{text}");
        }
        let mut port = json!(54321);
        redactor.value(&mut port);
        assert_eq!(port, json!(HIDDEN));
    }
}
