//! SOPS between the files and the build: an encrypted file is decrypted, and its MAC verified, when
//! the build reads it. So generators, patches and resources all see plain text, and the encrypted
//! bytes are the ones that are verified.
//!
//! A build asks no service. It leaves a file encrypted whose data key only a service can decrypt,
//! notes that key, and runs again when the keys of all such files are there.

use super::keys::{self, Keys, Services};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use driftless_fuel::Tank;
use driftless_kernel::context::Context;
use driftless_manifest::{Object, ReadFilter, TreePath};
use driftless_sops::{
    Format, Keyring, MasterKey, SopsError, decrypt_within, is_encrypted, master_keys_within,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The label or annotation that leaves an object encrypted.
const DECRYPT: &str = "kustomize.toolkit.fluxcd.io/decrypt";

/// The most data keys of a build that key services decrypt.
const MAX_SERVICE_KEYS: usize = 256;

/// The decryption of files and Secrets with the keys of one Kustomization.
pub struct Decryptor {
    services: Services,
    /// The fuel of the step that decrypts.
    fuel: Tank,
    state: Mutex<State>,
}

struct State {
    keyring: Keyring,
    /// The data keys that the build needs and that only a service can decrypt.
    wanted: Vec<MasterKey>,
    /// The data keys that a service was asked for, in their encrypted form, with the reason if it
    /// did not decrypt one.
    asked: BTreeMap<String, Option<String>>,
}

/// The reason why a file was not decrypted.
#[derive(Debug, thiserror::Error)]
pub enum DecryptError {
    /// The file is not valid, or no key opens it; with the reasons of key services.
    #[error("{error}{}", reasons.iter().map(|reason| format!("; {reason}")).collect::<String>())]
    Sops {
        /// The error of the file.
        error: SopsError,
        /// The reasons why services did not decrypt its data key.
        reasons: Vec<String>,
    },
    /// The file needs a service, and too many were asked for.
    #[error(
        "{0}: the build needs more than {MAX_SERVICE_KEYS} data keys of key services, which is the limit"
    )]
    TooMany(String),
}

impl Decryptor {
    /// Creates a decryptor with these keys, whose work is charged to the fuel of a step.
    pub fn new(keys: Keys, step: &Tank) -> Self {
        Self {
            services: keys.services,
            fuel: step.clone(),
            state: Mutex::new(State {
                keyring: keys.keyring,
                wanted: Vec::new(),
                asked: BTreeMap::new(),
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the public halves of the keys, and the services with credentials: new ones are a
    /// reason to build again.
    pub fn recipients(&self) -> Vec<String> {
        self.state()
            .keyring
            .recipients()
            .into_iter()
            .chain(self.services.descriptions())
            .collect()
    }

    /// Takes the data keys that a build needs from key services. A build that wants some has left
    /// files encrypted, and must run again.
    pub fn take_wanted(&self) -> Vec<MasterKey> {
        std::mem::take(&mut self.state().wanted)
    }

    /// Decrypts data keys with their services, for the next build.
    pub async fn decrypt_keys(&self, context: &Context<'_>, wanted: Vec<MasterKey>) {
        let answers = self.services.decrypt(context, wanted).await;
        let mut state = self.state();
        for (key, answer) in answers {
            let reason = match answer {
                Ok(data_key) => {
                    state.keyring.add_opened(&key, data_key.expose());
                    None
                }
                Err(refused) => Some(format!("{}: {refused}", key.service)),
            };
            state.asked.insert(key.encrypted, reason);
        }
    }

    /// Decrypts a document; `None` if its data key must first be decrypted by a service.
    fn decrypt(
        &self,
        content: &[u8],
        format: Format,
        name: &str,
    ) -> Result<Option<Vec<u8>>, DecryptError> {
        let mut state = self.state();
        let error = match decrypt_within(content, format, &state.keyring, name, &self.fuel) {
            Ok(plain) => return Ok(Some(plain)),
            Err(error) => error,
        };
        let mut reasons = Vec::new();
        if let SopsError::NoKey { .. } = error {
            let groups = master_keys_within(content, format, name, &self.fuel).unwrap_or_default();
            let served = |key: &MasterKey| self.services.has(&key.service);
            let (keys, others): (Vec<MasterKey>, Vec<MasterKey>) =
                groups.into_iter().flatten().partition(served);
            reasons.extend(keys::hints(&others));
            let known = keys
                .iter()
                .filter_map(|key| state.asked.get(&key.encrypted));
            reasons.extend(known.flatten().cloned());
            let is_new = |key: &MasterKey| !state.asked.contains_key(&key.encrypted);
            let new: Vec<MasterKey> = keys.into_iter().filter(is_new).collect();
            if !new.is_empty() {
                if state.wanted.len() + state.asked.len() + new.len() > MAX_SERVICE_KEYS {
                    return Err(DecryptError::TooMany(name.to_owned()));
                }
                for key in new {
                    if !state.wanted.contains(&key) {
                        state.wanted.push(key);
                    }
                }
                return Ok(None);
            }
        }
        Err(DecryptError::Sops { error, reasons })
    }

    /// Decrypts the entries of a Secret that are SOPS documents themselves: a manifest may have
    /// encrypted files in its `data`.
    ///
    /// # Errors
    /// An entry that cannot be decrypted.
    pub fn object(&self, mut object: Object) -> Result<Object, DecryptError> {
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
            if is_encrypted(&content, format)
                && let Some(plain) = self.decrypt(&content, format, key)?
            {
                *value = STANDARD.encode(plain).into();
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
        let plain = self.decrypt(content, format, path.as_str())?;
        Ok(plain.map(Bytes::from))
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
