//! Errors, with the API server's messages and reasons.

use serde_json::{Map, Value, json};

use crate::resources::Resource;

/// An error that is answered as a Status object.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError {
    /// The HTTP status.
    pub code: u16,
    /// The machine-readable reason, which may be empty.
    pub reason: String,
    /// The message for people.
    pub message: String,
    /// `details` of the Status.
    pub details: Map<String, Value>,
    /// Seconds for `Retry-After`.
    pub retry_after: Option<u32>,
    /// True if `details` are written even when they are empty.
    pub detailed: bool,
}

/// A cause in the details of an `Invalid` status, as kubectl prints it by line.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// The cause type, such as `FieldValueInvalid`.
    pub kind: &'static str,
    /// The message without the field.
    pub message: String,
    /// The path of the field, such as `spec.replicas`.
    pub field: String,
}

impl FieldError {
    /// Returns the error of a value that is not valid.
    pub fn invalid(field: &str, value: &Value, detail: &str) -> Self {
        Self {
            kind: "FieldValueInvalid",
            message: format!("Invalid value: {}: {detail}", quote(value)),
            field: field.to_owned(),
        }
    }

    /// Returns the error of a value that is not valid, in a type that Go does not quote.
    pub fn invalid_raw(field: &str, value: &str, detail: &str) -> Self {
        Self {
            kind: "FieldValueInvalid",
            message: format!("Invalid value: {value}: {detail}"),
            field: field.to_owned(),
        }
    }

    /// Returns the error of a missing value.
    pub fn required(field: &str, detail: &str) -> Self {
        let message = if detail.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {detail}")
        };
        Self {
            kind: "FieldValueRequired",
            message,
            field: field.to_owned(),
        }
    }

    /// Returns the error of a value that is not one of the known ones.
    pub fn unsupported(field: &str, value: &Value, known: &[&str]) -> Self {
        let known: Vec<String> = known.iter().map(|text| format!("{text:?}")).collect();
        Self {
            kind: "FieldValueNotSupported",
            message: format!(
                "Unsupported value: {}: supported values: {}",
                quote(value),
                known.join(", ")
            ),
            field: field.to_owned(),
        }
    }

    /// Returns the error of a value that must not be set.
    pub fn forbidden(field: &str, detail: &str) -> Self {
        Self {
            kind: "FieldValueForbidden",
            message: format!("Forbidden: {detail}"),
            field: field.to_owned(),
        }
    }

    /// Returns the error of a duplicate value.
    pub fn duplicate(field: &str, value: &Value) -> Self {
        Self {
            kind: "FieldValueDuplicate",
            message: format!("Duplicate value: {}", quote(value)),
            field: field.to_owned(),
        }
    }

    /// Returns the error of a value that is too long.
    pub fn too_long(field: &str, limit: usize) -> Self {
        Self {
            kind: "FieldValueTooLong",
            message: format!("Too long: may not be more than {limit} bytes"),
            field: field.to_owned(),
        }
    }

    /// Returns the error that replaces the CEL rules of an object with structural errors.
    pub fn rules_unchecked() -> Self {
        let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to \
                   complete validation";
        Self::invalid_raw("<nil>", "null", detail)
    }

    /// Returns whether the error is structural, so that CEL rules cannot be evaluated over the
    /// object.
    pub fn is_structural(&self) -> bool {
        matches!(
            self.kind,
            "FieldValueNotSupported"
                | "FieldValueRequired"
                | "FieldValueTooLong"
                | "FieldValueTooMany"
                | "FieldValueTypeInvalid"
        )
    }

    /// Returns the error of a value of another type.
    pub fn type_invalid(field: &str, value: &str, detail: &str) -> Self {
        Self {
            kind: "FieldValueTypeInvalid",
            message: format!("Invalid value: {value}: {detail}"),
            field: field.to_owned(),
        }
    }
}

fn quote(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        other => other.to_string(),
    }
}

