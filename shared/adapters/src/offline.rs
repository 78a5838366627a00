//! Adapters for commands that work without the network: they refuse every request.

use async_trait::async_trait;
use bytes::Bytes;
use driftless_kernel::ports::{
    AcrRegistry, AksCluster, Aws, AwsIdentity, Azure, Bucket, BucketAddress, Buckets, Charts,
    Clouds, ClusterEndpoint, Connection, DownloadOutcome, EcrRegistry, EksCluster, EntraIdentity,
    ErrorKind, GkeCluster, Google, GoogleIdentity, KeyRequest, KeyServices, Layer, Manifest,
    Notifiers, PortError, Referrer, RegistryLogin, Result, Secret, Token, Validator,
};
use driftless_notify::{Transport, TransportError};
use driftless_source::redact;
use std::sync::Arc;
use std::time::Duration;

/// An adapter that refuses every request to a host that users name.
pub struct Offline;

/// The end of the message of a refused request.
pub const BEHIND_THE_NETWORK: &str = "is behind the network, which is not used here";

fn refused<T>(place: &str) -> Result<T> {
    let message = format!("'{place}' {BEHIND_THE_NETWORK}");
    Err(PortError::new(ErrorKind::Unsupported, message))
}

impl Notifiers for Offline {
    fn is_used(&self) -> bool {
        false
    }

    fn transport(&self, _: Connection) -> Arc<dyn Transport> {
        Arc::new(Offline)
    }
}

#[async_trait]
impl Transport for Offline {
    async fn http(
        &self,
        request: http::Request<Vec<u8>>,
    ) -> Result<http::Response<Vec<u8>>, TransportError> {
        let host = request.uri().host().unwrap_or_default();
        Err(TransportError {
            message: format!("'{host}' {BEHIND_THE_NETWORK}"),
            is_retryable: false,
        })
    }
}

#[async_trait]
impl Charts for Offline {
    async fn get(
        &self,
        url: &str,
        _: &Connection,
        _: &Validator,
        _: u64,
    ) -> Result<DownloadOutcome> {
        refused(&redact(url))
    }

    async fn tags(&self, repository: &str, _: &Connection) -> Result<Vec<String>> {
        refused(&format!("oci://{repository}"))
    }

    async fn manifest(&self, repository: &str, _: &str, _: &Connection) -> Result<Manifest> {
        refused(&format!("oci://{repository}"))
    }

    async fn referrers(&self, repository: &str, _: &str, _: &Connection) -> Result<Vec<Referrer>> {
        refused(&format!("oci://{repository}"))
    }

    async fn layer(&self, repository: &str, _: &Layer, _: &Connection, _: u64) -> Result<Bytes> {
        refused(&format!("oci://{repository}"))
    }
}

#[async_trait]
impl Buckets for Offline {
    async fn open(&self, address: &BucketAddress) -> Result<Arc<dyn Bucket>> {
        refused(&format!("{}/{}", address.endpoint, address.name))
    }
}

impl Offline {
    /// Returns adapters that refuse every cloud.
    pub fn clouds() -> Clouds {
        Clouds {
            aws: Arc::new(Self),
            azure: Arc::new(Self),
            google: Arc::new(Self),
            key_services: Arc::new(Self),
        }
    }
}

#[async_trait]
impl Aws for Offline {
    async fn describe(
        &self,
        cluster: &EksCluster,
        _: &AwsIdentity,
        _: Duration,
    ) -> Result<ClusterEndpoint> {
        refused(&format!("eks://{}/{}", cluster.region, cluster.name))
    }

    async fn token(&self, cluster: &EksCluster, _: &AwsIdentity, _: Duration) -> Result<Token> {
        refused(&format!("eks://{}/{}", cluster.region, cluster.name))
    }

    async fn registry(
        &self,
        registry: &EcrRegistry,
        _: &AwsIdentity,
        _: Duration,
    ) -> Result<RegistryLogin> {
        refused(&format!("ecr://{}", registry.region()))
    }
}

#[async_trait]
impl Azure for Offline {
    async fn describe(
        &self,
        cluster: &AksCluster,
        _: &EntraIdentity,
        _: Duration,
    ) -> Result<Vec<ClusterEndpoint>> {
        refused(&format!("aks://{}/{}", cluster.group, cluster.name))
    }

    async fn token(&self, _: &EntraIdentity, _: Duration) -> Result<Token> {
        refused("entra://")
    }

    async fn registry(
        &self,
        registry: &AcrRegistry,
        _: &EntraIdentity,
        _: Duration,
    ) -> Result<RegistryLogin> {
        refused(&format!("acr://{}", registry.host))
    }
}

#[async_trait]
impl KeyServices for Offline {
    async fn decrypt(&self, request: &KeyRequest, _: &str, _: Duration) -> Result<Secret> {
        refused(&redact(&request.place()))
    }
}

#[async_trait]
impl Google for Offline {
    async fn describe(
        &self,
        cluster: &GkeCluster,
        _: &GoogleIdentity,
        _: Duration,
    ) -> Result<ClusterEndpoint> {
        refused(&format!("gke://{}", cluster.name))
    }

    async fn token(&self, _: &GoogleIdentity, _: Duration) -> Result<Token> {
        refused("google://")
    }
}
