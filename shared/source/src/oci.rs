//! The step of an OCIRepository: a layer of an artifact in a registry becomes an artifact in the
//! bucket.

use crate::artifact::{self, ArtifactKind};
use crate::reconciler::{self, SourceReconciler, SourceReport};
use crate::{archive, connection, ignore};
use driftless_flux::{
    ArtifactStatus, LayerSelector, OCIReference, OCIRepository, OCIRepositorySpec, SourceStatus,
    reason,
};
use driftless_helm::index;
use driftless_kernel::context::Context;
use driftless_kernel::failure::Failure;
use driftless_kernel::pattern;
use driftless_kernel::ports::{Connection, ErrorKind, FetchLimits, Layer, Manifest, PortError};
use driftless_manifest::FileTree;
use driftless_verify::{Trust, Verdict};

/// Maximum bytes of a packed layer.
const MAX_LAYER_BYTES: u64 = 100 << 20;

/// The media type of a Helm chart layer.
const CHART: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";

/// The reconciler of OCIRepositories.
pub struct Oci;

impl SourceReconciler for Oci {
    type Spec = OCIRepositorySpec;
    type Memory = ();

    async fn reconcile(
        context: &Context<'_>,
        source: &OCIRepository,
        status: &mut SourceStatus,
        _: &mut (),
    ) -> Result<SourceReport, Failure> {
        let spec = &source.spec;
        if let Some(message) = source.unsupported() {
            return Err(Failure::terminal(reason::UNSUPPORTED, message));
        }
        let repository = repository(&spec.url)?;
        let connection = connection::of_registry(context, source).await?;
        let wanted = choose(context, source, repository, &connection).await?;
        let charts = &context.ports.charts;
        let (digest, mut manifest) = match &wanted {
            RefSpec::Digest(digest) => (digest.clone(), None),
            RefSpec::Tag(tag) => {
                let found = charts.manifest(repository, tag, &connection).await;
                let found =
                    found.map_err(|error| failed(&error, "failed to determine artifact digest"))?;
                (found.digest.clone(), Some(found))
            }
        };
        let revision = wanted.revision(&digest);
        let is_new = status
            .artifact
            .as_ref()
            .is_none_or(|artifact| artifact.revision != revision);
        if is_new {
            let message = format!("new revision '{revision}' for '{}'", wanted.of(repository));
            reconciler::set_building(context, source, status, &message);
        }

        if let Some(verify) = &spec.verify {
            let artifact = driftless_verify::Artifact {
                repository,
                digest: &digest,
                connection: &connection,
            };
            if !is_verified(source, status, &revision) {
                let trust = Trust::read(context, &source.id.namespace, verify).await?;
                let checked = trust.check(context, &artifact).await;
                if checked.map_err(|failure| driftless_verify::failed(verify, failure))?
                    == Verdict::Verified
                {
                    let message = format!("verified signature of revision {revision}");
                    reconciler::set_verified(context, source, status, &message);
                }
            }
        } else {
            status.conditions.remove(reconciler::VERIFIED);
        }
        let same = !is_new
            && status.observed_ignore == spec.ignore
            && status.observed_layer_selector == spec.layer_selector;
        let stored = match &status.artifact {
            Some(artifact) if same => artifact::exists(context, artifact).await?,
            _ => false,
        };
        if !stored {
            let prefix = format!("failed to pull artifact from '{}'", spec.url);
            let manifest = match manifest.take() {
                Some(manifest) => manifest,
                None => {
                    let found = charts.manifest(repository, &digest, &connection).await;
                    found.map_err(|error| failed(&error, &prefix))?
                }
            };
            let layer = select(&manifest, spec.layer_selector.as_ref())?;
            let bytes = charts
                .layer(repository, layer, &connection, MAX_LAYER_BYTES)
                .await;
            let bytes = bytes.map_err(|error| failed(&error, &prefix))?;
            let mut artifact = store(context, source, bytes, &revision).await?;
            artifact.metadata = manifest.annotations;
            status.url.clone_from(&artifact.url);
            status.artifact = Some(artifact);
            status.observed_ignore.clone_from(&spec.ignore);
            status
                .observed_layer_selector
                .clone_from(&spec.layer_selector);
        }
        let message = format!("stored artifact for digest '{revision}'");
        Ok(SourceReport {
            news: (
                reason::NEW_ARTIFACT,
                event_message(source, status, &revision),
            ),
            ..SourceReport::new(reason::META_SUCCEEDED, message)
        })
    }
}

/// Returns whether the current artifact has this revision and was verified for this generation.
fn is_verified(source: &OCIRepository, status: &SourceStatus, revision: &str) -> bool {
    let verified = status.conditions.get(reconciler::VERIFIED);
    verified.is_some_and(|condition| condition.observed_generation == source.generation())
        && status
            .artifact
            .as_ref()
            .is_some_and(|artifact| artifact.revision == revision)
}

