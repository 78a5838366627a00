//! Identities of age.

use super::KeyKind;
use driftless_sops::{Keyring, SopsError};

/// Identities of the form `AGE-SECRET-KEY-1...`, one per line.
pub struct Age;

impl KeyKind for Age {
    fn suffix(&self) -> &'static str {
        ".agekey"
    }

    fn add(&self, keyring: &mut Keyring, text: &str, place: &str) -> Result<(), SopsError> {
        keyring.add_age(text, place).map(|_| ())
    }
}
