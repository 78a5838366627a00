//! Validation by a structural schema, with the API server's messages.

use serde_json::Value;

use crate::error::FieldError;
use crate::resources::Compiled;

/// Checks an object without its metadata, which has its own rules. Values that are equal in the old
/// object are not checked.
pub(super) fn root(
    schema: &Value,
    compiled: &Compiled,
    object: &Value,
    old: Option<&Value>,
    out: &mut Vec<FieldError>,
) {
    let mut check = Check { compiled, out };
    if let Some(map) = object.as_object() {
        required(schema, map, "", check.out);
    }
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        if matches!(key.as_str(), "apiVersion" | "kind" | "metadata") {
            continue;
        }
        if let Some(value) = object.get(key) {
            let old = old.and_then(|old| old.get(key));
            check.value(property, value, old, key);
        }
    }
}

/// The state of a check: the compiled patterns, and the errors that were found.
struct Check<'a> {
    compiled: &'a Compiled,
    out: &'a mut Vec<FieldError>,
}

fn required(
    schema: &Value,
    map: &serde_json::Map<String, Value>,
    path: &str,
    out: &mut Vec<FieldError>,
) {
    for key in crate::values::texts(&schema["required"]) {
        if !map.contains_key(&key) {
            out.push(FieldError::required(&join(path, &key), ""));
        }
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_i64() || number.is_u64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

impl Check<'_> {
    fn value(&mut self, schema: &Value, value: &Value, old: Option<&Value>, path: &str) {
        if old == Some(value) || (value.is_null() && schema["nullable"] == true) {
            return;
        }
        if schema["x-kubernetes-int-or-string"] == true {
            if !matches!(kind(value), "integer" | "string") {
                self.out.push(type_problem(path, "integer,string", value));
            }
            return;
        }
        if let Some(wanted) = schema["type"].as_str() {
            let found = kind(value);
            let fits = found == wanted
                || (wanted == "number" && found == "integer")
                || (wanted == "integer" && value.as_f64().is_some_and(|n| n.fract() == 0.0));
            if !fits {
                self.out.push(type_problem(path, wanted, value));
                self.words(schema, value, path);
                return;
            }
        }
        self.words(schema, value, path);
        let invalid =
            |detail: String| FieldError::invalid(path, value, &format!("{path} in body {detail}"));
        match value {
            Value::String(text) => {
                text_rules(schema, self.compiled, text, path, &invalid, self.out);
            }
            Value::Number(number) => {
                let number = number.as_f64().unwrap_or_default();
                number_rules(schema, number, &invalid, self.out);
            }
            Value::Array(list) => self.list(schema, list, old, path),
            Value::Object(map) => self.map(schema, map, old, path, &invalid),
            _ => {}
        }
    }

    fn words(&mut self, schema: &Value, value: &Value, path: &str) {
        if let Some(known) = schema["enum"].as_array()
            && !known.contains(value)
        {
            let known: Vec<&str> = known.iter().filter_map(Value::as_str).collect();
            self.out.push(FieldError::unsupported(path, value, &known));
        }
    }

    fn map(
        &mut self,
        schema: &Value,
        map: &serde_json::Map<String, Value>,
        old: Option<&Value>,
        path: &str,
        invalid: &dyn Fn(String) -> FieldError,
    ) {
        required(schema, map, path, self.out);
        let count = |key: &str| schema[key].as_u64().and_then(|n| usize::try_from(n).ok());
        if let Some(most) = count("maxProperties").filter(|most| map.len() > *most) {
            self.out.push(too_many(path, map.len(), most));
        }
        if let Some(least) = count("minProperties").filter(|least| map.len() < *least) {
            let detail = format!("should have at least {least} properties");
            self.out.push(invalid(detail));
        }
        for (key, value) in map {
            let property = schema["properties"].get(key);
            let others = schema.get("additionalProperties").filter(|o| o.is_object());
            if let Some(below) = property.or(others) {
                let old = old.and_then(|old| old.get(key));
                self.value(below, value, old, &join(path, key));
            }
        }
    }

    fn list(&mut self, schema: &Value, list: &[Value], old: Option<&Value>, path: &str) {
        let count = |key: &str| schema[key].as_u64().and_then(|n| usize::try_from(n).ok());
        if let Some(most) = count("maxItems").filter(|most| list.len() > *most) {
            self.out.push(too_many(path, list.len(), most));
        }
        if let Some(least) = count("minItems").filter(|least| list.len() < *least) {
            let found = list.len();
            self.out.push(FieldError::invalid_raw(
                path,
                &found.to_string(),
                &format!("{path} in body should have at least {least} items"),
            ));
        }
        for (index, value) in list.iter().enumerate() {
            let old = old.and_then(|old| same_item(schema, old, value));
            self.value(&schema["items"], value, old, &format!("{path}[{index}]"));
        }
        duplicates(schema, list, path, self.out);
    }
}

/// Returns the item of the old list that has the same keys; only lists with keys have one.
pub(super) fn same_item<'a>(schema: &Value, old: &'a Value, value: &Value) -> Option<&'a Value> {
    let keys = crate::values::texts(&schema["x-kubernetes-list-map-keys"]);
    let mut items = old.as_array()?.iter().filter(|_| !keys.is_empty());
    items.find(|item| keys.iter().all(|key| item.get(key) == value.get(key)))
}

