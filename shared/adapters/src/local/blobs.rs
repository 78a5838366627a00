//! The blob store in a directory.

use super::directory::{Directory, age, present};
use super::names;
use async_trait::async_trait;
use bytes::Bytes;
use driftless_kernel::ports::{
    BlobEntry, Blobs, ErrorKind, PortError, Precondition, PutOutcome, Result, Version,
};
use sha2::{Digest, Sha256};
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The prefixes of blobs about running work. They are useless after a power loss, when no work
/// runs: their files may be torn, and writes of them do not wait for the disk.
pub const VOLATILE_PREFIXES: [&str; 2] = ["schedule/", "objects/"];

/// The prefix of the journals, whose writes do not wait for the disk either: they are for people
/// only. A power loss may tear the newest ones; a torn one is set aside.
const JOURNALS: &str = "journal/";

/// A directory that replaces the bucket, with the same conditional writes, for any number of
/// processes on one machine.
///
/// A blob's version is a hash of its content. Blobs are written atomically: to a temporary file,
/// which is synced to the disk and renamed. After a power loss the newest blobs may be missing, and
/// the next steps write them again. Entries that are not files, and blobs that [`Blobs::set_aside`]
/// moves away, are kept in the directory `damaged`.
#[derive(Clone, Debug)]
pub struct DirectoryBlobs {
    directory: Arc<Directory>,
}

impl DirectoryBlobs {
    /// Opens a directory, and creates it if it does not exist.
    ///
    /// # Errors
    /// Fails if the directory cannot be created.
    pub fn open(root: &Path) -> Result<Self> {
        let directory = Directory::open(root).map_err(|error| {
            PortError::new(
                ErrorKind::Invalid,
                format!("open the store in {}: {error}", root.display()),
            )
        })?;
        Ok(Self {
            directory: Arc::new(directory),
        })
    }

    /// Removes a blob that was not written for the time `unwritten`, while writers of the same key
    /// are locked out. Returns whether it was removed.
    ///
    /// # Errors
    /// Fails if the file system does.
    pub async fn expire(&self, key: &str, unwritten: Duration) -> Result<bool> {
        let file = names::file_of(key)?;
        let locked = key.to_owned();
        let expire = move |directory: &Directory| {
            let _lock = directory.lock(&locked)?;
            let meta = directory.metadata(&file)?;
            let is_old = meta.is_some_and(|meta| age(&meta).is_some_and(|age| age >= unwritten));
            if is_old {
                directory.remove(&file)?;
            }
            Ok(is_old)
        };
        self.run("expire", key, expire).await
    }

    /// Runs blocking work on a blocking thread.
    async fn run<T: Send + 'static>(
        &self,
        operation: &str,
        key: &str,
        work: impl FnOnce(&Directory) -> io::Result<T> + Send + 'static,
    ) -> Result<T> {
        let directory = self.directory.clone();
        let done = tokio::task::spawn_blocking(move || work(&directory)).await;
        done.unwrap_or_else(|error| Err(io::Error::other(error)))
            .map_err(|error| {
                let file = names::file_of(key).unwrap_or_default();
                let file = self.directory.blobs.join(file);
                PortError::new(
                    ErrorKind::Unavailable,
                    format!(
                        "{operation} '{key}' in the store: {}: {error}",
                        file.display()
                    ),
                )
            })
    }
}

#[async_trait]
impl Blobs for DirectoryBlobs {
    async fn get(&self, key: &str) -> Result<Option<(Bytes, Version)>> {
        let file = names::file_of(key)?;
        self.run("read", key, move |directory| read(directory, &file))
            .await
    }

    async fn get_range(&self, key: &str, range: Range<u64>) -> Result<Option<Bytes>> {
        let file = names::file_of(key)?;
        let wanted = range.clone();
        let read = move |directory: &Directory| directory.read_range(&file, wanted);
        let Some(content) = self.run("read a part of", key, read).await? else {
            return Ok(None);
        };
        if content.is_empty() {
            let message = format!("{key}: the blob ends before byte {}", range.start);
            return Err(PortError::new(ErrorKind::Unreadable, message));
        }
        Ok(Some(content.into()))
    }

    async fn put(&self, key: &str, content: Bytes, when: Precondition) -> Result<PutOutcome> {
        let file = names::file_of(key)?;
        let locked = key.to_owned();
        self.run("write", key, move |directory| {
            put(directory, &locked, &file, &content, &when)
        })
        .await
    }

