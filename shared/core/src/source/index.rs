//! The notes of which sources follow which repository: source steps write them, the webhook reads
//! them.

use crate::concurrent;
use crate::flux::{FluxKind, GitReference, ObjectRef};
use crate::ports::{BlobEntry, ErrorKind, Ports, Precondition, Result};
use crate::state::{self, decode_key_part, key_part};
use futures::FutureExt as _;
use serde::{Deserialize, Serialize};

const PREFIX: &str = "index/";
/// Number of notes that are read concurrently.
const CONCURRENT: usize = 16;

/// A source that follows a repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Follower {
    /// The name of the source's hub.
    pub hub: String,
    /// The GitRepository on the hub.
    pub object: ObjectRef,
    /// The branch, tag or range that the source follows.
    pub reference: GitReference,
}

/// Returns a repository's name in the index: `github.com/acme/fleet`, in lower case, without
/// scheme, user, port and `.git`. `None` for an address that no webhook can name.
pub fn repository(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    if scheme == "file" {
        return None;
    }
    let (authority, path) = rest.split_once('/')?;
    let host = authority.rsplit('@').next()?.split(':').next()?;
    let path = path.trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    if host.is_empty() || path.is_empty() {
        return None;
    }
    Some(format!("{host}/{path}").to_lowercase())
}

fn prefix(repository: &str) -> String {
    let parts: Vec<String> = repository.split('/').map(key_part).collect();
    format!("{PREFIX}{}/", parts.join("/"))
}

fn key(repository: &str, hub: &str, object: &ObjectRef) -> String {
    format!("{}{}", prefix(repository), file(hub, object))
}

/// Returns the last part of every key of a source.
fn file(hub: &str, object: &ObjectRef) -> String {
    let parts = [hub, &object.namespace, &object.name].map(key_part);
    format!("{}.json", parts.join("+"))
}

/// Returns the hub and the source of a key.
fn object_of(key: &str) -> Option<(String, ObjectRef)> {
    let (_, file) = key.rsplit_once('/')?;
    let mut parts = file.strip_suffix(".json")?.split('+').map(decode_key_part);
    let (hub, namespace, name) = (parts.next()??, parts.next()??, parts.next()??);
    let object = ObjectRef::new(FluxKind::GitRepository, &namespace, &name);
    parts.next().is_none().then_some((hub, object))
}

/// Notes that a GitRepository follows a repository; writes only if the note is new or changed.
///
/// # Errors
/// The bucket's.
pub async fn note(
    ports: &Ports,
    hub: &str,
    object: &ObjectRef,
    url: &str,
    reference: &GitReference,
) -> Result<()> {
    let Some(repository) = repository(url) else {
        return Ok(());
    };
    let follower = Follower {
        hub: hub.to_owned(),
        object: object.clone(),
        reference: reference.clone(),
    };
    let key = key(&repository, hub, object);
    let known = state::recall::<Follower>(ports.blobs.as_ref(), &key).await?;
    if known.is_none_or(|(known, _)| known != follower) {
        state::write(ports.blobs.as_ref(), &key, &follower, Precondition::None).await?;
    }
    Ok(())
}

/// Deletes the notes that a source follows other repositories than that of `url`, or all its notes
/// without `url`.
///
/// # Errors
/// The bucket's.
pub async fn forget_others(
    ports: &Ports,
    hub: &str,
    object: &ObjectRef,
    url: Option<&str>,
) -> Result<()> {
    let file = format!("/{}", file(hub, object));
    let kept = url.and_then(repository);
    let kept = kept.map(|repository| key(&repository, hub, object));
    for BlobEntry { key, .. } in ports.blobs.list(PREFIX).await? {
        if key.ends_with(&file) && Some(&key) != kept.as_ref() {
            tracing::info!(key, "the source no longer follows this repository");
            ports.blobs.delete(&key).await?;
        }
    }
    Ok(())
}

/// Returns the sources that a push to `git_ref` (`refs/heads/main`, `refs/tags/v1`) of a repository
/// may change.
///
/// # Errors
/// The bucket's.
pub async fn followers(
    ports: &Ports,
    repository: &str,
    git_ref: &str,
) -> Result<Vec<(String, ObjectRef)>> {
    let keys = ports
        .blobs
        .list(&prefix(&repository.to_lowercase()))
        .await?;
    let reads = keys
        .iter()
        .map(|entry| follower(ports, &entry.key, git_ref).boxed());
    let found = concurrent::run(CONCURRENT, reads.collect()).await;
    let found: Result<Vec<_>> = found.into_iter().collect();
    Ok(found?.into_iter().flatten().collect())
}

/// Returns the source of a note, if a push to `git_ref` may change it.
async fn follower(ports: &Ports, key: &str, git_ref: &str) -> Result<Option<(String, ObjectRef)>> {
    let known = match state::read::<Follower>(ports.blobs.as_ref(), key).await {
        Ok(known) => known,
        // The reference is lost, but the key names the source, whose step writes the note again.
        Err(error) if error.kind == ErrorKind::Unreadable => {
            tracing::warn!(key, %error, "the note of a source is damaged: each push to the repository queues the source");
            return Ok(object_of(key));
        }
        Err(error) => return Err(error),
    };
    let follows = |known: &Follower| {
        known.object.kind == FluxKind::GitRepository && may_follow(&known.reference, git_ref)
    };
    Ok(known
        .map(|(known, _)| known)
        .filter(follows)
        .map(|known| (known.hub, known.object)))
}

