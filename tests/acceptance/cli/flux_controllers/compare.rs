//! Compares the snapshots of two clusters.

use super::intended_differences::{EVERYWHERE, IntendedDifference};
use super::site::Side;
use super::snapshot::{self, Snapshot};
use regex::Regex;
use serde_json::Value;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(300);

/// Two clusters, and the differences between them that are intended.
pub struct Comparison<'a> {
    flux: &'a Side,
    driftless: &'a Side,
    /// The patterns of the intended differences; true if the difference was found.
    meant: Vec<(Regex, bool)>,
}

impl<'a> Comparison<'a> {
    pub fn new(flux: &'a Side, driftless: &'a Side, meant: &[IntendedDifference]) -> Self {
        let pattern =
            |(pattern, _): &IntendedDifference| (Regex::new(pattern).expect("a pattern"), false);
        Self {
            flux,
            driftless,
            meant: EVERYWHERE.iter().chain(meant).map(pattern).collect(),
        }
    }

    /// Waits until both sides have settled and are the same in two snapshots in a row; panics with
    /// the differences if they do not. `is_settled` returns whether both sides have settled, and
    /// may remove differences that no longer matter.
    pub fn eventually_the_same(
        &mut self,
        mut is_settled: impl FnMut([&Snapshot; 2], &mut Vec<String>) -> bool,
    ) {
        let start = Instant::now();
        let mut in_a_row = 0;
        while in_a_row < 2 {
            let sides = [self.flux, self.driftless].map(|side| snapshot::take(&side.cluster));
            let [flux, driftless] = [&sides[0], &sides[1]];
            let mut all = differences(flux, driftless);
            let found = all.len();
            self.remove_meant(&mut all);
            let settled = is_settled([flux, driftless], &mut all);
            in_a_row = if settled && all.is_empty() {
                in_a_row + 1
            } else {
                0
            };
            if in_a_row == 2 {
                eprintln!(
                    "  {found} differences, all of them intended: {:.1} s",
                    start.elapsed().as_secs_f64()
                );
            }
            assert!(
                start.elapsed() < LIMIT,
                "settled: {settled}, {} differences:\n{}",
                all.len(),
                all.join("\n")
            );
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// Removes the intended differences.
    fn remove_meant(&mut self, all: &mut Vec<String>) {
        all.retain(|difference| {
            let place = difference.lines().next().unwrap_or_default();
            let found = self.meant.iter_mut().find(|(one, _)| one.is_match(place));
            let is_meant = found.is_some();
            if let Some((_, is_found)) = found {
                *is_found = true;
            }
            !is_meant
        });
    }

    /// Panics if an intended difference was never found.
    pub fn finish(self) {
        let unused = self.meant.iter().filter(|(_, is_found)| !is_found);
        let unused: Vec<&str> = unused.map(|(one, _)| one.as_str()).collect();
        assert!(unused.is_empty(), "no longer a difference: {unused:#?}");
    }
}

/// Returns every leaf that differs.
pub fn differences(flux: &Snapshot, driftless: &Snapshot) -> Vec<String> {
    let mut all = Vec::new();
    let names = flux
        .keys()
        .chain(driftless.keys().filter(|name| !flux.contains_key(*name)));
    for name in names {
        let (a, b) = (flux.get(name), driftless.get(name));
        compare(name, a, b, &mut all);
    }
    all
}

fn compare(place: &str, flux: Option<&Value>, driftless: Option<&Value>, all: &mut Vec<String>) {
    match (flux, driftless) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                compare(
                    &format!("{place} / {}", key.replace('\n', "; ")),
                    a.get(key),
                    b.get(key),
                    all,
                );
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) if a.len() == b.len() => {
            for (at, (a, b)) in a.iter().zip(b).enumerate() {
                compare(&format!("{place} / {at}"), Some(a), Some(b), all);
            }
        }
        _ if flux == driftless => {}
        _ => {
            let shown =
                |value: Option<&Value>| value.map_or_else(|| "-".to_owned(), Value::to_string);
            all.push(format!(
                "{place}\n    flux      {}\n    driftless {}",
                shown(flux),
                shown(driftless)
            ));
        }
    }
}
