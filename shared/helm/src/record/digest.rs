//! The digests by which Flux's helm-controller 1.6 recognizes a release and its values.

use super::{Info, RecordedHook, Release};
use crate::chart::Metadata;
use crate::values::{Table, with_floats};
use driftless_go::json;
use driftless_manifest::yaml::{self, Document, View};
use serde::Serialize;
use serde_json::{Number, Value as Json};
use sha2::{Digest, Sha256};

/// The input of a snapshot's digest: the fields of Flux's `Observation`, in its order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Observation<'r> {
    name: &'r str,
    version: i64,
    info: Info,
    chart_metadata: &'r Metadata,
    /// Null when empty.
    config: Option<Table>,
    manifest: &'r str,
    /// Null if empty; test hooks do not count, because users run them manually.
    hooks: Option<Vec<RecordedHook>>,
    namespace: &'r str,
    #[serde(skip_serializing_if = "str::is_empty")]
    oci_digest: &'r str,
}

/// Returns the digest of a release in the storage: `history[].digest` of a HelmRelease.
///
/// `oci_digest` is that of the chart's artifact, empty if it has none: it is not in the record.
/// Fields that Helm 4.2, which helm-controller 1.6 is built with, does not define are left out,
/// including `info.rollback_revision` of Helm 4.3.
///
/// # Errors
/// A value that JSON cannot represent.
pub fn observation_digest(
    release: &Release,
    oci_digest: &str,
) -> Result<String, serde_json::Error> {
    let hooks: Vec<RecordedHook> = release.hooks.iter().filter_map(observed).collect();
    let observation = Observation {
        name: &release.name,
        version: release.version,
        info: Info {
            rollback_revision: 0,
            rest: Table::new(),
            ..release.info.clone()
        },
        chart_metadata: &release.chart.metadata.known,
        config: (!release.config.is_empty()).then(|| with_floats(release.config.clone())),
        manifest: &release.manifest,
        hooks: (!hooks.is_empty()).then_some(hooks),
        namespace: &release.namespace,
        oci_digest,
    };
    let mut text = json::to_string(&observation)?;
    text.push('\n');
    Ok(digest_text(text.as_bytes()))
}

/// Returns a hook without the fields that Helm does not define.
fn observed(hook: &RecordedHook) -> Option<RecordedHook> {
    if hook.runs_at("test") {
        return None;
    }
    let mut hook = hook.clone();
    hook.rest.clear();
    hook.last_run.rest.clear();
    Some(hook)
}

/// Returns the digest of values: `configDigest` of a snapshot, `lastAttemptedConfigDigest` of a
/// HelmRelease. The input is their YAML with the keys of every map in the order of their bytes; it
/// is empty for empty values.
pub fn config_digest(values: &Table) -> String {
    digest_text(&values_text(values))
}

/// Checks whether a digest, of any algorithm that Flux has written, is that of the values.
pub fn same_values(digest: &str, values: &Table) -> bool {
    match digest.split_once(':') {
        Some(("sha256", _)) => config_digest(values) == digest,
        Some(("sha1", sum)) => hex::encode(sha1::Sha1::digest(values_text(values))) == sum,
        _ => false,
    }
}

fn values_text(values: &Table) -> Vec<u8> {
    if values.is_empty() {
        return Vec::new();
    }
    yaml::write(&Sorted::of(Json::Object(with_floats(values.clone())))).into_bytes()
}

/// Returns `sha256:` and the hash.
pub fn digest_text(content: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(content)))
}

/// A tree whose maps are serialized in the order of their keys' bytes.
enum Sorted {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    List(Vec<Sorted>),
    Map(Vec<(String, Sorted)>),
}

impl Sorted {
    fn of(value: Json) -> Self {
        match value {
            Json::Null => Sorted::Null,
            Json::Bool(b) => Sorted::Bool(b),
            Json::Number(n) => Sorted::Number(whole(n)),
            Json::String(s) => Sorted::String(s),
            Json::Array(items) => Sorted::List(items.into_iter().map(Sorted::of).collect()),
            Json::Object(map) => {
                Sorted::Map(map.into_iter().map(|(k, v)| (k, Sorted::of(v))).collect())
            }
        }
    }
}

/// Converts a float64 without a fraction to an integer if it fits, like `sigs.k8s.io/yaml`.
fn whole(number: Number) -> Number {
    let Some(f) = number.as_f64().filter(|f| f.fract() == 0.0) else {
        return number;
    };
    const TWO_63: f64 = 9_223_372_036_854_775_808.0;
    if (-TWO_63..TWO_63).contains(&f) {
        return Number::from(f as i64);
    }
    if (TWO_63..2.0 * TWO_63).contains(&f) {
        return Number::from(f as u64);
    }
    number
}

impl Document for Sorted {
    fn view(&self) -> View<'_, Self> {
        match self {
            Sorted::Null => View::Null,
            Sorted::Bool(b) => View::Bool(*b),
            Sorted::Number(n) => View::Number(n),
            Sorted::String(s) => View::String(s),
            Sorted::List(items) => View::List(items),
            Sorted::Map(pairs) => View::Map(pairs.iter().map(|(k, v)| (k.as_str(), v)).collect()),
        }
    }
}
