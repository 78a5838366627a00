//! The keyring: the keys that may open a file.

use std::fmt;
use std::io::Read as _;

use age::armor::ArmoredReader;
use age::x25519::Identity;
use zeroize::Zeroizing;

use crate::SopsError;
use crate::cipher::DataKey;
use crate::metadata::{KeyService, MasterKey, Metadata};
use crate::openpgp::{self, PgpKey};
use crate::shamir;

/// The keys of one tenant. `Debug` prints only the public recipients; the secret parts are zeroed
/// when dropped.
#[derive(Default)]
pub struct Keyring {
    identities: Vec<Identity>,
    pgp: Vec<PgpKey>,
    opened: Vec<(String, Zeroizing<Vec<u8>>)>,
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let opened = self.opened.len();
        f.debug_struct("Keyring")
            .field("recipients", &self.recipients())
            .field("opened", &opened)
            .finish()
    }
}

/// A data key, or a part of one with its x coordinate, takes 33 bytes.
const DATA_KEY: u64 = 64;

impl Keyring {
    /// Returns a keyring without keys.
    pub fn new() -> Keyring {
        Keyring::default()
    }

    /// Adds age identities in the format of a key file, and of the entries of a Flux decryption
    /// Secret that end in `.agekey`: one `AGE-SECRET-KEY-1...` on each line, with empty lines and
    /// `#` comments between them. `source_name` names their origin in errors. Returns the number of
    /// identities.
    ///
    /// # Errors
    /// [`SopsError::Identity`] with the first line of another form. Identities of plugins and SSH
    /// keys are refused.
    pub fn add_age(&mut self, text: &str, source_name: &str) -> Result<usize, SopsError> {
        let mut found = Vec::new();
        for (i, line) in text.lines().enumerate() {
            let line = line.trim_end();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let fault = |_| SopsError::Identity {
                source_name: source_name.to_owned(),
                line: i + 1,
            };
            found.push(line.parse::<Identity>().map_err(fault)?);
        }
        let count = found.len();
        self.identities.append(&mut found);
        Ok(count)
    }

    /// Adds OpenPGP secret keys in the format of `gpg --export-secret-keys --armor`, one armored
    /// block or more, and of the entries of a Flux decryption Secret that end in `.asc`. Returns
    /// the number of keys.
    ///
    /// # Errors
    /// [`SopsError::PgpKey`]: there is no such block, or a key has a passphrase.
    pub fn add_pgp(&mut self, text: &str, source_name: &str) -> Result<usize, SopsError> {
        let mut found = PgpKey::read_all(text).map_err(|problem| SopsError::PgpKey {
            source_name: source_name.to_owned(),
            problem,
        })?;
        let count = found.len();
        self.pgp.append(&mut found);
        Ok(count)
    }

    /// Adds a data key that another key service decrypted from a [`MasterKey`].
    pub fn add_opened(&mut self, key: &MasterKey, data_key: &[u8]) {
        let data_key = Zeroizing::new(data_key.to_vec());
        self.opened.push((key.encrypted.clone(), data_key));
    }

    /// Returns whether the keyring has no keys.
    pub fn is_empty(&self) -> bool {
        self.identities.is_empty() && self.pgp.is_empty() && self.opened.is_empty()
    }

    /// Returns the recipients that this keyring can open files for: public age recipients, and
    /// fingerprints of OpenPGP keys.
    pub fn recipients(&self) -> Vec<String> {
        let age = self.identities.iter();
        age.map(|identity| identity.to_public().to_string())
            .chain(self.pgp.iter().map(PgpKey::fingerprint))
            .collect()
    }

    /// Decrypts the data key of a file.
    pub(crate) fn data_key(&self, metadata: &Metadata, file: &str) -> Result<DataKey, SopsError> {
        let parts: Vec<_> = metadata
            .groups
            .iter()
            .filter_map(|group| self.open_group(group))
            .collect();
        let secret = match (metadata.groups.len(), parts.as_slice()) {
            (1, [part]) => Some(part.clone()),
            (1, _) => None,
            (_, parts) if parts.len() < metadata.threshold.max(2) => None,
            (_, parts) => shamir::combine(parts),
        };
        let secret = secret.ok_or_else(|| no_key(metadata, parts.len(), file))?;
        DataKey::new(&secret).ok_or_else(|| SopsError::Metadata {
            file: file.to_owned(),
            problem: "the data key is not 32 bytes long".to_owned(),
        })
    }

    /// Opens a group by any of its entries. Entries whose recipient is in the keyring are tried
    /// first, but the name is only a hint.
    fn open_group(&self, group: &[MasterKey]) -> Option<Zeroizing<Vec<u8>>> {
        let ours = self.recipients();
        let (mine, others): (Vec<_>, Vec<_>) =
            group.iter().partition(|key| ours.contains(&key.name));
        mine.into_iter()
            .chain(others)
            .find_map(|key| self.open(key))
    }

    fn open(&self, key: &MasterKey) -> Option<Zeroizing<Vec<u8>>> {
        let opened = self
            .opened
            .iter()
            .find(|(encrypted, _)| *encrypted == key.encrypted);
        if let Some((_, data_key)) = opened {
            return Some(data_key.clone());
        }
        match key.service {
            KeyService::Age if !self.identities.is_empty() => self.open_age(key),
            KeyService::Pgp if !self.pgp.is_empty() => openpgp::open(&self.pgp, &key.encrypted),
            _ => None,
        }
    }

    fn open_age(&self, key: &MasterKey) -> Option<Zeroizing<Vec<u8>>> {
        let decryptor = age::Decryptor::new(ArmoredReader::new(key.encrypted.as_bytes())).ok()?;
        let identities = self
            .identities
            .iter()
            .map(|identity| identity as &dyn age::Identity);
        let mut secret = Zeroizing::new(Vec::new());
        let reader = decryptor.decrypt(identities).ok()?;
        reader.take(DATA_KEY).read_to_end(&mut secret).ok()?;
        Some(secret)
    }
}

fn no_key(metadata: &Metadata, opened: usize, file: &str) -> SopsError {
    let mut recipients = Vec::new();
    let mut services = Vec::new();
    for key in metadata.groups.iter().flatten() {
        match key.service {
            KeyService::Age => recipients.push(key.name.clone()),
            KeyService::Pgp => recipients.push(format!("PGP {}", key.name)),
            service => services.push(format!("{service} {}", key.name)),
        }
    }
    let several = metadata.groups.len() > 1;
    let groups = several.then(|| (opened, metadata.threshold.max(2)));
    SopsError::NoKey {
        file: file.to_owned(),
        recipients,
        services,
        groups,
    }
}
