//! Amazon ECR: the user and password of a registry (GetAuthorizationToken).

use super::Shared;
use super::sign::SigningRequest;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use driftless_kernel::ports::{
    AwsIdentity, EcrRegistry, ErrorKind, PortError, RegistryLogin, Result, Secret,
};
use http::Method;
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;

const JSON: &str = "application/x-amz-json-1.1";

/// A login in ECR's answer: base64 of `USER:PASSWORD`, and the expiry in seconds since 1970.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuthorizationData {
    authorization_token: String,
    expires_at: f64,
}

impl Shared {
    /// Requests a login; returns it with its expiry.
    pub(super) async fn registry(
        &self,
        registry: &EcrRegistry,
        identity: &AwsIdentity,
        now: Duration,
    ) -> Result<(RegistryLogin, Duration)> {
        let region = registry.region();
        let (service, host, target) = service(registry);
        let url = format!("{}/", self.endpoint(host).await);
        let request = SigningRequest {
            method: Method::POST,
            headers: &[("content-type", JSON), ("x-amz-target", target)],
            body: "{}",
            ..SigningRequest::get(service, region, &url, now)
        };
        let credentials = self.credentials(region, identity, now).await?;
        let answer = self.ask(request.signed(credentials)?).await?;
        read(&answer).ok_or_else(|| {
            let message = format!("'{url}': the answer has no registry login");
            PortError::new(ErrorKind::Unreadable, message)
        })
    }
}

/// Returns the service that issues the logins of a registry: its name in signatures, its host, and
/// the target of the request.
fn service(registry: &EcrRegistry) -> (&'static str, String, &'static str) {
    let region = registry.region();
    match registry {
        EcrRegistry::Public => (
            "ecr-public",
            format!("api.ecr-public.{region}.amazonaws.com"),
            "SpencerFrontendService.GetAuthorizationToken",
        ),
        EcrRegistry::Private { domain, .. } => (
            "ecr",
            format!("api.ecr.{region}.{domain}"),
            "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken",
        ),
    }
}

/// Reads the login of an answer; a private registry's answer is a list with one login.
fn read(answer: &[u8]) -> Option<(RegistryLogin, Duration)> {
    let mut answer: Value = serde_json::from_slice(answer).ok()?;
    let given = match answer.get_mut("authorizationData")?.take() {
        Value::Array(all) => all.into_iter().next()?,
        one => one,
    };
    let given: AuthorizationData = serde_json::from_value(given).ok()?;
    let pair = String::from_utf8(STANDARD.decode(given.authorization_token).ok()?).ok()?;
    let (user, password) = pair.split_once(':')?;
    let login = RegistryLogin {
        user: user.to_owned(),
        password: Secret::new(password.to_owned()),
    };
    let ends = Duration::try_from_secs_f64(given.expires_at).ok()?;
    Some((login, ends))
}

#[cfg(test)]
mod tests {
    use super::{read, service};
    use driftless_kernel::ports::EcrRegistry;
    use std::time::Duration;

    #[test]
    fn hosts() {
        for (registry, host) in [
            ("public.ecr.aws", "api.ecr-public.us-east-1.amazonaws.com"),
            (
                "1.dkr.ecr.eu-west-1.amazonaws.com",
                "api.ecr.eu-west-1.amazonaws.com",
            ),
            (
                "1.dkr-ecr.eu-west-1.on.aws",
                "api.ecr.eu-west-1.amazonaws.com",
            ),
            (
                "1.dkr.ecr.cn-north-1.amazonaws.com.cn",
                "api.ecr.cn-north-1.amazonaws.com.cn",
            ),
        ] {
            let registry = EcrRegistry::parse(registry).unwrap();
            assert_eq!(service(&registry).1, host);
        }
    }

    #[test]
    fn logins() {
        let given = r#"{"authorizationToken": "QVdTOnB3", "expiresAt": 1700000000.5}"#;
        for answer in [
            format!(r#"{{"authorizationData": [{given}]}}"#),
            format!(r#"{{"authorizationData": {given}}}"#),
        ] {
            let (login, ends) = read(answer.as_bytes()).unwrap();
            assert_eq!(
                (login.user.as_str(), login.password.expose()),
                ("AWS", &b"pw"[..])
            );
            assert_eq!(ends, Duration::from_millis(1_700_000_000_500));
        }
        for answer in [
            "",
            "{}",
            r#"{"authorizationData": []}"#,
            r#"{"authorizationData": [{"authorizationToken": "?", "expiresAt": 1}]}"#,
            r#"{"authorizationData": [{"authorizationToken": "QVdT", "expiresAt": 1}]}"#,
            r#"{"authorizationData": [{"authorizationToken": "QVdTOnB3", "expiresAt": -1}]}"#,
        ] {
            assert!(read(answer.as_bytes()).is_none(), "{answer}");
        }
    }
}
