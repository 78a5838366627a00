//! Decrypts the values of a file in their order, and verifies the MAC over them.

use driftless_fuel::Fuel;
use driftless_go::float;
use serde_json::Number;
use sha2::{Digest, Sha512};
use zeroize::Zeroizing;

use crate::SopsError;
use crate::cipher::{DataKey, Plain, looks_encrypted};
use crate::metadata::Metadata;
use crate::tree::Tree;

/// The start of the input of a MAC over only encrypted values: SHA-256 of "sops". So it never
/// equals a MAC over all values.
const ONLY_ENCRYPTED: [u8; 32] = [
    0x8a, 0x3f, 0xd2, 0xad, 0x54, 0xce, 0x66, 0x52, 0x7b, 0x10, 0x34, 0xf3, 0xd1, 0x47, 0xbe, 0x0b,
    0x0b, 0x97, 0x5b, 0x3b, 0xf4, 0x4f, 0x72, 0xc6, 0xfd, 0xad, 0xec, 0x81, 0x76, 0xf2, 0x7d, 0x69,
];

/// Decrypts in place. If the MAC does not match, the values must not be used.
pub(crate) fn decrypt(
    branches: &mut [Tree],
    metadata: &Metadata,
    key: &DataKey,
    file: &str,
    fuel: &Fuel,
) -> Result<(), SopsError> {
    let mut hash = Sha512::new();
    if metadata.mac_only_encrypted {
        hash.update(ONLY_ENCRYPTED);
    }
    let mut walk = Walk {
        metadata,
        key,
        file,
        fuel,
        hash,
        path: Vec::new(),
        length: 0,
    };
    for branch in branches {
        walk.value(branch)?;
    }
    let computed = hex::encode_upper(walk.hash.finalize());
    let stored = key.decrypt(&metadata.mac, &metadata.last_modified);
    match stored {
        Ok(stored) if stored.bytes.as_slice() == computed.as_bytes() => Ok(()),
        _ => Err(SopsError::Mac {
            file: file.to_owned(),
        }),
    }
}

struct Walk<'w> {
    metadata: &'w Metadata,
    key: &'w DataKey,
    file: &'w str,
    fuel: &'w Fuel,
    hash: Sha512,
    path: Vec<String>,
    /// The number of bytes of the keys in it.
    length: usize,
}

/// Bytes that are compared, copied, hashed or decrypted in one step.
const BYTES_PER_STEP: usize = 16;