    async fn delete(&self, key: &str) -> Result<()> {
        let file = names::file_of(key)?;
        let locked = key.to_owned();
        let remove = move |directory: &Directory| {
            let _lock = directory.lock(&locked)?;
            directory.remove(&file)
        };
        self.run("delete", key, remove).await
    }

    async fn delete_version(&self, key: &str, version: &Version) -> Result<bool> {
        let file = names::file_of(key)?;
        let (locked, version) = (key.to_owned(), version.clone());
        let remove = move |directory: &Directory| {
            let _lock = directory.lock(&locked)?;
            match read(directory, &file)? {
                Some((_, now)) if now != version => Ok(false),
                _ => directory.remove(&file).map(|()| true),
            }
        };
        self.run("delete", key, remove).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<BlobEntry>> {
        let wanted = prefix.to_owned();
        self.run("list", prefix, move |directory| list(directory, &wanted))
            .await
    }

    async fn size(&self, key: &str) -> Result<Option<u64>> {
        let file = names::file_of(key)?;
        let size =
            move |directory: &Directory| Ok(directory.metadata(&file)?.map(|meta| meta.len()));
        self.run("read the size of", key, size).await
    }

    async fn set_aside(&self, key: &str, version: &Version) -> Result<()> {
        let file = names::file_of(key)?;
        let (locked, version) = (key.to_owned(), version.clone());
        let set_aside = move |directory: &Directory| {
            let _lock = directory.lock(&locked)?;
            match read(directory, &file)? {
                Some((_, now)) if now == version => {
                    directory.set_aside(&directory.blobs.join(file))
                }
                _ => Ok(()),
            }
        };
        self.run("set aside", key, set_aside).await
    }

    fn url(&self, key: &str) -> String {
        // An invalid key has no file and no URL; the other calls return its error.
        let file = names::file_of(key).unwrap_or_default();
        format!("file://{}", self.directory.blobs.join(file).display()).replace('%', "%25")
    }
}

fn put(
    directory: &Directory,
    key: &str,
    file: &Path,
    content: &[u8],
    when: &Precondition,
) -> io::Result<PutOutcome> {
    let _lock = directory.lock(key)?;
    let holds = match when {
        Precondition::None => true,
        Precondition::Absent => directory.metadata(file)?.is_none(),
        Precondition::Is(version) => read(directory, file)?.is_some_and(|(_, now)| now == *version),
    };
    if !holds {
        return Ok(PutOutcome::PreconditionFailed);
    }
    let may_tear = VOLATILE_PREFIXES
        .iter()
        .chain([&JOURNALS])
        .any(|prefix| key.starts_with(prefix));
    directory.write(file, content, may_tear)?;
    Ok(PutOutcome::Done(version(content)))
}

fn list(directory: &Directory, prefix: &str) -> io::Result<Vec<BlobEntry>> {
    let mut found = Vec::new();
    // The complete parts of the prefix are directories; only the last part may be incomplete.
    let start = prefix
        .rsplit_once('/')
        .and_then(|(dir, _)| names::file_of(&format!("{dir}/x")).ok());
    let start = start
        .as_deref()
        .and_then(Path::parent)
        .map_or(directory.blobs.clone(), |dir| directory.blobs.join(dir));
    let mut directories: Vec<PathBuf> = vec![start];
    while let Some(dir) = directories.pop() {
        let Some(entries) = present(fs::read_dir(&dir))? else {
            continue;
        };
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                directories.push(entry.path());
                continue;
            }
            let path = entry.path();
            let file = path.strip_prefix(&directory.blobs).unwrap_or(&path);
            let Some(key) = names::key_of(file).filter(|key| key.starts_with(prefix)) else {
                continue;
            };
            if let Some(meta) = directory.metadata(file)? {
                found.push(BlobEntry {
                    key,
                    size: meta.len(),
                    // The version is a digest of the content, which is not read for a list.
                    version: None,
                });
            }
        }
    }
    found.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(found)
}

fn read(directory: &Directory, file: &Path) -> io::Result<Option<(Bytes, Version)>> {
    let content = directory.read(file)?;
    Ok(content.map(|content| {
        let version = version(&content);
        (Bytes::from(content), version)
    }))
}

