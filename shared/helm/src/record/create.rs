//! Creates the record of a release from a rendered chart.

use super::{CLIENT_SIDE, Info, RecordedChart, Release, SERVER_SIDE, Status, Time};
use crate::chart::Chart;
use crate::release::{Rendered, manifest_text};
use crate::values::Table;
use std::collections::BTreeMap;

/// The properties of a new release in addition to its rendered chart.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRelease {
    /// The name of the release.
    pub name: String,
    /// The namespace in which it is installed.
    pub namespace: String,
    /// The revision of the new release.
    pub version: i64,
    /// The creation time of the first revision; `None` if this is the first.
    pub first_deployed: Option<Time>,
    /// The present time.
    pub now: Time,
    /// The user's labels.
    pub labels: BTreeMap<String, String>,
    /// True if it is applied with server-side apply.
    pub server_side: bool,
}

impl NewRelease {
    /// Creates the record before anything is applied: pending, like in Helm 4.
    pub fn install(self, chart: &Chart, rendered: &Rendered, config: Table) -> Release {
        self.pending(chart, rendered, config)
            .with(Status::PendingInstall, "Initial install underway")
    }

    /// Creates the record before anything is applied: pending, like in Helm 4.
    pub fn upgrade(self, chart: &Chart, rendered: &Rendered, config: Table) -> Release {
        self.pending(chart, rendered, config)
            .with(Status::PendingUpgrade, "Preparing upgrade")
    }

    fn pending(self, chart: &Chart, rendered: &Rendered, config: Table) -> Release {
        Release {
            name: self.name,
            info: Info {
                first_deployed: Some(self.first_deployed.unwrap_or(self.now)),
                last_deployed: Some(self.now),
                notes: rendered.notes.clone(),
                ..Info::default()
            },
            chart: RecordedChart::of(chart, rendered),
            config,
            manifest: manifest_text(rendered, false),
            hooks: rendered.hooks.iter().map(Into::into).collect(),
            version: self.version,
            namespace: self.namespace,
            labels: self.labels,
            apply_method: method(self.server_side),
            rest: Table::new(),
        }
    }
}

fn method(server_side: bool) -> String {
    let word = if server_side {
        SERVER_SIDE
    } else {
        CLIENT_SIDE
    };
    word.to_owned()
}

impl Release {
    fn with(mut self, status: Status, description: &str) -> Self {
        self.set_status(status, description);
        self
    }

    /// Creates the record of a rollback from `current` to this revision, before anything is
    /// applied.
    ///
    /// `rollback_revision` stays 0: Helm 4.2 does not define it and would drop it, and Flux's
    /// digest with it.
    pub fn rollback_from(&self, current: &Release, now: Time, server_side: bool) -> Release {
        Release {
            name: current.name.clone(),
            info: Info {
                first_deployed: current.info.first_deployed,
                last_deployed: Some(now),
                notes: self.info.notes.clone(),
                ..Info::default()
            },
            chart: self.chart.clone(),
            config: self.config.clone(),
            manifest: self.manifest.clone(),
            hooks: self.hooks.clone(),
            version: current.version + 1,
            namespace: current.namespace.clone(),
            labels: self.labels.clone(),
            apply_method: method(server_side),
            rest: self.rest.clone(),
        }
        .with(
            Status::PendingRollback,
            &format!("Rollback to {}", self.version),
        )
    }
}
