//! The step of a GitRepository: follow the reference, store the files, wake the consumers.

use crate::failure::{Class, Failure};
use crate::flux::{
    FluxKind, GitRepository, GitRepositoryStatus, Kustomization, ObjectRef, REQUESTED_AT,
    SOURCE_CONTROLLER, reason, rfc3339,
};
use crate::ports::{
    Cause, Commit, ErrorKind, FetchLimits, GitAuth, PortError, Ports, Precondition, Request,
};
use crate::source::{artifact, credentials, ignore, index};
use crate::state::{self, key_part};
use crate::status;
use crate::step::{Context, Outcome};
use driftless_manifest::Object;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::time::Duration;

/// What the source remembers between steps, in the bucket.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Memory {
    /// The last answer of the host, for the next conditional question.
    commit: Option<Commit>,
    /// The address and reference that it was the answer to.
    question: String,
    /// Failures in a row.
    failures: u32,
}

/// Runs the step.
///
/// # Errors
/// Only when the status itself could not be written.
pub async fn step(context: &Context<'_>, object: Object) -> Result<Outcome, Failure> {
    let source = match GitRepository::from_object(object.clone()) {
        Ok(source) => source,
        Err(what) => return unreadable(context, &object, what).await,
    };
    if !object.meta("deletionTimestamp").is_empty() {
        return finalize(context, &source).await;
    }
    if source.spec.suspend {
        return Ok(Outcome::done("suspended"));
    }
    let memory_key = format!(
        "state/{}/{}.json",
        key_part(&context.hub.settings.name),
        context.id.key()
    );
    let known = state::read::<Memory>(context.ports.blobs.as_ref(), &memory_key).await?;
    let (mut memory, version) = known.map_or((Memory::default(), None), |(memory, version)| {
        (memory, Some(version))
    });
    let before = Memory {
        commit: memory.commit.clone(),
        question: memory.question.clone(),
        failures: memory.failures,
    };

    let found = look(context, &source, &mut memory).await;
    memory.failures = if found.is_ok() {
        0
    } else {
        memory.failures.saturating_add(1)
    };
    let failures = memory.failures;
    if memory != before {
        let when = version.map_or(Precondition::Absent, Precondition::Is);
        state::write(context.ports.blobs.as_ref(), &memory_key, &memory, when).await?;
    }
    match found {
        Ok(status) => succeeded(context, &source, status).await,
        Err(failure) => failed(context, &source, failure, failures).await,
    }
}

/// Follows the reference and stores the files when the artifact is not the one it should be.
async fn look(
    context: &Context<'_>,
    source: &GitRepository,
    memory: &mut Memory,
) -> Result<GitRepositoryStatus, Failure> {
    let invalid = |what: String| Failure::terminal(reason::URL_INVALID, what);
    if let Some(what) = source.unsupported() {
        return Err(Failure::terminal(reason::UNSUPPORTED, what));
    }
    source.interval().map_err(invalid)?;
    let reference = source.reference().map_err(invalid)?;
    let url = &source.spec.url;
    index::note(
        context.ports,
        &context.hub.settings.name,
        &source.id,
        url,
        &reference,
    )
    .await?;
    let auth = credentials::git(&context.hub, source).await?;

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
        .map_err(|error| git_failure(&error, url))?;
    *memory = Memory {
        commit: Some(commit.clone()),
        question,
        failures: memory.failures,
    };

    let mut status = source.status.clone();
    let revision = commit.revision();
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
    Ok(status)
}

/// Downloads a commit once for all sources that want the same files of it.
async fn fetch(
    ports: &Ports,
    source: &GitRepository,
    commit: &Commit,
    auth: &GitAuth,
) -> Result<crate::flux::ArtifactStatus, Failure> {
    let url = &source.spec.url;
    let ignored = source.spec.ignore.as_deref();
    let name =
        serde_json::json!([url, commit.sha, ignored, source.spec.sparse_checkout]).to_string();
    let key = format!("commits/{}.json", hex::encode(Sha256::digest(name)));
    let known = state::read::<crate::flux::ArtifactStatus>(ports.blobs.as_ref(), &key).await?;
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
        .map_err(|error| git_failure(&error, url))?;
    ignore::apply(&mut tree, ignored)
        .map_err(|error| Failure::terminal(reason::GIT_FAILED, error))?;
    keep_sparse(&mut tree, &source.spec.sparse_checkout);
    let stored = artifact::store(ports, &tree, &commit.revision()).await?;
    state::write(ports.blobs.as_ref(), &key, &stored, Precondition::None).await?;
    Ok(stored)
}

/// Keeps the files of the folders in `spec.sparseCheckout`, and those of the root, as Git's cone mode does.
fn keep_sparse(tree: &mut driftless_manifest::FileTree, folders: &[String]) {
    let folders: Vec<_> = folders
        .iter()
        .filter_map(|folder| driftless_manifest::TreePath::new(folder).ok())
        .collect();
    if !folders.is_empty() {
        tree.retain(|path| {
            path.parent().is_root() || folders.iter().any(|folder| path.is_within(folder))
        });
    }
}

fn git_failure(error: &PortError, url: &str) -> Failure {
    let reason = match error.kind {
        ErrorKind::Denied => reason::AUTHENTICATION_FAILED,
        _ => reason::GIT_FAILED,
    };
    Failure::port(reason, error).context(format!("'{url}'"))
}

