//! Checks that ARCHITECTURE.md's table of additions names traits that have implementations, and
//! places that exist, and that figures.md counts these places.

use crate::text::read;
use driftless_harness::{files, tools};
use regex::Regex;
use std::collections::BTreeMap;
use std::fs;

const ARCHITECTURE: &str = "shared/core/ARCHITECTURE.md";
const FIGURES: &str = "shared/core/docs/figures.md";

/// Returns the cells of the rows of the first table below a heading.
fn table(document: &str, heading: &str) -> Vec<Vec<String>> {
    let text = read(document);
    let mut lines = text.lines().skip_while(|line| *line != heading);
    assert!(lines.next().is_some(), "{document}: no '{heading}'");
    let rows = lines
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        .skip(2);
    let cells = |row: &str| {
        let cells = row.trim_matches('|').split(" | ");
        cells.map(|cell| cell.trim().to_owned()).collect()
    };
    rows.map(cells).collect()
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a regular expression")
}

/// Returns the names of a cell in the form `NAME` in `PATH`, each with its path.
fn names(cell: &str) -> Vec<(String, String)> {
    let name = pattern(r"`(\w+)` in `([\w/.]+)`");
    let found = name.captures_iter(cell);
    found
        .map(|found| (found[1].to_owned(), found[2].to_owned()))
        .collect()
}

/// Returns the content of a file, or of all Rust files of a directory.
fn code(path: &str) -> String {
    let place = tools::workspace().join(path);
    assert!(place.exists(), "{ARCHITECTURE}: {path} does not exist");
    if !place.is_dir() {
        return read(path);
    }
    let all = files::below(&place).into_iter();
    let rust = all.filter(|(name, _)| name.ends_with(".rs"));
    rust.map(|(_, file)| fs::read_to_string(file).expect("a Rust file"))
        .collect()
}

#[test]
fn every_registration_exists() {
    let rows = table(ARCHITECTURE, "## How to add");
    assert!(rows.len() >= 10, "{rows:?}");
    for row in &rows {
        let [addition, written, registered] = row.as_slice() else {
            panic!("{ARCHITECTURE}: {row:?}");
        };
        for (name, path) in names(written) {
            let implementation = pattern(&format!(r"\bimpl(<[^{{]*>)? {name}\b[^{{]* for "));
            assert!(
                implementation.is_match(&code(&path)),
                "{addition}: nothing in {path} implements {name}"
            );
        }
        let places = names(registered);
        assert!(!places.is_empty(), "{addition}: no place registers it");
        for (name, path) in places {
            let definition = format!(r"\b(const|enum|fn|static|struct|trait|type) {name}\b");
            assert!(
                pattern(&definition).is_match(&code(&path)),
                "{addition}: {path} does not define {name}"
            );
        }
    }
}

#[test]
fn the_figures_count_the_registrations() {
    let rows = table(ARCHITECTURE, "## How to add").into_iter();
    let places: BTreeMap<String, usize> = rows
        .map(|row| (row[0].clone(), names(&row[2]).len()))
        .collect();
    let exercises = table(FIGURES, "## What an addition touches");
    assert_eq!(exercises.len(), 3, "{exercises:?}");
    for row in &exercises {
        let expected = places.get(&row[0]).map(usize::to_string);
        assert_eq!(row.last(), expected.as_ref(), "{FIGURES}: {row:?}");
    }
}
