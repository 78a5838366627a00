//! Objects in protobuf, as kubectl's typed commands send them: read into JSON
//! by the table of built-in types. Answers are JSON always.

use driftless_go::Error as GoError;
use serde_json::{Map, Value};

use crate::schema::{Id, Scalar, Schema, Type};

/// The media type.
pub(crate) const MEDIA: &str = "application/vnd.kubernetes.protobuf";

const MAGIC: &[u8] = b"k8s\0";
const MAX_DEPTH: usize = 64;

/// One field of a message.
enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Fixed(u64),
}

/// Reads an envelope: `apiVersion`, `kind` and the object of that type.
///
/// # Errors
/// Bytes that are not an envelope, and kinds that are not built in.
pub(crate) fn read(schema: &Schema, body: &[u8]) -> Result<Value, GoError> {
    let envelope = body.strip_prefix(MAGIC).ok_or(
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
    )?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for (number, wire) in fields(envelope)? {
        match (number, wire) {
            (1, Wire::Bytes(meta)) => {
                for (number, wire) in fields(meta)? {
                    match (number, wire) {
                        (1, Wire::Bytes(text)) => api_version = utf8(text)?,
                        (2, Wire::Bytes(text)) => kind = utf8(text)?,
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let id = schema
        .kinds
        .get(&format!("{api_version}/{kind}"))
        .ok_or_else(|| format!("no kind {kind:?} is registered for version {api_version:?}"))?;
    let mut object = Map::new();
    message(schema, *id, raw, &mut object, 0)?;
    object.insert("apiVersion".into(), api_version.into());
    object.insert("kind".into(), kind.into());
    Ok(Value::Object(object))
}

fn utf8(bytes: &[u8]) -> Result<String, GoError> {
    String::from_utf8(bytes.to_vec()).map_err(|_| "a string is not UTF-8".into())
}

fn varint(bytes: &mut &[u8]) -> Result<u64, GoError> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().ok_or("unexpected end of the message")?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err("a number is too long".into())
}

fn take<'a>(bytes: &mut &'a [u8], count: u64) -> Result<&'a [u8], GoError> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let (head, rest) = bytes
        .split_at_checked(count)
        .ok_or("unexpected end of the message")?;
    *bytes = rest;
    Ok(head)
}

fn fields(mut bytes: &[u8]) -> Result<Vec<(u64, Wire<'_>)>, GoError> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let fixed = |head: &[u8]| {
            head.iter()
                .rev()
                .fold(0, |all, byte| all << 8 | u64::from(*byte))
        };
        let wire = match tag & 7 {
            0 => Wire::Number(varint(&mut bytes)?),
            1 => Wire::Fixed(fixed(take(&mut bytes, 8)?)),
            2 => {
                let count = varint(&mut bytes)?;
                Wire::Bytes(take(&mut bytes, count)?)
            }
            5 => Wire::Fixed(fixed(take(&mut bytes, 4)?)),
            other => return Err(format!("unknown wire type {other}").into()),
        };
        out.push((tag >> 3, wire));
    }
    Ok(out)
}

fn message(
    schema: &Schema,
    id: Id,
    bytes: &[u8],
    out: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), GoError> {
    let Some(of) = schema.structure(id).filter(|_| depth < MAX_DEPTH) else {
        return Err("the message is too deep".into());
    };
    for (number, wire) in fields(bytes)? {
        if let Some((_, inner)) = of.inline.iter().find(|(known, _)| *known == number) {
            if let Wire::Bytes(bytes) = wire {
                message(schema, *inner, bytes, out, depth + 1)?;
            }
            continue;
        }
        let Some((name, field)) = of.fields.iter().find(|(_, field)| field.number == number) else {
            continue;
        };
        match schema.get(field.id) {
            Type::List { item, .. } => {
                let value = one(schema, *item, &wire, depth)?;
                let list = out
                    .entry(name.clone())
                    .or_insert_with(|| Value::Array(Vec::new()));
                if let Value::Array(list) = list {
                    list.push(value);
                }
            }
            Type::Map { value: of, .. } => {
                let Wire::Bytes(entry) = wire else { continue };
                let (mut key, mut value) = (String::new(), default(schema, *of));
                for (number, wire) in fields(entry)? {
                    match (number, &wire) {
                        (1, Wire::Bytes(text)) => key = utf8(text)?,
                        (2, wire) => value = one(schema, *of, wire, depth)?,
                        _ => {}
                    }
                }
                let map = out
                    .entry(name.clone())
                    .or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(map) = map {
                    map.insert(key, value);
                }
            }
            _ => {
                let value = one(schema, field.id, &wire, depth)?;
                // An absent value is written as an empty string, where absent and empty are the
                // same.
                if !value.is_null() {
                    out.insert(name.clone(), value);
                }
            }
        }
    }
    Ok(())
}

