//! Buckets of Google Cloud Storage, by its JSON API: the requests of cloud.google.com/go/storage
//! for source-controller 1.10.

use super::google::{GoogleLogins, Shared};
use super::unreadable;
use crate::cloud_http;
use crate::local::SystemClock;
use crate::percent::encode;
use crate::tenant_http;
use async_trait::async_trait;
use driftless_kernel::ports::{
    Bucket, BucketAddress, BucketEntry, BucketObject, Clock as _, Connection, ErrorKind,
    GoogleLogin, PortError, Result,
};
use reqwest::{Response, Url};
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;

/// The limit of one page of a list, in bytes: 1,000 keys of 1,000 bytes, and their attributes.
pub(super) const PAGE_LIMIT: u64 = 8 << 20;
/// The number of successive pages without entries that are accepted.
const EMPTY_PAGES: usize = 10;
/// The delay before the second attempt. The step itself is also retried.
const BACKOFF: Duration = Duration::from_millis(200);
/// The limit of the attributes of one object, in bytes.
const ATTRIBUTES_LIMIT: u64 = 64 << 10;
const HOST: &str = "storage.googleapis.com";

impl GoogleLogins {
    /// Returns the bucket of an address, without a request to it.
    pub(crate) fn bucket(&self, address: &BucketAddress, login: &GoogleLogin) -> Arc<dyn Bucket> {
        Arc::new(GoogleBucket {
            shared: self.0.clone(),
            login: login.clone(),
            place: format!("{HOST}/storage/v1/b/{}/o", encode(&address.name)),
            connection: address.connection.clone(),
        })
    }
}

struct GoogleBucket {
    shared: Arc<Shared>,
    login: GoogleLogin,
    /// The host and the path of the bucket's objects.
    place: String,
    connection: Connection,
}

/// A page of a list of objects.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    kind: String,
    #[serde(default)]
    items: Vec<Attributes>,
    #[serde(default)]
    next_page_token: String,
}

/// The attributes of an object.
#[derive(Deserialize)]
struct Attributes {
    #[serde(default)]
    name: String,
    etag: String,
    #[serde(default)]
    generation: String,
    #[serde(default)]
    size: String,
}

impl GoogleBucket {
    /// Sends a GET request to a path with a query.
    async fn ask(&self, place: &str) -> Result<Response> {
        let shown = tenant_http::place_of(place);
        let token = self.shared.token_of(&self.login, SystemClock.now()).await?;
        let broken = || PortError::new(ErrorKind::Invalid, format!("'{shown}' is not a valid URL"));
        let hosts = &self.shared.services.hosts;
        let url = Url::parse(&hosts.url(place)).map_err(|_| broken())?;
        let connection = Connection {
            allow_local: self.connection.allow_local || hosts.stand_in.is_some(),
            ..self.connection.clone()
        };
        let client = self.shared.services.clients.client(&url, &connection)?;
        let token = token.secret.expose_str().unwrap_or_default();
        let sent = client.get(url).bearer_auth(token).send().await;
        let response = sent.map_err(|error| tenant_http::unreachable(&error, shown))?;
        match response.status().is_success() {
            true => Ok(response),
            false => Err(cloud_http::refusal(response, shown).await),
        }
    }

    /// Sends a GET request, and a second one if the service is not available.
    async fn get(&self, place: &str) -> Result<Response> {
        retried(|| self.ask(place)).await
    }
}

/// Sends a request, and a second one if the service is not available.
pub(super) async fn retried<F>(ask: impl Fn() -> F) -> Result<Response>
where
    F: Future<Output = Result<Response>>,
{
    match ask().await {
        Err(error) if error.kind == ErrorKind::Unavailable => {
            tokio::time::sleep(BACKOFF).await;
            ask().await
        }
        answer => answer,
    }
}

#[async_trait]
impl Bucket for GoogleBucket {
    async fn list(&self, prefix: &str, most: usize) -> Result<Vec<BucketEntry>> {
        let mut pages = Pages::new(&self.place, most);
        let (mut token, fields) = (String::new(), "kind,nextPageToken,items(name,etag,size)");
        loop {
            let place = format!(
                "{}?fields={}&prefix={}&pageToken={}",
                self.place,
                encode(fields),
                encode(prefix),
                encode(&token)
            );
            let response = self.get(&place).await?;
            let body = tenant_http::body(response, PAGE_LIMIT, &self.place).await?;
            let page: Page = serde_json::from_slice(&body).map_err(|_| unreadable(&self.place))?;
            if page.kind != "storage#objects" {
                return Err(unreadable(&self.place));
            }
            let entries = page.items.into_iter().map(|item| {
                Some(BucketEntry {
                    size: item.size.parse().ok()?,
                    key: Some(item.name).filter(|name| !name.is_empty())?,
                    etag: item.etag,
                })
            });
            let entries: Option<Vec<BucketEntry>> = entries.collect();
            pages.add(entries.ok_or_else(|| unreadable(&self.place))?)?;
            token = page.next_page_token;
            if token.is_empty() {
                return Ok(pages.found);
            }
        }
    }

    /// Reads the attributes, then the content, as source-controller does: the answer with the
    /// content has another ETag.
    async fn get(&self, key: &str, limit: u64) -> Result<Option<BucketObject>> {
        let place = format!("{}/{}", self.place, encode(key));
        let attributes = format!("{place}?fields={}", encode("etag,generation"));
        let answer = match self.get(&attributes).await {
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(None),
            answer => answer?,
        };
        let body = tenant_http::body(answer, ATTRIBUTES_LIMIT, &place).await?;
        let found: Attributes = serde_json::from_slice(&body).map_err(|_| unreadable(&place))?;
        let generation = encode(&found.generation);
        let content = format!("{place}?alt=media&ifGenerationMatch={generation}");
        let answer = match self.get(&content).await {
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(None),
            answer => answer?,
        };
        Ok(Some(BucketObject {
            etag: found.etag,
            bytes: tenant_http::body(answer, limit, &place).await?,
        }))
    }
}

/// The entries of the pages of a list, within the limits.
pub(super) struct Pages<'a> {
    pub found: Vec<BucketEntry>,
    place: &'a str,
    most: usize,
    empty: usize,
}

impl<'a> Pages<'a> {
    /// Creates a list without entries.
    pub fn new(place: &'a str, most: usize) -> Self {
        Self {
            found: Vec::new(),
            place,
            most,
            empty: 0,
        }
    }

    /// Adds a page.
    ///
    /// # Errors
    /// Fails for more entries than the limit, and for too many pages without entries.
    pub fn add(&mut self, page: Vec<BucketEntry>) -> Result<()> {
        self.empty = if page.is_empty() { self.empty + 1 } else { 0 };
        self.found.extend(page);
        let (place, most) = (self.place, self.most);
        if self.found.len() > most {
            let message = format!("list '{place}': more than {most} objects, which is the limit");
            return Err(PortError::new(ErrorKind::Invalid, message));
        }
        match self.empty > EMPTY_PAGES {
            true => Err(PortError::new(
                ErrorKind::Unreadable,
                format!("list '{place}': more than {EMPTY_PAGES} pages without objects"),
            )),
            false => Ok(()),
        }
    }
}