fn version(content: &[u8]) -> Version {
    Version(hex::encode(&Sha256::digest(content)[..16]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, DirectoryBlobs) {
        let directory = tempfile::tempdir().unwrap();
        let blobs = DirectoryBlobs::open(directory.path()).unwrap();
        (directory, blobs)
    }

    fn done(put: PutOutcome) -> Version {
        match put {
            PutOutcome::Done(version) => version,
            PutOutcome::PreconditionFailed => panic!("refused"),
        }
    }

    #[tokio::test]
    async fn conditions_hold_as_in_s3() {
        let (_directory, blobs) = store();
        let put = |key, content: &'static str, when| blobs.put(key, Bytes::from(content), when);
        assert_eq!(blobs.get("a/b").await.unwrap(), None);
        assert_eq!(
            put("a/b", "1", Precondition::Is(Version("x".into())))
                .await
                .unwrap(),
            PutOutcome::PreconditionFailed
        );
        let first = done(put("a/b", "1", Precondition::Absent).await.unwrap());
        assert_eq!(
            put("a/b", "2", Precondition::Absent).await.unwrap(),
            PutOutcome::PreconditionFailed
        );
        assert_eq!(
            blobs.get("a/b").await.unwrap(),
            Some((Bytes::from("1"), first.clone()))
        );
        let second = done(
            put("a/b", "2", Precondition::Is(first.clone()))
                .await
                .unwrap(),
        );
        assert_eq!(
            put("a/b", "3", Precondition::Is(first)).await.unwrap(),
            PutOutcome::PreconditionFailed
        );
        done(put("a", "parent", Precondition::None).await.unwrap());
        done(put("a/bc", "", Precondition::None).await.unwrap());
        let keys =
            |list: Vec<BlobEntry>| list.into_iter().map(|entry| entry.key).collect::<Vec<_>>();
        assert_eq!(keys(blobs.list("").await.unwrap()), ["a", "a/b", "a/bc"]);
        assert_eq!(keys(blobs.list("a/b").await.unwrap()), ["a/b", "a/bc"]);
        assert_eq!(keys(blobs.list("a/bc/").await.unwrap()), [""; 0]);
        assert_eq!(blobs.list("a/b").await.unwrap()[0].size, 1);
        assert_eq!(blobs.size("a/b").await.unwrap(), Some(1));
        assert_eq!(blobs.get("a/b").await.unwrap().unwrap().1, second);
        blobs.delete("a/b").await.unwrap();
        blobs.delete("a/b").await.unwrap();
        assert_eq!(blobs.get("a/b").await.unwrap(), None);
        assert_eq!(blobs.size("a/b").await.unwrap(), None);
        assert!(blobs.url("a/bc").starts_with("file:///"));
    }

    #[tokio::test]
    async fn keys_with_dot_dot_stay_in_the_directory() {
        let (directory, blobs) = store();
        for key in ["../../escaped", "a/../../escaped", ".."] {
            done(
                blobs
                    .put(key, Bytes::from("x"), Precondition::None)
                    .await
                    .unwrap(),
            );
            assert!(blobs.get(key).await.unwrap().is_some());
        }
        let names: Vec<_> = fs::read_dir(directory.path())
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert_eq!(names.len(), 3, "{names:?}");
        assert!(
            !directory
                .path()
                .parent()
                .unwrap()
                .join("escaped.blob")
                .exists()
        );
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn of_sixteen_writers_one_wins() {
        let (directory, blobs) = store();
        let mut version = done(
            blobs
                .put("lease", Bytes::from("start"), Precondition::Absent)
                .await
                .unwrap(),
        );
        for round in 0..30 {
            let when = if round % 2 == 0 {
                Precondition::Is(version.clone())
            } else {
                blobs.delete("lease").await.unwrap();
                Precondition::Absent
            };
            let writers: Vec<_> = (0..16)
                .map(|n| {
                    // Each writer has its own handle, as if it were a process.
                    let own = DirectoryBlobs::open(directory.path()).unwrap();
                    let when = when.clone();
                    tokio::spawn(async move {
                        own.put("lease", Bytes::from(format!("{round}-{n}")), when)
                            .await
                            .unwrap()
                    })
                })
                .collect();
            let mut winners = Vec::new();
            for writer in writers {
                if let PutOutcome::Done(version) = writer.await.unwrap() {
                    winners.push(version);
                }
            }
            assert_eq!(winners.len(), 1, "round {round}");
            version = winners.remove(0);
            assert_eq!(blobs.get("lease").await.unwrap().unwrap().1, version);
        }
    }
}
