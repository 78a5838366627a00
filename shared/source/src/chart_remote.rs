//! Charts of repositories and registries: finds the version and downloads its archive.

use super::chart_failure::{no_artifact, pull, reference};
use crate::artifact::{self, ArtifactKind};
use crate::{connection, index_url, redact, repository_url, unnamed};
use bytes::Bytes;
use driftless_flux::{ArtifactStatus, HelmRepository, reason};
use driftless_go::semver::Version;
use driftless_helm::index::{self, ChartVersion};
use driftless_kernel::context::Context;
use driftless_kernel::failure::Failure;
use driftless_kernel::ports::{
    Connection, DownloadOutcome, ErrorKind, Manifest, PortError, Precondition, Validator,
};
use driftless_kernel::state;
use driftless_verify::{Trust, Verdict};
use regex::Regex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::sync::LazyLock;
use url::Url;

/// Maximum bytes of a packed chart, as in source-controller.
const MAX_CHART_BYTES: u64 = 10 << 20;

/// The media type of a chart layer in an OCI artifact, and its older name.
const CHART_LAYERS: [&str; 2] = [
    "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
    "application/tar+gzip",
];

/// A version of a chart, and how to download it.
pub(super) struct Remote {
    /// The chart's name.
    pub name: String,
    /// The chart's version.
    pub version: String,
    place: ChartLocation,
    connection: Connection,
    /// The namespace of the cache of downloaded charts: the repository's object, so that a chart is
    /// never taken from the cache of another object.
    cache: Option<String>,
}

enum ChartLocation {
    Http {
        url: String,
        digest: String,
    },
    Oci {
        repository: String,
        tag: String,
        /// The verified manifest; no other one is downloaded.
        verified: Option<Manifest>,
    },
}

/// Finds the newest version of a chart in a repository that a range allows.
///
/// # Errors
/// No such chart or version, or the repository cannot be read.
pub(super) async fn find(
    context: &Context<'_>,
    repository: &HelmRepository,
    chart: &str,
    range: &str,
) -> Result<Remote, Failure> {
    check_name(chart)?;
    let url = &repository.spec.url;
    let connection = connection::of_repository(context, repository).await?;
    let mut found = if repository.is_oci() {
        in_registry(context, url, connection, chart, range).await?
    } else {
        let known = repository.status.artifact.as_ref();
        let known = known.ok_or_else(|| no_artifact(repository.id.kind, &repository.id.name))?;
        let text = artifact::bytes_of(context, &repository.id, known).await;
        // The index is missing or was stored by another controller: the repository's own step
        // stores it.
        let text = text.map_err(|error| match error.kind {
            ErrorKind::NotFound => no_artifact(repository.id.kind, &repository.id.name),
            _ => Failure::port(reason::NO_SOURCE_ARTIFACT, &error),
        })?;
        in_index(&text, url, connection, chart, range)?
    };
    let (hub, uid) = (&context.hub.settings.name, repository.object.meta("uid"));
    found.cache = Some(format!("{hub}/{uid}/{}", repository.generation()));
    Ok(found)
}

/// Finds a subchart like [`find`]; if its repository has no artifact or no object, the index is
/// downloaded.
///
/// # Errors
/// The same as [`find`].
pub(super) async fn find_subchart(
    context: &Context<'_>,
    repository: Option<&HelmRepository>,
    url: &str,
    chart: &str,
    range: &str,
) -> Result<Remote, Failure> {
    let connection = match repository {
        Some(known) if known.is_oci() || known.status.artifact.is_some() => {
            return find(context, known, chart, range).await;
        }
        Some(known) => connection::of_repository(context, known).await?,
        None => connection::anonymous(context)?,
    };
    check_name(chart)?;
    if url.starts_with("oci://") {
        return in_registry(context, url, connection, chart, range).await;
    }
    let (address, limit) = (index_url(url)?, index::MAX_INDEX as u64);
    let charts = &context.ports.charts;
    let fetched = charts
        .get(&address, &connection, &Validator::default(), limit)
        .await;
    match fetched.map_err(|error| failed(&error))? {
        DownloadOutcome::Body { bytes, .. } => in_index(&bytes, url, connection, chart, range),
        DownloadOutcome::Unchanged => Err(unexpected_not_modified()),
    }
}

