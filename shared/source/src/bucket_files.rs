//! The files of a bucket's artifact and its revision, both as in source-controller 1.9.

use crate::ignore::{self, IgnoreError, Patterns};
use bytes::Bytes;
use driftless_flux::{BucketSpec, Invalid, reason};
use driftless_fuel::Tank;
use driftless_kernel::concurrent;
use driftless_kernel::failure::Failure;
use driftless_kernel::ports::{Bucket, BucketEntry, BucketObject, Clock, ErrorKind, FetchLimits};
use driftless_manifest::{EntryKind, FileTree, TreePath};
use futures::FutureExt as _;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Number of objects that are downloaded concurrently.
const CONCURRENCY: usize = 16;
/// Maximum bytes of a `.sourceignore`.
const MAX_IGNORE_FILE_BYTES: u64 = 1 << 20;
/// Maximum bytes that an object may grow between list and download.
const MAX_GROWTH: u64 = 1 << 20;
/// Maximum bytes of a key, as in S3.
const MAX_KEY_BYTES: usize = 1024;
/// The advice in messages about objects that cannot be downloaded.
const ADVICE: &str = "exclude objects with spec.ignore or spec.prefix";

/// A bucket to read, and the limits.
pub(super) struct Files<'a> {
    pub bucket: &'a dyn Bucket,
    /// The bucket's name, for messages.
    pub name: &'a str,
    pub limits: FetchLimits,
    pub clock: &'a dyn Clock,
    /// The time after which no request is started.
    pub end: Duration,
}

/// The objects that belong to the artifact, by key.
#[derive(Default)]
pub(super) struct Index {
    objects: BTreeMap<String, ListedFile>,
    /// The bucket's `.sourceignore`, which is part of the artifact but not of its revision.
    ignore_file: Option<Bytes>,
}

struct ListedFile {
    etag: String,
    size: u64,
    path: TreePath,
}

/// The files of the last artifact, and the ETags of their objects.
#[derive(Default)]
pub(super) struct PreviousFiles<'a> {
    pub etags: Option<&'a BTreeMap<String, String>>,
    pub tree: Arc<FileTree>,
}

impl PreviousFiles<'_> {
    /// Returns the known object if it still has the listed ETag.
    fn find(&self, key: &str, listed: &ListedFile) -> Option<BucketObject> {
        let etag = self.etags?.get(key)?;
        let content = self.tree.content(&listed.path)?;
        (*etag == listed.etag).then(|| BucketObject {
            etag: etag.clone(),
            bytes: content.clone(),
        })
    }
}

impl Index {
    /// Returns the revision: a digest over a line `KEY ETAG` for each object, in order of key.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        for (key, listed) in &self.objects {
            hash.update(format!("{key} {}\n", listed.etag));
        }
        format!("sha256:{}", hex::encode(hash.finalize()))
    }

    /// Returns the ETag of each object, by key.
    pub fn etags(&self) -> BTreeMap<String, String> {
        let objects = self.objects.iter();
        objects
            .map(|(key, listed)| (key.clone(), listed.etag.clone()))
            .collect()
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Adds listed objects, except directories and those that the patterns exclude.
    fn add(
        &mut self,
        listed: Vec<BucketEntry>,
        patterns: &Patterns,
        step: &Tank,
    ) -> Result<(), Invalid> {
        let fuel = ignore::fuel(step);
        for entry in listed {
            if entry.key.ends_with('/') || entry.key == ignore::FILE {
                continue;
            }
            let path = place(&entry.key)?;
            let is_excluded = patterns.excludes(&path, &fuel);
            if is_excluded.map_err(|out| Invalid::new(IgnoreError::from(out)))? {
                continue;
            }
            check_key(&entry.key, &path)?;
            let listed = ListedFile {
                etag: entry.etag,
                size: entry.size,
                path,
            };
            self.objects.insert(entry.key, listed);
        }
        Ok(())
    }

    fn bytes(&self) -> u64 {
        let sizes = self.objects.values().map(|listed| listed.size);
        sizes.fold(0, u64::saturating_add)
    }
}

