//! A rendered chart -> the record of its release.

use super::{CLIENT_SIDE, Info, RecordedChart, Release, SERVER_SIDE, Status, Time};
use crate::chart::Chart;
use crate::release::{Rendered, manifest_text};
use crate::values::Table;
use std::collections::BTreeMap;

/// What a new release has beside what its chart rendered to.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRelease {
    /// The release's name.
    pub name: String,
    /// The namespace that it is installed in.
    pub namespace: String,
    /// The revision.
    pub version: i64,
    /// When the first revision was made; now, when this is the first.
    pub first_deployed: Option<Time>,
    /// Now.
    pub now: Time,
    /// The user's labels.
    pub labels: BTreeMap<String, String>,
    /// Whether it is applied on the server.
    pub server_side: bool,
}

impl NewRelease {
    /// The record before anything is applied: pending, as Helm 4 writes it.
    pub fn install(self, chart: &Chart, rendered: &Rendered, config: Table) -> Release {
        self.pending(chart, rendered, config)
            .with(Status::PendingInstall, "Initial install underway")
    }

    /// The record before anything is applied: pending, as Helm 4 writes it.
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

    /// The record of a rollback from `current` to this revision, before anything is applied.
    ///
    /// `rollback_revision` is left at 0: Helm 4.2 does not know it and would drop it, and Flux's digest with it.
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
