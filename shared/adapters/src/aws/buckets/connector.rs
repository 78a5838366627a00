//! The HTTP client of the S3 SDK for hosts that users name: it applies the same checks as all other
//! clients.

use crate::tenant_http::{self, Clients};
use aws_sdk_s3::config::http::{HttpRequest, HttpResponse};
use aws_sdk_s3::config::{RuntimeComponents, SharedHttpClient};
use aws_sdk_s3::error::SdkError;
use aws_sdk_s3::primitives::SdkBody;
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::result::ConnectorError;
use driftless_kernel::ports::{Connection, ErrorKind, PortError};
use http_body_util::Limited;
use reqwest::{Body, Url};
use std::error::Error as _;
use std::fmt;
use std::sync::Arc;

/// The limit of the body of an answer without success, in bytes.
const ERROR_BODY_LIMIT: usize = 1 << 20;

/// An HTTP client for one connection, with a limit of the bytes of an answer.
#[derive(Clone)]
pub(super) struct Gate {
    clients: Arc<Clients>,
    connection: Arc<Connection>,
    limit: usize,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gate")
    }
}

impl Gate {
    pub fn new(clients: Arc<Clients>, connection: Connection, limit: usize) -> Self {
        Self {
            clients,
            connection: Arc::new(connection),
            limit,
        }
    }

    /// Converts the gate to the SDK's type of an HTTP client.
    pub fn into_client(self) -> SharedHttpClient {
        http_client_fn(move |_: &HttpConnectorSettings, _: &RuntimeComponents| {
            SharedHttpConnector::new(self.clone())
        })
    }

    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, ConnectorError> {
        let request = request
            .try_into_http1x()
            .map_err(|error| ConnectorError::user(error.into()))?;
        let (parts, body) = request.into_parts();
        let url = Url::parse(&parts.uri.to_string())
            .map_err(|error| ConnectorError::user(error.into()))?;
        // The parser resolves dots in a path: the result would be the URL of another object.
        if url.path() != parts.uri.path() {
            let message = "the object's URL does not match its key";
            let error = PortError::new(ErrorKind::Invalid, message);
            return Err(ConnectorError::user(error.into()));
        }
        let place = url.host_str().unwrap_or_default().to_owned();
        let client = self
            .clients
            .client(&url, &self.connection)
            .map_err(|error| ConnectorError::user(error.into()))?;
        let body = body.bytes().map(|bytes| Body::from(bytes.to_vec()));
        let request = client
            .request(parts.method, url)
            .headers(parts.headers)
            .body(body.unwrap_or_default());
        let response = request.send().await.map_err(|error| {
            let source = tenant_http::unreachable(&error, &place).into();
            match error.is_timeout() {
                true => ConnectorError::timeout(source),
                false => ConnectorError::io(source),
            }
        })?;
        let limit = match response.status().is_success() {
            true => self.limit,
            false => ERROR_BODY_LIMIT,
        };
        let response = http::Response::<Body>::from(response);
        let response = response.map(|body| SdkBody::from_body_1_x(Limited::new(body, limit)));
        HttpResponse::try_from(response).map_err(|error| ConnectorError::user(error.into()))
    }
}

/// Returns the [`PortError`] with which the gate failed to send a request, if it did.
pub(super) fn port_error<E>(error: &SdkError<E, HttpResponse>) -> Option<&PortError> {
    let SdkError::DispatchFailure(failure) = error else {
        return None;
    };
    let mut source = failure.as_connector_error()?.source();
    while let Some(error) = source {
        if let Some(port_error) = error.downcast_ref() {
            return Some(port_error);
        }
        source = error.source();
    }
    None
}

impl HttpConnector for Gate {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let gate = self.clone();
        HttpConnectorFuture::new(async move { gate.send(request).await })
    }
}
