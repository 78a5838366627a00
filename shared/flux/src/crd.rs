//! Generates the CustomResourceDefinitions of Flux's API. The schema of `spec` is generated from
//! the Rust types, which have Flux's rules (patterns, lengths, enums, defaults, CEL). Every version
//! that Flux 2.x has served is served.
//!
//! The schemas are written with schemars, with keywords that only this file reads: `x-default` is
//! the default that the API server fills in, and `x-older` marks a field that only older versions
//! have. Keywords `x-kubernetes-…` are kept unchanged.

use super::external_artifact::ExternalArtifactSpec;
use super::notification::{AlertSpec, ProviderSpec};
use super::receiver::ReceiverSpec;
use super::{
    ArtifactGeneratorSpec, BucketSpec, FluxKind, GitRepositorySpec, HelmChartSpec, HelmReleaseSpec,
    HelmRepositorySpec, KustomizationSpec, OCIRepositorySpec,
};
use driftless_manifest::Object;
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

/// The label of the definitions that driftless generates.
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "driftless");

/// Returns the definitions of all Flux kinds.
pub fn custom_resource_definitions() -> Vec<Object> {
    FluxKind::ALL
        .into_iter()
        .filter_map(|kind| Object::new(definition(kind)).ok())
        .collect()
}

/// Returns whether a live definition of a Flux kind is from driftless. Those of Flux are left to
/// Flux.
pub fn is_current(live: &Object) -> bool {
    live.label(MANAGED_BY.0) == Some(MANAGED_BY.1)
}

/// Returns the fields of an object's `spec` that a definition does not declare: the API server
/// drops them.
pub fn undeclared(definition: &Object, object: &Object) -> Vec<String> {
    let api_version = object.api_version();
    let version = api_version.rsplit('/').next().unwrap_or_default();
    let versions = definition
        .pointer("/spec/versions")
        .and_then(Value::as_array);
    let mut versions = versions.into_iter().flatten();
    let schema = versions.find(|one| one["name"] == version);
    let schema = schema.and_then(|one| one.pointer("/schema/openAPIV3Schema/properties/spec"));
    let mut found = Vec::new();
    if let (Some(schema), Some(spec)) = (schema, object.pointer("/spec")) {
        collect_undeclared(schema, spec, "spec", &mut found);
    }
    found
}

fn collect_undeclared(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    let is_open = schema["x-kubernetes-preserve-unknown-fields"] == true;
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let path = format!("{path}.{key}");
                let declared = schema["properties"].get(key);
                match declared.or_else(|| schema.get("additionalProperties")) {
                    Some(schema) => collect_undeclared(schema, value, &path, found),
                    None if is_open => {}
                    None => found.push(path),
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                collect_undeclared(&schema["items"], item, &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}

fn definition(kind: FluxKind) -> Value {
    let versions: Vec<Value> = kind
        .versions()
        .iter()
        .enumerate()
        .map(|(at, name)| version(kind, name, at == 0))
        .collect();
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
            "names": names(kind),
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
                "spec": spec_schema(kind, newest),
                "status": status_schema(kind),
            },
        }},
    })
}

/// Returns the schema of `status`. For kinds with a controller it has Flux's default, so that an
/// object that is not reconciled yet is in progress, not current. Fields that other versions of a
/// controller wrote are kept. Unlike in Flux, an Alert and a Provider also have a status: it
/// reports that they are not reconciled.
fn status_schema(kind: FluxKind) -> Value {
    let mut schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    if !matches!(
        kind,
        FluxKind::Alert
            | FluxKind::Provider
            | FluxKind::ExternalArtifact
            | FluxKind::ArtifactGenerator
    ) {
        schema["default"] = json!({"observedGeneration": -1});
    }
    schema
}

fn names(kind: FluxKind) -> Value {
    let name = kind.as_str();
    let mut names = json!({"kind": name, "listKind": format!("{name}List"), "plural": kind.plural(),
        "singular": name.to_lowercase(), "categories": ["all", "fluxcd", kind.category()]});
    if let Some(short) = kind.short_name() {
        names["shortNames"] = json!([short]);
    }
    names
}

