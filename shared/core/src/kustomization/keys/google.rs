//! Google Cloud KMS.

use super::{Identity, Service, failed, invalid};
use crate::cloud::{Exchange, google};
use crate::failure::Failure;
use crate::kernel::Context;
use crate::ports::{GoogleKey, GoogleLogin, Secret};
use async_trait::async_trait;
use driftless_sops::{KeyService, MasterKey};
use serde_json::Value;

/// The address that a key of a service account names for its tokens.
const TOKEN_URI: &str = "https://oauth2.googleapis.com/token";

/// Keys of Google Cloud KMS. The entry `sops.gcp-kms` of the Secret is the JSON of a key of a
/// service account, as kustomize-controller 1.9 reads it.
pub struct CloudKms;

#[async_trait]
impl Service for CloudKms {
    fn service(&self) -> KeyService {
        KeyService::GcpKms
    }

    fn entry(&self) -> &'static str {
        "sops.gcp-kms"
    }

    fn trusts_accounts(&self) -> bool {
        true
    }

    async fn decrypt(
        &self,
        context: &Context<'_>,
        _namespace: &str,
        key: &MasterKey,
        identity: Identity<'_>,
    ) -> Result<Secret, Failure> {
        let google_key = GoogleKey::parse(&key.name).ok_or_else(|| {
            let name = key.name.escape_debug();
            invalid(format!(
                "'{name}' is not a key of Google Cloud: expected projects/PROJECT/locations/LOCATION/keyRings/RING/cryptoKeys/KEY"
            ))
        })?;
        let identity = match identity {
            Identity::Secret(entry) => service_account_key(entry).map_err(invalid)?,
            Identity::Account(account) => GoogleLogin::Principal(
                google::identity(&Exchange::new(context.ports, &context.hub), account).await?,
            ),
            Identity::Installation => {
                return Err(invalid("the installation has no identity in Google Cloud"));
            }
        };
        let now = context.ports.clock.now();
        let services = &context.ports.clouds.key_services;
        let answer = services.google(&google_key, &key.encrypted, &identity, now);
        answer.await.map_err(|error| failed(&error))
    }
}

/// Reads a key of a service account.
fn service_account_key(entry: &Secret) -> Result<GoogleLogin, String> {
    let invalid = |problem: &str| format!("the entry 'sops.gcp-kms' of the Secret {problem}");
    // The error of the parser may quote the entry.
    let value: Value =
        serde_json::from_slice(entry.expose()).map_err(|_| invalid("is not valid JSON"))?;
    let text = |name: &str| {
        let text = value.get(name).and_then(Value::as_str).unwrap_or_default();
        (!text.is_empty()).then(|| text.to_owned())
    };
    if text("type").as_deref() != Some("service_account") {
        return Err(invalid(
            "is not a key of a service account: expected \"type\": \"service_account\"; for a workload identity set \
             spec.decryption.serviceAccountName",
        ));
    }
    if text("token_uri").is_some_and(|uri| uri != TOKEN_URI) {
        // The token that is requested there opens more than the key.
        return Err(invalid(&format!(
            "names another token_uri than {TOKEN_URI}"
        )));
    }
    match (text("client_email"), text("private_key")) {
        (Some(email), Some(private_key)) => Ok(GoogleLogin::ServiceAccountKey {
            email,
            id: text("private_key_id").unwrap_or_default(),
            private_key: Secret::new(private_key),
        }),
        _ => Err(invalid("needs the fields client_email and private_key")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_of_service_accounts() {
        let entry = |value: &Value| service_account_key(&Secret::new(value.to_string()));
        let key = json!({"type": "service_account", "client_email": "sops@acme.iam.gserviceaccount.com",
            "private_key": "s3cret", "private_key_id": "1", "token_uri": TOKEN_URI});
        let found = entry(&key).unwrap();
        assert!(matches!(found, GoogleLogin::ServiceAccountKey { ref id, .. } if id == "1"));
        for (name, value) in [
            ("type", json!("authorized_user")),
            ("token_uri", json!("https://example.com/token")),
            ("client_email", Value::Null),
            ("private_key", json!(7)),
        ] {
            let mut other = key.clone();
            other[name] = value;
            let message = entry(&other).unwrap_err();
            assert!(!message.contains("s3cret"), "{message}");
        }
        assert!(service_account_key(&Secret::new("s3cret")).is_err());
    }
}
