//! The CEL rules of a schema (`x-kubernetes-validations`).

use driftless_cel::Data;
use driftless_fuel::Tank;
use serde_json::Value;

use super::check::same_item;
use crate::error::FieldError;
use crate::expressions::{Failure, OUT_OF_BUDGET, base, check_fuel};
use crate::resources::Compiled;

/// Evaluates the rules of a schema and of the schemas below it. For values that are equal in the
/// old object, evaluates only the rules that compare with it.
pub(super) fn root(
    schema: &Value,
    compiled: &Compiled,
    object: &Value,
    old: Option<&Value>,
    out: &mut Vec<FieldError>,
) {
    let fuel = check_fuel();
    let mut rules = Rules {
        compiled,
        fuel,
        out,
    };
    rules.walk(schema, object, old, "");
}

/// Returns whether a schema, or one below it, has rules.
pub(super) fn any(schema: &Value) -> bool {
    let below = schema["properties"].as_object().into_iter().flatten();
    let mut below = below.map(|(_, schema)| schema);
    schema.get("x-kubernetes-validations").is_some()
        || below.any(any)
        || ["items", "additionalProperties"]
            .iter()
            .any(|key| schema.get(key).is_some_and(any))
}

/// The state of an evaluation: the compiled rules, and the errors that were found.
struct Rules<'a> {
    compiled: &'a Compiled,
    fuel: Tank,
    out: &'a mut Vec<FieldError>,
}

impl Rules<'_> {
    fn walk(&mut self, schema: &Value, value: &Value, old: Option<&Value>, path: &str) {
        let rules = schema["x-kubernetes-validations"].as_array();
        for rule in rules.into_iter().flatten() {
            let compares = rule["rule"]
                .as_str()
                .is_some_and(|text| text.contains("oldSelf"));
            let is_due = match old {
                Some(old) => compares || old != value,
                None => !compares,
            };
            if is_due {
                let problem = evaluate(self, rule, value, old, path);
                self.out.extend(problem);
            }
        }
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    let property = schema["properties"].get(key);
                    let others = schema.get("additionalProperties").filter(|o| o.is_object());
                    if let Some(below) = property.or(others) {
                        let path = if path.is_empty() {
                            key.clone()
                        } else {
                            format!("{path}.{key}")
                        };
                        self.walk(below, value, old.and_then(|old| old.get(key)), &path);
                    }
                }
            }
            Value::Array(list) => {
                for (index, value) in list.iter().enumerate() {
                    let old = old.and_then(|old| same_item(schema, old, value));
                    self.walk(&schema["items"], value, old, &format!("{path}[{index}]"));
                }
            }
            _ => {}
        }
    }
}

fn evaluate(
    rules: &Rules<'_>,
    rule: &Value,
    value: &Value,
    old: Option<&Value>,
    path: &str,
) -> Option<FieldError> {
    let text = rule["rule"].as_str().unwrap_or_default();
    let refused = |detail: &str| {
        let message = match value {
            Value::Object(_) | Value::Array(_) => format!("Invalid value: {detail}"),
            other => format!("Invalid value: {other}: {detail}"),
        };
        Some(FieldError {
            kind: "FieldValueInvalid",
            message,
            field: path.to_owned(),
        })
    };
    let Some(expression) = rules.compiled.rule(text) else {
        return refused(&format!("rule compile error: {text}"));
    };
    let mut data = match base() {
        Ok(language) => Data::new(language, &rules.fuel),
        Err(detail) => return refused(detail.as_str()),
    };
    data.add("self", value);
    if let Some(old) = old {
        data.add("oldSelf", old);
    }
    match expression.evaluate(&data) {
        Ok(cel::Value::Bool(true)) => None,
        Ok(cel::Value::Bool(false)) => {
            let message = rule["message"]
                .as_str()
                .map_or_else(|| format!("failed rule: {text}"), str::to_owned);
            refused(&message)
        }
        Ok(_) => refused(&format!("failed rule: {text}")),
        Err(Failure::Budget) => refused(OUT_OF_BUDGET),
        Err(Failure::Evaluation(error)) => refused(&format!(
            "{error} evaluating rule: {}",
            rule["message"].as_str().unwrap_or(text)
        )),
    }
}
