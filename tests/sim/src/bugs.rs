//! Faults of the outside that no correct outside has, or that stand for a mistake in the product: each must be found.
//!
//! Most stand for a bug that a tool of this kind once had; the comment names it.

use crate::economy;
use crate::run::{Options, run};
use std::time::Duration;

/// A planted bug. It lives in the simulation's ports alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bug {
    /// An object that cannot be read counts as one that is not there (argo-cd 3473).
    UnreadableIsAbsent,
    /// A kubeconfig Secret that cannot be read counts as one that is not there (argo-cd 18480).
    UnreadableSecretIsAbsent,
    /// A download that broke off counts as whole (GitHub's `truncated: true`; argo-cd 14318).
    TruncatedFiles,
    /// A commit is given the files of the one before it, as by a cache that is found by too little.
    OlderFiles,
    /// A delete is answered and not done.
    LostDelete,
    /// The records of a release that is uninstalled stay.
    LostPurge,
    /// What the timer sends is lost.
    TimerMessagesLost,
    /// Who waits for an object is not woken (the notes were deleted before the messages were queued).
    WakeLost,
    /// Equal messages within five minutes are one, as in a FIFO queue: of A, B, A the last A is lost.
    Deduplicated,
    /// A message that brings an object back carries no token: every retry adds a chain.
    NoTokens,
    /// What a source queues looks like what the timer queues: every Kustomization is built for every push.
    SourceAsTimer,
    /// Loops are cut after 16 messages of one lineage (AWS Lambda's recursive loop detection).
    RecursionCut,
    /// The bucket ignores preconditions: leases hold nobody off.
    NoPreconditions,
    /// A Git host answers with an older commit after a newer one.
    OldCommits,
    /// API servers ignore uid and resourceVersion in deletes and patches.
    NoApiPreconditions,
    /// Writes of release records go over what `helm rollback` wrote in the meantime.
    UnconditionalRecords,
    /// Inventories are answered and not stored.
    LostInventory,
    /// What could not be deleted leaves the inventory (kustomize-controller 1664).
    InventoryAdvances,
    /// What an API server refuses for a moment is deleted to be made anew (fluxcd/pkg 192).
    ForceOnRefusal,
    /// The webhook answers before the queue has the messages.
    EarlyAnswer,
    /// A cluster that cannot be reached gets the objects of another one.
    WrongCluster,
    /// Messages carry a secret.
    LeakedSecret,
    /// A delete does not look whose object it is: owner labels are taken for ours.
    ForeignDelete,
    /// A step that ends well puts itself back.
    EndlessLoop,
}

/// How a bug is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// By seeds, at most so many.
    Seeds(u64),
    /// By what a source costs that fails for a day.
    FailingSource,
    /// By what a push costs.
    Push,
    /// By how long a chain of Kustomizations takes.
    Chain,
}

/// What found a bug.
#[derive(Clone, Debug)]
pub struct Found {
    /// Which seed, or what else.
    pub by: String,
    /// The violation; its first letter is the invariant.
    pub violation: String,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 24] = [
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
    ];

    /// How it is looked for.
    pub fn search(self) -> Search {
        match self {
            Self::NoTokens => Search::FailingSource,
            Self::SourceAsTimer => Search::Push,
            Self::WakeLost => Search::Chain,
            _ => Search::Seeds(10_000),
        }
    }

    /// Whether the ordinary test run looks for it, and with how many seeds.
    pub fn quick(self) -> Option<u64> {
        match self {
            Self::Deduplicated
            | Self::InventoryAdvances
            | Self::NoPreconditions
            | Self::RecursionCut => None,
            _ => Some(40),
        }
    }

    /// Which invariants it breaks.
    pub fn breaks(self) -> &'static [&'static str] {
        match self {
            Self::UnreadableIsAbsent | Self::LostInventory | Self::InventoryAdvances => &["N"],
            Self::UnreadableSecretIsAbsent | Self::LostDelete => &["N", "L"],
            Self::TruncatedFiles => &["P", "L"],
            Self::NoApiPreconditions
            | Self::UnconditionalRecords
            | Self::ForceOnRefusal
            | Self::ForeignDelete => &["P"],
            Self::NoPreconditions | Self::OldCommits | Self::WrongCluster => &["W", "P"],
            Self::OlderFiles => &["W", "L", "I", "P"],
            Self::TimerMessagesLost | Self::EarlyAnswer | Self::Deduplicated | Self::LostPurge => {
                &["L", "I"]
            }
            Self::WakeLost => &["I"],
            Self::RecursionCut | Self::EndlessLoop | Self::NoTokens | Self::SourceAsTimer => &["E"],
            Self::LeakedSecret => &["S"],
        }
    }

    /// By its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|bug| format!("{bug:?}") == name)
    }

    /// Looks for it, otherwise than by seeds.
    pub fn find(self) -> Option<Found> {
        let bug = Some(self);
        match self.search() {
            Search::Seeds(seeds) => (0..seeds).find_map(|seed| self.find_by(seed)),
            Search::FailingSource => {
                let looks = economy::failing_source(economy::DAY, bug);
                (looks > economy::MOST_LOOKS).then(|| Found {
                    by: "a failing source".to_owned(),
                    violation: format!("E: {looks} looks in a day"),
                })
            }
            Search::Push => {
                let cost = economy::push(economy::FLEET_SIZE, bug);
                let requests = cost.api();
                (requests > economy::MOST_REQUESTS).then(|| Found {
                    by: "a push".to_owned(),
                    violation: format!("E: {requests} requests to API servers"),
                })
            }
            Search::Chain => {
                let time = economy::chain(economy::CHAIN, bug);
                (time > economy::LONGEST_CHAIN).then(|| Found {
                    by: "a chain of Kustomizations".to_owned(),
                    violation: format!("I: it took {} s", time.as_secs()),
                })
            }
        }
    }

    /// Looks for it by one seed.
    pub fn find_by(self, seed: u64) -> Option<Found> {
        let outcome = run(Options {
            seed,
            bug: Some(self),
            trace: false,
        });
        let violation = outcome.ended.violations.into_iter().next()?;
        let by = format!("seed {seed}, {} s", outcome.time.as_secs());
        Some(Found { by, violation })
    }

    /// Whether a violation is one that it leads to.
    pub fn explains(self, found: &Found) -> bool {
        let breaks = self.breaks();
        breaks.iter().any(|one| found.violation.starts_with(one))
    }
}

/// The time of equal messages of which one is kept.
pub const DEDUPLICATION: Duration = Duration::from_secs(300);
