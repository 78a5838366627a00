//! The CEL rules of a schema (`x-kubernetes-validations`).

use serde_json::Value;

use crate::error::FieldError;

/// Evaluates the rules of a schema and of the schemas below it.
pub(super) fn root(schema: &Value, object: &Value, old: Option<&Value>, out: &mut Vec<FieldError>) {
    walk(schema, object, old, "", out);
}

fn walk(schema: &Value, value: &Value, old: Option<&Value>, path: &str, out: &mut Vec<FieldError>) {
    for rule in schema["x-kubernetes-validations"]
        .as_array()
        .into_iter()
        .flatten()
    {
        if let Some(problem) = evaluate(rule, value, old, path) {
            out.push(problem);
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
                    walk(below, value, old.and_then(|old| old.get(key)), &path, out);
                }
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                walk(
                    &schema["items"],
                    value,
                    None,
                    &format!("{path}[{index}]"),
                    out,
                );
            }
        }
        _ => {}
    }
}

fn evaluate(rule: &Value, value: &Value, old: Option<&Value>, path: &str) -> Option<FieldError> {
    let text = rule["rule"].as_str().unwrap_or_default();
    if text.contains("oldSelf") && old.is_none() {
        return None;
    }
    let refused = |why: &str| {
        let message = match value {
            Value::Object(_) | Value::Array(_) => format!("Invalid value: {why}"),
            other => format!("Invalid value: {other}: {why}"),
        };
        Some(FieldError {
            kind: "FieldValueInvalid",
            message,
            field: path.to_owned(),
        })
    };
    let program = match cel::Program::compile(text) {
        Ok(program) => program,
        Err(_) => return refused(&format!("rule compile error: {text}")),
    };
    let mut context = cel::Context::default();
    if context.add_variable("self", value).is_err() {
        return refused("the value cannot be given to the rule");
    }
    if let Some(old) = old
        && context.add_variable("oldSelf", old).is_err()
    {
        return refused("the old value cannot be given to the rule");
    }
    match program.execute(&context) {
        Ok(cel::Value::Bool(true)) => None,
        Ok(cel::Value::Bool(false)) => {
            let message = rule["message"]
                .as_str()
                .map_or_else(|| format!("failed rule: {text}"), str::to_owned);
            refused(&message)
        }
        Ok(_) => refused(&format!("failed rule: {text}")),
        Err(error) => refused(&format!(
            "{error} evaluating rule: {}",
            rule["message"].as_str().unwrap_or(text)
        )),
    }
}
