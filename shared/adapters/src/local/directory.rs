//! Files that are written atomically, below one directory. Entries in their place that are not
//! files are moved to `damaged`.

use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The number of the next temporary file of this process, for all handles.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);
/// The age from which a temporary file is removed: its writer has crashed.
const MAX_AGE: Duration = Duration::from_secs(3600);
/// The directory below the root to which unusable files and directories are moved.
const DAMAGED_DIRECTORY: &str = "damaged";

/// A store in a directory of the file system.
#[derive(Debug)]
pub(super) struct Directory {
    root: PathBuf,
    /// The directory of the blobs.
    pub(super) blobs: PathBuf,
    /// The directory of the lock files that serialise writers: one for each value of the first byte
    /// of the key's hash.
    locks: PathBuf,
    /// The directory of the temporary files, which are renamed to blobs.
    aside: PathBuf,
}

impl Directory {
    /// Opens a directory, and makes it if need be.
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        fs::create_dir_all(root)?;
        let root = root.canonicalize()?;
        let directory = Self {
            blobs: root.join("blobs"),
            locks: root.join("locks"),
            aside: root.join("aside"),
            root,
        };
        for dir in [&directory.blobs, &directory.locks, &directory.aside] {
            directory.make_directories(dir)?;
        }
        directory.sweep()?;
        Ok(directory)
    }

    /// Locks out other writers of a key until the returned file is closed.
    pub(super) fn lock(&self, key: &str) -> io::Result<File> {
        let path = self.locks.join(hex::encode(&Sha256::digest(key)[..1]));
        let open = || File::options().create(true).append(true).open(&path);
        let file = match open() {
            Err(error) if error.kind() == ErrorKind::IsADirectory => {
                self.set_aside(&path)?;
                open()?
            }
            opened => opened?,
        };
        file.lock()?;
        Ok(file)
    }

    /// Reads a file; returns `None` if it does not exist or is a directory, which the next write
    /// moves away.
    pub(super) fn read(&self, file: &Path) -> io::Result<Option<Vec<u8>>> {
        present(fs::read(self.blobs.join(file)))
    }

    /// Reads the bytes of a file in a range, or those up to its end; `None` if it does not exist.
    pub(super) fn read_range(&self, file: &Path, range: Range<u64>) -> io::Result<Option<Vec<u8>>> {
        let Some(mut file) = present(fs::File::open(self.blobs.join(file)))? else {
            return Ok(None);
        };
        file.seek(SeekFrom::Start(range.start))?;
        let mut content = Vec::new();
        let length = range.end.saturating_sub(range.start);
        present(file.take(length).read_to_end(&mut content)).map(|read| read.map(|_| content))
    }

    /// Returns the metadata of a file; `None` if it does not exist or is a directory.
    pub(super) fn metadata(&self, file: &Path) -> io::Result<Option<fs::Metadata>> {
        let found = present(fs::metadata(self.blobs.join(file)))?;
        Ok(found.filter(|meta| !meta.is_dir()))
    }

    /// Writes a file. Unless it `may_tear`, the content is synced to the disk before the rename: a
    /// power loss leaves the old or the new content. The rename itself is not synced, so the next
    /// step must expect either.
    pub(super) fn write(&self, file: &Path, content: &[u8], may_tear: bool) -> io::Result<()> {
        let count = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
        let temporary = self.aside.join(format!("{}-{count}", std::process::id()));
        let written = write_whole(&temporary, content, may_tear)
            .and_then(|()| self.place(&temporary, &self.blobs.join(file)));
        if written.is_err() {
            fs::remove_file(&temporary).or_else(absent)?;
        }
        written
    }

    fn place(&self, temporary: &Path, file: &Path) -> io::Result<()> {
        if let Some(parent) = file.parent() {
            self.make_directories(parent)?;
        }
        if file.is_dir() {
            self.set_aside(file)?;
        }
        fs::rename(temporary, file)
    }

    /// Removes a file. Empty directories are kept: their removal would race with writers of other
    /// files in them.
    pub(super) fn remove(&self, file: &Path) -> io::Result<()> {
        match self.metadata(file)? {
            Some(_) => fs::remove_file(self.blobs.join(file)).or_else(absent),
            None => Ok(()),
        }
    }

    /// Creates a directory with its parents below the root. A file in the place of one is moved to
    /// `damaged`.
    fn make_directories(&self, dir: &Path) -> io::Result<()> {
        if dir.is_dir() {
            return Ok(());
        }
        if let Some(parent) = dir.parent().filter(|parent| *parent != self.root) {
            self.make_directories(parent)?;
        }
        match fs::create_dir(dir) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && !dir.is_dir() => {
                self.set_aside(dir)?;
                fs::create_dir(dir)
            }
            // Another writer has created it in the meantime.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            made => made,
        }
    }

    /// Moves an unusable file or directory away: see the function `set_aside`.
    pub(super) fn set_aside(&self, path: &Path) -> io::Result<()> {
        set_aside(&self.root, path)
    }

    /// Removes the temporary files of crashed writers.
    fn sweep(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.aside)? {
            let entry = entry?;
            let Ok(meta) = entry.metadata() else {
                // Another process has removed it in the meantime.
                continue;
            };
            if meta.is_dir() {
                self.set_aside(&entry.path())?;
            } else if age(&meta).is_some_and(|age| age > MAX_AGE) {
                fs::remove_file(entry.path()).or_else(absent)?;
            }
        }
        Ok(())
    }
}

/// Moves an unusable file or directory below `root` to `root/damaged/NUMBER`, with the same
/// relative path. A missing one is not an error.
///
/// # Errors
/// Fails if the file system does.
pub fn set_aside(root: &Path, path: &Path) -> io::Result<()> {
    let name = path.strip_prefix(root).map_err(io::Error::other)?;
    let target = new_directory(&root.join(DAMAGED_DIRECTORY))?.join(name);
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent)?;
    }
    let (from, to) = (path.display(), target.display());
    match fs::rename(path, &target) {
        Ok(()) => {
            tracing::warn!(
                "{from} cannot be used: it was moved to {to}, and a new one was created"
            );
            Ok(())
        }
        Err(error) => absent(error),
    }
}

/// Creates the directory with the first free number.
fn new_directory(parent: &Path) -> io::Result<PathBuf> {
    fs::create_dir_all(parent)?;
    for number in 1..=u32::MAX {
        let directory = parent.join(number.to_string());
        match fs::create_dir(&directory) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => return made.map(|()| directory),
        }
    }
    Err(io::Error::other("no number is free"))
}

/// Writes a new file, and syncs its content to the disk unless it `may_tear` or is empty.
pub(super) fn write_whole(file: &Path, content: &[u8], may_tear: bool) -> io::Result<()> {
    let mut open = File::create(file)?;
    open.write_all(content)?;
    match may_tear || content.is_empty() {
        true => Ok(()),
        false => open.sync_all(),
    }
}

/// Returns the time since a file was written; `None` if the clock is earlier than that.
pub(super) fn age(meta: &fs::Metadata) -> Option<Duration> {
    meta.modified().ok()?.elapsed().ok()
}

/// Returns `None` for a missing file, for a directory in the place of a file, and for a file in the
/// place of a directory: none of them is a blob.
pub(super) fn present<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) => match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::IsADirectory => Ok(None),
            _ => Err(error),
        },
    }
}

/// Ignores the error of removing a missing file.
fn absent(error: io::Error) -> io::Result<()> {
    match error.kind() {
        ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    }
}
