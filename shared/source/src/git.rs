//! The step of a GitRepository: resolves the reference, stores the files and queues the consumers.

use crate::reconciler::{self, SourceReconciler, SourceReport};
use crate::{artifact, connection, git_login, ignore, include, index};
use driftless_flux::{
    ArtifactStatus, GitRepository, GitRepositorySpec, GitVerification, LocalRef, SourceStatus,
    reason, rfc3339,
};
use driftless_kernel::context::Context;
use driftless_kernel::context::status;
use driftless_kernel::credentials::{self, LoginHint};
use driftless_kernel::failure::Failure;
use driftless_kernel::ports::{
    Cause, Commit, ErrorKind, FetchLimits, GitAuth, PortError, Precondition,
};
use driftless_kernel::repository::PLAIN;
use driftless_kernel::state;
use driftless_manifest::{FileTree, TreePath};
use driftless_verify::git::GitKeys;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The memory of the source between steps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// The last commit that the host returned, for the next conditional request.
    commit: Option<Commit>,
    /// The address and reference that it was requested with.
    question: String,
    /// The digest of what was verified last; empty without a verified signature.
    #[serde(skip_serializing_if = "String::is_empty")]
    verified: String,
}

/// The reconciler of GitRepositories.
pub struct Git;

impl SourceReconciler for Git {
    type Spec = GitRepositorySpec;
    type Memory = Memory;

    async fn reconcile(
        context: &Context<'_>,
        source: &GitRepository,
        status: &mut SourceStatus,
        memory: &mut Memory,
    ) -> Result<SourceReport, Failure> {
        follow(context, source, status, memory).await?;
        let revision = status.artifact.as_ref().map(|artifact| &*artifact.revision);
        let message = format!(
            "stored artifact for revision '{}'",
            revision.unwrap_or_default()
        );
        Ok(SourceReport::new(reason::META_SUCCEEDED, message))
    }

    fn failed_condition(failure: &Failure) -> Option<&'static str> {
        match failure.reason {
            reason::NOT_FOUND | reason::NO_ARTIFACT => Some("IncludeUnavailable"),
            reason::ILLEGAL_PATH | reason::COPY_FAILURE | reason::STORAGE_FAILED => {
                Some("StorageOperationFailed")
            }
            reason if reconciler::is_verification(reason) => None,
            _ => Some("FetchFailed"),
        }
    }
}

