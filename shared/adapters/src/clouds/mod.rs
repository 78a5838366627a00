//! Clouds of which no SDK is at hand: Microsoft's and Google's, by the few requests that a login takes.

mod azure;
mod google;

pub use azure::AzureLogins;
pub use google::GoogleLogins;

use crate::cloud_http;
use crate::tenant_http::Clients;
use bytes::Bytes;
use driftless_core::ports::{ErrorKind, PortError, Result, Secret, Token};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Request};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::time::Duration;
use url::form_urlencoded::Serializer;

/// How long it is believed where a cluster is.
const PLACE_LIFE: Duration = Duration::from_secs(15 * 60);

/// Where the services of clouds are: an operator's word, and no tenant's.
#[derive(Clone, Debug, Default)]
pub struct CloudHosts {
    /// In whose place all of them are asked, each below its own name: `http://127.0.0.1:9001` is asked for
    /// `/sts.googleapis.com/v1/token`.
    pub stand_in: Option<String>,
    /// The sovereign cloud of Azure, by the host of its Entra ID.
    pub azure_authority: Option<String>,
}

impl CloudHosts {
    /// As the environment says: `DRIFTLESS_CLOUDS_ENDPOINT`, and `AZURE_AUTHORITY_HOST` as Azure's own libraries read it.
    pub fn from_env() -> Self {
        let get = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            stand_in: get("DRIFTLESS_CLOUDS_ENDPOINT"),
            azure_authority: get("AZURE_AUTHORITY_HOST"),
        }
    }
}

/// The services of clouds.
#[derive(Default)]
struct Services {
    hosts: CloudHosts,
    clients: Clients,
}

/// What is sent to a service.
enum LoginQuery<'a> {
    /// The fields of a form.
    Form(&'a [(&'a str, &'a str)]),
    /// JSON.
    Json(&'a serde_json::Value),
    /// Nothing, by POST.
    Post,
    /// Nothing, by GET.
    Get,
}

impl Services {
    /// Asks a service, with a bearer token if there is one, and reads its answer.
    async fn ask<T: DeserializeOwned>(
        &self,
        place: &str,
        question: LoginQuery<'_>,
        bearer: Option<&Token>,
    ) -> Result<T> {
        let url = match &self.hosts.stand_in {
            Some(stand_in) => format!("{}/{place}", stand_in.trim_end_matches('/')),
            None => format!("https://{place}"),
        };
        let broken = || PortError::new(ErrorKind::Invalid, format!("'{place}' is not a valid URL"));
        let request = build(&url, question, bearer).ok_or_else(broken)?;
        let allow_local = self.hosts.stand_in.is_some();
        let answer: Bytes = cloud_http::ask(&self.clients, request, allow_local).await?;
        serde_json::from_slice(&answer).map_err(|_| unreadable(place))
    }
}

fn build(url: &str, question: LoginQuery<'_>, bearer: Option<&Token>) -> Option<Request<Vec<u8>>> {
    let (method, kind, body) = match question {
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

/// A token as a token service tells it.
#[derive(Deserialize)]
struct Given {
    access_token: String,
    /// In seconds.
    expires_in: u64,
}

impl Given {
    fn at(self, now: Duration) -> Token {
        Token {
            secret: Secret::new(self.access_token),
            expires: now.saturating_add(Duration::from_secs(self.expires_in)),
        }
    }
}

fn unreadable(place: &str) -> PortError {
    let place = place.split('?').next().unwrap_or_default();
    let what = format!("'https://{place}' answered something else than was asked for");
    PortError::new(ErrorKind::Unreadable, what)
}
