//! Addresses: the host that they name, and whether they lead back into this installation (to the
//! machine itself, its neighbours on the link, its metadata services).

use std::net::{IpAddr, Ipv4Addr};

/// Returns the part between the scheme, if there is one, and the path: `ghcr.io` of
/// `oci://ghcr.io/a/b`, `https://ghcr.io/v1/` and `ghcr.io/a`.
pub fn authority(address: &str) -> &str {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    rest.split('/').next().unwrap_or_default()
}

/// Returns whether an address leads back into this installation, in any form in which IPv6 embeds
/// IPv4.
pub fn is_local(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(ip) => {
            ip.is_loopback() || ip.is_link_local() || ip.is_unspecified() || ip.is_broadcast()
        }
        IpAddr::V6(ip) => {
            let parts = ip.segments();
            // IPv4 behind a translator (RFC 6052). `fd00:ec2::/32` below is the metadata service of
            // EC2.
            let translated = parts[..6] == [0x64, 0xff9b, 0, 0, 0, 0];
            let [.., high, low] = parts;
            let inner = Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
            ip.is_loopback()
                || ip.is_unspecified()
                || ip.is_unicast_link_local()
                || parts[..2] == [0xfd00, 0xec2]
                || (translated && is_local(IpAddr::V4(inner)))
        }
    }
}

/// Returns whether a host (`127.0.0.1`, `[::1]`, `api.example.com`) is an address that leads back
/// into this installation, or is named `localhost`. Other names are checked when they are resolved.
pub fn is_local_host(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(address) => is_local(address),
        Err(_) => {
            let name = bare.trim_end_matches('.').to_ascii_lowercase();
            name == "localhost" || name.ends_with(".localhost")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_local_host;

    #[test]
    fn hosts() {
        for host in [
            "127.0.0.1",
            "localhost",
            "LOCALHOST.",
            "a.localhost",
            "169.254.170.2",
            "0.0.0.0",
            "255.255.255.255",
            "[::1]",
            "[::]",
            "[fe80::1]",
            "[::ffff:127.0.0.1]",
            "[64:ff9b::169.254.169.254]",
            "[fd00:ec2::254]",
        ] {
            assert!(is_local_host(host), "{host}");
        }
        for host in [
            "charts.example.com",
            "localhost.example.com",
            "10.0.0.1",
            "192.168.1.1",
            "[2001:db8::1]",
            "[64:ff9b::8.8.8.8]",
        ] {
            assert!(!is_local_host(host), "{host}");
        }
    }
}
