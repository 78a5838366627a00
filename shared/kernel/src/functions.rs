//! The functions of an installation, and the version that each of them runs.

use crate::ports::{Blobs, Precondition, Result};
use crate::state;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of this build of driftless.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

const PREFIX: &str = "versions/";

#[derive(Serialize, Deserialize)]
struct FunctionVersion {
    version: String,
}

fn key(name: &str) -> String {
    format!("{PREFIX}{}.json", state::key_part(name))
}

/// Records that the function `name` runs this version, for `driftless doctor`. A function calls it
/// when it starts.
///
/// # Errors
/// An error of the bucket.
pub async fn register(blobs: &dyn Blobs, name: &str) -> Result<()> {
    let running = FunctionVersion {
        version: VERSION.to_owned(),
    };
    state::write(blobs, &key(name), &running, Precondition::None).await?;
    Ok(())
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
