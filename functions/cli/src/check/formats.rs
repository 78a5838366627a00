//! The output formats of a check for CI systems.

use driftless_fleet::check::{ASSUMED, CheckedObject, Diagnostic, Diagnostics, Occurrences};
use driftless_go::print::is_print;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

/// Renders workflow commands of GitHub Actions (GitHub documentation, "Workflow commands for GitHub
/// Actions": `error` and `notice`).
pub fn github(errors: &Diagnostics, notes: &Diagnostics) -> String {
    let errors = errors.iter().map(|error| command("error", error));
    let notes = notes.iter().map(|note| command("notice", note));
    errors.chain(notes).collect()
}

fn command(name: &str, (diagnostic, occurrences): (&Diagnostic, &Occurrences)) -> String {
    let mut properties = Vec::new();
    if let Some(place) = &diagnostic.place {
        properties.push(format!("file={}", property(&path(&place.file))));
        if let Some(line) = place.line {
            properties.push(format!("line={line}"));
        }
    }
    properties.push("title=driftless check".to_owned());
    let message = escaped(&diagnostic.text(occurrences));
    format!("::{name} {}::{message}\n", properties.join(","))
}

/// Escapes the message of a command for the runner of GitHub Actions.
fn escaped(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

/// Escapes the value of a command's property.
fn property(text: &str) -> String {
    escaped(text).replace(':', "%3A").replace(',', "%2C")
}

/// Renders a path with `/` between its parts, without a leading `./`.
fn path(file: &Path) -> String {
    let text = file.to_string_lossy().replace('\\', "/");
    text.strip_prefix("./").unwrap_or(&text).to_owned()
}

/// The bytes that are encoded in a path of RFC 3986.
const RESERVED_IN_PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'+')
    .remove(b',')
    .remove(b'@');

/// Encodes a path as a relative reference of RFC 3986.
fn encoded(path: &str) -> String {
    utf8_percent_encode(path, RESERVED_IN_PATH).to_string()
}

/// Renders JUnit XML that Jenkins, GitLab and GitHub's reporters read: a suite for each hub, a case
/// for each Flux object. An error without an object is a case itself.
pub fn junit(objects: &[CheckedObject], errors: &Diagnostics, took: Duration) -> String {
    let mut suites: BTreeMap<&str, Vec<Case>> = BTreeMap::new();
    for checked in objects {
        suites.entry(&checked.hub).or_default().push(Case {
            name: checked.object.clone(),
            failures: Vec::new(),
            is_skipped: checked.state == ASSUMED,
        });
    }
    for (diagnostic, occurrences) in errors {
        for hub in &occurrences.hubs {
            add_failure(suites.entry(hub).or_default(), diagnostic, occurrences);
        }
    }
    let cases = || suites.values().flatten();
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(
        out,
        "<testsuites name=\"driftless check\" tests=\"{}\" failures=\"{}\" skipped=\"{}\" time=\"{:.3}\">",
        cases().count(),
        cases().filter(|case| !case.failures.is_empty()).count(),
        cases().filter(|case| case.is_skipped).count(),
        took.as_secs_f64()
    );
    for (hub, cases) in &suites {
        suite(&mut out, hub, cases);
    }
    out.push_str("</testsuites>\n");
    out
}

struct Case {
    name: String,
    failures: Vec<String>,
    is_skipped: bool,
}

fn add_failure(cases: &mut Vec<Case>, diagnostic: &Diagnostic, occurrences: &Occurrences) {
    let place = diagnostic.place.as_ref().map(ToString::to_string);
    let mut text = diagnostic.message.clone() + &occurrences.text(diagnostic);
    if let Some(place) = &place {
        text = format!("{place}: {text}");
    }
    let name = diagnostic.about.clone().or(place).unwrap_or_default();
    match cases.iter_mut().find(|case| case.name == name) {
        Some(case) => case.failures.push(text),
        None => cases.push(Case {
            name,
            failures: vec![text],
            is_skipped: false,
        }),
    }
}

fn suite(out: &mut String, hub: &str, cases: &[Case]) {
    let failed = cases.iter().filter(|case| !case.failures.is_empty());
    let skipped = cases.iter().filter(|case| case.is_skipped);
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">",
        xml(hub),
        cases.len(),
        failed.count(),
        skipped.count()
    );
    for case in cases {
        let (name, hub) = (xml(&case.name), xml(hub));
        let _ = write!(out, "    <testcase name=\"{name}\" classname=\"{hub}\"");
        if case.failures.is_empty() && !case.is_skipped {
            out.push_str("/>\n");
            continue;
        }
        out.push_str(">\n");
        if let Some(first) = case.failures.first() {
            let first = xml(first.lines().next().unwrap_or_default());
            let all = xml(&case.failures.join("\n"));
            let _ = writeln!(out, "      <failure message=\"{first}\">{all}</failure>");
        } else {
            out.push_str("      <skipped message=\"not checked\"/>\n");
        }
        out.push_str("    </testcase>\n");
    }
    out.push_str("  </testsuite>\n");
}

/// Escapes text for XML 1.0; characters that XML cannot contain are replaced.
fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            c if is_print(c) || c == '\t' => out.push(c),
            _ => out.push('\u{fffd}'),
        }
    }
    out
}

/// Renders SARIF 2.1.0 (OASIS): one run with a result for each error and note.
pub fn sarif(errors: &Diagnostics, notes: &Diagnostics) -> Value {
    let errors = errors.iter().map(|error| ("error", error));
    let notes = notes.iter().map(|note| ("note", note));
    let mut rules = BTreeSet::new();
    let results: Vec<Value> = errors
        .chain(notes)
        .map(|(level, (diagnostic, occurrences))| {
            let rule = rule(level, diagnostic);
            rules.insert(rule);
            result(level, rule, diagnostic, occurrences)
        })
        .collect();
    let rules = rules.into_iter().map(|id| {
        let text = match id {
            "reconciliation-failed" => "A Flux object does not become ready",
            "not-checked" => "Something could not be checked offline",
            "not-served" => "driftless refuses to serve something that Flux serves",
            _ => "A placeholder replaces something that Git does not have",
        };
        json!({"id": id, "shortDescription": {"text": text}})
    });
    let driver = json!({
        "name": "driftless", "version": env!("CARGO_PKG_VERSION"), "rules": rules.collect::<Vec<_>>(),
    });
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    })
}

fn rule(level: &str, diagnostic: &Diagnostic) -> &'static str {
    match level {
        _ if diagnostic.is_unserved() => "not-served",
        "error" => "reconciliation-failed",
        _ if diagnostic.is_unchecked() => "not-checked",
        _ => "stand-in",
    }
}

fn result(level: &str, rule: &str, diagnostic: &Diagnostic, occurrences: &Occurrences) -> Value {
    let mut result =
        json!({"ruleId": rule, "level": level, "message": {"text": diagnostic.text(occurrences)}});
    if let Some(place) = &diagnostic.place {
        let mut location = json!({"artifactLocation": {"uri": encoded(&path(&place.file))}});
        if let Some(line) = place.line {
            location["region"] = json!({"startLine": line});
        }
        result["locations"] = json!([{"physicalLocation": location}]);
    }
    result
}
