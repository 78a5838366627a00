//! Deliveries of Google Pub/Sub for registries of Google (type `gcr`): the sender has an identity
//! token of Google.

use super::Credentials;
use super::token::{Request, Token};
use crate::webhook::{Delivery, Refusal, read};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use driftless_kernel::hub::Hub;
use driftless_kernel::ports::Ports;
use driftless_verify::key::{Hash, Jwk, PublicKey, Scheme};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The address of the keys that Google signs identity tokens with.
const KEYS: &str = "https://www.googleapis.com/oauth2/v3/certs";
/// The most bytes of the keys.
const MAX_KEYS: u64 = 64 << 10;
/// The timeout of the request for the keys.
const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
struct Keys {
    keys: Vec<Jwk>,
}

#[derive(Deserialize)]
struct Claims {
    aud: String,
    iss: String,
    exp: i64,
    #[serde(default)]
    email: String,
    #[serde(default)]
    email_verified: bool,
}

impl Claims {
    /// Returns whether Google issued the token to this account, for this audience.
    fn are_of(&self, email: &str, audience: &str, now: i64) -> bool {
        let issuers = ["accounts.google.com", "https://accounts.google.com"];
        self.exp > now
            && self.aud == audience
            && issuers.contains(&&*self.iss)
            && self.email == email
            && self.email_verified
    }
}

#[derive(Deserialize)]
struct Push {
    message: Message,
}

#[derive(Deserialize)]
struct Message {
    data: String,
}

/// The event of a registry in a message. Filters see it instead of the whole body.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct RegistryEvent {
    action: String,
    digest: String,
    tag: String,
}

/// Checks the identity token of a delivery. Returns the event in the message.
pub(super) async fn verify(
    ports: &Ports,
    hub: &Hub,
    credentials: &Credentials,
    delivery: &Delivery<'_>,
) -> Result<Vec<u8>, Refusal> {
    let refused = || {
        let message = "the identity token of Google is missing or not valid for this Receiver";
        Refusal::Invalid(message.to_owned())
    };
    let text = |secret: &Option<driftless_kernel::ports::Secret>| {
        let text = secret
            .as_ref()
            .and_then(|secret| secret.expose_str().map(str::to_owned));
        text.filter(|text| !text.is_empty())
    };
    let (Some(email), Some(audience)) = (text(&credentials.email), text(&credentials.audience))
    else {
        let message = "the Secret of the Receiver needs 'email' and 'audience' for the type gcr";
        return Err(Refusal::Invalid(message.to_owned()));
    };
    let bearer = (delivery.header)("authorization");
    let token = bearer.and_then(|text| text.strip_prefix("Bearer "));
    let token = token.and_then(Token::parse).ok_or_else(refused)?;
    let keys = keys(ports, hub).await?;
    let now = i64::try_from(ports.clock.now().as_secs()).unwrap_or(i64::MAX);
    if !is_signed(&token, &keys) || !token.claims.are_of(&email, &audience, now) {
        return Err(refused());
    }
    event(delivery.body)
}

fn event(body: &[u8]) -> Result<Vec<u8>, Refusal> {
    let push: Push = read("GCR", body)?;
    let data = STANDARD.decode(push.message.data).unwrap_or_default();
    let event: RegistryEvent = read("GCR", &data)?;
    let written = serde_json::to_vec(&event);
    written.map_err(|error| Refusal::Malformed("GCR".to_owned(), error.to_string()))
}

async fn keys(ports: &Ports, hub: &Hub) -> Result<Keys, Refusal> {
    let unreadable = format!("{KEYS}: not the expected keys");
    let request = Request {
        url: KEYS,
        allow_local: hub.settings.allow_local_clusters,
        timeout: TIMEOUT,
        limit: MAX_KEYS,
        unreadable: &unreadable,
    };
    Ok(request.send(ports).await?)
}

