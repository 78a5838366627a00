//! The errors of decryption of a SOPS file.

use driftless_fuel::OutOfFuel;
use driftless_manifest::yaml::YamlError;

/// The error of a SOPS file that could not be decrypted. No variant has content of the file other
/// than names of keys and recipients.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SopsError {
    /// The file has no `sops` metadata.
    #[error("{file}: no sops metadata, so the file is not encrypted with SOPS")]
    NotEncrypted {
        /// The name of the file.
        file: String,
    },
    /// The file is not YAML.
    #[error(transparent)]
    Yaml(#[from] YamlError),
    /// The file exceeds a limit.
    #[error("{file}: {out}, which is the limit for one SOPS file")]
    Fuel {
        /// The name of the file.
        file: String,
        /// The limit that is exceeded.
        out: OutOfFuel,
    },
    /// The file is not valid in its format.
    #[error("{file}:{line}: {problem}")]
    Syntax {
        /// The name of the file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The expectation that is not met.
        problem: &'static str,
    },
    /// The metadata is not valid.
    #[error("{file}: malformed sops metadata: {problem}")]
    Metadata {
        /// The name of the file.
        file: String,
        /// The description of the problem.
        problem: String,
    },
    /// The file is from an services version of sops.
    #[error(
        "{file}: sops version {version} is not supported, expected 3.x (re-encrypt the file with a current sops)"
    )]
    Version {
        /// The name of the file.
        file: String,
        /// The version in the file.
        version: String,
    },
    /// No key opens the file.
    #[error("{file}: no key opens the file{}", no_key(recipients, services, *groups))]
    NoKey {
        /// The name of the file.
        file: String,
        /// The recipients that the file is encrypted for: age recipients, and `PGP FINGERPRINT`.
        recipients: Vec<String>,
        /// The entries of key services.
        services: Vec<String>,
        /// The numbers of key groups that could be opened and that are needed, if there is more
        /// than one group.
        groups: Option<(usize, usize)>,
    },
    /// A value cannot be decrypted.
    #[error("{file}: the value at {path}: {problem}")]
    Value {
        /// The name of the file.
        file: String,
        /// The path of keys to the value.
        path: String,
        /// The description of the problem.
        problem: &'static str,
    },
    /// The MAC does not match the values.
    #[error(
        "{file}: MAC mismatch: the file was changed after it was encrypted (edit it with sops)"
    )]
    Mac {
        /// The name of the file.
        file: String,
    },
    /// A file has no usable OpenPGP secret keys.
    #[error("{source_name}: not OpenPGP secret keys: {problem}")]
    PgpKey {
        /// The name of the file or Secret entry with the keys.
        source_name: String,
        /// The description of the problem.
        problem: &'static str,
    },
    /// A line of a key file is not an age identity.
    #[error("{source_name}:{line}: not an age identity, expected a line AGE-SECRET-KEY-1...")]
    Identity {
        /// The name of the file or Secret entry with the identities.
        source_name: String,
        /// The line, from 1.
        line: usize,
    },
}

fn no_key(recipients: &[String], services: &[String], groups: Option<(usize, usize)>) -> String {
    let mut text = String::new();
    if let Some((opened, needed)) = groups {
        text.push_str(&format!(" ({opened} of {needed} needed key groups opened)"));
    }
    match recipients {
        [] => text.push_str("; the file has no age or PGP recipient"),
        some => text.push_str(&format!("; encrypted for {}", some.join(", "))),
    }
    if !services.is_empty() {
        text.push_str(&format!(
            "; these key services were not asked, or did not open it: {}",
            services.join(", ")
        ));
    }
    text
}

/// A problem of a field of the metadata, for [`SopsError::Metadata`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem(pub String);

impl SopsError {
    /// Returns the error of a line that is not valid in its format.
    pub(crate) fn syntax(file: &str, line: usize, problem: &'static str) -> Self {
        Self::Syntax {
            file: file.to_owned(),
            line,
            problem,
        }
    }
}

impl From<String> for Problem {
    fn from(problem: String) -> Self {
        Self(problem)
    }
}

impl From<&str> for Problem {
    fn from(problem: &str) -> Self {
        Self(problem.to_owned())
    }
}
