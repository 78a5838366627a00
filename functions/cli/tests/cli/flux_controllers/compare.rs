//! What differs between two snapshots.

use super::known::MEANT;
use super::site::Side;
use super::snapshot::{self, Snapshot};
use regex::Regex;
use serde_json::Value;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(180);
/// What driftless tries again long before Flux does: it counts when both sides have failed at the same time.
const TRIED_AGAIN: &str = "kustomizations no-health";

/// Waits until both sides hold the same; panics with what differs.
pub fn eventually_the_same(flux: &Side, driftless: &Side) {
    let start = Instant::now();
    let pattern = |(pattern, _): &(&str, &str)| Regex::new(pattern).expect("a pattern");
    let meant: Vec<Regex> = MEANT.iter().map(pattern).collect();
    let mut failed_alike = false;
    loop {
        let [flux, driftless] = [flux, driftless].map(|side| snapshot::take(&side.cluster));
        let mut all = differences(&flux, &driftless);
        let found = all.len();
        let unused = take_out(&mut all, &meant);
        let is_tried = |difference: &String| difference.starts_with(TRIED_AGAIN);
        failed_alike |= is_failed(&flux) && !all.iter().any(is_tried);
        all.retain(|difference| !failed_alike || !is_tried(difference));
        if failed_alike && all.is_empty() {
            assert!(unused.is_empty(), "no longer a difference: {unused:#?}");
            eprintln!("  {found} differences, all of them meant");
            return;
        }
        assert!(
            start.elapsed() < LIMIT,
            "{} differences:\n{}",
            all.len(),
            all.join("\n")
        );
        std::thread::sleep(Duration::from_millis(500));
    }
}

fn is_failed(side: &Snapshot) -> bool {
    let conditions = side
        .get(TRIED_AGAIN)
        .and_then(|object| object["status"]["conditions"].as_array());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| one["type"] == "Ready" && one["status"] == "False")
}

/// Takes out what is meant; returns the patterns that fit nothing.
fn take_out(all: &mut Vec<String>, meant: &[Regex]) -> Vec<String> {
    let mut unused: Vec<String> = meant.iter().map(Regex::to_string).collect();
    all.retain(|difference| {
        let place = difference.lines().next().unwrap_or_default();
        let found = meant.iter().find(|pattern| pattern.is_match(place));
        unused.retain(|pattern| found.is_none_or(|found| found.as_str() != pattern));
        found.is_none()
    });
    unused
}

/// Every leaf that is not the same.
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
