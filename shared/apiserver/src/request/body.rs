//! Reading the bodies of requests: media types, JSON, YAML, protobuf, and the check of the
//! document's kind.

use driftless_go::Error as GoError;
use driftless_manifest::yaml::{self, Dialect, Limits, YamlError, YamlErrorKind};
use serde_json::Value;

use crate::error::ApiError;
use crate::objects::patch::PatchKind;
use crate::objects::{Validation, protobuf};
use crate::request::call::Call;
use crate::resources::Resource;
use crate::schema;
use crate::values::json::Document;
use crate::values::{json, json_kind, text};

const YAML: &str = "application/yaml";
/// The limits of a document; the size is the real server's.
const LIMITS: Limits = Limits {
    bytes: 3 << 20,
    depth: 1_000,
    nodes: 500_000,
    documents: 1,
};

/// Reads the body as JSON and checks that it is of the resource's kind.
///
/// # Errors
/// 415 for other media types; 400 for a body that is not a document, and for a document of another
/// kind.
pub(crate) fn body_object(call: &Call<'_>, resource: &Resource) -> Result<Document, ApiError> {
    let document = decode(call, resource)?;
    if !document.value.is_object() {
        let kind = match json_kind(&document.value) {
            "null" => "object",
            kind => kind,
        };
        return Err(ApiError::bad_request(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {kind} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
        )));
    }
    check_kind(&document.value, &call.request.body, resource)?;
    Ok(document)
}

/// Decodes the body by its media type.
fn decode(call: &Call<'_>, resource: &Resource) -> Result<Document, ApiError> {
    let body = &call.request.body;
    let content = call.request.header("content-type");
    let plain = |value: Value| Document {
        value,
        duplicate_fields: Vec::new(),
    };
    match content.split(';').next().unwrap_or_default().trim() {
        protobuf::MEDIA => protobuf::read(&schema::builtin(), body)
            .map(plain)
            .map_err(ApiError::bad_request),
        YAML => from_yaml(body)
            .map(plain)
            .map_err(|detail| unrecognized(body, resource, detail.as_str())),
        "" | "application/json" | "*/*" => from_json(body, resource),
        _ => Err(unsupported_media(&[
            "application/json",
            "application/yaml",
            "application/vnd.kubernetes.protobuf",
        ])),
    }
}

/// Refuses a document of another kind or version than the resource's. Built-in resources may leave
/// them out.
fn check_kind(document: &Value, body: &[u8], resource: &Resource) -> Result<(), ApiError> {
    let own = resource.api_version_ref();
    let (mut api_version, mut kind) = (text(document, "/apiVersion"), text(document, "/kind"));
    if resource.custom.is_some() {
        let missing = [("Kind", kind), ("apiVersion", api_version)];
        if let Some((name, _)) = missing.into_iter().find(|(_, value)| value.is_empty()) {
            let shown = String::from_utf8_lossy(body);
            return Err(ApiError::bad_request(format!(
                "Object '{name}' is missing in '{shown}'"
            )));
        }
    }
    if api_version.is_empty() {
        api_version = own;
    }
    if kind.is_empty() {
        kind = &resource.kind;
    }
    if api_version == own && kind == resource.kind {
        return Ok(());
    }
    if resource.custom.is_some() {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({own})"
        )));
    }
    let version = version_of(api_version);
    let kinds = &resource.schema.kinds;
    let detail = if kinds.contains_key(&format!("{api_version}/{kind}")) {
        let package = package(&resource.group);
        format!(
            "converting ({version}.{kind}) to ({package}.{}): unknown conversion",
            resource.kind
        )
    } else {
        format!(
            "no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/runtime/scheme.go:111\""
        )
    };
    Err(ApiError::bad_request(format!(
        "{kind} in version {version:?} cannot be handled as a {}: {detail}",
        resource.kind
    )))
}

