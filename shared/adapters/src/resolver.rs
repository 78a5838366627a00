//! Names of hosts, as all who connect look them up.

use driftless_core::address;
use std::io::{Error, ErrorKind};
use std::net::SocketAddr;

/// The addresses of a name, without a port; those that lead back into this installation only where `allow_local` says so.
///
/// # Errors
/// No address at all, or none that may be reached.
pub(crate) async fn addresses(name: &str, allow_local: bool) -> Result<Vec<SocketAddr>, Error> {
    let mut found: Vec<SocketAddr> = tokio::net::lookup_host((name, 0)).await?.collect();
    found.retain(|place| allow_local || !address::is_local(place.ip()));
    if found.is_empty() {
        let what = format!("'{name}' has no address that may be reached");
        return Err(Error::new(ErrorKind::PermissionDenied, what));
    }
    Ok(found)
}
