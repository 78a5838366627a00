//! Repositories of charts and registries of OCI artifacts.

use super::{Result, Secret};
use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// How to talk to a host that a user named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// User and password.
    pub login: Option<(String, Secret)>,
    /// Send the login to other hosts, too, that a redirect or an index names.
    pub pass_credentials: bool,
    /// PEM of the certificate authorities that are trusted beside the public ones.
    pub certificate_authority: Option<Vec<u8>>,
    /// PEM of a client certificate, and its key.
    pub client_certificate: Option<(Vec<u8>, Secret)>,
    /// The proxy that every request goes through, and that looks names up: `http://USER:PASSWORD@HOST:PORT`, `https://…` or
    /// `socks5://…`.
    pub proxy: Option<Secret>,
    /// Talk to a registry without TLS.
    pub insecure: bool,
    /// Reach loopback and link-local addresses: for an installation on the operator's own machine.
    pub allow_local: bool,
    /// How long one request may take.
    pub timeout: Duration,
}

/// What a host said that stands for the bytes it sent: a later question goes with it, and is answered by bytes only when
/// they are others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Validator {
    /// `ETag`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// `Last-Modified`, as the host wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
}

impl Validator {
    /// Whether the host gave none.
    pub fn is_empty(&self) -> bool {
        self.etag.is_none() && self.last_modified.is_none()
    }
}

/// An answer to a conditional download.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetched {
    /// It is what the validator stands for.
    Unchanged,
    /// Its bytes, and the validator for the next question.
    Body {
        /// The bytes.
        bytes: Bytes,
        /// What stands for them.
        validator: Validator,
    },
}

/// A manifest of an OCI artifact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// `sha256:…` of the manifest itself.
    pub digest: String,
    /// Its layers, in order.
    pub layers: Vec<Layer>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// What it is: `artifactType`, or the media type of its config.
    pub artifact_type: String,
}

/// A layer of an OCI artifact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layer {
    /// The media type.
    pub media_type: String,
    /// `sha256:…` of its bytes.
    pub digest: String,
    /// How many bytes it has.
    pub size: u64,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
}

/// A manifest that refers to another one, as a signature does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Referrer {
    /// `sha256:…` of the manifest.
    pub digest: String,
    /// What it says to be; empty when the list does not tell.
    pub artifact_type: String,
}

/// Hosts of charts and artifacts. Users name these hosts, so an implementation reaches no address of the installation itself
/// unless [`Connection::allow_local`] says so, follows no redirect there, sends the login to no other host unless
/// [`Connection::pass_credentials`] says so, and reads no more than it was told to.
#[async_trait]
pub trait Charts: Send + Sync {
    /// Downloads `url` (`http` or `https`), at most `limit` bytes; `known` stands for the bytes of an earlier answer.
    async fn get(
        &self,
        url: &str,
        how: &Connection,
        known: &Validator,
        limit: u64,
    ) -> Result<Fetched>;

    /// Downloads a file that a kustomization names.
    async fn file(&self, url: &str, how: &Connection, limit: u64) -> Result<Fetched> {
        self.get(url, how, &Validator::default(), limit).await
    }

    /// The tags of a repository (`HOST/PATH`).
    async fn tags(&self, repository: &str, how: &Connection) -> Result<Vec<String>>;

    /// The manifest that a tag or a digest leads to; checked against the digest when that was asked for.
    async fn manifest(
        &self,
        repository: &str,
        reference: &str,
        how: &Connection,
    ) -> Result<Manifest>;

    /// The manifests that refer to the one of `digest` (`sha256:…`), in the registry's order: from its list of referrers, or from the
    /// tag that stands in for it where a registry keeps none. None at all is an empty list.
    async fn referrers(
        &self,
        repository: &str,
        digest: &str,
        how: &Connection,
    ) -> Result<Vec<Referrer>>;

    /// The bytes of a layer, checked against its digest; at most `limit`.
    async fn layer(
        &self,
        repository: &str,
        layer: &Layer,
        how: &Connection,
        limit: u64,
    ) -> Result<Bytes>;
}
