//! Amazon's services: S3 as the bucket, SQS as the queue, Secrets Manager as the keys.

mod error;
mod keys;
mod queue;
mod s3;

pub use keys::SecretsManagerKeys;
pub use queue::SqsQueue;
pub use s3::S3Blobs;

use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, SdkConfig};
use std::time::Duration;

/// Region, credentials and endpoints as the environment gives them, once for all services.
pub async fn settings() -> SdkConfig {
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(3))
        .operation_attempt_timeout(Duration::from_secs(15))
        .operation_timeout(Duration::from_secs(40))
        .build();
    aws_config::defaults(BehaviorVersion::latest())
        .timeout_config(timeouts)
        .load()
        .await
}
