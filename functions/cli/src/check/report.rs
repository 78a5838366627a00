//! What a check found, for people and for programs.

use super::assume::ASSUMED;
use super::cause::{Cause, Causes, Met};
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
    hubs: Vec<Value>,
    steps: usize,
    ready: usize,
    unchecked: usize,
    applied: usize,
    clusters: usize,
    errors: Causes,
}

impl Report {
    /// Nothing found yet.
    pub fn new(rows: &[Row], world: &World, fleet: &Fleet, steps: usize) -> Self {
        let hub = |plan: &HubPlan| {
            let of_hub = rows.iter().filter(|row| row.hub == plan.name);
            let objects = of_hub.map(|row| json!({"object": row.id.to_string(), "cluster": row.cluster, "state": state(row)}));
            json!({"name": plan.name, "path": plan.path, "more": plan.more, "objects": objects.collect::<Vec<_>>()})
        };
        Self {
            hubs: fleet.hubs.iter().map(hub).collect(),
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
    pub fn print(self, as_json: bool, strict: bool, took: Duration) -> Result<(), Error> {
        if as_json {
            let all = |found: &Causes| found.iter().map(json).collect::<Vec<_>>();
            output::print_json(&json!({
                "hubs": self.hubs, "clusters": self.clusters, "seconds": took.as_secs_f64(), "steps": self.steps,
                "errors": all(&self.errors), "notes": all(&self.notes),
            }))?;
        } else {
            let errors = self.errors.iter().map(|error| line("error", error));
            let notes = self.notes.iter().map(|note| line("note", note));
            term::result(&errors.chain(notes).collect::<String>())?;
        }
        let text = self.summary(took);
        let unchecked = self.notes.keys().any(Cause::is_unchecked);
        if !self.errors.is_empty() {
            return Err(Error::new(text));
        }
        if strict && unchecked {
            let next =
                "leave --strict out, or give what is missing with --source, --with and --age-key";
            return Err(Error::new(text).next(next));
        }
        term::success(&text);
        Ok(())
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
    let hubs = met.hubs.iter().map(String::as_str).collect::<Vec<_>>();
    let message = cause.message.replace('\n', " ");
    let parts = [
        cause.place.as_ref().map(ToString::to_string),
        Some(word.to_owned()),
        Some(hubs.join(", ")),
        cause.about.clone(),
        Some(message + &met.text(cause)),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .flatten()
        .filter(|part| !part.is_empty())
        .collect();
    parts.join(": ") + "\n"
}

fn json((cause, met): (&Cause, &Met)) -> Value {
    let place = cause.place.as_ref();
    json!({"file": place.map(|place| place.file.display().to_string()), "line": place.and_then(|place| place.line),
        "hubs": met.hubs, "object": cause.about, "message": cause.message, "users": met.users, "keys": met.keys})
}
