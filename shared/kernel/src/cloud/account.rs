//! The service account whose identity an object uses at a cloud.

use crate::credentials;
use crate::failure::Failure;
use crate::failure::TargetError;
use crate::hub::Hub;
use crate::ports::{Ports, Token, TokenRequest};
use driftless_flux::reason;
use driftless_manifest::Object;
use serde_json::Value;

/// A service account of the hub whose tokens a cloud accepts.
pub struct Account {
    /// The name of the ServiceAccount.
    pub name: String,
    /// The namespace of the ServiceAccount, which is that of the object that names it.
    pub namespace: String,
    object: Object,
}

impl Account {
    /// Returns the value of an annotation, or an empty string without it.
    pub fn annotation(&self, name: &str) -> &str {
        let annotations = self.object.pointer("/metadata/annotations");
        let text = annotations.and_then(|all| all.get(name)?.as_str());
        text.unwrap_or_default()
    }

    /// Returns the names of the Secrets with registry logins (`imagePullSecrets`).
    pub fn pull_secrets(&self) -> Vec<&str> {
        let all = self.object.pointer("/imagePullSecrets");
        let all = all.and_then(Value::as_array).into_iter().flatten();
        all.filter_map(|one| one.get("name")?.as_str()).collect()
    }

    /// Returns `NAMESPACE/NAME`, for messages.
    pub fn qualified_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// Returns whether this is a valid name of a service account.
pub fn is_account_name(name: &str) -> bool {
    let fits = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.')
    };
    (1..=253).contains(&name.len()) && name.bytes().all(fits)
}

/// Reads the service account that an object names, else the operator's default one; returns nothing
/// without any name.
///
/// # Errors
/// The account does not exist, or its name is not valid.
pub async fn find(
    hub: &Hub,
    namespace: &str,
    own: &str,
    default: Option<&str>,
) -> Result<Option<Account>, TargetError> {
    let (name, is_default) = match default {
        _ if !own.is_empty() => (own, false),
        Some(name) if !name.is_empty() => (name, true),
        _ => return Ok(None),
    };
    if !is_account_name(name) {
        let message = format!(
            "'{}' is not a valid service account name",
            name.escape_debug()
        );
        return Err(Failure::terminal(reason::ACCESS_DENIED, message).into());
    }
    let prefix = format!("failed to get service account '{namespace}/{name}'");
    match credentials::read(hub, "ServiceAccount", namespace, name).await? {
        Some(object) => Ok(Some(Account {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            object,
        })),
        None if is_default => {
            let message = "the specified default service account does not exist in the object namespace. your cluster is subject to \
                        multi-tenant workload identity lockdown, reach out to your cluster administrator for help";
            Err(Failure::retry(reason::FAILED, message)
                .context(prefix)
                .into())
        }
        None => {
            let message = format!("{prefix}: ServiceAccount \"{name}\" not found");
            Err(TargetError::Gone(Failure::retry(reason::FAILED, message)))
        }
    }
}

/// A client that requests tokens of service accounts.
pub struct Exchange<'a> {
    /// The ports, for the time.
    pub ports: &'a Ports,
    /// The hub that has the accounts.
    pub hub: &'a Hub,
    /// The audiences of the tokens; if empty, each cloud's own audience is used.
    pub audiences: Vec<String>,
}

impl<'a> Exchange<'a> {
    /// Creates a client for each cloud's own audience.
    pub fn new(ports: &'a Ports, hub: &'a Hub) -> Self {
        Self {
            ports,
            hub,
            audiences: Vec::new(),
        }
    }

    /// Requests a token for `self.audiences`, or for `audience` if there are none.
    ///
    /// # Errors
    /// The hub's.
    pub async fn token(&self, account: &Account, audience: &str) -> Result<Token, Failure> {
        let audiences = match self.audiences.is_empty() {
            true => vec![audience.to_owned()],
            false => self.audiences.clone(),
        };
        let request = TokenRequest {
            namespace: account.namespace.clone(),
            account: account.name.clone(),
            uid: account.object.meta("uid").to_owned(),
            audiences,
        };
        let answer = self
            .hub
            .cluster
            .token(&request, self.ports.clock.now())
            .await;
        answer.map_err(|error| {
            let prefix = format!(
                "failed to create kubernetes token for service account '{}'",
                account.qualified_name()
            );
            Failure::from(error).context(prefix)
        })
    }
}
