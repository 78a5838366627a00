//! The notes of which sources follow which repository: source steps write them, the webhook reads
//! them.

use bytes::Bytes;
use driftless_flux::{FluxKind, GitReference, ObjectRef};
use driftless_kernel::ports::{BlobEntry, Ports, Precondition, Result};
use driftless_kernel::state::{self, key_part};
use sha2::{Digest as _, Sha256};

const PREFIX: &str = "index/";
/// The pattern of a source that follows a range of versions. Git allows no ref of this name.
const ANY_TAG: &str = "refs/tags/*";
/// The longest part of a key that is a ref: a key of S3 has at most 1,024 bytes.
const LONGEST_REF: usize = 300;

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

/// Returns the directory of the sources of a repository that follow this ref, or the refs of this
/// pattern.
fn directory(repository: &str, pattern: &str) -> String {
    format!("{}{}/", prefix(repository), ref_part(pattern))
}

/// Returns a ref as a part of a key. A long one has its digest, so that the key is not too long.
fn ref_part(pattern: &str) -> String {
    let part = key_part(pattern);
    match part.len() > LONGEST_REF {
        true => format!("sha256-{}", hex::encode(Sha256::digest(pattern))),
        false => part,
    }
}

/// Returns the hub and the source of a key.
fn object_of(key: &str) -> Option<(String, ObjectRef)> {
    state::object_of_note(FluxKind::GitRepository, key)
}

/// Returns the key of the note of a source; `None` if no push can change what it follows.
fn key(hub: &str, object: &ObjectRef, url: &str, reference: &GitReference) -> Option<String> {
    let directory = directory(&repository(url)?, &pattern(reference)?);
    Some(format!("{directory}{}", state::note_file(hub, object)))
}

/// Returns the ref that a source follows, or [`ANY_TAG`], by Flux's order of precedence; `None` for
/// a commit.
fn pattern(reference: &GitReference) -> Option<String> {
    let pattern = if !reference.commit.is_empty() {
        return None;
    } else if !reference.name.is_empty() {
        reference.name.clone()
    } else if !reference.semver.is_empty() {
        ANY_TAG.to_owned()
    } else if !reference.tag.is_empty() {
        format!("refs/tags/{}", reference.tag)
    } else {
        format!("refs/heads/{}", reference.branch)
    };
    Some(pattern)
}

/// Notes that a GitRepository follows a repository; writes only if the note is missing.
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
    let Some(key) = key(hub, object, url, reference) else {
        return Ok(());
    };
    if ports.blobs.get(&key).await?.is_none() {
        let put = ports.blobs.put(&key, Bytes::new(), Precondition::None);
        put.await?;
    }
    Ok(())
}

/// Deletes the notes that a source follows anything but this reference of the repository at this
/// address, or all its notes without `followed`.
///
/// # Errors
/// The bucket's.
pub async fn forget_others(
    ports: &Ports,
    hub: &str,
    object: &ObjectRef,
    followed: Option<(&str, &GitReference)>,
) -> Result<()> {
    let file = format!("/{}", state::note_file(hub, object));
    let kept = followed.and_then(|(url, reference)| key(hub, object, url, reference));
    for BlobEntry { key, .. } in ports.blobs.list(PREFIX).await? {
        if key.ends_with(&file) && Some(&key) != kept.as_ref() {
            tracing::info!(key, "the source no longer follows this repository or ref");
            ports.blobs.delete(&key).await?;
        }
    }
    Ok(())
}

/// Returns the sources that a push to `git_ref` (`refs/heads/main`, `refs/tags/v1`) of a repository
/// may change. Their keys name them, so the requests to the bucket do not depend on their number.
///
/// # Errors
/// The bucket's.
pub async fn followers(
    ports: &Ports,
    repository: &str,
    git_ref: &str,
) -> Result<Vec<(String, ObjectRef)>> {
    let repository = repository.to_lowercase();
    let mut directories = vec![directory(&repository, git_ref)];
    if git_ref.starts_with("refs/tags/") {
        directories.push(directory(&repository, ANY_TAG));
    }
    let mut found = Vec::new();
    for directory in directories {
        let keys = ports.blobs.list(&directory).await?;
        found.extend(keys.iter().filter_map(|entry| object_of(&entry.key)));
    }
    Ok(found)
}

