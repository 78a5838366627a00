//! OpenPGP secret keys.

use super::KeyKind;
use driftless_sops::{Keyring, SopsError};

/// Armored blocks, as `gpg --export-secret-keys --armor` writes them.
pub struct Pgp;

impl KeyKind for Pgp {
    fn suffix(&self) -> &'static str {
        ".asc"
    }

    fn add(&self, keyring: &mut Keyring, text: &str, place: &str) -> Result<(), SopsError> {
        keyring.add_pgp(text, place).map(|_| ())
    }
}
