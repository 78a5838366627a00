//! The paths in which two artifacts of a source differ, and the objects that they touch: these are
//! reconciled first.

use crate::{artifact, files};
use driftless_flux::{ArtifactStatus, Kustomization, ObjectRef, READY, REQUESTED_AT};
use driftless_kernel::context::Context;
use driftless_kernel::ports::WatchSnapshot;
use driftless_manifest::{Entry, TreeIndex, TreePath};

/// The paths that differ between the artifact that a source had and the one that it has now.
pub(crate) struct ChangedPaths {
    paths: TreeIndex,
    /// The revision of the artifact that it had.
    before: String,
}

impl ChangedPaths {
    /// Compares two artifacts of a source; `None` if one of them has no files, or cannot be read.
    pub(crate) async fn between(
        context: &Context<'_>,
        before: &ArtifactStatus,
        now: &ArtifactStatus,
    ) -> Option<Self> {
        if ![before, now].into_iter().all(artifact::has_files) {
            return None;
        }
        let open = |artifact| async move {
            let files = files::open(context.ports, artifact, &context.fuel).await;
            files.inspect_err(|error| tracing::debug!(%error, "artifact not compared"))
        };
        let (old, new) = (open(before).await.ok()?, open(now).await.ok()?);
        Some(Self {
            paths: differing(old.index(), new.index()),
            before: before.revision.clone(),
        })
    }

    /// Returns whether only the revision of a Kustomization is likely to move: it is at rest, and
    /// no file differs below its path or among those that its last build is known to have read
    /// elsewhere. The step that moves the revision decides.
    pub(crate) fn leaves(&self, context: &Context<'_>, object: &Kustomization) -> bool {
        let status = &object.status;
        let requested = object.object.annotation(REQUESTED_AT).unwrap_or_default();
        let is_at_rest = status.conditions.is_true(READY)
            && status.observed_generation == Some(object.generation())
            && status.last_applied_revision == self.before
            && requested == status.last_handled_reconcile_at
            && object.object.meta("deletionTimestamp").is_empty()
            && !object.spec.suspend;
        let Ok(own) = TreePath::secure_join(&object.spec.path) else {
            return false;
        };
        let elsewhere = reads_elsewhere(context, &object.id);
        is_at_rest && !self.touches(&own) && !elsewhere.iter().any(|path| self.touches(path))
    }

    fn touches(&self, path: &TreePath) -> bool {
        self.paths.get(path).is_some() || self.paths.below(path).next().is_some()
    }
}

/// Returns the paths that only one of two trees has, or whose contents differ.
fn differing(old: &TreeIndex, new: &TreeIndex) -> TreeIndex {
    let lacks = |tree: &TreeIndex, path: &TreePath, entry: &Entry| tree.get(path) != Some(entry);
    let gone = old.iter().filter(|(path, entry)| lacks(new, path, entry));
    let added = new.iter().filter(|(path, entry)| lacks(old, path, entry));
    gone.chain(added)
        .map(|(path, entry)| (path.clone(), entry.clone()))
        .collect()
}

/// Keeps the paths that the last build of this step's Kustomization read outside of `own`: for the
/// steps of its source in this process.
pub fn keep_reads<'p>(
    context: &Context<'_>,
    own: &TreePath,
    reads: impl Iterator<Item = &'p TreePath>,
) {
    let elsewhere = reads.filter(|path| !path.is_within(own) && !own.is_within(path));
    let known = WatchSnapshot {
        version: elsewhere
            .map(TreePath::as_str)
            .collect::<Vec<_>>()
            .join("\n"),
        ..WatchSnapshot::default()
    };
    let key = key(context, &context.id);
    context.ports.watches.keep(&key, known);
}

fn reads_elsewhere(context: &Context<'_>, object: &ObjectRef) -> Vec<TreePath> {
    let known = context.ports.watches.get(&key(context, object));
    let paths = known.map(|known| known.version).unwrap_or_default();
    paths
        .lines()
        .filter_map(|path| TreePath::new(path).ok())
        .collect()
}

fn key(context: &Context<'_>, object: &ObjectRef) -> String {
    format!("reads {} {}", context.hub.settings.name, object.key())
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_manifest::FileTree;

    #[test]
    fn a_path_is_touched_by_what_differs_at_or_below_it() {
        let old = FileTree::from_files([("a/x", "1"), ("a-b/x", "1"), ("gone/x", "1")]).unwrap();
        let new = FileTree::from_files([("a/x", "2"), ("a-b/x", "1"), ("new", "1")]).unwrap();
        let changed = ChangedPaths {
            paths: differing(old.index(), new.index()),
            before: String::new(),
        };
        for (path, expected) in [
            ("a", true),
            ("a/x", true),
            ("a-b", false),
            ("gone", true),
            ("new", true),
            ("other", false),
            ("", true),
        ] {
            let path = TreePath::new(path).unwrap();
            assert_eq!(changed.touches(&path), expected, "{path}");
        }
        let same = differing(old.index(), old.index());
        assert!(same.is_empty());
    }
}
