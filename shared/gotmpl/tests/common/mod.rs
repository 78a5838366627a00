//! Data with Go's types, and the runner of one case of the corpus.

use driftless_gotmpl::{Functions, IntType, Limits, MissingKey, Templates, Value};
use serde_json::Value as Json;

/// Parses the data of the cases; objects with a `$` key have a type.
pub fn data(text: &str) -> Value {
    typed(&serde_json::from_str(text).unwrap())
}

fn typed(json: &Json) -> Value {
    match json {
        Json::Null => Value::Nil,
        Json::Bool(b) => Value::Bool(*b),
        Json::Number(n) => Value::Float(n.as_f64().unwrap()),
        Json::String(s) => Value::str(s),
        Json::Array(items) => Value::list(items.iter().map(typed).collect()),
        Json::Object(map) => {
            let tag = map.iter().next().map_or(("", &Json::Null), |(k, v)| (k, v));
            let int = |v: &Json| v.as_str().unwrap().parse().unwrap();
            match tag {
                ("$int", v) => Value::int(int(v)),
                ("$int64", v) => Value::int64(int(v)),
                ("$uint8", v) => Value::Int(int(v), IntType::Uint8),
                ("$bytes", v) => Value::Bytes(v.as_str().unwrap().as_bytes().into()),
                ("$strings", v) => {
                    Value::strings(v.as_array().unwrap().iter().map(|s| s.as_str().unwrap()))
                }
                ("$nil", _) => Value::Nil,
                _ => Value::map(map.iter().map(|(k, v)| (k, typed(v)))),
            }
        }
    }
}

/// Runs a case and returns a description of its failure, if it fails.
pub fn run(case: &Json, data: &Value) -> Option<String> {
    let template = case["template"].as_str().unwrap();
    let missing = match case["missingkey"].as_str() {
        Some("zero") => MissingKey::Zero,
        Some("error") => MissingKey::Error,
        _ => MissingKey::Default,
    };
    let mut set = Templates::new(Functions::new()).missing_key(missing);
    let got = set
        .parse("t", template)
        .and_then(|()| set.execute("t", data.clone(), &(), Limits::default()))
        .map(|text| String::from_utf8_lossy(&text).into_owned())
        .map_err(|error| error.message);
    let want = match case["got"].as_str() {
        Some(got) => Ok(got.to_owned()),
        None => Err(case["error"].as_str().unwrap().to_owned()),
    };
    (got != want).then(|| format!("{template:?}\n  want {want:?}\n  got  {got:?}"))
}
