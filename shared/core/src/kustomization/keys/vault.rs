//! HashiCorp Vault's transit engine.

use super::{Identity, Service, invalid};
use async_trait::async_trait;
use driftless_kernel::context::Context;
use driftless_kernel::failure::Failure;
use driftless_kernel::ports::{KeyRequest, VaultKey};
use driftless_sops::{KeyService, MasterKey};

/// Keys of HashiCorp Vault. The token is in the entry `sops.vault-token` of the Secret.
pub struct Transit;

#[async_trait]
impl Service for Transit {
    fn service(&self) -> KeyService {
        KeyService::Vault
    }

    fn entry(&self) -> &'static str {
        "sops.vault-token"
    }

    fn trusts_accounts(&self) -> bool {
        false
    }

    async fn request(
        &self,
        context: &Context<'_>,
        _namespace: &str,
        key: &MasterKey,
        identity: Identity<'_>,
    ) -> Result<KeyRequest, Failure> {
        let [address, engine, name] = key.fields.as_slice() else {
            let message = "an entry of hc_vault needs vault_address, engine_path and key_name";
            return Err(invalid(message));
        };
        let vault_key = VaultKey {
            address: address.clone(),
            engine: engine.clone(),
            name: name.clone(),
        };
        let Identity::Secret(token) = identity else {
            return Err(invalid("a token is missing"));
        };
        Ok(KeyRequest::Vault {
            key: vault_key,
            token: token.clone(),
            allow_local: context.hub.settings.allow_local_clusters,
        })
    }
}
