//! Valid and invalid objects, made from the schema of a definition: each field with valid and with
//! invalid values, each required field left out, unknown fields, and each pair of fields that a
//! rule names.

use regex::Regex;
use serde_json::{Map, Value, json};

/// An object to create.
pub struct Case {
    /// The kind, the field and the change of its value.
    pub name: String,
    /// The path of the field.
    pub field: String,
    /// The API path at which the object is created.
    pub path: String,
    /// The whole object.
    pub object: Value,
}

/// A variant of a value: the description of the change, and the value.
type Variant = (String, Value);

/// Returns the cases of a definition's newest version.
pub fn of(definition: &Value) -> Vec<Case> {
    let spec = &definition["spec"];
    let version = &spec["versions"][0];
    let text = |value: &Value| value.as_str().expect("a string").to_owned();
    let kind = text(&spec["names"]["kind"]);
    let group_version = format!("{}/{}", text(&spec["group"]), text(&version["name"]));
    let path = format!(
        "/apis/{group_version}/namespaces/default/{}",
        text(&spec["names"]["plural"])
    );
    let schema = &version["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let least = least(&kind, schema);
    let mut found: Vec<(String, String, Value)> = Vec::new();
    for (done, value) in variants(schema) {
        found.push(("spec".to_owned(), done, value));
    }
    for (name, property) in properties(schema) {
        let wrap = |value: Value| with(&least, name, value);
        walk(property, &wrap, &format!("spec.{name}"), &mut found);
    }
    pairs(schema, &least, &mut found);
    let case = |(field, done, value): (String, String, Value)| Case {
        name: format!("{kind} {field}: {done}"),
        field,
        path: path.clone(),
        object: json!({"apiVersion": group_version, "kind": kind,
            "metadata": {"name": "a", "namespace": "default"}, "spec": value}),
    };
    found.into_iter().map(case).collect()
}

/// Returns the smallest spec that is accepted.
fn least(kind: &str, schema: &Value) -> Value {
    let spec = sample(schema);
    match kind {
        "HelmRelease" => with(
            &spec,
            "chartRef",
            json!({"kind": "OCIRepository", "name": "a"}),
        ),
        "Receiver" => with(&spec, "secretRef", json!({"name": "a"})),
        _ => spec,
    }
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema["properties"].as_object().into_iter().flatten()
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

fn with(object: &Value, field: &str, value: Value) -> Value {
    let mut object = object.clone();
    object[field] = value;
    object
}

fn without(object: &Value, field: &str) -> Value {
    let mut object = object.clone();
    object.as_object_mut().and_then(|map| map.remove(field));
    object
}

/// Returns a value that a schema accepts.
fn sample(schema: &Value) -> Value {
    if let Some(word) = schema["enum"].get(0) {
        return word.clone();
    }
    match schema["type"].as_str() {
        Some("string") => {
            let pattern = schema["pattern"]
                .as_str()
                .map(|text| Regex::new(text).expect("a pattern"));
            let fits = |text: &&str| {
                pattern
                    .as_ref()
                    .is_none_or(|pattern| pattern.is_match(text))
            };
            let known = [
                "a",
                "5m",
                "https://a.example/b",
                "oci://a.example/b",
                "@a",
                "@a/b",
                "@artifact/b",
            ];
            json!(
                known
                    .iter()
                    .find(|text| fits(text))
                    .expect("a matching string")
            )
        }
        Some("boolean") => json!(true),
        Some("integer") => json!(1),
        Some("array") => json!([sample(&schema["items"])]),
        Some("object") if schema["additionalProperties"].is_object() => {
            json!({"a": sample(&schema["additionalProperties"])})
        }
        Some("object") => {
            let needed = texts(&schema["required"]);
            let fields = needed.map(|name| (name.to_owned(), sample(&schema["properties"][name])));
            Value::Object(fields.collect())
        }
        _ => json!({"a": 1}),
    }
}

/// Returns values that a schema accepts and values that it does not.
fn variants(schema: &Value) -> Vec<Variant> {
    let mut found = vec![
        ("valid".to_owned(), sample(schema)),
        ("null".to_owned(), Value::Null),
    ];
    let mut add = |done: String, value: Value| found.push((done, value));
    let kind = schema["type"].as_str();
    match kind {
        None => {}
        Some("integer") => add("another type".into(), json!("x")),
        Some(_) => add("another type".into(), json!(7)),
    }
    for word in texts(&schema["enum"]) {
        add(word.to_owned(), json!(word));
    }
    match kind {
        Some("string") => {
            for text in [
                "", "soon", "1h", "1.5m", "1d", "git@a:b", "http://a", "ssh://a", "oci://a",
            ] {
                add(format!("'{text}'"), json!(text));
            }
            let most = schema["maxLength"]
                .as_u64()
                .and_then(|most| usize::try_from(most).ok());
            for length in most
                .into_iter()
                .flat_map(|most| [most, most + 1])
                .chain([3000])
            {
                add(format!("{length} characters"), json!("a".repeat(length)));
            }
        }
        Some("array") => {
            let item = sample(&schema["items"]);
            add("nothing in it".into(), json!([]));
            add("two in it".into(), json!([item, item]));
        }
        Some("object") => {
            add("empty".into(), json!({}));
            let valid = sample(schema);
            for name in texts(&schema["required"]) {
                add(format!("without {name}"), without(&valid, name));
            }
            if schema["properties"].is_object() {
                add(
                    "unknown field".into(),
                    with(&valid, "unknownField", json!("a")),
                );
                let all = properties(schema).map(|(name, one)| (name.clone(), sample(one)));
                add(
                    "every field".into(),
                    Value::Object(all.collect::<Map<_, _>>()),
                );
            }
        }
        _ => {}
    }
    found
}

/// Collects the variants of a field and of all fields below it, in a spec.
fn walk(
    schema: &Value,
    wrap: &dyn Fn(Value) -> Value,
    path: &str,
    found: &mut Vec<(String, String, Value)>,
) {
    for (done, value) in variants(schema) {
        found.push((path.to_owned(), done, wrap(value)));
    }
    match schema["type"].as_str() {
        Some("object") => {
            let valid = sample(schema);
            for (name, property) in properties(schema) {
                let below = |value: Value| wrap(with(&valid, name, value));
                walk(property, &below, &format!("{path}.{name}"), found);
            }
            let others = &schema["additionalProperties"];
            if others.is_object() {
                let below = |value: Value| wrap(json!({"key": value}));
                walk(others, &below, &format!("{path}{{}}"), found);
            }
        }
        Some("array") => {
            let below = |value: Value| wrap(json!([value]));
            walk(&schema["items"], &below, &format!("{path}[]"), found);
        }
        _ => {}
    }
}

/// Collects each pair of fields that the rules of a spec name, with each of their enum values.
fn pairs(schema: &Value, least: &Value, found: &mut Vec<(String, String, Value)>) {
    let rules = schema["x-kubernetes-validations"].to_string();
    let is_named = |name: &str| {
        let pattern = Regex::new(&format!(r"self\.{name}\b")).expect("a pattern");
        pattern.is_match(&rules)
    };
    let named: Vec<(&String, &Value)> = properties(schema)
        .filter(|(name, _)| is_named(name))
        .collect();
    for (index, (first, one)) in named.iter().enumerate() {
        found.push((
            "spec".to_owned(),
            format!("without {first}"),
            without(least, first),
        ));
        for (second, other) in &named[index + 1..] {
            for a in choices(one) {
                for b in choices(other) {
                    let done = format!("{first} {a}, {second} {b}");
                    let spec = with(&with(least, first, a.clone()), second, b);
                    found.push(("spec".to_owned(), done, spec));
                }
            }
        }
    }
}

/// Returns the values of a field that a rule may treat differently.
fn choices(schema: &Value) -> Vec<Value> {
    let mut all = vec![sample(schema)];
    all.extend(texts(&schema["enum"]).map(|word| json!(word)));
    for (name, property) in properties(schema) {
        let words = texts(&property["enum"]).map(|word| with(&all[0], name, json!(word)));
        let words: Vec<Value> = words.collect();
        all.extend(words);
    }
    if schema["properties"].is_object() {
        let every = properties(schema).map(|(name, one)| (name.clone(), sample(one)));
        all.push(Value::Object(every.collect()));
    }
    all
}