/// Returns the columns of `kubectl get`, in Flux's order.
fn columns(kind: FluxKind) -> Value {
    let column = |name: &str, path: &str| json!({"name": name, "type": "string", "jsonPath": path});
    let age = json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"});
    let ready = column("Ready", ".status.conditions[?(@.type==\"Ready\")].status");
    let status = column("Status", ".status.conditions[?(@.type==\"Ready\")].message");
    let url = column("URL", ".spec.url");
    match kind {
        FluxKind::GitRepository | FluxKind::HelmRepository => json!([url, age, ready, status]),
        FluxKind::OCIRepository => json!([url, ready, status, age]),
        FluxKind::Bucket => json!([column("Endpoint", ".spec.endpoint"), age, ready, status]),
        FluxKind::HelmChart => json!([
            column("Chart", ".spec.chart"),
            column("Version", ".spec.version"),
            column("Source Kind", ".spec.sourceRef.kind"),
            column("Source Name", ".spec.sourceRef.name"),
            age,
            ready,
            status
        ]),
        FluxKind::ExternalArtifact => {
            json!([age, ready, status, column("Source", ".spec.sourceRef.name")])
        }
        _ => json!([age, ready, status]),
    }
}

fn spec_schema(kind: FluxKind, newest: bool) -> Value {
    let mut schema = match kind {
        FluxKind::Kustomization => schema_of::<KustomizationSpec>(),
        FluxKind::GitRepository => schema_of::<GitRepositorySpec>(),
        FluxKind::HelmRelease => schema_of::<HelmReleaseSpec>(),
        FluxKind::OCIRepository => schema_of::<OCIRepositorySpec>(),
        FluxKind::Bucket => schema_of::<BucketSpec>(),
        FluxKind::HelmRepository => schema_of::<HelmRepositorySpec>(),
        FluxKind::HelmChart => schema_of::<HelmChartSpec>(),
        FluxKind::ExternalArtifact => schema_of::<ExternalArtifactSpec>(),
        FluxKind::ArtifactGenerator => schema_of::<ArtifactGeneratorSpec>(),
        FluxKind::Receiver => schema_of::<ReceiverSpec>(),
        FluxKind::Provider => schema_of::<ProviderSpec>(),
        FluxKind::Alert => schema_of::<AlertSpec>(),
    };
    make_structural(&mut schema, newest);
    schema
}

fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::openapi3().with(|settings| settings.inline_subschemas = true);
    SchemaGenerator::new(settings)
        .into_root_schema_for::<T>()
        .to_value()
}

/// Converts a JSON schema to a structural one: without unions and titles, and with only the
/// defaults that the API server fills in. A schema without a type keeps unknown fields.
fn make_structural(schema: &mut Value, newest: bool) {
    if schema.as_bool() == Some(true) {
        *schema = json!({});
    }
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
    if let Some(Value::Array(required)) = map.get_mut("required") {
        // Sorted as in Flux's definitions, because errors have this order.
        required.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
    }
    if let Some(default) = map.remove("x-default") {
        map.insert("default".to_owned(), default);
    }
    if map.remove("x-older").is_some() && newest {
        refuse(map);
    }
    if let Some(Value::Object(properties)) = map.get_mut("properties") {
        properties
            .values_mut()
            .for_each(|property| make_structural(property, newest));
    }
    if map.get("additionalProperties") == Some(&Value::Bool(true)) {
        map.remove("additionalProperties");
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = map.get_mut(key) {
            make_structural(inner, newest);
        }
    }
    let is_open = match map.get("type").and_then(Value::as_str) {
        None => true,
        Some("object") => {
            !map.contains_key("properties") && !map.contains_key("additionalProperties")
        }
        Some(_) => false,
    };
    if is_open {
        map.insert(
            "x-kubernetes-preserve-unknown-fields".to_owned(),
            Value::Bool(true),
        );
    }
}

/// Adds a rule that refuses a field which only older versions have. The field is declared
/// nevertheless: objects are stored in the newest version, and undeclared fields would be lost.
fn refuse(map: &mut Map<String, Value>) {
    let rule = json!({"rule": "false", "message": "field not declared in schema: only the older versions have it"});
    map.insert("x-kubernetes-validations".to_owned(), json!([rule]));
}

