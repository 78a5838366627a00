//! SSH signatures, as `ssh-keygen -Y sign -n git` makes them for git:
//! <https://github.com/openssh/openssh-portable/blob/master/PROTOCOL.sshsig>.

use driftless_flux::Invalid;
use ssh_key::authorized_keys::Entry;
use ssh_key::{Algorithm, HashAlg, PublicKey, SshSig};

/// The first line of a signature.
pub(super) const BEGIN: &str = "-----BEGIN SSH SIGNATURE-----";
/// The namespace of git's signatures. A signature for another use, such as a file, is refused.
const NAMESPACE: &str = "git";
/// The greatest number of keys of one Secret.
const KEYS: usize = 1000;

/// Returns the fingerprint of the key that made the signature, one of those in these texts in the
/// format of `authorized_keys`.
///
/// # Errors
/// Flux's message if none of the keys made the signature.
pub(super) fn verify(
    signature: &str,
    payload: &[u8],
    authorized: &[String],
) -> Result<String, Invalid> {
    let signature = SshSig::from_pem(signature.trim())
        .map_err(|error| Invalid::from(format!("unable to unarmor SSH signature: {error}")))?;
    let (mut unread, mut keys, mut is_read) = (None, Vec::new(), false);
    for text in authorized {
        match parse(text) {
            Ok(found) => {
                is_read = true;
                keys.extend(found);
            }
            Err(error) => {
                unread.get_or_insert(error);
            }
        }
    }
    if let (false, Some(error)) = (is_read, unread) {
        return Err(format!("unable to parse authorized keys: {error}").into());
    }
    if keys.len() > KEYS {
        return Err(format!("the Secret has more than {KEYS} SSH keys").into());
    }
    let found = keys
        .iter()
        .find(|key| key.key_data() == signature.public_key());
    let reason = match found {
        None => "public key does not match".to_owned(),
        Some(_) if signature.namespace() != NAMESPACE => "namespace does not match".to_owned(),
        // OpenSSH also refuses these signatures with SHA-1.
        Some(_) if signature.algorithm() == (Algorithm::Rsa { hash: None }) => {
            "signatures of RSA with SHA-1 are refused".to_owned()
        }
        Some(key) => match key.verify(NAMESPACE, payload, &signature) {
            Ok(()) => return Ok(key.fingerprint(HashAlg::Sha256).to_string()),
            Err(_) => "the signature is not valid for this content".to_owned(),
        },
    };
    Err(format!(
        "unable to verify payload with any of the given authorized keys: no matching key\n{reason}"
    )
    .into())
}

/// Parses the keys of one entry. A line that is not a key fails the whole entry, as in Flux.
fn parse(text: &str) -> Result<Vec<PublicKey>, Invalid> {
    let lines = text.lines().enumerate();
    let lines = lines.map(|(index, line)| (index + 1, line.trim()));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let key = |(number, line): (usize, &str)| match line.parse::<Entry>() {
        Ok(entry) => Ok(entry.public_key().clone()),
        Err(_) => Err(format!(
            "unable to parse authorized key: line {number} is not a public SSH key"
        )
        .into()),
    };
    lines.map(key).collect()
}
