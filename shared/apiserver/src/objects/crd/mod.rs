//! Objects of custom resources: read, pruned, defaulted and checked by the schemas of their
//! definitions.

mod check;
mod rules;
mod types;

use driftless_go::Error as GoError;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

pub(crate) use types::object_meta;

use crate::error::FieldError;
use crate::objects::codec;
use crate::objects::codec::DecodeReport;
use crate::resources::{Compiled, Custom, Resource};
use crate::values::{join, text};

const VERBS: [&str; 8] = [
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];

/// Reads a document: metadata by its types, the rest pruned and defaulted.
pub(crate) fn read(
    custom: &Custom,
    resource: &Resource,
    document: &Value,
    found: &mut DecodeReport,
) -> Result<Value, GoError> {
    let mut object = document.clone();
    let metadata = resource
        .schema
        .structure(resource.id)
        .and_then(|root| root.fields.get("metadata"))
        .map(|field| field.id);
    if let (Some(id), Some(own)) = (metadata, object.get("metadata")) {
        let mut inner = DecodeReport::default();
        let read = codec::read(&resource.schema, id, own, &mut inner)?;
        found
            .unknown
            .extend(inner.unknown.iter().map(|path| format!("metadata.{path}")));
        object["metadata"] = read;
    }
    let schema = custom.schema(&resource.version);
    if let Some(map) = object.as_object_mut() {
        types::prune_root(schema, map, &mut found.unknown);
    }
    found.unknown.sort();
    types::default(schema, &mut object, found.merged);
    Ok(object)
}

/// Prunes and defaults a stored object for a version.
pub(crate) fn default_version(custom: &Custom, version: &str, object: &mut Value) {
    let schema = custom.schema(version);
    if let Some(map) = object.as_object_mut() {
        types::prune_root(schema, map, &mut Vec::new());
    }
    types::default(schema, object, false);
}

/// Returns the errors of an object: by its schema, then by the schema's CEL rules. Values that an
/// update does not change are not checked, so objects that were stored before a schema became
/// stricter stay usable.
pub(crate) fn problems(
    custom: &Custom,
    version: &str,
    object: &Value,
    old: Option<&Value>,
) -> Vec<FieldError> {
    let schema = custom.schema(version);
    let mut out = Vec::new();
    check::root(schema, &custom.compiled, object, old, &mut out);
    if !out.iter().any(FieldError::is_structural) {
        rules::root(schema, &custom.compiled, object, old, &mut out);
    } else if rules::any(schema) {
        out.push(FieldError::rules_unchecked());
    }
    out
}

/// Removes nulls from maps: apply treats them as absent.
pub(crate) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Returns the resources of a definition, one for each served version.
pub(crate) fn resources(definition: &Value) -> Vec<Resource> {
    let spec = &definition["spec"];
    let group = text(spec, "/group").to_owned();
    let versions = spec["versions"].as_array().cloned().unwrap_or_default();
    let selectable = versions
        .iter()
        .flat_map(|v| {
            v["selectableFields"]
                .as_array()
                .cloned()
                .unwrap_or_default()
        })
        .map(|field| text(&field, "/jsonPath").trim_start_matches('.').to_owned())
        .collect();
    let names = spec["names"].clone();
    let custom = Arc::new(Custom {
        list_kind: text(&names, "/listKind").to_owned(),
        selectable,
        versions: versions.clone(),
        group: group.clone(),
        names: names.clone(),
        compiled: Compiled::default(),
    });
    versions
        .iter()
        .filter(|version| version["served"] == true)
        .map(|version| {
            let name = text(version, "/name").to_owned();
            let kind = text(&names, "/kind").to_owned();
            let (schema, id) = types::convert(&version["schema"]["openAPIV3Schema"]);
            let mut subresources = BTreeMap::new();
            let verbs = || vec!["get".to_owned(), "patch".to_owned(), "update".to_owned()];
            for sub in ["status", "scale"] {
                if version["subresources"].get(sub).is_some() {
                    subresources.insert(sub.to_owned(), verbs());
                }
            }
            Resource {
                api_version: join(&group, &name),
                group: group.clone(),
                version: name,
                plural: text(&names, "/plural").to_owned(),
                kind,
                namespaced: spec["scope"] == "Namespaced",
                verbs: VERBS.map(str::to_owned).to_vec(),
                subresources,
                schema: Arc::new(schema),
                id,
                custom: Some(Arc::clone(&custom)),
            }
        })
        .collect()
}
