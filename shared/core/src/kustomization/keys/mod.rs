//! The keys that decrypt the SOPS documents of a Kustomization: those of
//! `spec.decryption.secretRef`, and those that the secret manager has for the namespace. Each kind
//! of key has its own [`KeyKind`] in its own module.

mod age;
mod pgp;

use crate::credentials;
use crate::failure::Failure;
use crate::flux::{Decryption, Kustomization, reason};
use crate::kernel::Context;
use driftless_sops::{Keyring, SopsError};

/// The supported kinds of keys.
const KINDS: [&dyn KeyKind; 2] = [&age::Age, &pgp::Pgp];

/// The first line of OpenPGP keys. It identifies them in the secret of a namespace, whose entries
/// have no names.
const PGP_BLOCK: &str = "-----BEGIN PGP PRIVATE KEY BLOCK-----";

/// A mechanism that decrypts the data keys of SOPS files, such as age or OpenPGP.
trait KeyKind: Sync {
    /// Returns the suffix of the names of its entries in the Secret of `spec.decryption.secretRef`
    /// (Flux, "Kustomization", decryption).
    fn suffix(&self) -> &'static str;
    /// Adds the keys of an entry; errors name it as `place`.
    ///
    /// # Errors
    /// The entry is not a key of this kind.
    fn add(&self, keyring: &mut Keyring, text: &str, place: &str) -> Result<(), SopsError>;
}

/// Reads the keys of a Kustomization.
///
/// # Errors
/// The Secret does not exist, or a key is not valid; no message contains a key.
pub async fn keyring(
    context: &Context<'_>,
    from: &Kustomization,
    decryption: &Decryption,
) -> Result<Keyring, Failure> {
    if decryption.service_account_name.is_some() {
        let message = "spec.decryption.serviceAccountName (a cloud's key service) is not supported yet: use age or OpenPGP keys";
        return Err(Failure::terminal(reason::UNSUPPORTED, message));
    }
    let namespace = &from.id.namespace;
    let mut keyring = Keyring::new();
    let failed = |place: &str, error: &dyn std::fmt::Display| {
        Failure::retry(reason::BUILD_FAILED, format!("{place}: {error}"))
    };
    if let Some(reference) = &decryption.secret_ref {
        let place = format!("Secret/{namespace}/{}", reference.name);
        let secret = credentials::secret(&context.hub, namespace, &reference.name).await?;
        let secret = secret.ok_or_else(|| failed(&place, &"the decryption Secret is not found"))?;
        for name in credentials::keys(&secret) {
            let kind = KINDS.into_iter().find(|kind| name.ends_with(kind.suffix()));
            let (Some(kind), Some(entry)) = (kind, credentials::entry(&secret, &name)) else {
                // Entries of other names are keys for Flux's other decryption providers. A document
                // without a key is refused later.
                continue;
            };
            let text = entry.expose_str().unwrap_or_default();
            kind.add(&mut keyring, text, &format!("{place}, key '{name}'"))
                .map_err(|error| failed(&place, &error))?;
        }
    }
    let name = format!("tenants/{}/{namespace}", context.hub.settings.name);
    if let Some(entry) = context.ports.secrets.secret(&name).await? {
        let text = entry.expose_str().unwrap_or_default();
        let kind: &dyn KeyKind = match text.contains(PGP_BLOCK) {
            true => &pgp::Pgp,
            false => &age::Age,
        };
        kind.add(&mut keyring, text, &name)
            .map_err(|error| failed(&name, &error))?;
    }
    Ok(keyring)
}
