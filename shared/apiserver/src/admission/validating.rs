//! ValidatingAdmissionPolicies.

use ::cel::Value as Cel;
use serde_json::{Value, json};

use super::evaluation::{Evaluation, ignores_failures};
use super::policies::{self, Request};
use crate::error::ApiError;
use crate::store::state::State;
use crate::values::{text, texts};

/// The longest message that an expression may make.
const MAX_MESSAGE: usize = 5 * 1024;

/// A refusal of a policy, before the `validationActions` of a binding are applied.
struct Denial {
    message: String,
    reason: String,
}

impl Denial {
    fn failure(message: String) -> Self {
        Self {
            message,
            reason: "Invalid".to_owned(),
        }
    }
}

/// Evaluates the ValidatingAdmissionPolicies of a request. Adds a warning for each refusal whose
/// binding only warns. Audit annotations are evaluated only for their errors, since this server has
/// no audit log.
///
/// # Errors
/// The first refusal that a binding denies, as the real server answers it.
pub(crate) fn validate(
    state: &State,
    request: &Request<'_>,
    warnings: &mut Vec<String>,
) -> Result<(), ApiError> {
    let mut denied: Option<(String, String)> = None;
    let mut deny = |policy: &str, binding: Option<&str>, denial: Denial| {
        let with = binding.map_or_else(String::new, |binding| format!(" with binding '{binding}'"));
        let message = format!(
            "ValidatingAdmissionPolicy '{policy}'{with} denied request: {}",
            denial.message
        );
        denied.get_or_insert((message, denial.reason));
    };
    for (policy, matched) in policies::matching(state, request, "validating") {
        let name = text(&policy, "/metadata/name");
        let matched = match matched {
            Ok(matched) => matched,
            Err(detail) => {
                if !ignores_failures(&policy) {
                    deny(
                        name,
                        None,
                        Denial::failure(format!("failed to configure policy: {detail}")),
                    );
                }
                continue;
            }
        };
        for binding in &matched.bindings {
            let bound = text(binding, "/metadata/name");
            let params = match policies::params(state, request, &policy, binding) {
                Ok(params) => params,
                Err(detail) => {
                    if !ignores_failures(&policy) {
                        let detail = format!("failed to configure binding: {detail}");
                        deny(name, Some(bound), Denial::failure(detail));
                    }
                    continue;
                }
            };
            for param in params {
                let evaluation = Evaluation::new(state, request, &matched, param.as_deref());
                let (denials, failures) = decide(&policy, &evaluation);
                for denial in denials {
                    let actions = texts(&binding["spec"]["validationActions"]);
                    if actions.iter().any(|action| action == "Warn") {
                        warnings.push(format!(
                            "Validation failed for ValidatingAdmissionPolicy '{name}' with binding '{bound}': {}",
                            denial.message
                        ));
                    }
                    if actions.iter().any(|action| action == "Deny") {
                        deny(name, Some(bound), denial);
                    }
                }
                for detail in failures {
                    deny(name, Some(bound), Denial::failure(detail));
                }
            }
        }
    }
    let Some((message, reason)) = denied else {
        return Ok(());
    };
    let name = if request.name.is_empty() {
        "Unknown"
    } else {
        request.name
    };
    let mut error = ApiError::forbidden(request.resource, name, &message);
    error.code = match reason.as_str() {
        "Forbidden" => 403,
        "Unauthorized" => 401,
        "RequestEntityTooLarge" => 413,
        _ => 422,
    };
    error.reason = reason;
    error
        .details
        .insert("causes".into(), json!([{"message": message}]));
    Err(error)
}

/// Returns the refusals of a policy, and the failures of its audit annotations.
fn decide(policy: &Value, evaluation: &Evaluation<'_>) -> (Vec<Denial>, Vec<String>) {
    let failed = |detail: String| {
        if evaluation.ignores_failures() {
            Vec::new()
        } else {
            vec![Denial::failure(detail)]
        }
    };
    match evaluation.conditions() {
        Ok(true) => {}
        Ok(false) => return (Vec::new(), Vec::new()),
        Err(detail) => return (failed(detail.into()), Vec::new()),
    }
    let mut denials = Vec::new();
    for validation in policy["spec"]["validations"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let expression = text(validation, "/expression");
        match evaluation.value(expression) {
            Ok(Cel::Bool(true)) => {}
            Ok(_) => {
                let reason = text(validation, "/reason");
                denials.push(Denial {
                    message: message(validation, evaluation),
                    reason: if reason.is_empty() { "Invalid" } else { reason }.to_owned(),
                });
            }
            Err(detail) => denials.extend(failed(detail.into())),
        }
    }
    let mut failures = Vec::new();
    for annotation in policy["spec"]["auditAnnotations"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let expression = text(annotation, "/valueExpression");
        match evaluation.value(expression) {
            Ok(Cel::String(_) | Cel::Null) => {}
            Ok(other) => failures.push(format!(
                "valueExpression '{expression}' resulted in unsupported return type: {}. Return type must be either string or null.",
                other.type_of()
            )),
            Err(detail) if !evaluation.ignores_failures() => failures.push(detail.into()),
            Err(_) => {}
        }
    }
    (denials, failures)
}

/// Returns the message of a validation: that of its `messageExpression`, else its `message`, else
/// one with the expression.
fn message(validation: &Value, evaluation: &Evaluation<'_>) -> String {
    let expression = text(validation, "/messageExpression");
    if !expression.trim().is_empty()
        && let Ok(Cel::String(made)) = evaluation.value(expression)
    {
        let made = made.trim();
        if !made.is_empty() && made.len() <= MAX_MESSAGE && !made.contains('\n') {
            return made.to_owned();
        }
    }
    match text(validation, "/message").trim() {
        "" => format!(
            "failed expression: {}",
            text(validation, "/expression").trim()
        ),
        written => written.to_owned(),
    }
}
