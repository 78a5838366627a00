//! Values: reading, `--set`, merging with the chart's own.

mod coalesce;
mod dependencies;
mod schema;
mod schema_cost;
mod set;

pub(crate) use coalesce::{Mode, coalesce};
pub(crate) use dependencies::process_dependencies;
pub(crate) use schema::validate;
pub use set::{SetKind, set};

use crate::compat::Compat;
use crate::convert::floats;
use crate::error::HelmError;
use crate::yaml_read::{FUEL, read_yaml};
use driftless_fuel::{Fuel, Tank};
use serde_json::{Map, Value as Json};

/// A table of values.
pub type Table = Map<String, Json>;

/// Reads a values file. Helm 3 reads its first document, Helm 4 merges all of them.
///
/// # Errors
/// Invalid YAML, or a document that is not a mapping.
pub fn read(text: &[u8], file: &str, compat: Compat) -> Result<Table, HelmError> {
    read_within(text, file, compat, &fuel(&Tank::default()))
}

/// Returns the fuel for the values files of a release: see [`read_within`].
pub fn fuel(step: &Tank) -> Fuel {
    step.part(FUEL)
}

/// Reads a values file like [`read`], charged to a [`fuel`] that it shares with other files.
///
/// # Errors
/// Those of [`read`]; the fuel has run out.
pub fn read_within(
    text: &[u8],
    file: &str,
    compat: Compat,
    fuel: &Fuel,
) -> Result<Table, HelmError> {
    let documents = match compat {
        Compat::Helm3 => vec![read_yaml(text, file, fuel)],
        Compat::Helm4 => documents(text)
            .into_iter()
            .map(|d| read_yaml(&d, file, fuel))
            .collect(),
    };
    let mut out = Table::new();
    for document in documents {
        match document? {
            Json::Null => {}
            Json::Object(map) => out = merge(out, map),
            _ => {
                return Err(HelmError::Values(format!(
                    "{file}: values must be a mapping"
                )));
            }
        }
    }
    Ok(out)
}

/// Splits a file at lines that start with `---`, like Kubernetes' reader.
fn documents(text: &[u8]) -> Vec<Vec<u8>> {
    let mut out = vec![Vec::new()];
    for line in text.split_inclusive(|b| *b == b'\n') {
        let separator = line.starts_with(b"---") && line[3..].trim_ascii().is_empty();
        if separator {
            out.push(Vec::new());
        } else if let Some(last) = out.last_mut() {
            last.extend_from_slice(line);
        }
    }
    out
}

/// Converts values from JSON like Helm: every number is a float64.
pub fn with_floats(values: Table) -> Table {
    match floats(Json::Object(values)) {
        Json::Object(values) => values,
        _ => Table::new(),
    }
}

/// Merges `over` into `base`: tables key by key, everything else replaced; null is a value.
pub fn merge(mut base: Table, over: Table) -> Table {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Json::Object(have)), Json::Object(new)) => {
                *have = merge(std::mem::take(have), new);
            }
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
    base
}
