//! Words of records that have a fixed meaning; other words are preserved.

use serde::{Deserialize, Serialize};
use std::fmt;

/// `info.status` of a release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Status {
    /// `unknown`
    #[default]
    Unknown,
    /// `deployed`
    Deployed,
    /// `uninstalled`
    Uninstalled,
    /// `superseded`
    Superseded,
    /// `failed`
    Failed,
    /// `uninstalling`
    Uninstalling,
    /// `pending-install`
    PendingInstall,
    /// `pending-upgrade`
    PendingUpgrade,
    /// `pending-rollback`
    PendingRollback,
    /// A word of another version of Helm, or an empty one.
    Other(String),
}

/// The result of a hook's last run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum HookPhase {
    /// The empty word: the hook never ran.
    #[default]
    Never,
    /// `Unknown`
    Unknown,
    /// `Running`
    Running,
    /// `Succeeded`
    Succeeded,
    /// `Failed`
    Failed,
    /// A word of another version of Helm.
    Other(String),
}

impl Status {
    const ALL: [Status; 9] = [
        Self::Unknown,
        Self::Deployed,
        Self::Uninstalled,
        Self::Superseded,
        Self::Failed,
        Self::Uninstalling,
        Self::PendingInstall,
        Self::PendingUpgrade,
        Self::PendingRollback,
    ];

    /// Returns the word of the record.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Unknown => "unknown",
            Self::Deployed => "deployed",
            Self::Uninstalled => "uninstalled",
            Self::Superseded => "superseded",
            Self::Failed => "failed",
            Self::Uninstalling => "uninstalling",
            Self::PendingInstall => "pending-install",
            Self::PendingUpgrade => "pending-upgrade",
            Self::PendingRollback => "pending-rollback",
            Self::Other(word) => word,
        }
    }

    /// Checks whether an action is running, or was when its process ended.
    pub fn is_pending(&self) -> bool {
        matches!(
            self,
            Self::PendingInstall | Self::PendingUpgrade | Self::PendingRollback
        )
    }
}

impl HookPhase {
    const ALL: [HookPhase; 5] = [
        Self::Never,
        Self::Unknown,
        Self::Running,
        Self::Succeeded,
        Self::Failed,
    ];

    /// Returns the word of the record.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Never => "",
            Self::Unknown => "Unknown",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Other(word) => word,
        }
    }
}

impl From<String> for Status {
    fn from(word: String) -> Self {
        let known = Self::ALL.into_iter().find(|status| status.as_str() == word);
        known.unwrap_or(Self::Other(word))
    }
}

impl From<String> for HookPhase {
    fn from(word: String) -> Self {
        let known = Self::ALL.into_iter().find(|phase| phase.as_str() == word);
        known.unwrap_or(Self::Other(word))
    }
}

impl From<Status> for String {
    fn from(status: Status) -> Self {
        status.as_str().to_owned()
    }
}

impl From<HookPhase> for String {
    fn from(phase: HookPhase) -> Self {
        phase.as_str().to_owned()
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for HookPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
