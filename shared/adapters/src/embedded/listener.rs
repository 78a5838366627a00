//! Serves an embedded server over HTTPS, for tools in other processes.

use super::service::EmbeddedService;
use super::tls::Tls;
use super::users::UserSource;
use super::{Embedded, kubeconfig};
use driftless_apiserver::User;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

/// An HTTPS listener of a server. Dropping it stops the listener and closes its connections.
pub struct Listener {
    server: Embedded,
    address: SocketAddr,
    authority: String,
    task: JoinHandle<()>,
}

impl Embedded {
    /// Listens on a loopback address; port 0 selects a free one. Users log in with bearer tokens of
    /// [`Embedded::token`]; a request without one is from `system:anonymous`.
    ///
    /// # Errors
    /// Fails if the address is not a loopback address or is in use.
    pub async fn serve(&self, address: SocketAddr) -> io::Result<Listener> {
        if !address.ip().is_loopback() {
            let message = format!(
                "{address} is not a loopback address: an embedded server is only for this machine"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let tls = Tls::new(address.ip()).map_err(io::Error::other)?;
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let service = EmbeddedService::new(self.clone(), UserSource::FromRequest);
        let acceptor = TlsAcceptor::from(tls.config);
        Ok(Listener {
            server: self.clone(),
            address,
            authority: tls.authority,
            task: tokio::spawn(accept(listener, acceptor, service)),
        })
    }
}

impl Listener {
    /// Returns the URL, `https://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Returns the certificate authority as PEM.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Returns a kubeconfig for a user, with a new token.
    pub fn kubeconfig(&self, user: User) -> String {
        kubeconfig(&self.url(), Some(&self.authority), &self.server.token(user))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, service: EmbeddedService) {
    // The set closes all connections when the task is aborted.
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // The process is out of file descriptors, or the client disconnected: the next attempt
            // may succeed.
            tokio::task::yield_now().await;
            continue;
        };
        while connections.try_join_next().is_some() {}
        connections.spawn(connection(stream, acceptor.clone(), service.clone()));
    }
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, service: EmbeddedService) {
    let stream = match acceptor.accept(stream).await {
        Ok(stream) => stream,
        Err(error) => {
            return tracing::debug!(%error, "TLS handshake with the embedded server failed");
        }
    };
    let served = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service))
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "connection to the embedded server ended");
    }
}
