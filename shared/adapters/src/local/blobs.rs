use super::names;
use async_trait::async_trait;
use bytes::Bytes;
use driftless_core::ports::{Blobs, ErrorKind, PortError, Precondition, Put, Result, Version};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Numbers the files that this process wrote aside, whichever handle it used.
static ASIDE: AtomicU64 = AtomicU64::new(0);

/// A folder in place of the bucket, with the same conditional writes, for any number of processes on one machine.
///
/// A blob's version is a hash of its content. A blob appears at once and whole (written aside, then renamed). Nothing is
/// forced to the disk: after a power loss the newest blobs may be missing, and the next steps write them again.
#[derive(Clone, Debug)]
pub struct FolderBlobs {
    folder: Arc<Folder>,
}

#[derive(Debug)]
struct Folder {
    blobs: PathBuf,
    /// Files whose locks serialise writers, one for each first byte of the key's hash.
    locks: PathBuf,
    /// Where blobs are written before they get their name.
    aside: PathBuf,
}

impl FolderBlobs {
    /// Opens a folder, and makes it if need be.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn open(root: &Path) -> Result<Self> {
        let open = || {
            fs::create_dir_all(root)?;
            let root = root.canonicalize()?;
            let folder = Folder {
                blobs: root.join("blobs"),
                locks: root.join("locks"),
                aside: root.join("aside"),
            };
            for dir in [&folder.blobs, &folder.locks, &folder.aside] {
                fs::create_dir_all(dir)?;
            }
            folder.sweep()?;
            Ok(folder)
        };
        let folder = open().map_err(|error: io::Error| {
            PortError::new(
                ErrorKind::Invalid,
                format!("open the store in {}: {error}", root.display()),
            )
        })?;
        Ok(Self {
            folder: Arc::new(folder),
        })
    }

    /// Runs blocking work away from the async threads.
    async fn run<T: Send + 'static>(
        &self,
        what: &str,
        key: &str,
        work: impl FnOnce(&Folder) -> io::Result<T> + Send + 'static,
    ) -> Result<T> {
        let folder = self.folder.clone();
        let done = tokio::task::spawn_blocking(move || work(&folder)).await;
        done.unwrap_or_else(|error| Err(io::Error::other(error)))
            .map_err(|error| {
                PortError::new(
                    ErrorKind::Unavailable,
                    format!("{what} '{key}' in the store: {error}"),
                )
            })
    }
}

#[async_trait]
impl Blobs for FolderBlobs {
    async fn get(&self, key: &str) -> Result<Option<(Bytes, Version)>> {
        let file = names::file_of(key)?;
        self.run("read", key, move |folder| read(&folder.blobs.join(file)))
            .await
    }

    async fn put(&self, key: &str, content: Bytes, when: Precondition) -> Result<Put> {
        let file = names::file_of(key)?;
        let locked = key.to_owned();
        self.run("write", key, move |folder| {
            folder.put(&locked, &file, &content, &when)
        })
        .await
    }

    async fn delete(&self, key: &str) -> Result<()> {
        let file = names::file_of(key)?;
        let locked = key.to_owned();
        let remove = move |folder: &Folder| {
            let _lock = folder.lock(&locked)?;
            // Empty folders stay: removing them would race with writers of their other keys.
            fs::remove_file(folder.blobs.join(file)).or_else(absent)
        };
        self.run("delete", key, remove).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<(String, Version)>> {
        let wanted = prefix.to_owned();
        self.run("list", prefix, move |folder| folder.list(&wanted))
            .await
    }

    fn url(&self, key: &str) -> String {
        // A key that has no file has no address either; the blob's other calls say why.
        let file = names::file_of(key).unwrap_or_default();
        format!("file://{}", self.folder.blobs.join(file).display()).replace('%', "%25")
    }
}

impl Folder {
    fn lock(&self, key: &str) -> io::Result<File> {
        let name = hex::encode(&Sha256::digest(key)[..1]);
        let file = File::options()
            .create(true)
            .append(true)
            .open(self.locks.join(name))?;
        file.lock()?;
        Ok(file)
    }

    fn put(&self, key: &str, file: &Path, content: &[u8], when: &Precondition) -> io::Result<Put> {
        let file = self.blobs.join(file);
        let _lock = self.lock(key)?;
        let holds = match when {
            Precondition::None => true,
            Precondition::Absent => !file.try_exists()?,
            Precondition::Is(version) => read(&file)?.is_some_and(|(_, now)| now == *version),
        };
        if !holds {
            return Ok(Put::Refused);
        }
        let count = ASIDE.fetch_add(1, Ordering::Relaxed);
        let aside = self.aside.join(format!("{}-{count}", std::process::id()));
        let written = fs::write(&aside, content)
            .and_then(|()| file.parent().map_or(Ok(()), fs::create_dir_all))
            .and_then(|()| fs::rename(&aside, &file));
        if let Err(error) = written {
            fs::remove_file(&aside).or_else(absent)?;
            return Err(error);
        }
        Ok(Put::Done(version(content)))
    }

