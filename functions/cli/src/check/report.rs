//! What a check found, for people and for programs.

use crate::embedded::{Row, State, Told, World};
use crate::error::Error;
use crate::fleet::Fleet;
use crate::{output, term};
use driftless_core::flux::ObjectRef;
use serde_json::{Value, json};
use std::time::Duration;

/// Everything.
pub struct Report {
    hubs: Vec<Value>,
    objects: usize,
    applied: usize,
    clusters: usize,
    errors: Vec<Finding>,
    /// What could not be checked, and what stood in.
    pub notes: Vec<Note>,
}

struct Finding {
    hub: String,
    object: ObjectRef,
    told: Told,
}

/// What a reader should know that is no error.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    file: Option<String>,
    hub: Option<String>,
    object: Option<String>,
    text: String,
}

impl Note {
    /// Of an object.
    pub fn object(hub: &str, object: &ObjectRef, text: String) -> Self {
        Self {
            file: None,
            hub: Some(hub.to_owned()),
            object: Some(object.to_string()),
            text,
        }
    }

    /// Of a file.
    pub fn file(file: String, text: &str) -> Self {
        Self {
            file: Some(file),
            hub: None,
            object: None,
            text: text.to_owned(),
        }
    }

    fn line(&self) -> String {
        let parts = [&self.file, &self.hub, &self.object];
        let parts: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
        format!(
            "note: {}: {}",
            parts.join(": "),
            self.text.replace('\n', " ")
        )
    }

    fn json(&self) -> Value {
        json!({"file": self.file, "hub": self.hub, "object": self.object, "message": self.text})
    }
}

impl Finding {
    fn line(&self) -> String {
        let place = self
            .told
            .place
            .as_ref()
            .map(|place| format!("{place}: "))
            .unwrap_or_default();
        format!(
            "{place}error: {}: {}: {}",
            self.hub, self.object, self.told.message
        )
    }

    fn json(&self) -> Value {
        let place = self.told.place.as_ref();
        json!({"file": place.map(|place| place.file.display().to_string()), "line": place.and_then(|place| place.line),
            "hub": self.hub, "object": self.object.to_string(), "message": self.told.message})
    }
}

impl Report {
    /// Nothing found yet.
    pub fn new(rows: &[Row], world: &World, fleet: &Fleet) -> Self {
        let hub = |plan: &crate::fleet::HubPlan| {
            let of_hub = rows.iter().filter(|row| row.hub == plan.name);
            let objects = of_hub.map(|row| json!({"object": row.id.to_string(), "cluster": row.cluster, "state": row.state.as_str()}));
            json!({"name": plan.name, "path": plan.path, "more": plan.more, "objects": objects.collect::<Vec<_>>()})
        };
        Self {
            hubs: fleet.hubs.iter().map(hub).collect(),
            objects: rows.iter().filter(|row| row.state == State::Ready).count(),
            applied: rows.iter().map(|row| row.inventory.len()).sum(),
            clusters: world.hubs.len() + world.remotes().len(),
            errors: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Errors of an object.
    pub fn fail(&mut self, row: &Row, told: Vec<Told>) {
        self.errors.extend(told.into_iter().map(|told| Finding {
            hub: row.hub.clone(),
            object: row.id.clone(),
            told,
        }));
    }

    /// Writes it to stdout.
    ///
    /// # Errors
    /// When there is an error in the fleet, or with `strict` something that was not checked.
    pub fn print(mut self, as_json: bool, strict: bool, took: Duration) -> Result<(), Error> {
        self.errors
            .sort_by(|a, b| (&a.told, &a.hub, &a.object).cmp(&(&b.told, &b.hub, &b.object)));
        self.notes.sort();
        self.notes.dedup();
        let (errors, notes) = (self.errors.len(), self.notes.len());
        if as_json {
            let all = |list: Vec<Value>| Value::Array(list);
            output::print_json(&json!({
                "hubs": self.hubs, "clusters": self.clusters, "seconds": took.as_secs_f64(),
                "errors": all(self.errors.iter().map(Finding::json).collect()),
                "notes": all(self.notes.iter().map(Note::json).collect()),
            }))?;
        } else {
            let lines = self
                .errors
                .iter()
                .map(Finding::line)
                .chain(self.notes.iter().map(Note::line));
            term::result(&lines.map(|line| line + "\n").collect::<String>())?;
        }
        let count = |number: usize, word: &str| {
            format!("{number} {word}{}", if number == 1 { "" } else { "s" })
        };
        let text = format!(
            "{} and {}: {}, {} with {} applied, in {:.2} s",
            count(errors, "error"),
            count(notes, "note"),
            count(self.clusters, "cluster"),
            count(self.objects, "ready Flux object"),
            count(self.applied, "object"),
            took.as_secs_f64()
        );
        let unchecked = self
            .notes
            .iter()
            .any(|note| note.text.starts_with("not checked"));
        match (errors, strict && unchecked) {
            (0, false) => {
                term::success(&text);
                Ok(())
            }
            (0, true) => Err(Error::new(text)
                .next("leave --strict out, or give what is missing with --source and --age-key")),
            _ => Err(Error::new(text)),
        }
    }
}
