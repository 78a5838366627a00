//! Access to repositories by tokens, Apps and their installations.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rcgen::{KeyPair, PKCS_RSA_SHA256, PublicKeyData};
use serde_json::Value;

use super::repository::Repository;

/// A GitHub App: sign a JWT with its key, exchange it for a token.
#[derive(Clone, Debug)]
pub struct App {
    /// The App's id, the `iss` of its JWT.
    pub id: u64,
    /// The id of its one installation.
    pub installation: u64,
    /// The private key, PEM (PKCS#8, RSA 2048).
    pub private_key: String,
}

#[derive(Default)]
pub(crate) struct Access {
    /// Full names in lower case, by token.
    tokens: BTreeMap<String, BTreeSet<String>>,
    installation_tokens: BTreeSet<String>,
    apps: Vec<Registered>,
}

struct Registered {
    id: u64,
    installation: u64,
    public_key: Vec<u8>,
    repositories: BTreeSet<String>,
}

/// The caller of a request.
pub(super) enum Caller {
    Anonymous,
    Token(String),
    /// An App itself, by JWT.
    App {
        installation: u64,
    },
    /// Invalid credentials, answered with 401.
    Unknown,
}

impl Access {
    pub(super) fn add_token(&mut self, token: &str, repositories: &[&str]) {
        self.tokens.insert(token.to_owned(), lower(repositories));
    }

    pub(super) fn add_app(&mut self, id: u64, installation: u64, repositories: &[&str]) -> App {
        let key = KeyPair::generate_for(&PKCS_RSA_SHA256).expect("generate an RSA key");
        self.apps.push(Registered {
            id,
            installation,
            public_key: key.der_bytes().to_vec(),
            repositories: lower(repositories),
        });
        App {
            id,
            installation,
            private_key: key.serialize_pem(),
        }
    }

    pub(super) fn expire_tokens(&mut self) {
        for token in std::mem::take(&mut self.installation_tokens) {
            self.tokens.remove(&token);
        }
    }

    /// Issues a new token of an installation.
    pub(super) fn issue(&mut self, installation: u64) -> Option<String> {
        let app = self
            .apps
            .iter()
            .find(|app| app.installation == installation)?;
        let token = format!(
            "ghs_{installation:08}{:028}",
            self.installation_tokens.len()
        );
        self.tokens.insert(token.clone(), app.repositories.clone());
        self.installation_tokens.insert(token.clone());
        Some(token)
    }

    /// Returns the ids of the App that is installed on a repository and of its installation.
    pub(super) fn installed(&self, repository: &Repository) -> Option<(u64, u64)> {
        let name = repository.full_name().to_lowercase();
        let app = self.apps.iter().find(|a| a.repositories.contains(&name))?;
        Some((app.id, app.installation))
    }

    pub(super) fn caller(&self, authorization: &str) -> Caller {
        let Some((scheme, value)) = authorization.split_once(' ') else {
            return if authorization.is_empty() {
                Caller::Anonymous
            } else {
                Caller::Unknown
            };
        };
        let token = match scheme.to_lowercase().as_str() {
            "bearer" | "token" => value.trim().to_owned(),
            "basic" => password(value),
            _ => return Caller::Unknown,
        };
        if self.tokens.contains_key(&token) {
            return Caller::Token(token);
        }
        match self.app_of(&token) {
            Some(app) => Caller::App {
                installation: app.installation,
            },
            None => Caller::Unknown,
        }
    }

    pub(super) fn may_see(&self, caller: &Caller, repository: &Repository) -> bool {
        let name = repository.full_name().to_lowercase();
        let allowed = |token: &String| self.tokens.get(token).is_some_and(|r| r.contains(&name));
        !repository.is_private() || matches!(caller, Caller::Token(token) if allowed(token))
    }

    pub(super) fn may_write(&self, caller: &Caller, repository: &Repository) -> bool {
        let name = repository.full_name().to_lowercase();
        matches!(caller, Caller::Token(token) if self.tokens.get(token).is_some_and(|r| r.contains(&name)))
    }

    /// Returns the App whose key signed this JWT, if the JWT is valid now.
    fn app_of(&self, jwt: &str) -> Option<&Registered> {
        let (signed, signature) = jwt.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let claims = part(claims)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
        let valid = part(header)?["alg"] == "RS256"
            && claims["iat"].as_u64()? <= now + 60
            && (now..=now + 660).contains(&claims["exp"].as_u64()?);
        let issuer = match &claims["iss"] {
            Value::String(text) => text.parse().ok()?,
            other => other.as_u64()?,
        };
        let app = self.apps.iter().find(|app| app.id == issuer)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &app.public_key)
            .verify(signed.as_bytes(), &signature)
            .ok()?;
        valid.then_some(app)
    }
}

fn part(encoded: &str) -> Option<Value> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(encoded).ok()?).ok()
}

fn password(basic: &str) -> String {
    let decoded = STANDARD.decode(basic.trim()).unwrap_or_default();
    let text = String::from_utf8_lossy(&decoded).into_owned();
    text.split_once(':')
        .map_or(String::new(), |(_, password)| password.to_owned())
}

fn lower(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| name.to_lowercase()).collect()
}
