//! The environment of a checkout, with its hubs and remote clusters.

use super::checkout::{Checkout, ENV_NAME};
use super::source;
use crate::error::Error;
use driftless_flux::FLUX_SYSTEM;
use std::collections::BTreeSet;

/// The file with the source of an environment.
pub const SYNC: &str = "clusters/base/sync.yaml";

/// The environment of a checkout.
pub struct Environment(String);

impl Environment {
    /// Reads the environment of the branch.
    ///
    /// # Errors
    /// Fails if the branch is not an environment.
    pub fn of(checkout: &Checkout) -> Result<Self, Error> {
        let text = checkout.text(ENV_NAME)?;
        let name = text
            .as_deref()
            .map(str::trim)
            .filter(|name| !name.is_empty());
        match name {
            Some(name) => {
                Ok(Self(super::name(name).map_err(|error| {
                    Error::caused_by(error).context(ENV_NAME)
                })?))
            }
            None => Err(Error::new(format!(
                "the branch is not an environment: the file {ENV_NAME} does not exist"
            ))
            .next("switch to the environment's branch, or run driftless env init NAME")),
        }
    }

    /// Returns the environment of a branch, whose name is valid.
    pub fn named(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// Returns the name of the environment, which is also its branch.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Returns the namespace of the environment's own objects on each hub.
    pub fn namespace(&self) -> String {
        format!("{}-{FLUX_SYSTEM}", self.0)
    }

    /// Returns the URL of the fleet repository.
    ///
    /// # Errors
    /// Fails if the source of the environment cannot be parsed.
    pub fn url(checkout: &Checkout) -> Result<Option<String>, Error> {
        match checkout.text(SYNC)? {
            Some(text) => source::url(SYNC, &text),
            None => Ok(None),
        }
    }

    /// Returns the namespace of a tenant.
    pub fn of_tenant(&self, tenant: &str) -> String {
        format!("{}-{tenant}", self.0)
    }

    /// Returns a release environment of this environment.
    pub fn release(&self, name: &str) -> Self {
        Self(format!("{}-{name}", self.0))
    }
}

/// Returns the names of the hubs.
pub fn hubs(checkout: &Checkout) -> BTreeSet<String> {
    let mut hubs = checkout.directories("clusters");
    hubs.remove("base");
    hubs
}

/// Returns the names of the remote clusters of a hub. Its directory may also have the directory of
/// `flux bootstrap`.
pub fn remotes(checkout: &Checkout, hub: &str) -> BTreeSet<String> {
    let mut remotes = checkout.directories(&format!("clusters/{hub}"));
    remotes.remove(FLUX_SYSTEM);
    remotes
}

/// Returns the error for a name that does not exist, with the existing names. `kind` and `list`
/// name one and all of them in the message.
pub fn not_found(kind: &str, name: &str, list: &str, known: BTreeSet<String>) -> Error {
    let known = match known.is_empty() {
        true => "none".to_owned(),
        false => known.into_iter().collect::<Vec<_>>().join(", "),
    };
    Error::new(format!(
        "{kind} '{name}' does not exist; the {list} are: {known}"
    ))
    .next("correct the name")
}
