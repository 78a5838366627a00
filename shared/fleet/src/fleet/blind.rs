//! Secret values replaced by marks before anything is rendered, so that no output of a plan can
//! contain them, also not where a template, a variable or a patch takes them apart.
//!
//! The mark of a value is a keyed digest of it and of its place, with a key that is chosen for one
//! plan and not kept. A value that two states have at the same place has the same mark in both, so
//! that a plan shows whether a Secret changes. A value at two places has two marks: no user learns
//! it by encrypting guesses elsewhere. A file that moves counts as changed.

use super::encrypted;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use driftless_kernel::ports::Secret;
use driftless_manifest::yaml::{Dialect, Limits, documents};
use driftless_manifest::{FileTree, InvalidObject, Object, TreePath};
use driftless_sops::{Format, Keyring, MasterKey, decrypt, master_keys};
use hmac::{Hmac, KeyInit, Mac as _};
use serde_json::Value;
use sha2::Sha256;
use std::collections::BTreeMap;

/// The beginnings of the values of SOPS.
const ENCRYPTED: &str = "ENC[";
/// The number of hex digits of a mark.
const DIGITS: usize = 12;

/// The marks of one plan.
pub struct Blinder {
    key: Secret,
}

/// The plain values of a file by their encrypted form, each with its place in the file.
type Plain = BTreeMap<String, (String, String)>;

impl Blinder {
    /// Creates marks with a random key of at least 16 bytes.
    pub fn new(key: Secret) -> Self {
        Self { key }
    }

    /// Returns the mark of a value at a place.
    fn mark(key: &Secret, place: &[&str], value: &str) -> String {
        let Ok(mut mac) = <Hmac<Sha256> as KeyInit>::new_from_slice(key.expose()) else {
            return String::new();
        };
        for part in place.iter().chain(&[value]) {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part.as_bytes());
        }
        let mut digest = hex::encode(mac.finalize().into_bytes());
        digest.truncate(DIGITS);
        digest
    }

    /// Replaces every encrypted value of the files. The mark is one of the plain value where a
    /// keyring opens the file, else one of the encrypted value, which also changes when the file is
    /// encrypted again. Returns the files that no keyring opens.
    pub fn hide(&self, tree: &mut FileTree, keys: &[Keyring]) -> Vec<TreePath> {
        let mut closed = Vec::new();
        for (path, format) in encrypted::files(tree) {
            let content = tree.content(&path);
            if content.is_some_and(|content| open(content, format, keys, &path).is_none()) {
                closed.push(path);
            }
        }
        encrypted::hide_marked(tree, &|path, format, content| {
            let plain = open(content.as_bytes(), format, keys, path);
            let plain = plain.map(|plain| pairs(content, &plain, format, path));
            let (key, file) = (self.key.clone(), path.as_str().to_owned());
            Box::new(move |hidden| {
                let known = plain.as_ref().and_then(|plain| plain.get(hidden));
                match known {
                    Some((place, value)) => Self::mark(&key, &["plain", &file, place], value),
                    None => Self::mark(&key, &["encrypted", &file], hidden),
                }
            })
        });
        closed
    }

    /// Returns a Secret or ConfigMap of a hub with marks in place of its values.
    ///
    /// # Errors
    /// The object has no name.
    pub fn object(&self, hub: &str, object: &Object) -> Result<Object, InvalidObject> {
        let (namespace, name) = (object.namespace().to_owned(), object.name().to_owned());
        let is_secret = object.kind() == "Secret";
        let mut value = object.clone().into_value();
        for field in ["data", "stringData"] {
            let entries = value.get_mut(field).and_then(Value::as_object_mut);
            for (key, entry) in entries.into_iter().flatten() {
                let place = ["hub", hub, &namespace, &name, key];
                let mark = Self::mark(&self.key, &place, entry.as_str().unwrap_or_default());
                let plain = format!("placeholder-{mark}");
                *entry = match field {
                    "data" if is_secret => STANDARD.encode(plain).into(),
                    _ => plain.into(),
                };
            }
        }
        if let Value::Object(fields) = &mut value {
            fields.remove("binaryData");
        }
        // The annotation of kubectl repeats the values.
        if let Some(Value::Object(metadata)) = value.get_mut("metadata") {
            metadata.remove("annotations");
        }
        Object::new(value)
    }
}

/// Returns the data keys of the encrypted files that are not age's or OpenPGP's own, which a key
/// service may decrypt.
pub fn service_keys(tree: &FileTree) -> Vec<MasterKey> {
    let mut all: Vec<MasterKey> = Vec::new();
    for (path, format) in encrypted::files(tree) {
        let Some(content) = tree.content(&path) else {
            continue;
        };
        // A file that is not valid stays closed.
        let groups = master_keys(content, format, path.as_str()).unwrap_or_default();
        for key in groups.into_iter().flatten() {
            if !all.contains(&key) {
                all.push(key);
            }
        }
    }
    all
}

fn open(content: &[u8], format: Format, keys: &[Keyring], path: &TreePath) -> Option<Vec<u8>> {
    let mut opened = keys
        .iter()
        .filter_map(|keyring| decrypt(content, format, keyring, path.as_str()).ok());
    opened.next()
}

