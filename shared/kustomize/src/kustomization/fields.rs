//! The fields of a kustomization file, as Go's JSON decoder takes them: names in any case, null as absent, types strict.

use serde_json::{Map, Value};
use std::borrow::Cow;

/// What a field holds.
pub(super) enum Type {
    Text,
    Bool,
    Int,
    /// Texts by name; the names are the user's.
    Texts,
    List(&'static Type),
    Struct(&'static [(&'static str, Type)]),
    /// A map of anything.
    Map,
}

use Type::{Bool, Int, List, Struct, Text, Texts};

static FIELD_SPEC: [(&str, Type); 5] = [
    ("group", Text),
    ("version", Text),
    ("kind", Text),
    ("path", Text),
    ("create", Bool),
];

static SELECTOR: [(&str, Type); 7] = [
    ("group", Text),
    ("version", Text),
    ("kind", Text),
    ("name", Text),
    ("namespace", Text),
    ("annotationSelector", Text),
    ("labelSelector", Text),
];

static PATCH: [(&str, Type); 4] = [
    ("path", Text),
    ("patch", Text),
    ("target", Struct(&SELECTOR)),
    ("options", Struct(&PATCH_OPTIONS)),
];

static IMAGE: [(&str, Type); 5] = [
    ("name", Text),
    ("newName", Text),
    ("tagSuffix", Text),
    ("newTag", Text),
    ("digest", Text),
];

static GENERATOR_OPTIONS: [(&str, Type); 4] = [
    ("labels", Texts),
    ("annotations", Texts),
    ("disableNameSuffixHash", Bool),
    ("immutable", Bool),
];

static CONFIG_MAP: [(&str, Type); 8] = [
    ("namespace", Text),
    ("name", Text),
    ("behavior", Text),
    ("literals", List(&Text)),
    ("files", List(&Text)),
    ("envs", List(&Text)),
    ("env", Text),
    ("options", Struct(&GENERATOR_OPTIONS)),
];

static SECRET: [(&str, Type); 9] = [
    ("namespace", Text),
    ("name", Text),
    ("behavior", Text),
    ("literals", List(&Text)),
    ("files", List(&Text)),
    ("envs", List(&Text)),
    ("env", Text),
    ("options", Struct(&GENERATOR_OPTIONS)),
    ("type", Text),
];

static HELM_GLOBALS: [(&str, Type); 2] = [("chartHome", Text), ("configHome", Text)];

static OLD_HELM_CHART: [(&str, Type); 13] = [
    ("chartName", Text),
    ("chartVersion", Text),
    ("chartRepoUrl", Text),
    ("chartHome", Text),
    ("chartRepoName", Text),
    ("helmBin", Text),
    ("helmHome", Text),
    ("values", Text),
    ("valuesLocal", Type::Map),
    ("valuesMerge", Text),
    ("releaseName", Text),
    ("releaseNamespace", Text),
    ("extraArgs", List(&Text)),
];

/// A chart, and the configuration of the `HelmChartInflationGenerator`, which has the fields that charts have in common, too.
pub(super) static HELM: [(&str, Type); 19] = [
    ("chartHome", Text),
    ("configHome", Text),
    ("name", Text),
    ("version", Text),
    ("repo", Text),
    ("releaseName", Text),
    ("namespace", Text),
    ("additionalValuesFiles", List(&Text)),
    ("valuesFile", Text),
    ("valuesInline", Type::Map),
    ("valuesMerge", Text),
    ("includeCRDs", Bool),
    ("skipHooks", Bool),
    ("apiVersions", List(&Text)),
    ("kubeVersion", Text),
    ("nameTemplate", Text),
    ("skipTests", Bool),
    ("debug", Bool),
    ("devel", Bool),
];

static FIELD_OPTIONS: [(&str, Type); 4] = [
    ("delimiter", Text),
    ("index", Int),
    ("encoding", Text),
    ("create", Bool),
];

pub(super) static REPLACEMENT: [(&str, Type); 4] = [
    (
        "source",
        Struct(&[
            ("group", Text),
            ("version", Text),
            ("kind", Text),
            ("name", Text),
            ("namespace", Text),
            ("fieldPath", Text),
            ("options", Struct(&FIELD_OPTIONS)),
        ]),
    ),
    (
        "targets",
        List(&Struct(&[
            ("select", Struct(&SELECTOR)),
            ("reject", List(&Struct(&SELECTOR))),
            ("fieldPaths", List(&Text)),
            ("options", Struct(&FIELD_OPTIONS)),
        ])),
    ),
    ("sourceValue", Text),
    ("path", Text),
];

static LABEL: [(&str, Type); 5] = [
    ("pairs", Texts),
    ("includeSelectors", Bool),
    ("includeTemplates", Bool),
    ("includeVolumeClaimTemplates", Bool),
    ("fields", List(&Struct(&FIELD_SPEC))),
];

