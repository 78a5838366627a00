//! OpenAPI v3, made from the types: enough for `kubectl explain` and for
//! clients that look up fields. Descriptions are those of custom definitions;
//! the built-in types carry none.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::error::ApiError;
use crate::request::message::Response;
use crate::resources::Resource;
use crate::schema::{Id, ListType, Scalar, Schema, Type, builtin};
use crate::store::state::State;

/// The real server's descriptions of the fields that every object has.
const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const KIND: &str = "Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const METADATA: &str = "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// Returns the list of documents.
pub(crate) fn index(state: &State) -> Response {
    let mut paths = Map::new();
    for resource in state.resources() {
        let prefix = if resource.group.is_empty() {
            "api"
        } else {
            "apis"
        };
        let path = format!("{prefix}/{}", resource.api_version());
        let url = format!("/openapi/v3/{path}?hash={}", state.store.version());
        paths.insert(path, json!({"serverRelativeURL": url}));
    }
    Response::json(200, json!({"paths": paths}))
}

/// Returns the document of one group and version.
pub(crate) fn document(state: &State, path: &str) -> Result<Response, ApiError> {
    let api_version = path
        .strip_prefix("apis/")
        .or_else(|| path.strip_prefix("api/"))
        .unwrap_or_default();
    let mut schemas = Map::new();
    let mut routes = Map::new();
    for resource in state
        .resources()
        .filter(|r| r.api_version_ref() == api_version)
    {
        let name = add(resource, &mut schemas);
        route(path, resource, &name, &mut routes);
    }
    if schemas.is_empty() {
        return Err(ApiError::no_such_path());
    }
    Ok(Response::json(
        200,
        json!({
            "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.36.3"},
            "paths": routes, "components": {"schemas": schemas},
        }),
    ))
}

fn route(path: &str, resource: &Resource, name: &str, routes: &mut Map<String, Value>) {
    let scope = if resource.namespaced {
        "namespaces/{namespace}/"
    } else {
        ""
    };
    let gvk = json!({"group": resource.group, "version": resource.version, "kind": resource.kind});
    let parameters: Vec<Value> = ["dryRun", "fieldManager", "fieldValidation", "force"]
        .iter()
        .map(|name| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}}))
        .collect();
    let operation = |action: &str| {
        json!({
            "x-kubernetes-action": action, "x-kubernetes-group-version-kind": gvk, "parameters": parameters,
            "responses": {"200": {"content": {"application/json": {"schema": {"$ref": format!("#/components/schemas/{name}")}}}}},
        })
    };
    let item = format!("/{path}/{scope}{}/{{name}}", resource.plural);
    routes.insert(
        item,
        json!({"get": operation("get"), "put": operation("put"), "patch": operation("patch"), "delete": operation("delete")}),
    );
    let collection = format!("/{path}/{scope}{}", resource.plural);
    routes.insert(
        collection,
        json!({"get": operation("list"), "post": operation("post")}),
    );
}

fn add(resource: &Resource, schemas: &mut Map<String, Value>) -> String {
    let gvk =
        json!([{"group": resource.group, "version": resource.version, "kind": resource.kind}]);
    if let Some(custom) = &resource.custom {
        let mut parts: Vec<&str> = resource.group.split('.').collect();
        parts.reverse();
        let name = format!("{}.{}.{}", parts.join("."), resource.version, resource.kind);
        let mut schema = custom.schema(&resource.version).clone();
        common(&mut schema, schemas);
        schema["x-kubernetes-group-version-kind"] = gvk;
        schemas.insert(name.clone(), schema);
        return name;
    }
    let mut seen = BTreeSet::new();
    let name = structure(&resource.schema, resource.id, schemas, &mut seen);
    if let Some(schema) = schemas.get_mut(&name) {
        schema["x-kubernetes-group-version-kind"] = gvk;
    }
    name
}

