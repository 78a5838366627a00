//! The adapter of the port [`Buckets`]: each provider by the client that also logs in there.

use crate::aws::{AwsLogins, S3Buckets};
use crate::clouds::{AzureLogins, GoogleLogins};
use async_trait::async_trait;
use driftless_kernel::ports::{Bucket, BucketAddress, BucketLogin, Buckets, Result};
use std::sync::Arc;

/// The clients of services with buckets.
#[derive(Clone, Default)]
pub struct HttpBuckets {
    s3: S3Buckets,
    azure: AzureLogins,
    google: GoogleLogins,
}

impl HttpBuckets {
    /// Creates the adapter. It shares the caches of roles and tokens with these clients.
    pub fn new(aws: AwsLogins, azure: AzureLogins, google: GoogleLogins) -> Self {
        Self {
            s3: S3Buckets::with_logins(aws),
            azure,
            google,
        }
    }
}

#[async_trait]
impl Buckets for HttpBuckets {
    async fn open(&self, address: &BucketAddress) -> Result<Arc<dyn Bucket>> {
        match &address.login {
            BucketLogin::Google(login) => Ok(self.google.bucket(address, login)),
            BucketLogin::Azure(login) => self.azure.bucket(address, login),
            BucketLogin::AccessKey | BucketLogin::Aws { .. } | BucketLogin::Ldap(_) => {
                self.s3.open(address).await
            }
        }
    }
}
