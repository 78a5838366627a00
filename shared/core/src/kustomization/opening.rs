//! The keys that open the encrypted files of a repository, for a plan: those of the step of a
//! Kustomization, with the data keys that its key services decrypt.

use super::keys;
use driftless_flux::Kustomization;
use driftless_kernel::context::Context;
use driftless_kernel::failure::Failure;
use driftless_kernel::hub::Hub;
use driftless_kernel::ports::Ports;
use driftless_sops::{Keyring, MasterKey};

/// The most data keys that key services decrypt.
const MAX_SERVICE_KEYS: usize = 256;

/// Returns the keys of a Kustomization, and of `wanted` the data keys that its key services
/// decrypt. Data keys that no service decrypts are left out: their files stay closed.
///
/// # Errors
/// The Secret with the keys cannot be read or does not exist, or a key is not valid; no message
/// contains a key.
pub async fn keyring(
    ports: &Ports,
    hub: &Hub,
    of: &Kustomization,
    wanted: &[MasterKey],
) -> Result<Keyring, Failure> {
    let Some(decryption) = &of.spec.decryption else {
        return Ok(Keyring::new());
    };
    let context = Context::rehearsal(ports, hub.clone(), of.id.clone());
    let found = keys::keyring(&context, of, decryption).await?;
    let mut keyring = found.keyring;
    let served = wanted.iter().filter(|key| found.services.has(&key.service));
    let served: Vec<MasterKey> = served.take(MAX_SERVICE_KEYS).cloned().collect();
    for (key, answer) in found.services.decrypt(&context, served).await {
        match answer {
            Ok(data_key) => keyring.add_opened(&key, data_key.expose()),
            Err(refused) => tracing::info!(
                object = %of.id,
                "a data key of the plan was not decrypted: {}: {refused}", key.service
            ),
        }
    }
    Ok(keyring)
}
