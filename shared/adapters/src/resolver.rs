//! Resolves host names, for all clients.

use driftless_kernel::address;
use std::io::{Error, ErrorKind};
use std::net::SocketAddr;

/// Returns the addresses of a name, without a port. Addresses that lead back into this installation
/// are left out unless `allow_local`.
///
/// # Errors
/// Fails if no address is left.
pub(crate) async fn addresses(name: &str, allow_local: bool) -> Result<Vec<SocketAddr>, Error> {
    let mut found: Vec<SocketAddr> = tokio::net::lookup_host((name, 0)).await?.collect();
    found.retain(|place| allow_local || !address::is_local(place.ip()));
    if found.is_empty() {
        let message = format!("'{name}' has no address that may be reached");
        return Err(Error::new(ErrorKind::PermissionDenied, message));
    }
    Ok(found)
}
