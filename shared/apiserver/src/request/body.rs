//! Reading the bodies of requests: media types, JSON, YAML, protobuf, and the kind that a document says it is.

use driftless_manifest::yaml::{self, Dialect, Limits, YamlError, YamlErrorKind};
use serde_json::Value;

use crate::error::ApiError;
use crate::objects::Validation;
use crate::objects::patch::PatchKind;
use crate::request::call::Call;
use crate::resources::Resource;
use crate::values::json::Document;
use crate::values::{json, text};

const YAML: &str = "application/yaml";
/// The largest document, as the real server's.
const LIMITS: Limits = Limits {
    bytes: 3 << 20,
    depth: 1_000,
    nodes: 500_000,
    documents: 1,
};

/// The body as JSON with the kind that the path demands.
pub(crate) fn body_object(call: &Call<'_>, resource: &Resource) -> Result<Document, ApiError> {
    let body = &call.request.body;
    let content = call.request.header("content-type");
    let media = content.split(';').next().unwrap_or_default().trim();
    if !matches!(
        media,
        "" | "application/json" | "*/*" | YAML | crate::objects::protobuf::MEDIA
    ) {
        return Err(unsupported_media(&[
            "application/json",
            "application/yaml",
            "application/vnd.kubernetes.protobuf",
        ]));
    }
    let Document {
        value: document,
        duplicate_fields,
    } = match media {
        crate::objects::protobuf::MEDIA => Document {
            value: crate::objects::protobuf::read(&crate::schema::builtin(), body)
                .map_err(ApiError::bad_request)?,
            duplicate_fields: Vec::new(),
        },
        YAML => Document {
            value: from_yaml(body).map_err(|why| unrecognized(body, resource, &why))?,
            duplicate_fields: Vec::new(),
        },
        _ => from_json(body, resource)?,
    };
    let shown = || {
        let text = String::from_utf8_lossy(body);
        text.into_owned()
    };
    if !document.is_object() {
        return Err(ApiError::bad_request(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            match &document {
                Value::Array(_) => "array",
                Value::String(_) => "string",
                Value::Number(_) => "number",
                Value::Bool(_) => "bool",
                _ => "object",
            }
        )));
    }
    let (api_version, kind) = (text(&document, "/apiVersion"), text(&document, "/kind"));
    let defaulted_kind = if kind.is_empty() {
        resource.kind.as_str()
    } else {
        kind
    };
    let own = resource.api_version();
    let defaulted_version = if api_version.is_empty() {
        own.as_str()
    } else {
        api_version
    };
    if resource.custom.is_some() {
        if kind.is_empty() {
            return Err(ApiError::bad_request(format!(
                "Object 'Kind' is missing in '{}'",
                shown()
            )));
        }
        if api_version.is_empty() {
            return Err(ApiError::bad_request(format!(
                "Object 'apiVersion' is missing in '{}'",
                shown()
            )));
        }
    }
    if defaulted_version != own || defaulted_kind != resource.kind {
        let version = version_of(defaulted_version);
        if resource.custom.is_some() {
            return Err(ApiError::bad_request(format!(
                "the API version in the data ({defaulted_version}) does not match the expected API version ({own})"
            )));
        }
        let known = resource
            .schema
            .kinds
            .contains_key(&format!("{defaulted_version}/{defaulted_kind}"));
        let why = if known {
            let (of, own) = (defaulted_kind, package(&resource.group));
            format!(
                "converting ({version}.{of}) to ({own}.{}): unknown conversion",
                resource.kind
            )
        } else {
            format!(
                "no kind {defaulted_kind:?} is registered for version {defaulted_version:?} in scheme \"pkg/runtime/scheme.go:111\""
            )
        };
        return Err(ApiError::bad_request(format!(
            "{defaulted_kind} in version {version:?} cannot be handled as a {}: {why}",
            resource.kind
        )));
    }
    Ok(Document {
        value: document,
        duplicate_fields,
    })
}

/// Warns of fields that a document has more than once, or refuses them.
///
/// # Errors
/// One of them, when the request is strict about it.
pub(crate) fn check_duplicate_fields(
    duplicate_fields: &[String],
    resource: &Resource,
    validation: Validation,
    warnings: &mut Vec<String>,
) -> Result<(), ApiError> {
    let told = duplicate_fields
        .iter()
        .map(|path| format!("duplicate field {path:?}"));
    match validation {
        Validation::Strict if !duplicate_fields.is_empty() => {
            let told: Vec<String> = told.collect();
            Err(ApiError::bad_request(format!(
                "{kind} in version {:?} cannot be handled as a {kind}: strict decoding error: {}",
                resource.version,
                told.join(", "),
                kind = resource.kind
            )))
        }
        Validation::Warn => {
            warnings.extend(told);
            Ok(())
        }
        _ => Ok(()),
    }
}

fn from_json(body: &[u8], resource: &Resource) -> Result<Document, ApiError> {
    json::read(body).map_err(|error| {
        let why = if error.is_eof() {
            "unexpected end of JSON input".to_owned()
        } else {
            error.to_string()
        };
        let why = format!("couldn't get version/kind; json parse error: {why}");
        unrecognized(body, resource, &why)
    })
}

/// A text that is no document of any kind, shown as Go shows bytes.
fn unrecognized(body: &[u8], resource: &Resource, why: &str) -> ApiError {
    let shown = if why.starts_with("yaml") {
        body.iter().map(|byte| format!("{byte:02x}")).collect()
    } else {
        String::from_utf8_lossy(body).into_owned()
    };
    ApiError::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): {why} ({shown})",
        resource.kind
    ))
}

/// The one document of a YAML text; nothing at all is an empty object.
fn from_yaml(body: &[u8]) -> Result<Value, String> {
    let documents = yaml::documents(body, "", Dialect::V2, &LIMITS);
    match documents {
        Ok(mut documents) => Ok(documents.pop().unwrap_or_else(|| serde_json::json!({}))),
        Err(YamlError { line, kind, .. }) => Err(match kind {
            YamlErrorKind::DuplicateKey { key, .. } => {
                format!("yaml: line {line}: key {key:?} already set in map")
            }
            other => format!("yaml: line {line}: {other}"),
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

/// The configuration of a server-side apply: YAML, most often in its JSON form.
pub(crate) fn apply_document(body: &[u8]) -> Result<Value, ApiError> {
    let refuse = |why: String| ApiError::bad_request(format!("error decoding YAML: {why}"));
    let config = match json::read(body) {
        Ok(document) if document.duplicate_fields.is_empty() => document.value,
        _ => from_yaml(body)
            .map_err(|why| refuse(format!("error converting YAML to JSON: {why}")))?,
    };
    let kind = match &config {
        Value::Object(_) => return Ok(config),
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "bool",
        Value::Null => "null",
    };
    Err(refuse(format!(
        "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
    )))
}

/// The package of a group in the API server's own code, as its messages name it.
fn package(group: &str) -> &str {
    match group {
        "" => "core",
        other => other.split('.').next().unwrap_or_default(),
    }
}