/// Returns the message of the event: the revision, and its origin if the artifact has annotations
/// for it.
fn event_message(source: &OCIRepository, status: &SourceStatus, revision: &str) -> String {
    let text = format!(
        "stored artifact with revision '{revision}' from '{}'",
        source.spec.url
    );
    let artifact = status.artifact.as_ref();
    let origin = |key: &str| {
        let text = artifact?.metadata.get(key)?;
        (!text.is_empty()).then_some(text)
    };
    match (
        origin("org.opencontainers.image.source"),
        origin("org.opencontainers.image.revision"),
    ) {
        (Some(place), Some(revision)) => {
            format!("{text}, origin source '{place}', origin revision '{revision}'")
        }
        _ => text,
    }
}

/// Returns the `HOST/PATH` of an address.
fn repository(url: &str) -> Result<&str, Failure> {
    let fail = |problem: &str| {
        let message = format!("URL validation failed for '{url}': {problem}");
        Err(Failure::terminal(reason::URL_INVALID, message))
    };
    let form = "URL must be in format 'oci://<domain>/<org>/<repo>'";
    let Some(repository) = url.strip_prefix("oci://") else {
        return fail(form);
    };
    let repository = repository.trim_end_matches('/');
    let Some((_, path)) = repository.split_once('/') else {
        return fail(form);
    };
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-./".contains(&b);
    match path.bytes().all(fits) {
        true => Ok(repository),
        false => fail(&format!(
            "repository can only contain the characters `abcdefghijklmnopqrstuvwxyz0123456789_-./`: {path}"
        )),
    }
}

/// The reference to request from the registry.
enum RefSpec {
    Digest(String),
    Tag(String),
}

impl RefSpec {
    /// Formats the reference for a repository, as `HOST/PATH:6.5.0` or `HOST/PATH@sha256:…`.
    fn of(&self, repository: &str) -> String {
        match self {
            Self::Digest(digest) => format!("{repository}@{digest}"),
            Self::Tag(tag) => format!("{repository}:{tag}"),
        }
    }

    /// Formats Flux's revision: `6.5.0@sha256:…`, or the digest alone.
    fn revision(&self, digest: &str) -> String {
        match self {
            Self::Digest(_) => digest.to_owned(),
            Self::Tag(tag) => format!("{tag}@{digest}"),
        }
    }
}

fn is_digest(text: &str) -> bool {
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    let sum = text.strip_prefix("sha256:").unwrap_or_default();
    sum.len() == 64 && sum.bytes().all(hex)
}

/// Returns the reference to fetch: a digest wins over a range, a range over a tag; the default is
/// `latest`.
async fn choose(
    context: &Context<'_>,
    source: &OCIRepository,
    repository: &str,
    connection: &Connection,
) -> Result<RefSpec, Failure> {
    let reference = source.spec.reference.clone().unwrap_or_default();
    if !reference.digest.is_empty() {
        return match is_digest(&reference.digest) {
            true => Ok(RefSpec::Digest(reference.digest)),
            false => {
                let message = format!(
                    "failed to determine artifact digest: cannot parse hash: {:?}",
                    reference.digest
                );
                Err(Failure::retry(reason::OCI_PULL_FAILED, message))
            }
        };
    }
    if reference.semver.is_empty() {
        let tag = match reference.tag.as_str() {
            "" => "latest",
            tag => tag,
        };
        return Ok(RefSpec::Tag(tag.to_owned()));
    }
    let prefix = format!(
        "failed to determine the artifact tag for '{}'",
        source.spec.url
    );
    let tags = context.ports.charts.tags(repository, connection).await;
    let tags = tags.map_err(|error| Failure {
        reason: match error.kind {
            ErrorKind::Unsupported => reason::UNSUPPORTED,
            _ => reason::READ_FAILED,
        },
        ..failed(&error, &prefix)
    })?;
    let is_chart = source
        .spec
        .layer_selector
        .as_ref()
        .is_some_and(|selector| selector.media_type == CHART);
    let tag = newest_tag(tags, &reference, is_chart).map_err(|failure| failure.context(&prefix))?;
    Ok(RefSpec::Tag(tag))
}

/// Returns the newest tag that the range allows. A tag of a chart has `_` in place of the `+` in
/// its version.
fn newest_tag(
    mut tags: Vec<String>,
    reference: &OCIReference,
    is_chart: bool,
) -> Result<String, Failure> {
    let invalid = |message: String| Failure::retry(reason::READ_FAILED, message);
    if !reference.semver_filter.is_empty() {
        let filter = pattern(&reference.semver_filter)
            .map_err(|error| invalid(format!("error parsing regexp: {error}")))?;
        tags.retain(|tag| filter.is_match(tag));
    }
    let version = |tag: &String| match is_chart {
        true => tag.replace('_', "+"),
        false => tag.clone(),
    };
    let versions: Vec<String> = tags.iter().map(version).collect();
    let named = versions.iter().map(|version| (version.as_str(), ""));
    let range = &reference.semver;
    let newest = index::newest(named, range)
        .map_err(|error| invalid(format!("semver '{range}' parse error: {error}")))?;
    match newest.and_then(|at| tags.get(at)) {
        Some(tag) => Ok(tag.clone()),
        None => Err(invalid(format!("no match found for semver: {range}"))),
    }
}

