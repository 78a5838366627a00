//! What a check found, for people and for programs.

use super::Format;
use super::assume::ASSUMED;
use super::cause::{Cause, Causes, Met};
use super::formats;
use crate::embedded::{Finding, Row, World};
use crate::error::Error;
use crate::fleet::{Fleet, HubPlan};
use crate::{output, term};
use serde_json::{Value, json};
use std::time::Duration;

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
    errors: Causes,
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
            unchecked: rows.iter().filter(|row| state(row) == ASSUMED).count(),
            applied: rows.iter().map(|row| row.inventory.len()).sum(),
            clusters: world.hubs.len() + world.remotes().len(),
            errors: Causes::new(),
            notes: Causes::new(),
        }
    }

    /// Errors of an object.
    pub fn fail(&mut self, row: &Row, told: &[Finding]) {
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

    /// Writes it to stdout.
    ///
    /// # Errors
    /// When there is an error in the fleet, or with `strict` something that was not checked.
    pub fn print(self, format: Format, strict: bool, took: Duration) -> Result<(), Error> {
        let (objects, errors, notes) = (&self.objects, &self.errors, &self.notes);
        match format {
            Format::Text => {
                let errors = errors.iter().map(|error| line("error", error));
                let notes = notes.iter().map(|note| line("note", note));
                term::result(&errors.chain(notes).collect::<String>())?;
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
        if strict && unchecked {
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

    fn summary(&self, took: Duration) -> String {
        let count = |number: usize, word: &str| {
            format!("{number} {word}{}", if number == 1 { "" } else { "s" })
        };
        format!(
            "{} and {}: {}, {} ready, {} not checked, {} applied, in {:.2} s",
            count(self.errors.len(), "error"),
            count(self.notes.len(), "note"),
            count(self.clusters, "cluster"),
            count(self.ready, "Flux object"),
            self.unchecked,
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
