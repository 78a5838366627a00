//! Encrypts the values of a new YAML document, as `sops encrypt` does.
//!
//! The caller gives what is random, and encrypts the data key for the recipients: this crate reads
//! no random source.

use serde_json::{Value, json};
use sha2::{Digest, Sha512};
use zeroize::Zeroizing;

use crate::SopsError;
use crate::cipher::DataKey;
use crate::metadata::Rule;
use crate::tree::Tree;
use crate::walk;
use driftless_manifest::yaml;

/// The version of sops whose format is written.
const VERSION: &str = "3.13.3";

/// The data key of a new file, and the other inputs of its encryption.
pub struct NewFile<'a> {
    /// The random key, of 32 bytes.
    pub data_key: &'a [u8],
    /// The age recipients, each with the data key encrypted for it, in armor.
    pub age: &'a [(String, String)],
    /// Returns new random bytes at each call, or why the system does not give them.
    pub nonce: &'a mut dyn FnMut() -> Result<[u8; 32], &'static str>,
    /// The time, in RFC 3339 with whole seconds.
    pub last_modified: &'a str,
    /// The regular expression of the keys whose values are encrypted.
    pub encrypted_regex: &'a str,
}

/// Encrypts a document, and returns it as YAML with its `sops` metadata. `file` is used only in
/// errors.
///
/// # Errors
/// [`SopsError`] for an expression that is not valid, for a key that does not have 32 bytes, and
/// without random bytes.
pub fn encrypt(document: &Value, new: NewFile<'_>, file: &str) -> Result<String, SopsError> {
    let fault = |problem| SopsError::Value {
        file: file.to_owned(),
        path: "sops".to_owned(),
        problem,
    };
    let key = DataKey::new(new.data_key).ok_or_else(|| fault("a data key of 32 bytes"))?;
    let rule = Rule::encrypted_regex(new.encrypted_regex).map_err(fault)?;
    let mut tree = from_value(document);
    let mut sealing = Sealing {
        key: &key,
        rule: &rule,
        nonce: new.nonce,
        hash: Sha512::new(),
        path: Vec::new(),
    };
    sealing.value(&mut tree).map_err(fault)?;
    let mac = hex::encode_upper(sealing.hash.finalize());
    let nonce = (new.nonce)().map_err(fault)?;
    let mac = key.encrypt(mac.as_bytes(), "str", new.last_modified, &nonce);
    let mac = mac.map_err(fault)?;
    let age: Vec<Value> = new
        .age
        .iter()
        .map(|(recipient, enc)| json!({"enc": enc, "recipient": recipient}))
        .collect();
    let metadata = json!({"age": age, "encrypted_regex": new.encrypted_regex,
        "lastmodified": new.last_modified, "mac": mac, "version": VERSION});
    if let Tree::Map(entries) = &mut tree {
        entries.push(("sops".to_owned(), from_value(&metadata)));
    }
    Ok(yaml::write(&tree))
}

struct Sealing<'s> {
    key: &'s DataKey,
    rule: &'s Rule,
    nonce: &'s mut dyn FnMut() -> Result<[u8; 32], &'static str>,
    hash: Sha512,
    path: Vec<String>,
}

impl Sealing<'_> {
    fn value(&mut self, tree: &mut Tree) -> Result<(), &'static str> {
        match tree {
            Tree::Map(entries) => entries.iter_mut().try_for_each(|(key, value)| {
                self.path.push(key.clone());
                let result = self.value(value);
                self.path.pop();
                result
            }),
            Tree::List(items) => items.iter_mut().try_for_each(|item| self.value(item)),
            leaf => self.leaf(leaf),
        }
    }

    fn leaf(&mut self, leaf: &mut Tree) -> Result<(), &'static str> {
        walk::hash_leaf(&mut self.hash, leaf);
        if self.rule.encrypts(&self.path) != Some(true) {
            return Ok(());
        }
        let Some((kind, text)) = plain(leaf) else {
            return Ok(());
        };
        let place = self.path.join(":") + ":";
        let nonce = (self.nonce)()?;
        let sealed = self.key.encrypt(text.as_bytes(), kind, &place, &nonce)?;
        *leaf = Tree::Text(sealed);
        Ok(())
    }
}

/// Returns a value as a string, with its type; `None` for values that sops does not encrypt.
fn plain(leaf: &Tree) -> Option<(&'static str, Zeroizing<String>)> {
    let (kind, text) = match leaf {
        Tree::Text(text) if text.is_empty() => return None,
        Tree::Text(text) => ("str", text.clone()),
        Tree::Bool(true) => ("bool", "True".to_owned()),
        Tree::Bool(false) => ("bool", "False".to_owned()),
        Tree::Number(number) => match number.is_f64() {
            true => ("float", walk::number_text(number)),
            false => ("int", number.to_string()),
        },
        _ => return None,
    };
    Some((kind, Zeroizing::new(text)))
}

fn from_value(value: &Value) -> Tree {
    match value {
        Value::Null => Tree::Null,
        Value::Bool(one) => Tree::Bool(*one),
        Value::Number(number) => Tree::Number(number.clone()),
        Value::String(text) => Tree::Text(text.clone()),
        Value::Array(items) => Tree::List(items.iter().map(from_value).collect()),
        Value::Object(map) => Tree::Map(
            map.iter()
                .map(|(key, value)| (key.clone(), from_value(value)))
                .collect(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, Keyring, decrypt, master_keys};

    #[test]
    fn a_new_file_opens_with_its_data_key() {
        let secret = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "edge-kubeconfig", "labels": {"a": true, "b": 1}},
            "stringData": {"empty": "", "value": "apiVersion: v1\nkind: Config\n", "n": 1.5, "yes": true}});
        let mut count = 0;
        let mut nonce = || {
            count += 1;
            Ok([count; 32])
        };
        let key = [7; 32];
        let new = NewFile {
            data_key: &key,
            age: &[("age1one".to_owned(), "an encrypted key\n".to_owned())],
            nonce: &mut nonce,
            last_modified: "2026-11-26T12:00:00Z",
            encrypted_regex: "^(data|stringData)$",
        };
        let text = encrypt(&secret, new, "a.yaml").unwrap();
        assert!(text.contains("name: edge-kubeconfig\n"), "{text}");
        assert!(!text.contains("kind: Config"), "{text}");
        assert_eq!(text.matches("ENC[AES256_GCM,").count(), 4, "{text}");
        let open = |text: &str| {
            let groups = master_keys(text.as_bytes(), Format::Yaml, "a.yaml").unwrap();
            let mut keys = Keyring::new();
            keys.add_opened(&groups[0][0], &key);
            decrypt(text.as_bytes(), Format::Yaml, &keys, "a.yaml")
        };
        let opened = String::from_utf8(open(&text).unwrap()).unwrap();
        assert_eq!(opened, yaml::write(&from_value(&secret)));
        // The MAC covers the values that are not encrypted.
        let moved = text.replace("name: edge-kubeconfig", "name: other-kubeconfig");
        let error = open(&moved).unwrap_err().to_string();
        assert!(error.contains("MAC mismatch"), "{error}");
    }
}
