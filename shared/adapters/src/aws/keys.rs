//! Secrets on AWS Secrets Manager.

use super::error::{said, to_error};
use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_secretsmanager::Client;
use driftless_core::ports::{ErrorKind, PortError, Result, Secret, SecretStore};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long an answer is used again by a warm function: a rotated secret is seen after this time.
const FRESH: Duration = Duration::from_secs(120);
/// A secret that is not there may come any moment.
const FRESH_ABSENT: Duration = Duration::from_secs(15);
/// Answers kept.
const KEPT: usize = 500;

/// Secrets below one prefix of Secrets Manager.
pub struct SecretsManager {
    client: Client,
    prefix: String,
    known: Mutex<HashMap<String, (Instant, Option<Secret>)>>,
}

impl SecretsManager {
    /// With the prefix `driftless/`, the secret `hubs/staging` is `driftless/hubs/staging`.
    pub fn new(settings: &SdkConfig, prefix: impl Into<String>) -> Self {
        Self {
            client: Client::new(settings),
            prefix: prefix.into(),
            known: Mutex::default(),
        }
    }

    /// Writes a secret: a new value of one that is there, or a new secret.
    ///
    /// # Errors
    /// Secrets Manager's.
    pub async fn store(&self, name: &str, value: &Secret) -> Result<()> {
        let id = format!("{}{name}", self.prefix);
        let what = format!("write the secret '{id}'");
        let text = value
            .expose_str()
            .ok_or_else(|| PortError::new(ErrorKind::Invalid, format!("{what}: not text")))?;
        let written = self
            .client
            .put_secret_value()
            .secret_id(&id)
            .secret_string(text)
            .send()
            .await;
        match written {
            Ok(_) => Ok(()),
            Err(error) if matches!(said(&error), Some((_, "ResourceNotFoundException"))) => {
                let created = self
                    .client
                    .create_secret()
                    .name(&id)
                    .secret_string(text)
                    .send()
                    .await;
                created.map(|_| ()).map_err(|error| to_error(&what, &error))
            }
            Err(error) => Err(to_error(&what, &error)),
        }
    }

    fn known(&self, name: &str) -> Option<Option<Secret>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, secret) = known.get(name)?;
        let fresh = if secret.is_some() {
            FRESH
        } else {
            FRESH_ABSENT
        };
        (at.elapsed() < fresh).then(|| secret.clone())
    }

    async fn ask(&self, name: &str) -> Result<Option<Secret>> {
        let what = format!("read the secret '{}{name}'", self.prefix);
        let request = self
            .client
            .get_secret_value()
            .secret_id(format!("{}{name}", self.prefix));
        let answer = match request.send().await {
            Ok(answer) => answer,
            Err(error) => {
                return match said(&error) {
                    Some((_, "ResourceNotFoundException")) => Ok(None),
                    _ => Err(to_error(&what, &error)),
                };
            }
        };
        let secret = match (answer.secret_string, answer.secret_binary) {
            (Some(text), _) => Secret::new(text),
            (None, Some(bytes)) => Secret::new(bytes.into_inner()),
            (None, None) => {
                return Err(PortError::new(
                    ErrorKind::Unreadable,
                    format!("{what}: it has no value"),
                ));
            }
        };
        Ok(Some(secret))
    }
}

#[async_trait]
impl SecretStore for SecretsManager {
    async fn secret(&self, name: &str) -> Result<Option<Secret>> {
        if let Some(secret) = self.known(name) {
            return Ok(secret);
        }
        let secret = self.ask(name).await?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KEPT {
            known.clear();
        }
        known.insert(name.to_owned(), (Instant::now(), secret.clone()));
        Ok(secret)
    }
}
