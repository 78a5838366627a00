//! Azure Key Vault.

use super::{Identity, Service, entry_problem, fields, invalid};
use async_trait::async_trait;
use driftless_flux::Invalid;
use driftless_kernel::cloud::{Exchange, azure};
use driftless_kernel::context::Context;
use driftless_kernel::failure::Failure;
use driftless_kernel::ports::{AzureKey, EntraIdentity, EntraProof, KeyRequest, Secret};
use driftless_sops::{KeyService, MasterKey};

/// The entry of the Secret.
const ENTRY: &str = "sops.azure-kv";

/// Keys of Azure Key Vault. The entry `sops.azure-kv` of the Secret is YAML or JSON with an
/// application and its client secret, as kustomize-controller 1.9 reads it.
pub struct KeyVault;

#[async_trait]
impl Service for KeyVault {
    fn service(&self) -> KeyService {
        KeyService::AzureKeyVault
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
        let version = key.options.get("version").map_or("", String::as_str);
        let azure_key = match key.fields.as_slice() {
            [vault, name] => AzureKey::parse(vault, name, version),
            _ => None,
        };
        let azure_key = azure_key.ok_or_else(|| {
            let name = key.name.escape_debug();
            invalid(format!(
                "'{name}' is not a key of Azure: expected https://NAME.vault.azure.net, or a vault of another cloud of Azure, and the name of a key"
            ))
        })?;
        let identity = match identity {
            Identity::Secret(entry) => application(entry).map_err(invalid)?,
            Identity::Account(account) => {
                azure::identity(&Exchange::new(context.ports, &context.hub), account).await?
            }
            Identity::Installation => {
                return Err(invalid("the installation has no identity in Azure"));
            }
        };
        Ok(KeyRequest::Azure(azure_key, identity))
    }
}

/// Reads an application and its client secret; the names of the fields are those of Flux, or those
/// that `az ad sp create-for-rbac` prints.
fn application(entry: &Secret) -> Result<EntraIdentity, Invalid> {
    let invalid = |problem: &str| entry_problem(ENTRY, problem);
    let text = fields(entry, ENTRY)?;
    for field in ["clientCertificate", "authorityHost"] {
        if text(&[field]).is_some() {
            return Err(invalid(&format!(
                "has the field {field}, which is not supported: use a client secret, or spec.decryption.serviceAccountName"
            )));
        }
    }
    let tenant = text(&["tenantId", "tenant"]);
    let client = text(&["clientId", "appId"]);
    let secret = text(&["clientSecret", "password"]);
    match (tenant, client, secret) {
        (Some(tenant), Some(client), Some(secret)) if azure::is_tenant(&tenant) => {
            Ok(EntraIdentity {
                tenant,
                client,
                proof: EntraProof::ClientSecret(Secret::new(secret)),
            })
        }
        (Some(_), Some(_), Some(_)) => Err(invalid(
            "has an invalid tenantId: expected letters, digits, '-' and '.'",
        )),
        _ => Err(invalid(
            "needs the fields tenantId, clientId and clientSecret",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn applications() {
        let entry = |text: &str| application(&Secret::new(text.to_owned()));
        let expected = EntraIdentity {
            tenant: "acme.example".to_owned(),
            client: "id".to_owned(),
            proof: EntraProof::ClientSecret(Secret::new("s3cret")),
        };
        for text in [
            "tenantId: acme.example\nclientId: id\nclientSecret: s3cret\n",
            r#"{"appId": "id", "password": "s3cret", "tenant": "acme.example"}"#,
        ] {
            assert_eq!(entry(text).unwrap(), expected);
        }
        for text in [
            "",
            "tenantId: a/b\nclientId: id\nclientSecret: s3cret\n",
            "tenantId: a\nclientId: id\nclientCertificate: s3cret\n",
            "clientSecret: s3cret\n",
            "s3cret: [",
        ] {
            let message = entry(text).unwrap_err().to_string();
            assert!(!message.contains("s3cret"), "{message}");
        }
    }
}
