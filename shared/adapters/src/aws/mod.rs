//! Adapters for Amazon's services: S3 as the bucket, SQS as the queue, Secrets Manager as the
//! secret store; other buckets with S3's API; logins to clusters (EKS) and registries (ECR).

mod buckets;
mod error;
mod hub_settings;
mod keys;
mod logins;
mod one_hub;
mod queue;
mod role;
mod s3;
mod warm_cache;

pub use buckets::S3Buckets;
pub use hub_settings::HubSettingsCache;
pub use keys::SecretsManager;
pub use logins::AwsLogins;
pub use one_hub::OneHub;
pub use queue::{QueueState, SqsQueue};
pub use s3::S3Blobs;

use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, ConfigLoader, Region};
use aws_sdk_s3::config::Credentials;
use std::time::Duration;

pub use aws_config::SdkConfig as Settings;

/// Loads the region, credentials and endpoints for all services from the environment.
pub async fn settings() -> Settings {
    loader().load().await
}

/// Returns settings for one endpoint, such as an emulator's, with these credentials; the
/// environment is not read.
pub async fn settings_at(endpoint: &str, region: &str, key_id: &str, key: &str) -> Settings {
    let credentials = Credentials::new(key_id, key, None, None, "given");
    let loader = loader()
        .endpoint_url(endpoint)
        .region(Region::new(region.to_owned()));
    loader.credentials_provider(credentials).load().await
}

fn loader() -> ConfigLoader {
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(3))
        .operation_attempt_timeout(Duration::from_secs(15))
        .operation_timeout(Duration::from_secs(40))
        .build();
    aws_config::defaults(BehaviorVersion::latest()).timeout_config(timeouts)
}