impl Files<'_> {
    /// Lists the objects of the artifact.
    ///
    /// # Errors
    /// The bucket's; an invalid pattern; more objects or bytes than the limits.
    pub async fn index(&self, spec: &BucketSpec) -> Result<Index, Failure> {
        check_name(self.name).map_err(|error| self.unconfirmed(failed(error)))?;
        let prefix = spec.prefix.as_deref().unwrap_or_default();
        let listed = self.bucket.list(prefix, self.limits.files).await;
        let listed = listed.map_err(|error| match error.kind {
            ErrorKind::NotFound => failed(format!("bucket '{}' not found", self.name)),
            ErrorKind::Invalid => self.unindexed(Failure::port(reason::BUCKET_FAILED, &error)),
            _ => self.unconfirmed(Failure::port(reason::BUCKET_FAILED, &error)),
        })?;
        // A list without a prefix shows whether there is a `.sourceignore`.
        let may_ignore = !prefix.is_empty() || listed.iter().any(|entry| entry.key == ignore::FILE);
        let ignore_file = match may_ignore {
            true => self.ignore_file().await?,
            false => None,
        };
        let patterns = patterns(ignore_file.as_deref(), spec.ignore.as_deref())?;
        let mut index = Index {
            ignore_file,
            ..Index::default()
        };
        let added = index.add(listed, &patterns, &self.limits.fuel);
        added.map_err(|error| self.unindexed(failed(error)))?;
        match index.bytes() > self.limits.bytes {
            true => Err(self.too_large()),
            false => Ok(index),
        }
    }

    async fn ignore_file(&self) -> Result<Option<Bytes>, Failure> {
        let file = self.get(ignore::FILE, MAX_IGNORE_FILE_BYTES).await;
        let file = file.map_err(|failure| {
            failure.context(format!("failed to get Etag for '{}' object", ignore::FILE))
        })?;
        Ok(file.map(|file| file.bytes))
    }

    /// Downloads the objects of the index that are not known. If an object changed after the list,
    /// its current content is used, and the index is updated.
    ///
    /// # Errors
    /// The bucket's; two objects of one path; more bytes than the limit; the time is over.
    pub async fn fetch(
        &self,
        index: &mut Index,
        known: &PreviousFiles<'_>,
    ) -> Result<FileTree, Failure> {
        let left = AtomicU64::new(self.limits.bytes);
        let downloads = index.objects.iter().map(|(key, listed)| {
            let left = &left;
            let object = known.find(key, listed);
            async move {
                let object = match object {
                    Some(object) => Ok(Some(object)),
                    None => self.download(key, listed.size, left).await,
                };
                (key.clone(), object)
            }
            .boxed()
        });
        let answers = concurrent::run(CONCURRENCY, downloads.collect()).await;
        let mut tree = FileTree::new();
        if let Some(file) = &index.ignore_file {
            let path = place(ignore::FILE).map_err(failed)?;
            self.put(&mut tree, path, ignore::FILE, file)?;
        }
        for (key, answer) in answers {
            let object = answer.map_err(|failure| self.unfetched(failure))?;
            match (object, index.objects.get_mut(&key)) {
                (Some(object), Some(listed)) => {
                    listed.etag = object.etag;
                    self.put(&mut tree, listed.path.clone(), &key, &object.bytes)?;
                }
                _ => {
                    tracing::info!(bucket = self.name, key, "disappeared since it was listed");
                    index.objects.remove(&key);
                }
            }
        }
        Ok(tree)
    }

    fn put(
        &self,
        tree: &mut FileTree,
        path: TreePath,
        key: &str,
        content: &Bytes,
    ) -> Result<(), Failure> {
        let inserted = tree.insert(path, EntryKind::File, content.clone());
        inserted.map_err(|_| {
            let reason = "another object has the same path, or the path of one of its directories";
            self.unfetched(failed(format!("failed to get '{key}' object: {reason}")))
        })
    }

    /// Downloads one object, and subtracts its size from the bytes that are left for all of them.
    async fn download(
        &self,
        key: &str,
        size: u64,
        left: &AtomicU64,
    ) -> Result<Option<BucketObject>, Failure> {
        let object = self.get(key, size.saturating_add(MAX_GROWTH)).await;
        let object =
            object.map_err(|failure| failure.context(format!("failed to get '{key}' object")))?;
        let taken = object.as_ref().map_or(0, |object| object.bytes.len());
        let take = |left: u64| left.checked_sub(taken as u64);
        let step = self.limits.fuel.bytes(taken);
        step.map_err(|out| self.unindexed(failed(format!("this step reads {out}"))))?;
        match left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => Ok(object),
            Err(_) => Err(self.too_large()),
        }
    }

    async fn get(&self, key: &str, limit: u64) -> Result<Option<BucketObject>, Failure> {
        if self.clock.now() >= self.end {
            return Err(failed(
                "the download exceeded spec.timeout, which is at most a minute",
            ));
        }
        let object = self.bucket.get(key, limit).await;
        object.map_err(|error| Failure::port(reason::BUCKET_FAILED, &error))
    }

    fn unconfirmed(&self, failure: Failure) -> Failure {
        failure.context(format!(
            "failed to confirm existence of '{}' bucket",
            self.name
        ))
    }

    fn unindexed(&self, failure: Failure) -> Failure {
        failure.context(format!(
            "indexation of objects from bucket '{}' failed",
            self.name
        ))
    }

    fn unfetched(&self, failure: Failure) -> Failure {
        failure.context(format!("fetch from bucket '{}' failed", self.name))
    }

    fn too_large(&self) -> Failure {
        self.unindexed(failed(format!(
            "the objects have more than {} bytes in total, which is the limit: {ADVICE}",
            self.limits.bytes
        )))
    }
}

