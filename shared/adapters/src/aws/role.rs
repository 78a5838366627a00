//! The installation's own AWS role.

use aws_config::SdkConfig;
use aws_sdk_s3::config::SharedCredentialsProvider;
use driftless_core::ports::{ErrorKind, PortError, Result};
use std::sync::Arc;
use tokio::sync::OnceCell;

/// What the environment says of AWS, asked when it is needed.
#[derive(Clone, Default)]
pub struct Installation(Arc<OnceCell<SdkConfig>>);

impl Installation {
    /// One that is known.
    pub fn known(settings: &SdkConfig) -> Self {
        Self(Arc::new(OnceCell::new_with(Some(settings.clone()))))
    }

    /// Region, endpoints and how requests are sent.
    pub async fn settings(&self) -> &SdkConfig {
        self.0.get_or_init(super::settings).await
    }

    /// Who the installation is.
    ///
    /// # Errors
    /// Nobody on AWS.
    pub async fn role(&self) -> Result<SharedCredentialsProvider> {
        let role = self.settings().await.credentials_provider();
        role.ok_or_else(|| {
            let what = "this installation has no AWS credentials of its own";
            PortError::new(ErrorKind::Denied, what)
        })
    }
}
