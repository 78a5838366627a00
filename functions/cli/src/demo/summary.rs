//! The result of `--once`: every object with its cluster, revision and state.

use crate::error::Error;
use crate::ready::shorten;
use crate::{output, table, term};
use driftless_fleet::embedded::{Row, State, World};
use serde_json::{Value, json};
use std::time::Duration;

/// Prints the result.
///
/// # Errors
/// An object is not ready, or a server refuses a request.
pub async fn print(
    world: &World,
    rows: &[Row],
    as_json: bool,
    took: Duration,
) -> Result<(), Error> {
    let mut lines = Vec::new();
    for row in rows {
        lines.push(Line::of_flux(row));
        for applied in world.applied(row).await? {
            lines.push(Line {
                cluster: row.cluster.clone(),
                object: applied.id.to_string(),
                revision: row.revision.clone(),
                state: applied.health,
                message: String::new(),
            });
        }
    }
    // A Flux object that another one applied is listed once.
    let flux: Vec<String> = rows
        .iter()
        .map(|row| format!("{} {}", row.hub, row.id))
        .collect();
    let mut seen = std::collections::BTreeSet::new();
    lines.retain(|line| {
        let key = format!("{} {}", line.cluster, line.object);
        (!line.message.is_empty() || !flux.contains(&key)) && seen.insert(key)
    });
    let failed: Vec<&Row> = rows
        .iter()
        .filter(|row| row.state != State::Ready)
        .collect();
    let owners = world.capsule_findings();
    if as_json {
        let objects: Vec<Value> = lines.iter().map(Line::json).collect();
        output::print_json(
            &json!({"ready": failed.is_empty() && owners.is_empty(), "objects": objects}),
        )?;
    } else {
        let cells: Vec<Vec<String>> = lines.iter().map(Line::cells).collect();
        term::result(&table::render(
            &["Cluster", "Object", "Revision", "State"],
            &cells,
        ))?;
    }
    for owner in &owners {
        term::failure(&owner.to_string());
    }
    if let (None, Some(first)) = (failed.first(), owners.first()) {
        let (about, message) = (first.about(), &first.finding.message);
        return Err(Error::new(format!(
            "the Capsule addon failed, first for {about}: {message}"
        )));
    }
    match failed.first() {
        None if rows.is_empty() => Err(Error::new("the fleet has no objects")),
        None => {
            let text = format!(
                "{} objects on {} clusters in {:.1} s",
                lines.len(),
                world.hubs.len() + world.remotes().len(),
                took.as_secs_f64()
            );
            term::success(&text);
            Ok(())
        }
        Some(first) => {
            for finding in failed.iter().flat_map(|row| &row.findings) {
                term::failure(&finding.to_string());
            }
            let (count, all, message) = (
                failed.len(),
                rows.len(),
                first
                    .findings
                    .first()
                    .map_or(&first.message, |finding| &finding.message),
            );
            let text = format!(
                "{count} of {all} Flux objects are not ready, the first is {}: {message}",
                first.id
            );
            Err(Error::new(text))
        }
    }
}

struct Line {
    cluster: String,
    object: String,
    revision: String,
    state: String,
    message: String,
}

impl Line {
    fn of_flux(row: &Row) -> Self {
        Self {
            cluster: row.hub.clone(),
            object: row.id.to_string(),
            revision: row.revision.clone(),
            state: row.state.as_str().to_owned(),
            message: row.message.clone(),
        }
    }

    fn cells(&self) -> Vec<String> {
        vec![
            self.cluster.clone(),
            self.object.clone(),
            shorten(&self.revision),
            self.state.clone(),
        ]
    }

    fn json(&self) -> Value {
        json!({"cluster": self.cluster, "object": self.object, "revision": self.revision, "state": self.state, "message": self.message})
    }
}