fn failed(message: impl Display) -> Failure {
    Failure::retry(reason::BUCKET_FAILED, message)
}

/// Returns the patterns of a bucket's `.sourceignore`, then those of the object. Unlike in a
/// repository, there are no defaults.
fn patterns(file: Option<&[u8]>, spec: Option<&str>) -> Result<Patterns, Failure> {
    let root = TreePath::root();
    let file = String::from_utf8_lossy(file.unwrap_or_default());
    let mut patterns = Patterns::default();
    let added = patterns
        .add(&root, ignore::FILE, file.lines())
        .and_then(|()| patterns.add(&root, ignore::SPEC, spec.unwrap_or_default().lines()));
    added.map_err(failed)?;
    Ok(patterns)
}

/// Returns the path of an object in the artifact: below its root, whatever the key is.
fn place(key: &str) -> Result<TreePath, Invalid> {
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
    TreePath::new(&parts.join("/")).map_err(Invalid::new)
}

/// Checks that an object of this key can be downloaded: clients remove `.` and `..` from a URL,
/// which then names another object.
fn check_key(key: &str, path: &TreePath) -> Result<(), Invalid> {
    if key.len() > MAX_KEY_BYTES {
        return Err(format!("a key has more than {MAX_KEY_BYTES} bytes").into());
    }
    let has_dots = key.split('/').any(|part| matches!(part, "." | ".."));
    match has_dots || path.is_root() {
        true => Err(format!(
            "the key '{key}' has '.' or '..' as a directory, which a URL cannot contain: {ADVICE}"
        )
        .into()),
        false => Ok(()),
    }
}

