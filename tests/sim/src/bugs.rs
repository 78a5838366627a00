//! Planted bugs: faults that no correct service has, or that imitate a mistake in the product. The
//! simulation must find each.
//!
//! Most imitate a bug that a similar tool once had; the doc of the variant names it.

use crate::economy;
use crate::isolation;
use crate::run::{Options, run};
use std::time::Duration;

/// A planted bug. It is in the simulation's ports, never in the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bug {
    /// An object that cannot be read counts as missing (argo-cd 3473).
    UnreadableIsAbsent,
    /// A kubeconfig Secret that cannot be read counts as missing (argo-cd 18480).
    UnreadableSecretIsAbsent,
    /// A truncated download counts as complete (GitHub's `truncated: true`; argo-cd 14318).
    TruncatedFiles,
    /// A commit gets the files of the previous commit, as from a cache whose key is incomplete.
    OlderFiles,
    /// A delete is answered with success, and the object stays.
    LostDelete,
    /// The records of an uninstalled release stay.
    LostPurge,
    /// The messages that the timer sends are lost.
    TimerMessagesLost,
    /// The dependents of an object are not requeued (the notes were deleted before the messages
    /// were queued).
    WakeLost,
    /// Equal messages within five minutes are one, as in a FIFO queue: of A, B, A the last A is
    /// lost.
    Deduplicated,
    /// A message that requeues an object has no token: every retry starts another chain of
    /// messages.
    NoTokens,
    /// Messages that a source queues have the timer's cause: every Kustomization is built for every
    /// push.
    SourceAsTimer,
    /// Loops are cut after 16 messages of one lineage (AWS Lambda's recursive loop detection).
    RecursionCut,
    /// The bucket ignores preconditions: leases exclude no other worker.
    NoPreconditions,
    /// A Git host answers with an older commit after a newer one.
    OldCommits,
    /// API servers ignore uid and resourceVersion in deletes and patches.
    NoApiPreconditions,
    /// Writes of release records replace what `helm rollback` wrote in the meantime.
    UnconditionalRecords,
    /// A write of an inventory is answered with success, and is not stored.
    LostInventory,
    /// An object that could not be deleted leaves the inventory (kustomize-controller 1664).
    InventoryAdvances,
    /// An object whose apply fails for a moment is deleted, to be created again (fluxcd/pkg 192).
    ForceOnRefusal,
    /// The webhook answers with success before the queue has the messages.
    EarlyAnswer,
    /// The objects of an unreachable cluster are applied to another one.
    WrongCluster,
    /// Messages carry a secret.
    LeakedSecret,
    /// A delete does not check the owner labels of the object.
    ForeignDelete,
    /// A step that succeeds queues itself again.
    EndlessLoop,
    /// One invocation sweeps all hubs, one after the other: hubs that hang block the others.
    SweepsInOneBatch,
    /// One invocation sweeps all hubs, and queues what is due at its end, after everything slow.
    SendsAtTheEnd,
}

/// The way to search for a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// Runs of the simulation with at most this many seeds.
    Seeds(u64),
    /// The number of steps of a source that fails for a day.
    FailingSource,
    /// The number of requests that a push causes.
    Push,
    /// The time that a push through a chain of Kustomizations takes.
    Chain,
    /// The messages that are dead after a push through a chain that is longer than a lineage of
    /// messages.
    LongChain,
    /// The time that the second of two pushes takes.
    SecondPush,
    /// The objects that remain after deletes that failed for a while.
    FailedDelete,
    /// The time that the drift of a hub remains, next to hubs that hang.
    Hubs,
}

/// The violation by which a bug was found.
#[derive(Clone, Debug)]
pub struct Detection {
    /// The seed or the measurement that found it.
    pub by: String,
    /// The text of the violation; its first letter is the invariant.
    pub violation: String,
}

impl Bug {
    /// All planted bugs.
    pub const ALL: [Self; 26] = [
        Self::UnreadableIsAbsent,
        Self::UnreadableSecretIsAbsent,
        Self::TruncatedFiles,
        Self::OlderFiles,
        Self::LostDelete,
        Self::LostPurge,
        Self::TimerMessagesLost,
        Self::WakeLost,
        Self::Deduplicated,
        Self::NoTokens,
        Self::SourceAsTimer,
        Self::RecursionCut,
        Self::NoPreconditions,
        Self::OldCommits,
        Self::NoApiPreconditions,
        Self::UnconditionalRecords,
        Self::LostInventory,
        Self::InventoryAdvances,
        Self::ForceOnRefusal,
        Self::EarlyAnswer,
        Self::WrongCluster,
        Self::LeakedSecret,
        Self::ForeignDelete,
        Self::EndlessLoop,
        Self::SweepsInOneBatch,
        Self::SendsAtTheEnd,
    ];

