//! HashiCorp Vault's transit engine.

use super::Service;
use crate::kernel::Context;
use crate::ports::{ErrorKind, PortError, Result, Secret, VaultKey};
use async_trait::async_trait;
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

    async fn decrypt(
        &self,
        context: &Context<'_>,
        key: &MasterKey,
        token: &Secret,
    ) -> Result<Secret> {
        let [address, engine, name] = key.fields.as_slice() else {
            let message = "an entry of hc_vault needs vault_address, engine_path and key_name";
            return Err(PortError::new(ErrorKind::Invalid, message));
        };
        let vault_key = VaultKey {
            address: address.clone(),
            engine: engine.clone(),
            name: name.clone(),
        };
        let allow_local = context.hub.settings.allow_local_clusters;
        let vault = &context.ports.clouds.vault;
        vault
            .decrypt(&vault_key, &key.encrypted, token, allow_local)
            .await
    }
}