/// Returns the sources that a push to `git_ref` may change, of every repository whose path ends
/// with `path` (`acme/fleet`): for hosts that do not name themselves. Lists all notes.
///
/// # Errors
/// The bucket's.
pub async fn followers_at_any_host(
    ports: &Ports,
    path: &str,
    git_ref: &str,
) -> Result<Vec<(String, ObjectRef)>> {
    let parts: Vec<String> = path.split('/').map(key_part).collect();
    let end = |pattern: &str| format!("/{}/{}", parts.join("/"), ref_part(pattern));
    let mut ends = vec![end(git_ref)];
    if git_ref.starts_with("refs/tags/") {
        ends.push(end(ANY_TAG));
    }
    let listed = ports.blobs.list(PREFIX).await?;
    let is_followed = |key: &str| {
        let directory = key.rsplit_once('/').map(|(directory, _)| directory);
        directory.is_some_and(|directory| ends.iter().any(|end| directory.ends_with(end)))
    };
    let found = listed.iter().filter(|entry| is_followed(&entry.key));
    Ok(found.filter_map(|entry| object_of(&entry.key)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_kernel::ports::Blobs as _;
    use driftless_memory::MemoryBlobs;
    use futures::FutureExt as _;
    use std::sync::Arc;

    fn source(name: &str) -> ObjectRef {
        ObjectRef::new(FluxKind::GitRepository, "flux-system", name)
    }

    fn branch(name: &str) -> GitReference {
        GitReference {
            branch: name.into(),
            ..Default::default()
        }
    }

    /// Returns the result of a future that never waits, as those of in-memory ports.
    fn now<T>(future: impl Future<Output = Result<T>>) -> T {
        future.now_or_never().unwrap().unwrap()
    }

    #[test]
    fn a_push_reads_no_note_of_its_followers() {
        let blobs = Arc::<MemoryBlobs>::default();
        let ports = driftless_memory::ports(blobs.clone(), Arc::default(), Arc::default());
        let (url, name) = ("https://github.com/acme/fleet", "github.com/acme/fleet");
        let main = branch("main");
        for at in 0..300 {
            let source = source(&format!("s-{at:03}"));
            now(note(&ports, "staging", &source, url, &main));
        }
        now(note(
            &ports,
            "staging",
            &source("other"),
            url,
            &branch("dev"),
        ));
        let subgroup = "https://github.com/acme/fleet/sub";
        now(note(&ports, "staging", &source("sub"), subgroup, &main));
        // The content of a note does not matter: it is not read.
        for BlobEntry { key, .. } in now(blobs.list(PREFIX)) {
            now(blobs.put(&key, "garbage".into(), Precondition::None));
        }
        let found = now(followers(&ports, name, "refs/heads/main"));
        assert_eq!(found.len(), 300);
    }

    #[test]
    fn notes_of_former_repositories_are_deleted() {
        let ports = driftless_memory::ports(Arc::default(), Arc::default(), Arc::default());
        let main = branch("main");
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
        now(forget_others(
            &ports,
            "staging",
            &source("a"),
            Some((new, &main)),
        ));
        assert_eq!(names("github.com/acme/old"), ["other-a"]);
        assert_eq!(names("github.com/acme/new"), ["a"]);
        let dev = branch("dev");
        now(note(&ports, "staging", &source("a"), new, &dev));
        let both = now(followers(&ports, "github.com/acme/new", "refs/heads/dev"));
        assert_eq!(both.len(), 1);
        now(forget_others(
            &ports,
            "staging",
            &source("a"),
            Some((new, &dev)),
        ));
        assert_eq!(names("github.com/acme/new"), [""; 0], "another branch");
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
        let ports = driftless_memory::ports(Arc::default(), Arc::default(), Arc::default());
        let url = "https://github.com/acme/fleet";
        let long = "x".repeat(400);
        let semver = GitReference {
            semver: ">=1.0.0".into(),
            ..branch("main")
        };
        let tag = GitReference {
            tag: "v2.0.0".into(),
            ..branch("main")
        };
        let name = GitReference {
            name: "refs/pull/420/head".into(),
            ..branch("main")
        };
        let commit = GitReference {
            commit: "abc".into(),
            ..branch("main")
        };
        for (object, reference) in [
            ("branch", &branch("main")),
            ("long", &branch(&long)),
            ("semver", &semver),
            ("tag", &tag),
            ("name", &name),
            ("commit", &commit),
        ] {
            now(note(&ports, "staging", &source(object), url, reference));
        }
        for (git_ref, expected) in [
            ("refs/heads/main", vec!["branch"]),
            (&format!("refs/heads/{long}"), vec!["long"]),
            ("refs/heads/dev", vec![]),
            ("refs/tags/main", vec!["semver"]),
            ("refs/tags/v2.0.0", vec!["tag", "semver"]),
            ("refs/pull/420/head", vec!["name"]),
        ] {
            let found = now(followers(&ports, "github.com/Acme/Fleet", git_ref));
            let names: Vec<_> = found.iter().map(|(_, object)| &*object.name).collect();
            assert_eq!(names, expected, "{git_ref}");
        }
        let keys = now(ports.blobs.list(PREFIX));
        assert!(keys.iter().all(|entry| entry.key.len() < 500));
    }
}