impl Walk<'_> {
    fn value(&mut self, tree: &mut Tree) -> Result<(), SopsError> {
        match tree {
            Tree::Map(entries) => {
                for (key, value) in entries.iter_mut() {
                    // A comment is at the level of the keys, not below one.
                    if matches!(value, Tree::Comment(_)) {
                        self.pay(value)?;
                        self.comment(value);
                        continue;
                    }
                    let length = key.len();
                    self.length += length;
                    self.path.push(std::mem::take(key));
                    let result = match self.value(value) {
                        Ok(()) if matches!(value, Tree::Comment(_)) => {
                            Err(self.fault("a comment, expected a value"))
                        }
                        result => result,
                    };
                    *key = self.path.pop().unwrap_or_default();
                    self.length -= length;
                    result?;
                }
                Ok(())
            }
            Tree::List(items) => {
                items.iter_mut().try_for_each(|item| self.value(item))?;
                // sops keeps the comments of a list as encrypted items of it.
                items.retain(|item| !matches!(item, Tree::Comment(_)));
                Ok(())
            }
            Tree::Null => Ok(()),
            leaf => self.leaf(leaf),
        }
    }

    /// Charges the cost of a value: every key on its path is matched against the rule, and the
    /// value is bound to the path.
    fn pay(&self, value: &Tree) -> Result<(), SopsError> {
        let text = match value {
            Tree::Text(text) | Tree::Comment(text) => text.len(),
            _ => 0,
        };
        let keys = self.path.len() + self.length / BYTES_PER_STEP;
        let rule = keys.saturating_mul(self.metadata.rule.steps());
        let steps = rule.saturating_add(1 + (text + self.length) / BYTES_PER_STEP);
        self.fuel.steps(steps).map_err(|out| SopsError::Fuel {
            file: self.file.to_owned(),
            out,
        })
    }

    fn leaf(&mut self, leaf: &mut Tree) -> Result<(), SopsError> {
        self.pay(leaf)?;
        let encrypted = match self.metadata.rule.encrypts(&self.path) {
            Some(encrypted) => encrypted,
            None => leaf.text().is_some_and(looks_encrypted),
        };
        if encrypted {
            let Some(text) = leaf.text() else {
                return Err(self.fault("expected an encrypted value, found a plain one"));
            };
            // sops does not encrypt an empty string.
            if !text.is_empty() {
                let plain = self
                    .key
                    .decrypt(text, &self.place())
                    .map_err(|problem| self.fault(problem))?;
                *leaf = typed(plain)
                    .ok_or_else(|| self.fault("the decrypted value does not fit its type"))?;
            }
        }
        if encrypted || !self.metadata.mac_only_encrypted {
            hash_leaf(&mut self.hash, leaf);
        }
        Ok(())
    }

    /// Decrypts a comment. Old versions of sops did not encrypt comments, so one that cannot be
    /// decrypted is unchanged. The MAC does not cover comments.
    fn comment(&mut self, comment: &mut Tree) {
        if self.metadata.rule.encrypts(&self.path) == Some(false) {
            return;
        }
        if let Tree::Comment(text) = comment
            && let Ok(plain) = self.key.decrypt(text, &self.place())
            && let Ok(decrypted) = std::str::from_utf8(&plain.bytes)
        {
            *text = decrypted.to_owned();
        }
    }

    /// Returns the path in the form to which each value is bound.
    fn place(&self) -> String {
        self.path.join(":") + ":"
    }

    fn fault(&self, problem: &'static str) -> SopsError {
        SopsError::Value {
            file: self.file.to_owned(),
            path: self.path.join("."),
            problem,
        }
    }
}

/// Adds a value to the input of the MAC.
pub(crate) fn hash_leaf(hash: &mut Sha512, leaf: &Tree) {
    match leaf {
        Tree::Text(text) => hash.update(text),
        Tree::Bytes(bytes) => hash.update(bytes),
        Tree::Bool(true) => hash.update("True"),
        Tree::Bool(false) => hash.update("False"),
        Tree::Number(n) => hash.update(Zeroizing::new(number_text(n)).as_bytes()),
        Tree::Null | Tree::Comment(_) | Tree::List(_) | Tree::Map(_) => {}
    }
}

/// Returns a number as sops writes it.
pub(crate) fn number_text(n: &Number) -> String {
    match n.as_f64().filter(|_| n.is_f64()) {
        Some(f) => float::format(f, 'f', None),
        None => n.to_string(),
    }
}

fn typed(plain: Plain) -> Option<Tree> {
    let text = || std::str::from_utf8(&plain.bytes).ok();
    Some(match plain.kind.as_str() {
        "int" => Tree::Number(text()?.parse::<i64>().ok()?.into()),
        "float" => Tree::Number(Number::from_f64(text()?.parse().ok()?)?),
        "bool" => Tree::Bool(match text()? {
            "True" | "true" | "TRUE" | "t" | "T" | "1" => true,
            "False" | "false" | "FALSE" | "f" | "F" | "0" => false,
            _ => return None,
        }),
        "str" | "bytes" | "time" => match String::from_utf8(plain.bytes.to_vec()) {
            Ok(text) => Tree::Text(text),
            Err(e) => Tree::Bytes(e.into_bytes()),
        },
        "comment" => Tree::Comment(text()?.to_owned()),
        _ => return None,
    })
}
