//! The messages of helm-controller about installs and upgrades.

use driftless_flux::Snapshot;

/// Returns the message `Helm install succeeded …`.
pub fn install_succeeded(current: &Snapshot) -> String {
    succeeded("install", current)
}

/// Returns the message `Helm upgrade succeeded …`.
pub fn upgrade_succeeded(current: &Snapshot) -> String {
    succeeded("upgrade", current)
}

/// Returns the message about an action that succeeded.
pub fn succeeded(action: &str, current: &Snapshot) -> String {
    let (name, chart) = (current.full_name(), current.chart());
    format!("Helm {action} succeeded for release {name} with chart {chart}")
}
