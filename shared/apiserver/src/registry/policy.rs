//! Validation of admission policies and their bindings, mainly of their expressions.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::error::FieldError;
use crate::expressions::Expression;
use crate::values::{is_zero, text};

/// The variables that an admission policy's expressions have.
pub(crate) const POLICY_VARIABLES: [&str; 7] = [
    "object",
    "oldObject",
    "request",
    "params",
    "namespaceObject",
    "variables",
    "authorizer",
];

/// Adds the errors of a ValidatingAdmissionPolicy.
pub(crate) fn validating(object: &Value, out: &mut Vec<FieldError>) {
    let mut check = Check::new(object, out);
    check.constraints();
    check.match_conditions();
    check.variables();
    let spec = &object["spec"];
    if is_zero(&spec["validations"]) && is_zero(&spec["auditAnnotations"]) {
        let detail = "validations or auditAnnotations must contain at least one item";
        for field in ["spec.validations", "spec.auditAnnotations"] {
            check.out.push(FieldError::required(field, detail));
        }
        return;
    }
    for (index, validation) in each(spec, "validations").enumerate() {
        let at = format!("spec.validations[{index}]");
        check.expression(
            &format!("{at}.expression"),
            &validation["expression"],
            "expression",
            true,
        );
        if !is_zero(&validation["messageExpression"]) {
            let field = format!("{at}.messageExpression");
            check.expression(
                &field,
                &validation["messageExpression"],
                "messageExpression",
                true,
            );
        }
        let message = text(validation, "/message");
        if message.trim().contains(['\n', '\r']) {
            let detail = "must not contain line breaks";
            let field = format!("{at}.message");
            check
                .out
                .push(FieldError::invalid(&field, &message.into(), detail));
        }
        let reason = text(validation, "/reason");
        const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
        if !reason.is_empty() && !REASONS.contains(&reason) {
            let field = format!("{at}.reason");
            check
                .out
                .push(FieldError::unsupported(&field, &reason.into(), &REASONS));
        }
    }
    check.list("auditAnnotations", &["valueExpression"], true);
}

/// Adds the errors of a MutatingAdmissionPolicy.
pub(crate) fn mutating(object: &Value, out: &mut Vec<FieldError>) {
    let mut check = Check::new(object, out);
    check.constraints();
    check.match_conditions();
    check.variables();
    let spec = &object["spec"];
    if is_zero(&spec["mutations"]) {
        let detail = "mutations must contain at least one item";
        check
            .out
            .push(FieldError::required("spec.mutations", detail));
    }
    for (index, mutation) in each(spec, "mutations").enumerate() {
        let at = format!("spec.mutations[{index}]");
        let field = match text(mutation, "/patchType") {
            "ApplyConfiguration" => "applyConfiguration",
            "JSONPatch" => "jsonPatch",
            "" => {
                let field = format!("{at}.patchType");
                check.out.push(FieldError::required(&field, ""));
                continue;
            }
            other => {
                let known = ["ApplyConfiguration", "JSONPatch"];
                let field = format!("{at}.patchType");
                check
                    .out
                    .push(FieldError::unsupported(&field, &other.into(), &known));
                continue;
            }
        };
        let path = format!("{at}.{field}.expression");
        check.expression(&path, &mutation[field]["expression"], "expression", true);
    }
}

/// Adds the errors of a binding.
pub(crate) fn binding(object: &Value, validating: bool, out: &mut Vec<FieldError>) {
    let spec = &object["spec"];
    if is_zero(&spec["policyName"]) {
        out.push(FieldError::required("spec.policyName", ""));
    }
    if !spec["paramRef"].is_null() {
        let reference = &spec["paramRef"];
        let named = !is_zero(&reference["name"]);
        let selects = !reference["selector"].is_null();
        if named == selects {
            let detail = if named {
                "name and selector are mutually exclusive"
            } else {
                "one of name or selector must be specified"
            };
            let problem = if named {
                FieldError::forbidden("spec.paramRef.name", detail)
            } else {
                FieldError::required("spec.paramRef", detail)
            };
            out.push(problem);
        }
        if is_zero(&reference["parameterNotFoundAction"]) {
            out.push(FieldError::required(
                "spec.paramRef.parameterNotFoundAction",
                "",
            ));
        }
    }
    if !validating {
        return;
    }
    const ACTIONS: [&str; 3] = ["Audit", "Deny", "Warn"];
    let field = "spec.validationActions";
    if is_zero(&spec["validationActions"]) {
        out.push(FieldError::required(
            field,
            "at least one validation action is required",
        ));
    }
    let mut seen = BTreeSet::new();
    for (index, action) in each(spec, "validationActions").enumerate() {
        let own = action.as_str().unwrap_or_default();
        let at = format!("{field}[{index}]");
        if !ACTIONS.contains(&own) {
            out.push(FieldError::unsupported(&at, action, &ACTIONS));
        }
        if !seen.insert(own) {
            out.push(FieldError::duplicate(&at, action));
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        let shown = spec["validationActions"].to_string();
        out.push(FieldError::invalid_raw(field, &shown, detail));
    }
}

fn each<'v>(spec: &'v Value, field: &str) -> impl Iterator<Item = &'v Value> + use<'v> {
    spec[field].as_array().into_iter().flatten()
}

