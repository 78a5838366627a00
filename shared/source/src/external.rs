//! The artifacts of ExternalArtifacts, which generators and controllers outside of Flux write: the
//! status names an address and a digest.
//!
//! Whoever writes the status chooses both, so an artifact is downloaded for each object that uses
//! it, and never taken from the installation's bucket: a digest alone does not show who may read
//! the content. Only what the step of an ArtifactGenerator stored is taken from the bucket
//! (`source::artifact`).

use bytes::Bytes;
use driftless_flux::ArtifactStatus;
use driftless_kernel::context::Context;
use driftless_kernel::ports::{
    Connection, DownloadOutcome, ErrorKind, FetchLimits, PortError, Validator,
};
use sha2::{Digest as _, Sha256, Sha384, Sha512};
use std::time::Duration;

/// The timeout of a download.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Downloads an artifact, and checks its digest.
///
/// # Errors
/// The host's; `Invalid` for an address that may not be reached, a digest that is not supported, or
/// content of another digest.
pub(super) async fn download(
    context: &Context<'_>,
    artifact: &ArtifactStatus,
) -> Result<Bytes, PortError> {
    let invalid = |message: String| PortError::new(ErrorKind::Invalid, message);
    let allow_local = context.hub.settings.allow_local_clusters;
    let expected = digest(&artifact.digest).ok_or_else(|| {
        invalid(
            "status.artifact.digest of the ExternalArtifact: expected sha256, sha384 or sha512, a colon, and the digest in hex"
                .to_owned(),
        )
    })?;
    let url = &artifact.url;
    let is_reachable = url.starts_with("https://") || allow_local && url.starts_with("http://");
    if !is_reachable {
        return Err(invalid(
            "status.artifact.url of the ExternalArtifact: expected an address with https:// that driftless can reach".to_owned(),
        ));
    }
    let connection = Connection {
        timeout: TIMEOUT,
        allow_local,
        ..Connection::default()
    };
    let limit = FetchLimits::default().bytes;
    let validator = Validator::default();
    let answer = context
        .ports
        .charts
        .get(url, &connection, &validator, limit);
    let DownloadOutcome::Body { bytes, .. } = answer.await? else {
        let message = "failed to download the artifact: the host answered that it has not changed";
        return Err(PortError::new(ErrorKind::Unreadable, message));
    };
    let (content, size) = (bytes.clone(), bytes.len() as u64);
    let hashed = context.ports.compute.clone();
    let same = move || expected.is_of(&content);
    match driftless_kernel::ports::compute(hashed.as_ref(), size, same).await? {
        true => Ok(bytes),
        false => Err(invalid(format!(
            "failed to verify the artifact of revision '{}': the digest of the download is not that of status.artifact.digest",
            artifact.revision.escape_debug()
        ))),
    }
}

/// A digest of a supported algorithm.
#[derive(Debug, PartialEq, Eq)]
enum Expected {
    Sha256(Vec<u8>),
    Sha384(Vec<u8>),
    Sha512(Vec<u8>),
}

impl Expected {
    fn is_of(&self, content: &[u8]) -> bool {
        match self {
            Self::Sha256(bytes) => Sha256::digest(content)[..] == bytes[..],
            Self::Sha384(bytes) => Sha384::digest(content)[..] == bytes[..],
            Self::Sha512(bytes) => Sha512::digest(content)[..] == bytes[..],
        }
    }
}

/// Reads `ALGORITHM:HEX`; `None` for any other string.
fn digest(text: &str) -> Option<Expected> {
    let (algorithm, digits) = text.split_once(':')?;
    let bytes = hex::decode(digits).ok()?;
    match (algorithm, bytes.len()) {
        ("sha256", 32) => Some(Expected::Sha256(bytes)),
        ("sha384", 48) => Some(Expected::Sha384(bytes)),
        ("sha512", 64) => Some(Expected::Sha512(bytes)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests() {
        let hash = hex::encode(Sha512::digest("a"));
        let found = digest(&format!("sha512:{hash}")).unwrap();
        assert!(found.is_of(b"a") && !found.is_of(b"b"));
        let short = hex::encode(Sha256::digest("a"));
        assert!(digest(&format!("sha256:{short}")).unwrap().is_of(b"a"));
        for text in ["", "sha256:", "sha256:ab", &format!("md5:{short}"), &short] {
            assert_eq!(digest(text), None, "{text}");
        }
    }
}
