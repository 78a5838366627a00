//! The service account that an object acts as towards a cloud.

use crate::credentials;
use crate::failure::Failure;
use crate::failure::TargetError;
use crate::flux::reason;
use crate::hub::Hub;
use crate::ports::{Ports, Token, TokenRequest};
use driftless_manifest::Object;
use serde_json::Value;

/// A service account whose tokens say who asks.
pub struct Account {
    /// Its name.
    pub name: String,
    /// Its namespace: that of the object which names it.
    pub namespace: String,
    object: Object,
}

impl Account {
    /// What an annotation says; nothing when it is not there.
    pub fn annotation(&self, name: &str) -> &str {
        let annotations = self.object.pointer("/metadata/annotations");
        let text = annotations.and_then(|all| all.get(name)?.as_str());
        text.unwrap_or_default()
    }

    /// The names of its Secrets with logins of registries (`imagePullSecrets`).
    pub fn pull_secrets(&self) -> Vec<&str> {
        let all = self.object.pointer("/imagePullSecrets");
        let all = all.and_then(Value::as_array).into_iter().flatten();
        all.filter_map(|one| one.get("name")?.as_str()).collect()
    }

    /// `NAMESPACE/NAME`, for messages.
    pub fn shown(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// Whether a service account can have this name.
pub(crate) fn is_account_name(name: &str) -> bool {
    let fits = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.')
    };
    (1..=253).contains(&name.len()) && name.bytes().all(fits)
}

/// The service account that an object names, else the operator's default one; none when there is no name at all.
///
/// # Errors
/// It is not there, or the name is none.
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
        let what = format!(
            "'{}' is not a valid service account name",
            name.escape_debug()
        );
        return Err(Failure::terminal(reason::ACCESS_DENIED, what).into());
    }
    let lead = format!("failed to get service account '{namespace}/{name}'");
    match credentials::read(hub, "ServiceAccount", namespace, name).await? {
        Some(object) => Ok(Some(Account {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            object,
        })),
        None if is_default => {
            let what = "the specified default service account does not exist in the object namespace. your cluster is subject to \
                        multi-tenant workload identity lockdown, reach out to your cluster administrator for help";
            Err(Failure::retry(reason::FAILED, what).context(lead).into())
        }
        None => {
            let what = format!("{lead}: ServiceAccount \"{name}\" not found");
            Err(TargetError::Gone(Failure::retry(reason::FAILED, what)))
        }
    }
}

/// Where tokens of service accounts come from.
pub struct Exchange<'a> {
    /// What a step works with.
    pub ports: &'a Ports,
    /// Whose accounts they are.
    pub hub: &'a Hub,
    /// For whom the tokens are; each cloud's own audience when there is none.
    pub audiences: Vec<String>,
}

impl Exchange<'_> {
    /// A token of an account for the audiences that are told, else for one.
    ///
    /// # Errors
    /// The hub's.
    pub async fn token(&self, account: &Account, audience: &str) -> Result<Token, Failure> {
        let audiences = match self.audiences.is_empty() {
            true => vec![audience.to_owned()],
            false => self.audiences.clone(),
        };
        let ask = TokenRequest {
            namespace: account.namespace.clone(),
            account: account.name.clone(),
            uid: account.object.meta("uid").to_owned(),
            audiences,
        };
        let given = self.hub.cluster.token(&ask, self.ports.clock.now()).await;
        given.map_err(|error| {
            let lead = format!(
                "failed to create kubernetes token for service account '{}'",
                account.shown()
            );
            Failure::from(error).context(lead)
        })
    }
}
