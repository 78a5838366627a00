//! Envelopes in CBOR: a `COSE_Sign1` of RFC 9052.

use super::parts::{AUTHENTIC_TIME, Attributes, EXPIRY, PLUGIN, Parts, SCHEME, SIGNING_TIME};
use ciborium::Value;
use driftless_flux::Invalid;
use std::time::Duration;

pub(super) const MEDIA_TYPE: &str = "application/cose";

/// The tag of a `COSE_Sign1`, and of a time in seconds.
const SIGN1: u64 = 18;
const EPOCH: u64 = 1;
/// Labels of headers.
const ALGORITHM: i64 = 1;
const CRITICAL: i64 = 2;
const CONTENT_TYPE: i64 = 3;
const CERTIFICATES: i64 = 33;
const ALGORITHMS: [(i64, &str); 6] = [
    (-7, "ES256"),
    (-35, "ES384"),
    (-36, "ES512"),
    (-37, "PS256"),
    (-38, "PS384"),
    (-39, "PS512"),
];
const UNREADABLE_ENVELOPE: &str = "the envelope cannot be read";

/// Reads an envelope.
///
/// # Errors
/// The bytes are not a valid envelope.
pub(super) fn read(bytes: &[u8]) -> Result<Parts, Invalid> {
    let parts = match decode(bytes)? {
        Value::Tag(SIGN1, parts) => parts.into_array().map_err(|_| UNREADABLE_ENVELOPE)?,
        _ => return Err(UNREADABLE_ENVELOPE.into()),
    };
    let parts: [Value; 4] = parts.try_into().map_err(|_| UNREADABLE_ENVELOPE)?;
    let [protected, unprotected, payload, signature] = parts;
    let raw = protected.into_bytes().map_err(|_| UNREADABLE_ENVELOPE)?;
    let payload = payload.into_bytes().map_err(|_| UNREADABLE_ENVELOPE)?;
    let unprotected = Headers::of(unprotected)?;
    let message = Value::Array(vec![
        "Signature1".into(),
        Value::Bytes(raw.clone()),
        Value::Bytes(Vec::new()),
        Value::Bytes(payload.clone()),
    ]);
    let mut signed = Vec::new();
    ciborium::into_writer(&message, &mut signed).map_err(|_| UNREADABLE_ENVELOPE)?;
    Ok(Parts {
        certificates: unprotected.certificates()?,
        attributes: Headers::of(decode(&raw)?)?.attributes()?,
        payload,
        message: signed,
        signature: signature.into_bytes().map_err(|_| UNREADABLE_ENVELOPE)?,
    })
}

/// Decodes exactly one value.
fn decode(mut bytes: &[u8]) -> Result<Value, Invalid> {
    let value = ciborium::from_reader(&mut bytes).map_err(|_| UNREADABLE_ENVELOPE)?;
    match bytes.is_empty() {
        true => Ok(value),
        false => Err(UNREADABLE_ENVELOPE.into()),
    }
}

struct Headers(Vec<(Value, Value)>);

impl Headers {
    fn of(value: Value) -> Result<Self, Invalid> {
        let pairs = value.into_map().map_err(|_| UNREADABLE_ENVELOPE)?;
        let is_repeated = |(at, (label, _)): (usize, &(Value, Value))| {
            pairs[..at].iter().any(|(other, _)| other == label)
        };
        match pairs.iter().enumerate().any(is_repeated) {
            true => Err("a header of the envelope is repeated".into()),
            false => Ok(Self(pairs)),
        }
    }

    fn get(&self, label: &Value) -> Option<&Value> {
        let found = self.0.iter().find(|(own, _)| own == label);
        found.map(|(_, value)| value)
    }

    fn numbered(&self, label: i64) -> Option<&Value> {
        self.get(&label.into())
    }

    fn certificates(&self) -> Result<Vec<Vec<u8>>, Invalid> {
        let all = self.numbered(CERTIFICATES).and_then(Value::as_array);
        let all = all.into_iter().flatten();
        let all: Option<Vec<_>> = all.map(|one| one.as_bytes().cloned()).collect();
        all.ok_or_else(|| Invalid::from("a certificate cannot be read"))
    }

    fn attributes(&self) -> Result<Attributes, Invalid> {
        let number = self.numbered(ALGORITHM).and_then(Value::as_integer);
        let known = ALGORITHMS
            .iter()
            .find(|(own, _)| number == Some((*own).into()));
        let text = |value: Option<&Value>| {
            let text = value.and_then(Value::as_text);
            text.unwrap_or_default().to_owned()
        };
        let critical = self.numbered(CRITICAL).and_then(Value::as_array);
        let name = |label: &Value| match label.as_text() {
            Some(text) => text.to_owned(),
            None => "a number".to_owned(),
        };
        Ok(Attributes {
            algorithm: known.map_or("", |(_, name)| name).to_owned(),
            content_type: text(self.numbered(CONTENT_TYPE)),
            scheme: text(self.get(&SCHEME.into())),
            signing_time: self.time(SIGNING_TIME)?,
            authentic_time: self.time(AUTHENTIC_TIME)?,
            expiry: self.time(EXPIRY)?,
            critical: critical.into_iter().flatten().map(name).collect(),
            wants_plugin: self.get(&PLUGIN.into()).is_some(),
        })
    }

    fn time(&self, name: &str) -> Result<Option<Duration>, Invalid> {
        let Some(value) = self.get(&name.into()) else {
            return Ok(None);
        };
        let seconds = match value {
            Value::Tag(EPOCH, seconds) => seconds.as_integer(),
            _ => None,
        };
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let time = seconds.map(|seconds| Some(Duration::from_secs(seconds)));
        time.ok_or_else(|| Invalid::from(format!("the attribute {name} is not a valid time")))
    }
}
