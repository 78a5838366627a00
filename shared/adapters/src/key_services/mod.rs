//! The adapter of the port [`KeyServices`]: each service by the client that also logs in there.

mod vault;

use crate::aws::AwsLogins;
use crate::clouds::{AzureLogins, GoogleLogins};
use async_trait::async_trait;
use driftless_kernel::ports::{KeyRequest, KeyServices, Result, Secret};
use std::time::Duration;
use vault::HttpVault;

/// The clients of the key services.
#[derive(Default)]
pub struct HttpKeyServices {
    aws: AwsLogins,
    azure: AzureLogins,
    google: GoogleLogins,
    vault: HttpVault,
}

impl HttpKeyServices {
    /// Creates the adapter. It shares the caches of roles and tokens with these clients.
    pub fn new(aws: AwsLogins, azure: AzureLogins, google: GoogleLogins) -> Self {
        Self {
            aws,
            azure,
            google,
            vault: HttpVault::default(),
        }
    }
}

#[async_trait]
impl KeyServices for HttpKeyServices {
    async fn decrypt(
        &self,
        request: &KeyRequest,
        ciphertext: &str,
        now: Duration,
    ) -> Result<Secret> {
        match request {
            KeyRequest::Aws(key, identity) => {
                self.aws.decrypt(key, ciphertext, identity, now).await
            }
            KeyRequest::Azure(key, identity) => {
                self.azure.decrypt(key, ciphertext, identity, now).await
            }
            KeyRequest::Google(key, login) => {
                self.google.decrypt(key, ciphertext, login, now).await
            }
            KeyRequest::Vault {
                key,
                token,
                allow_local,
            } => {
                let vault = &self.vault;
                vault.decrypt(key, ciphertext, token, *allow_local).await
            }
        }
    }
}
