//! The ID token of OpenID Connect.

use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde_json::Value;

/// The algorithms of signatures. Symmetric ones and `none` are not among them.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];
/// The most bytes of a token.
const MAX_TOKEN: usize = 64 << 10;
/// The most keys of an issuer that are tried.
const MAX_KEYS: usize = 32;
/// The tolerance of times, in seconds: clocks differ.
const LEEWAY: u64 = 60;

/// The expected claims of a token.
pub struct Claims<'a> {
    /// The address of the issuer.
    pub issuer: &'a str,
    /// The id of this client.
    pub audience: &'a str,
    /// The nonce of this login.
    pub nonce: &'a str,
    /// The time, in seconds since 1970.
    pub now: u64,
}

/// Checks the signature and the claims of a token; returns all claims.
///
/// # Errors
/// The token is not one for this login.
pub fn verify(token: &str, keys: &Value, expected: &Claims<'_>) -> Result<Value, String> {
    if token.len() > MAX_TOKEN {
        return Err("the ID token is too large".to_owned());
    }
    let header = decode_header(token).map_err(|error| format!("the ID token: {error}"))?;
    if !ALGORITHMS.contains(&header.alg) {
        return Err("the ID token is signed with an algorithm that is not accepted".to_owned());
    }
    // Keys of other forms are left out: an issuer may have some for other purposes.
    let keys = keys["keys"].as_array().into_iter().flatten();
    let keys = keys.filter_map(|key| serde_json::from_value::<Jwk>(key.clone()).ok());
    let mut validation = Validation::new(header.alg);
    validation.set_audience(&[expected.audience]);
    validation.set_issuer(&[expected.issuer]);
    validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
    // The times are checked below, against the clock of the caller.
    validation.validate_exp = false;
    let is_named = |id: &Option<String>| header.kid.is_none() || *id == header.kid;
    let mut last = "the issuer has no key for it".to_owned();
    for key in keys
        .filter(|key| is_named(&key.common.key_id))
        .take(MAX_KEYS)
    {
        let verified =
            DecodingKey::from_jwk(&key).and_then(|key| decode::<Value>(token, &key, &validation));
        match verified {
            Ok(token) => return checked(token.claims, expected),
            Err(error) => last = error.to_string(),
        }
    }
    Err(format!("the ID token: {last}"))
}

fn checked(claims: Value, expected: &Claims<'_>) -> Result<Value, String> {
    let time = |name: &str| claims[name].as_u64();
    if time("exp").is_none_or(|end| end.saturating_add(LEEWAY) <= expected.now) {
        return Err("the ID token is expired".to_owned());
    }
    let is_future = |start: u64| start > expected.now.saturating_add(LEEWAY);
    if time("nbf").is_some_and(is_future) || time("iat").is_some_and(is_future) {
        return Err("the ID token is not valid yet".to_owned());
    }
    if claims["nonce"] != expected.nonce {
        return Err("the ID token is not for this login: its nonce is another one".to_owned());
    }
    let is_shared = claims["aud"].as_array().is_some_and(|all| all.len() > 1);
    if is_shared && claims["azp"] != expected.audience {
        return Err("the ID token was issued to another client".to_owned());
    }
    Ok(claims)
}
