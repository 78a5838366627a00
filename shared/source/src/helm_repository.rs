//! The step of a HelmRepository: its index becomes an artifact. A registry (type `oci`) has no
//! index: such an object is only read by its charts, and has no status, as in Flux.

use crate::artifact::{self, ArtifactKind};
use crate::reconciler::{SourceReconciler, SourceReport};
use crate::{connection, consumers, index_url, redact, unnamed};
use bytes::Bytes;
use driftless_flux::{
    ArtifactStatus, HelmRepository, HelmRepositorySpec, SOURCE_CONTROLLER, SourceStatus, reason,
};
use driftless_helm::index;
use driftless_kernel::context::{Context, Outcome};
use driftless_kernel::driver;
use driftless_kernel::failure::Failure;
use driftless_kernel::ports::{DownloadOutcome, Validator};
use driftless_manifest::Object;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The memory of a repository between steps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// The HTTP validator of the index that was stored last.
    validator: Validator,
    /// The address of that index.
    url: String,
    /// The generation that fetched it: another one may use other credentials.
    generation: i64,
}

/// The reconciler of HelmRepositories with an index.
pub struct Helm;

impl SourceReconciler for Helm {
    type Spec = HelmRepositorySpec;
    type Memory = Memory;

    async fn reconcile(
        context: &Context<'_>,
        source: &HelmRepository,
        status: &mut SourceStatus,
        memory: &mut Memory,
    ) -> Result<SourceReport, Failure> {
        let stored = match &status.artifact {
            Some(artifact) => artifact::exists(context, artifact).await?,
            None => false,
        };
        if let Some(artifact) = fetch(context, source, memory, stored).await? {
            let known = status.artifact.as_ref().filter(|_| stored);
            let same = known.is_some_and(|known| known.digest == artifact.digest);
            if !same {
                status.url.clone_from(&artifact.url);
                status.artifact = Some(artifact);
            }
        }
        let artifact = status.artifact.clone().unwrap_or_default();
        let message = format!("stored artifact: revision '{}'", artifact.revision);
        let size = human_size(artifact.size.unwrap_or_default());
        let news = format!(
            "stored fetched index of size {size} from '{}'",
            redact(&source.spec.url)
        );
        Ok(SourceReport {
            news: (reason::NEW_ARTIFACT, news),
            ..SourceReport::new(reason::META_SUCCEEDED, message)
        })
    }
}

/// Fetches and stores the index; returns `None` if the stored one is current.
async fn fetch(
    context: &Context<'_>,
    source: &HelmRepository,
    memory: &mut Memory,
    stored: bool,
) -> Result<Option<ArtifactStatus>, Failure> {
    let url = index_url(&source.spec.url)?;
    let connection = connection::of_repository(context, source).await?;
    let is_known = stored && memory.url == url && memory.generation == source.generation();
    let known = match is_known {
        true => memory.validator.clone(),
        false => Validator::default(),
    };
    let limit = index::MAX_INDEX as u64;
    let fetched = context
        .ports
        .charts
        .get(&url, &connection, &known, limit)
        .await;
    let fetched = fetched.map_err(|error| {
        Failure::port(reason::SOURCE_FAILED, &error)
            .context("failed to fetch Helm repository index")
    })?;
    let DownloadOutcome::Body { bytes, validator } = fetched else {
        return Ok(None);
    };
    index::check(&bytes).map_err(|error| {
        let prefix = "failed to load Helm repository from index YAML: failed to load index";
        let message = format!("{prefix}: {}", unnamed(error));
        Failure::retry(reason::INDEXATION_FAILED, message)
    })?;
    let artifact = store(context, bytes).await?;
    *memory = Memory {
        validator,
        url,
        generation: source.generation(),
    };
    Ok(Some(artifact))
}

/// Stores an index. Its revision is its digest.
async fn store(context: &Context<'_>, index: Bytes) -> Result<ArtifactStatus, Failure> {
    let stored = artifact::store_file(context.ports, index, ArtifactKind::Index, "").await;
    let mut artifact = stored.map_err(|error| {
        Failure::port(reason::STORAGE_FAILED, &error).context("unable to save artifact to storage")
    })?;
    artifact.revision.clone_from(&artifact.digest);
    Ok(artifact)
}

/// Reconciles a HelmRepository of type `oci`: removes the status and finalizer of a former index,
/// and queues the charts.
///
/// # Errors
/// The cluster's.
pub async fn reconcile_registry(context: &Context<'_>, object: Object) -> Result<Outcome, Failure> {
    let is_deleted = !object.meta("deletionTimestamp").is_empty();
    if !is_deleted && object.pointer("/spec/suspend") == Some(&Value::Bool(true)) {
        return Ok(Outcome::done("suspended"));
    }
    let written = object.pointer("/status").and_then(Value::as_object);
    // The default status of the definition promises a controller: a health check would wait for it.
    let is_bare = written.is_none_or(Map::is_empty);
    let mut live = object;
    if !is_bare && !is_deleted {
        live = driver::clear_status(context, &live, SOURCE_CONTROLLER).await?;
    }
    context.remove_finalizer(&live, SOURCE_CONTROLLER).await?;
    let mut outcome = Outcome::done("a registry has no index to fetch");
    if !is_deleted {
        outcome.enqueue = consumers::of(context).await?;
    }
    Ok(outcome)
}

/// Formats a size like Docker's `HumanSize`: four digits, steps of a thousand.
fn human_size(bytes: u64) -> String {
    let mut size = bytes as f64;
    let mut units = ["B", "kB", "MB", "GB"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    while size >= 1000.0
        && let Some(next) = units.next()
    {
        size /= 1000.0;
        unit = next;
    }
    let digits = match size {
        size if size >= 1000.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 10.0 => 2,
        _ => 3,
    };
    let text = format!("{size:.digits$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    };
    format!("{text}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (bytes, text) in [
            (0, "0B"),
            (999, "999B"),
            (1000, "1kB"),
            (1234, "1.234kB"),
            (43_190, "43.19kB"),
            (1_500_000, "1.5MB"),
            (52_428_800, "52.43MB"),
        ] {
            assert_eq!(human_size(bytes), text);
        }
    }
}