fn check_name(name: &str) -> Result<(), Failure> {
    static FORM: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"^([-a-z0-9]+/?\.?)+$").ok());
    match FORM.as_ref().is_some_and(|form| form.is_match(name)) {
        true => Ok(()),
        false => Err(reference(&format!(
            "invalid chart name '{name}': a valid name must be lower case letters and numbers and MAY be separated with \
             dashes (-), slashes (/) or periods (.)"
        ))),
    }
}

fn in_index(
    text: &[u8],
    url: &str,
    connection: Connection,
    chart: &str,
    range: &str,
) -> Result<Remote, Failure> {
    let found = index::find(text, chart, range).map_err(|error| {
        let prefix = "failed to get chart version for remote reference";
        reference(&format!("{prefix}: {}", unnamed(error)))
    })?;
    let ChartVersion {
        name,
        version,
        urls,
        digest,
        ..
    } = found;
    let first = urls
        .first()
        .ok_or_else(|| pull(&format!("chart '{name}' has no downloadable URLs")))?;
    let base = repository_url(url)?;
    let address = resolve(&base, first)
        .ok_or_else(|| pull(&format!("'{first}' is not an http or https URL")))?;
    let connection = match connection.pass_credentials || base.origin() == address.origin() {
        true => connection,
        false => Connection {
            login: None,
            ..connection
        },
    };
    Ok(Remote {
        name,
        version,
        place: ChartLocation::Http {
            url: address.into(),
            digest,
        },
        connection,
        cache: None,
    })
}

async fn in_registry(
    context: &Context<'_>,
    url: &str,
    connection: Connection,
    chart: &str,
    range: &str,
) -> Result<Remote, Failure> {
    let Some(base) = url.strip_prefix("oci://") else {
        let message = format!("failed to construct Helm client: invalid OCI registry URL: {url}");
        return Err(Failure::terminal(reason::SOURCE_FAILED, message));
    };
    let repository = format!("{}/{chart}", base.trim_end_matches('/'));
    let version = match Version::parse(range) {
        Ok(_) => range.to_owned(),
        Err(_) => newest_tag(context, &repository, &connection, range).await?,
    };
    Ok(Remote {
        name: chart.to_owned(),
        place: ChartLocation::Oci {
            repository,
            // A tag cannot hold the '+' of a version.
            tag: version.replace('+', "_"),
            verified: None,
        },
        version,
        connection,
        cache: None,
    })
}

async fn newest_tag(
    context: &Context<'_>,
    repository: &str,
    connection: &Connection,
    range: &str,
) -> Result<String, Failure> {
    let prefix = "failed to get chart version for remote reference";
    let tags = context.ports.charts.tags(repository, connection).await;
    let tags = tags.map_err(|error| failed(&error).context(prefix))?;
    if tags.is_empty() {
        return Err(pull(&format!(
            "{prefix}: could not get tags for \"{}\": unable to locate any tags in provided repository: oci://{repository}",
            repository.rsplit('/').next().unwrap_or_default()
        )));
    }
    let versions: Vec<String> = tags.iter().map(|tag| tag.replace('_', "+")).collect();
    let named = versions.iter().map(|version| (version.as_str(), ""));
    let newest =
        index::newest(named, range).map_err(|error| pull(&format!("{prefix}: {error}")))?;
    let found = newest.and_then(|at| versions.get(at));
    found.cloned().ok_or_else(|| {
        pull(&format!(
            "{prefix}: could not locate a version matching provided version string {range}"
        ))
    })
}

/// Returns the packed chart, from the bucket if the same repository's object downloaded it before
/// and the host still serves it to these credentials.
///
/// # Errors
/// The download fails, or the digest is not that of the index or the registry.
pub(super) async fn download(context: &Context<'_>, chart: &Remote) -> Result<Bytes, Failure> {
    match &chart.place {
        ChartLocation::Http { url, digest } => {
            // The host decides with the credentials of now: they may have been revoked since.
            let identity = chart.connection.identity().unwrap_or_default();
            let name = format!("{url} {digest} {identity}");
            let (known, validator) = match recall(context, chart, &name).await? {
                Some((bytes, validator)) => (Some(bytes), validator),
                None => (None, Validator::default()),
            };
            let charts = &context.ports.charts;
            let fetched = charts.get(url, &chart.connection, &validator, MAX_CHART_BYTES);
            let fetched = fetched.await.map_err(|error| download_failure(&error))?;
            match (fetched, known) {
                (DownloadOutcome::Unchanged, Some(known)) => Ok(known),
                (DownloadOutcome::Unchanged, None) => Err(unexpected_not_modified()),
                (DownloadOutcome::Body { bytes, validator }, _) => {
                    check_digest(&bytes, digest, url)?;
                    if !validator.is_empty() {
                        remember(context, chart, &name, &bytes, validator).await?;
                    }
                    Ok(bytes)
                }
            }
        }
        ChartLocation::Oci {
            repository,
            tag,
            verified: Some(manifest),
        } => layer_of(context, chart, (repository, tag), manifest).await,
        ChartLocation::Oci {
            repository, tag, ..
        } => {
            let manifest = manifest(context, chart, repository, tag).await?;
            layer_of(context, chart, (repository, tag), &manifest).await
        }
    }
}

