//! Whether a request comes from this machine itself: neither from another one, nor through a proxy on this one, nor from a
//! web page that a browser on this one shows.

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
/// What the names of others begin with.
const PROXIED_PREFIXES: [&str; 2] = ["x-forwarded", "cf-"];

/// Why a request may be of somebody else; none when it comes from this machine.
pub fn why_not(caller: &SocketAddr, parts: &Parts) -> Option<String> {
    let address = caller.ip().to_canonical();
    if !address.is_loopback() {
        return Some(format!("the request came from {address}"));
    }
    if let Some(name) = proxied(&parts.headers) {
        return Some(format!(
            "the header {name} says that a proxy passed the request on"
        ));
    }
    if parts.version < Version::HTTP_11 {
        return Some("the request is one of HTTP/1.0, as proxies send them".to_owned());
    }
    if !names_this_machine(parts) {
        let what =
            "the Host header does not name this machine: expected localhost or a loopback address";
        return Some(what.to_owned());
    }
    if parts.headers.contains_key(header::ORIGIN) {
        return Some("the Origin header says that a web page sent the request".to_owned());
    }
    let site = parts.headers.get("sec-fetch-site");
    if site.is_some_and(|site| site != "none" && site != "same-origin") {
        return Some("the header Sec-Fetch-Site says that a web page sent the request".to_owned());
    }
    None
}

fn proxied(headers: &HeaderMap) -> Option<&str> {
    let mut names = headers.keys().map(header::HeaderName::as_str);
    names.find(|name| {
        PROXIED.contains(name)
            || PROXIED_PREFIXES
                .iter()
                .any(|prefix| name.starts_with(prefix))
    })
}

/// Whether the one Host header, and the address when it has a host, are those of the machine itself: a name that was made to
/// lead here is a stranger's.
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

/// Whether `HOST` or `HOST:PORT` is a loopback address or `localhost`.
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

    fn why(caller: &str, headers: &[(&str, &str)]) -> Option<String> {
        why_not(&caller.parse().unwrap(), &parts(headers))
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
                assert_eq!(why(caller, &[("host", host)]), None, "{caller} {host}");
            }
        }
        let why = why("10.0.0.1:5000", &[("host", "localhost")]).unwrap();
        assert!(why.contains("10.0.0.1"), "{why}");
    }

    #[test]
    fn what_a_proxy_passed_on_is_refused_by_the_header_that_says_so() {
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
            let why = why("127.0.0.1:5000", &[("host", "localhost"), (name, "")]).unwrap();
            assert!(why.contains(&name.to_lowercase()), "{name}: {why}");
        }
        let (mut old, caller) = (
            parts(&[("host", "localhost")]),
            "127.0.0.1:1".parse().unwrap(),
        );
        old.version = Version::HTTP_10;
        assert!(why_not(&caller, &old).unwrap().contains("HTTP/1.0"));
    }

    #[test]
    fn names_that_were_made_to_lead_here_and_web_pages_are_refused() {
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
            let why = why(local, hosts).unwrap();
            assert!(why.contains("Host"), "{hosts:?}: {why}");
        }
        for (name, value) in [
            ("Origin", "https://evil.example"),
            ("Origin", "null"),
            ("Sec-Fetch-Site", "cross-site"),
        ] {
            let why = why(local, &[("host", "localhost"), (name, value)]).unwrap();
            assert!(why.contains(name), "{why}");
        }
        let absolute = Request::builder().uri("http://evil.example/api/objects");
        let absolute = absolute.header("host", "localhost").body(()).unwrap();
        assert!(why_not(&local.parse().unwrap(), &absolute.into_parts().0).is_some());
    }
}
