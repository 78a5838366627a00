//! Containers of Azure Blob Storage, by its REST API: the requests of azblob for source-controller
//! 1.10.

use super::azure::{self, AzureLogins, Shared};
use super::storage::{PAGE_LIMIT, Pages, retried};
use crate::local::SystemClock;
use crate::percent::{decode, encode, encode_path};
use crate::tenant_http;
use async_trait::async_trait;
use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use aws_smithy_xml::decode::{Document, ScopedDecoder, try_data};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use driftless_kernel::ports::{
    AzureBucketLogin, Bucket, BucketAddress, BucketEntry, BucketObject, Clock as _, Connection,
    ErrorKind, PortError, Result, Secret,
};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;
use reqwest::header::{AUTHORIZATION, ETAG, HeaderValue};
use reqwest::{Response, Url};
use std::collections::BTreeMap;
use std::sync::Arc;
use url::form_urlencoded;

/// The version of the REST API.
const VERSION: &str = "2021-12-02";
/// The maximum number of blobs of a page that Azure allows.
const PAGE: &str = "5000";

impl AzureLogins {
    /// Returns the container of an address, without a request to it.
    ///
    /// # Errors
    /// Fails for an endpoint that is not a URL, and for a login that must not be sent to it.
    pub(crate) fn bucket(
        &self,
        address: &BucketAddress,
        login: &AzureBucketLogin,
    ) -> Result<Arc<dyn Bucket>> {
        let invalid = |problem: &str| {
            let place = tenant_http::place_of(&address.endpoint);
            PortError::new(ErrorKind::Invalid, format!("'{place}' {problem}"))
        };
        let url = Url::parse(&address.endpoint).map_err(|_| invalid("is not a valid URL"))?;
        if matches!(login, AzureBucketLogin::Entra(_)) && url.scheme() != "https" {
            return Err(invalid("is not https, but a token is only sent over TLS"));
        }
        let query = match login {
            AzureBucketLogin::Sas(signature) => {
                let signature = signature.expose_str().unwrap_or_default().trim();
                let signature = signature.strip_prefix('?').unwrap_or(signature);
                form_urlencoded::parse(signature.as_bytes())
                    .into_owned()
                    .collect()
            }
            AzureBucketLogin::Entra(_) | AzureBucketLogin::AccountKey { .. } => BTreeMap::new(),
        };
        let place = format!("{}/{}", url.as_str().trim_end_matches('/'), address.name);
        Ok(Arc::new(Container {
            shared: self.0.clone(),
            login: login.clone(),
            place,
            query,
            connection: address.connection.clone(),
        }))
    }
}

struct Container {
    shared: Arc<Shared>,
    login: AzureBucketLogin,
    /// The URL of the container.
    place: String,
    /// The query that each request has: a shared access signature.
    query: BTreeMap<String, String>,
    connection: Connection,
}

