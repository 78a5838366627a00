//! Git's smart HTTP protocol over HTTPS, for clients that clone.

use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::Shared;
use super::faults::message;
use super::server::{Incoming, Service};

/// `/{owner}/{repo}/info/refs?service=git-upload-pack` and `/{owner}/{repo}/git-upload-pack`, of
/// public repositories.
pub(super) const SERVICE: Service = Service {
    name: |_| "git-upload-pack".to_owned(),
    answer,
};

/// The first packet of the list of references, followed by a flush packet.
const ANNOUNCED: &[u8] = b"001e# service=git-upload-pack\n0000";

fn answer(shared: &Shared, request: &Incoming) -> Response {
    let segments: Vec<&str> = request.segments.iter().map(String::as_str).collect();
    let [owner, name, rest @ ..] = segments.as_slice() else {
        return message(404, "Not Found");
    };
    let full_name = format!("{owner}/{}", name.trim_end_matches(".git")).to_lowercase();
    let found = shared.state().repositories.get(&full_name).cloned();
    let Some(repository) = found.filter(|repository| !repository.is_private()) else {
        return message(404, "Not Found");
    };
    let service = request.query("service").unwrap_or_default();
    let (kind, bytes) = match (rest, service) {
        (["info", "refs"], "git-upload-pack") => {
            let refs = repository.upload_pack(&["--advertise-refs"], b"");
            ("advertisement", [ANNOUNCED, &refs].concat())
        }
        (["git-upload-pack"], _) => ("result", repository.upload_pack(&[], &request.body)),
        _ => return message(404, "Not Found"),
    };
    let kind = format!("application/x-git-upload-pack-{kind}");
    ([(header::CONTENT_TYPE, kind)], bytes).into_response()
}
