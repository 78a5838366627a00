//! Write requests, counted by the API server itself.

use std::collections::BTreeMap;

/// Write requests by verb (`POST`, `PUT`, `PATCH`, `APPLY`, `DELETE`, `DELETECOLLECTION`),
/// from `apiserver_request_total`. Excluded are dry runs and what the API server
/// writes for itself: leases, events, flow control, APIService and CRD status,
/// and the roles that it creates at its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Writes(BTreeMap<String, u64>);

const VERBS: [&str; 6] = [
    "POST",
    "PUT",
    "PATCH",
    "APPLY",
    "DELETE",
    "DELETECOLLECTION",
];

const BOOKKEEPING: [&str; 7] = [
    "leases",
    "events",
    "flowschemas",
    "prioritylevelconfigurations",
    "apiservices",
    "ipaddresses",
    "servicecidrs",
];

impl Writes {
    /// Returns the number of all writes.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Returns the number of writes with one verb.
    pub fn of(&self, verb: &str) -> u64 {
        self.0.get(verb).copied().unwrap_or_default()
    }

    /// Returns the writes since an earlier count. The counts restart at zero when the
    /// server restarts.
    pub fn since(&self, before: &Writes) -> Writes {
        let newer = |(verb, count): (&String, &u64)| {
            let count = count.saturating_sub(before.of(verb));
            (count > 0).then(|| (verb.clone(), count))
        };
        Writes(self.0.iter().filter_map(newer).collect())
    }

    pub(super) fn parse(metrics: &str) -> Self {
        let mut counts = BTreeMap::new();
        for line in metrics.lines() {
            let Some(rest) = line.strip_prefix("apiserver_request_total{") else {
                continue;
            };
            let Some((labels, value)) = rest.rsplit_once("} ") else {
                continue;
            };
            let verb = label(labels, "verb");
            if VERBS.contains(&verb) && !is_bookkeeping(labels) {
                let value = value.trim().parse::<f64>().unwrap_or_default();
                *counts.entry(verb.to_owned()).or_default() += value as u64;
            }
        }
        Self(counts)
    }
}

fn is_bookkeeping(labels: &str) -> bool {
    let resource = label(labels, "resource");
    let crd_status =
        resource == "customresourcedefinitions" && label(labels, "subresource") == "status";
    crd_status || BOOKKEEPING.contains(&resource) || !label(labels, "dry_run").is_empty()
}

/// Returns the value of a label; values with quotes are not supported.
fn label<'a>(labels: &'a str, name: &str) -> &'a str {
    labels
        .split(',')
        .find_map(|pair| {
            let (key, value) = pair.split_once('=')?;
            (key == name).then(|| value.trim_matches('"'))
        })
        .unwrap_or_default()
}