/// Returns the layer that the selector names, or the first one without a selector.
fn select<'m>(
    manifest: &'m Manifest,
    selector: Option<&LayerSelector>,
) -> Result<&'m Layer, Failure> {
    let media_type = selector.map_or("", |selector| selector.media_type.as_str());
    let found = manifest
        .layers
        .iter()
        .find(|layer| media_type.is_empty() || layer.media_type == media_type);
    found.ok_or_else(|| {
        let message = match media_type {
            "" => "no layers found in artifact".to_owned(),
            media_type => {
                format!("failed to find layer with media type '{media_type}' in artifact")
            }
        };
        Failure::retry(reason::OCI_LAYER_FAILED, message)
    })
}

async fn store(
    context: &Context<'_>,
    source: &OCIRepository,
    layer: bytes::Bytes,
    revision: &str,
) -> Result<ArtifactStatus, Failure> {
    let selector = source.spec.layer_selector.as_ref();
    let copy = match selector.map_or("", |selector| selector.operation.as_str()) {
        "" | "extract" => false,
        "copy" => true,
        other => {
            let message = format!("unsupported layer operation: {other}: expected extract or copy");
            return Err(Failure::terminal(reason::OCI_LAYER_FAILED, message));
        }
    };
    let stored = match copy {
        true => artifact::store_file(context.ports, layer, ArtifactKind::Chart, revision).await,
        false => {
            let tree = extract(context, source, layer).await?;
            artifact::store(context.ports, tree, revision).await
        }
    };
    stored.map_err(|error| {
        Failure::port(reason::STORAGE_FAILED, &error)
            .context("unable to archive artifact to storage")
    })
}

async fn extract(
    context: &Context<'_>,
    source: &OCIRepository,
    layer: bytes::Bytes,
) -> Result<FileTree, Failure> {
    let port = context.ports.compute.as_ref();
    let tree = archive::unpack_apart(port, layer, false, FetchLimits::of_step(&context.fuel));
    let mut tree = tree.await.map_err(|error| {
        let message = format!("failed to extract layer contents from artifact: {error}");
        Failure::retry(reason::OCI_LAYER_FAILED, message)
    })?;
    ignore::apply(&mut tree, source.spec.ignore.as_deref(), &context.fuel)
        .map_err(|error| Failure::terminal(reason::OCI_LAYER_FAILED, &error).caused_by(error))?;
    Ok(tree)
}

fn failed(error: &PortError, prefix: &str) -> Failure {
    Failure::port(reason::OCI_PULL_FAILED, error).context(prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags() {
        let newest = |semver: &str, filter: &str| {
            let tags = ["latest", "v6.4.0", "6.5.0", "6.6.0-rc.1", "6.5.1-debug"];
            let reference = OCIReference {
                semver: semver.into(),
                semver_filter: filter.into(),
                ..OCIReference::default()
            };
            newest_tag(tags.map(str::to_owned).to_vec(), &reference, false)
                .map_err(|failure| failure.message)
        };
        assert_eq!(newest("6.x", "").as_deref(), Ok("6.5.0"));
        assert_eq!(newest(">=6.0.0-0", "").as_deref(), Ok("6.6.0-rc.1"));
        assert_eq!(newest(">=6.0.0-0", "debug$").as_deref(), Ok("6.5.1-debug"));
        assert_eq!(newest("<6.5", "").as_deref(), Ok("v6.4.0"));
        assert_eq!(
            newest("7.x", "").unwrap_err(),
            "no match found for semver: 7.x"
        );
        let broken = "error parsing regexp: missing closing ): `(`";
        assert_eq!(newest("6.x", "(").unwrap_err(), broken);
    }

    #[test]
    fn layers() {
        let layer = |kind: &str| Layer {
            media_type: kind.into(),
            ..Layer::default()
        };
        let manifest = Manifest {
            layers: vec![layer("a"), layer("b")],
            ..Manifest::default()
        };
        let selector = |kind: &str| LayerSelector {
            media_type: kind.into(),
            ..LayerSelector::default()
        };
        assert_eq!(select(&manifest, None).unwrap().media_type, "a");
        assert_eq!(
            select(&manifest, Some(&selector("b"))).unwrap().media_type,
            "b"
        );
        assert!(select(&manifest, Some(&selector("c"))).is_err());
    }

    #[test]
    fn revisions() {
        assert_eq!(
            RefSpec::Tag("6.5.0".into()).revision("sha256:a"),
            "6.5.0@sha256:a"
        );
        assert_eq!(
            RefSpec::Digest("sha256:a".into()).revision("sha256:a"),
            "sha256:a"
        );
    }
}
