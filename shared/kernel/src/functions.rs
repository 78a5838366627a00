//! The functions of an installation: the version that each of them runs, and the hub that they
//! serve if it is a single one.

use crate::ports::{Blobs, ErrorKind, Precondition, Result};
use crate::state;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of this build of driftless.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

const PREFIX: &str = "versions/";
/// The function that runs in each installation without a request.
const TIMED: &str = "drift";

#[derive(Serialize, Deserialize)]
struct FunctionVersion {
    version: String,
    /// The hub that the installation serves, if it serves one alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hub: Option<String>,
}

fn key(name: &str) -> String {
    format!("{PREFIX}{}.json", state::key_part(name))
}

/// Records that the function `name` runs this version, for `driftless doctor`, and which hub it
/// serves if it serves one alone, for `driftless bootstrap`. A function calls it when it starts.
///
/// # Errors
/// An error of the bucket.
pub async fn register(blobs: &dyn Blobs, name: &str, hub: Option<&str>) -> Result<()> {
    let running = FunctionVersion {
        version: VERSION.to_owned(),
        hub: hub.map(str::to_owned),
    };
    state::write(blobs, &key(name), &running, Precondition::None).await?;
    Ok(())
}

/// Returns the name of the hub that an installation serves alone. The drift function, which the
/// timer starts each minute, has recorded it; `None` if it serves all hubs, or has not started yet.
///
/// # Errors
/// An error of the bucket; `Unsupported` if a newer version has written the record.
pub async fn only_hub(blobs: &dyn Blobs) -> Result<Option<String>> {
    match state::read::<FunctionVersion>(blobs, &key(TIMED)).await {
        Ok(found) => Ok(found.and_then(|(running, _)| running.hub)),
        // The function writes it again when it starts.
        Err(error) if error.kind == ErrorKind::Unreadable => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads the versions of the functions that started so far, by their names.
///
/// # Errors
/// An error of the bucket.
pub async fn versions(blobs: &dyn Blobs) -> Result<BTreeMap<String, String>> {
    let mut versions = BTreeMap::new();
    for entry in blobs.list(PREFIX).await? {
        let name = entry.key.strip_prefix(PREFIX);
        let name = name.and_then(|file| state::decode_key_part(file.strip_suffix(".json")?));
        if let (Some(name), Some((running, _))) = (
            name,
            state::recall::<FunctionVersion>(blobs, &entry.key).await?,
        ) {
            versions.insert(name, running.version);
        }
    }
    Ok(versions)
}
