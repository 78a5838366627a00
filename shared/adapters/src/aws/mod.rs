//! Amazon's services: S3 as the bucket, SQS as the queue, Secrets Manager as the keys; buckets of others
//! that speak S3, and logins to clusters (EKS) and registries (ECR).

mod buckets;
mod error;
mod keys;
mod logins;
mod queue;
mod role;
mod s3;

pub use buckets::S3Buckets;
pub use keys::SecretsManager;
pub use logins::AwsLogins;
pub use queue::{QueueState, SqsQueue};
pub use s3::S3Blobs;

use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, ConfigLoader, Region};
use aws_sdk_s3::config::Credentials;
use std::time::Duration;

pub use aws_config::SdkConfig as Settings;

/// Region, credentials and endpoints as the environment gives them, once for all services.
pub async fn settings() -> Settings {
    loader().load().await
}

/// The services of one endpoint, such as an emulator's, with these credentials; the environment is not asked.
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
