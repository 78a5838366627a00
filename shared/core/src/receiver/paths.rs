//! The notes of which Receiver has which webhook: steps write them, deliveries read them. A note
//! proves nothing: a delivery reads the Receiver and its token again.

use bytes::Bytes;
use driftless_flux::{FluxKind, ObjectRef, WEBHOOK_PATH};
use driftless_kernel::ports::{BlobEntry, Ports, Precondition, Result};
use driftless_kernel::state;

const PREFIX: &str = "receivers/";
/// The length of a SHA-256 digest in hex.
const DIGEST: usize = 64;
/// The Receivers that may share a path: those of several hubs with the same name and token.
const MAX_SHARED: usize = 32;

/// Returns the digest of a webhook's path; `None` for a path that no Receiver has.
fn digest(path: &str) -> Option<&str> {
    let digest = path.strip_prefix(WEBHOOK_PATH)?;
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (digest.len() == DIGEST && digest.bytes().all(is_hex)).then_some(digest)
}

fn key(hub: &str, receiver: &ObjectRef, path: &str) -> Option<String> {
    Some(format!(
        "{PREFIX}{}/{}",
        digest(path)?,
        state::note_file(hub, receiver)
    ))
}

/// Notes that a Receiver of a hub has the webhook with this path. Returns true if the note was
/// missing.
///
/// # Errors
/// The bucket's.
pub async fn note(ports: &Ports, hub: &str, receiver: &ObjectRef, path: &str) -> Result<bool> {
    let Some(key) = key(hub, receiver, path) else {
        return Ok(false);
    };
    if ports.blobs.get(&key).await?.is_some() {
        return Ok(false);
    }
    let put = ports.blobs.put(&key, Bytes::new(), Precondition::None);
    put.await?;
    Ok(true)
}

/// Deletes the notes of a Receiver for other paths than this one; all its notes without `path`.
///
/// # Errors
/// The bucket's.
pub async fn forget_others(
    ports: &Ports,
    hub: &str,
    receiver: &ObjectRef,
    path: Option<&str>,
) -> Result<()> {
    let file = format!("/{}", state::note_file(hub, receiver));
    let kept = path.and_then(|path| key(hub, receiver, path));
    for BlobEntry { key, .. } in ports.blobs.list(PREFIX).await? {
        if key.ends_with(&file) && Some(&key) != kept.as_ref() {
            ports.blobs.delete(&key).await?;
        }
    }
    Ok(())
}

/// Returns the Receivers with the webhook of a path, each with its hub.
///
/// # Errors
/// The bucket's.
pub async fn find(ports: &Ports, path: &str) -> Result<Vec<(String, ObjectRef)>> {
    let Some(digest) = digest(path) else {
        return Ok(Vec::new());
    };
    let entries = ports.blobs.list(&format!("{PREFIX}{digest}/")).await?;
    let found = entries
        .iter()
        .filter_map(|entry| state::object_of_note(FluxKind::Receiver, &entry.key));
    Ok(found.take(MAX_SHARED).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;
    use std::sync::Arc;

    fn now<T>(future: impl Future<Output = Result<T>>) -> T {
        future.now_or_never().unwrap().unwrap()
    }

    #[test]
    fn a_receiver_is_found_by_its_path_only() {
        let ports = driftless_memory::ports(Arc::default(), Arc::default(), Arc::default());
        let hook = |name: &str| ObjectRef::new(FluxKind::Receiver, "apps", name);
        let path = |digit: &str| format!("{WEBHOOK_PATH}{}", digit.repeat(DIGEST));
        assert!(now(note(&ports, "eu", &hook("a"), &path("1"))));
        assert!(!now(note(&ports, "eu", &hook("a"), &path("1"))));
        now(note(&ports, "us", &hook("a"), &path("1")));
        now(note(&ports, "eu", &hook("other-a"), &path("2")));
        let found = |digit: &str| now(find(&ports, &path(digit)));
        let both = [("eu".to_owned(), hook("a")), ("us".to_owned(), hook("a"))];
        assert_eq!(found("1"), both);
        now(note(&ports, "eu", &hook("a"), &path("3")));
        now(forget_others(&ports, "eu", &hook("a"), Some(&path("3"))));
        assert_eq!(found("1"), both[1..]);
        assert_eq!(found("2").len(), 1);
        now(forget_others(&ports, "eu", &hook("a"), None));
        assert_eq!(found("3"), []);
        for other in [
            "/hook/",
            "/hook/../hubs/eu",
            "/webhook",
            &path("1")[1..],
            &path("1").to_uppercase(),
            &path("11"),
        ] {
            assert_eq!(now(find(&ports, other)), [], "{other}");
            assert!(!now(note(&ports, "eu", &hook("a"), other)), "{other}");
        }
    }
}
