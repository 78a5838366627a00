//! Directories of `--source` in place of chart repositories and OCI artifacts.

use async_trait::async_trait;
use bytes::Bytes;
use driftless_adapters::git::DirectoryGit;
use driftless_adapters::offline::Offline;
use driftless_flux::GitReference;
use driftless_helm::index;
use driftless_kernel::ports::{
    Charts, Connection, DownloadOutcome, ErrorKind, FetchLimits, Git, GitAuth, Layer, Manifest,
    PortError, Referrer, Result, Validator,
};
use driftless_manifest::yaml::{self, Limits};
use driftless_manifest::{FileTree, TreePath};
use driftless_source::archive;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The file of a chart repository that lists its charts.
const INDEX: &str = "index.yaml";
/// The file that makes a directory a chart.
const CHART: &str = "Chart.yaml";
/// The file extension of a packaged chart.
const PACKAGE: &str = ".tgz";
/// The media type of the layer with a chart (Helm), and with the files of an artifact (Flux).
const CHART_LAYER: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
const FILES_LAYER: &str = "application/vnd.cncf.flux.content.v1.tar+gzip";
/// The tag of files without a version.
const LATEST: &str = "latest";

/// The hosts of charts and artifacts, some of them replaced by directories.
///
/// A directory in place of a chart repository (`https://HOST/PATH`) holds charts as directories or
/// packaged, each in any number of versions. A directory in place of an OCI repository is the chart
/// or the files themselves, or holds versions of the chart; one in place of a registry path holds
/// the charts below it.
pub struct DirectoryCharts {
    git: DirectoryGit,
    others: Arc<dyn Charts>,
}

/// A chart of a directory.
struct Chart {
    name: String,
    version: String,
    package: Bytes,
}

/// An artifact of an OCI repository that a directory replaces.
#[derive(Clone)]
struct OciArtifact {
    version: String,
    /// The media type of its layer.
    media_type: &'static str,
    bytes: Bytes,
}

impl From<Chart> for OciArtifact {
    fn from(chart: Chart) -> Self {
        Self {
            version: chart.version,
            media_type: CHART_LAYER,
            bytes: chart.package,
        }
    }
}

impl OciArtifact {
    /// Returns the tag. Helm writes the `+` of a version as `_`.
    fn tag(&self) -> String {
        self.version.replace('+', "_")
    }

    fn manifest_digest(&self) -> String {
        digest(digest(&self.bytes).as_bytes())
    }
}

impl DirectoryCharts {
    /// Creates the adapter. Requests without a directory are passed to `others`.
    pub fn new(git: DirectoryGit, others: Arc<dyn Charts>) -> Self {
        Self { git, others }
    }

    /// Returns the files of the directory in place of a URL, if there is one.
    async fn files(&self, url: &str) -> Result<Option<FileTree>> {
        let reference = GitReference::default();
        if !self.git.has(url) {
            return Ok(None);
        }
        let auth = GitAuth::Anonymous;
        let commit = self.git.resolve(url, &reference, &auth, None).await?;
        let limits = FetchLimits::default();
        Ok(Some(self.git.fetch(url, &commit, &auth, limits).await?))
    }

    /// Returns the charts of the directory in place of a chart repository, if there is one.
    async fn charts(&self, url: &str) -> Result<Option<Vec<Chart>>> {
        let Some(tree) = self.files(url).await? else {
            return Ok(None);
        };
        let charts = charts_in(&tree).map_err(|mut error| {
            error.message = format!("the directory in place of {url}: {}", error.message);
            error
        });
        charts.map(Some)
    }

    /// Returns the artifacts of the directory in place of an OCI repository, if there is one: one
    /// for each version of a chart, or one with all files.
    ///
    /// # Errors
    /// The directory in place of its registry has charts, but none of this name.
    async fn artifacts(&self, repository: &str) -> Result<Option<Vec<OciArtifact>>> {
        let url = format!("oci://{repository}");
        let name = url.rsplit('/').next().unwrap_or_default();
        let of_name = |charts: Vec<Chart>| -> Vec<OciArtifact> {
            let named = charts.into_iter().filter(|chart| chart.name == name);
            named.map(OciArtifact::from).collect()
        };
        if let Some(tree) = self.files(&url).await? {
            if has_chart(&tree, &TreePath::root()) {
                let chart = chart(&tree, &TreePath::root())?;
                return Ok(Some(vec![chart.into()]));
            }
            let versions = of_name(self.charts(&url).await?.unwrap_or_default());
            if !versions.is_empty() {
                return Ok(Some(versions));
            }
            return Ok(Some(vec![OciArtifact {
                version: LATEST.to_owned(),
                media_type: FILES_LAYER,
                bytes: archive::pack(&tree)?.into(),
            }]));
        }
        let Some((registry, _)) = url.rsplit_once('/') else {
            return Ok(None);
        };
        let Some(charts) = self.charts(registry).await?.filter(|all| !all.is_empty()) else {
            return Ok(None);
        };
        let has = list(&charts);
        let versions = of_name(charts);
        if versions.is_empty() {
            let message =
                format!("the directory in place of {registry} has no chart '{name}'; it has {has}");
            return Err(PortError::new(ErrorKind::NotFound, message));
        }
        Ok(Some(versions))
    }

