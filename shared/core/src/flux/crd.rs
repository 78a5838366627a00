//! Custom resource definitions of Flux's API, of our own making: the schema of `spec` comes from the Rust types, every
//! version Flux 2.x has served is served, and fields we do not know are preserved, so that an object written for any
//! Flux version survives.

use super::{
    BucketSpec, FluxKind, GitRepositorySpec, HelmChartSpec, HelmReleaseSpec, HelmRepositorySpec,
    KustomizationSpec, OCIRepositorySpec,
};
use driftless_manifest::Object;
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

/// The label that marks a definition as ours.
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "driftless");

/// The definitions of every Flux kind.
pub fn custom_resource_definitions() -> Vec<Object> {
    FluxKind::ALL
        .into_iter()
        .filter_map(|kind| Object::new(definition(kind)).ok())
        .collect()
}

/// Whether a live definition of a Flux kind is one of ours. Flux's own definitions are left to Flux.
pub fn is_current(live: &Object) -> bool {
    live.label(MANAGED_BY.0) == Some(MANAGED_BY.1)
}

fn definition(kind: FluxKind) -> Value {
    let versions: Vec<Value> = kind
        .versions()
        .iter()
        .enumerate()
        .map(|(at, name)| version(kind, name, at == 0))
        .collect();
    let name = kind.as_str();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{}.{}", kind.plural(), kind.group()),
            "labels": {MANAGED_BY.0: MANAGED_BY.1, "app.kubernetes.io/part-of": "flux"},
        },
        "spec": {
            "group": kind.group(),
            "scope": "Namespaced",
            "names": {"kind": name, "listKind": format!("{name}List"), "plural": kind.plural(),
                      "singular": name.to_lowercase(), "shortNames": short_names(kind)},
            "versions": versions,
        },
    })
}

fn version(kind: FluxKind, name: &str, newest: bool) -> Value {
    json!({
        "name": name,
        "served": true,
        "storage": newest,
        "subresources": {"status": {}},
        "additionalPrinterColumns": columns(kind),
        "schema": {"openAPIV3Schema": {
            "type": "object",
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": {"type": "object"},
                "spec": spec_schema(kind),
                "status": status_schema(kind),
            },
        }},
    })
}

/// Where a controller reports, Flux's own default: an object that nobody has looked at yet is in progress, not current.
fn status_schema(kind: FluxKind) -> Value {
    let mut schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    if !matches!(
        kind,
        FluxKind::Alert | FluxKind::Provider | FluxKind::ExternalArtifact
    ) {
        schema["default"] = json!({"observedGeneration": -1});
    }
    schema
}

fn short_names(kind: FluxKind) -> &'static [&'static str] {
    match kind {
        FluxKind::GitRepository => &["gitrepo"],
        FluxKind::OCIRepository => &["ocirepo"],
        FluxKind::HelmRepository => &["helmrepo"],
        FluxKind::HelmChart => &["hc"],
        FluxKind::Kustomization => &["ks"],
        FluxKind::HelmRelease => &["hr"],
        _ => &[],
    }
}

fn columns(kind: FluxKind) -> Value {
    let ready = json!({"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"});
    let status = json!({"name": "Status", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].message"});
    let age = json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"});
    match kind {
        FluxKind::GitRepository | FluxKind::OCIRepository | FluxKind::HelmRepository => {
            json!([{"name": "URL", "type": "string", "jsonPath": ".spec.url"}, age, ready, status])
        }
        FluxKind::Bucket => json!([
            {"name": "Endpoint", "type": "string", "jsonPath": ".spec.endpoint"}, age, ready, status
        ]),
        _ => json!([age, ready, status]),
    }
}

fn spec_schema(kind: FluxKind) -> Value {
    let mut schema = match kind {
        FluxKind::Kustomization => schema_of::<KustomizationSpec>(),
        FluxKind::GitRepository => schema_of::<GitRepositorySpec>(),
        FluxKind::HelmRelease => schema_of::<HelmReleaseSpec>(),
        FluxKind::OCIRepository => schema_of::<OCIRepositorySpec>(),
        FluxKind::Bucket => schema_of::<BucketSpec>(),
        FluxKind::HelmRepository => schema_of::<HelmRepositorySpec>(),
        FluxKind::HelmChart => schema_of::<HelmChartSpec>(),
        _ => json!({"type": "object"}),
    };
    preserve_unknown(&mut schema);
    schema
}

fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::openapi3().with(|settings| settings.inline_subschemas = true);
    SchemaGenerator::new(settings)
        .into_root_schema_for::<T>()
        .to_value()
}

