//! The copy of a hub's settings in the kubeconfig of the secret manager, from which a registration
//! is restored if the bucket is lost.
//!
//! The copy is an extension of the kubeconfig, which kubectl and the parser ignore. It is there and
//! not on the hub, because it specifies what the installation's own credentials may be used for:
//! only the operator writes the secret, and a user who can write it has the hub already.

use super::{RegistrationResult, Settings, key_of, newer, register};
use crate::document;
use crate::failure::Failure;
use crate::kubeconfig::{self, KubeconfigError};
use crate::ports::{ErrorKind, Ports, Secret};
use crate::state;
use driftless_flux::reason;

/// The name of the extension.
const EXTENSION: &str = "driftless.dev/settings";

/// The result of restoring a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreResult {
    /// The hub is registered, and its registration stayed unchanged.
    Kept,
    /// The hub was registered with the copied settings.
    Restored,
}

/// Returns a kubeconfig with a copy of the hub's settings.
///
/// # Errors
/// The kubeconfig is not valid.
pub fn with_settings(kubeconfig: &[u8], settings: &Settings) -> Result<Secret, KubeconfigError> {
    let copy = document::encode(settings).and_then(|text| serde_json::from_str(&text));
    let copy = copy.map_err(|error| KubeconfigError::new(error.to_string()))?;
    kubeconfig::with_extension(kubeconfig, EXTENSION, copy).map(Secret::new)
}

/// Returns the settings in a kubeconfig; `None` if it has no copy. The error names neither a value
/// of the kubeconfig nor of the settings.
///
/// # Errors
/// The kubeconfig is not valid, or the copy is damaged or has a newer format.
pub fn settings_in(kubeconfig: &[u8]) -> Result<Option<Settings>, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::terminal(reason::FAILED, error);
    let copy = kubeconfig::extension(kubeconfig, EXTENSION).map_err(|error| failed(&error))?;
    let Some(copy) = copy else {
        return Ok(None);
    };
    document::decode(copy.to_string().as_bytes())
        .map(Some)
        .map_err(|error| failed(&format!("the copy of its settings: {error}")))
}

/// Registers a hub with the settings that its secret has, unless it is registered. A damaged
/// registration is replaced.
///
/// # Errors
/// The secret is missing or has no settings of this hub: without them nothing would be forbidden,
/// so the hub is not registered. Those of the bucket and of the secret manager; the registration
/// has a newer format.
pub async fn restore(ports: &Ports, name: &str) -> Result<RestoreResult, Failure> {
    let key = key_of(name);
    match state::read::<Settings>(ports.blobs.as_ref(), &key).await {
        Ok(Some((settings, _))) if settings.name == name => return Ok(RestoreResult::Kept),
        Ok(_) => {}
        Err(error) if error.kind == ErrorKind::Unreadable => {}
        Err(error) => return Err(newer(error, &key).into()),
    }
    let secret = format!("hubs/{name}");
    let refused = |problem: &str| {
        let message = format!(
            "the secret '{secret}' {problem}: register the hub with all of its flags (driftless bootstrap --name {name})"
        );
        Failure::terminal(reason::FAILED, message)
    };
    let Some(text) = ports.secrets.secret(&secret).await? else {
        return Err(refused("does not exist"));
    };
    let settings = settings_in(text.expose())
        .map_err(|failure| failure.context(format!("the secret '{secret}'")))?;
    match settings {
        None => Err(refused("has no copy of the hub's settings")),
        Some(settings) if settings.name != name => Err(refused("has the settings of another hub")),
        Some(settings) => match register(ports, &settings).await? {
            RegistrationResult::Unchanged => Ok(RestoreResult::Kept),
            RegistrationResult::Written | RegistrationResult::Restored => {
                Ok(RestoreResult::Restored)
            }
        },
    }
}
