//! The directory that may be read as a repository. Objects on the hub could name any directory, and
//! are not trusted.

use driftless_adapters::local::DirectoryBlobs;
use driftless_kernel::ports::{Precondition, Result};
use driftless_kernel::repository::directory;
use driftless_kernel::state;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The key of the last repository in the store.
const KEY: &str = "serve/repository.json";

/// The record in the store.
#[derive(Serialize, Deserialize)]
struct Record {
    url: String,
}

/// The directory of the repository of the last start that named one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LastRepository {
    /// No start named a repository, or the last one was not a directory.
    None,
    /// The directory exists.
    Directory(PathBuf),
    /// The directory no longer exists.
    Missing(PathBuf),
}

impl LastRepository {
    /// Reads it from the state directory.
    ///
    /// # Errors
    /// The state directory cannot be read.
    pub async fn read(store: &DirectoryBlobs) -> Result<Self> {
        let known = state::recall::<Record>(store, KEY).await?;
        let path = known.and_then(|(record, _)| directory(&record.url).map(PathBuf::from));
        Ok(match path {
            None => Self::None,
            Some(path) if path.is_dir() => Self::Directory(path),
            Some(path) => Self::Missing(path),
        })
    }

    /// Stores the URL of a repository for later starts without one.
    ///
    /// # Errors
    /// The state directory cannot be written.
    pub async fn remember(store: &DirectoryBlobs, url: &str) -> Result<()> {
        let url = url.to_owned();
        state::write(store, KEY, &Record { url }, Precondition::None).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_kernel::repository::directory_url;

    #[tokio::test]
    async fn a_directory_is_remembered_until_another_repository_is() {
        let home = tempfile::tempdir().unwrap();
        let store = DirectoryBlobs::open(&home.path().join("state")).unwrap();
        let (fleet, moved) = (home.path().join("fleet"), home.path().join("moved"));
        std::fs::create_dir(&fleet).unwrap();
        let read = async || LastRepository::read(&store).await.unwrap();
        let remember = async |url: &str| LastRepository::remember(&store, url).await.unwrap();
        assert_eq!(read().await, LastRepository::None);
        remember(&directory_url(&fleet.to_string_lossy())).await;
        assert_eq!(read().await, LastRepository::Directory(fleet.clone()));
        std::fs::rename(&fleet, &moved).unwrap();
        assert_eq!(read().await, LastRepository::Missing(fleet.clone()));
        std::fs::rename(&moved, &fleet).unwrap();
        assert_eq!(read().await, LastRepository::Directory(fleet));
        remember("https://github.com/acme/fleet").await;
        assert_eq!(read().await, LastRepository::None);
    }
}
