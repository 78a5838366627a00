//! The installation's own AWS role.

use aws_config::SdkConfig;
use aws_sdk_s3::config::SharedCredentialsProvider;
use driftless_kernel::ports::{ErrorKind, PortError, Result};
use std::sync::Arc;
use tokio::sync::OnceCell;

/// The AWS settings of the environment, loaded when they are first needed.
#[derive(Clone, Default)]
pub struct Installation(Arc<OnceCell<SdkConfig>>);

impl Installation {
    /// Creates an installation with loaded settings.
    pub fn from_settings(settings: &SdkConfig) -> Self {
        Self(Arc::new(OnceCell::new_with(Some(settings.clone()))))
    }

    /// Returns the settings: region, endpoints and how requests are sent.
    pub async fn settings(&self) -> &SdkConfig {
        self.0.get_or_init(super::settings).await
    }

    /// Returns the credentials of the installation's role.
    ///
    /// # Errors
    /// Fails if the environment has no AWS credentials.
    pub async fn role(&self) -> Result<SharedCredentialsProvider> {
        let role = self.settings().await.credentials_provider();
        role.ok_or_else(|| {
            let message = "this installation has no AWS credentials";
            PortError::new(ErrorKind::Denied, message)
        })
    }
}
