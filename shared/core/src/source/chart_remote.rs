//! Charts of repositories and registries: which version, and its archive.

use super::chart_build::{pull, reference};
use super::helm_chart::no_artifact;
use crate::failure::Failure;
use crate::flux::{ArtifactStatus, HelmRepository, reason};
use crate::kernel::Context;
use crate::ports::{Connection, ErrorKind, Fetched, Manifest, PortError, Precondition, Validator};
use crate::source::artifact::{self, ArtifactKind};
use crate::source::verify::{self, Trust, Verdict};
use crate::source::{connection, index_url, repository_url, shown, unnamed};
use crate::state;
use bytes::Bytes;
use driftless_helm::index::{self, ChartVersion};
use driftless_helm::semver::Version;
use regex::Regex;
use sha2::{Digest, Sha256};
use std::sync::LazyLock;
use url::Url;

/// Packed bytes of a chart, as source-controller has it.
const LIMIT: u64 = 10 << 20;

/// The layer of an OCI artifact that is a chart, and its older name.
const CHART_LAYERS: [&str; 2] = [
    "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
    "application/tar+gzip",
];

/// A version of a chart, and the way to it.
pub(super) struct Remote {
    /// The chart's name.
    pub name: String,
    /// Its version.
    pub version: String,
    place: ChartLocation,
    how: Connection,
    /// Where its bytes are remembered: of the repository's object that gave the way, so that whoever may not read a chart
    /// is not given it from a memory.
    memory: Option<String>,
}

enum ChartLocation {
    Http {
        url: String,
        digest: String,
    },
    Oci {
        repository: String,
        tag: String,
        /// The manifest that was verified: no other one is downloaded.
        verified: Option<Manifest>,
    },
}

/// The newest version of a chart in a repository that a range allows.
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
    let how = connection::of_repository(context, repository).await?;
    let mut found = if repository.is_oci() {
        in_registry(context, url, how, chart, range).await?
    } else {
        let known = repository.status.artifact.as_ref();
        let known = known.ok_or_else(|| no_artifact(repository.id.kind, &repository.id.name))?;
        let text = artifact::bytes_of(context, &repository.id, known).await;
        // An index that another controller stored, or that is gone: the repository's own step brings it back.
        let text = text.map_err(|error| match error.kind {
            ErrorKind::NotFound => no_artifact(repository.id.kind, &repository.id.name),
            _ => Failure::port(reason::NO_SOURCE_ARTIFACT, &error),
        })?;
        in_index(&text, url, how, chart, range)?
    };
    let (hub, uid) = (&context.hub.settings.name, repository.object.meta("uid"));
    found.memory = Some(format!("{hub}/{uid}/{}", repository.generation()));
    Ok(found)
}