/// Checks a bucket's name: it must not be mistaken for another part of a URL.
fn check_name(name: &str) -> Result<(), &'static str> {
    let at_end = |c: char| c.is_ascii_alphanumeric();
    let inside = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let fits = name.chars().all(inside) && name.starts_with(at_end) && name.ends_with(at_end);
    match fits && (3..=63).contains(&name.len()) && !name.contains("..") {
        true => Ok(()),
        false => Err(
            "spec.bucketName: expected 3 to 63 letters, digits, '-', '.' and '_', with a letter or a digit at each end",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_kernel::ports::{BucketAddress, Buckets as _};
    use driftless_memory::{MemoryBuckets, TestClock};
    use futures::executor::block_on;
    use std::sync::Arc;

    const NAME: &str = "acme-fleet";

    fn limits(files: usize, bytes: u64) -> FetchLimits {
        FetchLimits {
            files,
            bytes,
            ..FetchLimits::default()
        }
    }

    fn open(buckets: &MemoryBuckets, name: &str) -> Arc<dyn Bucket> {
        let address = BucketAddress {
            name: name.to_owned(),
            ..BucketAddress::default()
        };
        block_on(buckets.open(&address)).unwrap()
    }

    fn spec(prefix: &str, ignore: &str) -> BucketSpec {
        BucketSpec {
            prefix: Some(prefix.to_owned()),
            ignore: Some(ignore.to_owned()),
            ..BucketSpec::default()
        }
    }

    /// Lists and downloads; returns the keys of the index and the names of the files.
    fn read(
        buckets: &MemoryBuckets,
        spec: &BucketSpec,
        limits: &FetchLimits,
    ) -> Result<(Vec<String>, Vec<String>), Invalid> {
        let bucket = open(buckets, NAME);
        let clock = TestClock::default();
        let files = Files {
            bucket: bucket.as_ref(),
            name: NAME,
            limits: limits.clone(),
            clock: &clock,
            end: Duration::from_secs(1),
        };
        let mut index = block_on(files.index(spec)).map_err(|failure| failure.message)?;
        let tree = block_on(files.fetch(&mut index, &PreviousFiles::default()))
            .map_err(|failure| failure.message)?;
        let names = tree.index().iter().map(|(path, _)| path.to_string());
        Ok((index.objects.into_keys().collect(), names.collect()))
    }

    fn bucket(keys: &[&str]) -> MemoryBuckets {
        let buckets = MemoryBuckets::default();
        buckets.create(NAME);
        keys.iter()
            .for_each(|key| buckets.put(NAME, key, (*key).to_owned()));
        buckets
    }

    /// The digests are those of source-controller 1.9.1, for an empty bucket and for one with these
    /// two objects of the same content.
    #[test]
    fn the_revision_is_that_of_flux() {
        let entry = |key: &str| BucketEntry {
            key: key.to_owned(),
            etag: "08156acf3983f86025a242dd0c31efe5".to_owned(),
            size: 4,
        };
        let mut index = Index::default();
        assert_eq!(
            index.digest(),
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        let listed = vec![entry("in/a.yaml"), entry("in/.sourceignore")];
        index
            .add(listed, &Patterns::default(), &Tank::default())
            .unwrap();
        assert_eq!(
            index.digest(),
            "sha256:64844caca9f817be886c3a79cc6510d54307a7eb7c2717839d75bb4d73b2dbeb"
        );
    }

    #[test]
    fn the_files_of_the_artifact() {
        let keys = [
            "a.yaml",
            "apps/b.yaml",
            "docs/c.md",
            "logo.png",
            "dir/",
            "n/.sourceignore",
        ];
        let buckets = bucket(&keys);
        let all = limits(100, 1 << 20);
        let kept = |buckets: &MemoryBuckets, prefix: &str, ignore: &str| {
            let (keys, names) = read(buckets, &spec(prefix, ignore), &all).unwrap();
            assert!(
                keys.iter().all(|key| names.contains(key)),
                "{keys:?} {names:?}"
            );
            keys.join(" ")
        };
        assert_eq!(
            kept(&buckets, "", ""),
            "a.yaml apps/b.yaml docs/c.md logo.png n/.sourceignore"
        );
        assert_eq!(
            kept(
                &buckets,
                "",
                "/*
!/apps"
            ),
            "apps/b.yaml"
        );
        assert_eq!(kept(&buckets, "a", "*.md"), "a.yaml apps/b.yaml");
        // The bucket's own patterns come first, from its root whatever the prefix is, and are not
        // part of the revision.
        buckets.put(
            NAME,
            ignore::FILE,
            "*.yaml
*.png
",
        );
        assert_eq!(
            kept(&buckets, "", "!logo.png"),
            "docs/c.md logo.png n/.sourceignore"
        );
        assert_eq!(kept(&buckets, "apps/", ""), "");
        let (_, names) = read(&buckets, &spec("docs/", ""), &all).unwrap();
        assert_eq!(names, [".sourceignore", "docs/c.md"]);
    }

    #[test]
    fn keys_stay_inside() {
        let all = limits(100, 1 << 20);
        let names = |keys: &[&str], ignore| {
            read(&bucket(keys), &spec("", ignore), &all).map(|(_, names)| names.join(" "))
        };
        let long = "n".repeat(MAX_KEY_BYTES + 1);
        assert_eq!(names(&["/abs", "a//b"], "").as_deref(), Ok("a/b abs"));
        for (keys, problem) in [
            (&["../../etc/passwd"][..], "'.' or '..' as a directory"),
            (&["a/./b"], "'.' or '..' as a directory"),
            (&["a\0b"], "NUL"),
            (&[&*long], "more than 1024 bytes"),
            (&["a", "a/b"], "another object has the same path"),
            (&["a/b", "a//b"], "another object has the same path"),
        ] {
            let refused = names(keys, "").unwrap_err();
            assert!(refused.to_string().contains(problem), "{keys:?}: {refused}");
        }
        // Invalid keys are no problem if they are excluded.
        assert_eq!(
            names(
                &["../x", "a/./b", "c"],
                "/x
/a"
            )
            .as_deref(),
            Ok("c")
        );
    }

    #[test]
    fn more_than_the_limits() {
        let buckets = bucket(&["one", "two", "three"]);
        assert!(read(&buckets, &spec("", ""), &limits(3, 11)).is_ok());
        for limits in [limits(2, 11), limits(3, 10)] {
            let refused = read(&buckets, &spec("", ""), &limits).unwrap_err();
            assert!(
                refused
                    .to_string()
                    .starts_with("indexation of objects from bucket 'acme-fleet' failed: "),
                "{refused}"
            );
        }
        assert!(read(&buckets, &spec("", "three"), &limits(3, 6)).is_ok());
    }

    #[test]
    fn changes_during_the_download() {
        let buckets = bucket(&["gone", "other", "same"]);
        let bucket = open(&buckets, NAME);
        let clock = TestClock::default();
        let files = Files {
            bucket: bucket.as_ref(),
            name: NAME,
            limits: limits(10, 1 << 22),
            clock: &clock,
            end: Duration::from_secs(1),
        };
        let mut index = block_on(files.index(&spec("", ""))).unwrap();
        buckets.delete(NAME, "gone");
        buckets.put(NAME, "other", "changed");
        block_on(files.fetch(&mut index, &PreviousFiles::default())).unwrap();
        let again = block_on(files.index(&spec("", ""))).unwrap();
        assert_eq!(index.digest(), again.digest());
        // The limit also holds if the listed size is wrong.
        buckets.put(NAME, "other", vec![0; 2 << 20]);
        let refused = block_on(files.fetch(&mut index, &PreviousFiles::default())).unwrap_err();
        assert!(refused.message.contains("larger than"), "{refused}");
        clock.advance(Duration::from_secs(1));
        let late = block_on(files.fetch(&mut index, &PreviousFiles::default())).unwrap_err();
        assert!(late.message.contains("exceeded spec.timeout"), "{late}");
    }

    /// An object is known only if its key and ETag are.
    #[test]
    fn known_objects() {
        let tree = FileTree::from_files([("a", "content")]).unwrap();
        let etags = BTreeMap::from([("a", "1"), ("b", "1")].map(|(k, v)| (k.into(), v.into())));
        let known = PreviousFiles {
            etags: Some(&etags),
            tree: tree.into(),
        };
        let found = |key: &str, etag: &str| {
            let listed = ListedFile {
                etag: etag.to_owned(),
                size: 0,
                path: place(key).unwrap(),
            };
            known.find(key, &listed).map(|object| object.bytes)
        };
        assert_eq!(found("a", "1").unwrap(), "content");
        assert_eq!(found("a", "2"), None);
        assert_eq!(found("/a", "1"), None);
        assert_eq!(found("b", "1"), None);
    }

    #[test]
    fn names_of_buckets() {
        for name in ["acme-fleet", "Acme_1", "a.b.c", "123"] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in [
            "ab",
            "",
            "a/b",
            "../x",
            "a..b",
            "-ab",
            "ab-",
            "arn:aws:s3:x",
            "a b",
            "a?b",
            "a%2fb",
        ] {
            assert!(check_name(name).is_err(), "{name}");
        }
        assert!(check_name(&"a".repeat(64)).is_err());
    }
}
