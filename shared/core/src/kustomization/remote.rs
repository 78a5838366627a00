//! The parts of a build that need I/O: files of the artifact are loaded, each remote base or file
//! is fetched if the hub allows it and put into the tree, data keys are decrypted by key services,
//! and the build runs again.

use super::build::{self, BuildResult, BuildStop, Inputs};
use super::prefetch;
use driftless_flux::{GitReference, Kustomization, reason};
use driftless_kernel::context::Context;
use driftless_kernel::credentials::LoginHint;
use driftless_kernel::failure::Failure;
use driftless_kernel::hub::Settings;
use driftless_kernel::ports::{
    Charts, Connection, DownloadOutcome, ErrorKind, Git, GitAuth, PortError, Result as PortResult,
};
use driftless_kustomize::Remote;
use driftless_manifest::{EntryKind, FileTree, TreePath};
use driftless_source::files::Files;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of remote bases and files that one build may fetch.
pub const MAX_REMOTES: usize = 32;
/// Maximum number of rounds in which key services are asked: those of the files, of documents in
/// decrypted Secrets, and of files that remote bases have.
const MAX_KEY_ROUNDS: usize = 8;
/// Maximum size of one file, in bytes.
const FILE_LIMIT: u64 = 16 << 20;
/// Timeout of one download.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Renders a Kustomization, and fetches its remote bases and files.
///
/// # Errors
/// Those of [`build::build`], and remote bases and files that cannot be fetched.
pub async fn build(
    context: &Context<'_>,
    files: Files,
    owner: &Kustomization,
    inputs: Arc<Inputs>,
) -> Result<BuildResult, Failure> {
    let (mut built, remotes) = with_parts(context, files, owner, inputs, build::build).await?;
    built.has_remote_files = remotes > 0;
    Ok(built)
}

/// Returns the variables that a Kustomization's build names and that have no value and no default.
///
/// # Errors
/// Those of [`build()`].
pub async fn unset(
    context: &Context<'_>,
    files: Files,
    owner: &Kustomization,
    inputs: Arc<Inputs>,
) -> Result<BTreeSet<String>, Failure> {
    let (unset, _) = with_parts(context, files, owner, inputs, build::unset).await?;
    Ok(unset)
}

/// A build: it gets the files, the object, the inputs, and whether entries may be URLs.
type Work<T> = fn(&FileTree, &Kustomization, &Inputs, bool) -> Result<T, BuildStop>;

/// Runs `work` on the files, and again after files that it needs were loaded, after each remote
/// base or file that it needs was fetched, and after key services have decrypted the data keys that
/// it needs. Returns its result, and the number of remote bases and files.
async fn with_parts<T: Send + 'static>(
    context: &Context<'_>,
    mut files: Files,
    owner: &Kustomization,
    inputs: Arc<Inputs>,
    work: Work<T>,
) -> Result<(T, usize), Failure> {
    let owner = Arc::new(owner.clone());
    let settings = &context.hub.settings;
    let namespace = &context.id.namespace;
    let hosts = Hosts {
        git: context.ports.git.as_ref(),
        auth: &|url| settings.repository_auth(namespace, url),
        files: context.ports.charts.as_ref(),
        allow_local: settings.allow_local_clusters,
    };
    let (mut remotes, mut rounds) = (0, 0);
    loop {
        let (tree, owner, parts) = (files.tree().clone(), owner.clone(), inputs.clone());
        let remote = settings.allow_remote_bases;
        let build = move || work(&tree, &owner, &parts, remote);
        match context.ports.compute(build).await? {
            Ok(done) => return Ok((done, remotes)),
            Err(BuildStop::Failed(failure)) => return Err(failure),
            Err(BuildStop::NeedsFiles(missing)) => {
                let loaded = prefetch::load(context, &mut files, missing.clone()).await;
                loaded.map_err(|error| Failure::port(reason::ARTIFACT_FAILED, &error))?;
                check_loaded(&files, &missing)?;
            }
            Err(BuildStop::Needs(_)) if remotes == MAX_REMOTES => {
                let message = format!(
                    "the build names more than {MAX_REMOTES} remote bases and files, which is the limit"
                );
                return Err(Failure::terminal(reason::BUILD_FAILED, message));
            }
            Err(BuildStop::Needs(needed)) => {
                remotes += 1;
                let fetched = hosts.fetch(&needed, files.tree_mut()).await;
                fetched.map_err(|error| fetch_failure(&needed, &error, settings, namespace))?;
            }
            Err(BuildStop::NeedsKeys(_)) if rounds == MAX_KEY_ROUNDS => {
                let message = format!(
                    "the build asks key services more than {MAX_KEY_ROUNDS} times: SOPS documents \
                     may not be nested as deeply"
                );
                return Err(Failure::terminal(reason::BUILD_FAILED, message));
            }
            Err(BuildStop::NeedsKeys(keys)) => {
                rounds += 1;
                if let Some(decryptor) = &inputs.decryptor {
                    decryptor.decrypt_keys(context, keys).await;
                }
            }
        }
    }
}

