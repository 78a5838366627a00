//! Hosts of charts and OCI artifacts, over HTTP.
//!
//! Tenants name these hosts. So addresses of the machine itself (loopback, link-local) are refused where a name is looked up and
//! where a redirect leads, unless the connection allows them; no proxy of the environment is used; nothing is unpacked on the way.

mod registry;

use crate::tenant_http::{self, Clients, FileRequest, Login};
use async_trait::async_trait;
use bytes::Bytes;
use driftless_core::ports::{
    Charts, Connection, ErrorKind, Fetched, Layer, Manifest, PortError, Referrer, Result, Validator,
};
use driftless_core::source::shown;
use reqwest::header::{
    ETAG, HeaderMap, HeaderName, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED,
};
use reqwest::{StatusCode, Url};

/// Repositories of charts and registries.
#[derive(Default)]
pub struct HttpCharts {
    clients: Clients,
}

impl HttpCharts {
    /// No host known yet.
    pub fn new() -> Self {
        Self::default()
    }
}

#[async_trait]
impl Charts for HttpCharts {
    async fn get(
        &self,
        url: &str,
        how: &Connection,
        known: &Validator,
        limit: u64,
    ) -> Result<Fetched> {
        let place = shown(url);
        let address = Url::parse(url)
            .map_err(|error| PortError::new(ErrorKind::Invalid, format!("'{place}': {error}")))?;
        let ask = FileRequest {
            url: address,
            how,
            headers: conditions(known),
            login: Login::of(how),
            everywhere: how.pass_credentials,
            place: &place,
        };
        let response = self.clients.ask(ask).await?;
        if response.status() == StatusCode::NOT_MODIFIED && !known.is_empty() {
            return Ok(Fetched::Unchanged);
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
        Ok(Fetched::Body { bytes, validator })
    }

    async fn tags(&self, repository: &str, how: &Connection) -> Result<Vec<String>> {
        registry::Repository::new(&self.clients, repository, how)?
            .tags()
            .await
    }

    async fn manifest(
        &self,
        repository: &str,
        reference: &str,
        how: &Connection,
    ) -> Result<Manifest> {
        registry::Repository::new(&self.clients, repository, how)?
            .manifest(reference)
            .await
    }

    async fn referrers(
        &self,
        repository: &str,
        digest: &str,
        how: &Connection,
    ) -> Result<Vec<Referrer>> {
        registry::Repository::new(&self.clients, repository, how)?
            .referrers(digest)
            .await
    }

    async fn layer(
        &self,
        repository: &str,
        layer: &Layer,
        how: &Connection,
        limit: u64,
    ) -> Result<Bytes> {
        registry::Repository::new(&self.clients, repository, how)?
            .layer(layer, limit)
            .await
    }
}

/// The headers of a conditional question; what is no header is left out, which costs a download.
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
