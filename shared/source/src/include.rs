//! The files of other GitRepositories that `spec.include` adds to an artifact, as in
//! source-controller 1.9.

use crate::lookup::{artifact_of, find};
use crate::{artifact, files, ignore};
use driftless_flux::{ArtifactStatus, FluxKind, GitInclude, GitRepository, ObjectRef, reason};
use driftless_kernel::context::Context;
use driftless_kernel::failure::Failure;
use driftless_kernel::ports::FetchLimits;
use driftless_manifest::{EntryKind, FileTree, TreePath};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The most repositories that are read to find whether they include each other.
const MAX_REPOSITORIES: usize = 32;

/// Returns the repositories that a GitRepository includes.
pub fn repositories(source: &GitRepository) -> Vec<ObjectRef> {
    let id = |include: &GitInclude| {
        let (namespace, name) = (&source.id.namespace, &include.repository.name);
        ObjectRef::new(FluxKind::GitRepository, namespace, name)
    };
    source.spec.include.iter().map(id).collect()
}

/// Reads the artifacts of the included repositories, in the order of `spec.include`.
///
/// # Errors
/// A repository does not exist, has no artifact, or includes the source; the cluster's errors.
pub(super) async fn artifacts(
    context: &Context<'_>,
    source: &GitRepository,
) -> Result<Vec<ArtifactStatus>, Failure> {
    let mut artifacts = Vec::new();
    let mut open = Vec::new();
    for id in repositories(source) {
        let name = &id.name;
        let Some(object) = find(context, &id).await? else {
            let message = format!(
                "could not get resource for include '{name}': {}",
                id.not_cached()
            );
            return Err(Failure::waiting(reason::NOT_FOUND, message));
        };
        let Some(found) = artifact_of(&object) else {
            let message = format!("no artifact available for include '{name}'");
            return Err(Failure::waiting(reason::NO_ARTIFACT, message));
        };
        artifacts.push(found);
        open.extend(GitRepository::from_object(object).ok());
    }
    check_cycle(context, source, open).await?;
    Ok(artifacts)
}

/// Checks that the included repositories do not include the source: each new artifact would make
/// another one, forever.
async fn check_cycle(
    context: &Context<'_>,
    source: &GitRepository,
    mut open: Vec<GitRepository>,
) -> Result<(), Failure> {
    let mut seen = BTreeSet::new();
    while let Some(one) = open.pop() {
        for id in repositories(&one) {
            if id == source.id {
                let message = format!(
                    "spec.include: '{}' includes this repository: remove one of the two includes",
                    one.id.name
                );
                return Err(Failure::terminal(reason::ILLEGAL_PATH, message));
            }
            if !seen.insert(id.clone()) {
                continue;
            }
            if seen.len() > MAX_REPOSITORIES {
                let message = format!(
                    "spec.include: the included repositories include more than {MAX_REPOSITORIES} others, which is the limit"
                );
                return Err(Failure::terminal(reason::ILLEGAL_PATH, message));
            }
            let object = find(context, &id).await?;
            open.extend(object.and_then(|object| GitRepository::from_object(object).ok()));
        }
    }
    Ok(())
}

/// Returns the artifact of the source's own files and of the included ones.
///
/// # Errors
/// A path is not valid, does not exist in the included artifact, or exists in the source already;
/// the bucket's errors.
pub(super) async fn compose(
    context: &Context<'_>,
    source: &GitRepository,
    own: &ArtifactStatus,
    included: &[ArtifactStatus],
) -> Result<ArtifactStatus, Failure> {
    let storage = |error| Failure::port(reason::STORAGE_FAILED, &error);
    let own_files = files::load(context.ports, own, &context.fuel).await;
    let mut tree = FileTree::clone(&*own_files.map_err(storage)?);
    let repositories = repositories(source);
    for ((include, id), found) in source.spec.include.iter().zip(&repositories).zip(included) {
        let files = files::load_of(context, id, found).await;
        let files = files.map_err(|error| {
            let name = &id.name;
            Failure::port(reason::COPY_FAILURE, &error).context(format!("include '{name}'"))
        })?;
        add(&mut tree, &files, include)?;
        check_size(&tree)?;
    }
    ignore::apply(&mut tree, source.spec.ignore.as_deref(), &context.fuel)
        .map_err(|error| Failure::terminal(reason::GIT_FAILED, &error).caused_by(error))?;
    artifact::store(context.ports, tree, &own.revision)
        .await
        .map_err(storage)
}

