//! The adapter of the port [`KeyServices`]: each service by the client that also logs in there.

use crate::aws::AwsLogins;
use crate::clouds::{AzureLogins, GoogleLogins};
use crate::vault::HttpVault;
use async_trait::async_trait;
use driftless_kernel::ports::{
    AwsIdentity, AwsKey, AzureKey, EntraIdentity, GoogleKey, GoogleLogin, KeyServices, Result,
    Secret, VaultKey,
};
use std::time::Duration;

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
    async fn aws(
        &self,
        key: &AwsKey,
        ciphertext: &str,
        identity: &AwsIdentity,
        now: Duration,
    ) -> Result<Secret> {
        self.aws.decrypt(key, ciphertext, identity, now).await
    }

    async fn azure(
        &self,
        key: &AzureKey,
        ciphertext: &str,
        identity: &EntraIdentity,
        now: Duration,
    ) -> Result<Secret> {
        self.azure.decrypt(key, ciphertext, identity, now).await
    }

    async fn google(
        &self,
        key: &GoogleKey,
        ciphertext: &str,
        login: &GoogleLogin,
        now: Duration,
    ) -> Result<Secret> {
        self.google.decrypt(key, ciphertext, login, now).await
    }

    async fn vault(
        &self,
        key: &VaultKey,
        ciphertext: &str,
        token: &Secret,
        allow_local: bool,
    ) -> Result<Secret> {
        self.vault
            .decrypt(key, ciphertext, token, allow_local)
            .await
    }
}