/// Resolves the reference, and stores the files if the artifact is missing or outdated.
async fn follow(
    context: &Context<'_>,
    source: &GitRepository,
    status: &mut SourceStatus,
    memory: &mut Memory,
) -> Result<(), Failure> {
    let is_plain = source.spec.url.starts_with("http://");
    let plain = (is_plain && !context.hub.settings.allow_local_clusters).then(|| PLAIN.to_owned());
    if let Some(message) = plain {
        return Err(Failure::terminal(reason::UNSUPPORTED, message));
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
    let question = format!("{url} {}", status::to_value(&reference)?);
    if followed_another(context, memory, &question) {
        let (hub, followed) = (&context.hub.settings.name, Some((&**url, &reference)));
        index::forget_others(context.ports, hub, &source.id, followed).await?;
    }
    let (namespace, proxy) = (&source.id.namespace, source.spec.proxy_secret_ref.as_ref());
    let proxy = connection::proxy(
        context,
        namespace,
        proxy,
        "failed to configure proxy options",
    )
    .await?;
    let cloud = git_login::login(context, source).await?;
    let auth = credentials::git(&context.hub, source, proxy, cloud).await?;

    let verify = source.spec.verify.as_ref();
    if let Some(verify) = verify {
        driftless_verify::git::check_mode(source, verify)?;
    }
    let needs_tag = verify.is_some_and(GitVerification::verifies_tag);
    let known = memory.commit.clone().filter(|known| {
        // What older versions remembered has no tag.
        memory.question == question && (known.tag.is_some() || !needs_tag)
    });
    let commit = context
        .ports
        .git
        .resolve(url, &reference, &auth, known.as_ref())
        .await
        .map_err(|error| git_failure(&error, source, &auth))?;
    memory.commit = Some(commit.clone());
    memory.question = question;

    let included = include::artifacts(context, source).await?;
    verify_signatures(
        context,
        source,
        &commit,
        &auth,
        status,
        &mut memory.verified,
    )
    .await?;
    let revision = commit.revision();
    let artifact = status.artifact.as_ref();
    if artifact.is_none_or(|artifact| artifact.revision != revision) {
        let message = format!("new upstream revision '{revision}'");
        reconciler::set_building(context, source, status, &message);
    }
    let same_files = status
        .artifact
        .as_ref()
        .is_some_and(|artifact| artifact.revision == revision)
        && status.observed_ignore == source.spec.ignore
        && status.observed_sparse_checkout == source.spec.sparse_checkout
        && status.observed_include == source.spec.include
        && revisions(&status.included_artifacts) == revisions(&included);
    let stored = match &status.artifact {
        Some(artifact) if same_files => artifact::exists(context, artifact).await?,
        _ => false,
    };
    if !stored {
        let own = fetch(context, source, &commit, &auth).await?;
        status.artifact = Some(match included.is_empty() {
            true => own,
            false => include::compose(context, source, &own, &included).await?,
        });
        status.observed_include.clone_from(&source.spec.include);
        status.included_artifacts = included;
        status.observed_ignore.clone_from(&source.spec.ignore);
        status
            .observed_sparse_checkout
            .clone_from(&source.spec.sparse_checkout);
    }
    Ok(())
}

/// Checks the signatures that the source requires, unless the same ones were checked before with
/// the same keys.
async fn verify_signatures(
    context: &Context<'_>,
    source: &GitRepository,
    commit: &Commit,
    auth: &GitAuth,
    status: &mut SourceStatus,
    verified: &mut String,
) -> Result<(), Failure> {
    let Some(verify) = &source.spec.verify else {
        verified.clear();
        status.source_verification_mode = None;
        status.conditions.remove(reconciler::VERIFIED);
        return Ok(());
    };
    let keys = GitKeys::read(context, &source.id.namespace, verify).await?;
    let digest = keys.digest(verify, commit);
    if *verified == digest && status.conditions.is_true(reconciler::VERIFIED) {
        return Ok(());
    }
    verified.clear();
    let git = &context.ports.git;
    let objects = git.signed(&source.spec.url, commit, auth).await;
    let objects = objects.map_err(|error| git_failure(&error, source, auth))?;
    if let Some(objects) = objects {
        let now = context.ports.clock.now();
        let message = driftless_verify::git::check(&keys, verify, commit, &objects, now)?;
        reconciler::set_verified(context, source, status, &message);
        status.source_verification_mode = Some(verify.mode().to_owned());
        *verified = digest;
    }
    Ok(())
}

/// Returns what decides whether included artifacts have changed.
fn revisions(artifacts: &[ArtifactStatus]) -> Vec<(&str, &str)> {
    let both = artifacts.iter();
    both.map(|one| (one.revision.as_str(), one.digest.as_str()))
        .collect()
}

/// Returns whether there may be a note of the source under another address or ref: the memory has
/// another one, or it is lost and a push queued the source.
fn followed_another(context: &Context<'_>, memory: &Memory, question: &str) -> bool {
    match memory.question.as_str() {
        "" => context.cause == Cause::Push,
        previous => previous != question,
    }
}

/// Downloads a commit once for all sources that select the same files and use the same credentials:
/// knowing a hash does not give access to files that other credentials fetched.
async fn fetch(
    context: &Context<'_>,
    source: &GitRepository,
    commit: &Commit,
    auth: &GitAuth,
) -> Result<ArtifactStatus, Failure> {
    let ports = context.ports;
    let url = &source.spec.url;
    let ignored = source.spec.ignore.as_deref();
    let (identity, sparse) = (auth.identity(), &source.spec.sparse_checkout);
    // Files that were not proven by the commit's hash are not those of a signed commit.
    let is_proven = source.spec.verify.is_some();
    let name = serde_json::json!([identity, url, commit.sha, ignored, sparse, is_proven]);
    let name = name.to_string();
    let key = format!("commits/{}.json", hex::encode(Sha256::digest(name)));
    let known = state::recall::<ArtifactStatus>(ports.blobs.as_ref(), &key).await?;
    if let Some((mut known, _)) = known
        && artifact::exists(context, &known).await?
    {
        known.revision = commit.revision();
        known.last_update_time = rfc3339(ports.clock.now());
        return Ok(known);
    }
    let mut tree = ports
        .git
        .fetch(url, commit, auth, FetchLimits::of_step(&context.fuel))
        .await
        .map_err(|error| git_failure(&error, source, auth))?;
    check_sparse(&tree, &source.spec.sparse_checkout)?;
    ignore::apply(&mut tree, ignored, &context.fuel)
        .map_err(|error| Failure::terminal(reason::GIT_FAILED, &error).caused_by(error))?;
    keep_sparse(&mut tree, &source.spec.sparse_checkout);
    let stored = artifact::store(ports, tree, &commit.revision()).await?;
    state::write(ports.blobs.as_ref(), &key, &stored, Precondition::None).await?;
    Ok(stored)
}

/// Checks that the repository has each directory or file in `spec.sparseCheckout`.
fn check_sparse(tree: &FileTree, directories: &[String]) -> Result<(), Failure> {
    let is_there = |directory: &&String| {
        let Ok(directory) = TreePath::new(directory) else {
            return false;
        };
        let mut files = tree.index().iter();
        directory.is_root() || files.any(|(file, _)| file.is_within(&directory))
    };
    match directories.iter().find(|directory| !is_there(directory)) {
        None => Ok(()),
        Some(absent) => {
            let message = format!(
                "failed to sparse checkout directories : sparse checkout dir '{}' does not exist in repository",
                absent.escape_debug()
            );
            Err(Failure::retry(reason::GIT_FAILED, message))
        }
    }
}

/// Keeps the files of the directories in `spec.sparseCheckout` and those of the root, as in Git's
/// cone mode.
fn keep_sparse(tree: &mut FileTree, directories: &[String]) {
    let directories: Vec<_> = directories
        .iter()
        .filter_map(|directory| TreePath::new(directory).ok())
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
    if let Some(login_hint) = LoginHint::of(auth, error, url) {
        // A Secret without a login holds a deploy key.
        let key = source.spec.secret_ref.as_ref().map(|LocalRef { name }| {
            format!(
                "; the deploy key of Secret/{namespace}/{name} cannot be used, because repositories of this host are read over its API"
            )
        });
        let own = "name a Secret with a login in spec.secretRef, or ";
        let (key, hint) = (key.unwrap_or_default(), login_hint.hint_or(namespace, own));
        failure.message = format!("{}{key}; {hint}", failure.message);
    }
    failure
}
