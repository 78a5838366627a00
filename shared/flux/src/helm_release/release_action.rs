//! The actions on a release.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// An action on a release, as written in the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReleaseAction {
    /// `install`
    Install,
    /// `upgrade`
    Upgrade,
    /// `rollback`
    Rollback,
    /// `uninstall`
    Uninstall,
    /// `uninstall-remediation`
    UninstallRemediation,
}

impl ReleaseAction {
    /// Returns the action as in the status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Install => "install",
            Self::Upgrade => "upgrade",
            Self::Rollback => "rollback",
            Self::Uninstall => "uninstall",
            Self::UninstallRemediation => "uninstall-remediation",
        }
    }
}

impl fmt::Display for ReleaseAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