    /// Returns the artifact of a tag or digest, if a directory replaces the OCI repository.
    async fn artifact(&self, repository: &str, reference: &str) -> Result<Option<OciArtifact>> {
        let Some(all) = self.artifacts(repository).await? else {
            return Ok(None);
        };
        let is_wanted = |one: &&OciArtifact| {
            one.tag() == reference
                || one.manifest_digest() == reference
                || one.media_type == FILES_LAYER
        };
        let found = match all.iter().find(is_wanted) {
            None if reference == LATEST => newest(&all),
            found => found,
        };
        let Some(found) = found else {
            let tags: Vec<String> = all.iter().map(OciArtifact::tag).collect();
            let message = format!(
                "the directory in place of oci://{repository} has the version {}, and not {reference}",
                tags.join(", ")
            );
            return Err(PortError::new(ErrorKind::NotFound, message));
        };
        Ok(Some(found.clone()))
    }
}

/// Describes the charts of the directory in place of a chart repository or registry; `None` if no
/// directory replaces it.
///
/// # Errors
/// The directory cannot be read, or a chart of it is not valid.
pub async fn charts_in_place_of(git: &DirectoryGit, url: &str) -> Result<Option<String>> {
    let charts = DirectoryCharts::new(git.clone(), Arc::new(Offline));
    let mut found = charts.charts(url).await?;
    if let (None, Some((registry, _))) = (&found, url.rsplit_once('/'))
        && url.starts_with("oci://")
    {
        found = charts.charts(registry).await?;
    }
    Ok(found.map(|charts| list(&charts)))
}

/// The highest number of charts that a message lists.
const LISTED: usize = 8;

/// Lists charts with their versions.
fn list(charts: &[Chart]) -> String {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for chart in charts {
        let all = versions.entry(&chart.name).or_default();
        all.push(&chart.version);
    }
    let more = versions.len().saturating_sub(LISTED);
    let names = versions.into_iter().take(LISTED);
    let mut names: Vec<String> = names
        .map(|(name, versions)| format!("{name} {}", versions.join(", ")))
        .collect();
    match (names.is_empty(), more) {
        (true, _) => "no charts".to_owned(),
        (false, 0) => names.join("; "),
        (false, more) => {
            names.push(format!("{more} more charts"));
            names.join("; ")
        }
    }
}

/// Returns the artifact that the tag `latest` selects: the newest version.
fn newest(all: &[OciArtifact]) -> Option<&OciArtifact> {
    let versions = || all.iter().map(|one| (one.version.as_str(), ""));
    let of = |range| index::newest(versions(), range).ok().flatten();
    all.get(of("*").or_else(|| of(">=0.0.0-0"))?)
}

/// Returns the charts in a directory: its subdirectories with a Chart.yaml, and packages.
fn charts_in(tree: &FileTree) -> Result<Vec<Chart>> {
    let mut charts = Vec::new();
    for (path, _) in tree.index().iter() {
        let Some(content) = tree.content(path) else {
            continue;
        };
        let is_inside = |directory: &TreePath| {
            let mut above = directory.clone();
            std::iter::from_fn(move || {
                (!above.is_root()).then(|| {
                    above = above.parent();
                    above.clone()
                })
            })
            .any(|above| has_chart(tree, &above))
        };
        if path.file_name() == CHART && !is_inside(&path.parent()) {
            charts.push(chart(tree, &path.parent())?);
        } else if path.file_name().ends_with(PACKAGE) && !is_inside(path) {
            charts.push(packaged(path, content)?);
        }
    }
    Ok(charts)
}

fn has_chart(tree: &FileTree, directory: &TreePath) -> bool {
    let file = directory.join(CHART);
    file.is_ok_and(|file| tree.index().get(&file).is_some())
}

fn invalid(place: impl std::fmt::Display, message: impl std::fmt::Display) -> PortError {
    PortError::new(ErrorKind::Invalid, format!("{place}: {message}"))
}

/// Packs a chart that is a directory.
fn chart(tree: &FileTree, directory: &TreePath) -> Result<Chart> {
    let file = directory
        .join(CHART)
        .map_err(|error| invalid(directory, error))?;
    let content = tree.content(&file).cloned().unwrap_or_default();
    let (name, version) = named(&file, &content)?;
    let mut files = FileTree::new();
    for (path, entry) in tree.index().below(directory) {
        let content = tree.content(path).cloned().unwrap_or_default();
        let below = path
            .as_str()
            .strip_prefix(directory.as_str())
            .unwrap_or(path.as_str());
        let path = TreePath::new(&format!("{name}/{}", below.trim_start_matches('/')))
            .map_err(|error| invalid(path, error))?;
        let kept = files.insert(path.clone(), entry.kind.clone(), content);
        kept.map_err(|error| invalid(path, error))?;
    }
    Ok(Chart {
        name,
        version,
        package: archive::pack(&files)?.into(),
    })
}

