//! The keys that open the SOPS documents of a Kustomization: those of `spec.decryption.secretRef`, and those that the secret
//! manager has for the namespace. Each kind of key is a [`KeyKind`] of its own, in a module of its own.

mod age;
mod pgp;

use crate::credentials;
use crate::failure::Failure;
use crate::flux::{Decryption, Kustomization, reason};
use crate::kernel::Context;
use driftless_sops::{Keyring, SopsError};

/// The kinds of keys that are known.
const KINDS: [&dyn KeyKind; 2] = [&age::Age, &pgp::Pgp];

/// What OpenPGP keys begin with: the secret of a namespace has no name that tells their kind.
const PGP_BLOCK: &str = "-----BEGIN PGP PRIVATE KEY BLOCK-----";

/// A kind of key.
trait KeyKind: Sync {
    /// How the names of its entries in the Secret of `spec.decryption.secretRef` end (Flux, "Kustomization", decryption).
    fn suffix(&self) -> &'static str;
    /// Adds the keys of an entry; `place` names it in errors.
    ///
    /// # Errors
    /// Text that is not such a key.
    fn add(&self, keyring: &mut Keyring, text: &str, place: &str) -> Result<(), SopsError>;
}

/// The keys of a Kustomization.
///
/// # Errors
/// A Secret that is not there, and keys that cannot be read; no text has a key in it.
pub async fn keyring(
    context: &Context<'_>,
    from: &Kustomization,
    decryption: &Decryption,
) -> Result<Keyring, Failure> {
    if decryption.service_account_name.is_some() {
        let what = "spec.decryption.serviceAccountName (a cloud's key service) is not supported yet: use age or OpenPGP keys";
        return Err(Failure::terminal(reason::UNSUPPORTED, what));
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
                // What opens no document of this installation may open one of Flux's: a document without a key is refused.
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