/// Checks that the chart has a trusted signature. A later download takes exactly the verified
/// manifest.
///
/// # Errors
/// The chart has no trusted signature, or its repository cannot have signatures.
pub(super) async fn verify(
    context: &Context<'_>,
    chart: &mut Remote,
    trust: &Trust,
) -> Result<Verdict, Failure> {
    let prefix = "chart verification error";
    let ChartLocation::Oci {
        repository, tag, ..
    } = &chart.place
    else {
        return Err(unverifiable());
    };
    let found = manifest(context, chart, repository, tag).await?;
    let artifact = driftless_verify::Artifact {
        repository,
        digest: &found.digest,
        connection: &chart.connection,
    };
    let checked = trust.check(context, &artifact).await;
    let verdict = checked.map_err(|failure| {
        let failure = failure.context(format_args!(
            "{prefix}: failed to verify oci://{repository}:{tag}"
        ));
        Failure {
            reason: reason::CHART_VERIFICATION,
            ..failure
        }
    })?;
    if let ChartLocation::Oci { verified, .. } = &mut chart.place {
        *verified = Some(found);
    }
    Ok(verdict)
}

/// Returns the failure for `spec.verify` of a chart of a repository with an index.
pub(super) fn unverifiable() -> Failure {
    let message = "chart verification error: charts of a HelmRepository with an index have no signatures: use a HelmRepository of type oci, or \
                   remove spec.verify";
    Failure::retry(reason::CHART_VERIFICATION, message)
}

async fn manifest(
    context: &Context<'_>,
    chart: &Remote,
    repository: &str,
    tag: &str,
) -> Result<Manifest, Failure> {
    let charts = &context.ports.charts;
    let manifest = charts.manifest(repository, tag, &chart.connection).await;
    manifest.map_err(|error| download_failure(&error))
}

async fn layer_of(
    context: &Context<'_>,
    chart: &Remote,
    (repository, tag): (&str, &str),
    manifest: &Manifest,
) -> Result<Bytes, Failure> {
    let charts = &context.ports.charts;
    let layers = &manifest.layers;
    let layer = CHART_LAYERS
        .iter()
        .find_map(|kind| layers.iter().find(|layer| layer.media_type == *kind));
    let layer =
        layer.ok_or_else(|| pull(&format!("oci://{repository}:{tag} has no Helm chart layer")))?;
    let name = format!("{repository} {}", layer.digest);
    // The registry has served the manifest to the credentials of now.
    if let Some((known, _)) = recall(context, chart, &name).await? {
        return Ok(known);
    }
    let bytes = charts
        .layer(repository, layer, &chart.connection, MAX_CHART_BYTES)
        .await;
    let bytes = bytes.map_err(|error| download_failure(&error))?;
    remember(context, chart, &name, &bytes, Validator::default()).await?;
    Ok(bytes)
}

/// The note about a downloaded archive.
#[derive(Serialize, Deserialize)]
struct Note {
    #[serde(flatten)]
    artifact: ArtifactStatus,
    /// The host's validator of the archive, for the next conditional request.
    #[serde(default, skip_serializing_if = "Validator::is_empty")]
    validator: Validator,
}

/// Returns the key of the note about a downloaded archive.
fn note_key(chart: &Remote, name: &str) -> Option<String> {
    let text = format!("{} {name}", chart.cache.as_ref()?);
    let hash = hex::encode(Sha256::digest(text));
    Some(format!("charts/{hash}.json"))
}

