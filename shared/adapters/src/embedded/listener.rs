//! HTTPS in front of an embedded server, for tools that are other processes.

use super::service::EmbeddedService;
use super::tls::Tls;
use super::users::Who;
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

/// A server's HTTPS address. Dropped, it stops to listen and ends its connections.
pub struct Listener {
    server: Embedded,
    address: SocketAddr,
    authority: String,
    task: JoinHandle<()>,
}

impl Embedded {
    /// Listens on a loopback address; port 0 takes a free one. Users show bearer tokens of [`Embedded::token`]; a
    /// request without one is `system:anonymous`.
    ///
    /// # Errors
    /// An address of another kind or one that is taken.
    pub async fn serve(&self, address: SocketAddr) -> io::Result<Listener> {
        if !address.ip().is_loopback() {
            let what = format!(
                "{address} is not a loopback address: an embedded server is for this machine alone"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let tls = Tls::new(address.ip()).map_err(io::Error::other)?;
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let service = EmbeddedService::new(self.clone(), Who::Asked);
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
    /// `https://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// The certificate authority, PEM.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// A kubeconfig for a user, with a new token.
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
    // Ends every connection when the task is aborted.
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file descriptors, or a client that went away: the next may do.
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
