//! The settings of a server.

use std::time::Duration;

/// The settings of a server.
pub struct ServerOptions {
    /// The name of the hub.
    pub hub: String,
    /// The number of steps that run at the same time.
    pub workers: usize,
    /// The interval of sweeps.
    pub sweep_interval: Duration,
    /// True if the objects that were applied are watched, so that drift is corrected at once.
    pub drift_watch: bool,
    /// True if `GET /metrics` has metrics of each Flux object, with its name.
    pub object_metrics: bool,
    /// Returns the place of a secret for the sender of a webhook, by the name of the secret, which
    /// is for example `gitlab/webhook`.
    pub secret_place: fn(&str) -> String,
}