async fn recall(
    context: &Context<'_>,
    chart: &Remote,
    name: &str,
) -> Result<Option<(Bytes, Validator)>, Failure> {
    let Some(key) = note_key(chart, name) else {
        return Ok(None);
    };
    let blobs = context.ports.blobs.as_ref();
    let Some((noted, _)) = state::recall::<Note>(blobs, &key).await? else {
        return Ok(None);
    };
    match artifact::bytes(context.ports, &noted.artifact).await {
        Ok(bytes) => Ok(Some((bytes, noted.validator))),
        Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::Unreadable) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

async fn remember(
    context: &Context<'_>,
    chart: &Remote,
    name: &str,
    bytes: &Bytes,
    validator: Validator,
) -> Result<(), Failure> {
    if let Some(key) = note_key(chart, name) {
        let (ports, kind) = (context.ports, ArtifactKind::Chart);
        let artifact = artifact::store_file(ports, bytes.clone(), kind, &chart.version).await?;
        let note = Note {
            artifact,
            validator,
        };
        state::write(ports.blobs.as_ref(), &key, &note, Precondition::None).await?;
    }
    Ok(())
}

/// Returns the failure for a host's error, with source-controller's distinction between login and
/// other errors.
fn failed(error: &PortError) -> Failure {
    let (reason, prefix) = match error.kind {
        ErrorKind::Denied => (
            reason::AUTHENTICATION_FAILED,
            "failed to authenticate with the Helm repository: chart pull error",
        ),
        _ => (reason::CHART_PULL, "chart pull error"),
    };
    Failure::port(reason, error).context(prefix)
}

fn download_failure(error: &PortError) -> Failure {
    let mut error = error.clone();
    error.message = format!(
        "failed to download chart for remote reference: {}",
        error.message
    );
    failed(&error)
}

fn unexpected_not_modified() -> Failure {
    pull(&"the repository answered an unconditional request with 304 Not Modified")
}

/// Checks an archive against the digest in the index.
fn check_digest(bytes: &[u8], digest: &str, url: &str) -> Result<(), Failure> {
    if digest.is_empty() {
        return Ok(());
    }
    let wanted = digest.strip_prefix("sha256:").unwrap_or(digest);
    if hex::encode(Sha256::digest(bytes)).eq_ignore_ascii_case(wanted) {
        return Ok(());
    }
    Err(pull(&format!(
        "'{}' does not have the SHA-256 digest of the repository's index",
        redact(url)
    )))
}

/// Resolves an address in an index, which is absolute or relative to the repository's.
fn resolve(base: &Url, text: &str) -> Option<Url> {
    let mut address = base.join(text).ok()?;
    // The query of the repository's address may be its token (Helm's ResolveReferenceURL).
    if Url::parse(text).is_err() {
        address.set_query(base.query());
    }
    matches!(address.scheme(), "http" | "https").then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let base = &Url::parse("https://charts.example.com/stable/").unwrap();
        for (text, address) in [
            (
                "podinfo-1.0.0.tgz",
                "https://charts.example.com/stable/podinfo-1.0.0.tgz",
            ),
            (
                "charts/podinfo-1.0.0.tgz",
                "https://charts.example.com/stable/charts/podinfo-1.0.0.tgz",
            ),
            ("../podinfo.tgz", "https://charts.example.com/podinfo.tgz"),
            ("/podinfo.tgz", "https://charts.example.com/podinfo.tgz"),
            (
                "https://cdn.example.com/a.tgz?x=1",
                "https://cdn.example.com/a.tgz?x=1",
            ),
        ] {
            assert_eq!(resolve(base, text).unwrap().as_str(), address, "{text}");
        }
        let base_with_token = Url::parse("https://charts.example.com/?token=x").unwrap();
        let tokened = resolve(&base_with_token, "a.tgz").unwrap();
        assert_eq!(tokened.as_str(), "https://charts.example.com/a.tgz?token=x");
        assert!(resolve(base, "file:///etc/passwd").is_none());
        assert!(resolve(base, "oci://ghcr.io/a").is_none());
    }

    #[test]
    fn digests() {
        let digest = hex::encode(Sha256::digest(b"chart"));
        assert!(check_digest(b"chart", &digest, "u").is_ok());
        assert!(check_digest(b"chart", &format!("sha256:{digest}"), "u").is_ok());
        assert!(check_digest(b"chart", "", "u").is_ok());
        assert!(check_digest(b"other", &digest, "u").is_err());
        assert!(check_digest(b"chart", "md5:1", "u?token=x").is_err());
    }

    #[test]
    fn names() {
        for name in ["podinfo", "a/b", "cert-manager.io", "x-1"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", "..", "../a", "A", "a b", "a?b", "/a"] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
