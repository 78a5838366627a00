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

/// The reason that an ID token is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// It has more bytes than are read.
    #[error("the ID token is too large")]
    TooLarge,
    /// Its form, its signature or its claims are not valid.
    #[error("the ID token: {0}")]
    Invalid(#[from] jsonwebtoken::errors::Error),
    /// Its algorithm is not among the accepted ones.
    #[error("the ID token is signed with an algorithm that is not accepted")]
    Algorithm,
    /// No key of the issuer has its id.
    #[error("the ID token: the issuer has no key for it")]
    NoKey,
    /// Its time is over.
    #[error("the ID token is expired")]
    Expired,
    /// Its time has not begun.
    #[error("the ID token is not valid yet")]
    NotYetValid,
    /// It belongs to another login.
    #[error("the ID token is not for this login: its nonce is another one")]
    OtherLogin,
    /// It was issued to another client.
    #[error("the ID token was issued to another client")]
    OtherClient,
}

/// Checks the signature and the claims of a token; returns all claims.
///
/// # Errors
/// The token is not one for this login.
pub fn verify(token: &str, keys: &Value, expected: &Claims<'_>) -> Result<Value, TokenError> {
    if token.len() > MAX_TOKEN {
        return Err(TokenError::TooLarge);
    }
    let header = decode_header(token)?;
    if !ALGORITHMS.contains(&header.alg) {
        return Err(TokenError::Algorithm);
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
    let mut last = TokenError::NoKey;
    for key in keys
        .filter(|key| is_named(&key.common.key_id))
        .take(MAX_KEYS)
    {
        let verified =
            DecodingKey::from_jwk(&key).and_then(|key| decode::<Value>(token, &key, &validation));
        match verified {
            Ok(token) => return checked(token.claims, expected),
            Err(error) => last = error.into(),
        }
    }
    Err(last)
}

fn checked(claims: Value, expected: &Claims<'_>) -> Result<Value, TokenError> {
    let time = |name: &str| claims[name].as_u64();
    if time("exp").is_none_or(|end| end.saturating_add(LEEWAY) <= expected.now) {
        return Err(TokenError::Expired);
    }
    let is_future = |start: u64| start > expected.now.saturating_add(LEEWAY);
    if time("nbf").is_some_and(is_future) || time("iat").is_some_and(is_future) {
        return Err(TokenError::NotYetValid);
    }
    if claims["nonce"] != expected.nonce {
        return Err(TokenError::OtherLogin);
    }
    let is_shared = claims["aud"].as_array().is_some_and(|all| all.len() > 1);
    if is_shared && claims["azp"] != expected.audience {
        return Err(TokenError::OtherClient);
    }
    Ok(claims)
}
