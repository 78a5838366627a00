//! What of a bucket becomes an artifact, and its revision, as source-controller 1.9 has both.

use crate::concurrent;
use crate::failure::Failure;
use crate::flux::{BucketSpec, reason};
use crate::ports::{Bucket, BucketObject, Clock, ErrorKind, FetchLimits};
use crate::source::ignore::{self, Patterns};
use driftless_manifest::{EntryKind, FileTree, TreePath};
use futures::FutureExt as _;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Objects that are downloaded at once.
const AT_ONCE: usize = 16;
/// Bytes of a `.sourceignore`.
const IGNORE_FILE: u64 = 1 << 20;
/// Bytes that an object may have grown by since it was listed.
const GROWTH: u64 = 1 << 20;
/// Bytes of a key, as S3 has it.
const KEY: usize = 1024;

/// A bucket that is read, and what it may bring.
pub(super) struct Files<'a> {
    pub bucket: &'a dyn Bucket,
    /// The bucket's name, for messages.
    pub name: &'a str,
    pub limits: FetchLimits,
    pub clock: &'a dyn Clock,
    /// When requests are no longer begun.
    pub end: Duration,
}

/// The objects that belong to the artifact, by key.
#[derive(Default)]
pub(super) struct Index(BTreeMap<String, Listed>);

struct Listed {
    etag: String,
    size: u64,
    path: TreePath,
}

