//! SOPS documents: parse, verify the MAC, decrypt.
//!
//! A SOPS file is an ordinary YAML, JSON or dotenv file whose values are encrypted one by one with a data key, and which
//! carries under `sops` the data key (encrypted for each recipient), the rules that say which values are encrypted, and a
//! MAC over all values in the order of the file. [`decrypt`] does what `sops decrypt` v3 does with it:
//!
//! metadata -> data key (a [`Keyring`], Shamir parts of key groups) -> values -> MAC -> the plain file
//!
//! The MAC is never skipped: a file that lacks it, or whose values were moved, removed or exchanged, is refused. Because the
//! MAC depends on the order of the values, only a file's own bytes can be decrypted; an object whose keys went through a
//! sorted map cannot. Decrypt before anything reads the file.
//!
//! ```
//! # let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/corpus/sops");
//! # let read = |name: &str| std::fs::read(format!("{corpus}/{name}")).unwrap();
//! # let bytes = read("cases/both-recipients.enc.yaml");
//! # let identity = String::from_utf8(read("one.agekey")).unwrap();
//! use driftless_sops::{Format, Keyring, SopsError, decrypt};
//!
//! let mut keys = Keyring::new();
//! let refused = decrypt(&bytes, Format::Yaml, &keys, "secret.yaml");
//! assert!(matches!(refused, Err(SopsError::NoKey { .. })));
//! keys.add_age(&identity, "one.agekey")?;
//! let plain = decrypt(&bytes, Format::Yaml, &keys, "secret.yaml")?;
//! assert!(!String::from_utf8_lossy(&plain).contains("ENC["));
//! # Ok::<(), SopsError>(())
//! ```
//!
//! age and OpenPGP keys are opened here. The entries for KMS and the other key services are known as [`MasterKey`]s: a caller
//! that can open one hands the result to [`Keyring::add_opened`].
//!
//! Nothing here touches a disk, an environment, a clock or a network, and no identity runs a plugin.
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod cipher;
mod dotenv;
mod emit;
mod error;
mod format;
mod keyring;
mod metadata;
mod openpgp;
mod shamir;
mod tree;
mod walk;

pub use error::SopsError;
pub use format::{Format, is_encrypted};
pub use keyring::Keyring;
pub use metadata::{KeyService, MasterKey};

/// The README's example runs, too.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

use driftless_manifest::{Fuel, FuelLimits};
use metadata::Metadata;
use tree::Tree;

/// Decrypts a file and removes its `sops` metadata.
///
/// JSON, dotenv and binary files come out byte for byte as from `sops decrypt` v3; YAML comes out as the same document in
/// the same order, without comments, in the layout of [`driftless_manifest::yaml`]. `file` is only used in errors.
///
/// # Errors
/// [`SopsError`], which names the file and what was tried, and never repeats content.
pub fn decrypt(
    bytes: &[u8],
    format: Format,
    keys: &Keyring,
    file: &str,
) -> Result<Vec<u8>, SopsError> {
    on_large_stack(|| {
        let fuel = Fuel::new(LIMITS);
        let (mut branches, metadata) = load(bytes, format, file, &fuel)?;
        let data_key = keys.data_key(&metadata, file)?;
        walk::decrypt(&mut branches, &metadata, &data_key, file, &fuel)?;
        emit::emit(&branches, format, file)
    })
}

/// The entries that can open a file, one list for each key group. Where there is more than one group, a part of the data
/// key from each of several groups is needed.
///
/// # Errors
/// [`SopsError`] when the file or its metadata cannot be read.
pub fn master_keys(
    bytes: &[u8],
    format: Format,
    file: &str,
) -> Result<Vec<Vec<MasterKey>>, SopsError> {
    on_large_stack(|| Ok(load(bytes, format, file, &Fuel::new(LIMITS))?.1.groups))
}

/// Stack for a file: its values may be nested a thousand levels deep. Only what is used takes memory.
const STACK: usize = 64 << 20;

/// Runs `work` on a stack that holds whatever a file may nest: a worker of an asynchronous runtime has 2 MiB.
fn on_large_stack<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(STACK / 2, STACK, work)
}

/// What one file may cost: it is in memory as it was read, as it is decrypted, and as it is written.
const LIMITS: FuelLimits = FuelLimits {
    steps: 20_000_000,
    bytes: 16 << 20,
    nodes: 500_000,
    depth: 1_000,
};

/// The documents of a file without their metadata, and the metadata.
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
        Format::Ini => {
            return Err(SopsError::Ini {
                file: file.to_owned(),
            });
        }
    };
    let found = match format {
        Format::Dotenv => dotenv::take_metadata(&mut branches, file)?,
        _ => tree::take_metadata(&mut branches),
    };
    let found = found.ok_or_else(|| SopsError::NotEncrypted {
        file: file.to_owned(),
    })?;
    Ok((branches, Metadata::from_tree(&found, file, fuel)?))
}