/// Returns whether a name is a CEL identifier.
fn is_identifier(name: &str) -> bool {
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(is_start) && name.chars().all(|c| is_start(c) || c.is_ascii_digit())
}

/// The check of one policy.
struct Check<'c> {
    spec: &'c Value,
    /// The variables that are declared so far.
    declared: BTreeSet<String>,
    out: &'c mut Vec<FieldError>,
}

impl<'c> Check<'c> {
    fn new(object: &'c Value, out: &'c mut Vec<FieldError>) -> Self {
        Self {
            spec: &object["spec"],
            declared: BTreeSet::new(),
            out,
        }
    }

    fn constraints(&mut self) {
        let constraints = &self.spec["matchConstraints"];
        if constraints.is_null() {
            self.out
                .push(FieldError::required("spec.matchConstraints", ""));
        } else if is_zero(&constraints["resourceRules"]) {
            let field = "spec.matchConstraints.resourceRules";
            self.out.push(FieldError::required(field, ""));
        }
    }

    fn variables(&mut self) {
        let spec = self.spec;
        for (index, variable) in each(spec, "variables").enumerate() {
            let at = format!("spec.variables[{index}]");
            let name = text(variable, "/name");
            if name.trim().is_empty() {
                let field = format!("{at}.name");
                self.out
                    .push(FieldError::required(&field, "name is not specified"));
            } else if !is_identifier(name) {
                let field = format!("{at}.name");
                let detail = "must be a valid CEL identifier";
                self.out
                    .push(FieldError::invalid(&field, &name.into(), detail));
            }
            let field = format!("{at}.expression");
            self.expression(&field, &variable["expression"], "expression", true);
            self.declared.insert(name.to_owned());
        }
    }

    fn match_conditions(&mut self) {
        let spec = self.spec;
        for (index, condition) in each(spec, "matchConditions").enumerate() {
            let at = format!("spec.matchConditions[{index}]");
            if text(condition, "/name").is_empty() {
                let field = format!("{at}.name");
                self.out.push(FieldError::required(&field, ""));
            }
            let field = format!("{at}.expression");
            self.expression(&field, &condition["expression"], "expression", false);
        }
    }

    fn list(&mut self, list: &str, fields: &[&str], composed: bool) {
        let spec = self.spec;
        for (index, item) in each(spec, list).enumerate() {
            for field in fields {
                let at = format!("spec.{list}[{index}].{field}");
                self.expression(&at, &item[*field], field, composed);
            }
        }
    }

    /// Checks an expression; `composed` ones may read the policy's variables.
    fn expression(&mut self, at: &str, value: &Value, field: &str, composed: bool) {
        let written = value.as_str().unwrap_or_default();
        if written.trim().is_empty() {
            self.out.push(FieldError::required(
                at,
                &format!("{field} is not specified"),
            ));
            return;
        }
        let has_params = !self.spec["paramKind"].is_null();
        let composed = composed && !is_zero(&self.spec["variables"]);
        let outside: Vec<&str> = POLICY_VARIABLES
            .into_iter()
            .filter(|name| match *name {
                "params" => has_params,
                "variables" => composed,
                "authorizer" => field != "messageExpression",
                _ => true,
            })
            .collect();
        let detail = match Expression::compile(written, &outside) {
            Err(detail) => detail,
            Ok(expression) => {
                let unknown = expression.variables.difference(&self.declared).next();
                let Some(name) = unknown else {
                    return;
                };
                format!("compilation failed: ERROR: undefined field '{name}'\n | {written}").into()
            }
        };
        self.out
            .push(FieldError::invalid(at, &written.into(), detail.as_str()));
    }
}
