//! The form in which requests are compared: without the order of Go's maps, times and random ids.

use crate::recorder::Recorded;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// Arrays whose order is that of a map of Go: the type and the pointer. `*` is any index.
const UNORDERED: &[(&str, &str)] = &[
    ("slack", "/attachments/*/fields"),
    ("discord", "/attachments/*/fields"),
    ("rocket", "/attachments/*/fields"),
    ("msteams", "/sections/*/facts"),
    ("googlechat", "/cards/*/sections/*/widgets"),
    ("grafana", "/tags"),
    ("datadog", "/tags"),
];
/// Strings whose lines have the order of a map of Go.
const UNORDERED_LINES: &[(&str, &str)] = &[
    ("matrix", "/body"),
    ("telegram", "/text"),
    ("lark", "/card/elements/*/text/content"),
    ("webex", "/markdown"),
];
/// The types whose bodies are compared byte for byte.
const EXACT: [&str; 4] = ["generic", "generic-hmac", "nats", "zulip"];

/// A request in the form in which it is compared.
#[derive(Debug, PartialEq)]
pub struct Normal {
    request: Vec<String>,
    body: Value,
}

pub fn normal(kind: &str, request: Recorded) -> Normal {
    let headers = request.headers.iter();
    let mut lines = vec![format!("{} {}", request.method, request.url)];
    lines.extend(headers.map(|(name, value)| header(name, value)));
    Normal {
        request: lines,
        body: match kind {
            "nats" if request.method == "CONNECT" => nats_login(&request.body),
            "otel" => otlp(&request.body),
            "sentry" => sentry(&request.body),
            kind if EXACT.contains(&kind) => text(&request.body),
            kind => json_body(kind, &request.body),
        },
    }
}

/// Returns a header, without the name of Sentry's client, and of a JWT the issuer and the life.
fn header(name: &str, value: &str) -> String {
    if let Some(claims) = value
        .strip_prefix("Bearer eyJ")
        .and_then(|jwt| jwt.split('.').nth(1))
    {
        let claims: Value =
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
        let seconds = |claim: &str| claims[claim].as_i64().unwrap();
        let (issuer, life) = (
            claims["iss"].as_str().unwrap(),
            seconds("exp") - seconds("iat"),
        );
        return format!("{name}: JWT of {issuer} for {life} s");
    }
    let parts = value.trim().split(", ");
    let parts = parts.filter(|part| !part.starts_with("sentry_client="));
    format!("{name}: {}", parts.collect::<Vec<_>>().join(", "))
}

fn text(body: &[u8]) -> Value {
    String::from_utf8_lossy(body).into_owned().into()
}

fn json_body(kind: &str, body: &[u8]) -> Value {
    let Ok(mut body) = serde_json::from_slice(body) else {
        return text(body);
    };
    for (_, pointer) in UNORDERED.iter().filter(|(of, _)| *of == kind) {
        each(&mut body, pointer, &|value| {
            if let Some(items) = value.as_array_mut() {
                items.sort_by_key(Value::to_string);
            }
        });
    }
    for (_, pointer) in UNORDERED_LINES.iter().filter(|(of, _)| *of == kind) {
        each(&mut body, pointer, &|value| {
            if let Some(text) = value.as_str() {
                let mut lines: Vec<&str> = text.split('\n').collect();
                lines.sort_unstable();
                *value = lines.join("\n").into();
            }
        });
    }
    body
}

/// Calls a function for each value that a pointer matches.
fn each(value: &mut Value, pointer: &str, change: &dyn Fn(&mut Value)) {
    let Some(rest) = pointer.strip_prefix('/') else {
        return change(value);
    };
    let (field, rest) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| each(item, rest, change)),
        Value::Object(fields) => {
            if let Some(value) = fields.get_mut(field) {
                each(value, rest, change);
            }
        }
        _ => {}
    }
}

/// Returns the kind of a login at NATS.
fn nats_login(body: &[u8]) -> Value {
    let Ok(connect) = serde_json::from_slice::<Value>(body) else {
        return text(body);
    };
    let has = |field: &str| {
        connect[field]
            .as_str()
            .is_some_and(|value| !value.is_empty())
    };
    let login = match () {
        () if has("jwt") => "Credentials",
        () if has("nkey") => "Nkey",
        () if has("user") => "Password",
        () => "Anonymous",
    };
    login.into()
}

/// The fields of envelopes of Sentry that are random or describe the client. The recorder leaves
/// them out.
const VOLATILE: [&str; 8] = [
    "/event_id",
    "/sent_at",
    "/length",
    "/platform",
    "/contexts/trace/trace_id",
    "/contexts/trace/span_id",
    "/spans/*/trace_id",
    "/spans/*/span_id",
];

/// Returns the lines of an envelope of Sentry.
fn sentry(body: &[u8]) -> Value {
    let lines = body.split(|byte| *byte == b'\n');
    let lines = lines.filter(|line| !line.is_empty()).map(|line| {
        let mut line: Value = serde_json::from_slice(line).unwrap();
        for pointer in VOLATILE {
            let (parent, field) = pointer.rsplit_once('/').unwrap();
            each(&mut line, parent, &|value| {
                drop(value.as_object_mut().map(|fields| fields.remove(field)))
            });
        }
        line
    });
    Value::Array(lines.collect())
}

/// The path of a span in a request of OTLP.
const SPAN: [u64; 3] = [1, 2, 2];

/// Returns the fields of a request of OTLP, without the id and the end of its span. The attributes
/// of the span are sorted: they have the order of a map of Go.
fn otlp(body: &[u8]) -> Value {
    fn fields(mut bytes: &[u8], path: &[u64]) -> Option<Value> {
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let tag = varint(&mut bytes)?;
            let (field, path) = (tag >> 3, [path, &[tag >> 3]].concat());
            let value = match tag & 7 {
                0 => json!(varint(&mut bytes)?),
                1 => json!(take(&mut bytes, 8)?),
                5 => json!(take(&mut bytes, 4)?),
                2 => {
                    let length = varint(&mut bytes)?;
                    let value = take(&mut bytes, usize::try_from(length).ok()?)?;
                    let is_message = path.len() < 4 || path[3] == 9 || path[3] == 15;
                    match is_message.then(|| fields(value, &path)).flatten() {
                        Some(message) => message,
                        None => String::from_utf8(value.to_vec()).map_or(json!(value), Value::from),
                    }
                }
                _ => return None,
            };
            let is_volatile = path.starts_with(&SPAN) && path.len() == 4 && [2, 8].contains(&field);
            if !is_volatile {
                found.push(json!({field.to_string(): value}));
            }
        }
        if path == SPAN {
            found.sort_by_key(Value::to_string);
        }
        Some(found.into())
    }
    fields(body, &[]).unwrap()
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let [byte] = take(bytes, 1)?.try_into().ok()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn take<'b>(bytes: &mut &'b [u8], length: usize) -> Option<&'b [u8]> {
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}
