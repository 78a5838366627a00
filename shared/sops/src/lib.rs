//! Decryption of SOPS files, with verification of the MAC.
//!
//! A SOPS file is a YAML, JSON or dotenv file whose values are encrypted individually with a data
//! key. Under `sops` it has the data key (encrypted for each recipient), the rules that decide
//! which values are encrypted, and a MAC over all values in the order of the file. [`decrypt`]
//! decrypts it like `sops decrypt` v3:
//!
//! metadata -> data key (a [`Keyring`], Shamir parts of key groups) -> values -> MAC -> the plain
//! file
//!
//! The MAC is always verified: a file without it, or whose values were moved, removed or exchanged,
//! is refused. Because the MAC depends on the order of the values, only a file's original bytes can
//! be decrypted, and not an object whose keys were sorted. Decrypt before anything reads the file.
//!
//! ```
//! use driftless_sops::{Format, Keyring, NewFile, SopsError, decrypt, encrypt};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let identity = age::x25519::Identity::generate();
//! let (recipient, data_key) = (identity.to_public(), [7; 32]);
//! let sealed_key = age::encrypt_and_armor(&recipient, &data_key)?;
//! let mut calls = 0;
//! let new = NewFile {
//!     data_key: &data_key,
//!     age: &[(recipient.to_string(), sealed_key)],
//!     // A program takes this and the data key from the system's random source.
//!     nonce: &mut || {
//!         calls += 1;
//!         Ok([calls; 32])
//!     },
//!     last_modified: "2026-01-02T03:04:05Z",
//!     encrypted_regex: "^data$",
//! };
//! let document = serde_json::json!({"kind": "Secret", "data": {"password": "hunter2"}});
//! let encrypted = encrypt(&document, new, "secret.yaml")?;
//! assert!(encrypted.contains("ENC[") && !encrypted.contains("hunter2"));
//!
//! let mut keys = Keyring::new();
//! let refused = decrypt(encrypted.as_bytes(), Format::Yaml, &keys, "secret.yaml");
//! assert!(matches!(refused, Err(SopsError::NoKey { .. })));
//! # use age::secrecy::ExposeSecret as _;
//! keys.add_age(identity.to_string().expose_secret(), "one.agekey")?;
//! let plain = decrypt(encrypted.as_bytes(), Format::Yaml, &keys, "secret.yaml")?;
//! assert!(String::from_utf8_lossy(&plain).contains("hunter2"));
//! # Ok(())
//! # }
//! ```
//!
//! This crate opens age and OpenPGP keys. The entries for KMS and the other key services are
//! [`MasterKey`]s: a caller that can open one passes the result to [`Keyring::add_opened`].
//!
//! Nothing here touches a disk, an environment, a clock or a network, and no identity runs a
//! plugin.
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod cipher;
mod dotenv;
mod emit;
mod encrypt;
mod error;
mod format;
mod ini;
mod keyring;
mod metadata;
mod openpgp;
mod shamir;
mod tree;
mod walk;

pub use encrypt::{NewFile, encrypt};
pub use error::SopsError;
pub use format::{Format, is_encrypted};
pub use keyring::Keyring;
pub use metadata::{KeyService, MasterKey};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

use driftless_fuel::{Fuel, FuelLimits, Tank};
use metadata::Metadata;
use tree::Tree;

/// Decrypts a file and removes its `sops` metadata.
///
/// The results for JSON, dotenv, INI and binary files equal those of `sops decrypt` v3 byte for
/// byte; YAML files are written as the same document in the same order, without comments, in the
/// layout of [`driftless_manifest::yaml`]. `file` is used only in errors.
///
/// # Errors
/// [`SopsError`], which names the file and the problem, and never repeats content.
pub fn decrypt(
    bytes: &[u8],
    format: Format,
    keys: &Keyring,
    file: &str,
) -> Result<Vec<u8>, SopsError> {
    decrypt_within(bytes, format, keys, file, &Tank::default())
}

/// Decrypts like [`decrypt`], as a part of a step: the work is charged to its fuel.
///
/// # Errors
/// Those of [`decrypt`]; the fuel has run out.
pub fn decrypt_within(
    bytes: &[u8],
    format: Format,
    keys: &Keyring,
    file: &str,
    step: &Tank,
) -> Result<Vec<u8>, SopsError> {
    on_large_stack(|| {
        let fuel = step.part(LIMITS);
        let (mut branches, metadata) = load(bytes, format, file, &fuel)?;
        let data_key = keys.data_key(&metadata, file)?;
        walk::decrypt(&mut branches, &metadata, &data_key, file, &fuel)?;
        emit::emit(&branches, format, file)
    })
}

/// Returns the entries that can open a file, one list for each key group. With more than one group,
/// parts of the data key from several groups are needed.
///
/// # Errors
/// [`SopsError`] if the file or its metadata cannot be parsed.
pub fn master_keys(
    bytes: &[u8],
    format: Format,
    file: &str,
) -> Result<Vec<Vec<MasterKey>>, SopsError> {
    master_keys_within(bytes, format, file, &Tank::default())
}

/// Returns what [`master_keys`] does, as a part of a step: the work is charged to its fuel.
///
/// # Errors
/// Those of [`master_keys`]; the fuel has run out.
pub fn master_keys_within(
    bytes: &[u8],
    format: Format,
    file: &str,
    step: &Tank,
) -> Result<Vec<Vec<MasterKey>>, SopsError> {
    on_large_stack(|| Ok(load(bytes, format, file, &step.part(LIMITS))?.1.groups))
}

/// The stack for a file, whose values may be nested a thousand levels deep. Only the used part
/// takes memory.
const STACK: usize = 64 << 20;

/// Runs `work` on a stack that is large enough for the nesting of any file: a worker of an
/// asynchronous runtime has 2 MiB.
fn on_large_stack<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(STACK / 2, STACK, work)
}

/// The limits of one file, which is in memory three times: encrypted, decrypted, and as output.
const LIMITS: FuelLimits = FuelLimits {
    steps: 20_000_000,
    bytes: 16 << 20,
    nodes: 500_000,
    depth: 1_000,
};

/// Parses a file, and returns its documents without metadata, and the metadata.
fn load(
    bytes: &[u8],
    format: Format,
    file: &str,
    fuel: &Fuel,
) -> Result<(Vec<Tree>, Metadata), SopsError> {
    let out = |out| SopsError::Fuel {
        file: file.to_owned(),
        out,
    };
    fuel.bytes(bytes.len()).map_err(out)?;
    let mut branches = match format {
        Format::Yaml => tree::from_yaml(bytes, file, fuel)?,
        Format::Json | Format::Binary => vec![tree::from_json(bytes, file, fuel)?],
        Format::Dotenv => vec![dotenv::parse(bytes, file, fuel)?],
        Format::Ini => vec![ini::parse(bytes, file, fuel)?],
    };
    let found = match format {
        Format::Dotenv => dotenv::take_metadata(&mut branches, file)?,
        Format::Ini => ini::take_metadata(&mut branches, file)?,
        _ => tree::take_metadata(&mut branches),
    };
    let found = found.ok_or_else(|| SopsError::NotEncrypted {
        file: file.to_owned(),
    })?;
    Ok((branches, Metadata::from_tree(&found, file, fuel)?))
}