/// Reads a chart that is already packaged.
fn packaged(path: &TreePath, content: &Bytes) -> Result<Chart> {
    let files = archive::unpack(content, true, &FetchLimits::default());
    let files =
        files.map_err(|error| PortError::new(error.kind, format!("{path}: {}", error.message)))?;
    let file = TreePath::new(CHART).map_err(|error| invalid(path, error))?;
    let content_of = files.content(&file).cloned();
    let content_of = content_of.ok_or_else(|| invalid(path, "the package has no Chart.yaml"))?;
    let (name, version) = named(path, &content_of)?;
    Ok(Chart {
        name,
        version,
        package: content.clone(),
    })
}

/// Reads the name and version in a Chart.yaml.
fn named(place: &TreePath, content: &[u8]) -> Result<(String, String)> {
    let documents = yaml::parse(content, place.as_str(), &Limits::default());
    let documents = documents.map_err(|error| invalid(place, error))?;
    let text = |field: &str| {
        let value = documents.first().and_then(|chart| chart.get(field)?.text());
        let missing = || invalid(place, format!("the field {field} of the chart is missing"));
        value.map(str::to_owned).ok_or_else(missing)
    };
    Ok((text("name")?, text("version")?))
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

fn body(bytes: Bytes) -> DownloadOutcome {
    DownloadOutcome::Body {
        bytes,
        validator: Validator::default(),
    }
}

/// Renders the index of a chart repository.
fn render_index(charts: &[Chart]) -> Bytes {
    let mut entries: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for chart in charts {
        let (name, version) = (chart.name.as_str(), chart.version.as_str());
        entries.entry(name).or_default().push(json!({
            "apiVersion": "v2", "name": name, "version": version,
            "digest": hex::encode(Sha256::digest(&chart.package)), "urls": [file_name(chart)],
        }));
    }
    json!({"apiVersion": "v1", "entries": entries})
        .to_string()
        .into()
}

fn file_name(chart: &Chart) -> String {
    format!("{}-{}{PACKAGE}", chart.name, chart.version)
}

#[async_trait]
impl Charts for DirectoryCharts {
    async fn get(
        &self,
        url: &str,
        connection: &Connection,
        known: &Validator,
        limit: u64,
    ) -> Result<DownloadOutcome> {
        if let Some((repository, file)) = url.rsplit_once('/')
            && let Some(charts) = self.charts(repository).await?
        {
            if file == INDEX {
                return Ok(body(render_index(&charts)));
            }
            let found = charts.into_iter().find(|chart| file_name(chart) == file);
            return match found {
                Some(chart) => Ok(body(chart.package)),
                None => Err(PortError::new(
                    ErrorKind::NotFound,
                    format!("the directory in place of {repository} has no {file}"),
                )),
            };
        }
        self.others.get(url, connection, known, limit).await
    }

    async fn file(
        &self,
        url: &str,
        connection: &Connection,
        limit: u64,
    ) -> Result<DownloadOutcome> {
        self.others.file(url, connection, limit).await
    }

    async fn tags(&self, repository: &str, connection: &Connection) -> Result<Vec<String>> {
        match self.artifacts(repository).await? {
            Some(all) => Ok(all.iter().map(OciArtifact::tag).collect()),
            None => self.others.tags(repository, connection).await,
        }
    }

    async fn manifest(
        &self,
        repository: &str,
        reference: &str,
        connection: &Connection,
    ) -> Result<Manifest> {
        let Some(artifact) = self.artifact(repository, reference).await? else {
            return self
                .others
                .manifest(repository, reference, connection)
                .await;
        };
        let layer = Layer {
            media_type: artifact.media_type.to_owned(),
            digest: digest(&artifact.bytes),
            size: artifact.bytes.len() as u64,
            annotations: BTreeMap::new(),
        };
        Ok(Manifest {
            digest: artifact.manifest_digest(),
            layers: vec![layer],
            ..Manifest::default()
        })
    }

    async fn referrers(
        &self,
        repository: &str,
        digest: &str,
        connection: &Connection,
    ) -> Result<Vec<Referrer>> {
        match self.artifacts(repository).await? {
            Some(_) => Ok(Vec::new()),
            None => self.others.referrers(repository, digest, connection).await,
        }
    }

    async fn layer(
        &self,
        repository: &str,
        layer: &Layer,
        connection: &Connection,
        limit: u64,
    ) -> Result<Bytes> {
        let Some(all) = self.artifacts(repository).await? else {
            return self
                .others
                .layer(repository, layer, connection, limit)
                .await;
        };
        let is_wanted = |one: &OciArtifact| digest(&one.bytes) == layer.digest;
        let found = all.into_iter().find(is_wanted).map(|one| one.bytes);
        found.ok_or_else(|| {
            let message = format!(
                "the directory in place of oci://{repository} has changed: no layer has the digest {}",
                layer.digest
            );
            PortError::new(ErrorKind::NotFound, message)
        })
    }
}
