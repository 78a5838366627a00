//! Why a SOPS file could not be decrypted.

use driftless_manifest::OutOfFuel;
use driftless_manifest::yaml::YamlError;

/// Why a SOPS file could not be decrypted. No variant holds content of the file beyond names of keys and of recipients.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SopsError {
    /// No `sops` metadata.
    #[error("{file}: no sops metadata, so the file is not encrypted with SOPS")]
    NotEncrypted {
        /// The file.
        file: String,
    },
    /// The file is not YAML.
    #[error(transparent)]
    Yaml(#[from] YamlError),
    /// The file costs more than one may.
    #[error("{file}: {out}, which is the limit for one SOPS file")]
    Fuel {
        /// The file.
        file: String,
        /// What ran out.
        out: OutOfFuel,
    },
    /// The file is not in its format.
    #[error("{file}:{line}: {what}")]
    Syntax {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What was expected.
        what: &'static str,
    },
    /// Metadata that is not as sops writes it.
    #[error("{file}: malformed sops metadata: {what}")]
    Metadata {
        /// The file.
        file: String,
        /// What is wrong.
        what: String,
    },
    /// A file of another generation of sops.
    #[error(
        "{file}: sops version {version} is not supported, expected 3.x (re-encrypt the file with a current sops)"
    )]
    Version {
        /// The file.
        file: String,
        /// The version that stands in the file.
        version: String,
    },
    /// INI files.
    #[error("{file}: SOPS files in INI format are not supported; use dotenv, YAML or JSON")]
    Ini {
        /// The file.
        file: String,
    },
    /// None of the keys opens the file.
    #[error("{file}: no key opens the file{}", no_key(recipients, unsupported, *groups))]
    NoKey {
        /// The file.
        file: String,
        /// The recipients that the file is encrypted for: of age, and `PGP FINGERPRINT`.
        recipients: Vec<String>,
        /// The other entries, for which there is no support.
        unsupported: Vec<String>,
        /// Key groups that could be opened and that are needed, where there is more than one group.
        groups: Option<(usize, usize)>,
    },
    /// A value that cannot be decrypted.
    #[error("{file}: the value at {path}: {what}")]
    Value {
        /// The file.
        file: String,
        /// The keys that lead to the value.
        path: String,
        /// What is wrong.
        what: &'static str,
    },
    /// The MAC does not fit the values.
    #[error(
        "{file}: MAC mismatch: the file was changed after it was encrypted (edit it with sops)"
    )]
    Mac {
        /// The file.
        file: String,
    },
    /// A text that is not of OpenPGP secret keys that can be used.
    #[error("{source_name}: not OpenPGP secret keys: {what}")]
    PgpKey {
        /// Where the text came from.
        source_name: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A key file with something else in it than age identities.
    #[error("{source_name}:{line}: not an age identity, expected a line AGE-SECRET-KEY-1...")]
    Identity {
        /// Where the key came from.
        source_name: String,
        /// The line, from 1.
        line: usize,
    },
}

fn no_key(recipients: &[String], unsupported: &[String], groups: Option<(usize, usize)>) -> String {
    let mut text = String::new();
    if let Some((opened, needed)) = groups {
        text.push_str(&format!(" ({opened} of {needed} needed key groups opened)"));
    }
    match recipients {
        [] => text.push_str("; it has no age or PGP recipient"),
        some => text.push_str(&format!("; it is encrypted for {}", some.join(", "))),
    }
    if !unsupported.is_empty() {
        text.push_str(&format!(
            "; the keys of these services are not supported: {}",
            unsupported.join(", ")
        ));
    }
    text
}
