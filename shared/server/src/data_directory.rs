//! The directory that replaces the bucket: its place, its lock, and the removal of what must not
//! outlive a process.

use driftless_adapters::local::{VOLATILE_PREFIXES, set_aside};
use driftless_kernel::ports::{BlobEntry, Ports, Result as PortResult};
use driftless_kernel::state::key_part;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// A directory that no other process uses.
pub struct DataDirectory {
    path: PathBuf,
    /// The lock file, which is locked while it is open.
    _lock: File,
}

/// The reason why a directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirectoryError {
    /// The directory cannot be created.
    #[error("create {}", .path.display())]
    Create {
        /// The path of the directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The lock file cannot be created.
    #[error("{}", .path.display())]
    OpenLock {
        /// The path of the lock file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The lock file cannot be locked.
    #[error("lock {}", .path.display())]
    Lock {
        /// The path of the lock file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Another process uses the directory.
    #[error("{} is used by another driftless serve", .path.display())]
    InUse {
        /// The path of the directory.
        path: PathBuf,
    },
}

impl DataDirectory {
    /// Opens `given`, else [`DataDirectory::default_path`], else a temporary directory.
    ///
    /// # Errors
    /// The directory cannot be written, or another process uses it.
    pub fn open(given: Option<&Path>, hub: &str, server: &str) -> Result<Self, DataDirectoryError> {
        let path = match (given, Self::default_path(hub, server)) {
            (Some(given), _) => given.to_owned(),
            (None, Some(default)) => default,
            (None, None) => env::temp_dir().join(format!("driftless-{}", std::process::id())),
        };
        if let Err(error) = fs::create_dir_all(&path) {
            return Err(DataDirectoryError::Create {
                path,
                source: error,
            });
        }
        let file = path.join("lock");
        let opened = match file.is_dir() {
            true => set_aside(&path, &file).and_then(|()| File::create(&file)),
            false => File::create(&file),
        };
        let lock = match opened {
            Ok(lock) => lock,
            Err(error) => {
                return Err(DataDirectoryError::OpenLock {
                    path: file,
                    source: error,
                });
            }
        };
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(DataDirectoryError::InUse { path }),
            Err(TryLockError::Error(error)) => Err(DataDirectoryError::Lock {
                path: file,
                source: error,
            }),
        }
    }

    /// Returns the directory of a hub in the user's state directory; `None` if the user has none.
    /// The path has the hub's name and its server, because the state of one cluster is not valid
    /// for another.
    pub fn default_path(hub: &str, server: &str) -> Option<PathBuf> {
        let server = key_part(server.trim_start_matches("https://"));
        Some(state()?.join("driftless").join(key_part(hub)).join(server))
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
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
pub(crate) async fn forget(ports: &Ports) -> PortResult<()> {
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
        let open = || DataDirectory::open(Some(directory.path()), "hub", "https://hub");
        let first = open().unwrap();
        let second = open().map(|_| ()).unwrap_err();
        assert!(second.to_string().contains("another driftless serve"));
        drop(first);
        assert!(open().is_ok());
    }

    #[test]
    fn a_damaged_lock_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("lock")).unwrap();
        assert!(DataDirectory::open(Some(directory.path()), "hub", "https://hub").is_ok());
        assert!(directory.path().join("damaged/1/lock").is_dir());
    }
}