    fn list(&self, prefix: &str) -> io::Result<Vec<(String, Version)>> {
        let mut found = Vec::new();
        // Whole parts of the prefix name folders; only the last part may be cut short.
        let start = prefix
            .rsplit_once('/')
            .and_then(|(dir, _)| names::file_of(&format!("{dir}/x")).ok());
        let start = start
            .as_deref()
            .and_then(Path::parent)
            .map_or(self.blobs.clone(), |dir| self.blobs.join(dir));
        let mut folders = vec![start];
        while let Some(dir) = folders.pop() {
            let entries = match fs::read_dir(&dir) {
                Ok(entries) => entries,
                Err(error) => {
                    absent(error)?;
                    continue;
                }
            };
            for entry in entries {
                let entry = entry?;
                if entry.file_type()?.is_dir() {
                    folders.push(entry.path());
                    continue;
                }
                let path = entry.path();
                let key = path.strip_prefix(&self.blobs).ok().and_then(names::key_of);
                let Some(key) = key.filter(|key| key.starts_with(prefix)) else {
                    continue;
                };
                if let Some((_, version)) = read(&path)? {
                    found.push((key, version));
                }
            }
        }
        found.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(found)
    }

    /// Removes what writers that died left aside.
    fn sweep(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.aside)? {
            let entry = entry?;
            let age = entry
                .metadata()
                .and_then(|meta| meta.modified())
                .map(|time| time.elapsed().unwrap_or_default());
            if age.is_ok_and(|age| age > Duration::from_secs(3600)) {
                fs::remove_file(entry.path()).or_else(absent)?;
            }
        }
        Ok(())
    }
}

fn read(file: &Path) -> io::Result<Option<(Bytes, Version)>> {
    match fs::read(file) {
        Ok(content) => {
            let version = version(&content);
            Ok(Some((Bytes::from(content), version)))
        }
        Err(error) => absent(error).map(|()| None),
    }
}

fn version(content: &[u8]) -> Version {
    Version(hex::encode(&Sha256::digest(content)[..16]))
}

/// What is not there is no failure.
fn absent(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound {
        Ok(())
    } else {
        Err(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, FolderBlobs) {
        let folder = tempfile::tempdir().unwrap();
        let blobs = FolderBlobs::open(folder.path()).unwrap();
        (folder, blobs)
    }

    fn done(put: Put) -> Version {
        match put {
            Put::Done(version) => version,
            Put::Refused => panic!("refused"),
        }
    }

    #[tokio::test]
    async fn conditions_hold_as_in_s3() {
        let (_folder, blobs) = store();
        let put = |key, content: &'static str, when| blobs.put(key, Bytes::from(content), when);
        assert_eq!(blobs.get("a/b").await.unwrap(), None);
        assert_eq!(
            put("a/b", "1", Precondition::Is(Version("x".into())))
                .await
                .unwrap(),
            Put::Refused
        );
        let first = done(put("a/b", "1", Precondition::Absent).await.unwrap());
        assert_eq!(
            put("a/b", "2", Precondition::Absent).await.unwrap(),
            Put::Refused
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
            Put::Refused
        );
        done(put("a", "parent", Precondition::None).await.unwrap());
        done(put("a/bc", "", Precondition::None).await.unwrap());
        let keys =
            |list: Vec<(String, Version)>| list.into_iter().map(|(key, _)| key).collect::<Vec<_>>();
        assert_eq!(keys(blobs.list("").await.unwrap()), ["a", "a/b", "a/bc"]);
        assert_eq!(keys(blobs.list("a/b").await.unwrap()), ["a/b", "a/bc"]);
        assert_eq!(keys(blobs.list("a/bc/").await.unwrap()), [""; 0]);
        assert_eq!(blobs.list("a/b").await.unwrap()[0].1, second);
        blobs.delete("a/b").await.unwrap();
        blobs.delete("a/b").await.unwrap();
        assert_eq!(blobs.get("a/b").await.unwrap(), None);
        assert!(blobs.url("a/bc").starts_with("file:///"));
    }

    #[tokio::test]
    async fn nothing_leaves_the_folder() {
        let (folder, blobs) = store();
        for key in ["../../escaped", "a/../../escaped", ".."] {
            done(
                blobs
                    .put(key, Bytes::from("x"), Precondition::None)
                    .await
                    .unwrap(),
            );
            assert!(blobs.get(key).await.unwrap().is_some());
        }
        let names: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert_eq!(names.len(), 3, "{names:?}");
        assert!(
            !folder
                .path()
                .parent()
                .unwrap()
                .join("escaped.blob")
                .exists()
        );
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn of_sixteen_writers_one_wins() {
        let (folder, blobs) = store();
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
                    // Each with its own handle, as processes have.
                    let own = FolderBlobs::open(folder.path()).unwrap();
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
                if let Put::Done(version) = writer.await.unwrap() {
                    winners.push(version);
                }
            }
            assert_eq!(winners.len(), 1, "round {round}");
            version = winners.remove(0);
            assert_eq!(blobs.get("lease").await.unwrap().unwrap().1, version);
        }
    }
}