impl Container {
    /// Sends a GET request for a blob, or for the container itself if the key is empty.
    async fn ask(&self, key: &str, query: &[(&str, &str)]) -> Result<Response> {
        let place = match key {
            "" => self.place.clone(),
            key => format!("{}/{}", self.place, encode_path(key)),
        };
        let invalid =
            || PortError::new(ErrorKind::Invalid, format!("'{place}' is not a valid URL"));
        let mut url = Url::parse(&place).map_err(|_| invalid())?;
        let mut pairs = self.query.clone();
        pairs.extend(
            query
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        );
        let encoded: Vec<String> = pairs
            .iter()
            .map(|(name, value)| format!("{}={}", encode(name), encode(value)))
            .collect();
        if !encoded.is_empty() {
            url.set_query(Some(&encoded.join("&")));
        }

        let now = SystemClock.now();
        let seconds = i64::try_from(now.as_secs()).unwrap_or_default();
        let date = Timestamp::from_second(seconds).ok();
        let date = date.and_then(|now| {
            DateTimePrinter::new()
                .timestamp_to_rfc9110_string(&now)
                .ok()
        });
        let date = date.unwrap_or_default();
        let host = url.host_str().unwrap_or_default().to_owned();
        let authorization = match &self.login {
            AzureBucketLogin::Sas(_) => None,
            AzureBucketLogin::AccountKey { account, key } => {
                let signature = signature(account, key, &url, &pairs, &date)?;
                Some(format!("SharedKey {account}:{signature}"))
            }
            AzureBucketLogin::Entra(identity) => {
                let token = self.shared.storage_token(&host, identity, now).await?;
                let token = token.secret.expose_str().unwrap_or_default();
                Some(format!("Bearer {token}"))
            }
        };
        let hosts = &self.shared.services.hosts;
        let is_replaced = hosts.stand_in.is_some() && azure::is_storage(&host);
        if is_replaced {
            let bare = url.as_str().split_once("://").map_or("", |(_, bare)| bare);
            url = Url::parse(&hosts.url(bare)).map_err(|_| invalid())?;
        }
        let connection = Connection {
            allow_local: self.connection.allow_local || is_replaced,
            ..self.connection.clone()
        };
        let client = self.shared.services.clients.client(&url, &connection)?;
        let mut request = client.get(url).header("x-ms-version", VERSION);
        request = request.header("x-ms-date", date);
        if let Some(value) = authorization {
            let mut value = HeaderValue::try_from(value).map_err(|_| invalid())?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let sent = request.send().await;
        let response = sent.map_err(|error| tenant_http::unreachable(&error, &place))?;
        match response.status().is_success() {
            true => Ok(response),
            false => Err(refusal(&response, &place)),
        }
    }

    /// Sends a GET request, and a second one if the service is not available.
    async fn get(&self, key: &str, query: &[(&str, &str)]) -> Result<Response> {
        retried(|| self.ask(key, query)).await
    }
}

#[async_trait]
impl Bucket for Container {
    async fn list(&self, prefix: &str, most: usize) -> Result<Vec<BucketEntry>> {
        let mut pages = Pages::new(&self.place, most);
        let mut marker = String::new();
        loop {
            let mut query = vec![
                ("restype", "container"),
                ("comp", "list"),
                ("maxresults", PAGE),
            ];
            let more = [("prefix", prefix), ("marker", marker.as_str())];
            query.extend(more.into_iter().filter(|(_, value)| !value.is_empty()));
            let response = self.get("", &query).await?;
            let body = tenant_http::body(response, PAGE_LIMIT, &self.place).await?;
            let page = std::str::from_utf8(&body).ok().and_then(page);
            let (entries, next) = page.ok_or_else(|| {
                let message = format!("list '{}': the response is not a complete page", self.place);
                PortError::new(ErrorKind::Unreadable, message)
            })?;
            pages.add(entries)?;
            marker = next;
            if marker.is_empty() {
                return Ok(pages.found);
            }
        }
    }

