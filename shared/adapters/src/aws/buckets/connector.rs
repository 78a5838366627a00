//! How the SDK's requests to hosts that users name are sent: through the same gate as all others.

use crate::tenant_http::{self, Clients};
use aws_sdk_s3::config::http::{HttpRequest, HttpResponse};
use aws_sdk_s3::config::{RuntimeComponents, SharedHttpClient};
use aws_sdk_s3::error::SdkError;
use aws_sdk_s3::primitives::SdkBody;
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::result::ConnectorError;
use driftless_core::ports::{Connection, ErrorKind, PortError};
use http_body_util::Limited;
use reqwest::{Body, Url};
use std::error::Error as _;
use std::fmt;
use std::sync::Arc;

/// Bytes of an answer that refuses.
const REFUSAL: usize = 1 << 20;

/// Sends requests as a connection says, and passes on so many bytes of an answer.
#[derive(Clone)]
pub(super) struct Gate {
    clients: Arc<Clients>,
    how: Arc<Connection>,
    most: usize,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gate")
    }
}

impl Gate {
    pub fn new(clients: Arc<Clients>, how: Connection, most: usize) -> Self {
        Self {
            clients,
            how: Arc::new(how),
            most,
        }
    }

    /// The gate as the SDK takes it.
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
        // The parser takes dots out of a path; what is there then is another object.
        if url.path() != parts.uri.path() {
            let what = "the object's URL does not match its key";
            let told = PortError::new(ErrorKind::Invalid, what);
            return Err(ConnectorError::user(told.into()));
        }
        let place = url.host_str().unwrap_or_default().to_owned();
        let client = self
            .clients
            .client(&url, &self.how)
            .map_err(|error| ConnectorError::user(error.into()))?;
        let body = body.bytes().map(|bytes| Body::from(bytes.to_vec()));
        let request = client
            .request(parts.method, url)
            .headers(parts.headers)
            .body(body.unwrap_or_default());
        let response = request.send().await.map_err(|error| {
            let told = tenant_http::unreachable(&error, &place).into();
            match error.is_timeout() {
                true => ConnectorError::timeout(told),
                false => ConnectorError::io(told),
            }
        })?;
        let most = match response.status().is_success() {
            true => self.most,
            false => REFUSAL,
        };
        let response = http::Response::<Body>::from(response);
        let response = response.map(|body| SdkBody::from_body_1_x(Limited::new(body, most)));
        HttpResponse::try_from(response).map_err(|error| ConnectorError::user(error.into()))
    }
}

/// What the gate, or a client behind it, said of a request that was not answered.
pub(super) fn told<E>(error: &SdkError<E, HttpResponse>) -> Option<&PortError> {
    let SdkError::DispatchFailure(failure) = error else {
        return None;
    };
    let mut source = failure.as_connector_error()?.source();
    while let Some(error) = source {
        if let Some(told) = error.downcast_ref() {
            return Some(told);
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
