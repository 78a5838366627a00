//! Adapters for Microsoft's and Google's clouds. A login needs only a few requests, so there is no
//! SDK.

mod azure;
mod blobs;
mod google;
mod storage;

pub use azure::AzureLogins;
pub use google::GoogleLogins;

use crate::cloud_http;
use crate::tenant_http::Clients;
use bytes::Bytes;
use driftless_kernel::ports::{ErrorKind, PortError, Result, Secret, Token};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Request};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::time::Duration;
use url::form_urlencoded::Serializer;

/// The hosts of the clouds' services, which only the operator configures.
#[derive(Clone, Debug, Default)]
pub struct CloudHosts {
    /// The URL of a server that replaces all services, with a path for each host: with
    /// `http://127.0.0.1:9001`, requests go to `http://127.0.0.1:9001/sts.googleapis.com/v1/token`.
    pub stand_in: Option<String>,
    /// The URL of Entra ID's authority, which selects a sovereign cloud of Azure.
    pub azure_authority: Option<String>,
}

impl CloudHosts {
    /// Reads `DRIFTLESS_CLOUDS_ENDPOINT` and, like Azure's own libraries, `AZURE_AUTHORITY_HOST`
    /// from the environment.
    pub fn from_env() -> Self {
        let get = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            stand_in: get("DRIFTLESS_CLOUDS_ENDPOINT"),
            azure_authority: get("AZURE_AUTHORITY_HOST"),
        }
    }

    /// Returns the URL of `HOST/PATH`.
    fn url(&self, place: &str) -> String {
        match &self.stand_in {
            Some(stand_in) => format!("{}/{place}", stand_in.trim_end_matches('/')),
            None => format!("https://{place}"),
        }
    }
}

/// A client of the clouds' services.
#[derive(Default)]
struct Services {
    hosts: CloudHosts,
    clients: Clients,
}

/// The method and the body of a request to a service.
enum LoginQuery<'a> {
    /// A POST request with the fields of a form.
    Form(&'a [(&'a str, &'a str)]),
    /// A POST request with JSON.
    Json(&'a serde_json::Value),
    /// A POST request without a body.
    Post,
    /// A GET request.
    Get,
}

impl Services {
    fn new(hosts: CloudHosts) -> Self {
        Self {
            hosts,
            clients: Clients::default(),
        }
    }

    /// Sends a request to a service, with a bearer token if there is one, and parses the answer.
    async fn ask<T: DeserializeOwned>(
        &self,
        place: &str,
        query: LoginQuery<'_>,
        bearer: Option<&Token>,
    ) -> Result<T> {
        let url = self.hosts.url(place);
        let broken = || PortError::new(ErrorKind::Invalid, format!("'{place}' is not a valid URL"));
        let request = build(&url, query, bearer).ok_or_else(broken)?;
        let allow_local = self.hosts.stand_in.is_some();
        let answer: Bytes = cloud_http::ask(&self.clients, request, allow_local).await?;
        serde_json::from_slice(&answer).map_err(|_| unreadable(place))
    }
}

fn build(url: &str, query: LoginQuery<'_>, bearer: Option<&Token>) -> Option<Request<Vec<u8>>> {
    let (method, kind, body) = match query {
        LoginQuery::Form(fields) => {
            let body = Serializer::new(String::new()).extend_pairs(fields).finish();
            ("POST", "application/x-www-form-urlencoded", body)
        }
        LoginQuery::Json(body) => ("POST", "application/json", body.to_string()),
        LoginQuery::Post => ("POST", "", String::new()),
        LoginQuery::Get => ("GET", "", String::new()),
    };
    let mut request = Request::builder().method(method).uri(url);
    request = request.header(ACCEPT, "application/json");
    if !kind.is_empty() {
        request = request.header(CONTENT_TYPE, kind);
    }
    if let Some(token) = bearer {
        let header = format!("Bearer {}", token.secret.expose_str()?);
        let mut header = HeaderValue::try_from(header).ok()?;
        header.set_sensitive(true);
        request = request.header(AUTHORIZATION, header);
    }
    request.body(body.into_bytes()).ok()
}

/// The answer of a token service.
#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    /// The life of the token in seconds.
    expires_in: u64,
}

impl TokenResponse {
    fn at(self, now: Duration) -> Token {
        Token {
            secret: Secret::new(self.access_token),
            expires: now.saturating_add(Duration::from_secs(self.expires_in)),
        }
    }
}

fn unreadable(place: &str) -> PortError {
    let place = place.split('?').next().unwrap_or_default();
    let message = format!("'https://{place}': unexpected content of the answer");
    PortError::new(ErrorKind::Unreadable, message)
}