async fn succeeded(
    context: &Context<'_>,
    source: &GitRepository,
    mut new: GitRepositoryStatus,
) -> Result<Outcome, Failure> {
    let Some(artifact) = new.artifact.clone() else {
        return Ok(Outcome::done("no artifact"));
    };
    let (generation, now) = (source.generation(), rfc3339(context.ports.clock.now()));
    let message = format!("stored artifact for revision '{}'", artifact.revision);
    new.conditions.remove("Reconciling");
    new.conditions.remove("Stalled");
    new.conditions.remove("FetchFailed");
    new.conditions.set(
        "Ready",
        "True",
        reason::SUCCEEDED_STORED,
        &message,
        generation,
        &now,
    );
    new.conditions.set(
        "ArtifactInStorage",
        "True",
        reason::SUCCEEDED_STORED,
        &message,
        generation,
        &now,
    );
    observe(source, &mut new);
    write(context, source, &new).await?;

    let changed = source
        .status
        .artifact
        .as_ref()
        .map(|old| (&old.revision, &old.digest))
        != Some((&artifact.revision, &artifact.digest));
    let was_ready = source.status.conditions.is_true("Ready");
    let mut outcome = Outcome::done(message.clone());
    if changed {
        let event = context.event(&source.object, SOURCE_CONTROLLER);
        event
            .send(false, reason::NEW_ARTIFACT, &message, &artifact.revision)
            .await;
    }
    if changed || !was_ready {
        outcome.next = consumers(context).await?;
    }
    Ok(outcome)
}

async fn failed(
    context: &Context<'_>,
    source: &GitRepository,
    failure: Failure,
    failures: u32,
) -> Result<Outcome, Failure> {
    let (generation, now) = (source.generation(), rfc3339(context.ports.clock.now()));
    let mut new = source.status.clone();
    new.conditions.set(
        "Ready",
        "False",
        failure.reason,
        &failure.message,
        generation,
        &now,
    );
    new.conditions.set(
        "FetchFailed",
        "True",
        failure.reason,
        &failure.message,
        generation,
        &now,
    );
    if failure.class == Class::Terminal {
        new.conditions.remove("Reconciling");
        new.conditions.set(
            "Stalled",
            "True",
            failure.reason,
            &failure.message,
            generation,
            &now,
        );
    } else {
        new.conditions.remove("Stalled");
        new.conditions.set(
            "Reconciling",
            "True",
            reason::PROGRESSING_WITH_RETRY,
            &failure.message,
            generation,
            &now,
        );
    }
    observe(source, &mut new);
    let told = source
        .status
        .conditions
        .get("Ready")
        .map(|ready| (&*ready.reason, &*ready.message));
    let news = told != Some((failure.reason, &failure.message));
    write(context, source, &new).await?;
    if news {
        context
            .event(&source.object, SOURCE_CONTROLLER)
            .send(true, failure.reason, &failure.message, "")
            .await;
    }
    let interval = source.interval().unwrap_or(Duration::from_secs(600));
    Ok(Outcome::failed(failure, failures, interval))
}

fn observe(source: &GitRepository, new: &mut GitRepositoryStatus) {
    new.observed_generation = Some(source.generation());
    if let Some(requested) = source.object.annotation(REQUESTED_AT) {
        requested.clone_into(&mut new.last_handled_reconcile_at);
    }
}

/// Writes what we know into the status; fields of Flux that we do not model stay.
async fn write(
    context: &Context<'_>,
    source: &GitRepository,
    new: &GitRepositoryStatus,
) -> Result<(), Failure> {
    let merged = status::overlay(
        &source.object,
        &status::to_value(new)?,
        &status::to_value(&source.status)?,
    );
    status::write(context, &source.object, &merged, SOURCE_CONTROLLER).await?;
    Ok(())
}

/// Every Kustomization and HelmRelease that takes its files from this source.
async fn consumers(context: &Context<'_>) -> Result<Vec<(Request, Duration)>, Failure> {
    let mut next = Vec::new();
    for object in context.hub.list(FluxKind::Kustomization).await? {
        let Ok(one) = Kustomization::from_object(object) else {
            continue;
        };
        if one.source().is_ok_and(|source| source == context.id) {
            next.push(context.request(one.id, Cause::Source));
        }
    }
    Ok(next)
}

/// A deleted source: nothing of it is in a cluster; its finalizer, which Flux's controller sets, is taken off.
async fn finalize(context: &Context<'_>, source: &GitRepository) -> Result<Outcome, Failure> {
    index::forget(
        context.ports,
        &context.hub.settings.name,
        &source.id,
        &source.spec.url,
    )
    .await?;
    context
        .remove_finalizer(&source.object, SOURCE_CONTROLLER)
        .await?;
    Ok(Outcome::done("deleted"))
}

/// An object that is no GitRepository by its fields.
async fn unreadable(
    context: &Context<'_>,
    object: &Object,
    what: String,
) -> Result<Outcome, Failure> {
    let failure = Failure::terminal(reason::URL_INVALID, what);
    context.stall(object, &failure, SOURCE_CONTROLLER).await?;
    Ok(Outcome::failed(failure, 0, Duration::ZERO))
}

/// The object's reference, as another object of the hub names its source.
pub fn artifact_of(object: &Object) -> Option<crate::flux::ArtifactStatus> {
    let artifact: &Value = object.pointer("/status/artifact")?;
    serde_json::from_value(artifact.clone()).ok()
}

/// The source object that a Kustomization names, with its artifact when it has one.
///
/// # Errors
/// The cluster's.
pub async fn find(context: &Context<'_>, source: &ObjectRef) -> Result<Option<Object>, Failure> {
    context
        .hub
        .get(source)
        .await
        .map_err(|error| Failure::port(reason::ARTIFACT_FAILED, &error))
}
