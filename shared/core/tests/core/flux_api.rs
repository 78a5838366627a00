//! Compares FLUX-API.md with the types: there is a row for each kind and each field, and fields
//! that the code refuses are marked as refused.

use driftless_flux::{
    Bucket, FluxKind, GitRepository, HelmChart, OCIRepository, custom_resource_definitions,
};
use driftless_manifest::Object;
use regex::Regex;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const DOCUMENT: &str = include_str!("../../FLUX-API.md");
const REFUSED: &str = "**refused**";

/// Returns the rows of the first table below a heading: the name in the first column, without its
/// quotes, and the rest.
fn rows(heading: &str) -> BTreeMap<String, String> {
    let mut lines = DOCUMENT.lines();
    assert!(lines.any(|line| line == heading), "no '{heading}'");
    let table = lines
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        .skip(2);
    let rows = table.map(|line| {
        let line = line.trim_matches(['|', ' ']);
        let (name, rest) = line.split_once(" |").unwrap_or((line, ""));
        (name.trim_matches('`').to_owned(), rest.trim().to_owned())
    });
    rows.collect()
}

/// Returns the properties of `spec` in the CRD of a kind.
fn properties(kind: FluxKind) -> Map<String, Value> {
    let definitions = custom_resource_definitions();
    let name = format!("{}.{}", kind.plural(), kind.group());
    let definition = definitions.iter().find(|object| object.name() == name);
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    let spec = definition.and_then(|definition| definition.pointer(spec));
    spec.and_then(Value::as_object).cloned().unwrap_or_default()
}

/// Returns the error of the types for an object with this spec.
fn refused(kind: FluxKind, spec: &Value) -> Option<String> {
    let object = json!({"apiVersion": format!("{}/v1", kind.group()), "kind": kind.as_str(),
        "metadata": {"name": "a", "namespace": "apps"}, "spec": spec});
    let object = Object::new(object).expect("an object");
    match kind {
        FluxKind::GitRepository => GitRepository::from_object(object).map(|_| None),
        FluxKind::OCIRepository => OCIRepository::from_object(object).map(|it| it.unsupported()),
        FluxKind::Bucket => Bucket::from_object(object).map(|it| it.unsupported()),
        FluxKind::HelmChart => HelmChart::from_object(object).map(|it| it.unsupported()),
        _ => Ok(None),
    }
    .unwrap_or_else(|error| panic!("{kind} {spec}: {error}"))
}

/// Returns a spec of a kind with its required fields.
fn smallest(kind: FluxKind) -> Value {
    match kind {
        FluxKind::Bucket => json!({"interval": "1m", "bucketName": "a", "endpoint": "s3.example"}),
        FluxKind::HelmChart => json!({"interval": "1m", "chart": "a",
            "sourceRef": {"kind": "HelmRepository", "name": "a"}}),
        _ => json!({"interval": "1m", "url": "https://github.com/acme/fleet"}),
    }
}

/// Returns a value that a field of this schema accepts.
fn sample(schema: &Value) -> Value {
    match schema["type"].as_str() {
        Some("boolean") => json!(true),
        Some("array") => json!([sample(&schema["items"])]),
        Some("string") => json!("else"),
        _ => {
            let fields = schema["properties"].as_object();
            let needed = schema["required"].as_array();
            let fields = fields.into_iter().flatten().filter(|(name, _)| {
                needed.is_some_and(|needed| needed.contains(&json!(name.as_str())))
            });
            let sampled = fields.map(|(name, schema)| (name.clone(), sample(schema)));
            Value::Object(sampled.collect())
        }
    }
}

#[test]
fn every_kind_has_its_row() {
    let kinds = rows("## Kinds");
    assert_eq!(kinds.len(), FluxKind::ALL.len(), "{kinds:?}");
    for kind in FluxKind::ALL {
        let row = kinds.get(kind.as_str());
        let row = row.unwrap_or_else(|| panic!("no row of {kind}"));
        let versions = kind.versions().join("`, `");
        assert_eq!(row, &format!("`{versions}` | served"), "{kind}");
    }
}

