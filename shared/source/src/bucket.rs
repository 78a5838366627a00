//! The step of a Bucket: the objects of a bucket become an artifact.
//!
//! The revision is a digest over the keys and ETags of a list: an unchanged bucket costs the list
//! alone, a changed one also the objects that changed. Reasons, messages and revisions are those of
//! source-controller 1.9.

use crate::bucket_files::{Files, Index, PreviousFiles};
use crate::reconciler::{self, SourceReconciler, SourceReport};
use crate::{artifact, connection, files};
use driftless_flux::{Bucket, BucketSpec, SourceStatus, reason};
use driftless_kernel::context::Context;
use driftless_kernel::failure::Failure;
use driftless_kernel::ports::{BucketAddress, ErrorKind, FetchLimits};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// The time in which a step may start requests: a function has two minutes, and the last request
/// must end in them.
const MAX_TIME: Duration = Duration::from_secs(60);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

/// Maximum number of objects whose ETags are stored in the memory.
const MAX_REMEMBERED: usize = 5_000;

/// The memory of a bucket: the objects of its artifact. An unchanged object is not downloaded
/// again.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// The bucket's address, `ENDPOINT/NAME`.
    bucket: String,
    /// The artifact's digest.
    digest: String,
    etags: BTreeMap<String, String>,
}

impl Memory {
    fn of(address: &BucketAddress, digest: &str, index: &Index) -> Self {
        match index.len() > MAX_REMEMBERED {
            true => Self::default(),
            false => Self {
                bucket: place(address),
                digest: digest.to_owned(),
                etags: index.etags(),
            },
        }
    }

    /// Returns the files of the artifact, if it was made of this bucket and still exists.
    async fn files(
        &self,
        context: &Context<'_>,
        address: &BucketAddress,
        status: &SourceStatus,
    ) -> Result<PreviousFiles<'_>, Failure> {
        let artifact = status.artifact.as_ref();
        let artifact = artifact.filter(|one| self.digest == one.digest);
        let Some(artifact) = artifact.filter(|_| self.bucket == place(address)) else {
            return Ok(PreviousFiles::default());
        };
        match files::load(context.ports, artifact, &context.fuel).await {
            Ok(tree) => Ok(PreviousFiles {
                etags: Some(&self.etags),
                tree,
            }),
            Err(error) if error.kind == ErrorKind::NotFound => Ok(PreviousFiles::default()),
            Err(error) => Err(error.into()),
        }
    }
}

fn place(address: &BucketAddress) -> String {
    format!("{}/{}", address.endpoint, address.name)
}

/// The reconciler of Buckets.
pub struct Objects;

impl SourceReconciler for Objects {
    type Spec = BucketSpec;
    type Memory = Memory;

    async fn reconcile(
        context: &Context<'_>,
        source: &Bucket,
        status: &mut SourceStatus,
        memory: &mut Memory,
    ) -> Result<SourceReport, Failure> {
        if let Some(message) = source.unsupported() {
            return Err(Failure::terminal(reason::UNSUPPORTED, message));
        }
        let spec = &source.spec;
        let mut address = connection::of_bucket(context, source).await?;
        let time = address.connection.timeout.min(MAX_TIME);
        address.connection.timeout = time.min(REQUEST_TIMEOUT);
        let bucket = context.ports.buckets.open(&address).await;
        let bucket =
            bucket.map_err(|error| Failure::port(reason::AUTHENTICATION_FAILED, &error))?;
        let files = Files {
            bucket: bucket.as_ref(),
            name: &spec.bucket_name,
            limits: FetchLimits::of_step(&context.fuel),
            clock: context.ports.clock.as_ref(),
            end: context.ports.clock.now() + time,
        };
        let mut index = files.index(spec).await?;

        let revision = index.digest();
        let artifact = status.artifact.as_ref();
        if artifact.is_none_or(|artifact| artifact.revision != revision) {
            let message = format!("new upstream revision '{revision}'");
            reconciler::set_building(context, source, status, &message);
        }
        let stored = match &status.artifact {
            Some(artifact) if artifact.revision == revision => {
                artifact::exists(context, artifact).await?
            }
            _ => false,
        };
        if !stored {
            let known = memory.files(context, &address, status).await?;
            let tree = files.fetch(&mut index, &known).await?;
            let stored = artifact::store(context.ports, tree, &index.digest()).await;
            let stored = stored.map_err(|error| {
                Failure::port(reason::STORAGE_FAILED, &error)
                    .context("unable to archive artifact to storage")
            })?;
            *memory = Memory::of(&address, &stored.digest, &index);
            status.url.clone_from(&stored.url);
            status.artifact = Some(stored);
            status.observed_ignore.clone_from(&spec.ignore);
        }
        Ok(success(&index, &spec.bucket_name))
    }
}

fn success(index: &Index, bucket: &str) -> SourceReport {
    let message = format!("stored artifact: revision '{}'", index.digest());
    let news = format!(
        "stored artifact with {} fetched files from '{bucket}' bucket",
        index.len()
    );
    SourceReport {
        news: (reason::NEW_ARTIFACT, news),
        ..SourceReport::new(reason::META_SUCCEEDED, message)
    }
}
