//! The keys that decrypt the SOPS documents of a Kustomization: those of
//! `spec.decryption.secretRef`, and those that the secret manager has for the namespace. Each kind
//! of key has its own [`KeyKind`] in its own module, and each service that decrypts over the
//! network its own [`Service`].

mod age;
mod aws;
mod azure;
mod google;
mod pgp;
mod vault;

use crate::cloud::{self, Account, Exchange};
use crate::credentials;
use crate::failure::Failure;
use crate::flux::{Decryption, Kustomization, reason};
use crate::hub::Settings;
use crate::kernel::Context;
use crate::ports::{PortError, Secret};
use async_trait::async_trait;
use driftless_sops::{KeyService, Keyring, MasterKey, SopsError};
use futures::StreamExt as _;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The supported kinds of keys.
const KINDS: [&dyn KeyKind; 2] = [&age::Age, &pgp::Pgp];

/// The supported key services.
const SERVICES: [&dyn Service; 4] = [
    &aws::Kms,
    &azure::KeyVault,
    &google::CloudKms,
    &vault::Transit,
];

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
    /// Returns whether a service account can identify itself there, by its token.
    fn trusts_accounts(&self) -> bool;
    /// Returns whether the operator named a key of it that the namespace may use with the
    /// installation's own identity.
    fn is_allowed(&self, settings: &Settings, namespace: &str) -> bool;
    /// Decrypts a data key.
    ///
    /// # Errors
    /// The entry of the file or the credentials are not valid; the service did not answer, or
    /// refused. No message contains credentials.
    async fn decrypt(
        &self,
        context: &Context<'_>,
        key: &MasterKey,
        login: &Login,
    ) -> Result<Secret, Failure>;
}

/// The identity that a service is asked with. The first that is there counts, as in Flux: an entry
/// of the Secret, the token of a service account, the installation itself.
#[derive(Clone)]
pub struct Login {
    /// The namespace of the Kustomization.
    pub namespace: String,
    /// The entry of the Secret.
    pub secret: Option<Secret>,
    /// The service account of `spec.decryption.serviceAccountName`, or the operator's default one.
    pub account: Option<Arc<Account>>,
}

impl Login {
    /// Returns a string that differs if the identity does, without a secret byte.
    pub fn describe(&self) -> String {
        match (&self.secret, &self.account) {
            (Some(_), _) => "Secret".to_owned(),
            (None, Some(account)) => account.qualified_name(),
            (None, None) => "installation".to_owned(),
        }
    }
}

/// The keys of a Kustomization.
#[derive(Default)]
pub struct Keys {
    /// The keys themselves.
    pub keyring: Keyring,
    /// The services that can be asked.
    pub services: Vec<(&'static dyn Service, Login)>,
}

/// The result of a service for one data key: the key, or the reason why it is not decrypted.
pub type Answer = (MasterKey, Result<Secret, String>);

/// Returns how the services of these entries could be asked, one text for each service.
pub fn hints(entries: &[MasterKey]) -> BTreeSet<String> {
    let is_local = |key: &&MasterKey| matches!(key.service, KeyService::Age | KeyService::Pgp);
    let entries = entries.iter().filter(|key| !is_local(key));
    let hint = |key: &MasterKey| {
        let service = SERVICES
            .into_iter()
            .find(|one| one.service() == key.service);
        match service {
            Some(service) => format!(
                "{}: the Secret of spec.decryption.secretRef has no entry '{}'{}",
                key.service,
                service.entry(),
                match service.trusts_accounts() {
                    true => ", and spec.decryption.serviceAccountName is not set",
                    false => "",
                }
            ),
            None => format!("{} is not supported yet", key.service),
        }
    };
    entries.map(hint).collect()
}

/// Decrypts data keys with their services, a few at a time.
pub async fn decrypt(
    context: &Context<'_>,
    services: &[(&'static dyn Service, Login)],
    keys: Vec<MasterKey>,
) -> Vec<Answer> {
    let answers = keys.into_iter().map(|key| async move {
        let service = services
            .iter()
            .find(|(one, _)| one.service() == key.service);
        let answer = match service {
            Some((service, login)) => {
                let answer = service.decrypt(context, &key, login).await;
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
    let namespace = &from.id.namespace;
    let mut keys = Keys::default();
    let mut entries: Vec<(&'static dyn Service, Secret)> = Vec::new();
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
                entries.push((service, entry));
                continue;
            }
            let kind = KINDS.into_iter().find(|kind| name.ends_with(kind.suffix()));
            let (Some(kind), Some(entry)) = (kind, credentials::entry(&secret, &name)) else {
                // Flux ignores entries of other names. A document without a key is refused later.
                continue;
            };
            let text = entry.expose_str().unwrap_or_default();
            kind.add(&mut keys.keyring, text, &format!("{place}, key '{name}'"))
                .map_err(|error| failed(&place, &error))?;
        }
    }
    keys.services = services(context, decryption, namespace, entries).await?;
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

/// Returns the services that can be asked, each with the identity for it.
async fn services(
    context: &Context<'_>,
    decryption: &Decryption,
    namespace: &str,
    mut entries: Vec<(&'static dyn Service, Secret)>,
) -> Result<Vec<(&'static dyn Service, Login)>, Failure> {
    let settings = &context.hub.settings;
    let default = settings.default_decryption_service_account.as_deref();
    let own = decryption.service_account_name.as_deref();
    let account = cloud::find(&context.hub, namespace, own.unwrap_or_default(), default).await;
    let account = account.map_err(|error| Failure {
        reason: reason::BUILD_FAILED,
        ..Failure::from(error)
    });
    let account = account?.map(Arc::new);
    let mut services = Vec::new();
    for service in SERVICES {
        let entry = entries
            .iter()
            .position(|(one, _)| one.service() == service.service());
        let login = Login {
            namespace: namespace.to_owned(),
            secret: entry.map(|at| entries.swap_remove(at).1),
            account: account.clone().filter(|_| service.trusts_accounts()),
        };
        let has_identity = login.secret.is_some() || login.account.is_some();
        if has_identity || service.is_allowed(settings, namespace) {
            services.push((service, login));
        }
    }
    Ok(services)
}

/// Returns the failure for an entry of a file, or of a Secret, that is not valid.
fn invalid(message: impl std::fmt::Display) -> Failure {
    Failure::retry(reason::BUILD_FAILED, message)
}

fn exchange<'a>(context: &'a Context<'_>) -> Exchange<'a> {
    Exchange {
        ports: context.ports,
        hub: &context.hub,
        audiences: Vec::new(),
    }
}

fn failed(error: &PortError) -> Failure {
    Failure::port(reason::BUILD_FAILED, error)
}