/// Returns whether a push to `git_ref` can change the commit of `reference`, by Flux's order of
/// precedence.
fn may_follow(reference: &GitReference, git_ref: &str) -> bool {
    if !reference.commit.is_empty() {
        false
    } else if !reference.name.is_empty() {
        reference.name == git_ref
    } else if !reference.semver.is_empty() {
        git_ref.starts_with("refs/tags/")
    } else if !reference.tag.is_empty() {
        git_ref.strip_prefix("refs/tags/") == Some(&reference.tag)
    } else {
        git_ref.strip_prefix("refs/heads/") == Some(&reference.branch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, MemoryBlobs};
    use bytes::Bytes;
    use std::sync::Arc;

    fn source(name: &str) -> ObjectRef {
        ObjectRef::new(FluxKind::GitRepository, "flux-system", name)
    }

    /// Returns the result of a future that never waits, as those of in-memory ports.
    fn now<T>(future: impl Future<Output = Result<T>>) -> T {
        future.now_or_never().unwrap().unwrap()
    }

    #[test]
    fn a_damaged_note_loses_no_push_and_keeps_no_other_waiting() {
        let blobs = Arc::<MemoryBlobs>::default();
        let ports = testing::ports(blobs.clone(), Arc::default(), Arc::default());
        let url = "https://github.com/acme/fleet";
        let main = GitReference {
            branch: "main".into(),
            ..Default::default()
        };
        for name in ["a", "b.c", "d"] {
            now(note(&ports, "staging", &source(name), url, &main));
        }
        let key = key("github.com/acme/fleet", "staging", &source("b.c"));
        for damage in ["", "{\"hub\": \"stag", "\u{0}garbage"] {
            now(ports
                .blobs
                .put(&key, Bytes::from(damage), Precondition::None));
            let found = now(followers(
                &ports,
                "github.com/acme/fleet",
                "refs/heads/main",
            ));
            let all = ["a", "b.c", "d"].map(|name| ("staging".to_owned(), source(name)));
            assert_eq!(found, all, "{damage}");
            // The source's step writes the note again.
            now(note(&ports, "staging", &source("b.c"), url, &main));
            let dev = now(followers(&ports, "github.com/acme/fleet", "refs/heads/dev"));
            assert!(dev.is_empty(), "{damage}");
        }
    }

    #[test]
    fn notes_of_former_repositories_are_deleted() {
        let ports = testing::ports(Arc::default(), Arc::default(), Arc::default());
        let main = GitReference {
            branch: "main".into(),
            ..Default::default()
        };
        let (old, new) = ("https://github.com/acme/old", "https://github.com/acme/new");
        for (name, url) in [("a", old), ("a", new), ("other-a", old)] {
            now(note(&ports, "staging", &source(name), url, &main));
        }
        let names = |repository| {
            let found = now(followers(&ports, repository, "refs/heads/main"));
            found
                .into_iter()
                .map(|(_, object)| object.name)
                .collect::<Vec<_>>()
        };
        now(forget_others(&ports, "staging", &source("a"), Some(new)));
        assert_eq!(names("github.com/acme/old"), ["other-a"]);
        assert_eq!(names("github.com/acme/new"), ["a"]);
        now(forget_others(&ports, "staging", &source("a"), None));
        assert_eq!(names("github.com/acme/new"), [""; 0]);
    }

    #[test]
    fn one_name_for_every_spelling() {
        for url in [
            "https://github.com/Acme/Fleet",
            "https://github.com/acme/fleet.git",
            "https://token@github.com/acme/fleet/",
            "ssh://git@github.com/acme/fleet.git",
            "ssh://git@github.com:22/acme/fleet",
        ] {
            assert_eq!(
                repository(url).as_deref(),
                Some("github.com/acme/fleet"),
                "{url}"
            );
        }
        assert_eq!(repository("file:///srv/fleet"), None);
        assert_eq!(repository("nonsense"), None);
    }

    #[test]
    fn refs() {
        let branch = GitReference {
            branch: "main".into(),
            ..Default::default()
        };
        assert!(may_follow(&branch, "refs/heads/main"));
        assert!(!may_follow(&branch, "refs/heads/dev"));
        assert!(!may_follow(&branch, "refs/tags/main"));
        let semver = GitReference {
            semver: ">=1.0.0".into(),
            branch: "main".into(),
            ..Default::default()
        };
        assert!(may_follow(&semver, "refs/tags/v2.0.0"));
        assert!(!may_follow(&semver, "refs/heads/main"));
        let commit = GitReference {
            commit: "abc".into(),
            branch: "main".into(),
            ..Default::default()
        };
        assert!(!may_follow(&commit, "refs/heads/main"));
    }
}
