//! DSA keys, as sprig writes them.

use super::Out;
use super::key_budget::NewKey;
use super::render_context::{RenderContext, random};
use base64::Engine as _;
use driftless_gotmpl::{Exec, Value};
use rsa::pkcs8::der::Encode as _;
use rsa::pkcs8::der::asn1::UintRef;

/// Generates a key of 2048 bits.
pub(super) fn generate(exec: &mut Exec<'_>) -> Out {
    RenderContext::of(exec)?.keys.take(NewKey::Dsa2048)?;
    let key = random(exec)?.with(|rng| {
        let parameters = dsa::Components::generate(rng, dsa::KeySize::DSA_2048_256);
        dsa::SigningKey::generate(rng, parameters)
    });
    let public = key.verifying_key();
    let parts = public.components();
    let numbers = [
        Vec::new(),
        parts.p().to_bytes_be(),
        parts.q().to_bytes_be(),
        parts.g().to_bytes_be(),
        public.y().to_bytes_be(),
        key.x().to_bytes_be(),
    ];
    let mut body = Vec::new();
    for number in &numbers {
        let number: &[u8] = if number.is_empty() { &[0] } else { number };
        let written = UintRef::new(number).and_then(|n| n.to_der());
        body.extend(written.map_err(|e| format!("failed to generate private key: {e}"))?);
    }
    let text = base64::engine::general_purpose::STANDARD.encode(sequence(&body));
    let mut pem = String::from("-----BEGIN DSA PRIVATE KEY-----\n");
    for line in text.as_bytes().chunks(64) {
        pem.push_str(&String::from_utf8_lossy(line));
        pem.push('\n');
    }
    pem.push_str("-----END DSA PRIVATE KEY-----\n");
    Ok(Value::str(pem))
}

/// Wraps elements in a DER sequence.
fn sequence(body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u16).to_be_bytes();
    [&[0x30, 0x82][..], &length, body].concat()
}