    async fn get(&self, key: &str, limit: u64) -> Result<Option<BucketObject>> {
        let answer = match self.get(key, &[]).await {
            Err(error) if error.message.ends_with("(BlobNotFound)") => return Ok(None),
            answer => answer?,
        };
        let place = format!("{}/{key}", self.place);
        let etag = answer
            .headers()
            .get(ETAG)
            .and_then(|etag| etag.to_str().ok());
        let etag = quoted(etag.unwrap_or_default());
        let bytes = tenant_http::body(answer, limit, &place).await?;
        Ok(Some(BucketObject { etag, bytes }))
    }
}

/// Converts an answer without success to an error with Azure's code, but without its message.
fn refusal(response: &Response, place: &str) -> PortError {
    let mut error = tenant_http::refusal(response, place);
    let code = response.headers().get("x-ms-error-code");
    let code = code.and_then(|code| code.to_str().ok()).unwrap_or_default();
    let is_plain = code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if !code.is_empty() && code.len() <= 64 && is_plain {
        error.message = format!("{} ({code})", error.message);
    }
    if code == "AuthenticationFailed" {
        let hint = "the specified bucket name may be incorrect, nonexistent, or the caller might lack sufficient permissions to access it";
        error.message = format!("{hint}: {}", error.message);
    }
    error
}

/// Returns the signature of a GET request by the key of a storage account ("Authorize with Shared
/// Key").
fn signature(
    account: &str,
    key: &Secret,
    url: &Url,
    query: &BTreeMap<String, String>,
    date: &str,
) -> Result<String> {
    let key = STANDARD.decode(key.expose().trim_ascii()).map_err(|_| {
        let message = "the key of the storage account (accountKey) is not base64";
        PortError::new(ErrorKind::Invalid, message)
    })?;
    let mut text = format!(
        "GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:{date}\nx-ms-version:{VERSION}\n/{account}{}",
        url.path()
    );
    // Names are in order, as required.
    for (name, value) in query {
        text.push_str(&format!("\n{}:{value}", name.to_lowercase()));
    }
    let tag = sign(&Key::new(HMAC_SHA256, &key), text.as_bytes());
    Ok(STANDARD.encode(tag))
}

/// Returns an ETag in the form of the header, which a list does not have.
fn quoted(etag: &str) -> String {
    match etag.is_empty() || etag.starts_with('"') {
        true => etag.to_owned(),
        false => format!("\"{etag}\""),
    }
}

/// Reads a page of a list: its blobs, and the marker of the next page. Returns `None` for anything
/// but a whole page, so that half of one is not taken for an empty container.
fn page(text: &str) -> Option<(Vec<BucketEntry>, String)> {
    let text = text.trim_start_matches('\u{feff}').trim();
    if !text.ends_with("</EnumerationResults>") {
        return None;
    }
    let mut document = Document::new(text);
    let mut root = document.root_element().ok()?;
    if !root.start_el().matches("EnumerationResults") {
        return None;
    }
    let (mut found, mut next) = (Vec::new(), None);
    while let Some(mut tag) = root.next_tag() {
        match tag.start_el().local() {
            "Blobs" => {
                while let Some(mut blob) = tag.next_tag() {
                    if blob.start_el().matches("Blob") {
                        found.push(entry(&mut blob)?);
                    }
                }
            }
            "NextMarker" => next = Some(try_data(&mut tag).ok()?.into_owned()),
            _ => {}
        }
    }
    Some((found, next?))
}

fn entry(blob: &mut ScopedDecoder<'_, '_>) -> Option<BucketEntry> {
    let (mut key, mut etag, mut size) = (None, None, None);
    while let Some(mut tag) = blob.next_tag() {
        match tag.start_el().local() {
            "Name" => {
                let is_encoded = tag.start_el().attr("Encoded") == Some("true");
                let name = try_data(&mut tag).ok()?;
                key = Some(match is_encoded {
                    // It has characters that XML cannot contain.
                    true => String::from_utf8_lossy(&decode(&name)).into_owned(),
                    false => name.into_owned(),
                });
            }
            "Properties" => {
                while let Some(mut property) = tag.next_tag() {
                    match property.start_el().local() {
                        "Etag" => etag = Some(quoted(&try_data(&mut property).ok()?)),
                        "Content-Length" => size = try_data(&mut property).ok()?.parse().ok(),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    Some(BucketEntry {
        key: key.filter(|key| !key.is_empty())?,
        etag: etag?,
        size: size?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults \
        ServiceEndpoint=\"https://acme.blob.core.windows.net/\" ContainerName=\"fleet\"><Prefix>a</Prefix><Blobs>\
        <Blob><Name>a/b &amp; c.yaml</Name><Properties><Last-Modified>x</Last-Modified><Etag>0x8D1</Etag>\
        <Content-Length>12</Content-Length></Properties><OrMetadata /></Blob>\
        <Blob><Name Encoded=\"true\">a%EF%BF%BE+b</Name><Properties><Etag>\"0x8D2\"</Etag><Content-Length>0</Content-Length>\
        </Properties></Blob></Blobs><NextMarker>2!8</NextMarker></EnumerationResults>";

    #[test]
    fn pages() {
        let (found, next) = page(PAGE).unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|one| (&*one.key, &*one.etag, one.size))
            .collect();
        assert_eq!(
            found,
            [
                ("a/b & c.yaml", "\"0x8D1\"", 12),
                ("a\u{fffe}+b", "\"0x8D2\"", 0)
            ]
        );
        assert_eq!(next, "2!8");
        let end = "</EnumerationResults>";
        let empty = format!("<EnumerationResults><Blobs/><NextMarker/>{end}");
        assert_eq!(page(&empty).unwrap(), (Vec::new(), String::new()));
        for text in [
            "",
            "<html/>",
            &PAGE[..PAGE.len() / 2],
            &format!("<EnumerationResults><Blobs/>{end}"),
            &format!(
                "<EnumerationResults><Blobs><Blob><Name>a</Name></Blob></Blobs><NextMarker/>{end}"
            ),
        ] {
            assert_eq!(page(text), None, "{text}");
        }
    }

    /// The signature is that of azblob's SharedKeyCredential for this request.
    #[test]
    fn requests_are_signed_with_the_key_of_the_account() {
        let url = Url::parse("https://acme.blob.core.windows.net/fleet/a%20b").unwrap();
        let key = Secret::new(STANDARD.encode("s3cret"));
        let query = [("restype", "container"), ("comp", "list")];
        let query = query.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let date = "Tue, 14 Nov 2023 22:13:20 GMT";
        let signed = signature("acme", &key, &url, &query.into(), date).unwrap();
        assert_eq!(signed, SIGNED);
        let broken = signature(
            "acme",
            &Secret::new("s3cret!"),
            &url,
            &BTreeMap::new(),
            date,
        );
        let error = broken.unwrap_err();
        assert!(!error.message.contains("s3cret"), "{error}");
    }

    const SIGNED: &str = "TSu9vBYU0AnM/EgPBIeOYF1IMd35BCqX3l0Hj+6uo2A=";
}