/// Warns of fields that a document has more than once, or refuses them.
///
/// # Errors
/// 400 with all of them, when validation is strict.
pub(crate) fn check_duplicate_fields(
    duplicate_fields: &[String],
    resource: &Resource,
    validation: Validation,
    warnings: &mut Vec<String>,
) -> Result<(), ApiError> {
    let messages = duplicate_fields
        .iter()
        .map(|path| format!("duplicate field {path:?}"));
    match validation {
        Validation::Strict if !duplicate_fields.is_empty() => {
            let messages: Vec<String> = messages.collect();
            Err(ApiError::bad_request(format!(
                "{kind} in version {:?} cannot be handled as a {kind}: strict decoding error: {}",
                resource.version,
                messages.join(", "),
                kind = resource.kind
            )))
        }
        Validation::Warn => {
            warnings.extend(messages);
            Ok(())
        }
        _ => Ok(()),
    }
}

fn from_json(body: &[u8], resource: &Resource) -> Result<Document, ApiError> {
    json::read(body).map_err(|error| {
        let detail = if error.is_eof() {
            "unexpected end of JSON input".to_owned()
        } else {
            error.to_string()
        };
        let detail = format!("couldn't get version/kind; json parse error: {detail}");
        unrecognized(body, resource, detail.as_str())
    })
}

/// Returns the error for a body that is not a document. It contains YAML in hex, as Go formats
/// bytes.
fn unrecognized(body: &[u8], resource: &Resource, detail: &str) -> ApiError {
    let shown = if detail.starts_with("yaml") {
        body.iter().map(|byte| format!("{byte:02x}")).collect()
    } else {
        String::from_utf8_lossy(body).into_owned()
    };
    ApiError::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): {detail} ({shown})",
        resource.kind
    ))
}

/// Reads the only document of a YAML stream; an empty stream is an empty object.
fn from_yaml(body: &[u8]) -> Result<Value, GoError> {
    let documents = yaml::documents(body, "", Dialect::V2, &LIMITS);
    match documents {
        Ok(mut documents) => Ok(documents.pop().unwrap_or_else(|| serde_json::json!({}))),
        Err(YamlError { span, kind, .. }) => Err(match kind {
            YamlErrorKind::DuplicateKey { key, .. } => {
                format!("yaml: line {}: key {key:?} already set in map", span.line).into()
            }
            other => format!("yaml: line {}: {other}", span.line).into(),
        }),
    }
}

fn version_of(api_version: &str) -> &str {
    api_version.rsplit('/').next().unwrap_or_default()
}

fn unsupported_media(known: &[&str]) -> ApiError {
    ApiError::new(
        415,
        "UnsupportedMediaType",
        format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            known.join(", ")
        ),
    )
}

pub(crate) fn patch_kind(content_type: &str, resource: &Resource) -> Result<PatchKind, ApiError> {
    let media = content_type.split(';').next().unwrap_or_default().trim();
    match media {
        "application/json-patch+json" => Ok(PatchKind::Json),
        "application/merge-patch+json" => Ok(PatchKind::Merge),
        "application/strategic-merge-patch+json" if resource.custom.is_none() => {
            Ok(PatchKind::Strategic)
        }
        "application/apply-patch+yaml" => Ok(PatchKind::Apply),
        _ => {
            if resource.custom.is_some() {
                return Err(unsupported_media(&[
                    "application/json-patch+json",
                    "application/merge-patch+json",
                    "application/apply-patch+yaml",
                ]));
            }
            Err(
                ApiError::new(415, "UnsupportedMediaType", "415: Unsupported Media Type")
                    .with_details(),
            )
        }
    }
}

/// Reads the configuration of a server-side apply: YAML, of which JSON is a subset.
pub(crate) fn apply_document(body: &[u8]) -> Result<Value, ApiError> {
    let refuse = |detail: String| ApiError::bad_request(format!("error decoding YAML: {detail}"));
    let config = match json::read(body) {
        Ok(document) if document.duplicate_fields.is_empty() => document.value,
        _ => from_yaml(body)
            .map_err(|detail| refuse(format!("error converting YAML to JSON: {detail}")))?,
    };
    if config.is_object() {
        return Ok(config);
    }
    let kind = json_kind(&config);
    Err(refuse(format!(
        "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
    )))
}

/// Returns the Go package of a group's internal types, as error messages name it.
fn package(group: &str) -> &str {
    match group {
        "" => "core",
        other => other.split('.').next().unwrap_or_default(),
    }
}
