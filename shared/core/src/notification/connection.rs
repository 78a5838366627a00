//! The address, the login and the connection of a Provider.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use driftless_flux::{Alert, LocalRef, Provider, reason};
use driftless_kernel::cloud::{self, Exchange, azure, google};
use driftless_kernel::context::Context;
use driftless_kernel::credentials;
use driftless_kernel::failure::Failure;
use driftless_kernel::ports::{Connection, Secret};
use driftless_manifest::Object;
use driftless_notify::Settings;
use driftless_source::connection as of_source;
use driftless_source::secret::{SourceSecret, certificates};
use std::collections::BTreeMap;
use std::time::Duration;
use url::{Url, form_urlencoded};

/// The longest address in a Secret, in bytes, as in Flux.
const MAX_ADDRESS: usize = 2048;
/// The longest time limit of a request: a step has two minutes for all of its notifications.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The start of the errors of connections.
const PREFIX: &str = "failed to initialize notifier";

/// The cloud whose identity a type of Provider may use.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cloud {
    AzureDevOps,
    AzureEventHub,
    Google,
}

fn cloud(provider: &Provider) -> Option<Cloud> {
    match &*provider.spec.kind {
        "azuredevops" => Some(Cloud::AzureDevOps),
        "azureeventhub" => Some(Cloud::AzureEventHub),
        "googlepubsub" => Some(Cloud::Google),
        _ => None,
    }
}

/// Checks the fields that need no other object.
///
/// # Errors
/// A field is not supported for the type.
pub(super) fn check(provider: &Provider) -> Result<(), Failure> {
    let kind = &provider.spec.kind;
    let account = provider.spec.service_account_name.as_deref();
    if account.is_some_and(|account| !account.is_empty()) && cloud(provider).is_none() {
        let message = format!(
            "spec.serviceAccountName is not supported for the type '{}': expected azureeventhub, azuredevops or googlepubsub",
            kind.escape_debug()
        );
        return Err(Failure::terminal(reason::INVALID_CONFIG, message));
    }
    Ok(())
}

/// The connection and the settings that the notifications of a Provider have in common.
pub(super) struct Link {
    pub connection: Connection,
    settings: Settings,
}

impl Link {
    /// Returns the settings of one notification.
    pub fn settings(&self, alert: &Alert, commit_status: String) -> Settings {
        Settings {
            commit_status,
            alert: driftless_notify::Alert {
                namespace: alert.id.namespace.clone(),
                name: alert.id.name.clone(),
                uid: alert.object.meta("uid").to_owned(),
            },
            ..self.settings.clone()
        }
    }
}

/// Reads the Secrets of a Provider, and requests the token of its identity.
///
/// # Errors
/// A Secret is missing or not valid, or the cloud refuses the identity.
pub(super) async fn link(context: &Context<'_>, provider: &Provider) -> Result<Link, Failure> {
    let (spec, namespace) = (&provider.spec, &provider.id.namespace);
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let secret = match &spec.secret_ref {
        Some(reference) => Some(secret(context, namespace, reference).await?),
        None => None,
    };
    let data = secret.as_ref().map(data).unwrap_or_default();
    let mut settings = Settings {
        kind: spec.kind.clone(),
        address: text(&spec.address),
        channel: text(&spec.channel),
        username: text(&spec.username),
        provider_uid: provider.object.meta("uid").to_owned(),
        provider_namespace: namespace.clone(),
        provider_name: provider.id.name.clone(),
        ..Settings::default()
    };
    if let Some(address) = data.get("address") {
        if address.len() > MAX_ADDRESS {
            let message = format!(
                "{PREFIX}: invalid address in secret: address exceeds maximum length of {MAX_ADDRESS} bytes"
            );
            return Err(failed(message));
        }
        settings.address = String::from_utf8_lossy(address).trim().to_owned();
    }
    let connection = connection(context, provider, &data).await?;
    settings.withheld = proxy_login(connection.proxy.as_ref());
    settings.identity = identity(context, provider, &data).await?;
    settings.secret = data;
    Ok(Link {
        connection,
        settings,
    })
}

