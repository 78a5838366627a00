//! Composes the values of a release: ConfigMaps and Secrets in their order, and `spec.values` over
//! them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use driftless_flux::{HelmRelease, ValuesRef};
use driftless_fuel::Tank;
use driftless_helm::values::{SetKind, Table, fuel, merge, read_within, set, with_floats};
use driftless_helm::{Compat, HelmError};
use driftless_manifest::Object;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The ConfigMaps and Secrets that exist in the object's namespace, by kind and name.
pub type ValuesSources = BTreeMap<(String, String), Object>;

/// The error of values that cannot be composed, with helm-controller's message. It never has the
/// content of a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValuesError {
    reference: Box<ValuesRef>,
    namespace: String,
    reason: String,
}

/// The reason why a reference has no content.
#[derive(Debug, thiserror::Error)]
enum ContentError {
    #[error("unsupported values reference kind")]
    Kind,
    #[error("{resource} \"{name}\" not found")]
    NoObject {
        resource: &'static str,
        name: String,
    },
    #[error("key not found")]
    NoKey,
    #[error("the value is not base64")]
    NotBase64,
    #[error("the value is not UTF-8")]
    NotUtf8,
}

impl fmt::Display for ValuesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let optional = if self.reference.optional {
            " optional"
        } else {
            ""
        };
        write!(
            f,
            "could not resolve{optional} {} chart values reference '{}/{}' with key '{}': {}",
            self.reference.kind,
            self.namespace,
            self.reference.name,
            key(&self.reference),
            self.reason
        )
    }
}

impl std::error::Error for ValuesError {}

/// Returns the kind and name of each ConfigMap and Secret to read, without duplicates.
pub fn references(release: &HelmRelease) -> BTreeSet<(String, String)> {
    let all = release.spec.values_from.iter();
    all.filter(|reference| matches!(reference.kind.as_str(), "ConfigMap" | "Secret"))
        .map(|reference| (reference.kind.clone(), reference.name.clone()))
        .collect()
}

/// Composes the values. A value with a `targetPath` overrides `spec.values`; `spec.values`
/// overrides all others.
///
/// # Errors
/// [`ValuesError`], which names the reference.
pub fn compose(
    release: &HelmRelease,
    found: &ValuesSources,
    step: &Tank,
) -> Result<Table, ValuesError> {
    let own = with_floats(release.spec.values.clone().unwrap_or_default());
    let mut values = Table::new();
    for reference in &release.spec.values_from {
        let failed = |reason: String| ValuesError {
            reference: Box::new(reference.clone()),
            namespace: release.id.namespace.clone(),
            reason,
        };
        let Some(content) = content(reference, found).map_err(|error| failed(error.to_string()))?
        else {
            continue;
        };
        match reference
            .target_path
            .as_deref()
            .filter(|path| !path.is_empty())
        {
            Some(path) => {
                values = merge(values, own.clone());
                replace(&mut values, path, &content, reference.literal).map_err(|error| {
                    failed(describe_error(reference, "failed to merge value", &error))
                })?;
            }
            None => {
                let name = key(reference);
                let table = read_within(content.as_bytes(), name, Compat::Helm3, &fuel(step));
                let table = table.map_err(|error| {
                    failed(describe_error(
                        reference,
                        "failed to read values data",
                        &error,
                    ))
                })?;
                values = merge(values, table);
            }
        }
    }
    Ok(merge(values, own))
}

fn key(reference: &ValuesRef) -> &str {
    let key = reference.values_key.as_deref();
    key.filter(|key| !key.is_empty()).unwrap_or("values.yaml")
}

/// Returns the content of a reference; `None` if it is optional and does not exist.
fn content<'f>(
    reference: &ValuesRef,
    found: &'f ValuesSources,
) -> Result<Option<Cow<'f, str>>, ContentError> {
    let is_secret = match reference.kind.as_str() {
        "Secret" => true,
        "ConfigMap" => false,
        _ => return Err(ContentError::Kind),
    };
    let absent = |reason| match reference.optional {
        true => Ok(None),
        false => Err(reason),
    };
    let id = (reference.kind.clone(), reference.name.clone());
    let Some(object) = found.get(&id) else {
        return absent(ContentError::NoObject {
            resource: if is_secret { "secrets" } else { "configmaps" },
            name: reference.name.clone(),
        });
    };
    let data = object
        .as_map()
        .get("data")
        .and_then(|data| data.get(key(reference)));
    let Some(data) = data.and_then(|data| data.as_str()) else {
        return absent(ContentError::NoKey);
    };
    if !is_secret {
        return Ok(Some(Cow::Borrowed(data)));
    }
    let bytes = STANDARD.decode(data).map_err(|_| ContentError::NotBase64)?;
    let text = String::from_utf8(bytes).map_err(|_| ContentError::NotUtf8)?;
    Ok(Some(Cow::Owned(text)))
}

/// Sets a value at a path like `--set`, or like `--set-string` for quoted and literal ones.
fn replace(values: &mut Table, path: &str, value: &str, literal: bool) -> Result<(), HelmError> {
    let quoted = |quote| value.len() > 1 && value.starts_with(quote) && value.ends_with(quote);
    let (kind, value) = if literal {
        (SetKind::Text, Cow::Owned(escape(value)))
    } else if quoted('\'') || quoted('"') || matches!(value, "'" | "\"") {
        (
            SetKind::Text,
            Cow::Borrowed(value.trim_matches(['\'', '"'])),
        )
    } else {
        (SetKind::Typed, Cow::Borrowed(value))
    };
    let no_file = |_: &str| Err("files cannot be read here".into());
    set(
        values,
        kind,
        &format!("{path}={value}"),
        Compat::Helm4,
        &no_file,
    )
}

/// Adds a backslash before each character that has a meaning in `--set`.
fn escape(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        if matches!(c, '\\' | ',' | '[' | ']' | '{' | '}') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Describes an error about the content of a ConfigMap. For a Secret it returns only `action`,
/// because Helm's messages quote the value.
fn describe_error(reference: &ValuesRef, action: &str, error: &HelmError) -> String {
    if reference.kind == "Secret" {
        return action.to_owned();
    }
    let message = error.to_string();
    [
        "failed parsing --set data: ",
        "failed parsing --set-string data: ",
    ]
    .iter()
    .find_map(|prefix| message.strip_prefix(prefix))
    .unwrap_or(&message)
    .to_owned()
}