impl ApiError {
    /// Returns an error with empty details.
    pub fn new(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.to_owned(),
            message: message.into(),
            details: Map::new(),
            retry_after: None,
            detailed: matches!(reason, "NotFound" | "MethodNotAllowed" | "NotAcceptable"),
        }
    }

    /// Returns a 400 error.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// Returns a 500 error.
    pub fn internal(message: &str) -> Self {
        let mut error = Self::new(
            500,
            "InternalError",
            format!("Internal error occurred: {message}"),
        );
        error
            .details
            .insert("causes".into(), json!([{"message": message}]));
        error
    }

    /// Returns the same error, with `details` even when they are empty.
    #[must_use]
    pub fn with_details(mut self) -> Self {
        self.detailed = true;
        self
    }

    /// Returns an error without a reason.
    pub fn unknown(message: &str) -> Self {
        Self::new(500, "", message)
    }

    fn on(mut self, resource: &Resource, name: &str) -> Self {
        if !name.is_empty() {
            self.details.insert("name".into(), name.into());
        }
        if !resource.group.is_empty() {
            self.details
                .insert("group".into(), resource.group.clone().into());
        }
        self.details
            .insert("kind".into(), resource.plural.clone().into());
        self
    }

    /// Returns the error of an object that does not exist.
    pub fn not_found(resource: &Resource, name: &str) -> Self {
        let message = format!("{} {name:?} not found", resource.qualified());
        Self::new(404, "NotFound", message).on(resource, name)
    }

    /// Returns the error of a path that is not served.
    pub fn no_such_path() -> Self {
        let mut error = Self::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
        );
        error.details = Map::new();
        error
    }

    /// Returns the error of an object that already exists.
    pub fn already_exists(resource: &Resource, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", resource.qualified());
        Self::new(409, "AlreadyExists", message).on(resource, name)
    }

    /// Returns the error of a conflict with another write.
    pub fn conflict(resource: &Resource, name: &str, detail: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} {name:?}: {detail}",
            resource.qualified()
        );
        Self::new(409, "Conflict", message).on(resource, name)
    }

    /// Returns the error of a request that is forbidden.
    pub fn forbidden(resource: &Resource, name: &str, detail: &str) -> Self {
        let message = if name.is_empty() {
            format!("{} is forbidden: {detail}", resource.qualified())
        } else {
            format!("{} {name:?} is forbidden: {detail}", resource.qualified())
        };
        Self::new(403, "Forbidden", message).on(resource, name)
    }

    /// Returns the error of an object with invalid fields.
    pub fn invalid(group: &str, kind: &str, name: &str, problems: &[FieldError]) -> Self {
        let mut texts: Vec<String> = problems
            .iter()
            .map(|problem| {
                if problem.field.is_empty() {
                    problem.message.clone()
                } else {
                    format!("{}: {}", problem.field, problem.message)
                }
            })
            .collect();
        let mut seen = std::collections::BTreeSet::new();
        texts.retain(|text| seen.insert(text.clone()));
        let list = match texts.as_slice() {
            [] => "<nil>".to_owned(),
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let kind_text = if group.is_empty() {
            kind.to_owned()
        } else {
            format!("{kind}.{group}")
        };
        let mut error = Self::new(
            422,
            "Invalid",
            format!("{kind_text} {name:?} is invalid: {list}"),
        );
        if !name.is_empty() {
            error.details.insert("name".into(), name.into());
        }
        if !group.is_empty() {
            error.details.insert("group".into(), group.into());
        }
        if !kind.is_empty() {
            error.details.insert("kind".into(), kind.into());
        }
        let causes: Vec<Value> = problems
            .iter()
            .map(|problem| json!({"reason": problem.kind, "message": problem.message, "field": problem.field}))
            .collect();
        error.details.insert("causes".into(), Value::Array(causes));
        error
    }

    /// Returns the Status object.
    pub fn to_status(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.clone().into();
        }
        let details = !self.details.is_empty();
        if details || self.detailed {
            status["details"] = Value::Object(self.details.clone());
        }
        status
    }
}
