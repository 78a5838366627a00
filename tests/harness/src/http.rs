//! A small blocking HTTP client for assertions. It follows no redirect, uses no
//! proxy and takes every status as an answer.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use ureq::http::{HeaderMap, Request};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// The timeout of a request.
const PATIENCE: Duration = Duration::from_secs(60);

/// An HTTP client with its trusted authority and its default headers.
#[derive(Clone, Debug)]
pub struct Http {
    agent: ureq::Agent,
    headers: Vec<(String, String)>,
}

/// An answer, whatever its status.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The headers of the answer.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Vec<u8>,
}

impl Http {
    /// Creates a client for plain HTTP on loopback.
    pub fn plain() -> Self {
        Self::patient(PATIENCE)
    }

    /// Creates a client for plain HTTP on loopback with a timeout.
    pub fn patient(time: Duration) -> Self {
        Self::build(None, time)
    }

    /// Creates a client that trusts only this certificate authority (PEM).
    pub fn trusting(ca: &str) -> Self {
        Self::trusting_patient(ca, PATIENCE)
    }

    /// Creates a client that trusts only this certificate authority (PEM), with a timeout.
    pub fn trusting_patient(ca: &str, time: Duration) -> Self {
        let ca = Certificate::from_pem(ca.as_bytes()).expect("a PEM certificate");
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::from([ca]))
            .unversioned_rustls_crypto_provider(Arc::new(
                rustls::crypto::aws_lc_rs::default_provider(),
            ))
            .build();
        Self::build(Some(tls), time)
    }

    fn build(tls: Option<TlsConfig>, time: Duration) -> Self {
        let mut config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .timeout_global(Some(time));
        if let Some(tls) = tls {
            config = config.tls_config(tls);
        }
        Self {
            agent: config.build().into(),
            headers: Vec::new(),
        }
    }

    /// Adds a header to each request of this client.
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sends a request; an error is a failure below HTTP (refused, timeout, TLS).
    pub fn send(
        &self,
        method: &str,
        url: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Result<Answer, ureq::Error> {
        let mut request = Request::builder().method(method).uri(url);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut response = match body {
            None => self.agent.run(request.body(())?)?,
            Some(bytes) => self.agent.run(request.body(bytes)?)?,
        };
        Ok(Answer {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            body: response
                .body_mut()
                .with_config()
                .limit(256 << 20)
                .read_to_vec()?,
        })
    }

    /// Sends a GET request whose answer is read while it arrives, such as a watch.
    ///
    /// # Errors
    /// A failure below HTTP: refused, timeout, TLS.
    pub fn stream(&self, url: &str) -> Result<impl Read + use<>, ureq::Error> {
        let mut request = Request::builder().uri(url);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let response = self.agent.run(request.body(())?)?;
        Ok(response.into_body().into_reader())
    }

    /// Sends a GET request; panics if the server does not answer.
    pub fn get(&self, url: &str) -> Answer {
        self.send("GET", url, &[], None)
            .unwrap_or_else(|e| panic!("GET {url}: {e}"))
    }

    /// Posts a JSON body; panics if the server does not answer.
    pub fn post(&self, url: &str, body: &Value) -> Answer {
        let json = [("content-type", "application/json")];
        self.send("POST", url, &json, Some(body.to_string().as_bytes()))
            .unwrap_or_else(|e| panic!("POST {url}: {e}"))
    }
}

impl Answer {
    /// Returns the body as a string.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Parses the body as JSON; panics with the body if it is not valid.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("status {}, not JSON ({e}): {}", self.status, self.text()))
    }

    /// Returns a header's value, empty if the header is absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }
}
