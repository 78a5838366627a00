//! The readers of kustomizations and plugin configurations.

use super::{COMPONENT, KUSTOMIZATION, Kustomization};
use crate::budget::{Budget, KUSTOMIZATION as KUSTOMIZATION_TEXT};
use crate::declare::{Declared, FieldError, Mode, normalize};
use crate::error::{Error, ErrorKind};
use driftless_fuel::Fuel;
use driftless_manifest::value_nodes;
use driftless_manifest::yaml::{self, Dialect, NodeKind};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::collections::HashSet;

/// The input of [`parse`].
pub(crate) enum Source<'s> {
    /// The text of a file, and its name.
    File(&'s str, &'s str),
    /// Fields that the caller has assembled.
    Value(&'s Value),
}

/// Reads a kustomization.
///
/// # Errors
/// Invalid YAML, an unknown field, a value of another type, another kind or version, an empty file,
/// or more than is left of the budget.
pub(crate) fn parse(source: &Source<'_>, budget: &Budget) -> Result<Kustomization, Error> {
    let document = match source {
        Source::File(text, file) => budget.reading(|fuel| read(text, file, fuel))?,
        Source::Value(value) => (*value).clone(),
    };
    budget.spend_nodes(value_nodes(&document))?;
    let document = normalized(
        document,
        Mode {
            strict: true,
            coerce: false,
        },
    )?;
    let empty = is_empty(&document);
    let mut kustomization: Kustomization = serde_json::from_value(document)
        .map_err(|error| ErrorKind::Kustomization(error.to_string()))?;
    kustomization.fix_deprecated();
    if empty {
        return Err(ErrorKind::Kustomization(
            "the file is empty: name at least one resource".to_owned(),
        )
        .into());
    }
    check_kind(&kustomization)?;
    Ok(kustomization)
}

/// Reads the fields of a file like Flux's generator: unknown ones are dropped.
///
/// # Errors
/// Invalid YAML, or a value of another type.
pub(crate) fn to_document(
    text: &str,
    file: &str,
    budget: &Budget,
) -> Result<Map<String, Value>, Error> {
    match normalized(
        budget.reading(|fuel| read(text, file, fuel))?,
        Mode {
            strict: false,
            coerce: true,
        },
    )? {
        Value::Object(map) => Ok(map),
        _ => Ok(Map::new()),
    }
}

/// Reads a file or a plugin's configuration that is not a kustomization; null counts as an empty
/// one. Numbers and booleans become strings where a string is expected. Unknown fields are refused
/// if `strict` is set, otherwise dropped.
///
/// # Errors
/// Those of [`normalize`], or a value that the model refuses.
pub(crate) fn read_config<T>(value: Value, strict: bool) -> Result<T, FieldError>
where
    T: Declared + DeserializeOwned,
{
    let value = if value.is_null() {
        Value::Object(Map::new())
    } else {
        value
    };
    let mode = Mode {
        strict,
        coerce: true,
    };
    let value = normalize(value, &T::TYPE, mode)?;
    Ok(serde_json::from_value(value)?)
}

fn normalized(document: Value, mode: Mode) -> Result<Value, Error> {
    normalize(document, &Kustomization::TYPE, mode)
        .map_err(|error| ErrorKind::Kustomization(error.to_string()).into())
}

/// Returns the first document. A duplicate key is allowed, and the last one counts, as in
/// kustomize.
fn read(text: &str, file: &str, fuel: &Fuel) -> Result<Value, Error> {
    let documents = yaml::parse_within(text.as_bytes(), file, &KUSTOMIZATION_TEXT, fuel)?;
    let Some(mut document) = documents.into_iter().next() else {
        return Ok(Value::Null);
    };
    keep_last(&mut document);
    Ok(yaml::node_to_value(&document, file, Dialect::V2)?)
}

fn keep_last(node: &mut yaml::Node) {
    match &mut node.kind {
        NodeKind::Scalar { .. } => {}
        NodeKind::Seq(items) => items.iter_mut().for_each(keep_last),
        NodeKind::Map(pairs) => {
            let mut seen = HashSet::new();
            pairs.reverse();
            pairs.retain(|(key, _)| key.text().is_none_or(|text| seen.insert(text.to_owned())));
            pairs.reverse();
            pairs.iter_mut().for_each(|(_, value)| keep_last(value));
        }
    }
}

/// Checks whether a document has only kind and version. An empty list counts as content, except in
/// deprecated fields that are moved elsewhere.
fn is_empty(document: &Value) -> bool {
    const MOVED: [&str; 3] = ["bases", "imageTags", "helmChartInflationGenerator"];
    let Some(map) = document.as_object() else {
        return true;
    };
    map.iter().all(|(key, value)| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty() || key == "kind" || key == "apiVersion",
        Value::Array(items) => items.is_empty() && MOVED.contains(&key.as_str()),
        _ => false,
    })
}

fn check_kind(kustomization: &Kustomization) -> Result<(), Error> {
    let fault = |reason: String| Err(ErrorKind::Kustomization(reason).into());
    let version = match kustomization.kind.as_str() {
        KUSTOMIZATION => "kustomize.config.k8s.io/v1beta1",
        COMPONENT => "kustomize.config.k8s.io/v1alpha1",
        other => {
            return fault(format!(
                "kind is '{other}', expected {KUSTOMIZATION} or {COMPONENT}"
            ));
        }
    };
    if kustomization.api_version.is_empty() || kustomization.api_version == version {
        return Ok(());
    }
    fault(format!(
        "apiVersion of a {} must be {version}",
        kustomization.kind
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Limits;

    fn try_parse(text: &str) -> Result<Kustomization, String> {
        parse(
            &Source::File(text, "kustomization.yaml"),
            &Budget::new(Limits::default()),
        )
        .map_err(|error| error.to_string())
    }

    #[test]
    fn reads_as_go_does() {
        let kustomization =
            try_parse("Resources: [a]\nbases: [b]\nnamePrefix:\nnamespace: x\nnamespace: z\n")
                .unwrap();
        assert_eq!(kustomization.resources, ["a", "b"]);
        assert_eq!(kustomization.namespace, "z");
        for (text, want) in [
            ("", "the file is empty"),
            ("resources:\n", "the file is empty"),
            ("bases: []\n", "the file is empty"),
            (
                "resource: [a]\n",
                "unknown field 'resource', did you mean 'resources'?",
            ),
            (
                "patches: [{patch: 1}]\n",
                "'patches[0].patch' is a number, expected a string",
            ),
            ("commonLabels: {a: 1}\n", "'commonLabels.a' is a number"),
            ("kind: Pod\nresources: []\n", "kind is 'Pod'"),
            (
                "apiVersion: v1\nresources: []\n",
                "apiVersion of a Kustomization must be",
            ),
        ] {
            let error = try_parse(text).map(|_| ()).unwrap_err();
            assert!(error.contains(want), "{text}: {error}");
        }
        assert!(try_parse("resources: []\n").is_ok());
    }
}
