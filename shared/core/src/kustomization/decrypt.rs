//! SOPS between the files and the build: an encrypted file is decrypted, and its MAC verified, when
//! the build reads it. So generators, patches and resources all see plain text, and the encrypted
//! bytes are the ones that are verified.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use driftless_manifest::{Object, ReadFilter, TreePath};
use driftless_sops::{Format, Keyring, SopsError, decrypt, is_encrypted};
use serde_json::Value;
use std::error::Error;

/// The label or annotation that leaves an object encrypted.
const DECRYPT: &str = "kustomize.toolkit.fluxcd.io/decrypt";

/// The decryption of files and Secrets with the keys of one Kustomization.
pub struct Decryptor {
    keys: Keyring,
}

impl Decryptor {
    /// Creates a decryptor with these keys.
    pub fn new(keys: Keyring) -> Self {
        Self { keys }
    }

    /// Returns the public halves of the keys: new keys are a reason to build again.
    pub fn recipients(&self) -> Vec<String> {
        self.keys.recipients()
    }

    /// Decrypts the entries of a Secret that are SOPS documents themselves: a manifest may have
    /// encrypted files in its `data`.
    ///
    /// # Errors
    /// An entry that cannot be decrypted.
    pub fn object(&self, mut object: Object) -> Result<Object, SopsError> {
        if object.kind() != "Secret" || !object.group().is_empty() || is_opted_out(&object) {
            return Ok(object);
        }
        let Some(Value::Object(data)) = object.as_map_mut().get_mut("data") else {
            return Ok(object);
        };
        for (key, value) in data {
            let Some(content) = value.as_str().and_then(|text| STANDARD.decode(text).ok()) else {
                continue;
            };
            let format = format_of(key, &content);
            if is_encrypted(&content, format) {
                *value = STANDARD
                    .encode(decrypt(&content, format, &self.keys, key)?)
                    .into();
            }
        }
        Ok(object)
    }
}

/// Returns the format by the name, or by the content if the name has no known extension: Flux
/// decrypts a JSON or YAML document under any name.
fn format_of(name: &str, content: &[u8]) -> Format {
    let format = Format::from_path(name);
    let by_name = name.ends_with(".bin") || !matches!(format, Format::Binary);
    if by_name || !is_encrypted(content, Format::Yaml) || is_encrypted(content, Format::Binary) {
        format
    } else {
        Format::Yaml
    }
}

fn is_opted_out(object: &Object) -> bool {
    [object.annotation(DECRYPT), object.label(DECRYPT)]
        .into_iter()
        .flatten()
        .any(|value| value.eq_ignore_ascii_case("disabled"))
}

impl ReadFilter for Decryptor {
    fn filter(
        &self,
        path: &TreePath,
        content: &Bytes,
    ) -> Result<Option<Bytes>, Box<dyn Error + Send + Sync>> {
        let format = Format::from_path(path.as_str());
        if !is_encrypted(content, format) || has_opt_out(content) {
            return Ok(None);
        }
        Ok(Some(
            decrypt(content, format, &self.keys, path.as_str())?.into(),
        ))
    }
}

/// Checks whether an encrypted file opts out of decryption. SOPS can leave the metadata of an
/// object readable.
fn has_opt_out(content: &[u8]) -> bool {
    let text = String::from_utf8_lossy(content);
    text.contains(DECRYPT)
        && text
            .lines()
            .any(|line| line.contains(DECRYPT) && line.to_ascii_lowercase().contains("disabled"))
}
