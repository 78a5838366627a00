//! The configuration: variables of the function, and one secret.

use driftless_dashboard::access::{self, Rule, RulesError};
use driftless_dashboard::auth::{Key, Kind, Provider, ShortKey};
use driftless_kernel::ports::{PortError, Ports, Secret};
use serde::Deserialize;

/// The name of the secret in the secret manager.
pub const SECRET: &str = "dashboard/login";
/// The variable with the service that knows the users.
const PROVIDER: &str = "DRIFTLESS_DASHBOARD_PROVIDER";
/// The variable with the origin; empty for that of the function's own URL.
const ORIGIN: &str = "DRIFTLESS_DASHBOARD_ORIGIN";
/// The variable with the rules of access.
const ACCESS: &str = "DRIFTLESS_DASHBOARD_ACCESS";

/// The configuration of logins and access.
pub struct Settings {
    /// The service that knows the users.
    pub provider: Provider,
    /// The origin; empty for that of the function's own URL.
    pub origin: String,
    /// The rules of access.
    pub rules: Vec<Rule>,
    /// The key of cookies and tokens.
    pub key: Key,
}

/// The content of the secret.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Stored {
    client_id: String,
    client_secret: String,
    cookie_key: String,
}

/// The reason that the configuration is not valid: the variable or the secret, and what is
/// expected.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The variable with the service names none.
    #[error(
        "{PROVIDER}: expected github, github=https://HOST of an Enterprise Server, \
         or the issuer of an OpenID Connect provider, https://HOST/..."
    )]
    Provider,
    /// The variable with the origin has another value.
    #[error("{ORIGIN}: '{0}' is not an origin: expected https://HOST")]
    Origin(String),
    /// The rules of access are not valid.
    #[error("{ACCESS}: {0}")]
    Access(#[from] RulesError),
    /// The secret manager does not answer.
    #[error(transparent)]
    Secrets(#[from] PortError),
    /// The secret does not exist.
    #[error("the secret manager has no '{SECRET}'")]
    NoSecret,
    /// The secret has another form. The error of the parser may repeat a value, so it is left out.
    #[error("the secret '{SECRET}' is not a JSON object with clientId, clientSecret and cookieKey")]
    Form,
    /// The key of the secret is too short.
    #[error("the secret '{SECRET}': cookieKey: {0}")]
    Key(#[from] ShortKey),
}

/// Reads the configuration.
///
/// # Errors
/// A variable or the secret is missing or not valid; the message names it and what is expected.
pub async fn read(
    ports: &Ports,
    variable: &dyn Fn(&str) -> String,
) -> Result<Settings, ConfigError> {
    let kind = provider(&variable(PROVIDER))?;
    let origin = origin(&variable(ORIGIN))?;
    let rules = access::rules(&variable(ACCESS))?;
    let secret = ports.secrets.secret(SECRET).await?;
    let secret = secret.ok_or(ConfigError::NoSecret)?;
    let stored: Stored = serde_json::from_slice(secret.expose()).map_err(|_| ConfigError::Form)?;
    let key = Key::new(stored.cookie_key.as_bytes())?;
    Ok(Settings {
        provider: Provider {
            kind,
            client_id: stored.client_id,
            client_secret: Secret::new(stored.client_secret),
        },
        origin,
        rules,
        key,
    })
}

fn provider(text: &str) -> Result<Kind, ConfigError> {
    let is_https = |url: &str| url.starts_with("https://") && url.len() > "https://".len();
    match (text, text.strip_prefix("github=")) {
        ("github", _) => Ok(Kind::GitHub {
            web: "https://github.com".to_owned(),
            api: "https://api.github.com".to_owned(),
        }),
        (_, Some(host)) if is_https(host) => {
            let web = host.trim_end_matches('/').to_owned();
            let api = format!("{web}/api/v3");
            Ok(Kind::GitHub { web, api })
        }
        (issuer, None) if is_https(issuer) => Ok(Kind::Oidc {
            issuer: issuer.to_owned(),
        }),
        _ => Err(ConfigError::Provider),
    }
}

fn origin(text: &str) -> Result<String, ConfigError> {
    let origin = text.trim_end_matches('/');
    let is_origin = origin
        .strip_prefix("https://")
        .is_some_and(|host| !host.is_empty() && !host.contains(['/', '?', '#', '@']));
    match origin.is_empty() || is_origin {
        true => Ok(origin.to_owned()),
        false => Err(ConfigError::Origin(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_memory::MemorySecrets;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    const RULES: &str = r#"[{"groups": ["acme/web"], "namespaces": ["web"]}]"#;

    async fn settings(
        provider: &str,
        rules: &str,
        secret: Option<&str>,
    ) -> Result<Settings, ConfigError> {
        let mut ports = driftless_memory::ports(Arc::default(), Arc::default(), Arc::default());
        let secrets = secret.map(|text| (SECRET.to_owned(), Secret::new(text.to_owned())));
        ports.secrets = Arc::new(MemorySecrets(
            secrets.into_iter().collect::<BTreeMap<_, _>>(),
        ));
        let variable = |name: &str| match name {
            PROVIDER => provider.to_owned(),
            ACCESS => rules.to_owned(),
            _ => String::new(),
        };
        read(&ports, &variable).await
    }

    #[tokio::test]
    async fn what_is_missing_is_named_and_no_secret_is_repeated() {
        let key = "k".repeat(32);
        let secret = format!(r#"{{"clientId":"a","clientSecret":"hunter2","cookieKey":"{key}"}}"#);
        let good = settings("github", RULES, Some(&secret)).await;
        assert_eq!(good.unwrap().rules.len(), 1);
        let short = secret.replace(&key, "hunter2");
        for (provider, rules, secret, expected) in [
            (
                "gitlab",
                RULES,
                Some(&*secret),
                "DRIFTLESS_DASHBOARD_PROVIDER: expected github",
            ),
            (
                "http://id.example",
                RULES,
                Some(&*secret),
                "DRIFTLESS_DASHBOARD_PROVIDER",
            ),
            ("github", "", Some(&*secret), "DRIFTLESS_DASHBOARD_ACCESS: "),
            (
                "github",
                r#"[{"namespaces": ["a"]}]"#,
                Some(&*secret),
                "rule 0 has no users",
            ),
            (
                "github",
                RULES,
                None,
                "the secret manager has no 'dashboard/login'",
            ),
            (
                "github",
                RULES,
                Some("hunter2"),
                "is not a JSON object with clientId",
            ),
            (
                "github",
                RULES,
                Some(&*short),
                "cookieKey: the key has fewer than 32 bytes",
            ),
        ] {
            let error = settings(provider, rules, secret)
                .await
                .err()
                .unwrap()
                .to_string();
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        assert!(origin("https://a.example/").is_ok() && origin("").is_ok());
        assert!(origin("http://a.example").is_err() && origin("https://a/b").is_err());
    }
}
