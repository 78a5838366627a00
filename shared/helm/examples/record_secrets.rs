//! Prints the Secrets of the releases in a list of cases, one per line, as input for Helm: see
//! `tests/oracle/helm-record`.
//!
//!     cargo run -p driftless-helm --example record_secrets < tests/corpus/helm-record/cases.json

use driftless_helm::record::{Release, Stamp};
use serde_json::Value;
use std::io::{Write as _, stdin, stdout};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cases: Vec<Value> = serde_json::from_reader(stdin())?;
    let mut out = stdout().lock();
    for case in cases {
        let mut release: Release = serde_json::from_value(case["release"].clone())?;
        if let Some(labels) = case.get("labels") {
            release.labels = serde_json::from_value(labels.clone())?;
        }
        let secret = release.to_secret("apps", Stamp::Created(1_700_000_000))?;
        writeln!(out, "{}", serde_json::to_string(&secret.to_value())?)?;
    }
    Ok(())
}
