//! HashiCorp Vault: decrypts data keys of SOPS files with its transit engine.

use crate::tenant_http::{Clients, accepted, body, unreachable};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use driftless_kernel::ports::{Connection, ErrorKind, PortError, Result, Secret, VaultKey};
use driftless_source::redact;
use reqwest::Url;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;

/// The header with the token of a request (Vault, "Authentication").
const TOKEN: &str = "x-vault-token";
/// The limit of an answer in bytes; one with a data key has a few hundred.
const ANSWER_LIMIT: u64 = 64 << 10;
/// The time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Vault's HTTP API, at the addresses that SOPS files name. Redirects are not followed, so that the
/// token stays with the server that the file names.
#[derive(Default)]
pub(crate) struct HttpVault {
    clients: Clients,
}

/// The used part of an answer.
#[derive(Deserialize)]
struct Decrypted {
    data: Plaintext,
}

#[derive(Deserialize)]
struct Plaintext {
    plaintext: String,
}

impl HttpVault {
    /// Decrypts a data key, as the port's method does.
    pub(crate) async fn decrypt(
        &self,
        key: &VaultKey,
        ciphertext: &str,
        token: &Secret,
        allow_local: bool,
    ) -> Result<Secret> {
        let url = address(key, allow_local)?;
        let place = redact(url.as_str());
        let invalid =
            |problem: &str| PortError::new(ErrorKind::Invalid, format!("'{place}' {problem}"));
        let connection = Connection {
            allow_local,
            timeout: TIMEOUT,
            ..Connection::default()
        };
        let mut token = HeaderValue::from_bytes(token.expose().trim_ascii())
            .map_err(|_| invalid("was not asked: the token is not valid in a header"))?;
        token.set_sensitive(true);
        let request = self.clients.client(&url, &connection)?.post(url);
        let request = request
            .header(TOKEN, token)
            .header(CONTENT_TYPE, "application/json")
            .body(json!({"ciphertext": ciphertext}).to_string());
        let response = request.send().await;
        let response = response.map_err(|error| unreachable(&error, &place))?;
        let answer = body(accepted(response, &place)?, ANSWER_LIMIT, &place).await?;
        let answer = serde_json::from_slice::<Decrypted>(&answer);
        let plaintext = answer.ok().map(|answer| answer.data.plaintext);
        let plaintext = plaintext.and_then(|text| STANDARD.decode(text).ok());
        plaintext
            .map(Secret::new)
            .ok_or_else(|| invalid("did not answer with a plaintext in base64"))
    }
}

/// Returns the URL that decrypts with a key: `ADDRESS/v1/ENGINE/decrypt/KEY`.
///
/// # Errors
/// Fails if the address is not an HTTPS URL, or the path of the engine or the name is not valid.
fn address(key: &VaultKey, allow_http: bool) -> Result<Url> {
    let invalid = |problem: &str| {
        let message = format!("Vault's address '{}' {problem}", redact(&key.address));
        PortError::new(ErrorKind::Invalid, message)
    };
    let mut url = Url::parse(&key.address).map_err(|_| invalid("is not a URL"))?;
    match url.scheme() {
        "https" => {}
        "http" if allow_http => {}
        "http" => {
            return Err(invalid(
                "is not an https URL: the token would be sent in clear text",
            ));
        }
        _ => return Err(invalid("is not an https URL")),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid(
            "has a user or a password, which Vault does not use",
        ));
    }
    let engine = key.engine.trim_matches('/');
    let is_valid = |part: &str| !matches!(part, "" | "." | "..");
    let mut parts = engine.split('/').chain([key.name.as_str()]);
    if !parts.all(is_valid) || key.name.contains('/') {
        let message = "has no valid key: expected the path of an engine and the name of a key";
        return Err(invalid(message));
    }
    url.set_query(None);
    url.set_fragment(None);
    url.path_segments_mut()
        .map_err(|()| invalid("is not an https URL"))?
        .pop_if_empty()
        .push("v1")
        .extend(engine.split('/'))
        .extend(["decrypt", &key.name]);
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(address: &str, engine: &str, name: &str) -> VaultKey {
        let [address, engine, name] = [address, engine, name].map(str::to_owned);
        VaultKey {
            address,
            engine,
            name,
        }
    }

    #[test]
    fn addresses_of_keys() {
        let url = |address: &str, engine: &str, name: &str| {
            let url = address_of(&key(address, engine, name), false);
            url.map_err(|error| error.message)
        };
        let https = "https://vault.example.com:8200";
        let expected = format!("{https}/v1/sops/transit/decrypt/a%3Fb");
        assert_eq!(url(https, "sops/transit/", "a?b"), Ok(expected.clone()));
        let prefixed = url(&format!("{https}/?x=1#y"), "/sops/transit", "a?b");
        assert_eq!(prefixed, Ok(expected));
        for (address, engine, name) in [
            ("http://vault.example.com", "transit", "k"),
            ("ftp://vault.example.com", "transit", "k"),
            ("vault", "transit", "k"),
            ("https://u:secret@vault.example.com", "transit", "k"),
            (https, "..", "k"),
            (https, "", "k"),
            (https, "transit", "../../sys/seal"),
            (https, "transit", ""),
        ] {
            let error = url(address, engine, name).expect_err(address);
            assert!(error.starts_with("Vault's address '"), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
        assert!(address(&key("http://127.0.0.1:8200", "transit", "k"), true).is_ok());
    }

    fn address_of(key: &VaultKey, allow_http: bool) -> Result<String> {
        address(key, allow_http).map(|url| url.to_string())
    }
}