async fn connection(
    context: &Context<'_>,
    provider: &Provider,
    data: &BTreeMap<String, Vec<u8>>,
) -> Result<Connection, Failure> {
    let (spec, namespace) = (&provider.spec, &provider.id.namespace);
    let timeout = provider.timeout();
    let timeout = timeout
        .map_err(|error| Failure::terminal(reason::INVALID_CONFIG, &error).caused_by(error))?;
    let mut connection = Connection {
        allow_local: context.hub.settings.allow_local_clusters,
        timeout: timeout.min(LONGEST_TIMEOUT),
        ..Connection::default()
    };
    let given = spec.proxy.clone().filter(|proxy| !proxy.is_empty());
    connection.proxy = given.map(Secret::new);
    if let Some(proxy) = data.get("proxy") {
        let proxy = proxy.trim_ascii().to_vec();
        connection.proxy = (!proxy.is_empty()).then(|| Secret::new(proxy));
    }
    let reference = spec.proxy_secret_ref.as_ref();
    let proxy = of_source::proxy(context, namespace, reference, "failed to get proxy URL");
    if let Some(proxy) = proxy.await? {
        connection.proxy = Some(proxy);
    }
    let prefix = "failed to get TLS config";
    match (&spec.cert_secret_ref, &spec.secret_ref) {
        (Some(reference), _) => {
            certificates(context, namespace, Some(reference), &mut connection, prefix).await?;
        }
        // As in Flux, only these types read certificates from the Secret of the login.
        (None, Some(reference)) if provider.is_commit_status() => {
            if let Some(secret) = SourceSecret::find(context, namespace, &reference.name).await? {
                let read = secret.certificates(&mut connection, true);
                read.map_err(|error| failed(format!("{prefix}: {error}")))?;
            }
        }
        _ => {}
    }
    Ok(connection)
}

/// Returns the password of a proxy in the forms in which an answer may repeat it.
fn proxy_login(proxy: Option<&Secret>) -> Vec<String> {
    let proxy = proxy.and_then(Secret::expose_str);
    let Some(proxy) = proxy.and_then(|proxy| Url::parse(proxy).ok()) else {
        return Vec::new();
    };
    let plain = |part: &str| {
        let form = format!("part={}", part.replace('+', "%2B").replace('&', "%26"));
        let mut parts = form_urlencoded::parse(form.as_bytes());
        parts
            .next()
            .map(|(_, part)| part.into_owned())
            .unwrap_or_default()
    };
    let Some(encoded) = proxy.password() else {
        return Vec::new();
    };
    let (user, password) = (plain(proxy.username()), plain(encoded));
    let basic = STANDARD.encode(format!("{user}:{password}"));
    vec![encoded.to_owned(), password, basic]
}

async fn secret(
    context: &Context<'_>,
    namespace: &str,
    reference: &LocalRef,
) -> Result<Object, Failure> {
    let name = &reference.name;
    let found = credentials::secret(&context.hub, namespace, name).await?;
    found.ok_or_else(|| {
        failed(format!(
            "{PREFIX}: failed to get secret '{namespace}/{name}': secrets \"{name}\" not found"
        ))
    })
}

fn data(secret: &Object) -> BTreeMap<String, Vec<u8>> {
    let entry = |key: String| {
        let value = credentials::entry(secret, &key)?;
        Some((key, value.expose().to_vec()))
    };
    credentials::keys(secret)
        .into_iter()
        .filter_map(entry)
        .collect()
}

/// Returns the token of the identity of `spec.serviceAccountName`, where the type has one and the
/// Secret has no token.
async fn identity(
    context: &Context<'_>,
    provider: &Provider,
    data: &BTreeMap<String, Vec<u8>>,
) -> Result<Option<String>, Failure> {
    let Some(cloud) = cloud(provider) else {
        return Ok(None);
    };
    let name = provider.spec.service_account_name.as_deref();
    let name = name.unwrap_or_default();
    let has_token = data.get("token").is_some_and(|token| !token.is_empty());
    if has_token || (name.is_empty() && cloud == Cloud::AzureEventHub) {
        return Ok(None);
    }
    let account = cloud::find(&context.hub, &provider.id.namespace, name, None).await;
    let account = account.map_err(|error| Failure::from(error.context(PREFIX)))?;
    let Some(account) = account else {
        return Ok(None);
    };
    let (now, clouds) = (context.ports.clock.now(), &context.ports.clouds);
    let exchange = Exchange::new(context.ports, &context.hub);
    let token = match cloud {
        Cloud::AzureDevOps => {
            let identity = azure::identity(&exchange, &account).await?;
            clouds.azure.git(&identity, now).await
        }
        Cloud::AzureEventHub => {
            let identity = azure::identity(&exchange, &account).await?;
            clouds.azure.event_hub(&identity, now).await
        }
        Cloud::Google => {
            let identity = google::identity(&exchange, &account).await?;
            clouds.google.token(&identity, now).await
        }
    };
    let token = token.map_err(|error| {
        let failure = Failure::port(reason::NOTIFICATION_FAILED, &error);
        failure.context(format!("{PREFIX}: failed to get token"))
    })?;
    Ok(token.secret.expose_str().map(str::to_owned))
}

fn failed(message: String) -> Failure {
    Failure::retry(reason::NOTIFICATION_FAILED, message)
}
