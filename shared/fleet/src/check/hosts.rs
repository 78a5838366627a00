//! The hosts that a check sends requests to: none, or with `--allow-remote-bases` those of remote
//! bases and of files that kustomizations reference, and with `--allow-charts` those of charts and
//! OCI artifacts.

use async_trait::async_trait;
use bytes::Bytes;
use driftless_adapters::charts::HttpCharts;
use driftless_adapters::git::{BASE_NOT_FETCHED, DirectoryGit};
use driftless_adapters::offline::Offline;
use driftless_kernel::ports::{
    Charts, Connection, DownloadOutcome, ErrorKind, Layer, Manifest, PortError, Referrer, Result,
    Validator,
};
use driftless_kustomize::FILE_NAMES;
use driftless_manifest::yaml::{self, Limits, Node, NodeKind};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The content of a generator's file that is not fetched.
const PLACEHOLDER: &str = "placeholder";

/// The URLs of generators' files that were replaced by placeholders.
#[derive(Clone, Default)]
pub struct FileStandIns(Arc<Mutex<BTreeSet<String>>>);

impl FileStandIns {
    /// Returns the URLs.
    pub fn all(&self) -> BTreeSet<String> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The addresses from which charts and OCI artifacts may be downloaded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ChartHosts {
    /// Public and private addresses.
    Remote,
    /// Also loopback and link-local addresses.
    All,
}

/// Charts and files that are fetched only if that is allowed. A file of a configMapGenerator or
/// secretGenerator that is not fetched is a placeholder, so that the rest of the build is checked.
pub struct FileHosts {
    /// The client for files, if fetching is allowed.
    pub hosts: Option<HttpCharts>,
    /// The client for charts and artifacts, if fetching is allowed, and its addresses.
    pub charts: Option<(HttpCharts, ChartHosts)>,
    /// The directories with the kustomizations.
    pub git: DirectoryGit,
    /// The files that were replaced by placeholders.
    pub stand_ins: FileStandIns,
}

impl FileHosts {
    /// Returns the client for charts, and the connection without what is not permitted.
    fn charts(&self, connection: &Connection) -> (&dyn Charts, Connection) {
        match &self.charts {
            None => (&Offline, connection.clone()),
            Some((client, permitted)) => {
                let allow_local = connection.allow_local && *permitted == ChartHosts::All;
                let connection = Connection {
                    allow_local,
                    ..connection.clone()
                };
                (client, connection)
            }
        }
    }

    /// Checks whether a generator reads a file from this URL.
    fn is_generated(&self, url: &str) -> bool {
        let trees = self.git.trees();
        trees.iter().any(|(_, tree)| {
            tree.index().iter().any(|(path, _)| {
                let content = tree
                    .content(path)
                    .filter(|_| FILE_NAMES.contains(&path.file_name()))
                    .and_then(|content| std::str::from_utf8(content).ok())
                    .filter(|content| content.contains(url));
                content.is_some_and(|content| generates(content, path.as_str(), url))
            })
        })
    }
}

/// Checks whether a generator of this kustomization reads a file from this URL.
fn generates(content: &str, path: &str, url: &str) -> bool {
    let documents = yaml::parse(content.as_bytes(), path, &Limits::default()).unwrap_or_default();
    let entries = |node: Option<&Node>| match node.map(|node| &node.kind) {
        Some(NodeKind::Seq(entries)) => entries.clone(),
        _ => Vec::new(),
    };
    let fields = ["configMapGenerator", "secretGenerator"];
    documents.iter().any(|document| {
        let generators = fields.iter().flat_map(|field| entries(document.get(field)));
        let files = generators
            .flat_map(|generator| entries(generator.get("files")))
            .filter_map(|file| file.text().map(str::to_owned));
        files
            .collect::<Vec<_>>()
            .iter()
            .any(|file| file == url || file.ends_with(&format!("={url}")))
    })
}

#[async_trait]
impl Charts for FileHosts {
    async fn get(
        &self,
        url: &str,
        connection: &Connection,
        known: &Validator,
        limit: u64,
    ) -> Result<DownloadOutcome> {
        let (charts, connection) = self.charts(connection);
        charts.get(url, &connection, known, limit).await
    }

    async fn file(
        &self,
        url: &str,
        connection: &Connection,
        limit: u64,
    ) -> Result<DownloadOutcome> {
        match &self.hosts {
            Some(files) => files.file(url, connection, limit).await,
            None if self.is_generated(url) => {
                self.stand_ins.lock().insert(url.to_owned());
                Ok(DownloadOutcome::Body {
                    bytes: Bytes::from_static(PLACEHOLDER.as_bytes()),
                    validator: Validator::default(),
                })
            }
            None => Err(PortError::new(ErrorKind::Unsupported, BASE_NOT_FETCHED)),
        }
    }

    async fn tags(&self, repository: &str, connection: &Connection) -> Result<Vec<String>> {
        let (charts, connection) = self.charts(connection);
        charts.tags(repository, &connection).await
    }

    async fn manifest(
        &self,
        repository: &str,
        reference: &str,
        connection: &Connection,
    ) -> Result<Manifest> {
        let (charts, connection) = self.charts(connection);
        charts.manifest(repository, reference, &connection).await
    }

    async fn referrers(
        &self,
        repository: &str,
        digest: &str,
        connection: &Connection,
    ) -> Result<Vec<Referrer>> {
        let (charts, connection) = self.charts(connection);
        charts.referrers(repository, digest, &connection).await
    }

    async fn layer(
        &self,
        repository: &str,
        layer: &Layer,
        connection: &Connection,
        limit: u64,
    ) -> Result<Bytes> {
        let (charts, connection) = self.charts(connection);
        charts.layer(repository, layer, &connection, limit).await
    }
}
