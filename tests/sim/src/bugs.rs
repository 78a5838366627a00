//! Faults of the outside that no correct outside has, or that stand for a mistake in the product: each must be found.

/// A planted bug. It lives in the simulation's ports alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bug {
    /// An object that cannot be read counts as one that is not there.
    UnreadableIsAbsent,
    /// A download that broke off counts as whole.
    TruncatedFiles,
    /// A delete is answered and not done.
    LostDelete,
    /// What the timer sends is lost.
    TimerMessagesLost,
    /// The queue drops every message that is delayed. The timer makes up for it, so nothing is violated.
    DelayedMessagesLost,
    /// Loops are cut after 16 messages of one lineage.
    RecursionCut,
    /// The bucket ignores preconditions: leases hold nobody off.
    NoPreconditions,
    /// A Git host answers with an older commit after a newer one.
    OldCommits,
    /// API servers ignore uid and resourceVersion in deletes and patches.
    NoApiPreconditions,
    /// Inventories are answered and not stored.
    LostInventory,
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

impl Bug {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::UnreadableIsAbsent,
        Self::TruncatedFiles,
        Self::LostDelete,
        Self::TimerMessagesLost,
        Self::DelayedMessagesLost,
        Self::RecursionCut,
        Self::NoPreconditions,
        Self::OldCommits,
        Self::NoApiPreconditions,
        Self::LostInventory,
        Self::EarlyAnswer,
        Self::WrongCluster,
        Self::LeakedSecret,
        Self::ForeignDelete,
        Self::EndlessLoop,
    ];

    /// Those that the ordinary test run looks for, and how many seeds it has for each.
    pub const SOUGHT: [(Self, u64); 11] = [
        (Self::TruncatedFiles, 80),
        (Self::LostDelete, 10),
        (Self::TimerMessagesLost, 5),
        (Self::RecursionCut, 20),
        (Self::OldCommits, 10),
        (Self::NoApiPreconditions, 120),
        (Self::LostInventory, 5),
        (Self::EarlyAnswer, 5),
        (Self::WrongCluster, 20),
        (Self::LeakedSecret, 5),
        (Self::EndlessLoop, 5),
    ];

    /// Which invariants it breaks.
    pub fn breaks(self) -> &'static [&'static str] {
        match self {
            Self::UnreadableIsAbsent | Self::LostInventory => &["N"],
            Self::LostDelete => &["N", "L"],
            Self::TruncatedFiles => &["P", "L"],
            Self::NoApiPreconditions | Self::ForeignDelete => &["P"],
            Self::NoPreconditions | Self::OldCommits | Self::WrongCluster => &["W", "P"],
            Self::TimerMessagesLost | Self::EarlyAnswer => &["L", "I"],
            Self::RecursionCut | Self::EndlessLoop => &["E"],
            Self::LeakedSecret => &["S"],
            Self::DelayedMessagesLost => &[],
        }
    }

    /// By its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|bug| format!("{bug:?}") == name)
    }
}
