//! The keys that decrypt the SOPS documents of a Kustomization: those of
//! `spec.decryption.secretRef`, and those that the secret manager has for the namespace. Each kind
//! of key has its own [`KeyKind`] in its own module, and each service that decrypts over the
//! network its own [`Service`].

mod age;
mod pgp;
mod vault;

use crate::credentials;
use crate::failure::Failure;
use crate::flux::{Decryption, Kustomization, reason};
use crate::kernel::Context;
use crate::ports::{Result as PortResult, Secret};
use async_trait::async_trait;
use driftless_sops::{KeyService, Keyring, MasterKey, SopsError};
use futures::StreamExt as _;
use std::collections::BTreeSet;

/// The supported kinds of keys.
const KINDS: [&dyn KeyKind; 2] = [&age::Age, &pgp::Pgp];

/// The supported key services.
const SERVICES: [&dyn Service; 1] = [&vault::Transit];

/// The number of data keys that are decrypted at the same time.
const CONCURRENCY: usize = 8;

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

/// A service that decrypts data keys over the network.
#[async_trait]
pub trait Service: Sync {
    /// Returns the service that SOPS files name.
    fn service(&self) -> KeyService;
    /// Returns the name of its credentials in the Secret of `spec.decryption.secretRef` (Flux,
    /// "Kustomization", decryption).
    fn entry(&self) -> &'static str;
    /// Decrypts a data key.
    ///
    /// # Errors
    /// The service did not answer, or refused. No message contains credentials.
    async fn decrypt(
        &self,
        context: &Context<'_>,
        key: &MasterKey,
        credentials: &Secret,
    ) -> PortResult<Secret>;
}

/// The keys of a Kustomization.
#[derive(Default)]
pub struct Keys {
    /// The keys themselves.
    pub keyring: Keyring,
    /// The services with credentials.
    pub services: Vec<(&'static dyn Service, Secret)>,
}

/// The result of a service for one data key: the key, or the reason why it is not decrypted.
pub type Answer = (MasterKey, Result<Secret, String>);

/// Returns how the services of these entries could be asked, one text for each service.
pub fn hints(entries: &[MasterKey]) -> BTreeSet<String> {
    let is_at_hand = |key: &&MasterKey| matches!(key.service, KeyService::Age | KeyService::Pgp);
    let entries = entries.iter().filter(|key| !is_at_hand(key));
    let hint = |key: &MasterKey| {
        let service = SERVICES
            .into_iter()
            .find(|one| one.service() == key.service);
        match service {
            Some(service) => format!(
                "{}: the Secret of spec.decryption.secretRef has no entry '{}'",
                key.service,
                service.entry()
            ),
            None => format!("{} is not supported yet", key.service),
        }
    };
    entries.map(hint).collect()
}

/// Decrypts data keys with their services, a few at a time.
pub async fn decrypt(
    context: &Context<'_>,
    services: &[(&'static dyn Service, Secret)],
    keys: Vec<MasterKey>,
) -> Vec<Answer> {
    let answers = keys.into_iter().map(|key| async move {
        let service = services
            .iter()
            .find(|(one, _)| one.service() == key.service);
        let answer = match service {
            Some((service, credentials)) => {
                let answer = service.decrypt(context, &key, credentials).await;
                answer.map_err(|error| format!("{}: {}", key.service, error.message))
            }
            None => Err(format!("{}: credentials are missing", key.service)),
        };
        (key, answer)
    });
    futures::stream::iter(answers)
        .buffered(CONCURRENCY)
        .collect()
        .await
}

/// Reads the keys of a Kustomization.
///
/// # Errors
/// The Secret does not exist, or a key is not valid; no message contains a key.
pub async fn keyring(
    context: &Context<'_>,
    from: &Kustomization,
    decryption: &Decryption,
) -> Result<Keys, Failure> {
    if decryption.service_account_name.is_some() {
        let message = "spec.decryption.serviceAccountName (a cloud's key service) is not supported yet: use age or OpenPGP keys, or HashiCorp Vault";
        return Err(Failure::terminal(reason::UNSUPPORTED, message));
    }
    let namespace = &from.id.namespace;
    let mut keys = Keys::default();
    let failed = |place: &str, error: &dyn std::fmt::Display| {
        Failure::retry(reason::BUILD_FAILED, format!("{place}: {error}"))
    };
    if let Some(reference) = &decryption.secret_ref {
        let place = format!("Secret/{namespace}/{}", reference.name);
        let secret = credentials::secret(&context.hub, namespace, &reference.name).await?;
        let secret = secret.ok_or_else(|| failed(&place, &"the decryption Secret is not found"))?;
        for name in credentials::keys(&secret) {
            let service = SERVICES.into_iter().find(|one| name == one.entry());
            if let (Some(service), Some(entry)) = (service, credentials::entry(&secret, &name)) {
                keys.services.push((service, entry));
                continue;
            }
            let kind = KINDS.into_iter().find(|kind| name.ends_with(kind.suffix()));
            let (Some(kind), Some(entry)) = (kind, credentials::entry(&secret, &name)) else {
                // Entries of other names are keys for Flux's other decryption providers. A document
                // without a key is refused later.
                continue;
            };
            let text = entry.expose_str().unwrap_or_default();
            kind.add(&mut keys.keyring, text, &format!("{place}, key '{name}'"))
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
        kind.add(&mut keys.keyring, text, &name)
            .map_err(|error| failed(&name, &error))?;
    }
    Ok(keys)
}