fn default(schema: &Schema, id: Id) -> Value {
    match schema.get(id) {
        Type::Scalar(Scalar::String | Scalar::Bytes) => "".into(),
        Type::Scalar(Scalar::Quantity) => "0".into(),
        _ => Value::Null,
    }
}

fn signed(number: u64) -> i64 {
    i64::from_ne_bytes(number.to_ne_bytes())
}

fn one(schema: &Schema, id: Id, wire: &Wire<'_>, depth: usize) -> Result<Value, GoError> {
    Ok(match (schema.get(id), wire) {
        (Type::Scalar(Scalar::String), Wire::Bytes(text)) => utf8(text)?.into(),
        (Type::Scalar(Scalar::Bool), Wire::Number(number)) => (*number != 0).into(),
        (Type::Scalar(Scalar::Int | Scalar::Int32), Wire::Number(number)) => signed(*number).into(),
        (Type::Scalar(Scalar::Float), Wire::Fixed(bits)) => f64::from_bits(*bits).into(),
        (Type::Scalar(Scalar::Bytes), Wire::Bytes(bytes)) => {
            use base64::Engine as _;
            base64::engine::general_purpose::STANDARD
                .encode(bytes)
                .into()
        }
        (Type::Scalar(Scalar::Quantity), Wire::Bytes(inner)) => {
            let mut text = "0".to_owned();
            for (number, wire) in fields(inner)? {
                if let (1, Wire::Bytes(bytes)) = (number, wire) {
                    text = utf8(bytes)?;
                }
            }
            text.into()
        }
        (Type::Scalar(Scalar::IntOrString), Wire::Bytes(inner)) => int_or_text(inner)?,
        (Type::Scalar(scalar @ (Scalar::Time | Scalar::MicroTime)), Wire::Bytes(inner)) => {
            time(*scalar, inner)?
        }
        (Type::Struct(_), Wire::Bytes(inner)) => {
            let mut out = Map::new();
            message(schema, id, inner, &mut out, depth + 1)?;
            Value::Object(out)
        }
        (Type::Untyped | Type::Deduced, Wire::Bytes(inner)) => raw(inner)?,
        _ => {
            return Err(
                "this server does not read a value of this type in protobuf: send JSON".into(),
            );
        }
    })
}

fn int_or_text(inner: &[u8]) -> Result<Value, GoError> {
    let (mut is_text, mut number, mut text) = (false, 0, String::new());
    for (field, wire) in fields(inner)? {
        match (field, wire) {
            (1, Wire::Number(kind)) => is_text = kind == 1,
            (2, Wire::Number(value)) => number = signed(value),
            (3, Wire::Bytes(bytes)) => text = utf8(bytes)?,
            _ => {}
        }
    }
    Ok(if is_text { text.into() } else { number.into() })
}

/// Seconds and nanoseconds; an empty message is null.
fn time(scalar: Scalar, inner: &[u8]) -> Result<Value, GoError> {
    let (mut seconds, mut nanos) = (None, 0);
    for (number, wire) in fields(inner)? {
        match (number, wire) {
            (1, Wire::Number(value)) => seconds = Some(signed(value)),
            (2, Wire::Number(value)) => nanos = i32::try_from(value).unwrap_or_default(),
            _ => {}
        }
    }
    let Some(seconds) = seconds else {
        return Ok(Value::Null);
    };
    let time = jiff::Timestamp::new(seconds, nanos).map_err(|error| error.to_string())?;
    let format = match scalar {
        Scalar::MicroTime => "%Y-%m-%dT%H:%M:%S.%6fZ",
        _ => "%Y-%m-%dT%H:%M:%SZ",
    };
    Ok(time.strftime(format).to_string().into())
}

/// JSON in bytes: raw extensions and `fieldsV1`.
fn raw(inner: &[u8]) -> Result<Value, GoError> {
    for (number, wire) in fields(inner)? {
        if let (1, Wire::Bytes(bytes)) = (number, wire) {
            return serde_json::from_slice(bytes).map_err(|error| error.to_string().into());
        }
    }
    Ok(Value::Null)
}