/// As [`find`], for a subchart: a repository without an artifact, or that no object stands for, is asked for its index.
///
/// # Errors
/// As [`find`].
pub(super) async fn find_subchart(
    context: &Context<'_>,
    repository: Option<&HelmRepository>,
    url: &str,
    chart: &str,
    range: &str,
) -> Result<Remote, Failure> {
    let how = match repository {
        Some(known) if known.is_oci() || known.status.artifact.is_some() => {
            return find(context, known, chart, range).await;
        }
        Some(known) => connection::of_repository(context, known).await?,
        None => connection::anonymous(context)?,
    };
    check_name(chart)?;
    if url.starts_with("oci://") {
        return in_registry(context, url, how, chart, range).await;
    }
    let (address, limit) = (index_url(url)?, index::MAX_INDEX as u64);
    let charts = &context.ports.charts;
    let fetched = charts
        .get(&address, &how, &Validator::default(), limit)
        .await;
    match fetched.map_err(|error| failed(&error))? {
        Fetched::Body { bytes, .. } => in_index(&bytes, url, how, chart, range),
        Fetched::Unchanged => Err(unasked()),
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
    how: Connection,
    chart: &str,
    range: &str,
) -> Result<Remote, Failure> {
    let found = index::find(text, chart, range).map_err(|error| {
        let lead = "failed to get chart version for remote reference";
        reference(&format!("{lead}: {}", unnamed(error)))
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
    let how = match how.pass_credentials || base.origin() == address.origin() {
        true => how,
        false => Connection { login: None, ..how },
    };
    Ok(Remote {
        name,
        version,
        place: ChartLocation::Http {
            url: address.into(),
            digest,
        },
        how,
        memory: None,
    })
}

async fn in_registry(
    context: &Context<'_>,
    url: &str,
    how: Connection,
    chart: &str,
    range: &str,
) -> Result<Remote, Failure> {
    let Some(base) = url.strip_prefix("oci://") else {
        let what = format!("failed to construct Helm client: invalid OCI registry URL: {url}");
        return Err(Failure::terminal(reason::SOURCE_FAILED, what));
    };
    let repository = format!("{}/{chart}", base.trim_end_matches('/'));
    let version = match Version::parse(range) {
        Ok(_) => range.to_owned(),
        Err(_) => newest_tag(context, &repository, &how, range).await?,
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
        how,
        memory: None,
    })
}

async fn newest_tag(
    context: &Context<'_>,
    repository: &str,
    how: &Connection,
    range: &str,
) -> Result<String, Failure> {
    let lead = "failed to get chart version for remote reference";
    let tags = context.ports.charts.tags(repository, how).await;
    let tags = tags.map_err(|error| failed(&error).context(lead))?;
    if tags.is_empty() {
        return Err(pull(&format!(
            "{lead}: could not get tags for \"{}\": unable to locate any tags in provided repository: oci://{repository}",
            repository.rsplit('/').next().unwrap_or_default()
        )));
    }
    let versions: Vec<String> = tags.iter().map(|tag| tag.replace('_', "+")).collect();
    let named = versions.iter().map(|version| (version.as_str(), ""));
    let newest = index::newest(named, range).map_err(|what| pull(&format!("{lead}: {what}")))?;
    let found = newest.and_then(|at| versions.get(at));
    found.cloned().ok_or_else(|| {
        pull(&format!(
            "{lead}: could not locate a version matching provided version string {range}"
        ))
    })
}

/// The packed chart: from the bucket if it was downloaded before by the same repository's object.
///
/// # Errors
/// It cannot be had, or is not the one that the index or the registry promised.
pub(super) async fn download(context: &Context<'_>, chart: &Remote) -> Result<Bytes, Failure> {
    match &chart.place {
        ChartLocation::Http { url, digest } => {
            // Without a digest nobody says whether the archive is still the same.
            let name = Some(digest).filter(|digest| !digest.is_empty());
            let name = name.map(|digest| format!("{url} {digest}"));
            if let Some(known) = recall(context, chart, name.as_deref()).await? {
                return Ok(known);
            }
            let charts = &context.ports.charts;
            let fetched = charts
                .get(url, &chart.how, &Validator::default(), LIMIT)
                .await;
            let Fetched::Body { bytes, .. } = fetched.map_err(|error| undownloaded(&error))? else {
                return Err(unasked());
            };
            check_digest(&bytes, digest, url)?;
            remember(context, chart, name.as_deref(), &bytes).await?;
            Ok(bytes)
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

/// Looks for a trusted signature of the chart. What is downloaded afterwards is what was verified.
///
/// # Errors
/// There is none, or the chart comes from where none can be.
pub(super) async fn verify(
    context: &Context<'_>,
    chart: &mut Remote,
    trust: &Trust,
) -> Result<Verdict, Failure> {
    let lead = "chart verification error";
    let ChartLocation::Oci {
        repository, tag, ..
    } = &chart.place
    else {
        return Err(unverifiable());
    };
    let found = manifest(context, chart, repository, tag).await?;
    let artifact = verify::Artifact {
        repository,
        digest: &found.digest,
        connection: &chart.how,
    };
    let told = trust.check(context, &artifact).await;
    let verdict = told.map_err(|failure| {
        let what = failure.context(format_args!(
            "{lead}: failed to verify oci://{repository}:{tag}"
        ));
        Failure {
            reason: reason::CHART_VERIFICATION,
            ..what
        }
    })?;
    if let ChartLocation::Oci { verified, .. } = &mut chart.place {
        *verified = Some(found);
    }
    Ok(verdict)
}

/// The chart comes from a repository with an index.
pub(super) fn unverifiable() -> Failure {
    let what = "chart verification error: a chart of a HelmRepository with an index has no signature that could be checked: use a \
                HelmRepository of type oci, or remove spec.verify";
    Failure::retry(reason::CHART_VERIFICATION, what)
}

async fn manifest(
    context: &Context<'_>,
    chart: &Remote,
    repository: &str,
    tag: &str,
) -> Result<Manifest, Failure> {
    let charts = &context.ports.charts;
    let manifest = charts.manifest(repository, tag, &chart.how).await;
    manifest.map_err(|error| undownloaded(&error))
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
    let layer = layer.ok_or_else(|| {
        pull(&format!(
            "oci://{repository}:{tag} has no layer that is a Helm chart"
        ))
    })?;
    let name = format!("{repository} {}", layer.digest);
    if let Some(known) = recall(context, chart, Some(&name)).await? {
        return Ok(known);
    }
    let bytes = charts.layer(repository, layer, &chart.how, LIMIT).await;
    let bytes = bytes.map_err(|error| undownloaded(&error))?;
    remember(context, chart, Some(&name), &bytes).await?;
    Ok(bytes)
}

/// Where the artifact of a downloaded archive is noted.
fn note_key(chart: &Remote, name: Option<&str>) -> Option<String> {
    let text = format!("{} {}", chart.memory.as_ref()?, name?);
    let hash = hex::encode(Sha256::digest(text));
    Some(format!("charts/{hash}.json"))
}

async fn recall(
    context: &Context<'_>,
    chart: &Remote,
    name: Option<&str>,
) -> Result<Option<Bytes>, Failure> {
    let Some(key) = note_key(chart, name) else {
        return Ok(None);
    };
    let blobs = context.ports.blobs.as_ref();
    let Some((noted, _)) = state::recall::<ArtifactStatus>(blobs, &key).await? else {
        return Ok(None);
    };
    match artifact::bytes(context.ports, &noted).await {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::Unreadable) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

async fn remember(
    context: &Context<'_>,
    chart: &Remote,
    name: Option<&str>,
    bytes: &Bytes,
) -> Result<(), Failure> {
    if let Some(key) = note_key(chart, name) {
        let ports = context.ports;
        let stored =
            artifact::store_file(ports, bytes.clone(), ArtifactKind::Chart, &chart.version);
        let stored = stored.await?;
        state::write(ports.blobs.as_ref(), &key, &stored, Precondition::None).await?;
    }
    Ok(())
}

/// A host's refusal, as source-controller tells those of the login from the others.
fn failed(error: &PortError) -> Failure {
    let (reason, lead) = match error.kind {
        ErrorKind::Denied => (
            reason::AUTHENTICATION_FAILED,
            "failed to authenticate with the Helm repository: chart pull error",
        ),
        _ => (reason::CHART_PULL, "chart pull error"),
    };
    Failure::port(reason, error).context(lead)
}

fn undownloaded(error: &PortError) -> Failure {
    let mut told = error.clone();
    told.message = format!(
        "failed to download chart for remote reference: {}",
        error.message
    );
    failed(&told)
}

fn unasked() -> Failure {
    pull(&"the repository answered a question that was not asked")
}

/// The index says what the archive must be: another one is refused.
fn check_digest(bytes: &[u8], digest: &str, url: &str) -> Result<(), Failure> {
    if digest.is_empty() {
        return Ok(());
    }
    let wanted = digest.strip_prefix("sha256:").unwrap_or(digest);
    if hex::encode(Sha256::digest(bytes)).eq_ignore_ascii_case(wanted) {
        return Ok(());
    }
    Err(pull(&format!(
        "'{}' is not the archive that the repository's index names: its SHA-256 is another one",
        shown(url)
    )))
}

/// An address as an index writes it: whole, or from the repository's.
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
