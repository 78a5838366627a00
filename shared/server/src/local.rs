//! The check that a request comes from this machine itself: not from another machine, not through a
//! proxy on this machine, and not from a web page in a browser on this machine.

use axum::http::request::Parts;
use axum::http::{HeaderMap, Version, header};
use std::net::{IpAddr, SocketAddr};

/// Headers that proxies add.
const PROXIED: [&str; 12] = [
    "forwarded",
    "via",
    "x-real-ip",
    "x-client-ip",
    "true-client-ip",
    "fastly-client-ip",
    "fly-client-ip",
    "x-cluster-client-ip",
    "x-original-forwarded-for",
    "x-original-host",
    "x-envoy-external-address",
    "cdn-loop",
];
/// The prefixes of other headers that proxies add.
const PROXIED_PREFIXES: [&str; 2] = ["x-forwarded", "cf-"];

/// Returns the reason why a request may come from elsewhere; `None` if it comes from this machine.
pub(crate) fn foreign_reason(caller: &SocketAddr, parts: &Parts) -> Option<String> {
    let address = caller.ip().to_canonical();
    if !address.is_loopback() {
        return Some(format!("the request came from {address}"));
    }
    if let Some(name) = proxy_header(&parts.headers) {
        return Some(format!(
            "the request has the header {name}, so a proxy has forwarded it"
        ));
    }
    if parts.version < Version::HTTP_11 {
        return Some("the request uses HTTP/1.0, as proxies do".to_owned());
    }
    if !names_this_machine(parts) {
        let reason =
            "the Host header does not name this machine: expected localhost or a loopback address";
        return Some(reason.to_owned());
    }
    if parts.headers.contains_key(header::ORIGIN) {
        return Some("the request has an Origin header, so a web page has sent it".to_owned());
    }
    let site = parts.headers.get("sec-fetch-site");
    if site.is_some_and(|site| site != "none" && site != "same-origin") {
        return Some(
            "the request has the header Sec-Fetch-Site, so a web page has sent it".to_owned(),
        );
    }
    None
}

fn proxy_header(headers: &HeaderMap) -> Option<&str> {
    let mut names = headers.keys().map(header::HeaderName::as_str);
    names.find(|name| {
        PROXIED.contains(name)
            || PROXIED_PREFIXES
                .iter()
                .any(|prefix| name.starts_with(prefix))
    })
}

/// Checks whether the single Host header, and the host of an absolute URI, are this machine. Other
/// names are refused, because anyone can make a DNS name that resolves to a loopback address.
fn names_this_machine(parts: &Parts) -> bool {
    let mut hosts = parts.headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return false;
    };
    let host = host.to_str().is_ok_and(is_this_machine);
    host && parts
        .uri
        .authority()
        .is_none_or(|authority| is_this_machine(authority.as_str()))
}

/// Checks whether `HOST` or `HOST:PORT` is a loopback address or `localhost`.
fn is_this_machine(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map(|(host, _)| host),
        None => authority.split(':').next(),
    };
    host.is_some_and(|host| {
        host.eq_ignore_ascii_case("localhost")
            || host
                .parse::<IpAddr>()
                .is_ok_and(|address| address.to_canonical().is_loopback())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;

    fn parts(headers: &[(&str, &str)]) -> Parts {
        let request = Request::builder().uri("/api/objects");
        let request = headers.iter().fold(request, |request, (name, value)| {
            request.header(*name, *value)
        });
        request.body(()).unwrap().into_parts().0
    }

    fn reason(caller: &str, headers: &[(&str, &str)]) -> Option<String> {
        foreign_reason(&caller.parse().unwrap(), &parts(headers))
    }

    #[test]
    fn this_machine_is_loopback_by_address_and_by_name() {
        for caller in ["127.0.0.1:5000", "[::1]:5000", "[::ffff:127.0.0.1]:5000"] {
            for host in [
                "127.0.0.1:9292",
                "localhost:9292",
                "LOCALHOST",
                "[::1]:9292",
                "127.1.2.3",
            ] {
                assert_eq!(reason(caller, &[("host", host)]), None, "{caller} {host}");
            }
        }
        let message = reason("10.0.0.1:5000", &[("host", "localhost")]).unwrap();
        assert!(message.contains("10.0.0.1"), "{message}");
    }

    #[test]
    fn forwarded_requests_are_refused_with_the_header_of_the_proxy() {
        for name in [
            "Forwarded",
            "X-Forwarded-For",
            "X-Forwarded-Host",
            "X-Forwarded-Proto",
            "X-Forwarded-Anything",
            "X-Real-IP",
            "X-Client-IP",
            "CF-Connecting-IP",
            "CF-Ray",
            "True-Client-IP",
            "Via",
        ] {
            let message = reason("127.0.0.1:5000", &[("host", "localhost"), (name, "")]).unwrap();
            assert!(message.contains(&name.to_lowercase()), "{name}: {message}");
        }
        let (mut old, caller) = (
            parts(&[("host", "localhost")]),
            "127.0.0.1:1".parse().unwrap(),
        );
        old.version = Version::HTTP_10;
        assert!(foreign_reason(&caller, &old).unwrap().contains("HTTP/1.0"));
    }

    #[test]
    fn foreign_host_names_and_web_pages_are_refused() {
        let local = "127.0.0.1:5000";
        for hosts in [
            &[][..],
            &[("host", "gitops.example.com")],
            &[("host", "localhost.example.com")],
            &[("host", "127.0.0.1.nip.io:9292")],
            &[("host", "10.0.0.1")],
            &[("host", "")],
            &[("host", "localhost"), ("host", "evil.example")],
        ] {
            let message = reason(local, hosts).unwrap();
            assert!(message.contains("Host"), "{hosts:?}: {message}");
        }
        for (name, value) in [
            ("Origin", "https://evil.example"),
            ("Origin", "null"),
            ("Sec-Fetch-Site", "cross-site"),
        ] {
            let message = reason(local, &[("host", "localhost"), (name, value)]).unwrap();
            assert!(message.contains(name), "{message}");
        }
        let absolute = Request::builder().uri("http://evil.example/api/objects");
        let absolute = absolute.header("host", "localhost").body(()).unwrap();
        assert!(foreign_reason(&local.parse().unwrap(), &absolute.into_parts().0).is_some());
    }
}
