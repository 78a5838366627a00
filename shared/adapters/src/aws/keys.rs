//! The secret store on AWS Secrets Manager.

use super::error::{status_and_code, to_error};
use super::warm_cache::WarmCache;
use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_secretsmanager::Client;
use aws_sdk_secretsmanager::types::{Filter, FilterNameStringType};
use driftless_kernel::ports::{ErrorKind, PortError, Result, Secret, SecretStore};
use std::time::Duration;

/// The time for which a warm function caches a secret: a rotated secret is read after at most this
/// time.
const TTL: Duration = Duration::from_secs(120);
/// The time for which a missing secret is cached: short, because it may be created at any moment.
const TTL_ABSENT: Duration = Duration::from_secs(15);

/// Secrets below one prefix of Secrets Manager.
pub struct SecretsManager {
    client: Client,
    prefix: String,
    known: WarmCache<Option<Secret>>,
}

impl SecretsManager {
    /// Creates a store with a prefix: with `driftless/`, the secret `hubs/staging` is
    /// `driftless/hubs/staging`.
    pub fn new(settings: &SdkConfig, prefix: impl Into<String>) -> Self {
        Self {
            client: Client::new(settings),
            prefix: prefix.into(),
            known: WarmCache::default(),
        }
    }

    /// Writes a secret: a new value of an existing secret, or a new secret.
    ///
    /// # Errors
    /// Fails if Secrets Manager does, or if the value is not UTF-8.
    pub async fn store(&self, name: &str, value: &Secret) -> Result<()> {
        let id = format!("{}{name}", self.prefix);
        let operation = format!("write the secret '{id}'");
        let text = value.expose_str().ok_or_else(|| {
            PortError::new(
                ErrorKind::Invalid,
                format!("{operation}: the value is not UTF-8"),
            )
        })?;
        let written = self
            .client
            .put_secret_value()
            .secret_id(&id)
            .secret_string(text)
            .send()
            .await;
        match written {
            Ok(_) => Ok(()),
            Err(error)
                if matches!(
                    status_and_code(&error),
                    Some((_, "ResourceNotFoundException"))
                ) =>
            {
                let created = self
                    .client
                    .create_secret()
                    .name(&id)
                    .secret_string(text)
                    .send()
                    .await;
                created
                    .map(|_| ())
                    .map_err(|error| to_error(&operation, &error))
            }
            Err(error) => Err(to_error(&operation, &error)),
        }
    }

    /// Returns the names of the secrets below a directory such as `hubs/`, without it, in order.
    ///
    /// # Errors
    /// Fails if Secrets Manager does.
    pub async fn names(&self, directory: &str) -> Result<Vec<String>> {
        let prefix = format!("{}{directory}", self.prefix);
        let filter = Filter::builder()
            .key(FilterNameStringType::Name)
            .values(&prefix)
            .build();
        let request = self.client.list_secrets().filters(filter);
        let mut pages = request.into_paginator().send();
        let mut names = Vec::new();
        while let Some(page) = pages.next().await {
            let page =
                page.map_err(|error| to_error(&format!("list the secrets '{prefix}*'"), &error))?;
            // The filter compares the start of the names.
            let found = page.secret_list.unwrap_or_default().into_iter();
            let found = found.filter_map(|secret| {
                let name = secret.name?;
                name.strip_prefix(&prefix).map(str::to_owned)
            });
            names.extend(found);
        }
        names.sort();
        Ok(names)
    }

    async fn fetch(&self, name: &str) -> Result<Option<Secret>> {
        let operation = format!("read the secret '{}{name}'", self.prefix);
        let request = self
            .client
            .get_secret_value()
            .secret_id(format!("{}{name}", self.prefix));
        let answer = match request.send().await {
            Ok(answer) => answer,
            Err(error) => {
                return match status_and_code(&error) {
                    Some((_, "ResourceNotFoundException")) => Ok(None),
                    _ => Err(to_error(&operation, &error)),
                };
            }
        };
        let secret = match (answer.secret_string, answer.secret_binary) {
            (Some(text), _) => Secret::new(text),
            (None, Some(bytes)) => Secret::new(bytes.into_inner()),
            (None, None) => {
                return Err(PortError::new(
                    ErrorKind::Unreadable,
                    format!("{operation}: the secret has no value"),
                ));
            }
        };
        Ok(Some(secret))
    }
}

#[async_trait]
impl SecretStore for SecretsManager {
    async fn secret(&self, name: &str) -> Result<Option<Secret>> {
        if let Some(secret) = self.known.get(name) {
            return Ok(secret);
        }
        let secret = self.fetch(name).await?;
        let ttl = if secret.is_some() { TTL } else { TTL_ABSENT };
        self.known.keep(name, secret.clone(), ttl);
        Ok(secret)
    }
}
