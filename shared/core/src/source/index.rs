//! Which sources follow which repository: the webhook reads it, source steps write it.

use crate::flux::{FluxKind, ObjectRef};
use crate::ports::{GitReference, Ports, Precondition, Result};
use crate::state::{self, key_part};
use serde::{Deserialize, Serialize};

/// A source that follows a repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Follower {
    /// The hub.
    pub hub: String,
    /// The source.
    pub object: ObjectRef,
    /// What it follows.
    pub reference: GitReference,
}

/// A repository's name as the index has it: `github.com/acme/fleet`, in lower case, without scheme, user, port and `.git`.
/// `None` for an address that no webhook can speak of.
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
    format!("index/{}/", parts.join("/"))
}

fn key(repository: &str, hub: &str, object: &ObjectRef) -> String {
    format!(
        "{}{}+{}+{}.json",
        prefix(repository),
        key_part(hub),
        key_part(&object.namespace),
        key_part(&object.name)
    )
}

/// Notes that a GitRepository follows a repository; writes only what is new.
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
    let known = state::read::<Follower>(ports.blobs.as_ref(), &key).await?;
    if known.is_none_or(|(known, _)| known != follower) {
        state::write(ports.blobs.as_ref(), &key, &follower, Precondition::None).await?;
    }
    Ok(())
}

/// Forgets a source that is gone.
///
/// # Errors
/// The bucket's.
pub async fn forget(ports: &Ports, hub: &str, object: &ObjectRef, url: &str) -> Result<()> {
    match repository(url) {
        Some(repository) => ports.blobs.delete(&key(&repository, hub, object)).await,
        None => Ok(()),
    }
}

/// The sources that a push to `git_ref` (`refs/heads/main`, `refs/tags/v1`) of a repository may move.
///
/// # Errors
/// The bucket's.
pub async fn followers(ports: &Ports, repository: &str, git_ref: &str) -> Result<Vec<Follower>> {
    let mut found = Vec::new();
    for (key, _) in ports
        .blobs
        .list(&prefix(&repository.to_lowercase()))
        .await?
    {
        if let Some((follower, _)) = state::read::<Follower>(ports.blobs.as_ref(), &key).await?
            && follower.object.kind == FluxKind::GitRepository
            && may_follow(&follower.reference, git_ref)
        {
            found.push(follower);
        }
    }
    Ok(found)
}

/// Whether a push to `git_ref` can move what `reference` leads to, by Flux's order of precedence.
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
