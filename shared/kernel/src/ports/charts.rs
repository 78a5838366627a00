//! The port to Helm repositories and registries of OCI artifacts.

use super::{PartsDigest, Result, Secret};
use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// The options of a connection to a host that a user named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// The user name and password.
    pub login: Option<(String, Secret)>,
    /// True if the login is also sent to other hosts that a redirect or an index names.
    pub pass_credentials: bool,
    /// The certificate authorities that are trusted in addition to the public ones, as PEM.
    pub certificate_authority: Option<Vec<u8>>,
    /// A client certificate and its key, as PEM.
    pub client_certificate: Option<(Vec<u8>, Secret)>,
    /// The proxy for every request, which also resolves host names:
    /// `http://USER:PASSWORD@HOST:PORT`, `https://…` or `socks5://…`.
    pub proxy: Option<Secret>,
    /// True if a registry is reached without TLS.
    pub insecure: bool,
    /// True if loopback and link-local addresses may be reached: for an installation on the
    /// operator's own machine.
    pub allow_local: bool,
    /// The limit of the time of one request.
    pub timeout: Duration,
}

impl Connection {
    /// Returns a digest of the credentials, equal for the same credentials in any Secret; `None`
    /// without credentials.
    pub fn identity(&self) -> Option<String> {
        if self.login.is_none() && self.client_certificate.is_none() {
            return None;
        }
        let mut digest = PartsDigest::default();
        let mut part = |bytes: &[u8]| digest.part(bytes);
        if let Some((user, password)) = &self.login {
            part(b"login");
            part(user.as_bytes());
            part(password.expose());
        }
        if let Some((certificate, key)) = &self.client_certificate {
            part(b"certificate");
            part(certificate);
            part(key.expose());
        }
        Some(digest.hex())
    }
}

/// The cache validators of an answer: a conditional request with them returns a body only if it has
/// changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Validator {
    /// The header `ETag`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// The header `Last-Modified`, unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
}

impl Validator {
    /// Returns whether the host sent no validator.
    pub fn is_empty(&self) -> bool {
        self.etag.is_none() && self.last_modified.is_none()
    }
}

/// The outcome of a conditional download.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DownloadOutcome {
    /// The body is the one that the validator belongs to.
    Unchanged,
    /// The body, and the validator for the next request.
    Body {
        /// The bytes of the body.
        bytes: Bytes,
        /// The validator of these bytes.
        validator: Validator,
    },
}

/// A manifest of an OCI artifact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The digest of the manifest itself: `sha256:…`.
    pub digest: String,
    /// The layers, in order.
    pub layers: Vec<Layer>,
    /// The annotations of the manifest.
    pub annotations: BTreeMap<String, String>,
    /// The type of the artifact: `artifactType`, or the media type of the config.
    pub artifact_type: String,
}

/// A layer of an OCI artifact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layer {
    /// The media type of the layer.
    pub media_type: String,
    /// The digest of the bytes: `sha256:…`.
    pub digest: String,
    /// The size in bytes.
    pub size: u64,
    /// The annotations of the layer.
    pub annotations: BTreeMap<String, String>,
}

/// A manifest that refers to another one, such as a signature.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Referrer {
    /// The digest of the manifest: `sha256:…`.
    pub digest: String,
    /// The `artifactType`; empty if the listing does not include it.
    pub artifact_type: String,
}

/// The port to hosts of charts and artifacts. Users name the hosts, so an implementation reaches no
/// address of the installation itself unless [`Connection::allow_local`] is set, follows no
/// redirect there, sends the login to no other host unless [`Connection::pass_credentials`] is set,
/// and reads no more than its limit.
#[async_trait]
pub trait Charts: Send + Sync {
    /// Downloads `url` (`http` or `https`), at most `limit` bytes; `known` is the validator of an
    /// earlier answer.
    async fn get(
        &self,
        url: &str,
        connection: &Connection,
        known: &Validator,
        limit: u64,
    ) -> Result<DownloadOutcome>;

    /// Downloads a file that a kustomization names.
    async fn file(
        &self,
        url: &str,
        connection: &Connection,
        limit: u64,
    ) -> Result<DownloadOutcome> {
        self.get(url, connection, &Validator::default(), limit)
            .await
    }

    /// Lists the tags of a repository (`HOST/PATH`).
    async fn tags(&self, repository: &str, connection: &Connection) -> Result<Vec<String>>;

    /// Reads the manifest of a tag or a digest; checks it against the digest if the reference is
    /// one.
    async fn manifest(
        &self,
        repository: &str,
        reference: &str,
        connection: &Connection,
    ) -> Result<Manifest>;

    /// Lists the manifests that refer to the one of `digest` (`sha256:…`), in the registry's order:
    /// from the referrers API, or from the referrers tag of a registry without that API. The list
    /// may be empty.
    async fn referrers(
        &self,
        repository: &str,
        digest: &str,
        connection: &Connection,
    ) -> Result<Vec<Referrer>>;

    /// Downloads a layer of at most `limit` bytes, and checks it against its digest.
    async fn layer(
        &self,
        repository: &str,
        layer: &Layer,
        connection: &Connection,
        limit: u64,
    ) -> Result<Bytes>;
}
