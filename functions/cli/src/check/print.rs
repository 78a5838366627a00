//! The result of a check, for people and for programs.

use super::{Format, formats};
use crate::error::Error;
use crate::{output, term};
use driftless_fleet::check::{CheckedHub, Diagnostic, Diagnostics, Occurrences, Report, list};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Options of the output.
pub struct PrintOptions {
    /// True if an unchecked object is an error.
    pub strict: bool,
    /// True if each note has its own line.
    pub verbose: bool,
}

/// Prints a report to stdout.
///
/// # Errors
/// The fleet has an error, or `strict` is set and an object was not checked.
pub fn print(
    report: &Report,
    format: Format,
    options: &PrintOptions,
    took: Duration,
) -> Result<(), Error> {
    let (objects, errors, notes) = (&report.objects, &report.errors, &report.notes);
    match format {
        Format::Text => {
            let errors = errors.iter().map(|error| line("error", error));
            let notes = match options.verbose {
                true => notes.iter().map(|note| line("note", note)).collect(),
                false => grouped(notes),
            };
            term::result(&(errors.collect::<String>() + &notes))?;
        }
        Format::Json => output::print_json(&to_json(report, took))?,
        Format::Github => term::result(&formats::github(errors, notes))?,
        Format::Junit => term::result(&formats::junit(objects, errors, took))?,
        Format::Sarif => output::print_json(&formats::sarif(errors, notes))?,
    }
    let text = report.summary(took);
    if !report.errors.is_empty() {
        return Err(Error::new(text));
    }
    if options.strict && report.has_unchecked() {
        let next = "omit --strict, or give what is missing with --source, --with and --sops-key";
        return Err(Error::new(text).next(next));
    }
    term::success(&text);
    Ok(())
}

fn to_json(report: &Report, took: Duration) -> Value {
    let hub = |CheckedHub { name, path, more }: &CheckedHub| {
        let of_hub = report.objects.iter().filter(|checked| checked.hub == *name);
        let objects = of_hub.map(|checked| {
            json!({"object": checked.object, "cluster": checked.cluster, "state": checked.state})
        });
        json!({"name": name, "path": path, "more": more, "objects": objects.collect::<Vec<_>>()})
    };
    let all = |found: &Diagnostics| found.iter().map(json).collect::<Vec<_>>();
    json!({
        "hubs": report.hubs.iter().map(hub).collect::<Vec<_>>(), "clusters": report.clusters,
        "seconds": took.as_secs_f64(), "steps": report.steps,
        "errors": all(&report.errors), "notes": all(&report.notes),
    })
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

/// Renders `FILE:LINE: error: HUBS: OBJECT: MESSAGE`, without the parts that are empty, and the
/// excerpt of the file.
fn line(word: &str, (diagnostic, occurrences): (&Diagnostic, &Occurrences)) -> String {
    let place = diagnostic.place.as_ref().map(ToString::to_string);
    let parts = place
        .into_iter()
        .chain([word.to_owned(), diagnostic.text(occurrences)]);
    let excerpt = diagnostic
        .place
        .as_ref()
        .and_then(|place| place.excerpt.as_deref());
    let excerpt = excerpt.map(|text| term::excerpt(text, term::colours_on_stdout()));
    parts.collect::<Vec<_>>().join(": ") + "\n" + &excerpt.unwrap_or_default()
}

fn json((diagnostic, occurrences): (&Diagnostic, &Occurrences)) -> Value {
    let place = diagnostic.place.as_ref();
    json!({"file": place.map(|place| place.file.display().to_string()), "line": place.and_then(|place| place.line),
        "hubs": occurrences.hubs, "object": diagnostic.about, "message": diagnostic.message, "users": occurrences.users, "keys": occurrences.keys})
}
