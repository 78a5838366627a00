//! The flags of the commands that change objects of a hub.

use crate::hub::Scope;
use crate::output::{ChangedObjects, Output};
use driftless_flux::parse_duration;
use std::time::Duration;

/// The flags of every such command.
#[derive(clap::Args)]
pub struct ChangeOptions {
    #[command(flatten)]
    pub output: Output<ChangedObjects>,
    #[command(flatten)]
    pub scope: Scope,
}

/// The flags of a command that also waits for the objects.
#[derive(clap::Args)]
pub struct WaitOptions {
    /// The time to wait
    #[arg(long, global = true, value_name = "DURATION", default_value = "5m", value_parser = parse_duration)]
    pub timeout: Duration,
    #[command(flatten)]
    pub change: ChangeOptions,
}
