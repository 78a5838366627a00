//! The lines of a report: a label in a column of fixed width, and its value.

use driftless_flux::{Condition, ConditionStatus, Conditions};
use driftless_manifest::Object;

/// The text of a report.
pub struct Report {
    text: String,
    width: usize,
}

impl Report {
    /// Begins the report of an object. The column of the labels has this width.
    pub fn new(object: &Object, width: usize) -> Self {
        let mut report = Self {
            text: "\n".to_owned(),
            width,
        };
        report.line("Object", &format!("{}/{}", object.kind(), object.name()));
        if !object.namespace().is_empty() {
            report.line("Namespace", object.namespace());
        }
        report.line("Status", "Managed by Flux");
        report
    }

    /// Adds a line.
    pub fn line(&mut self, label: &str, value: &str) {
        let label = format!("{label}:");
        self.text
            .push_str(&format!("{label:<width$}{value}\n", width = self.width));
    }

    /// Adds a line if there is a value.
    pub fn some(&mut self, label: &str, value: Option<&str>) {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            self.line(label, value);
        }
    }

    /// Adds an empty line, as Flux prints for a missing value of an artifact's metadata.
    pub fn blank(&mut self) {
        self.text.push('\n');
    }

    /// Begins the part of a Flux object. The column of its labels has this width.
    pub fn part(&mut self, object: &Object, width: usize) {
        self.width = width;
        self.text.push_str("---\n");
        self.line(object.kind(), object.name());
        self.line("Namespace", object.namespace());
    }

    /// Adds the lines of the condition `Ready`. `names_failures` is true for sources: Flux reports
    /// only their failures as such.
    pub fn ready(&mut self, object: &Object, names_failures: bool) {
        let conditions = Conditions::of(object);
        let Some(ready) = conditions.ready() else {
            return self.line("Status", "Unknown");
        };
        let is_failed = ready.status == ConditionStatus::False;
        let done = match names_failures && is_failed {
            true => "Last reconciliation failed at",
            false => "Last reconciled at",
        };
        self.line("Status", &format!("{done} {}", time(ready)));
        self.line("Message", &ready.message);
    }

    /// Returns all lines.
    pub fn finish(self) -> String {
        self.text
    }
}

/// Returns the time of a transition as Go prints it, in UTC.
fn time(condition: &Condition) -> String {
    let text = &condition.last_transition_time;
    match text.parse::<jiff::Timestamp>() {
        Ok(time) => time.strftime("%Y-%m-%d %H:%M:%S +0000 UTC").to_string(),
        Err(_) => text.clone(),
    }
}
