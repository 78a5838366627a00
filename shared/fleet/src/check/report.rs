//! The result of a check.

use super::assumed::ASSUMED;
use super::diagnostic::{Diagnostic, Diagnostics};
use crate::embedded::{Finding, OwnerFinding, Row, State, World};
use crate::fleet::{Fleet, HubPlan};
use driftless_flux::FluxKind;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The lowest number of Kustomizations in the files for which a low share of checked ones is
/// reported.
const MIN_KUSTOMIZATIONS: usize = 3;

/// The result of a check.
pub struct Report {
    /// The notes: they do not fail the check.
    pub notes: Diagnostics,
    /// The hubs of the repository, each with its directories.
    pub hubs: Vec<CheckedHub>,
    /// The Flux objects.
    pub objects: Vec<CheckedObject>,
    /// The number of steps that ran.
    pub steps: usize,
    /// The number of clusters.
    pub clusters: usize,
    ready: usize,
    unchecked: usize,
    applied: usize,
    /// The errors, which fail the check.
    pub errors: Diagnostics,
    /// The reasons why objects were not checked, each with the number of objects.
    unchecked_reasons: Vec<(&'static str, usize)>,
}

/// A hub of the fleet.
pub struct CheckedHub {
    /// The hub's name.
    pub name: String,
    /// Its directory in the fleet repository.
    pub path: String,
    /// Further root directories on the same hub.
    pub more: Vec<String>,
}

/// An object of the fleet with its final state.
pub struct CheckedObject {
    /// The hub's name.
    pub hub: String,
    /// The object as `KIND/NAMESPACE/NAME`.
    pub object: String,
    /// The cluster that it applies to.
    pub cluster: String,
    /// `Ready`, [`ASSUMED`] or another state.
    pub state: &'static str,
}

impl Report {
    /// Creates a report without diagnostics.
    pub fn new(rows: &[Row], world: &World, fleet: &Fleet, steps: usize) -> Self {
        let hub = |plan: &HubPlan| CheckedHub {
            name: plan.name.clone(),
            path: plan.path.clone(),
            more: plan.more.clone(),
        };
        let checked = |row: &Row| CheckedObject {
            hub: row.hub.clone(),
            object: row.id.to_string(),
            cluster: row.cluster.clone(),
            state: state(row),
        };
        Self {
            hubs: fleet.hubs.iter().map(hub).collect(),
            objects: rows.iter().map(checked).collect(),
            steps,
            ready: rows.iter().filter(|row| state(row) == "Ready").count(),
            unchecked: rows
                .iter()
                .filter(|row| unchecked_reason(row).is_some())
                .count(),
            unchecked_reasons: reasons(rows),
            applied: rows.iter().map(|row| row.inventory.len()).sum(),
            clusters: world.hubs.len() + world.remotes().len(),
            errors: Diagnostics::new(),
            notes: Diagnostics::new(),
        }
    }

    /// Adds errors of an object.
    pub fn fail(&mut self, row: &Row, findings: &[Finding]) {
        // An object that waits forever is an error, and does not count as unchecked.
        if let Some(reason) = unchecked_reason(row) {
            self.unchecked = self.unchecked.saturating_sub(1);
            let known = self
                .unchecked_reasons
                .iter_mut()
                .find(|(known, _)| *known == reason);
            known
                .into_iter()
                .for_each(|(_, count)| *count = count.saturating_sub(1));
            self.unchecked_reasons.retain(|(_, count)| *count > 0);
        }
        for Finding { place, message } in findings {
            let error = Diagnostic {
                place: place.clone(),
                about: Some(row.id.to_string()),
                message: message.clone(),
            };
            let occurrences = self.errors.entry(error).or_default();
            occurrences.hubs.insert(row.hub.clone());
        }
    }

    /// Adds a failure of Capsule's addon.
    pub fn fail_owner(&mut self, failure: OwnerFinding) {
        let error = Diagnostic {
            about: Some(failure.about().to_owned()),
            place: failure.finding.place,
            message: failure.finding.message,
        };
        let occurrences = self.errors.entry(error).or_default();
        occurrences.hubs.insert(failure.hub);
    }

    /// Adds a note if more than three in four Kustomizations of the files were not reached or could
    /// not be checked.
    pub fn note_low_coverage(&self, world: &World, rows: &[Row], diagnostics: &mut Diagnostics) {
        let is_checked = |row: &&Row| {
            row.id.kind == FluxKind::Kustomization
                && (state(row) == State::Ready.as_str() || row.state == State::Failed)
        };
        let checked: BTreeSet<&str> = rows
            .iter()
            .filter(is_checked)
            .map(|row| &*row.id.name)
            .collect();
        let names = world.kustomizations();
        let reached = names
            .iter()
            .filter(|name| checked.contains(name.as_str()))
            .count();
        if names.len() < MIN_KUSTOMIZATIONS || reached * 4 >= names.len() {
            return;
        }
        let message = format!(
            "most of the fleet: only {reached} of {} Kustomizations in the files were reached and built; give each hub's directory with \
             --path, and what other notes name",
            names.len()
        );
        let diagnostic = Diagnostic {
            about: None,
            ..Diagnostic::unchecked("", message)
        };
        diagnostics.entry(diagnostic).or_default();
    }

    /// Returns whether something was not checked.
    pub fn has_unchecked(&self) -> bool {
        self.notes.keys().any(Diagnostic::is_unchecked)
    }

    /// Renders the reasons, such as ` (2 wait for others, 1 suspended)`.
    fn reasons(&self) -> String {
        let reasons = self
            .unchecked_reasons
            .iter()
            .map(|(reason, count)| format!("{count} {reason}"));
        match self.unchecked_reasons.is_empty() {
            true => String::new(),
            false => format!(" ({})", reasons.collect::<Vec<_>>().join(", ")),
        }
    }

    /// Renders the numbers of the report in one line.
    pub fn summary(&self, took: Duration) -> String {
        let count = |number: usize, word: &str| {
            format!("{number} {word}{}", if number == 1 { "" } else { "s" })
        };
        format!(
            "{} and {}: {}, {} ready, {} not checked{}, {} applied, in {:.2} s",
            count(self.errors.len(), "error"),
            count(self.notes.len(), "note"),
            count(self.clusters, "cluster"),
            count(self.ready, "Flux object"),
            self.unchecked,
            self.reasons(),
            count(self.applied, "object"),
            took.as_secs_f64()
        )
    }
}

/// Returns the state of an object, with [`ASSUMED`] for one that is assumed to be ready.
fn state(row: &Row) -> &'static str {
    match row.reason == ASSUMED {
        true => ASSUMED,
        false => row.state.as_str(),
    }
}

/// Returns the reason why an object was not checked.
fn unchecked_reason(row: &Row) -> Option<&'static str> {
    match row.state {
        State::Ready if row.reason == ASSUMED => Some("cannot be checked offline"),
        State::Ready | State::Failed => None,
        State::Waiting => Some("wait for others"),
        State::Suspended => Some("suspended"),
        State::Progressing => Some("still in progress"),
    }
}

fn reasons(rows: &[Row]) -> Vec<(&'static str, usize)> {
    let mut all: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in rows.iter().filter_map(unchecked_reason) {
        *all.entry(reason).or_default() += 1;
    }
    all.into_iter().collect()
}