/// Turns a JSON schema into a structural one: no nullable unions or titles of ours, unknown fields kept in every object,
/// no default (a default would be written into objects that Flux owns too).
fn preserve_unknown(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    for key in [
        "$schema",
        "title",
        "default",
        "format",
        "minimum",
        "maximum",
        "components",
        "nullable",
    ] {
        map.remove(key);
    }
    flatten_one_of(map);
    if let Some(Value::Object(properties)) = map.get_mut("properties") {
        properties.values_mut().for_each(preserve_unknown);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = map.get_mut(key) {
            preserve_unknown(inner);
        }
    }
    let open = map.get("additionalProperties") == Some(&Value::Bool(true));
    if open {
        map.remove("additionalProperties");
    }
    let is_map = map.contains_key("additionalProperties");
    if map.get("type").and_then(Value::as_str) == Some("object") && !is_map {
        map.insert(
            "x-kubernetes-preserve-unknown-fields".to_owned(),
            Value::Bool(true),
        );
    }
}

/// `oneOf` of single words, as schemars writes a documented enum, becomes `enum`.
fn flatten_one_of(map: &mut Map<String, Value>) {
    for key in ["oneOf", "anyOf", "allOf"] {
        let Some(Value::Array(mut variants)) = map.remove(key) else {
            continue;
        };
        // An optional enum is one of nothing and an enum.
        for variant in variants.iter_mut().filter_map(Value::as_object_mut) {
            flatten_one_of(variant);
        }
        let words: Vec<Value> = variants
            .iter()
            .flat_map(
                |variant| match (variant.get("const"), variant.get("enum")) {
                    (Some(word), _) => vec![word.clone()],
                    (None, Some(Value::Array(words))) => words.clone(),
                    _ => Vec::new(),
                },
            )
            .filter(|word| !word.is_null())
            .collect();
        if words.is_empty() {
            if let Some(Value::Object(first)) = variants.into_iter().next() {
                first.into_iter().for_each(|(key, value)| {
                    map.entry(key).or_insert(value);
                });
            }
        } else {
            map.insert("type".to_owned(), "string".into());
            map.insert("enum".to_owned(), Value::Array(words));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_one_stored_version() {
        let definitions = custom_resource_definitions();
        assert_eq!(definitions.len(), FluxKind::ALL.len());
        for definition in definitions {
            let versions = definition
                .pointer("/spec/versions")
                .and_then(Value::as_array)
                .unwrap();
            assert_eq!(
                versions
                    .iter()
                    .filter(|version| version["storage"] == true)
                    .count(),
                1
            );
            assert!(is_current(&definition));
        }
    }

    #[test]
    fn schema_is_structural() {
        for kind in FluxKind::ALL {
            let text = spec_schema(kind).to_string();
            for word in [
                "$ref",
                "oneOf",
                "anyOf",
                "nullable",
                "$schema",
                "\"default\"",
            ] {
                assert!(!text.contains(word), "{word} in {text}");
            }
        }
        let schema = spec_schema(FluxKind::Kustomization);
        let policy = &schema["properties"]["deletionPolicy"];
        assert_eq!(policy["type"], "string");
        let words = json!(["MirrorPrune", "Delete", "WaitForTermination", "Orphan"]);
        assert_eq!(policy["enum"], words);
        assert_eq!(
            schema["properties"]["dependsOn"]["items"]["required"],
            json!(["name"])
        );
        assert_eq!(schema["required"], json!(["interval", "sourceRef"]));
    }
}
