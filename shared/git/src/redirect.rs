//! The rule for redirects of servers that tenants name.

use http::header::LOCATION;
use http::{HeaderMap, StatusCode};
use url::Url;

/// The statuses of an answer that is a redirect.
const STATUSES: [StatusCode; 5] = [
    StatusCode::MOVED_PERMANENTLY,
    StatusCode::FOUND,
    StatusCode::SEE_OTHER,
    StatusCode::TEMPORARY_REDIRECT,
    StatusCode::PERMANENT_REDIRECT,
];

/// The reason that a redirect is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusedRedirect {
    /// The answer has no URL to follow.
    Location,
    /// The redirect leads from HTTPS to HTTP.
    Downgrade,
    /// The redirect leads to another scheme than HTTP and HTTPS.
    Scheme,
}

/// Returns the target of a redirect; `None` if the answer is not one. From HTTP a redirect may lead
/// to HTTPS, but never back.
///
/// # Errors
/// The redirect must not be followed.
#[must_use]
pub fn redirect(
    from: &Url,
    status: StatusCode,
    headers: &HeaderMap,
) -> Option<Result<Url, RefusedRedirect>> {
    if !STATUSES.contains(&status) {
        return None;
    }
    let place = headers.get(LOCATION).and_then(|place| place.to_str().ok());
    let Some(next) = place.and_then(|place| from.join(place).ok()) else {
        return Some(Err(RefusedRedirect::Location));
    };
    Some(match (from.scheme(), next.scheme()) {
        (_, "https") | ("http", "http") => Ok(next),
        ("https", "http") => Err(RefusedRedirect::Downgrade),
        _ => Err(RefusedRedirect::Scheme),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn followed(
        from: &str,
        status: u16,
        location: &str,
    ) -> Option<Result<String, RefusedRedirect>> {
        let from = Url::parse(from).expect("a URL");
        let status = StatusCode::from_u16(status).expect("a status");
        let mut headers = HeaderMap::new();
        headers.insert(LOCATION, location.parse().expect("a header"));
        redirect(&from, status, &headers).map(|target| target.map(String::from))
    }

    #[test]
    fn redirects_lead_to_https_and_never_back() {
        use RefusedRedirect::{Downgrade, Location, Scheme};
        let to = |url: &str| Ok(url.to_owned());
        for (from, location, target) in [
            ("https://a/x", "https://b/y", to("https://b/y")),
            ("https://a/x", "/y?z", to("https://a/y?z")),
            ("http://a/x", "http://b/", to("http://b/")),
            ("http://a/x", "https://b/", to("https://b/")),
            ("https://a/x", "http://a/x", Err(Downgrade)),
            ("https://a/x", "ftp://a/x", Err(Scheme)),
            ("http://a/x", "file:///etc/passwd", Err(Scheme)),
            ("http://a/x", "http://[", Err(Location)),
        ] {
            assert_eq!(followed(from, 302, location), Some(target), "{location}");
        }
        assert_eq!(followed("https://a/x", 200, "https://b/"), None);
        let bare = Url::parse("https://a/").expect("a URL");
        let found = redirect(&bare, StatusCode::FOUND, &HeaderMap::new());
        assert_eq!(found, Some(Err(Location)));
    }
}
