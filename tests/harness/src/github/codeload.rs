//! The download host behind the tarball's redirect.

use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::Shared;
use super::faults::message;
use super::server::{Incoming, Service};

/// `/{owner}/{repo}/legacy.tar.gz/{sha}`, for private repositories with a
/// `token` in the query. A request that still carries the API's credentials is
/// refused: they must not follow a redirect to another host.
pub(super) const SERVICE: Service = Service {
    name: |_| "codeload".to_owned(),
    answer: archive,
};

fn archive(shared: &Shared, request: &Incoming) -> Response {
    if request.headers.contains_key(header::AUTHORIZATION) {
        return message(400, "Credentials of the API were sent to the download host");
    }
    let [owner, name, format, sha] = request.segments.as_slice() else {
        return message(404, "Not Found");
    };
    let full_name = format!("{owner}/{name}");
    let found = shared
        .state()
        .repositories
        .get(&full_name.to_lowercase())
        .cloned();
    let allowed = |private: bool| !private || request.query("token") == Some(&token(sha));
    let Some(repository) = found.filter(|r| format == "legacy.tar.gz" && allowed(r.is_private()))
    else {
        return message(404, "Not Found");
    };
    let prefix = format!("--prefix={owner}-{name}-{}/", &sha[..sha.len().min(7)]);
    match repository.bytes([
        "archive",
        "--format=tar.gz",
        &prefix,
        "--end-of-options",
        sha,
    ]) {
        None => message(404, "Not Found"),
        Some(bytes) => (
            [
                (header::CONTENT_TYPE, "application/x-gzip".to_owned()),
                (header::ETAG, format!("\"{sha}\"")),
                (
                    header::CONTENT_DISPOSITION,
                    format!("attachment; filename={owner}-{name}-{sha}.tar.gz"),
                ),
            ],
            bytes,
        )
            .into_response(),
    }
}

/// Returns the one-time token of a private download.
pub(super) fn token(sha: &str) -> String {
    format!("download-{}", &sha[..sha.len().min(12)])
}