/// Converts `oneOf` with constants, which schemars writes for a documented enum, to `enum`.
fn flatten_one_of(map: &mut Map<String, Value>) {
    for key in ["oneOf", "anyOf", "allOf"] {
        let Some(Value::Array(mut variants)) = map.remove(key) else {
            continue;
        };
        // An optional enum is a union of null and an enum.
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
    use super::super::schema::DURATION;
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
            let text = spec_schema(kind, true).to_string();
            for word in [
                "$ref",
                "oneOf",
                "anyOf",
                "nullable",
                "$schema",
                "x-older",
                "x-default",
            ] {
                assert!(!text.contains(word), "{word} in {text}");
            }
        }
        let schema = spec_schema(FluxKind::Kustomization, true);
        let policy = &schema["properties"]["deletionPolicy"];
        assert_eq!(policy["type"], "string");
        let words = json!(["MirrorPrune", "Delete", "WaitForTermination", "Orphan"]);
        assert_eq!(policy["enum"], words);
        assert_eq!(
            schema["properties"]["dependsOn"]["items"]["required"],
            json!(["name"])
        );
        assert_eq!(
            schema["required"],
            json!(["interval", "prune", "sourceRef"])
        );
        assert_eq!(schema["properties"]["force"]["default"], false);
        assert_eq!(schema["properties"]["interval"]["pattern"], DURATION);
    }

    /// Collects the paths of a schema that allow unknown fields.
    fn open(schema: &Value, path: &str, found: &mut Vec<String>) {
        if schema["x-kubernetes-preserve-unknown-fields"] == true {
            found.push(path.to_owned());
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            open(property, &format!("{path}.{name}"), found);
        }
        for key in ["items", "additionalProperties"] {
            if let Some(inner) = schema.get(key) {
                open(inner, path, found);
            }
        }
    }

    #[test]
    fn only_values_and_old_patches_allow_unknown_fields() {
        let mut found = Vec::new();
        for kind in FluxKind::ALL {
            open(&spec_schema(kind, true), kind.as_str(), &mut found);
        }
        found.retain(|path| {
            !path.contains(".patchesStrategicMerge") && !path.contains(".patchesJson6902")
        });
        assert_eq!(found, ["HelmRelease.values"]);
    }

    fn without_descriptions(schema: &mut Value) {
        match schema {
            Value::Object(map) => {
                if map.get("description").is_some_and(Value::is_string) {
                    map.remove("description");
                }
                map.values_mut().for_each(without_descriptions);
            }
            Value::Array(items) => items.iter_mut().for_each(without_descriptions),
            _ => {}
        }
    }

    /// `definition.json` is what controller-gen makes of the types of source-watcher 2.3.1.
    #[test]
    fn the_spec_of_artifact_generators_is_that_of_flux() {
        let text = include_str!("../../../tests/corpus/artifact-generator/definition.json");
        let flux: Value = serde_json::from_str(text).unwrap();
        let flux = flux.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec");
        let mut ours = spec_schema(FluxKind::ArtifactGenerator, true);
        without_descriptions(&mut ours);
        assert_eq!(Some(&ours), flux);
    }

    #[test]
    fn undeclared_fields_are_named() {
        let definitions = custom_resource_definitions();
        let releases = definitions
            .iter()
            .find(|one| one.name().starts_with("helmreleases."));
        let object = json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": {"name": "web"},
            "spec": {"interval": "5m", "forceUpgrade": true, "values": {"any": {"thing": 1}},
                "valuesFrom": [{"kind": "Secret", "name": "a"}, {"kind": "Secret", "name": "b", "key": "x"}],
                "commonMetadata": {"labels": {"any": "thing"}}}});
        let object = Object::new(object).unwrap();
        assert_eq!(
            undeclared(releases.unwrap(), &object),
            ["spec.forceUpgrade", "spec.valuesFrom[1].key"]
        );
    }

    #[test]
    fn fields_of_older_versions_are_declared_and_refused_in_the_newest() {
        for (kind, field) in [
            (FluxKind::Kustomization, "patchesStrategicMerge"),
            (FluxKind::GitRepository, "gitImplementation"),
            (FluxKind::HelmChart, "valuesFile"),
        ] {
            let rules = |newest: bool| {
                spec_schema(kind, newest)["properties"][field]["x-kubernetes-validations"].clone()
            };
            assert_eq!(rules(true)[0]["rule"], "false", "{kind}");
            assert_eq!(rules(false), Value::Null, "{kind}");
        }
    }
}
