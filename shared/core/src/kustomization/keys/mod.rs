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

use async_trait::async_trait;
use driftless_flux::{Decryption, Invalid, Kustomization, reason};
use driftless_kernel::cloud::{self, Account};
use driftless_kernel::context::Context;
use driftless_kernel::credentials;
use driftless_kernel::failure::Failure;
use driftless_kernel::hub::Settings;
use driftless_kernel::ports::{KeyRequest, Secret};
use driftless_manifest::yaml::{Dialect, Limits, documents};
use driftless_sops::{KeyService, Keyring, MasterKey, SopsError};
use futures::StreamExt as _;
use serde_json::Value;
use std::collections::BTreeSet;

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
    fn is_allowed(&self, _settings: &Settings, _namespace: &str) -> bool {
        false
    }
    /// Returns the request that decrypts a data key of a Kustomization in `namespace`.
    ///
    /// # Errors
    /// The entry of the file or the credentials are not valid, or a cloud gives the identity no
    /// token. No message contains credentials.
    async fn request(
        &self,
        context: &Context<'_>,
        namespace: &str,
        key: &MasterKey,
        identity: Identity<'_>,
    ) -> Result<KeyRequest, Failure>;
}

/// The identity that a service is asked with.
#[derive(Clone, Copy)]
pub enum Identity<'a> {
    /// An entry of the Secret.
    Secret(&'a Secret),
    /// A service account, by its token.
    Account(&'a Account),
    /// The installation itself.
    Installation,
}

/// The source of the identity for a service. The first that exists counts, as in Flux.
#[derive(Clone)]
pub enum Login {
    /// An entry of the Secret.
    Secret(Secret),
    /// The service account of the Kustomization.
    Account,
    /// The installation itself.
    Installation,
}

/// The service account of `spec.decryption.serviceAccountName`, or the operator's default one. It
/// is read only when a service is asked: a Kustomization with other keys does not need it.
#[derive(Clone, Default)]
pub struct AccountName {
    namespace: String,
    own: String,
    default: String,
}

impl AccountName {
    fn is_empty(&self) -> bool {
        self.own.is_empty() && self.default.is_empty()
    }

    async fn find(&self, context: &Context<'_>) -> Result<Option<Account>, Refused> {
        let default = Some(self.default.as_str());
        let found = cloud::find(&context.hub, &self.namespace, &self.own, default).await;
        found.map_err(|error| Failure::from(error).into())
    }
}

/// The services that can be asked, and the identities for them.
#[derive(Default)]
pub struct Services {
    all: Vec<(&'static dyn Service, Login)>,
    account: AccountName,
}

impl Services {
    /// Returns whether a service can be asked.
    pub fn has(&self, service: &KeyService) -> bool {
        self.login(service).is_some()
    }

    fn login(&self, service: &KeyService) -> Option<&(&'static dyn Service, Login)> {
        self.all.iter().find(|(one, _)| one.service() == *service)
    }

    /// Returns the services with their identities, without a secret byte.
    pub fn descriptions(&self) -> impl Iterator<Item = String> {
        let AccountName {
            namespace,
            own,
            default,
        } = &self.account;
        let account = match own.is_empty() {
            true => default,
            false => own,
        };
        self.all.iter().map(move |(service, login)| {
            let identity = match login {
                Login::Secret(_) => "Secret".to_owned(),
                Login::Account => format!("{namespace}/{account}"),
                Login::Installation => "installation".to_owned(),
            };
            format!("{}: {identity}", service.service())
        })
    }

    /// Decrypts data keys with their services, a few at a time.
    pub async fn decrypt(&self, context: &Context<'_>, keys: Vec<MasterKey>) -> Vec<Answer> {
        let logins = keys.iter().filter_map(|key| self.login(&key.service));
        let account = match logins
            .map(|(_, login)| login)
            .any(|one| matches!(one, Login::Account))
        {
            true => self.account.find(context).await,
            false => Ok(None),
        };
        let account = &account;
        let answers = keys.into_iter().map(|key| async move {
            let answer = self.answer(context, account, &key).await;
            (key, answer)
        });
        futures::stream::iter(answers)
            .buffered(CONCURRENCY)
            .collect()
            .await
    }

    async fn answer(
        &self,
        context: &Context<'_>,
        account: &Result<Option<Account>, Refused>,
        key: &MasterKey,
    ) -> Result<Secret, Refused> {
        let (service, login) = self.login(&key.service).ok_or(Refused::NoCredentials)?;
        let identity = match login {
            Login::Secret(entry) => Identity::Secret(entry),
            Login::Account => match account {
                Ok(account) => Identity::Account(account.as_ref().ok_or(Refused::NoCredentials)?),
                Err(refused) => return Err(refused.clone()),
            },
            Login::Installation => Identity::Installation,
        };
        let namespace = &self.account.namespace;
        let request = service.request(context, namespace, key, identity).await?;
        let now = context.ports.clock.now();
        let services = &context.ports.clouds.key_services;
        let answer = services.decrypt(&request, &key.encrypted, now).await;
        answer.map_err(|error| Failure::port(reason::BUILD_FAILED, &error).into())
    }
}

/// The reason why a service does not decrypt a data key. Never contains a credential.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Refused {
    /// No credentials for the service are known.
    #[error("credentials are missing")]
    NoCredentials,
    /// The request failed, with this message for the status.
    #[error("{0}")]
    Failed(String),
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure.message)
    }
}

