//! What a check found, for people and for programs.

use crate::embedded::{Row, State, Told, World};
use crate::error::Error;
use crate::fleet::{Fleet, HubPlan, Place};
use crate::{output, term};
use driftless_core::flux::ObjectRef;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What a note of something that could not be checked begins with.
const UNCHECKED: &str = "not checked: ";

/// Everything.
pub struct Report {
    hubs: Vec<Value>,
    ready: usize,
    applied: usize,
    clusters: usize,
    errors: Findings,
    notes: Findings,
}

/// What was found, and on which hubs: a file that two hubs share is told once.
type Findings = BTreeMap<Finding, BTreeSet<String>>;

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    place: Option<Place>,
    object: Option<String>,
    message: String,
}

impl Report {
    /// Nothing found yet.
    pub fn new(rows: &[Row], world: &World, fleet: &Fleet) -> Self {
        let hub = |plan: &HubPlan| {
            let of_hub = rows.iter().filter(|row| row.hub == plan.name);
            let objects = of_hub.map(|row| json!({"object": row.id.to_string(), "cluster": row.cluster, "state": row.state.as_str()}));
            json!({"name": plan.name, "path": plan.path, "more": plan.more, "objects": objects.collect::<Vec<_>>()})
        };
        Self {
            hubs: fleet.hubs.iter().map(hub).collect(),
            ready: rows.iter().filter(|row| row.state == State::Ready).count(),
            applied: rows.iter().map(|row| row.inventory.len()).sum(),
            clusters: world.hubs.len() + world.remotes().len(),
            errors: Findings::new(),
            notes: Findings::new(),
        }
    }

    /// Errors of an object.
    pub fn fail(&mut self, row: &Row, told: &[Told]) {
        for Told { place, message } in told {
            let finding = Finding {
                place: place.clone(),
                object: Some(row.id.to_string()),
                message: message.clone(),
            };
            self.errors
                .entry(finding)
                .or_default()
                .insert(row.hub.clone());
        }
    }

    /// What a reader should know of an object that is no error.
    pub fn note(&mut self, hub: &str, object: &ObjectRef, message: impl Into<String>) {
        let finding = Finding {
            place: None,
            object: Some(object.to_string()),
            message: message.into(),
        };
        self.notes
            .entry(finding)
            .or_default()
            .insert(hub.to_owned());
    }

    /// An object that could not be checked, and why.
    pub fn unchecked(&mut self, hub: &str, object: &ObjectRef, why: &str) {
        self.note(hub, object, format!("{UNCHECKED}{why}"));
    }

    /// The same of a file.
    pub fn unchecked_file(&mut self, place: Place, why: &str) {
        let finding = Finding {
            place: Some(place),
            object: None,
            message: format!("{UNCHECKED}{why}"),
        };
        self.notes.entry(finding).or_default();
    }

    /// Writes it to stdout.
    ///
    /// # Errors
    /// When there is an error in the fleet, or with `strict` something that was not checked.
    pub fn print(self, as_json: bool, strict: bool, took: Duration) -> Result<(), Error> {
        if as_json {
            let all = |findings: &Findings| findings.iter().map(json).collect::<Vec<_>>();
            output::print_json(&json!({
                "hubs": self.hubs, "clusters": self.clusters, "seconds": took.as_secs_f64(),
                "errors": all(&self.errors), "notes": all(&self.notes),
            }))?;
        } else {
            let errors = self.errors.iter().map(|finding| line("error", finding));
            let notes = self.notes.iter().map(|finding| line("note", finding));
            term::result(&errors.chain(notes).collect::<String>())?;
        }
        let text = self.summary(took);
        let unchecked = self
            .notes
            .keys()
            .any(|finding| finding.message.starts_with(UNCHECKED));
        if !self.errors.is_empty() {
            return Err(Error::new(text));
        }
        if strict && unchecked {
            let next = "leave --strict out, or give what is missing with --source and --age-key";
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
            "{} and {}: {}, {} ready, {} applied, in {:.2} s",
            count(self.errors.len(), "error"),
            count(self.notes.len(), "note"),
            count(self.clusters, "cluster"),
            count(self.ready, "Flux object"),
            count(self.applied, "object"),
            took.as_secs_f64()
        )
    }
}

/// `FILE:LINE: error: HUBS: OBJECT: MESSAGE`, as far as there is each of them.
fn line(word: &str, (finding, hubs): (&Finding, &BTreeSet<String>)) -> String {
    let hubs = hubs
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    let place = finding.place.as_ref().map(ToString::to_string);
    let object = finding.object.clone();
    let message = finding.message.replace('\n', " ");
    let parts = [
        place,
        Some(word.to_owned()),
        Some(hubs),
        object,
        Some(message),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .flatten()
        .filter(|part| !part.is_empty())
        .collect();
    parts.join(": ") + "\n"
}

fn json((finding, hubs): (&Finding, &BTreeSet<String>)) -> Value {
    let place = finding.place.as_ref();
    json!({"file": place.map(|place| place.file.display().to_string()), "line": place.and_then(|place| place.line),
        "hubs": hubs, "object": finding.object, "message": finding.message})
}