/// Returns the plain values by their encrypted form.
fn pairs(content: &str, plain: &[u8], format: Format, path: &TreePath) -> Plain {
    let mut found = Plain::new();
    match format {
        Format::Yaml | Format::Json => {
            let read =
                |bytes: &[u8]| documents(bytes, path.as_str(), Dialect::V2, &Limits::default());
            let (Ok(hidden), Ok(plain)) = (read(content.as_bytes()), read(plain)) else {
                return found;
            };
            for (at, (hidden, plain)) in hidden.iter().zip(&plain).enumerate() {
                pair(hidden, plain, &at.to_string(), &mut found);
            }
        }
        Format::Dotenv | Format::Ini => {
            let text = String::from_utf8_lossy(plain);
            let plain = entries(&text);
            for ((key, count), hidden) in entries(content) {
                let value = plain
                    .get(&(key, count))
                    .filter(|_| hidden.starts_with(ENCRYPTED));
                if let Some(value) = value {
                    let place = format!("{key}/{count}");
                    found.insert(hidden.to_owned(), (place, (*value).to_owned()));
                }
            }
        }
        Format::Binary => {
            let text = String::from_utf8_lossy(plain).into_owned();
            found.insert(content.to_owned(), (String::new(), text));
        }
    }
    found
}

/// Returns the entries of a dotenv or INI file by their keys, each with the number of earlier
/// entries of the same key.
fn entries(text: &str) -> BTreeMap<(&str, usize), &str> {
    let mut found = BTreeMap::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with(['#', ';']) {
            continue;
        }
        if let Some((key, value)) = line.split_once('=') {
            let key = key.trim();
            let count = found.range((key, 0)..=(key, usize::MAX)).count();
            found.insert((key, count), value.trim());
        }
    }
    found
}

fn pair(hidden: &Value, plain: &Value, place: &str, found: &mut Plain) {
    match (hidden, plain) {
        (Value::Object(hidden), Value::Object(plain)) => {
            for (key, hidden) in hidden {
                if let Some(plain) = plain.get(key) {
                    pair(hidden, plain, &format!("{place}/{key}"), found);
                }
            }
        }
        (Value::Array(hidden), Value::Array(plain)) => {
            for (at, (hidden, plain)) in hidden.iter().zip(plain).enumerate() {
                pair(hidden, plain, &format!("{place}/{at}"), found);
            }
        }
        (Value::String(text), plain) if text.starts_with(ENCRYPTED) => {
            let plain = match plain {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            found.insert(text.clone(), (place.to_owned(), plain));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_harness::tools;

    fn read(path: &str) -> String {
        std::fs::read_to_string(tools::tests().join("corpus/sops").join(path)).unwrap()
    }

    /// Returns the hidden text of a file with this name.
    fn hidden(blinder: &Blinder, name: &str, text: &str, keys: &[Keyring]) -> String {
        let mut tree = FileTree::from_files([(name, text)]).unwrap();
        blinder.hide(&mut tree, keys);
        let path = TreePath::new(name).unwrap();
        String::from_utf8(tree.content(&path).unwrap().to_vec()).unwrap()
    }

    /// Returns the lines with entries of the Secret, without comments.
    fn entries(text: &str) -> Vec<String> {
        let lines = text.lines().filter(|line| line.starts_with("    "));
        let lines = lines.map(|line| line.trim().to_owned());
        lines.filter(|line| !line.starts_with('#')).collect()
    }

    #[test]
    fn equal_values_have_equal_marks_at_their_place_alone() {
        let mut keyring = Keyring::new();
        keyring.add_age(&read("one.agekey"), "key").unwrap();
        let keys = [keyring];
        let blinder = Blinder::new(Secret::new(vec![7; 32]));
        let (one, again) = (
            read("cases/encrypted-regex.enc.yaml"),
            read("cases/mac-only-encrypted.enc.yaml"),
        );
        let open = |name: &str, text: &str| hidden(&blinder, name, text, &keys);
        let marked = open("a.yaml", &one);
        assert!(!marked.contains("ENC["), "{marked}");
        let password = |text: &str| {
            let line = text.lines().find(|line| line.contains("password:"));
            line.unwrap().to_owned()
        };
        assert!(password(&marked).contains("placeholder-"), "{marked}");
        assert_eq!(password(&marked), password(&open("a.yaml", &again)));
        assert_ne!(password(&marked), password(&open("b.yaml", &one)));
        let other = Blinder::new(Secret::new(vec![8; 32]));
        assert_ne!(
            password(&marked),
            password(&hidden(&other, "a.yaml", &one, &keys))
        );
        // Without a key, each encryption has its marks.
        let closed = |text: &str| hidden(&blinder, "a.yaml", text, &[]);
        assert_eq!(entries(&closed(&one)), entries(&closed(&one)));
        assert_ne!(password(&closed(&one)), password(&closed(&again)));
        for secret in ["p@ss", "admin", "5432"] {
            assert!(!marked.contains(secret), "{marked}");
        }
    }

    #[test]
    fn every_format_has_marks_and_no_value() {
        let mut keyring = Keyring::new();
        keyring.add_age(&read("one.agekey"), "key").unwrap();
        let keys = [keyring];
        let blinder = Blinder::new(Secret::new(vec![7; 32]));
        for name in [
            "json.enc.json",
            "dotenv.enc.env",
            "ini.enc.ini",
            "binary.enc.bin",
        ] {
            let text = read(&format!("cases/{name}"));
            let marked = hidden(&blinder, name, &text, &keys);
            let other = hidden(&blinder, name, &text, &[]);
            assert!(
                !marked.contains("ENC[") && marked.contains("placeholder-"),
                "{name}: {marked}"
            );
            assert_ne!(marked, other, "{name}: the key opens the file");
        }
    }
}
