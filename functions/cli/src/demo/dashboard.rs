//! The dashboard of the demo.

use crate::error::Error;
use driftless_kernel::ports::Ports;
use driftless_server::serve_dashboard;
use std::net::{Ipv4Addr, SocketAddr};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The port of `driftless serve`, so that bookmarks work; another one if it is taken.
const PORT: u16 = 9292;

/// A dashboard that is served on loopback until it is dropped.
pub struct Served {
    /// The address of its first page.
    pub url: String,
    task: JoinHandle<()>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves the dashboard of the demo's hubs.
///
/// # Errors
/// No socket can listen on loopback.
pub async fn serve(ports: Ports) -> Result<Served, Error> {
    let at = |port| TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let listener = match at(PORT).await {
        Ok(listener) => listener,
        Err(_) => at(0)
            .await
            .map_err(|error| Error::caused_by(error).context("listen on loopback"))?,
    };
    let address = listener.local_addr().map_err(Error::caused_by)?;
    Ok(Served {
        url: format!("http://{address}/"),
        task: tokio::spawn(serve_dashboard(listener, ports)),
    })
}
