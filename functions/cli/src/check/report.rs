//! The result of a check, for people and for programs.

use super::Format;
use super::assumed::ASSUMED;
use super::diagnostic::{Diagnostic, Diagnostics, Occurrences, list};
use super::formats;
use crate::embedded::{Finding, OwnerFinding, Row, State, World};
use crate::error::Error;
use crate::fleet::{Fleet, HubPlan};
use crate::{output, term};
use driftless_core::flux::FluxKind;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The lowest number of Kustomizations in the files for which a low share of checked ones is
/// reported.
const MIN_KUSTOMIZATIONS: usize = 3;

/// Options of the output.
pub struct PrintOptions {
    /// True if an unchecked object is an error.
    pub strict: bool,
    /// True if each note has its own line.
    pub verbose: bool,
}

/// The result of a check.
pub struct Report {
    /// The notes: they do not fail the check.
    pub notes: Diagnostics,
    /// The name, path and further directories of each hub, for JSON.
    hubs: Vec<(String, String, Vec<String>)>,
    objects: Vec<CheckedObject>,
    steps: usize,
    ready: usize,
    unchecked: usize,
    applied: usize,
    clusters: usize,
    /// The errors, which fail the check.
    pub errors: Diagnostics,
    /// The reasons why objects were not checked, each with the number of objects.
    unchecked_reasons: Vec<(&'static str, usize)>,
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
        let hub = |plan: &HubPlan| (plan.name.clone(), plan.path.clone(), plan.more.clone());
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

    /// Prints the report to stdout.
    ///
    /// # Errors
    /// The fleet has an error, or `strict` is set and an object was not checked.
    pub fn print(
        self,
        format: Format,
        options: &PrintOptions,
        took: Duration,
    ) -> Result<(), Error> {
        let (objects, errors, notes) = (&self.objects, &self.errors, &self.notes);
        match format {
            Format::Text => {
                let errors = errors.iter().map(|error| line("error", error));
                let notes = match options.verbose {
                    true => notes.iter().map(|note| line("note", note)).collect(),
                    false => grouped(notes),
                };
                term::result(&(errors.collect::<String>() + &notes))?;
            }
            Format::Json => output::print_json(&self.json(took))?,
            Format::Github => term::result(&formats::github(errors, notes))?,
            Format::Junit => term::result(&formats::junit(objects, errors, took))?,
            Format::Sarif => output::print_json(&formats::sarif(errors, notes))?,
        }
        let text = self.summary(took);
        let unchecked = self.notes.keys().any(Diagnostic::is_unchecked);
        if !self.errors.is_empty() {
            return Err(Error::new(text));
        }
        if options.strict && unchecked {
            let next =
                "omit --strict, or give what is missing with --source, --with and --sops-key";
            return Err(Error::new(text).next(next));
        }
        term::success(&text);
        Ok(())
    }

    fn json(&self, took: Duration) -> Value {
        let hub = |(name, path, more): &(String, String, Vec<String>)| {
            let of_hub = self.objects.iter().filter(|checked| checked.hub == *name);
            let objects = of_hub.map(|checked| {
                json!({"object": checked.object, "cluster": checked.cluster, "state": checked.state})
            });
            json!({"name": name, "path": path, "more": more, "objects": objects.collect::<Vec<_>>()})
        };
        let all = |found: &Diagnostics| found.iter().map(json).collect::<Vec<_>>();
        json!({
            "hubs": self.hubs.iter().map(hub).collect::<Vec<_>>(), "clusters": self.clusters,
            "seconds": took.as_secs_f64(), "steps": self.steps,
            "errors": all(&self.errors), "notes": all(&self.notes),
        })
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

    fn summary(&self, took: Duration) -> String {
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

/// Renders the notes; notes with the same message share a line.
fn grouped(notes: &Diagnostics) -> String {
    let mut groups: BTreeMap<&str, Vec<(&Diagnostic, &Occurrences)>> = BTreeMap::new();
    for (diagnostic, occurrences) in notes {
        groups
            .entry(diagnostic.group())
            .or_default()
            .push((diagnostic, occurrences));
    }
    let mut out = String::new();
    for group in groups.into_values() {
        match group[..] {
            [note] => out.push_str(&line("note", note)),
            _ => out.push_str(&line_of_many(&group)),
        }
    }
    out
}

/// Renders `note: HUBS: MESSAGE: 12 times: A, B, C and 9 more (--verbose lists them)`.
fn line_of_many(group: &[(&Diagnostic, &Occurrences)]) -> String {
    let about = |diagnostic: &Diagnostic| {
        let place = diagnostic.place.as_ref().map(ToString::to_string);
        diagnostic.about.clone().or(place).unwrap_or_default()
    };
    let hubs: BTreeSet<String> = group
        .iter()
        .flat_map(|(_, occurrences)| occurrences.hubs.clone())
        .collect();
    let all: BTreeSet<String> = group
        .iter()
        .map(|(diagnostic, _)| about(diagnostic))
        .collect();
    let message = group
        .first()
        .map_or("", |(diagnostic, _)| diagnostic.group());
    let hubs = match hubs.is_empty() {
        true => String::new(),
        false => hubs.into_iter().collect::<Vec<_>>().join(", ") + ": ",
    };
    let count = group.len();
    format!(
        "note: {hubs}{message}: {count} times: {} (--verbose lists them)\n",
        list(&all)
    )
}

/// Renders `FILE:LINE: error: HUBS: OBJECT: MESSAGE`, without the parts that are empty.
fn line(word: &str, (diagnostic, occurrences): (&Diagnostic, &Occurrences)) -> String {
    let place = diagnostic.place.as_ref().map(ToString::to_string);
    let parts = place
        .into_iter()
        .chain([word.to_owned(), diagnostic.text(occurrences)]);
    parts.collect::<Vec<_>>().join(": ") + "\n"
}

fn json((diagnostic, occurrences): (&Diagnostic, &Occurrences)) -> Value {
    let place = diagnostic.place.as_ref();
    json!({"file": place.map(|place| place.file.display().to_string()), "line": place.and_then(|place| place.line),
        "hubs": occurrences.hubs, "object": diagnostic.about, "message": diagnostic.message, "users": occurrences.users, "keys": occurrences.keys})
}