impl Index {
    /// The revision: a digest over a line `KEY ETAG` for each object, in order of key.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        for (key, listed) in &self.0 {
            hash.update(format!("{key} {}\n", listed.etag));
        }
        format!("sha256:{}", hex::encode(hash.finalize()))
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl Files<'_> {
    /// Lists what belongs to the artifact: neither folders nor what `.sourceignore` and `spec.ignore` leave out.
    ///
    /// # Errors
    /// The bucket's; a pattern that is none; more than a source may have.
    pub async fn index(&self, spec: &BucketSpec) -> Result<Index, Failure> {
        check_name(self.name).map_err(|what| self.unconfirmed(&what))?;
        let prefix = spec.prefix.as_deref().unwrap_or_default();
        let listed = self.bucket.list(prefix, self.limits.files).await;
        let listed = listed.map_err(|error| match error.kind {
            ErrorKind::NotFound => failed(format!("bucket '{}' not found", self.name)),
            _ => Failure::port(reason::BUCKET_FAILED, &error).context(format!(
                "indexation of objects from bucket '{}' failed",
                self.name
            )),
        })?;
        // A list from the root tells whether there are patterns.
        let may_ignore = !prefix.is_empty() || listed.iter().any(|entry| entry.key == ignore::FILE);
        let patterns = self.patterns(may_ignore, spec.ignore.as_deref()).await?;
        let mut index = Index::default();
        let mut bytes: u64 = 0;
        for entry in listed {
            if entry.key.ends_with('/') || entry.key == ignore::FILE {
                continue;
            }
            let path = place(&entry.key).map_err(|what| self.unfit(&what))?;
            if patterns.leaves_out(&path) {
                continue;
            }
            bytes = bytes.saturating_add(entry.size);
            let listed = Listed {
                etag: entry.etag,
                size: entry.size,
                path,
            };
            index.0.insert(entry.key, listed);
        }
        match bytes > self.limits.bytes {
            true => Err(self.too_large()),
            false => Ok(index),
        }
    }

    /// The patterns of the bucket's `.sourceignore`, then those of the object. Unlike in a repository nothing is left out
    /// unasked.
    async fn patterns(&self, may_be: bool, spec: Option<&str>) -> Result<Patterns, Failure> {
        let file = match may_be {
            true => self.get(ignore::FILE, IGNORE_FILE).await,
            false => Ok(None),
        };
        let file = file.map_err(|failure| {
            failure.context(format!("failed to get Etag for '{}' object", ignore::FILE))
        })?;
        let file = file.map(|file| file.bytes).unwrap_or_default();
        let root = TreePath::root();
        let mut patterns = Patterns::default();
        let added = patterns
            .add(&root, ignore::FILE, String::from_utf8_lossy(&file).lines())
            .and_then(|()| patterns.add(&root, ignore::SPEC, spec.unwrap_or_default().lines()));
        added.map_err(|error| Failure::terminal(reason::BUCKET_FAILED, error))?;
        Ok(patterns)
    }

    /// Downloads what the index has. What changed since it was listed is taken as it is now, and the index says so.
    ///
    /// # Errors
    /// The bucket's; two objects of one name; more than a source may have; not in time.
    pub async fn fetch(&self, index: &mut Index) -> Result<FileTree, Failure> {
        let lead =
            |failure: Failure| failure.context(format!("fetch from bucket '{}' failed", self.name));
        let left = AtomicU64::new(self.limits.bytes);
        let downloads = index.0.iter().map(|(key, listed)| {
            let left = &left;
            async move { (key.clone(), self.download(key, listed.size, left).await) }.boxed()
        });
        let answers = concurrent::run(AT_ONCE, downloads.collect()).await;
        let mut tree = FileTree::new();
        for (key, answer) in answers {
            match answer.map_err(lead)? {
                None => {
                    tracing::info!(bucket = self.name, key, "disappeared since it was listed");
                    index.0.remove(&key);
                }
                Some(object) => {
                    let Some(listed) = index.0.get_mut(&key) else {
                        continue;
                    };
                    listed.etag = object.etag;
                    let inserted = tree.insert(listed.path.clone(), EntryKind::File, object.bytes);
                    inserted.map_err(|error| lead(failed(format!("object '{key}': {error}"))))?;
                }
            }
        }
        Ok(tree)
    }

    /// One object of those that share what is left of the source's bytes.
    async fn download(
        &self,
        key: &str,
        size: u64,
        left: &AtomicU64,
    ) -> Result<Option<BucketObject>, Failure> {
        let object = self.get(key, size.saturating_add(GROWTH)).await;
        let object =
            object.map_err(|failure| failure.context(format!("failed to get '{key}' object")))?;
        let taken = object.as_ref().map_or(0, |object| object.bytes.len()) as u64;
        let take = |left: u64| left.checked_sub(taken);
        match left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => Ok(object),
            Err(_) => Err(self.too_large()),
        }
    }

    async fn get(&self, key: &str, limit: u64) -> Result<Option<BucketObject>, Failure> {
        if self.clock.now() >= self.end {
            return Err(failed("not done in time (spec.timeout, at most a minute)"));
        }
        let object = self.bucket.get(key, limit).await;
        object.map_err(|error| Failure::port(reason::BUCKET_FAILED, &error))
    }

    fn unconfirmed(&self, what: &str) -> Failure {
        let what = format!(
            "failed to confirm existence of '{}' bucket: {what}",
            self.name
        );
        Failure::terminal(reason::BUCKET_FAILED, what)
    }

    fn unfit(&self, what: &str) -> Failure {
        failed(format!(
            "indexation of objects from bucket '{}' failed: {what}",
            self.name
        ))
    }

    fn too_large(&self) -> Failure {
        self.unfit(&format!(
            "its objects have more than {} bytes in all, which is the limit: leave some out with spec.ignore or spec.prefix",
            self.limits.bytes
        ))
    }
}

fn failed(what: impl Display) -> Failure {
    Failure::retry(reason::BUCKET_FAILED, what)
}

/// Where an object stands in the artifact: below its root, whatever its key says.
fn place(key: &str) -> Result<TreePath, String> {
    if key.len() > KEY {
        return Err(format!("a key has more than {KEY} bytes"));
    }
    let mut parts = Vec::new();
    for part in key.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    let path = TreePath::new(&parts.join("/")).map_err(|error| error.to_string())?;
    match path.is_root() {
        true => Err(format!("the key '{key}' is no file's")),
        false => Ok(path),
    }
}

/// Names that a bucket can have: nothing that an address would take for something else.
fn check_name(name: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let ends = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.ends_with(|c: char| c.is_ascii_alphanumeric());
    match (3..=63).contains(&name.len()) && name.chars().all(fits) && ends && !name.contains("..") {
        true => Ok(()),
        false => Err(
            "a bucket's name has 3 to 63 letters, digits, '-', '.' and '_', and begins and ends with a letter or a digit"
                .to_owned(),
        ),
    }
}