/// Checks that the files fit the limits of one source.
fn check_size(tree: &FileTree) -> Result<(), Failure> {
    let limits = FetchLimits::default();
    let bytes: u64 = tree.index().iter().map(|(_, entry)| entry.size).sum();
    if bytes > limits.bytes || tree.index().len() > limits.files {
        let (bytes, files) = (limits.bytes >> 20, limits.files);
        let message = format!(
            "spec.include: the repository with its includes has more than {bytes} MiB or {files} files, which is the limit"
        );
        return Err(Failure::terminal(reason::COPY_FAILURE, message));
    }
    Ok(())
}

/// Adds the files of an included repository, without its links.
fn add(tree: &mut FileTree, files: &Arc<FileTree>, include: &GitInclude) -> Result<(), Failure> {
    let name = &include.repository.name;
    let path = |text: Option<&str>| {
        TreePath::secure_join(text.unwrap_or_default()).map_err(|error| {
            let message = format!("path calculation for include '{name}' failed: {error}");
            Failure::terminal(reason::ILLEGAL_PATH, message)
        })
    };
    let from = path(include.from_path.as_deref())?;
    let to = include.to_path.as_deref().filter(|text| !text.is_empty());
    let to = path(Some(to.unwrap_or(name)))?;
    let failed = |problem: &str| {
        let (from, to) = (from.as_str(), to.as_str());
        let message = format!("failed to copy '{name}' include from '{from}' to '{to}': {problem}");
        Failure::retry(reason::COPY_FAILURE, message)
    };
    let index = tree.index();
    if to.is_root() || index.is_dir(&to) || index.get(&to).is_some() {
        return Err(failed("the path exists in the repository"));
    }
    let mut is_found = from.is_root();
    for (at, entry) in files.index().iter() {
        if !at.is_within(&from) {
            continue;
        }
        is_found = true;
        if entry.kind == EntryKind::Link {
            continue;
        }
        let rest = at.as_str()[from.as_str().len()..].trim_start_matches('/');
        let target = match rest {
            "" => Ok(to.clone()),
            rest => to.join(rest),
        };
        let target = target.map_err(|error| failed(&error.to_string()))?;
        let content = files.content(at).cloned().unwrap_or_default();
        let added = tree.insert(target, entry.kind.clone(), content);
        added.map_err(|error| failed(&error.to_string()))?;
    }
    match is_found {
        true => Ok(()),
        false => Err(failed("the path does not exist in the included repository")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn include(from: &str, to: &str) -> GitInclude {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        GitInclude {
            repository: driftless_flux::LocalRef {
                name: "shared".to_owned(),
            },
            from_path: text(from),
            to_path: text(to),
        }
    }

    #[test]
    fn paths_of_includes() {
        let own = FileTree::from_files([("app/a.yaml", "a")]).unwrap();
        let mut shared = FileTree::from_files([("base/b.yaml", "b"), ("c.yaml", "c")]).unwrap();
        let link = TreePath::new("base/link.yaml").unwrap();
        shared.insert(link, EntryKind::Link, "b.yaml").unwrap();
        let shared = Arc::new(shared);
        let added = |from: &str, to: &str| {
            let mut tree = own.clone();
            let result = add(&mut tree, &shared, &include(from, to));
            let paths = tree.index().iter().map(|(path, _)| path.to_string());
            result.map(|()| {
                paths
                    .filter(|path| path != "app/a.yaml")
                    .collect::<Vec<_>>()
            })
        };
        for (from, to, expected) in [
            ("", "", vec!["shared/base/b.yaml", "shared/c.yaml"]),
            ("base", "app/base", vec!["app/base/b.yaml"]),
            ("./base/", "x", vec!["x/b.yaml"]),
            ("c.yaml", "app/c.yaml", vec!["app/c.yaml"]),
            ("../../base", "../../x", vec!["x/b.yaml"]),
        ] {
            assert_eq!(added(from, to).unwrap(), expected, "{from} {to}");
        }
        for (from, to, part) in [
            ("", "app", "exists in the repository"),
            ("", ".", "exists in the repository"),
            ("bas", "x", "does not exist in the included repository"),
            ("c.yaml", "app/a.yaml", "exists in the repository"),
            ("c.yaml", "app/a.yaml/b", "a.yaml/b"),
        ] {
            let message = added(from, to).unwrap_err().message;
            assert!(message.contains(part), "{from} {to}: {message}");
        }
    }
}
