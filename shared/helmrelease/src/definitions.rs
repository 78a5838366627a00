//! The CustomResourceDefinitions of a chart.

use super::phase::PhaseError;
use driftless_helm::values::Table;
use driftless_helm::{Chart, Compat, Options, Render};
use driftless_manifest::Object;
use driftless_manifest::yaml::{Dialect, Limits, documents};

/// Returns the CustomResourceDefinitions in a chart's crds/. Objects of other kinds are skipped, as
/// in Flux.
///
/// # Errors
/// A file cannot be parsed.
pub fn definitions(chart: &Chart, values: &Table) -> Result<Vec<Object>, PhaseError> {
    let failed = |error: &dyn std::fmt::Display| {
        PhaseError::Failed(format!(
            "failed to parse CustomResourceDefinitions from {error}"
        ))
    };
    let options = Options {
        compat: Compat::Helm4,
        ..Options::new("", "")
    };
    let files = Render::new(chart, values, &options).definitions();
    let mut objects = Vec::new();
    for (name, text) in files.map_err(|error| PhaseError::Failed(error.to_string()))? {
        let values = documents(text.as_bytes(), &name, Dialect::V2, &Limits::default());
        for value in values.map_err(|error| failed(&error))? {
            if value.is_null() {
                continue;
            }
            let object = Object::new(value).map_err(|error| failed(&format!("{name}: {error}")))?;
            match (object.group(), object.kind()) {
                ("apiextensions.k8s.io", "CustomResourceDefinition") => objects.push(object),
                (_, kind) => {
                    tracing::warn!(file = name, kind, "skipped: not a CustomResourceDefinition")
                }
            }
        }
    }
    Ok(objects)
}
