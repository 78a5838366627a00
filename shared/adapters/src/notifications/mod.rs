//! The connections of notifications: HTTP and NATS to addresses that tenants name, with the checks
//! of `tenant_http`.

mod nats;
mod nkey;

use crate::tenant_http::{self, Clients};
use async_trait::async_trait;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use driftless_kernel::ports::{Connection, ErrorKind, Notifiers, PortError};
use driftless_notify::{NatsLogin, Transport, TransportError};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use std::sync::Arc;
use std::time::Duration;

/// The limit of an answer, in bytes. Lists of comments are the longest answers.
const ANSWER_LIMIT: u64 = 8 << 20;
/// The limit of a request, in bytes.
const REQUEST_LIMIT: usize = 1 << 20;
/// The time limit of a Provider without `spec.timeout`, which is Flux's.
pub const TIMEOUT: Duration = Duration::from_secs(15);

/// The clients of all Providers.
#[derive(Default)]
pub struct Notifications {
    clients: Arc<Clients>,
}

impl Notifications {
    /// Returns the transport of one Provider, with its certificates, its proxy and its time limit.
    /// A connection without a time limit gets [`TIMEOUT`].
    pub fn transport(&self, mut connection: Connection) -> ProviderTransport {
        if connection.timeout.is_zero() {
            connection.timeout = TIMEOUT;
        }
        ProviderTransport {
            clients: Arc::clone(&self.clients),
            connection,
        }
    }
}

impl Notifiers for Notifications {
    fn transport(&self, connection: Connection) -> Arc<dyn Transport> {
        Arc::new(self.transport(connection))
    }
}

/// The transport of one Provider.
pub struct ProviderTransport {
    clients: Arc<Clients>,
    connection: Connection,
}

#[async_trait]
impl Transport for ProviderTransport {
    async fn http(
        &self,
        request: http::Request<Vec<u8>>,
    ) -> Result<http::Response<Vec<u8>>, TransportError> {
        if request.body().len() > REQUEST_LIMIT {
            let message = format!("the message has more than {REQUEST_LIMIT} bytes");
            return Err(refused(message));
        }
        let request = reqwest::Request::try_from(request);
        let request = request.map_err(|_| refused("the address is not a valid URL"))?;
        // The path and the query may be a login: messages name only the host.
        let host = request.url().host_str().unwrap_or_default().to_owned();
        let client = self.clients.client(request.url(), &self.connection);
        let client = client.map_err(|error| transport_error(&error))?;
        let sent = client.execute(request).await;
        let response = sent.map_err(|error| lost(&host, &tenant_http::reason(&error)))?;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = tenant_http::body(response, ANSWER_LIMIT, &host).await;
        let body = body.map_err(|error| transport_error(&error))?;
        let mut answer = http::Response::new(body.to_vec());
        (*answer.status_mut(), *answer.headers_mut()) = (status, headers);
        Ok(answer)
    }

    async fn sign_rs256(&self, key: &[u8], message: &[u8]) -> Result<Vec<u8>, TransportError> {
        sign(key, message).ok_or_else(|| {
            let keys = "githubAppPrivateKey or the private_key of 'token'";
            refused(format!(
                "the key of the Secret ({keys}) is not an RSA key in PEM"
            ))
        })
    }

    async fn nats_publish(
        &self,
        server: &str,
        subject: &str,
        login: &NatsLogin,
        payload: &[u8],
    ) -> Result<(), TransportError> {
        let publish = nats::publish(server, subject, login, payload, &self.connection);
        match tokio::time::timeout(self.connection.timeout, publish).await {
            Ok(sent) => sent,
            Err(_) => Err(TransportError {
                message: "the server of NATS did not answer in time".to_owned(),
                is_retryable: true,
            }),
        }
    }
}

fn sign(key: &[u8], message: &[u8]) -> Option<Vec<u8>> {
    let pair = match PrivateKeyDer::from_pem_slice(key).ok()? {
        PrivateKeyDer::Pkcs1(key) => RsaKeyPair::from_der(key.secret_pkcs1_der()),
        PrivateKeyDer::Pkcs8(key) => RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()),
        _ => return None,
    };
    let pair = pair.ok()?;
    let mut signature = vec![0; pair.public_modulus_len()];
    let random = SystemRandom::new();
    let signed = pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature);
    signed.ok().map(|()| signature)
}

/// Returns an error that no later attempt changes.
fn refused(message: impl Into<String>) -> TransportError {
    TransportError {
        message: message.into(),
        is_retryable: false,
    }
}

/// Returns the error of a connection to a host.
fn lost(host: &str, reason: &str) -> TransportError {
    TransportError {
        message: format!("'{host}': {reason}"),
        is_retryable: true,
    }
}

fn transport_error(error: &PortError) -> TransportError {
    TransportError {
        message: error.message.clone(),
        is_retryable: error.kind != ErrorKind::Invalid,
    }
}

#[cfg(test)]
mod tests;
