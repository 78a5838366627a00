//! Private keys and the functions that create certificates.

use super::arg::{any, int, text};
use super::certificate::{Certificate, Names, issue, object, parse_certificate};
use super::private_key::Key;
use super::render_context::random;
use super::rsa_key::{self, Size};
use super::split::base64_decode;
use super::{Entry, Out, S, SS};
use driftless_gotmpl::{Exec, FuncError, Param, Value};
use p256::SecretKey;

pub(super) const TABLE: &[Entry] = &[
    ("genPrivateKey", S, generate),
    ("buildCustomCert", SS, custom),
    ("genCA", &[Param::Str, Param::Int], |e, a| {
        let key = new_rsa(e, Size::Certificate)?;
        authority(e, a, key)
    }),
    (
        "genCAWithKey",
        &[Param::Str, Param::Int, Param::Str],
        |e, a| {
            let key = parse_key(&text(a, 2))?;
            authority(e, a, key)
        },
    ),
    ("genSelfSignedCert", NAMES, |e, a| {
        let key = new_rsa(e, Size::Certificate)?;
        self_signed(e, a, key)
    }),
    (
        "genSelfSignedCertWithKey",
        &[STR, LIST, LIST, INT, STR],
        |e, a| {
            let key = parse_key(&text(a, 4))?;
            self_signed(e, a, key)
        },
    ),
    ("genSignedCert", &[STR, LIST, LIST, INT, CERT], |e, a| {
        let key = new_rsa(e, Size::Certificate)?;
        signed(e, a, key)
    }),
    (
        "genSignedCertWithKey",
        &[STR, LIST, LIST, INT, CERT, STR],
        |e, a| {
            let key = parse_key(&text(a, 5))?;
            signed(e, a, key)
        },
    ),
];

const STR: Param = Param::Str;
const INT: Param = Param::Int;
const LIST: Param = Param::List;
const CERT: Param = Param::Host("sprig.certificate");
const NAMES: &[Param] = &[STR, LIST, LIST, INT];

/// The steps of a new key on a curve: a few hundred microseconds.
const EC_STEPS: u64 = 20_000;

fn new_rsa(exec: &mut Exec<'_>, size: Size) -> Result<Key, FuncError> {
    Ok(Key::Rsa(Box::new(rsa_key::generate(exec, size)?)))
}

fn generate(exec: &mut Exec<'_>, a: &[Value]) -> Out {
    let kind = text(a, 0);
    let key = match &*kind {
        "" | "rsa" => new_rsa(exec, Size::Large)?,
        "ecdsa" => {
            exec.charge(EC_STEPS)?;
            Key::Ec(random(exec)?.with(SecretKey::random))
        }
        "ed25519" => {
            exec.charge(EC_STEPS)?;
            let mut seed = [0; 32];
            random(exec)?.fill(&mut seed);
            Key::Ed(Box::new(ed25519_dalek::SigningKey::from_bytes(&seed)))
        }
        "dsa" => return super::dsa_key::generate(exec),
        other => return Ok(Value::str(format!("Unknown type {other}"))),
    };
    Ok(Value::str(key.pem()?))
}

fn parse_key(pem: &str) -> Result<Key, FuncError> {
    Key::parse(pem).map_err(|e| format!("parsing private key: {e}").into())
}

/// Returns `len` addresses or names as strings.
fn texts(value: &Value, complaint: impl Fn(&Value) -> String) -> Result<Vec<String>, FuncError> {
    let Value::List(list) = value else {
        return Ok(Vec::new());
    };
    let items = list.items();
    let texts = items.iter().map(|item| match item {
        Value::Str(s) => Ok(s.lossy().into_owned()),
        other => Err(FuncError::new(complaint(other))),
    });
    texts.collect()
}

fn names(exec: &mut Exec<'_>, a: &[Value]) -> Result<Names, FuncError> {
    use driftless_gotmpl::fmt::display;
    let mut ips = Vec::new();
    let not_text = |v: &Value| format!("error parsing ip: {} is not a string", display(v));
    for ip in texts(any(a, 1), not_text)? {
        ips.push(ip.parse().map_err(|_| format!("error parsing ip: {ip}"))?);
    }
    let dns = texts(any(a, 2), |v| {
        format!(
            "error processing alternate dns name: {} is not a string",
            display(v)
        )
    })?;
    exec.charge_bytes(64 * (ips.len() + dns.len()))?;
    Ok(Names {
        common: text(a, 0).into_owned(),
        ips,
        dns,
        days: int(a, 3),
        authority: false,
    })
}

fn authority(exec: &mut Exec<'_>, a: &[Value], key: Key) -> Out {
    let names = Names {
        common: text(a, 0).into_owned(),
        ips: Vec::new(),
        dns: Vec::new(),
        days: int(a, 1),
        authority: true,
    };
    let cert = issue(exec, &names, &key, None)?;
    object(cert, key.pem()?)
}

fn self_signed(exec: &mut Exec<'_>, a: &[Value], key: Key) -> Out {
    let names = names(exec, a)?;
    let cert = issue(exec, &names, &key, None)?;
    object(cert, key.pem()?)
}

fn signed(exec: &mut Exec<'_>, a: &[Value], key: Key) -> Out {
    let Some(ca) = Certificate::of(any(a, 4)) else {
        return Err("unable to decode certificate".into());
    };
    let parent = parse_certificate(&ca.cert, "decodedSignerCert")?;
    let signer = Key::parse(&ca.key).map_err(|e| format!("error parsing private key: {e}"))?;
    let names = names(exec, a)?;
    let cert = issue(exec, &names, &key, Some((&parent, &signer)))?;
    object(cert, key.pem()?)
}

fn custom(_: &mut Exec<'_>, a: &[Value]) -> Out {
    let decode = |at: usize, field: &str| -> Result<String, FuncError> {
        let bytes = base64_decode(super::arg::bytes(a, at))
            .map_err(|_| format!("unable to decode base64 {field}"))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let cert = decode(0, "certificate")?;
    let key = decode(1, "private key")?;
    parse_certificate(&cert, "decodedCert")?;
    Key::parse(&key).map_err(|e| format!("error parsing private key: {e}"))?;
    object(cert, key)
}
