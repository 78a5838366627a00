//! Files that appear whole or not at all, below one directory. What stands in their way is set aside.

use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Numbers the files that this process wrote aside, whichever handle it used.
static ASIDE: AtomicU64 = AtomicU64::new(0);
/// How long a file that a writer left behind is kept.
const LEFT_BEHIND: Duration = Duration::from_secs(3600);
/// Where set aside files and directories are kept, below the root.
const DAMAGED: &str = "damaged";

/// The directories of a store.
#[derive(Debug)]
pub(super) struct Directory {
    root: PathBuf,
    /// Where the blobs are.
    pub(super) blobs: PathBuf,
    /// Files whose locks serialise writers, one for each first byte of the key's hash.
    locks: PathBuf,
    /// Where blobs are written before they get their name.
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

    /// Keeps other writers of a key away until the file is closed.
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

    /// A file's content; none when no file stands there. A directory in its place is no file: a write sets it aside.
    pub(super) fn read(&self, file: &Path) -> io::Result<Option<Vec<u8>>> {
        present(fs::read(self.blobs.join(file)))
    }

    /// What the file system says of a file; none when no file stands there.
    pub(super) fn look(&self, file: &Path) -> io::Result<Option<fs::Metadata>> {
        let found = present(fs::metadata(self.blobs.join(file)))?;
        Ok(found.filter(|meta| !meta.is_dir()))
    }

    /// Writes a file. Its content is on the disk before it gets its name, unless it `may_tear`: so a power loss leaves the
    /// old content or the new one. Which of both is for the next step to find out: the name itself is not waited for.
    pub(super) fn write(&self, file: &Path, content: &[u8], may_tear: bool) -> io::Result<()> {
        let count = ASIDE.fetch_add(1, Ordering::Relaxed);
        let aside = self.aside.join(format!("{}-{count}", std::process::id()));
        let written = write_whole(&aside, content, may_tear)
            .and_then(|()| self.place(&aside, &self.blobs.join(file)));
        if written.is_err() {
            fs::remove_file(&aside).or_else(absent)?;
        }
        written
    }

    fn place(&self, aside: &Path, file: &Path) -> io::Result<()> {
        if let Some(parent) = file.parent() {
            self.make_directories(parent)?;
        }
        if file.is_dir() {
            self.set_aside(file)?;
        }
        fs::rename(aside, file)
    }

    /// Removes a file. Empty directories stay: removing them would race with writers of their other files.
    pub(super) fn remove(&self, file: &Path) -> io::Result<()> {
        match self.look(file)? {
            Some(_) => fs::remove_file(self.blobs.join(file)).or_else(absent),
            None => Ok(()),
        }
    }

    /// Makes a directory and those above it, down from the root. A file in the place of one is set aside.
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
            // Another writer was faster.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            made => made,
        }
    }

    /// See [`set_aside`].
    pub(super) fn set_aside(&self, path: &Path) -> io::Result<()> {
        set_aside(&self.root, path)
    }

    /// Removes what writers that died left aside.
    fn sweep(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.aside)? {
            let entry = entry?;
            let Ok(meta) = entry.metadata() else {
                // Another process has taken it meanwhile.
                continue;
            };
            if meta.is_dir() {
                self.set_aside(&entry.path())?;
            } else if age(&meta).is_some_and(|age| age > LEFT_BEHIND) {
                fs::remove_file(entry.path()).or_else(absent)?;
            }
        }
        Ok(())
    }
}

/// Moves a file or directory below `root` to where nobody looks for it: `root/damaged/NUMBER`, under its own path there. What is
/// gone already is fine.
///
/// # Errors
/// The file system's.
pub fn set_aside(root: &Path, path: &Path) -> io::Result<()> {
    let name = path.strip_prefix(root).map_err(io::Error::other)?;
    let target = new_directory(&root.join(DAMAGED))?.join(name);
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

/// Makes the directory with the first number that is free.
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

/// Writes a new file. Its content is on the disk when this returns, unless it `may_tear` or there is none.
pub(super) fn write_whole(file: &Path, content: &[u8], may_tear: bool) -> io::Result<()> {
    let mut open = File::create(file)?;
    open.write_all(content)?;
    match may_tear || content.is_empty() {
        true => Ok(()),
        false => open.sync_all(),
    }
}

/// How long ago a file was written; none when the clock stands before that.
pub(super) fn age(meta: &fs::Metadata) -> Option<Duration> {
    meta.modified().ok()?.elapsed().ok()
}

/// What is not there is no failure, nor is a directory where a file should be, or a file where a directory should be: none of
/// them is a file of ours.
pub(super) fn present<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) => match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::IsADirectory => Ok(None),
            _ => Err(error),
        },
    }
}

/// What is gone already needs no removal.
fn absent(error: io::Error) -> io::Result<()> {
    match error.kind() {
        ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    }
}
