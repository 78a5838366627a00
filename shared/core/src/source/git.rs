//! The step of a GitRepository: follow the reference, store the files, wake the consumers.

use crate::credentials::{self, Unnamed};
use crate::failure::Failure;
use crate::flux::{GitRepository, GitRepositorySpec, LocalRef, SourceStatus, reason, rfc3339};
use crate::kernel::Context;
use crate::kernel::status;
use crate::ports::{
    Cause, Commit, ErrorKind, FetchLimits, GitAuth, PortError, Ports, Precondition,
};
use crate::repository::is_github;
use crate::source::reconciler::{self, Found, SourceReconciler};
use crate::source::{artifact, connection, ignore, index};
use crate::state;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// What the source remembers between steps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Memory {
    /// The last answer of the host, for the next conditional question.
    commit: Option<Commit>,
    /// The address and reference that it was the answer to.
    question: String,
}

/// Reconciles one.
pub(crate) struct Git;

impl SourceReconciler for Git {
    type Spec = GitRepositorySpec;
    type Memory = Memory;

    async fn reconcile(
        context: &Context<'_>,
        source: &GitRepository,
        status: &mut SourceStatus,
        memory: &mut Memory,
    ) -> Result<Found, Failure> {
        follow(context, source, status, memory).await?;
        let revision = status.artifact.as_ref().map(|artifact| &*artifact.revision);
        let message = format!(
            "stored artifact for revision '{}'",
            revision.unwrap_or_default()
        );
        Ok(Found::new(reason::META_SUCCEEDED, message))
    }
}

/// Follows the reference and stores the files when the artifact is not the one it should be.
async fn follow(
    context: &Context<'_>,
    source: &GitRepository,
    status: &mut SourceStatus,
    memory: &mut Memory,
) -> Result<(), Failure> {
    if let Some(what) = source.unsupported(is_github(&source.spec.url)) {
        return Err(Failure::terminal(reason::UNSUPPORTED, what));
    }
    let reference = source.reference();
    let url = &source.spec.url;
    index::note(
        context.ports,
        &context.hub.settings.name,
        &source.id,
        url,
        &reference,
    )
    .await?;
    if followed_another(context, memory, url) {
        let hub = &context.hub.settings.name;
        index::forget_others(context.ports, hub, &source.id, Some(url)).await?;
    }
    let (namespace, proxy) = (&source.id.namespace, source.spec.proxy_secret_ref.as_ref());
    let proxy = connection::proxy(
        context,
        namespace,
        proxy,
        "failed to configure proxy options",
    )
    .await?;
    let auth = credentials::git(&context.hub, source, proxy).await?;

    let question = format!("{url} {}", status::to_value(&reference)?);
    let known = memory
        .commit
        .clone()
        .filter(|_| memory.question == question);
    let commit = context
        .ports
        .git
        .resolve(url, &reference, &auth, known.as_ref())
        .await
        .map_err(|error| git_failure(&error, source, &auth))?;
    *memory = Memory {
        commit: Some(commit.clone()),
        question,
    };

    let revision = commit.revision();
    let artifact = status.artifact.as_ref();
    if artifact.is_none_or(|artifact| artifact.revision != revision) {
        let what = format!("new upstream revision '{revision}'");
        reconciler::set_building(context, source, status, &what);
    }
    let same_files = status
        .artifact
        .as_ref()
        .is_some_and(|artifact| artifact.revision == revision)
        && status.observed_ignore == source.spec.ignore
        && status.observed_sparse_checkout == source.spec.sparse_checkout;
    let stored = match &status.artifact {
        Some(artifact) if same_files => artifact::exists(context.ports, artifact).await?,
        _ => false,
    };
    if !stored {
        status.artifact = Some(fetch(context.ports, source, &commit, &auth).await?);
        status.observed_ignore.clone_from(&source.spec.ignore);
        status
            .observed_sparse_checkout
            .clone_from(&source.spec.sparse_checkout);
    }
    Ok(())
}

/// Whether the source may be noted under another address: it had one the last time, or a push came and what it had is lost.
fn followed_another(context: &Context<'_>, memory: &Memory, url: &str) -> bool {
    match memory.question.split_once(' ') {
        Some((asked, _)) => asked != url,
        None => context.cause == Cause::Push,
    }
}

/// Downloads a commit once for all sources that want the same files of it and read with the same credentials: what others'
/// credentials got is not given, whoever knows the hash.
async fn fetch(
    ports: &Ports,
    source: &GitRepository,
    commit: &Commit,
    auth: &GitAuth,
) -> Result<crate::flux::ArtifactStatus, Failure> {
    let url = &source.spec.url;
    let ignored = source.spec.ignore.as_deref();
    let (identity, sparse) = (auth.identity(), &source.spec.sparse_checkout);
    let name = serde_json::json!([identity, url, commit.sha, ignored, sparse]).to_string();
    let key = format!("commits/{}.json", hex::encode(Sha256::digest(name)));
    let known = state::recall::<crate::flux::ArtifactStatus>(ports.blobs.as_ref(), &key).await?;
    if let Some((mut known, _)) = known
        && artifact::exists(ports, &known).await?
    {
        known.revision = commit.revision();
        known.last_update_time = rfc3339(ports.clock.now());
        return Ok(known);
    }
    let mut tree = ports
        .git
        .fetch(url, commit, auth, FetchLimits::default())
        .await
        .map_err(|error| git_failure(&error, source, auth))?;
    ignore::apply(&mut tree, ignored)
        .map_err(|error| Failure::terminal(reason::GIT_FAILED, error))?;
    keep_sparse(&mut tree, &source.spec.sparse_checkout);
    let stored = artifact::store(ports, &tree, &commit.revision()).await?;
    state::write(ports.blobs.as_ref(), &key, &stored, Precondition::None).await?;
    Ok(stored)
}

/// Keeps the files of the directories in `spec.sparseCheckout`, and those of the root, as Git's cone mode does.
fn keep_sparse(tree: &mut driftless_manifest::FileTree, directories: &[String]) {
    let directories: Vec<_> = directories
        .iter()
        .filter_map(|directory| driftless_manifest::TreePath::new(directory).ok())
        .collect();
    if !directories.is_empty() {
        tree.retain(|path| {
            path.parent().is_root()
                || directories
                    .iter()
                    .any(|directory| path.is_within(directory))
        });
    }
}

fn git_failure(error: &PortError, source: &GitRepository, auth: &GitAuth) -> Failure {
    let reason = match error.kind {
        ErrorKind::Denied => reason::AUTHENTICATION_FAILED,
        _ => reason::GIT_FAILED,
    };
    let (namespace, url) = (&source.id.namespace, &source.spec.url);
    let mut failure = Failure::port(reason, error).context(format!("'{url}'"));
    if let Some(unnamed) = Unnamed::of(auth, error, url) {
        // A Secret that is no login holds a deploy key.
        let key = source.spec.secret_ref.as_ref().map(|LocalRef { name }| {
            format!(
                "; the deploy key of Secret/{namespace}/{name} cannot be used, because repositories of this host are read over its API"
            )
        });
        let own = "name a Secret with a login in spec.secretRef, or ";
        let (key, hint) = (key.unwrap_or_default(), unnamed.hint_or(namespace, own));
        failure.message = format!("{}{key}; {hint}", failure.message);
    }
    failure
}
