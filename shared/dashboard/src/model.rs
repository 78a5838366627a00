//! What the pages show.

use driftless_flux::ObjectRef;
use driftless_kernel::journal::{Journal, Landing};
use std::collections::BTreeMap;

/// The journals of a hub's objects.
pub type Journals = BTreeMap<ObjectRef, Journal>;

/// The state of all hubs at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// The time of the reading, in milliseconds since 1970.
    pub taken: u64,
    /// The hubs in the order of their names.
    pub hubs: Vec<Hub>,
    /// The Flux objects, in the order of hub, namespace, kind and name.
    pub objects: Vec<Row>,
}

/// A hub and the state of its reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hub {
    /// The name of the hub.
    pub name: String,
    /// The address of the repository of its root; empty if it has none.
    pub fleet: String,
    /// The reason why it, or some of its kinds, cannot be read.
    pub error: Option<String>,
}

/// A Flux object of a hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The name of its hub.
    pub hub: String,
    /// Its kind, namespace and name.
    pub id: ObjectRef,
    /// The cluster that it acts on: its hub, or the name of the kubeconfig of a remote cluster.
    pub cluster: String,
    /// The Kustomization that applied it.
    pub owner: Option<ObjectRef>,
    /// The source of its files.
    pub source: Option<ObjectRef>,
    /// The objects that it depends on.
    pub depends_on: Vec<ObjectRef>,
    /// The state of the object.
    pub state: State,
    /// True if it is suspended.
    pub is_suspended: bool,
    /// The reason of its condition `Ready`.
    pub reason: String,
    /// The message of its condition `Ready`.
    pub message: String,
    /// The revision in its status; empty before the first.
    pub revision: String,
    /// The revision that was attempted last, if it is another one.
    pub attempted: String,
    /// The time of the last change of its state, in milliseconds since 1970; 0 if it is unknown.
    pub since: u64,
    /// The time of its creation, in milliseconds since 1970.
    pub created: u64,
    /// The number of objects that it applied.
    pub applied: usize,
    /// The directory of its files in the source.
    pub path: String,
    /// The address of its source, if it is a source.
    pub url: String,
    /// The reason of drift that was found and not corrected.
    pub drift: Option<String>,
}

/// The state of a Flux object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// The last step failed.
    Failed,
    /// It waits for another object.
    Waiting,
    /// It is not reconciled yet, or in progress.
    Progressing,
    /// It is suspended.
    Suspended,
    /// It is ready.
    Ready,
}

impl State {
    /// All states, the most urgent first.
    pub const ALL: [Self; 5] = [
        Self::Failed,
        Self::Waiting,
        Self::Progressing,
        Self::Suspended,
        Self::Ready,
    ];

    /// Returns the name on pages and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Waiting => "waiting",
            Self::Progressing => "progressing",
            Self::Suspended => "suspended",
            Self::Ready => "ready",
        }
    }

    /// Returns the state with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }
}

/// The place in a repository that a failure comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The path of the file in the source.
    pub file: String,
    /// The line, from 1, if it is known.
    pub line: Option<usize>,
    /// The address of the file at its host, if the host is known.
    pub link: Option<String>,
}

/// Drift of an object that was found, and whether it was corrected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// The name of the hub.
    pub hub: String,
    /// The Flux object that applied what has drifted.
    pub object: ObjectRef,
    /// The time, in milliseconds since 1970.
    pub at: u64,
    /// The objects that were put back, with their fields; empty for drift that was only found.
    pub corrected: Vec<driftless_kernel::journal::ObjectChange>,
    /// The message about the drift.
    pub message: String,
}

impl Row {
    /// Returns the path of its page.
    pub fn href(&self) -> String {
        href(&self.hub, &self.id)
    }

    /// Returns whether a mass deletion waits for an approval.
    pub fn is_prune_held(&self) -> bool {
        self.reason == driftless_flux::reason::PRUNE_HELD
    }
}

/// Returns the path of the page of an object.
pub fn href(hub: &str, id: &ObjectRef) -> String {
    let [hub, namespace, name] = [hub, &id.namespace, &id.name].map(crate::text::segment);
    format!("/objects/{hub}/{}/{namespace}/{name}", id.kind)
}

impl Snapshot {
    /// Returns an object.
    pub fn find(&self, hub: &str, id: &ObjectRef) -> Option<&Row> {
        let mut rows = self.objects.iter();
        rows.find(|row| row.hub == hub && row.id == *id)
    }

    /// Returns a string that differs if anything a page shows differs.
    pub fn fingerprint(&self) -> String {
        use sha2::Digest as _;
        let mut digest = sha2::Sha256::new();
        for hub in &self.hubs {
            digest.update(format!("{hub:?}"));
        }
        for row in &self.objects {
            digest.update(format!("{row:?}"));
        }
        hex::encode(&digest.finalize()[..12])
    }
}

/// Returns the state of an object at a landing.
pub fn landed(landing: &Landing) -> State {
    use driftless_kernel::journal::StepResult;
    match landing.result {
        StepResult::Ready | StepResult::NewRevision => State::Ready,
        StepResult::Failed => State::Failed,
        StepResult::Progressing => State::Progressing,
    }
}