static VAR: [(&str, Type); 3] = [
    ("name", Text),
    (
        "objref",
        Struct(&[
            ("apiVersion", Text),
            ("group", Text),
            ("version", Text),
            ("kind", Text),
            ("name", Text),
            ("namespace", Text),
        ]),
    ),
    ("fieldref", Struct(&[("fieldPath", Text)])),
];

static METADATA: [(&str, Type); 4] = [
    ("name", Text),
    ("namespace", Text),
    ("labels", Texts),
    ("annotations", Texts),
];

/// The fields of a kustomization.
pub(super) static KUSTOMIZATION: [(&str, Type); 34] = [
    ("kind", Text),
    ("apiVersion", Text),
    ("metadata", Struct(&METADATA)),
    ("openapi", Texts),
    ("namePrefix", Text),
    ("nameSuffix", Text),
    ("namespace", Text),
    ("commonLabels", Texts),
    ("labels", List(&Struct(&LABEL))),
    ("commonAnnotations", Texts),
    ("patchesStrategicMerge", List(&Text)),
    ("patchesJson6902", List(&Struct(&PATCH))),
    ("patches", List(&Struct(&PATCH))),
    ("images", List(&Struct(&IMAGE))),
    ("imageTags", List(&Struct(&IMAGE))),
    ("replacements", List(&Struct(&REPLACEMENT))),
    ("replicas", List(&Struct(&REPLICA))),
    ("vars", List(&Struct(&VAR))),
    (
        "sortOptions",
        Struct(&[
            ("order", Text),
            (
                "legacySortOptions",
                Struct(&[("orderFirst", List(&Text)), ("orderLast", List(&Text))]),
            ),
        ]),
    ),
    ("resources", List(&Text)),
    ("components", List(&Text)),
    ("crds", List(&Text)),
    ("bases", List(&Text)),
    ("configMapGenerator", List(&Struct(&CONFIG_MAP))),
    ("secretGenerator", List(&Struct(&SECRET))),
    ("helmGlobals", Struct(&HELM_GLOBALS)),
    ("helmCharts", List(&Struct(&HELM))),
    (
        "helmChartInflationGenerator",
        List(&Struct(&OLD_HELM_CHART)),
    ),
    ("generatorOptions", Struct(&GENERATOR_OPTIONS)),
    ("configurations", List(&Text)),
    ("generators", List(&Text)),
    ("transformers", List(&Text)),
    ("validators", List(&Text)),
    ("buildMetadata", List(&Text)),
];

/// How strictly values are taken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Mode {
    /// Whether unknown fields are refused; else they are dropped.
    pub strict: bool,
    /// Whether numbers and booleans become texts where a text is expected, as when Go reads YAML into a known type.
    pub coerce: bool,
}

static BACK_REFERENCES: [(&str, Type); 4] = [
    ("group", Text),
    ("version", Text),
    ("kind", Text),
    ("fieldSpecs", List(&Struct(&FIELD_SPEC))),
];

/// A file under `configurations`.
pub(super) static CONFIGURATION: [(&str, Type); 12] = [
    ("namePrefix", List(&Struct(&FIELD_SPEC))),
    ("nameSuffix", List(&Struct(&FIELD_SPEC))),
    ("namespace", List(&Struct(&FIELD_SPEC))),
    ("commonLabels", List(&Struct(&FIELD_SPEC))),
    ("labels", List(&Struct(&FIELD_SPEC))),
    ("templateLabels", List(&Struct(&FIELD_SPEC))),
    ("volumeClaimTemplateLabels", List(&Struct(&FIELD_SPEC))),
    ("commonAnnotations", List(&Struct(&FIELD_SPEC))),
    ("nameReference", List(&Struct(&BACK_REFERENCES))),
    ("varReference", List(&Struct(&FIELD_SPEC))),
    ("images", List(&Struct(&FIELD_SPEC))),
    ("replicas", List(&Struct(&FIELD_SPEC))),
];

/// The configuration of any built-in generator.
pub(super) static GENERATOR: &[(&str, Type)] = &SECRET;

/// The configuration of the `IAMPolicyGenerator`.
pub(super) static IAM: [(&str, Type); 3] = [
    ("cloud", Text),
    (
        "kubernetesService",
        Struct(&[("name", Text), ("namespace", Text)]),
    ),
    (
        "serviceAccount",
        Struct(&[("name", Text), ("projectId", Text)]),
    ),
];

