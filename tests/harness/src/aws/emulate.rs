//! Adapts the translated template where MiniStack 1.5.33 differs from AWS, so
//! that it has the same effect in both. What is deployed to AWS is not changed.

use serde_json::{Map, Value, json};

/// Adapts a translated template before it is deployed with these parameters.
pub(super) fn adapt(template: &mut Value, parameters: &[(&str, &str)]) {
    let numbers = numbers(template, parameters);
    write_numbers(&mut template["Resources"], &numbers);
    if let Some(resources) = template["Resources"].as_object_mut() {
        resources.retain(|_, resource| has_effect(resource));
    }
    for (_, resource) in template["Resources"].as_object_mut().into_iter().flatten() {
        allow_batches(resource);
    }
}

/// Checks that MiniStack can create a resource. It has no TLS, which the policies of the bucket and
/// of the queues require, and no alarm on a query.
fn has_effect(resource: &Value) -> bool {
    match resource["Type"].as_str() {
        Some("AWS::S3::BucketPolicy" | "AWS::SQS::QueuePolicy") => false,
        Some("AWS::CloudWatch::Alarm") => resource["Properties"].get("Metrics").is_none(),
        _ => true,
    }
}

/// Returns the parameters of type Number with their values. MiniStack inserts
/// them as strings, and its queue poller then compares strings with numbers.
fn numbers(template: &Value, given: &[(&str, &str)]) -> Map<String, Value> {
    let parameters = template["Parameters"].as_object();
    let number = |(name, parameter): (&String, &Value)| {
        if parameter["Type"] != "Number" {
            return None;
        }
        let given = given.iter().find(|(key, _)| key == name);
        let default = parameter["Default"].to_string();
        let text = given.map_or(default.trim_matches('"'), |(_, value)| value);
        Some((name.clone(), serde_json::from_str(text).ok()?))
    };
    parameters
        .into_iter()
        .flatten()
        .filter_map(number)
        .collect()
}

fn write_numbers(value: &mut Value, numbers: &Map<String, Value>) {
    let referred = value["Ref"].as_str().and_then(|name| numbers.get(name));
    match (referred, value) {
        (Some(number), value) => *value = number.clone(),
        (None, Value::Object(fields)) => {
            fields
                .values_mut()
                .for_each(|field| write_numbers(field, numbers));
        }
        (None, Value::Array(items)) => {
            items
                .iter_mut()
                .for_each(|item| write_numbers(item, numbers));
        }
        _ => {}
    }
}

/// Adds `sqs:SendMessageBatch` to each statement that allows `sqs:SendMessage`.
/// On AWS the latter includes the batch call; MiniStack checks a separate
/// permission that AWS does not have.
fn allow_batches(resource: &mut Value) {
    let properties = &mut resource["Properties"];
    let document = properties.pointer_mut("/PolicyDocument/Statement");
    if let Some(statements) = document {
        allow_batches_of(statements);
    }
    let policies = properties.get_mut("Policies").and_then(Value::as_array_mut);
    for policy in policies.into_iter().flatten() {
        allow_batches_of(&mut policy["PolicyDocument"]["Statement"]);
    }
}

fn allow_batches_of(statements: &mut Value) {
    for statement in statements.as_array_mut().into_iter().flatten() {
        let actions = match &statement["Action"] {
            Value::Array(actions) => actions.clone(),
            action => vec![action.clone()],
        };
        if actions.contains(&json!("sqs:SendMessage")) {
            let batch = std::iter::once(json!("sqs:SendMessageBatch"));
            statement["Action"] = actions.into_iter().chain(batch).collect();
        }
    }
}