/// The keys of a Kustomization.
#[derive(Default)]
pub struct Keys {
    /// The keys themselves.
    pub keyring: Keyring,
    /// The services that can be asked.
    pub services: Services,
}

/// The result of a service for one data key.
pub type Answer = (MasterKey, Result<Secret, Refused>);

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
    keys.services = services(&context.hub.settings, decryption, namespace, entries);
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
fn services(
    settings: &Settings,
    decryption: &Decryption,
    namespace: &str,
    mut entries: Vec<(&'static dyn Service, Secret)>,
) -> Services {
    let name = |name: &Option<String>| name.clone().unwrap_or_default();
    let account = AccountName {
        namespace: namespace.to_owned(),
        own: name(&decryption.service_account_name),
        default: name(&settings.default_decryption_service_account),
    };
    let mut login = |service: &'static dyn Service| {
        let is_own = |(one, _): &(&dyn Service, Secret)| one.service() == service.service();
        if let Some(at) = entries.iter().position(is_own) {
            Some(Login::Secret(entries.swap_remove(at).1))
        } else if service.trusts_accounts() && !account.is_empty() {
            Some(Login::Account)
        } else {
            let is_allowed = service.is_allowed(settings, namespace);
            is_allowed.then_some(Login::Installation)
        }
    };
    let all = SERVICES.into_iter();
    let all = all.filter_map(|service| Some((service, login(service)?)));
    Services {
        all: all.collect(),
        account,
    }
}

/// Reads the YAML of an entry of the Secret, such as `sops.aws-kms`. Returns the first non-empty
/// string of the given fields.
///
/// # Errors
/// The entry is not YAML. The message does not quote it.
fn fields<'a>(
    entry: &Secret,
    name: &str,
) -> Result<impl Fn(&[&'a str]) -> Option<String>, Invalid> {
    let values = documents(entry.expose(), name, Dialect::V2, &Limits::default());
    // The error of the parser may quote the entry.
    let values = values.map_err(|_| entry_problem(name, "is not valid YAML"))?;
    let value = values.into_iter().next().unwrap_or(Value::Null);
    Ok(move |names: &[&str]| {
        let mut texts = names.iter().filter_map(|name| value.get(name)?.as_str());
        texts.find(|text| !text.is_empty()).map(str::to_owned)
    })
}

/// Returns the error of an entry of the Secret.
fn entry_problem(name: &str, problem: &str) -> Invalid {
    Invalid::new(format!("the entry '{name}' of the Secret {problem}"))
}

/// Returns the failure for an entry of a file, or of a Secret, that is not valid.
fn invalid(message: impl std::fmt::Display) -> Failure {
    Failure::retry(reason::BUILD_FAILED, message)
}