#[test]
fn every_field_has_its_row() {
    for kind in FluxKind::ALL {
        let properties = properties(kind);
        let rows = rows(&format!("### {kind}"));
        let missing: Vec<&String> = properties
            .keys()
            .filter(|field| !rows.contains_key(*field))
            .collect();
        let unknown: Vec<&String> = rows
            .keys()
            .filter(|row| !properties.contains_key(row.split('.').next().unwrap_or_default()))
            .collect();
        assert!(
            missing.is_empty() && unknown.is_empty(),
            "{kind}: without a row {missing:?}, without a field {unknown:?}"
        );
    }
}

#[test]
fn fields_that_types_refuse_are_marked_as_refused() {
    for kind in [
        FluxKind::GitRepository,
        FluxKind::OCIRepository,
        FluxKind::Bucket,
        FluxKind::HelmChart,
    ] {
        let rows = rows(&format!("### {kind}"));
        assert_eq!(refused(kind, &smallest(kind)), None, "{kind}");
        for (field, schema) in properties(kind) {
            let mut spec = smallest(kind);
            match &*field {
                "verify" if kind == FluxKind::HelmChart => {
                    spec["sourceRef"]["kind"] = json!("GitRepository");
                    spec["verify"] = json!({});
                }
                // The provider is optional, and decides whether the object is refused.
                "verify" if kind == FluxKind::OCIRepository => {
                    spec["verify"] = json!({"provider": "else"});
                }
                _ => spec[&field] = sample(&schema),
            }
            let row = rows.get(&field).expect("a row");
            let message = refused(kind, &spec);
            assert_eq!(
                message.is_some(),
                row.contains(REFUSED),
                "{kind}, {field}: {message:?}"
            );
            if let Some(message) = message {
                assert!(is_documented(&message, row), "{kind}, {field}: {message}");
            }
        }
    }
}

#[test]
fn each_type_of_provider_in_the_definition_is_sent() {
    let allowed = &properties(FluxKind::Provider)["type"]["enum"];
    let allowed = allowed.as_array().expect("an enum").iter();
    let allowed: BTreeSet<&str> = allowed.filter_map(Value::as_str).collect();
    assert_eq!(allowed, driftless_notify::kinds().collect());
}

/// Checks whether the quoted message of a row is the message of the code, with `X` and `KIND` for
/// the parts that differ.
fn is_documented(message: &str, row: &str) -> bool {
    let quoted = row.split('"').skip(1).step_by(2);
    let mut patterns = quoted.map(|text| {
        let pattern = regex::escape(text).replace("'X'", "'[a-z]+'");
        Regex::new(&pattern.replace("KIND", "[A-Za-z]+")).expect("a pattern")
    });
    patterns.any(|pattern| pattern.is_match(message))
}

/// Refusals of fields that no type reports itself, found by the strings in the sources.
#[test]
fn each_field_that_a_step_refuses_has_a_row() {
    let text = Regex::new(r#""spec\.([a-zA-Z.]+)[^"]*? (?:is not supported|is a field of)"#);
    let text = text.expect("a pattern");
    let mut found = 0;
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let crates = ["flux", "kernel", "source", "helmrelease", "core"];
    let directories = crates.map(|name| shared.join(name).join("src"));
    for file in directories.iter().flat_map(|directory| sources(directory)) {
        let code = fs::read_to_string(&file).expect("read a source");
        for refusal in text.captures_iter(&code) {
            found += 1;
            let field = format!("| `{}`", &refusal[1]);
            let is_refused = |line: &str| line.starts_with(&field) && line.contains("refused");
            assert!(
                DOCUMENT.lines().any(is_refused),
                "{}: no row of a refused {field}",
                file.display()
            );
        }
    }
    assert!(found >= 5, "{found} refusals: the pattern finds no others");
}

fn sources(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a directory");
    let entries = entries.map(|entry| entry.expect("an entry").path());
    let mut files = Vec::new();
    for path in entries {
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path);
        }
    }
    files
}

#[test]
fn kinds_that_are_not_read_are_named() {
    for kind in [
        "ImageRepository",
        "ImagePolicy",
        "ImageUpdateAutomation",
        "FluxInstance",
        "ResourceSet",
    ] {
        assert_eq!(FluxKind::parse(kind), None);
        assert!(DOCUMENT.contains(&format!("`{kind}`")), "{kind}");
    }
}
