//! Secrets Manager: values by name, and calls without an answer.

use crate::gate::{Gate, Kind, Trouble};
use async_trait::async_trait;
use driftless_kernel::ports::{ErrorKind, PortError, Result, Secret, SecretStore};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The secret manager.
pub struct Manager {
    gate: Arc<Gate>,
    secrets: Mutex<BTreeMap<String, Secret>>,
}

impl Manager {
    /// Returns a manager without secrets.
    pub fn new(gate: Arc<Gate>) -> Self {
        Self {
            gate,
            secrets: Mutex::default(),
        }
    }

    /// Sets a secret.
    pub fn set(&self, name: &str, secret: Secret) {
        let mut secrets = self.secrets.lock().expect("the secrets");
        secrets.insert(name.to_owned(), secret);
    }
}

#[async_trait]
impl SecretStore for Manager {
    async fn secret(&self, name: &str) -> Result<Option<Secret>> {
        let effect = || Ok(self.secrets.lock().expect("the secrets").get(name).cloned());
        let refuse = |trouble| {
            let kind = match trouble {
                Trouble::Before(dice) if dice.is_multiple_of(3) => ErrorKind::RateLimited,
                _ => ErrorKind::Unavailable,
            };
            Err(PortError::new(
                kind,
                format!("read the secret '{name}': no answer"),
            ))
        };
        self.gate
            .call(Kind::Secret, name, None, effect, refuse)
            .await
    }
}
