//! Google Cloud identities: principals of workload identity pools.

use super::{Account, Exchange, fail, quoted, token_error_prefix};
use crate::failure::Failure;
use crate::ports::{GoogleIdentity, GoogleLogin, Secret};
use driftless_flux::reason;
use serde_json::Value;
use std::fmt::{self, Display};

/// The annotation of a service account that names the pool's provider that trusts its issuer.
pub const PROVIDER: &str = "gcp.auth.fluxcd.io/workload-identity-provider";
/// The annotation of a service account that names the Google service account to impersonate.
const ACCOUNT: &str = "iam.gke.io/gcp-service-account";

/// The address that a key of a service account names for its tokens.
pub const TOKEN_URI: &str = "https://oauth2.googleapis.com/token";

/// The reason why the content of a Secret is not the key of a service account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyProblem {
    /// The content is not JSON.
    Syntax,
    /// The content is another kind of credentials.
    Type,
    /// The key names another service for its tokens. What is requested there opens more than one
    /// object.
    TokenUri,
    /// A field is missing.
    Fields,
}

impl Display for KeyProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax => f.write_str("is not valid JSON"),
            Self::Type => f.write_str(
                "is not a key of a service account: expected \"type\": \"service_account\"",
            ),
            Self::TokenUri => write!(f, "names another token_uri than {TOKEN_URI}"),
            Self::Fields => f.write_str("needs the fields client_email and private_key"),
        }
    }
}

/// Reads the key of a Google service account from JSON. The error never quotes the key.
///
/// # Errors
/// The content is not such a key.
pub fn service_account_key(content: &Secret) -> Result<GoogleLogin, KeyProblem> {
    let value: Value = serde_json::from_slice(content.expose()).map_err(|_| KeyProblem::Syntax)?;
    let text = |name: &str| {
        let text = value.get(name).and_then(Value::as_str).unwrap_or_default();
        (!text.is_empty()).then(|| text.to_owned())
    };
    if text("type").as_deref() != Some("service_account") {
        return Err(KeyProblem::Type);
    }
    if text("token_uri").is_some_and(|uri| uri != TOKEN_URI) {
        return Err(KeyProblem::TokenUri);
    }
    match (text("client_email"), text("private_key")) {
        (Some(email), Some(private_key)) => Ok(GoogleLogin::ServiceAccountKey {
            email,
            id: text("private_key_id").unwrap_or_default(),
            private_key: Secret::new(private_key),
        }),
        _ => Err(KeyProblem::Fields),
    }
}

/// Returns the Google principal that the account's token authenticates as, with the token.
///
/// # Errors
/// The provider annotation is missing or not valid; the hub refuses the token.
pub async fn identity(
    exchange: &Exchange<'_>,
    account: &Account,
) -> Result<GoogleIdentity, Failure> {
    let invalid = |name: &str, text: &str, form: &str| {
        let text = quoted(text);
        format!("invalid {name} annotation: '{text}'. must match {form}")
    };
    let provider = account.annotation(PROVIDER);
    if provider.is_empty() {
        let message = format!(
            "service account '{}' has no annotation {PROVIDER}: driftless cannot use GKE's metadata server, which Flux falls back to. \
             Set the annotation to the provider of a workload identity pool that trusts the hub's service account issuer",
            account.qualified_name()
        );
        return Err(Failure::terminal(reason::UNSUPPORTED, message));
    }
    if !is_provider(provider) {
        let form = r"^projects/\d{1,30}/locations/global/workloadIdentityPools/[^/]{1,100}/providers/[^/]{1,100}$";
        let message = invalid(PROVIDER, provider, form);
        // Flux reads the provider for the audience first, and if audiences are set, for the
        // exchange.
        let prefix = match exchange.audiences.is_empty() {
            true => "failed to get provider audience".to_owned(),
            false => token_error_prefix(account),
        };
        return Err(Failure::retry(reason::FAILED, message).context(prefix));
    }
    let acts_as = account.annotation(ACCOUNT);
    if !acts_as.is_empty() && !is_account(acts_as) {
        let form = r"^[a-zA-Z0-9-]{1,100}@[a-zA-Z0-9-]{1,100}\.iam\.gserviceaccount\.com$";
        return Err(fail(account, invalid(ACCOUNT, acts_as, form)));
    }
    let provider = format!("//iam.googleapis.com/{provider}");
    Ok(GoogleIdentity {
        account: (!acts_as.is_empty()).then(|| acts_as.to_owned()),
        token: exchange.token(account, &provider).await?,
        provider,
    })
}

/// Returns whether this is
/// `projects/NUMBER/locations/global/workloadIdentityPools/POOL/providers/NAME`.
fn is_provider(text: &str) -> bool {
    let parts: Vec<&str> = text.split('/').collect();
    let [
        "projects",
        project,
        "locations",
        "global",
        "workloadIdentityPools",
        pool,
        "providers",
        name,
    ] = parts[..]
    else {
        return false;
    };
    let is_number = project.bytes().all(|byte| byte.is_ascii_digit());
    let fits = |text: &str, limit: usize| (1..=limit).contains(&text.chars().count());
    is_number && fits(project, 30) && fits(pool, 100) && fits(name, 100)
}

/// Returns whether this is `NAME@PROJECT.iam.gserviceaccount.com`.
fn is_account(text: &str) -> bool {
    let bare = text.strip_suffix(".iam.gserviceaccount.com");
    let is_plain = |part: &str| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        (1..=100).contains(&part.len()) && part.bytes().all(fits)
    };
    bare.and_then(|bare| bare.split_once('@'))
        .is_some_and(|(name, project)| is_plain(name) && is_plain(project))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations() {
        assert!(is_provider(
            "projects/1/locations/global/workloadIdentityPools/a/providers/b"
        ));
        for text in [
            "",
            "projects/a/locations/global/workloadIdentityPools/a/providers/b",
            "projects/1/locations/eu/workloadIdentityPools/a/providers/b",
            "projects/1/locations/global/workloadIdentityPools/a/providers/",
            "projects/1/locations/global/workloadIdentityPools/a/providers/b/c",
        ] {
            assert!(!is_provider(text), "{text}");
        }
        assert!(is_account("reader@acme-1.iam.gserviceaccount.com"));
        for text in [
            "reader",
            "a/b@c.iam.gserviceaccount.com",
            "a@b.example.com",
            "@a.iam.gserviceaccount.com",
        ] {
            assert!(!is_account(text), "{text}");
        }
    }
}