/// The properties that every custom object has: `apiVersion`, `kind`, `metadata`.
fn common(schema: &mut Value, schemas: &mut Map<String, Value>) {
    let types = builtin();
    let Some(id) = crate::objects::crd::object_meta(&types) else {
        return;
    };
    let name = structure(&types, id, schemas, &mut BTreeSet::new());
    schema["properties"]["apiVersion"] = json!({"type": "string", "description": API_VERSION});
    schema["properties"]["kind"] = json!({"type": "string", "description": KIND});
    schema["properties"]["metadata"] = json!({
        "description": METADATA,
        "allOf": [{"$ref": format!("#/components/schemas/{name}")}],
    });
}

fn structure(
    schema: &Schema,
    id: Id,
    out: &mut Map<String, Value>,
    seen: &mut BTreeSet<Id>,
) -> String {
    let Some(found) = schema.structure(id) else {
        return String::new();
    };
    if !seen.insert(id) || out.contains_key(&found.name) {
        return found.name.clone();
    }
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, field) in &found.fields {
        let mut property = if name == "fieldsV1" {
            opaque(out)
        } else {
            one(schema, field.id, out, seen)
        };
        if let Some(default) = &field.key_default {
            property["default"] = default.clone();
        }
        if !field.strategy.is_empty() {
            property["x-kubernetes-patch-strategy"] = field.strategy.clone().into();
        }
        if !field.merge_key.is_empty() {
            property["x-kubernetes-patch-merge-key"] = field.merge_key.clone().into();
        }
        if field.required {
            required.push(name.clone());
        }
        properties.insert(name.clone(), property);
    }
    let mut made = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        made["required"] = json!(required);
    }
    if found.atomic {
        made["x-kubernetes-map-type"] = "atomic".into();
    }
    out.insert(found.name.clone(), made);
    found.name.clone()
}

/// Returns the schema of `FieldsV1`, which has no properties.
fn opaque(out: &mut Map<String, Value>) -> Value {
    let name = "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1";
    out.insert(name.to_owned(), json!({"type": "object"}));
    json!({"allOf": [{"$ref": format!("#/components/schemas/{name}")}]})
}

fn one(schema: &Schema, id: Id, out: &mut Map<String, Value>, seen: &mut BTreeSet<Id>) -> Value {
    match schema.get(id) {
        Type::Untyped | Type::Deduced => json!({"type": "object"}),
        Type::Scalar(scalar) => scalar_type(*scalar),
        Type::List { item, list_type } => {
            let mut made = json!({"type": "array", "items": one(schema, *item, out, seen)});
            match list_type {
                ListType::Atomic => made["x-kubernetes-list-type"] = "atomic".into(),
                ListType::Set => made["x-kubernetes-list-type"] = "set".into(),
                ListType::Keys(keys) => {
                    made["x-kubernetes-list-type"] = "map".into();
                    made["x-kubernetes-list-map-keys"] = json!(keys);
                }
            }
            made
        }
        Type::Map { value, .. } => {
            json!({"type": "object", "additionalProperties": one(schema, *value, out, seen)})
        }
        Type::Struct(_) => {
            let name = structure(schema, id, out, seen);
            json!({"allOf": [{"$ref": format!("#/components/schemas/{name}")}]})
        }
        Type::OrBool(of) | Type::OrArray(of) => {
            let name = structure(schema, *of, out, seen);
            json!({"allOf": [{"$ref": format!("#/components/schemas/{name}")}]})
        }
    }
}

fn scalar_type(scalar: Scalar) -> Value {
    match scalar {
        Scalar::String | Scalar::Quantity => json!({"type": "string"}),
        Scalar::Bool => json!({"type": "boolean"}),
        Scalar::Int32 => json!({"type": "integer", "format": "int32"}),
        Scalar::Int => json!({"type": "integer", "format": "int64"}),
        Scalar::Float => json!({"type": "number", "format": "double"}),
        Scalar::Bytes => json!({"type": "string", "format": "byte"}),
        Scalar::IntOrString => {
            json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
        }
        Scalar::Time | Scalar::MicroTime => json!({"type": "string", "format": "date-time"}),
    }
}