fn type_problem(path: &str, wanted: &str, value: &Value) -> FieldError {
    let found = kind(value);
    FieldError::type_invalid(
        path,
        &format!("{found:?}"),
        &format!("{path} in body must be of type {wanted}: {found:?}"),
    )
}

fn too_many(path: &str, count: usize, most: usize) -> FieldError {
    FieldError {
        kind: "FieldValueTooMany",
        message: format!(
            "Too many: {count}: must have at most {most} item{}",
            if most == 1 { "" } else { "s" }
        ),
        field: path.to_owned(),
    }
}

fn text_rules(
    schema: &Value,
    compiled: &Compiled,
    text: &str,
    path: &str,
    invalid: &dyn Fn(String) -> FieldError,
    out: &mut Vec<FieldError>,
) {
    let length = text.chars().count();
    let count = |key: &str| schema[key].as_u64().and_then(|n| usize::try_from(n).ok());
    if let Some(most) = count("maxLength").filter(|most| length > *most) {
        out.push(FieldError::too_long(path, most));
    }
    if let Some(least) = count("minLength").filter(|least| length < *least) {
        out.push(invalid(format!("should be at least {least} chars long")));
    }
    if let Some(pattern) = schema["pattern"].as_str()
        && compiled
            .pattern(pattern)
            .is_some_and(|regex| !regex.is_match(text))
    {
        out.push(invalid(format!("should match '{pattern}'")));
    }
    if let Some(format) = schema["format"].as_str() {
        let fits = match format {
            "date-time" => text.parse::<jiff::Timestamp>().is_ok(),
            "ipv4" => text.parse::<std::net::Ipv4Addr>().is_ok(),
            "ipv6" => text.parse::<std::net::Ipv6Addr>().is_ok(),
            _ => true,
        };
        if !fits {
            out.push(invalid(format!("must be of type {format}: {text:?}")));
        }
    }
}

fn number_rules(
    schema: &Value,
    number: f64,
    invalid: &dyn Fn(String) -> FieldError,
    out: &mut Vec<FieldError>,
) {
    if let Some(most) = schema["maximum"].as_f64() {
        let exclusive = schema["exclusiveMaximum"] == true;
        if number > most || (exclusive && number >= most) {
            let words = if exclusive {
                "less than"
            } else {
                "less than or equal to"
            };
            out.push(invalid(format!("should be {words} {most}")));
        }
    }
    if let Some(least) = schema["minimum"].as_f64() {
        let exclusive = schema["exclusiveMinimum"] == true;
        if number < least || (exclusive && number <= least) {
            let words = if exclusive {
                "greater than"
            } else {
                "greater than or equal to"
            };
            out.push(invalid(format!("should be {words} {least}")));
        }
    }
    if let Some(of) = schema["multipleOf"].as_f64()
        && of > 0.0
        && (number / of).fract() != 0.0
    {
        out.push(invalid(format!("should be a multiple of {of}")));
    }
}

fn duplicates(schema: &Value, list: &[Value], path: &str, out: &mut Vec<FieldError>) {
    let keys = crate::values::texts(&schema["x-kubernetes-list-map-keys"]);
    let set = schema["x-kubernetes-list-type"] == "set";
    if !set && keys.is_empty() {
        return;
    }
    let of = |value: &Value| -> Value {
        if set {
            return value.clone();
        }
        let own = keys
            .iter()
            .filter_map(|key| Some((key.clone(), value.get(key)?.clone())));
        Value::Object(own.collect())
    };
    for (index, value) in list.iter().enumerate() {
        if list[..index].iter().any(|earlier| of(earlier) == of(value)) {
            out.push(FieldError::duplicate(
                &format!("{path}[{index}]"),
                &of(value),
            ));
        }
    }
}
