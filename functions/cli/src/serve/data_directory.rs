//! The directory that replaces the bucket: its place, its lock, and the removal of what must not
//! outlive a process.

use crate::error::Error;
use crate::term;
use driftless_adapters::local::{VOLATILE_PREFIXES, set_aside};
use driftless_kernel::ports::{BlobEntry, Ports, Result as PortResult};
use driftless_kernel::state::key_part;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::{env, fs};

/// A directory that no other process uses.
pub struct Data {
    /// The path of the directory.
    pub directory: PathBuf,
    /// The lock file, which is locked while it is open.
    _lock: File,
}

/// Opens `given`, else a directory of this hub in the user's state directory, else a temporary
/// directory. The path has the hub's name and its server, because the state of one cluster is not
/// valid for another.
pub fn open(given: Option<&Path>, name: &str, server: &str) -> Result<Data, Error> {
    let directory = match (given, default(name, server)) {
        (Some(given), _) => given.to_owned(),
        (None, Some(directory)) => directory,
        (None, None) => env::temp_dir().join(format!("driftless-{}", std::process::id())),
    };
    let shown = directory.display();
    fs::create_dir_all(&directory)
        .map_err(|error| Error::new(format!("create {shown}: {error}")))?;
    let file = directory.join("lock");
    let opened = match file.is_dir() {
        true => set_aside(&directory, &file).and_then(|()| File::create(&file)),
        false => File::create(&file),
    };
    let lock = opened.map_err(|error| Error::new(format!("{shown}/lock: {error}")))?;
    lock.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => {
            Error::new(format!("{shown} is used by another driftless serve"))
                .next("end it, or give another directory with --data")
        }
        TryLockError::Error(error) => Error::new(format!("lock {shown}/lock: {error}")),
    })?;
    term::success(&format!("artifacts and state are kept in {shown}"));
    Ok(Data {
        directory,
        _lock: lock,
    })
}

/// Returns the directory of a hub in the user's state directory; `None` if the user has none.
pub fn default(name: &str, server: &str) -> Option<PathBuf> {
    let server = key_part(server.trim_start_matches("https://"));
    Some(state()?.join("driftless").join(key_part(name)).join(server))
}

/// Returns the user's directory for state.
fn state() -> Option<PathBuf> {
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    let given = env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .and_then(absolute);
    given.or_else(|| {
        env::home_dir()
            .and_then(absolute)
            .map(|home| home.join(".local/state"))
    })
}

/// Deletes what is only valid in one process, such as leases: the queue of a new process is empty,
/// and nothing runs.
pub async fn forget(ports: &Ports) -> PortResult<()> {
    for prefix in VOLATILE_PREFIXES {
        for BlobEntry { key, .. } in ports.blobs.list(prefix).await? {
            ports.blobs.delete(&key).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_for_one_process() {
        let directory = tempfile::tempdir().unwrap();
        let first = open(Some(directory.path()), "hub", "https://hub").unwrap();
        let Err(error) = open(Some(directory.path()), "hub", "https://hub") else {
            unreachable!("opened by two processes")
        };
        assert!(
            error.message.contains("another driftless serve"),
            "{}",
            error.message
        );
        assert!(error.next.is_some_and(|next| next.contains("--data")));
        drop(first);
        assert!(open(Some(directory.path()), "hub", "https://hub").is_ok());
    }
}
