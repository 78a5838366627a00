//! Objects: decoding, defaults, versions, patches, selectors, and the representations
//! of answers.

pub(crate) mod codec;
pub(crate) mod convert;
pub(crate) mod crd;
pub(crate) mod defaults;
pub(crate) mod patch;
pub(crate) mod protobuf;
pub(crate) mod selector;
pub(crate) mod table;

use serde_json::{Value, json};

use crate::error::ApiError;
use crate::resources::Resource;

use codec::DecodeReport;

/// The handling of fields that a type does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validation {
    /// Unknown fields are dropped.
    Ignore,
    /// Unknown fields are dropped with a warning.
    Warn,
    /// Documents with unknown fields are refused.
    Strict,
    /// Unknown fields are dropped; the document is the result of an apply.
    Merged,
}

/// Reads a document as an object of the resource: types, unknown fields, defaults.
pub(crate) fn read(
    resource: &Resource,
    document: &Value,
    validation: Validation,
    warnings: &mut Vec<String>,
) -> Result<Value, ApiError> {
    let cannot = |detail: &str| {
        ApiError::bad_request(format!(
            "{kind} in version {:?} cannot be handled as a {kind}: {detail}",
            resource.version,
            kind = resource.kind
        ))
    };
    let mut found = DecodeReport {
        merged: validation == Validation::Merged,
        ..DecodeReport::default()
    };
    let mut object = match &resource.custom {
        Some(custom) => crd::read(custom, resource, document, &mut found)
            .map_err(|detail| cannot(detail.as_str()))?,
        None => {
            let mut object = codec::read(&resource.schema, resource.id, document, &mut found)
                .map_err(|detail| cannot(detail.as_str()))?;
            defaults::fill(&resource.schema, resource.id, &resource.kind, &mut object);
            object
        }
    };
    let unknown: Vec<String> = found
        .unknown
        .iter()
        .map(|path| format!("unknown field {path:?}"))
        .collect();
    match validation {
        Validation::Strict if !unknown.is_empty() => {
            return Err(cannot(&format!(
                "strict decoding error: {}",
                unknown.join(", ")
            )));
        }
        Validation::Warn => warnings.extend(unknown),
        _ => {}
    }
    object["apiVersion"] = resource.api_version().into();
    object["kind"] = resource.kind.clone().into();
    Ok(object)
}

/// Returns a new object of a resource without any field set.
pub(crate) fn new_object(resource: &Resource) -> Value {
    let mut object = match resource.custom {
        Some(_) => json!({}),
        None => codec::empty(&resource.schema, resource.id),
    };
    object["apiVersion"] = resource.api_version().into();
    object["kind"] = resource.kind.clone().into();
    object
}

/// Converts a stored object to the version of a resource.
pub(crate) fn in_version(resource: &Resource, object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(custom) = &resource.custom {
        object["apiVersion"] = resource.api_version().into();
        crd::default_version(custom, &resource.version, &mut object);
    }
    convert::from_stored(resource, object)
}