/// Returns whether the token is signed with the key that its header names.
fn is_signed(token: &Token<'_, Claims>, keys: &Keys) -> bool {
    let named = keys.keys.iter().find(|key| key.kid == token.header.kid);
    let scheme = Scheme::Pkcs1(Hash::Sha256);
    token.header.alg == "RS256"
        && named
            .and_then(PublicKey::from_jwk)
            .is_some_and(|key| token.is_signed_by(&key, scheme))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    /// The modulus of a key that only signed this token.
    const MODULUS: &str = concat!(
        "4Seung7pDUMJ20YHtgoY53jGH-bUV8cByKirltzCvE3Lv1M6ORa6wOpRhfb2iYgYmzEZBM1XZ4Xi",
        "1kYbDkBLpSR98Zv0pc9jjJJwwzKaqoABqgzTkE2prNelfRN7PbAfzufRlspKdLUuSBvVzOpcFr8t",
        "hVXdOsL2LUDLk-ZwvA61bQ1FXHaZS_HQEliE1xcf3YU9T9A723yH0qjBgBjgehnWAUOi4K5XMuKf",
        "g7QeQyPLXW58Lx1PomPnjZinIaW5rv1MpcpTLy8bjFlN0us1KXKNbkxvWzqS_INvx9MHANd2_5te",
        "Al8lwoFb2jfl2Zg8I8W7pb3yBUBV1zPh3Nh5FQ",
    );
    /// The header and the claims of a token.
    const SIGNED: &str = concat!(
        "eyJhbGciOiAiUlMyNTYiLCAia2lkIjogInRlc3QiLCAidHlwIjogIkpXVCJ9.eyJhdWQiOiAiaHR",
        "0cHM6Ly9mbHV4LmFjbWUuZXhhbXBsZSIsICJpc3MiOiAiaHR0cHM6Ly9hY2NvdW50cy5nb29nbGU",
        "uY29tIiwgImV4cCI6IDQxMDI0NDQ4MDAsICJlbWFpbCI6ICJwdXNoQGFjbWUuZXhhbXBsZSIsICJ",
        "lbWFpbF92ZXJpZmllZCI6IHRydWV9",
    );
    /// The signature over them.
    const SIGNATURE: &str = concat!(
        "mTj4Uosa7i7ZQ8FnFVfxZKSUsxfXZDqE_09QU6LmNlFeG4yBB8BvGwMFE6f79KDKGHysmiJNHk95",
        "IYMqjieuCpN6LIBv90vgJp4q4VJOhvj7RKGZuQpRZvwscc1B8phI7b88gitH50IV2rLYz2jkz5Pj",
        "q-hgFvhhSPlWsb0WhWGYOSa5t1Kidsl83BjXL7LJuiCpUZ-JweJdBfDJ5dponK0y3rogCLPhNzpi",
        "fz92Ar3x62japoqiBsbR3JVnh8Ojg7prl57MiQFRMsONnxk828Yogz2D5_fby1KW5zhStifD5S7j",
        "PvkW1bwOVmvJW8o6oYX-UL2dg_0QnQXK-4CvzA",
    );

    fn keys(kid: &str) -> Keys {
        let key = serde_json::json!({"kty": "RSA", "kid": kid, "n": MODULUS, "e": "AQAB"});
        serde_json::from_value(serde_json::json!({"keys": [key]})).unwrap()
    }

    #[test]
    fn only_a_signed_token_of_google_for_this_receiver_is_accepted() {
        let text = format!("{SIGNED}.{SIGNATURE}");
        let token = Token::parse(&text).unwrap();
        assert!(is_signed(&token, &keys("test")));
        assert!(!is_signed(&token, &keys("other")), "another key");
        let (email, audience) = ("push@acme.example", "https://flux.acme.example");
        let claims = &token.claims;
        assert!(claims.are_of(email, audience, 1_767_225_600));
        assert!(!claims.are_of(email, audience, 4_102_444_800), "expired");
        assert!(!claims.are_of("other@acme.example", audience, 0));
        assert!(!claims.are_of(email, "https://other.acme.example", 0));

        let (header, claims) = SIGNED.split_once('.').unwrap();
        let decoded = URL_SAFE_NO_PAD.decode(claims).unwrap();
        let changed = String::from_utf8(decoded)
            .unwrap()
            .replace("push@", "evil@");
        let changed = format!("{header}.{}.{SIGNATURE}", URL_SAFE_NO_PAD.encode(changed));
        let forged = Token::parse(&changed).unwrap();
        assert!(
            !is_signed(&forged, &keys("test")),
            "claims of another token"
        );
        let none = URL_SAFE_NO_PAD.encode(r#"{"alg": "none", "kid": "test"}"#);
        let unsigned = format!("{none}.{claims}.");
        assert!(!is_signed(&Token::parse(&unsigned).unwrap(), &keys("test")));
        for broken in ["", "a", "a.b", "a.b.c", &text[1..]] {
            assert!(Token::<Claims>::parse(broken).is_none(), "{broken}");
        }
    }

    #[test]
    fn the_event_is_in_the_message() {
        let data = STANDARD.encode(r#"{"action": "INSERT", "digest": "a", "tag": "b"}"#);
        let body = serde_json::json!({"message": {"data": data}}).to_string();
        let expected = br#"{"action":"INSERT","digest":"a","tag":"b"}"#;
        assert_eq!(event(body.as_bytes()).unwrap(), expected);
        for broken in ["", "{}", r#"{"message": {"data": "%"}}"#] {
            assert_eq!(event(broken.as_bytes()).unwrap_err().status(), 400);
        }
    }
}
