//! The outcome of a comparison: the changes of every cluster, warnings and errors.

use crate::fleet::Location;
use driftless_manifest::ObjectId;

/// The outcome of a comparison.
pub struct Plan {
    /// The name of the state before the change.
    pub base: String,
    /// The name of the state after the change.
    pub head: String,
    /// The clusters with changes or drift, ordered by hub and name.
    pub clusters: Vec<ClusterPlan>,
    /// Warnings that concern no single object.
    pub warnings: Vec<Notice>,
    /// The errors of a check that only the changed state has.
    pub errors: Vec<Notice>,
    /// The number of errors that both states have.
    pub known_errors: usize,
}

/// The changes of one cluster.
pub struct ClusterPlan {
    /// The hub with the Flux objects.
    pub hub: String,
    /// The name of the cluster: the hub, or a remote cluster.
    pub cluster: String,
    /// The state that the changed state is compared with.
    pub basis: Basis,
    /// The changes in the order of their objects.
    pub changes: Vec<Change>,
    /// The differences in the cluster that the change does not concern, and that an apply puts
    /// back.
    pub drift: Vec<Change>,
}

/// The state that a cluster is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The repository before the change.
    Base,
    /// The live objects of the cluster.
    Live,
}

impl Basis {
    /// Returns the printed name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Live => "live",
        }
    }
}

/// The change of one object.
pub struct Change {
    /// The group, kind, namespace and name of the object.
    pub id: ObjectId,
    /// The kind of the change.
    pub action: Action,
    /// The Kustomization or HelmRelease that applies it.
    pub owner: String,
    /// The document that it is made from; of a deleted object that before the change.
    pub place: Option<Location>,
    /// The changed lines of its YAML, without secret values.
    pub diff: String,
    /// Warnings about this change.
    pub warnings: Vec<String>,
}

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// The object would be created.
    Create,
    /// The object would be changed.
    Change,
    /// The object would be deleted.
    Delete,
    /// The object leaves the repository and stays in the cluster.
    Keep,
}

impl Action {
    /// Returns the printed name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Change => "change",
            Self::Delete => "delete",
            Self::Keep => "keep",
        }
    }
}

/// A message with the place and the object that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The file, and the line if it is known.
    pub place: Option<Location>,
    /// The hubs, and the object.
    pub about: String,
    /// The message, without secret values.
    pub message: String,
}

impl Plan {
    /// Returns whether no object changes and no error is new. Drift is not a change.
    pub fn is_empty(&self) -> bool {
        self.changed_clusters() == 0 && self.errors.is_empty()
    }

    /// Returns the number of clusters with changes.
    pub fn changed_clusters(&self) -> usize {
        let changed = self.clusters.iter().filter(|one| !one.changes.is_empty());
        changed.count()
    }

    /// Returns the number of objects that an apply puts back.
    pub fn drift_count(&self) -> usize {
        self.clusters.iter().map(|one| one.drift.len()).sum()
    }

    /// Returns the number of changes of a kind.
    pub fn count(&self, action: Action) -> usize {
        let all = self.clusters.iter().flat_map(|cluster| &cluster.changes);
        all.filter(|change| change.action == action).count()
    }

    /// Returns the number of warnings.
    pub fn warning_count(&self) -> usize {
        let changes = self.clusters.iter().flat_map(|cluster| &cluster.changes);
        let drift = self.clusters.iter().flat_map(|cluster| &cluster.drift);
        let all = changes.chain(drift);
        self.warnings.len() + all.map(|change| change.warnings.len()).sum::<usize>()
    }
}