    /// Returns the way in which the bug is searched for.
    pub fn search(self) -> Search {
        match self {
            Self::NoTokens => Search::FailingSource,
            Self::SourceAsTimer => Search::Push,
            Self::WakeLost => Search::Chain,
            Self::RecursionCut => Search::LongChain,
            Self::Deduplicated => Search::SecondPush,
            Self::InventoryAdvances => Search::FailedDelete,
            Self::SweepsInOneBatch | Self::SendsAtTheEnd => Search::Hubs,
            _ => Search::Seeds(10_000),
        }
    }

    /// Returns the invariants that the bug breaks.
    pub fn breaks(self) -> &'static [&'static str] {
        match self {
            Self::UnreadableIsAbsent | Self::LostInventory | Self::InventoryAdvances => &["N"],
            Self::UnreadableSecretIsAbsent | Self::LostDelete => &["N", "L"],
            Self::TruncatedFiles => &["P", "L"],
            Self::NoApiPreconditions
            | Self::UnconditionalRecords
            | Self::ForceOnRefusal
            | Self::ForeignDelete => &["P"],
            Self::NoPreconditions => &["X", "W", "P"],
            Self::OldCommits | Self::WrongCluster => &["W", "P"],
            Self::OlderFiles => &["W", "L", "I", "P"],
            Self::Deduplicated => &["I"],
            Self::TimerMessagesLost | Self::EarlyAnswer | Self::LostPurge => &["L", "I"],
            Self::WakeLost | Self::SweepsInOneBatch | Self::SendsAtTheEnd => &["I"],
            Self::RecursionCut | Self::EndlessLoop | Self::NoTokens | Self::SourceAsTimer => &["E"],
            Self::LeakedSecret => &["S"],
        }
    }

    /// Parses the name of a variant; `None` for an unknown name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|bug| format!("{bug:?}") == name)
    }

    /// Searches for the bug in its own way.
    pub fn find(self) -> Option<Detection> {
        let bug = Some(self);
        match self.search() {
            Search::Seeds(seeds) => (0..seeds).find_map(|seed| self.find_with_seed(seed)),
            Search::FailingSource => {
                let steps = economy::failing_source(economy::DAY, bug);
                (steps > *economy::FAILING_STEPS.end()).then(|| Detection {
                    by: "a failing source".to_owned(),
                    violation: format!("E: {steps} steps in a day"),
                })
            }
            Search::Push => {
                let cost = economy::push(economy::FLEET_SIZE, bug);
                let requests = cost.api();
                (requests > economy::MAX_PUSH_REQUESTS).then(|| Detection {
                    by: "a push".to_owned(),
                    violation: format!("E: {requests} requests to API servers"),
                })
            }
            Search::Chain => {
                let time = economy::chain(economy::CHAIN_LENGTH, bug);
                late("a chain of Kustomizations", time, economy::MAX_CHAIN_TIME)
            }
            Search::LongChain => {
                let dead = economy::long_chain(bug);
                (dead > 0).then(|| Detection {
                    by: "a long chain".to_owned(),
                    violation: format!("E: {dead} messages are dead"),
                })
            }
            Search::SecondPush => {
                let time = economy::second_push(bug);
                late("a second push", time, economy::MAX_PUSH_TIME)
            }
            Search::FailedDelete => (!economy::failed_delete(bug)).then(|| Detection {
                by: "a delete that fails for a while".to_owned(),
                violation: "N: the object was not deleted later".to_owned(),
            }),
            Search::Hubs => {
                let time = isolation::hubs(bug);
                late("hubs that hang", time, isolation::MAX_DRIFT_TIME)
            }
        }
    }

    /// Searches for the bug by one seed.
    pub fn find_with_seed(self, seed: u64) -> Option<Detection> {
        let outcome = run(Options {
            seed,
            bug: Some(self),
            trace: false,
        });
        let violation = outcome.ended.violations.into_iter().next()?;
        let by = format!("seed {seed}, {} s", outcome.time.as_secs());
        Some(Detection { by, violation })
    }

    /// Returns whether the violation is of an invariant that the bug breaks.
    pub fn explains(self, found: &Detection) -> bool {
        let breaks = self.breaks();
        breaks.iter().any(|one| found.violation.starts_with(one))
    }
}

/// Returns the violation of a scenario that took longer than it may.
fn late(scenario: &str, time: Duration, most: Duration) -> Option<Detection> {
    (time > most).then(|| Detection {
        by: scenario.to_owned(),
        violation: format!(
            "I: it took {} s, at most {} s",
            time.as_secs(),
            most.as_secs()
        ),
    })
}

/// The deduplication interval of a FIFO queue: of equal messages within it, one is kept.
pub const DEDUPLICATION: Duration = Duration::from_secs(300);
