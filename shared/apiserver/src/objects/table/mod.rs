//! The representations of an answer: the object itself, its metadata alone, or a Table
//! to print.

mod builtin;
mod cells;
mod columns;
mod duration;
mod path;
mod platform;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::objects::convert;
use crate::resources::Resource;

/// The representation that the client accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Representation {
    /// The object itself.
    Object,
    /// Only the metadata (`PartialObjectMetadata`).
    Metadata,
    /// `Table`, with the object in each row: `Object`, `Metadata` or `None`.
    Table(String, Timestamp),
    /// A media type that this server does not write.
    Nothing,
}

const ACCEPTED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf, application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

impl Representation {
    /// Reads the header `Accept` and the parameter `includeObject`. Ages are counted up to `now`.
    pub(crate) fn of(accept: &str, include: &str, now: Timestamp) -> Self {
        if accept.is_empty() {
            return Self::Object;
        }
        for part in accept.split(',') {
            let mut pieces = part.split(';').map(str::trim);
            let media = pieces.next().unwrap_or_default();
            if !matches!(media, "application/json" | "*/*" | "application/*") {
                continue;
            }
            let parameters: Vec<(&str, &str)> =
                pieces.filter_map(|piece| piece.split_once('=')).collect();
            let value = |name: &str| {
                parameters
                    .iter()
                    .find(|(known, _)| *known == name)
                    .map_or("", |(_, value)| *value)
            };
            match value("as") {
                "" => return Self::Object,
                "Table" if matches!(value("v"), "v1") => {
                    let include = match include {
                        "" => "Metadata",
                        other => other,
                    };
                    return Self::Table(include.to_owned(), now);
                }
                "PartialObjectMetadata" | "PartialObjectMetadataList" if value("v") == "v1" => {
                    return Self::Metadata;
                }
                _ => {}
            }
        }
        Self::Nothing
    }

    fn check(&self) -> Result<(), ApiError> {
        if *self == Self::Nothing {
            return Err(ApiError::new(
                406,
                "NotAcceptable",
                format!("406: Not Acceptable\n\nAvailable representations: {ACCEPTED}"),
            ));
        }
        Ok(())
    }

    /// Returns an answer with one object.
    ///
    /// # Errors
    /// 406 for a media type that this server does not write.
    pub fn object(&self, resource: &Resource, object: Value) -> Result<Value, ApiError> {
        self.check()?;
        Ok(match self {
            Self::Metadata => partial(&object),
            Self::Table(include, now) => {
                let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
                table(resource, metadata, vec![object], include, *now)
            }
            _ => object,
        })
    }

    /// Returns an answer with a list.
    ///
    /// # Errors
    /// 406 for a media type that this server does not write.
    pub fn list(
        &self,
        resource: &Resource,
        metadata: Value,
        items: Vec<Value>,
    ) -> Result<Value, ApiError> {
        self.check()?;
        Ok(match self {
            Self::Metadata => json!({
                "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata,
                "items": items.iter().map(partial).collect::<Vec<_>>(),
            }),
            Self::Table(include, now) => table(resource, metadata, items, include, *now),
            _ => {
                let mut metadata = metadata;
                if resource.custom.is_some() && metadata.get("continue").is_none() {
                    metadata["continue"] = "".into();
                }
                let items: Vec<Value> = items
                    .into_iter()
                    .map(|item| without_kind(resource, item))
                    .collect();
                json!({
                    "kind": list_kind(resource), "apiVersion": resource.api_version(),
                    "metadata": metadata, "items": items,
                })
            }
        })
    }

    /// Returns the object of a watch event.
    pub fn event(&self, resource: &Resource, object: Value) -> Value {
        match self {
            Self::Metadata => partial(&object),
            Self::Table(include, now) => {
                let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
                table(resource, metadata, vec![object], include, *now)
            }
            _ => object,
        }
    }
}

/// Removes kind and version of a list item of a built-in resource.
fn without_kind(resource: &Resource, mut item: Value) -> Value {
    if resource.custom.is_none()
        && let Some(map) = item.as_object_mut()
    {
        map.remove("kind");
        map.remove("apiVersion");
    }
    item
}

fn list_kind(resource: &Resource) -> String {
    match &resource.custom {
        Some(custom) => custom.list_kind.clone(),
        None => format!("{}List", resource.kind),
    }
}

fn partial(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"],
    })
}

fn table(
    resource: &Resource,
    metadata: Value,
    items: Vec<Value>,
    include: &str,
    now: Timestamp,
) -> Value {
    let columns = columns::of(resource, now);
    let rows: Vec<Value> = items
        .into_iter()
        .map(|mut item| {
            if resource.is("apps", "daemonsets") {
                convert::hide_template_generation(&mut item);
            }
            let kept = convert::to_stored(resource, item.clone());
            let mut row = json!({"cells": columns.cells(&kept)});
            match include {
                "None" => row["object"] = Value::Null,
                "Object" => row["object"] = item,
                _ => row["object"] = partial(&item),
            }
            row
        })
        .collect();
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        "columnDefinitions": columns.definitions(), "rows": rows,
    })
}
