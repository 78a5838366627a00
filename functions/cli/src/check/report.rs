//! What a check found, for people and for programs.

use super::Format;
use super::assume::ASSUMED;
use super::cause::{Cause, Causes, Met, list};
use super::formats;
use crate::embedded::{Finding, Row, State, World};
use crate::error::Error;
use crate::fleet::{Fleet, HubPlan};
use crate::{output, term};
use driftless_core::flux::FluxKind;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Kustomizations in files that are too few to say that hardly anything was reached.
const FEW: usize = 3;

/// How to print, and what is an error.
pub struct How {
    /// What was not checked is an error.
    pub strict: bool,
    /// A line for each note.
    pub verbose: bool,
}

/// Everything.
pub struct Report {
    /// What a reader should know and that is no error.
    pub notes: Causes,
    /// The hubs, without their objects: for JSON.
    hubs: Vec<(String, String, Vec<String>)>,
    objects: Vec<Checked>,
    steps: usize,
    ready: usize,
    unchecked: usize,
    applied: usize,
    clusters: usize,
    /// What is wrong.
    pub errors: Causes,
    /// Why objects were not checked, each with how many.
    why: Vec<(&'static str, usize)>,
}

/// An object that was checked, and its state in the end.
pub struct Checked {
    /// The hub's name.
    pub hub: String,
    /// `KIND/NAMESPACE/NAME`.
    pub object: String,
    /// The cluster that it applies to.
    pub cluster: String,
    /// `Ready`, [`ASSUMED`] or another state.
    pub state: &'static str,
}

impl Report {
    /// Nothing found yet.
    pub fn new(rows: &[Row], world: &World, fleet: &Fleet, steps: usize) -> Self {
        let hub = |plan: &HubPlan| (plan.name.clone(), plan.path.clone(), plan.more.clone());
        let checked = |row: &Row| Checked {
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
            unchecked: rows.iter().filter(|row| why(row).is_some()).count(),
            why: reasons(rows),
            applied: rows.iter().map(|row| row.inventory.len()).sum(),
            clusters: world.hubs.len() + world.remotes().len(),
            errors: Causes::new(),
            notes: Causes::new(),
        }
    }

    /// Errors of an object.
    pub fn fail(&mut self, row: &Row, told: &[Finding]) {
        // What waits for ever is an error, and not unchecked.
        if let Some(reason) = why(row) {
            self.unchecked = self.unchecked.saturating_sub(1);
            let known = self.why.iter_mut().find(|(known, _)| *known == reason);
            known
                .into_iter()
                .for_each(|(_, count)| *count = count.saturating_sub(1));
            self.why.retain(|(_, count)| *count > 0);
        }
        for Finding { place, message } in told {
            let error = Cause {
                place: place.clone(),
                about: Some(row.id.to_string()),
                message: message.clone(),
            };
            let met = self.errors.entry(error).or_default();
            met.hubs.insert(row.hub.clone());
        }
    }

    /// Notes that hardly anything of the files was checked, if that is so: more than three in four Kustomizations that stand in them were
    /// not reached, or could not be looked at.
    pub fn reach(&self, world: &World, rows: &[Row], causes: &mut Causes) {
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
        if names.len() < FEW || reached * 4 >= names.len() {
            return;
        }
        let why = format!(
            "hardly anything: {reached} of {} Kustomizations in the files were reached and built; name each hub's directory with \
             --path, and give what other notes name",
            names.len()
        );
        let cause = Cause {
            about: None,
            ..Cause::unchecked("", why)
        };
        causes.entry(cause).or_default();
    }

    /// Writes it to stdout.
    ///
    /// # Errors
    /// When there is an error in the fleet, or with `strict` something that was not checked.
    pub fn print(self, format: Format, how: &How, took: Duration) -> Result<(), Error> {
        let (objects, errors, notes) = (&self.objects, &self.errors, &self.notes);
        match format {
            Format::Text => {
                let errors = errors.iter().map(|error| line("error", error));
                let notes = match how.verbose {
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
        let unchecked = self.notes.keys().any(Cause::is_unchecked);
        if !self.errors.is_empty() {
            return Err(Error::new(text));
        }
        if how.strict && unchecked {
            let next =
                "leave --strict out, or give what is missing with --source, --with and --sops-key";
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
        let all = |found: &Causes| found.iter().map(json).collect::<Vec<_>>();
        json!({
            "hubs": self.hubs.iter().map(hub).collect::<Vec<_>>(), "clusters": self.clusters,
            "seconds": took.as_secs_f64(), "steps": self.steps,
            "errors": all(&self.errors), "notes": all(&self.notes),
        })
    }

    /// ` (2 wait for others, 1 suspended)`.
    fn reasons(&self) -> String {
        let why = self.why.iter().map(|(why, count)| format!("{count} {why}"));
        match self.why.is_empty() {
            true => String::new(),
            false => format!(" ({})", why.collect::<Vec<_>>().join(", ")),
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

/// How an object stands, with what only counts as ready apart.
fn state(row: &Row) -> &'static str {
    match row.reason == ASSUMED {
        true => ASSUMED,
        false => row.state.as_str(),
    }
}

/// Why an object was not checked.
fn why(row: &Row) -> Option<&'static str> {
    match row.state {
        State::Ready if row.reason == ASSUMED => Some("cannot be looked at here"),
        State::Ready | State::Failed => None,
        State::Waiting => Some("wait for others"),
        State::Suspended => Some("suspended"),
        State::Progressing => Some("did not come to rest"),
    }
}

fn reasons(rows: &[Row]) -> Vec<(&'static str, usize)> {
    let mut all: BTreeMap<&str, usize> = BTreeMap::new();
    for why in rows.iter().filter_map(why) {
        *all.entry(why).or_default() += 1;
    }
    all.into_iter().collect()
}

/// The notes, those that say the same of several things in one line.
fn grouped(notes: &Causes) -> String {
    let mut groups: BTreeMap<&str, Vec<(&Cause, &Met)>> = BTreeMap::new();
    for (cause, met) in notes {
        groups.entry(cause.group()).or_default().push((cause, met));
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

/// `note: HUBS: MESSAGE: 12 times: A, B, C and 9 more (--verbose lists them)`.
fn line_of_many(group: &[(&Cause, &Met)]) -> String {
    let about = |cause: &Cause| {
        let place = cause.place.as_ref().map(ToString::to_string);
        cause.about.clone().or(place).unwrap_or_default()
    };
    let hubs: BTreeSet<String> = group.iter().flat_map(|(_, met)| met.hubs.clone()).collect();
    let all: BTreeSet<String> = group.iter().map(|(cause, _)| about(cause)).collect();
    let message = group.first().map_or("", |(cause, _)| cause.group());
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

/// `FILE:LINE: error: HUBS: OBJECT: MESSAGE`, as far as there is each of them.
fn line(word: &str, (cause, met): (&Cause, &Met)) -> String {
    let place = cause.place.as_ref().map(ToString::to_string);
    let parts = place.into_iter().chain([word.to_owned(), cause.text(met)]);
    parts.collect::<Vec<_>>().join(": ") + "\n"
}

fn json((cause, met): (&Cause, &Met)) -> Value {
    let place = cause.place.as_ref();
    json!({"file": place.map(|place| place.file.display().to_string()), "line": place.and_then(|place| place.line),
        "hubs": met.hubs, "object": cause.about, "message": cause.message, "users": met.users, "keys": met.keys})
}
