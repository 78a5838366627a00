//! Remote bases and files of a build: fetched when the hub allows them, put into the tree, and built again.

use super::build::{self, Built, Inputs, Stop};
use crate::credentials::LoginHint;
use crate::failure::Failure;
use crate::flux::{GitReference, Kustomization, reason};
use crate::hub::Settings;
use crate::kernel::Context;
use crate::ports::{
    Charts, Connection, ErrorKind, Fetched, Git, GitAuth, PortError, Result as PortResult,
};
use driftless_kustomize::Remote;
use driftless_manifest::{EntryKind, FileTree, TreePath};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Things that one build may fetch.
pub const MOST: usize = 32;
/// Bytes of one file.
const FILE_LIMIT: u64 = 16 << 20;
/// How long one download may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Renders a Kustomization, and fetches what it needs of other hosts.
///
/// # Errors
/// As [`build::build`]; and what cannot be fetched.
pub async fn build(
    context: &Context<'_>,
    tree: Arc<FileTree>,
    owner: &Kustomization,
    inputs: Arc<Inputs>,
) -> Result<Built, Failure> {
    let remote = context.hub.settings.allow_remote_bases;
    let owner = owner.clone();
    fetching(context, tree, move |tree| {
        build::build(tree, &owner, &inputs, remote)
    })
    .await
}

/// The variables that a Kustomization's build names and that have neither a value nor a default.
///
/// # Errors
/// As [`build()`].
pub async fn unset(
    context: &Context<'_>,
    tree: Arc<FileTree>,
    owner: &Kustomization,
    inputs: Arc<Inputs>,
) -> Result<BTreeSet<String>, Failure> {
    let remote = context.hub.settings.allow_remote_bases;
    let owner = owner.clone();
    fetching(context, tree, move |tree| {
        build::unset(tree, &owner, &inputs, remote)
    })
    .await
}

/// Does something with the files, again with each thing that it needs of other hosts.
async fn fetching<T: Send + 'static>(
    context: &Context<'_>,
    mut tree: Arc<FileTree>,
    work: impl Fn(&FileTree) -> Result<T, Stop> + Send + Sync + 'static,
) -> Result<T, Failure> {
    let work = Arc::new(work);
    let settings = &context.hub.settings;
    let namespace = &context.id.namespace;
    let hosts = Hosts {
        git: context.ports.git.as_ref(),
        auth: &|url| settings.repository_auth(namespace, url),
        files: context.ports.charts.as_ref(),
        allow_local: settings.allow_local_clusters,
    };
    for _ in 0..=MOST {
        let (build, files) = (work.clone(), tree.clone());
        match context.ports.compute(move || build(&files)).await? {
            Ok(done) => return Ok(done),
            Err(Stop::Failed(failure)) => return Err(failure),
            Err(Stop::Needs(wanted)) => {
                let fetched = hosts.fetch(&wanted, Arc::make_mut(&mut tree)).await;
                fetched.map_err(|error| not_fetched(&wanted, &error, settings, namespace))?;
            }
        }
    }
    let what = format!("it names more than {MOST} remote bases and files: the limit of one build");
    Err(Failure::terminal(reason::BUILD_FAILED, what))
}

fn not_fetched(
    wanted: &Remote,
    error: &PortError,
    settings: &Settings,
    namespace: &str,
) -> Failure {
    let mut failure = Failure::port(reason::BUILD_FAILED, error).context(wanted);
    if let Remote::Repository { url, .. } = wanted {
        let url = clone_url(url);
        let auth = settings.repository_auth(namespace, &url);
        if let Some(login_hint) = LoginHint::of(&auth, error, &url) {
            failure.message = format!("{}; {}", failure.message, login_hint.hint(namespace));
        }
    }
    failure
}

/// Where remote bases and files come from.
pub struct Hosts<'p> {
    /// Repositories.
    pub git: &'p dyn Git,
    /// How the repository at an address is read.
    pub auth: &'p (dyn Fn(&str) -> GitAuth + Sync),
    /// Files, read as everybody can.
    pub files: &'p dyn Charts,
    /// Reach loopback and link-local addresses.
    pub allow_local: bool,
}

impl Hosts<'_> {
    /// Fetches something and puts it into the tree, where a build looks for it.
    ///
    /// # Errors
    /// No such thing, no access to it, or more than the limits allow.
    pub async fn fetch(&self, wanted: &Remote, tree: &mut FileTree) -> PortResult<()> {
        let place = wanted.place();
        match wanted {
            Remote::File { url } => {
                let content = self.file(url).await?;
                insert(tree, place, EntryKind::File, content)
            }
            Remote::Repository { url, reference, .. } => {
                let files = self.repository(url, reference).await?;
                for (path, entry) in files.index().iter() {
                    let content = files.content(path).cloned().unwrap_or_default();
                    let path = place.join(path.as_str());
                    let path = path
                        .map_err(|error| PortError::new(ErrorKind::Invalid, error.to_string()))?;
                    insert(tree, path, entry.kind.clone(), content)?;
                }
                Ok(())
            }
        }
    }

    async fn file(&self, url: &str) -> PortResult<bytes::Bytes> {
        let how = Connection {
            allow_local: self.allow_local,
            timeout: TIMEOUT,
            ..Connection::default()
        };
        match self.files.file(url, &how, FILE_LIMIT).await? {
            Fetched::Body { bytes, .. } => Ok(bytes),
            Fetched::Unchanged => Err(PortError::new(
                ErrorKind::Unreadable,
                "the answer says that it is unchanged, and nothing was known of it",
            )),
        }
    }

    async fn repository(&self, url: &str, reference: &str) -> PortResult<FileTree> {
        let url = clone_url(url);
        let auth = (self.auth)(&url);
        if reference.is_empty() {
            return Err(PortError::new(
                ErrorKind::Unsupported,
                "a remote base needs a reference: add ?ref=TAG, ?ref=BRANCH or ?ref=COMMIT",
            ));
        }
        let text = reference.to_owned();
        let is_commit = text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let mut wanted = GitReference::default();
        match (is_commit, text.starts_with("refs/")) {
            (true, _) => wanted.commit = text,
            (_, true) => wanted.name = text,
            _ => wanted.tag = text,
        }
        // As `git fetch` reads a name: a tag before a branch.
        match self.git.base(&url, &wanted, &auth).await {
            Err(error) if error.kind == ErrorKind::NotFound && !wanted.tag.is_empty() => {
                let branch = GitReference {
                    branch: wanted.tag,
                    ..GitReference::default()
                };
                self.git.base(&url, &branch, &auth).await
            }
            found => found,
        }
    }
}

fn insert(
    tree: &mut FileTree,
    path: TreePath,
    kind: EntryKind,
    content: bytes::Bytes,
) -> PortResult<()> {
    tree.insert(path, kind, content)
        .map_err(|error| PortError::new(ErrorKind::Invalid, error.to_string()))
}

/// `git@host:owner/name`, as a URL.
fn clone_url(address: &str) -> String {
    let short = address.split_once('@').filter(|_| !address.contains("://"));
    match short {
        Some((user, rest)) => format!("ssh://{user}@{}", rest.replacen(':', "/", 1)),
        None => address.to_owned(),
    }
}
