//! The step of an HTTPArchive: a `tar.gz` behind a URL, with a SHA-256 in the spec, becomes an
//! artifact in the bucket. An archive that was stored is not requested again.

use crate::reconciler::{self, SourceReconciler, SourceReport};
use crate::{archive, artifact, ignore, redact};
use bytes::Bytes;
use driftless_flux::{HTTPArchive, HTTPArchiveSpec, SourceStatus, reason};
use driftless_kernel::context::Context;
use driftless_kernel::failure::Failure;
use driftless_kernel::ports::{
    Connection, DownloadOutcome, FetchLimits, PortError, Validator, compute,
};
use sha2::{Digest as _, Sha256};
use std::time::Duration;

/// The timeout of a download.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The reconciler of HTTPArchives.
pub struct Archives;

impl SourceReconciler for Archives {
    type Spec = HTTPArchiveSpec;
    type Memory = ();

    async fn reconcile(
        context: &Context<'_>,
        source: &HTTPArchive,
        status: &mut SourceStatus,
        _: &mut (),
    ) -> Result<SourceReport, Failure> {
        let spec = &source.spec;
        let revision = format!("sha256:{}", spec.sha256);
        let artifact = status.artifact.as_ref();
        let artifact = artifact.filter(|one| one.revision == revision);
        if artifact.is_none() {
            let message = format!("new upstream revision '{revision}'");
            reconciler::set_building(context, source, status, &message);
        }
        let stored = match &status.artifact {
            Some(artifact)
                if artifact.revision == revision && status.observed_ignore == spec.ignore =>
            {
                artifact::exists(context.ports, artifact).await?
            }
            _ => false,
        };
        if !stored {
            let packed = download(context, spec).await?;
            let port = context.ports.compute.as_ref();
            let limits = FetchLimits::of_step(&context.fuel);
            let tree = archive::unpack_apart(port, packed, false, limits).await;
            let mut tree = tree.map_err(|error| failed(&error))?;
            ignore::apply(&mut tree, spec.ignore.as_deref(), &context.fuel).map_err(|error| {
                Failure::terminal(reason::SOURCE_FETCH_FAILED, &error).caused_by(error)
            })?;
            let stored = artifact::store(context.ports, tree, &revision).await;
            let stored = stored.map_err(|error| Failure::port(reason::STORAGE_FAILED, &error))?;
            status.url.clone_from(&stored.url);
            status.artifact = Some(stored);
            status.observed_ignore.clone_from(&spec.ignore);
        }
        let message = format!("stored artifact: revision '{revision}'");
        Ok(SourceReport::new(reason::META_SUCCEEDED, message))
    }
}

/// Downloads the archive, and checks its digest.
async fn download(context: &Context<'_>, spec: &HTTPArchiveSpec) -> Result<Bytes, Failure> {
    let connection = Connection {
        timeout: TIMEOUT,
        allow_local: context.hub.settings.allow_local_clusters,
        ..Connection::default()
    };
    let place = redact(&spec.url);
    let invalid =
        |problem: &str| Failure::retry(reason::SOURCE_FETCH_FAILED, format!("'{place}' {problem}"));
    let limit = FetchLimits::default().bytes;
    let validator = Validator::default();
    let charts = &context.ports.charts;
    let answer = charts.get(&spec.url, &connection, &validator, limit).await;
    let DownloadOutcome::Body { bytes, .. } = answer.map_err(|error| failed(&error))? else {
        return Err(invalid("answered that it has not changed"));
    };
    let (content, size) = (bytes.clone(), bytes.len() as u64);
    let hash = move || hex::encode(Sha256::digest(&content));
    let hash = compute(context.ports.compute.as_ref(), size, hash).await?;
    match hash == spec.sha256 {
        true => Ok(bytes),
        false => Err(invalid(&format!(
            "has the SHA-256 {hash}, expected that of spec.sha256"
        ))),
    }
}

fn failed(error: &PortError) -> Failure {
    Failure::port(reason::SOURCE_FETCH_FAILED, error)
}
