//! Reads Helm repositories and OCI registries over HTTP.
//!
//! Tenants name these hosts. So local addresses (loopback, link-local) are refused, also in answers
//! of DNS and in redirects, unless the connection allows them; the environment's proxy is not used;
//! content encodings are not decoded.

mod registry;

use crate::tenant_http::{self, Clients, FileRequest, Login};
use async_trait::async_trait;
use bytes::Bytes;
use driftless_kernel::ports::{
    Charts, Connection, DownloadOutcome, ErrorKind, Layer, Manifest, PortError, Referrer, Result,
    Validator,
};
use driftless_source::redact;
use reqwest::header::{
    ETAG, HeaderMap, HeaderName, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED,
};
use reqwest::{StatusCode, Url};

/// The adapter of the port [`Charts`].
#[derive(Default)]
pub struct HttpCharts {
    clients: Clients,
}

impl HttpCharts {
    /// Creates an adapter without connections.
    pub fn new() -> Self {
        Self::default()
    }
}

#[async_trait]
impl Charts for HttpCharts {
    async fn get(
        &self,
        url: &str,
        connection: &Connection,
        known: &Validator,
        limit: u64,
    ) -> Result<DownloadOutcome> {
        let place = redact(url);
        let address = Url::parse(url)
            .map_err(|error| PortError::new(ErrorKind::Invalid, format!("'{place}': {error}")))?;
        let ask = FileRequest {
            url: address,
            connection,
            headers: conditions(known),
            login: Login::of(connection),
            everywhere: connection.pass_credentials,
            place: &place,
        };
        let response = self.clients.ask(ask).await?;
        if response.status() == StatusCode::NOT_MODIFIED && !known.is_empty() {
            return Ok(DownloadOutcome::Unchanged);
        }
        let response = tenant_http::accepted(response, &place)?;
        let text = |name: &HeaderName| {
            let value = response.headers().get(name)?;
            value.to_str().ok().map(str::to_owned)
        };
        let validator = Validator {
            etag: text(&ETAG),
            last_modified: text(&LAST_MODIFIED),
        };
        let bytes = tenant_http::body(response, limit, &place).await?;
        Ok(DownloadOutcome::Body { bytes, validator })
    }

    async fn tags(&self, repository: &str, connection: &Connection) -> Result<Vec<String>> {
        registry::Repository::new(&self.clients, repository, connection)?
            .tags()
            .await
    }

    async fn manifest(
        &self,
        repository: &str,
        reference: &str,
        connection: &Connection,
    ) -> Result<Manifest> {
        registry::Repository::new(&self.clients, repository, connection)?
            .manifest(reference)
            .await
    }

    async fn referrers(
        &self,
        repository: &str,
        digest: &str,
        connection: &Connection,
    ) -> Result<Vec<Referrer>> {
        registry::Repository::new(&self.clients, repository, connection)?
            .referrers(digest)
            .await
    }

    async fn layer(
        &self,
        repository: &str,
        layer: &Layer,
        connection: &Connection,
        limit: u64,
    ) -> Result<Bytes> {
        registry::Repository::new(&self.clients, repository, connection)?
            .layer(layer, limit)
            .await
    }
}

/// Returns the headers of a conditional request. A value that is not valid in a header is left out,
/// at the cost of a download.
fn conditions(known: &Validator) -> HeaderMap {
    let pairs = [
        (IF_NONE_MATCH, &known.etag),
        (IF_MODIFIED_SINCE, &known.last_modified),
    ];
    pairs
        .into_iter()
        .filter_map(|(name, text)| Some((name, text.as_deref()?.parse().ok()?)))
        .collect()
}
