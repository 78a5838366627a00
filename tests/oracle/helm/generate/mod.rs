//! Random but mostly valid charts with values: subcharts in subcharts, and templates that use them.

mod chart;
mod expression;
mod templates;
mod values;

use driftless_harness::random::Random;
use driftless_helm::Compat;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Kubernetes' version, as in `--kube-version`.
const KUBE_VERSION: &str = "1.34.0";

/// A chart with a user's values and flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The chart's files by path.
    pub files: BTreeMap<String, String>,
    /// The contents of the files of `-f`.
    pub values: Vec<String>,
    /// The flags of the `--set` kind with their arguments.
    pub set: Vec<(&'static str, String)>,
    /// True for `--is-upgrade`.
    pub upgrade: bool,
}

/// Returns the case of a seed.
pub fn case(seed: u64) -> Case {
    let random = &mut Random::new(seed);
    let mut files = BTreeMap::new();
    chart::chart(random, &mut files, "", "top", 0);
    let (values, set) = values::user(random);
    Case {
        files,
        values,
        set,
        upgrade: random.percent(10),
    }
}

impl Case {
    /// Returns the request to the real library (`main.go`).
    pub fn question(&self, compat: Compat, runs: usize) -> Value {
        let helm = match compat {
            Compat::Helm3 => 3,
            Compat::Helm4 => 4,
        };
        let set = self.set.iter();
        let set: Vec<Value> = set
            .map(|(kind, arg)| json!({"kind": kind, "arg": arg}))
            .collect();
        json!({
            "helm": helm, "files": self.files, "values": self.values, "set": set, "upgrade": self.upgrade,
            "kube_version": KUBE_VERSION, "runs": runs,
        })
    }
}

/// Replaces each `%` and the letter after it by a part for the letter.
fn fill(pattern: &str, mut part: impl FnMut(&str) -> String) -> String {
    let mut out = String::new();
    let mut rest = pattern;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let kind = &rest[at + 1..at + 2];
        out.push_str(&part(kind));
        rest = &rest[at + 2..];
    }
    out + rest
}