/// Checks that a build gets the files that it has asked for, so that it ends.
fn check_loaded(files: &Files, wanted: &[TreePath]) -> Result<(), Failure> {
    match wanted
        .iter()
        .find(|path| files.tree().content(path).is_none())
    {
        Some(path) => {
            let message = format!("the artifact has no content of '{path}'");
            Err(Failure::retry(reason::ARTIFACT_FAILED, message))
        }
        None => Ok(()),
    }
}

fn fetch_failure(
    needed: &Remote,
    error: &PortError,
    settings: &Settings,
    namespace: &str,
) -> Failure {
    let mut failure = Failure::port(reason::BUILD_FAILED, error).context(needed);
    if let Remote::Repository { url, .. } = needed {
        let url = clone_url(url);
        let auth = settings.repository_auth(namespace, &url);
        if let Some(login_hint) = LoginHint::of(&auth, error, &url) {
            failure.message = format!("{}; {}", failure.message, login_hint.hint(namespace));
        }
    }
    failure
}

/// The hosts of remote bases and files.
pub struct Hosts<'p> {
    /// The port for Git repositories.
    pub git: &'p dyn Git,
    /// Returns the login for the repository at a URL.
    pub auth: &'p (dyn Fn(&str) -> GitAuth + Sync),
    /// The port for single files, which are read without a login.
    pub files: &'p dyn Charts,
    /// True if loopback and link-local addresses may be reached.
    pub allow_local: bool,
}

impl Hosts<'_> {
    /// Fetches a remote base or file and puts it into the tree, at the place where the build reads
    /// it.
    ///
    /// # Errors
    /// The remote does not exist, access is denied, or a limit is exceeded.
    pub async fn fetch(&self, needed: &Remote, tree: &mut FileTree) -> PortResult<()> {
        let place = needed.place();
        match needed {
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
        let connection = Connection {
            allow_local: self.allow_local,
            timeout: TIMEOUT,
            ..Connection::default()
        };
        match self.files.file(url, &connection, FILE_LIMIT).await? {
            DownloadOutcome::Body { bytes, .. } => Ok(bytes),
            DownloadOutcome::Unchanged => Err(PortError::new(
                ErrorKind::Unreadable,
                "the server answered 304 Not Modified to a request without a condition",
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
        let is_commit =
            reference.len() == 40 && reference.bytes().all(|byte| byte.is_ascii_hexdigit());
        let name = reference.to_owned();
        let mut git_reference = GitReference::default();
        match (is_commit, name.starts_with("refs/")) {
            (true, _) => git_reference.commit = name,
            (_, true) => git_reference.name = name,
            _ => git_reference.tag = name,
        }
        // As `git fetch` resolves a name: a tag before a branch.
        match self.git.base(&url, &git_reference, &auth).await {
            Err(error) if error.kind == ErrorKind::NotFound && !git_reference.tag.is_empty() => {
                let branch = GitReference {
                    branch: git_reference.tag,
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

/// Converts `git@host:owner/name` to a URL; other addresses stay unchanged.
fn clone_url(address: &str) -> String {
    let short = address.split_once('@').filter(|_| !address.contains("://"));
    match short {
        Some((user, rest)) => format!("ssh://{user}@{}", rest.replacen(':', "/", 1)),
        None => address.to_owned(),
    }
}
