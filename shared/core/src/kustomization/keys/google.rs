//! Google Cloud KMS.

use super::{Identity, Service, entry_problem, invalid};
use async_trait::async_trait;
use driftless_flux::Invalid;
use driftless_kernel::cloud::Exchange;
use driftless_kernel::cloud::google::{self, KeyProblem};
use driftless_kernel::context::Context;
use driftless_kernel::failure::Failure;
use driftless_kernel::ports::{GoogleKey, GoogleLogin, KeyRequest, Secret};
use driftless_sops::{KeyService, MasterKey};

/// The entry of the Secret.
const ENTRY: &str = "sops.gcp-kms";

/// Keys of Google Cloud KMS. The entry `sops.gcp-kms` of the Secret is the JSON of a key of a
/// service account, as kustomize-controller 1.9 reads it.
pub struct CloudKms;

#[async_trait]
impl Service for CloudKms {
    fn service(&self) -> KeyService {
        KeyService::GcpKms
    }

    fn entry(&self) -> &'static str {
        ENTRY
    }

    fn trusts_accounts(&self) -> bool {
        true
    }

    async fn request(
        &self,
        context: &Context<'_>,
        _namespace: &str,
        key: &MasterKey,
        identity: Identity<'_>,
    ) -> Result<KeyRequest, Failure> {
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
        Ok(KeyRequest::Google(google_key, identity))
    }
}

/// Reads a key of a service account.
fn service_account_key(entry: &Secret) -> Result<GoogleLogin, Invalid> {
    let key = google::service_account_key(entry);
    key.map_err(|problem| {
        let hint = match problem {
            KeyProblem::Type => "; for a workload identity set spec.decryption.serviceAccountName",
            _ => "",
        };
        entry_problem(ENTRY, &format!("{problem}{hint}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_kernel::cloud::google::TOKEN_URI;
    use serde_json::{Value, json};

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
            let message = entry(&other).unwrap_err().to_string();
            assert!(!message.contains("s3cret"), "{message}");
        }
        assert!(service_account_key(&Secret::new("s3cret")).is_err());
    }
}