/// The configuration of any built-in transformer.
pub(super) static TRANSFORMER: [(&str, Type); 20] = [
    ("annotations", Texts),
    ("labels", Texts),
    ("fieldSpecs", List(&Struct(&FIELD_SPEC))),
    ("imageTag", Struct(&IMAGE)),
    ("unsetOnly", Bool),
    ("setRoleBindingSubjects", Text),
    ("target", Struct(&SELECTOR)),
    ("path", Text),
    ("patch", Text),
    ("jsonOp", Text),
    ("options", Struct(&PATCH_OPTIONS)),
    ("paths", List(&Text)),
    ("patches", Text),
    ("prefix", Text),
    ("suffix", Text),
    ("replacements", List(&Struct(&REPLACEMENT))),
    ("replica", Struct(&REPLICA)),
    ("value", Text),
    ("targetFilePath", Text),
    (
        "targets",
        List(&Struct(&[
            ("selector", Struct(&SELECTOR)),
            ("fieldPath", Text),
            ("filePathPosition", Int),
        ])),
    ),
];

static PATCH_OPTIONS: [(&str, Type); 2] = [("allowNameChange", Bool), ("allowKindChange", Bool)];
static REPLICA: [(&str, Type); 2] = [("name", Text), ("count", Int)];

/// Brings a value into the form that the model reads.
///
/// # Errors
/// `field.path: what was expected`, for an unknown field or a value of another type.
pub(super) fn normalize(value: Value, kind: &Type, at: &str, mode: Mode) -> Result<Value, String> {
    let expected = |what: &str| Err(format!("'{at}' is {}, expected {what}", what_is(&value)));
    match (kind, &value) {
        (Type::Map, Value::Object(_)) | (Text, Value::String(_)) | (Bool, Value::Bool(_)) => {
            Ok(value)
        }
        (Type::Map, _) => expected("a map"),
        (Int, Value::Number(number)) if number.is_i64() || number.is_u64() => Ok(value),
        (Text, Value::Bool(_) | Value::Number(_)) if mode.coerce => {
            Ok(Value::String(value.to_string()))
        }
        (Text, Value::Null) => Ok(Value::String(String::new())),
        (Text, _) => expected("a text"),
        (Bool, _) => expected("true or false"),
        (Int, _) => expected("a whole number"),
        (Texts, Value::Object(_)) => texts(value, at, mode),
        (Texts, _) => expected("a map of texts"),
        (List(element), Value::Array(_)) => {
            let Value::Array(items) = value else {
                return Ok(value);
            };
            let item = |(index, item)| normalize(item, element, &format!("{at}[{index}]"), mode);
            Ok(Value::Array(
                items
                    .into_iter()
                    .enumerate()
                    .map(item)
                    .collect::<Result<_, _>>()?,
            ))
        }
        (List(_), _) => expected("a list"),
        (Struct(fields), Value::Object(_)) => {
            let Value::Object(map) = value else {
                return Ok(value);
            };
            object(map, fields, at, mode)
        }
        (Struct(_), Value::Null) => Ok(Value::Object(Map::new())),
        (Struct(_), _) => expected("a map"),
    }
}

fn object(
    map: Map<String, Value>,
    fields: &[(&str, Type)],
    at: &str,
    mode: Mode,
) -> Result<Value, String> {
    let mut result = Map::new();
    for (key, value) in map {
        let path = if at.is_empty() {
            Cow::from(&key)
        } else {
            Cow::from(format!("{at}.{key}"))
        };
        let exact = fields.iter().find(|(name, _)| *name == key);
        let field = exact.or_else(|| {
            fields
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case(&key))
        });
        match field {
            Some(_) if value.is_null() => {}
            Some((name, kind)) => {
                result.insert((*name).to_owned(), normalize(value, kind, &path, mode)?);
            }
            None if !mode.strict => {}
            None => return Err(format!("unknown field '{path}'{}", nearest(&key, fields))),
        }
    }
    Ok(Value::Object(result))
}

fn texts(value: Value, at: &str, mode: Mode) -> Result<Value, String> {
    let Value::Object(map) = value else {
        return Ok(value);
    };
    let text = |(key, value): (String, Value)| match value {
        Value::String(_) => Ok((key, value)),
        Value::Null => Ok((key, Value::String(String::new()))),
        Value::Bool(_) | Value::Number(_) if mode.coerce => {
            Ok((key, Value::String(value.to_string())))
        }
        other => Err(format!(
            "'{at}.{key}' is {}, expected a text: put it in quotes",
            what_is(&other)
        )),
    };
    Ok(Value::Object(
        map.into_iter().map(text).collect::<Result<_, _>>()?,
    ))
}

fn what_is(value: &Value) -> &'static str {
    match value {
        Value::Null => "empty",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

/// A field that differs by a plural or a letter, as a hint.
fn nearest(key: &str, fields: &[(&str, Type)]) -> String {
    let lower = key.to_lowercase();
    let close = |name: &str| {
        let name = name.to_lowercase();
        name.starts_with(&lower)
            || lower.starts_with(&name)
            || name.trim_end_matches('s') == lower.trim_end_matches('s')
    };
    match fields.iter().find(|(name, _)| close(name)) {
        Some((name, _)) if lower.len() > 3 => format!(", did you mean '{name}'?"),
        _ => String::new(),
    }
}
