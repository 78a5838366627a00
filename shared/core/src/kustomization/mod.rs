//! The step of a Kustomization: artifact, build, apply, prune, health checks, status.

pub mod apply;
mod applying_user;
pub mod build;
mod children;
pub mod decrypt;
mod deps;
mod finalize;
mod health;
mod heirs;
pub mod inputs;
mod keys;
mod known_objects;
pub mod live_objects;
pub mod memory;
pub mod opening;
mod peers;
mod prefetch;
mod prune;
mod prune_gate;
pub mod remote;
mod report;
pub mod variables;

use crate::capsule;
use build::{BuildResult, Inputs};
use driftless_flux::{
    ArtifactStatus, FieldError, FluxKind, Invalid, KUSTOMIZE_CONTROLLER, Kustomization, ObjectRef,
    is_current, reason,
};
use driftless_kernel::context::Context;
use driftless_kernel::driver::{self, Reconciler, Report};
use driftless_kernel::failure::Failure;
use driftless_kernel::ports::{Cause, ErrorKind, PushedCommit};
use driftless_kernel::target::objects::{self, Denied, Item};
use driftless_kernel::target::{self, Target};
use driftless_manifest::{Gvk, Object, ObjectId, TreePath};
use driftless_plans::apply::ignore_rules::IgnoreRules;
use driftless_plans::apply::plan::{Action, Change};
use driftless_plans::inventory::{Eligibility, Inventory, eligibility};
use driftless_source::files::{self, Files};
use driftless_source::{artifact, lookup, touched};
use live_objects::Known;
use memory::{HealthWait, Memory};
use prune::Prune;
use prune_gate::{Gate, PruneDecision, WaitForChildren};
use report::{Progress, Stage};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument as _;

/// Reconciles Kustomizations as kustomize-controller does.
pub(crate) struct Kustomizations;

impl Reconciler for Kustomizations {
    type Object = Kustomization;
    type Memory = Memory;

    const CONTROLLER: &'static str = KUSTOMIZE_CONTROLLER;
    const INVALID: &'static str = reason::FAILED;
    const ADDS_FINALIZER: bool = true;
    const NOTIFIES_FAILURES: bool = false;

    async fn reconcile(
        context: &Context<'_>,
        owner: Kustomization,
        memory: &mut driver::Memory<Memory>,
    ) -> Report<Kustomization> {
        if memory.is_of_interrupted_step() {
            // It is unknown what was applied, so the next build is applied even if its files did
            // not change.
            memory.inputs.clear();
        }
        let mut progress = Progress::new(context, owner, memory);
        match run(context, &mut progress).await {
            Ok(RunEnd::Deferred) => progress.defer(),
            Ok(end) => progress.succeed(context, end),
            Err(failure) => progress.fail(context, failure),
        }
    }

    async fn finalize(
        context: &Context<'_>,
        owner: Kustomization,
        _: &mut driver::Memory<Memory>,
    ) -> Report<Kustomization> {
        finalize::finalize(context, owner).await
    }
}

/// The state of a prune at the end of a step.
#[derive(Default)]
pub enum PruneState {
    /// Finished, or there was nothing to prune.
    #[default]
    Finished,
    /// Some objects are still terminating.
    Terminating,
    /// The time of the step was over; the next step prunes this many objects.
    Unfinished(usize),
    /// The prune has not begun, because it waits for children.
    Waiting(WaitForChildren),
}

/// The end of a run without a failure.
pub enum RunEnd {
    /// Applied and, if the object asks for health checks, healthy.
    Ready {
        /// True if the health was checked.
        is_checked: bool,
        /// The state of the prune.
        prune: PruneState,
    },
    /// Applied, but these objects are not healthy yet.
    Waiting(String),
    /// More than the revision changes, which this step may not do.
    Deferred,
}

async fn run(context: &Context<'_>, progress: &mut Progress<'_>) -> Result<RunEnd, Failure> {
    let owner = progress.owner.clone();
    let invalid = |error: FieldError| Failure::terminal(reason::FAILED, &error).caused_by(error);
    owner
        .interval()
        .and(owner.retry_interval())
        .and(owner.timeout())
        .map_err(invalid)?;
    let ignore = ignore_rules(&owner)
        .map_err(|error| Failure::terminal(reason::FAILED, &error).caused_by(error))?;
    let found = find_artifact(context, &owner).await?;
    let artifact = found.artifact.clone();
    progress.revision(&artifact);
    if found.is_stored {
        progress.memory.commit.clone_from(&found.commit);
    }
    let commit = progress.memory.commit.clone();
    let commit = commit.filter(|commit| commit.is_of(&artifact.revision));
    context.events.changes.set_commit(commit);
    deps::check(context, &owner, &artifact).await?;
    progress.stage = Stage::Building;

    let inputs = Arc::new(inputs::read(context, &owner).await?);
    let digest = digest_of(&owner, &inputs);
    let same_inputs = progress.memory.inputs == digest;
    let connected = target::connect(context, &owner).await;
    progress.is_unconnected = connected.is_err();
    let target = connected?;

    if same_inputs
        && !context.only_moves_revision
        && let Some(wait) = progress
            .memory
            .wait
            .clone()
            .filter(|wait| wait.revision == artifact.revision)
            .filter(|_| progress.memory.prune_wait.is_none())
    {
        // Already applied: only the health is awaited.
        progress.digest = wait.digest;
        return check_health(
            context,
            progress,
            &target,
            Duration::from_secs_f64(wait.since),
        )
        .await;
    }
    let is_touched = !same_inputs
        || progress.memory.prune_wait.is_some()
        || !context.is_rehearsal && reads_cluster(context, &owner)
        || !owner.status.conditions.is_true("Ready");
    // What a remote base has now, only a build can find.
    let needs_build = context.is_rehearsal && progress.memory.has_remote_files;
    let mut opened = None;
    let is_same = !is_touched
        && !needs_build
        && has_same_files(context, progress, &found, &mut opened).await?;
    if is_same {
        // No file of the build has changed: only the revision moves, and no object is rendered.
        progress.is_untouched = true;
        keep_reads(context, progress);
        progress.digest = progress.last_digest();
        if context.is_rehearsal {
            let since = context.ports.clock.now();
            return check_health(context, progress, &target, since).await;
        }
        return Ok(RunEnd::Ready {
            is_checked: false,
            prune: PruneState::Finished,
        });
    }
    if context.only_moves_revision {
        return Ok(RunEnd::Deferred);
    }
    let mut files = match opened {
        Some(files) => files,
        None => found.open(context).await?,
    };
    // Mostly, the build reads what the last one has read.
    let read_before = &progress.memory.read_set;
    let built = async {
        let loaded = files.load_for(context, read_before.paths());
        loaded.await.map_err(artifact_failure)?;
        remote::build(context, files, &owner, inputs).await
    };
    let built = Box::pin(built)
        .instrument(tracing::trace_span!("render"))
        .await?;
    let since = progress.health_since(context, &artifact);
    let prune = apply_and_prune(
        context, progress, &target, &artifact, built, &ignore, is_touched,
    );
    let prune = prune.await?;
    match prune {
        PruneState::Finished | PruneState::Waiting(_) => progress.memory.inputs = digest,
        // The next step prunes, whatever its cause: one that finds no changed file, or that only
        // awaits the health, would not.
        PruneState::Terminating | PruneState::Unfinished(_) => progress.memory.inputs.clear(),
    }
    progress.memory.artifact.clone_from(&artifact.digest);
    keep_reads(context, progress);
    let end = check_health(context, progress, &target, since).await?;
    Ok(match end {
        RunEnd::Ready { is_checked, .. } => RunEnd::Ready { is_checked, prune },
        other => other,
    })
}

/// Keeps what the build has read outside of its path, for the steps of the source.
fn keep_reads(context: &Context<'_>, progress: &Progress<'_>) {
    if let Ok(own) = TreePath::secure_join(&progress.owner.spec.path) {
        touched::keep_reads(context, &own, progress.memory.read_set.paths());
    }
}

/// Checks whether the artifact has the same files of the build as the last one. The digest of the
/// artifact decides if it is the same; otherwise its files are `opened`.
async fn has_same_files(
    context: &Context<'_>,
    progress: &mut Progress<'_>,
    found: &SourceArtifact,
    opened: &mut Option<Files>,
) -> Result<bool, Failure> {
    let artifact = &found.artifact;
    if progress.memory.artifact == artifact.digest {
        return Ok(true);
    }
    let files = found.open(context).await?;
    let is_same = progress.memory.read_set.is_unchanged_in(files.index());
    if is_same {
        progress.memory.artifact.clone_from(&artifact.digest);
    }
    *opened = Some(files);
    Ok(is_same)
}

/// The artifact of a Kustomization's source.
struct SourceArtifact {
    source: ObjectRef,
    artifact: ArtifactStatus,
    /// True if it is from the record of the source, so that its steps have stored it.
    is_stored: bool,
    /// The commit of the artifact, as a delivery described it, if the record of the source has it.
    commit: Option<PushedCommit>,
}

impl SourceArtifact {
    /// Opens the files.
    async fn open(&self, context: &Context<'_>) -> Result<Files, Failure> {
        let files = match self.is_stored {
            true => files::open_stored(context, &self.source, &self.artifact).await,
            false => files::open_of(context, &self.source, &self.artifact).await,
        };
        files.map_err(artifact_failure)
    }
}

/// Checks whether the step's cause or a user's request demands a full step; after a push the files
/// decide first.
fn reads_cluster(context: &Context<'_>, owner: &Kustomization) -> bool {
    let requested_at = owner
        .object
        .annotation(driftless_flux::REQUESTED_AT)
        .unwrap_or_default();
    context.cause.reads_cluster() || requested_at != owner.status.last_handled_reconcile_at
}

/// Returns the rules of `spec.ignore`.
///
/// # Errors
/// A selector or a path is not valid.
fn ignore_rules(owner: &Kustomization) -> Result<IgnoreRules, Invalid> {
    for (at, rule) in owner.spec.ignore.iter().enumerate() {
        if let Some(path) = rule.paths.iter().find(|path| !path.starts_with('/')) {
            return Err(format!(
                "spec.ignore[{at}].paths: '{}' is not a JSON pointer to a field: expected a path such as /spec/replicas",
                path.escape_debug()
            ).into());
        }
    }
    IgnoreRules::new(&owner.spec.ignore, "spec.ignore")
}

fn artifact_failure(error: driftless_kernel::ports::PortError) -> Failure {
    let failure = Failure::port(reason::ARTIFACT_FAILED, &error);
    if error.kind == ErrorKind::NotFound {
        failure.context("the artifact is missing in the bucket, and the source must store it again")
    } else {
        failure
    }
}

/// Returns the newest artifact of the source. If the source itself queued this step, the record of
/// the source has it; otherwise the source is read, which may be gone.
async fn find_artifact(
    context: &Context<'_>,
    owner: &Kustomization,
) -> Result<SourceArtifact, Failure> {
    let source: ObjectRef = owner
        .source()
        .map_err(|message| Failure::terminal(reason::ARTIFACT_FAILED, message))?;
    if context.hub.settings.no_cross_namespace_refs && source.namespace != owner.id.namespace {
        let message = format!(
            "can't access '{}/{}/{}', cross-namespace references have been blocked",
            source.kind, source.namespace, source.name
        );
        return Err(Failure::terminal(reason::ACCESS_DENIED, message));
    }
    if context.cause == Cause::Source
        && let Some((artifact, commit)) = artifact::stored_by(context, &source).await?
    {
        return Ok(SourceArtifact {
            source,
            artifact,
            is_stored: true,
            commit,
        });
    }
    let Some(object) = lookup::find(context, &source).await? else {
        return Err(Failure::waiting(
            reason::ARTIFACT_FAILED,
            source.not_cached(),
        ));
    };
    let artifact = lookup::artifact_of(&object).ok_or_else(|| {
        Failure::waiting(
            reason::ARTIFACT_FAILED,
            format!("Source artifact not found: '{source}' has no artifact yet"),
        )
    })?;
    Ok(SourceArtifact {
        source,
        artifact,
        is_stored: false,
        commit: None,
    })
}

/// Returns a digest of everything except the files that decides what is applied and where. Values
/// enter only the digest.
fn digest_of(owner: &Kustomization, inputs: &Inputs) -> String {
    let keys = inputs
        .decryptor
        .as_ref()
        .map(decrypt::Decryptor::recipients)
        .unwrap_or_default();
    let parts = json!([owner.spec, inputs.variables, keys]);
    hex::encode(Sha256::digest(parts.to_string()))
}

/// Applies the build and prunes the objects that it no longer has; returns the state of the prune.
/// Unless it `reads_live`, objects that are as the last apply left them are not read.
async fn apply_and_prune(
    context: &Context<'_>,
    progress: &mut Progress<'_>,
    target: &Target,
    artifact: &ArtifactStatus,
    built: BuildResult,
    ignore: &IgnoreRules,
    reads_live: bool,
) -> Result<PruneState, Failure> {
    let owner = progress.owner.clone();
    let old = Inventory::from_status(owner.status.inventory.as_ref());
    let (mut objects, held) = split_controllers(context, target, built.objects).await?;
    // The digest of the same bytes as Flux's, so that the history continues when Flux's controller
    // takes over the object.
    let digest = Sha256::digest(driftless_kustomize::to_yaml(&objects));
    progress.digest = Some(format!("sha256:{}", hex::encode(digest)));
    objects
        .iter_mut()
        .for_each(|object| live_objects::mark(object, &owner));

    let mut new = Inventory::of(&objects);
    new.keep_unreadable(&old);
    // Objects that are rendered but deliberately not applied stay in the inventory if they were in
    // it.
    held.iter()
        .filter(|id| old.contains(id))
        .for_each(|id| new.keep(&old, id));
    let gate = Gate {
        context,
        target,
        owner: &owner,
        artifact,
        old: &old,
        new: &new,
        stale: old.minus(&new),
    };
    gate.before_apply(&objects).await?;

    progress.stage = Stage::Applying;
    if owner.may_have_secret_values() {
        context.events.changes.withhold_values();
    }
    // Write ahead: an object that is about to exist is in the inventory before it exists.
    let union = old.union(&new);
    progress.write_ahead(context, &old, &union).await?;
    let enables_accounts = !target.remote && objects.iter().any(capsule::concerns);
    let remembered = match reads_live {
        true => Arc::default(),
        false => known_objects::recall(context, target, &owner, progress.memory),
    };
    let known = Known {
        inventory: &old,
        applied: &remembered,
    };
    let span = tracing::trace_span!("apply", objects = objects.len());
    let applied = apply::apply(context, target, &owner, objects, known, ignore);
    let mut applied = Box::pin(applied).instrument(span).await;
    known_objects::keep(
        context,
        target,
        &owner,
        progress.memory,
        applied.live.values(),
    );
    progress.changes(&applied, target.remote);
    let changed_account = |change: &Change| {
        change.id.kind == "ServiceAccount"
            && matches!(change.action, Action::Created | Action::Configured)
    };
    if enables_accounts && applied.changes.iter().any(changed_account) {
        // A failure is logged, and the timer retries it.
        capsule::reconcile(context.ports, &context.hub).await;
    }
    progress.memory.target = json!(owner.spec.kube_config);
    if let Some(failure) = applied.failure.take() {
        progress.memory.inputs.clear();
        progress.memory.wait = None;
        // An object whose apply was refused or not tried was not created by us.
        let mut kept = union;
        kept.retain(|id| old.contains(id) || applied.may_have_applied(id));
        progress.inventory(kept);
        return Err(failure);
    }
    progress.memory.read_set = built.read_set;
    progress.memory.has_remote_files = built.has_remote_files;
    let heirs = match gate.before_prune(progress.memory).await {
        Ok(PruneDecision::Prune(heirs)) => heirs,
        Ok(PruneDecision::Nothing) => {
            progress.inventory(new);
            return Ok(PruneState::Finished);
        }
        Ok(PruneDecision::Later(later)) => {
            progress.inventory(union);
            return Ok(PruneState::Waiting(later));
        }
        Err(failure) => {
            progress.inventory(union);
            progress.memory.inputs.clear();
            return Err(failure);
        }
    };
    let prune = Prune {
        context,
        target,
        heirs: &heirs,
        rest: &new,
        start: progress.start,
    };
    let pruned = prune.run(&mut progress.owner, &gate.stale);
    let pruned = Box::pin(pruned)
        .instrument(tracing::trace_span!("prune"))
        .await;
    progress.pruned(pruned.changes, target.remote);
    let kept = new.union(&pruned.left);
    progress.inventory(kept.clone());
    let returned = match release(context, progress, target, &kept, &pruned.others).await {
        Ok(returned) => returned,
        Err(failure) => {
            // It is unknown whether one of them is ours, so the next prune reads them again.
            let doubtful = pruned.others.iter().map(|item| item.object.clone());
            let doubtful = Inventory::of(&doubtful.collect::<Vec<_>>());
            progress.inventory(doubtful.union(&kept));
            progress.memory.inputs.clear();
            return Err(pruned.failure.unwrap_or(failure));
        }
    };
    progress.inventory(kept.union(&returned));
    match pruned.failure {
        Some(failure) => {
            progress.memory.inputs.clear();
            Err(failure)
        }
        None if pruned.is_unfinished => Ok(PruneState::Unfinished(pruned.left.len())),
        None if pruned.is_terminating || !returned.is_empty() => Ok(PruneState::Terminating),
        None => Ok(PruneState::Finished),
    }
}

/// Releases the objects of other Kustomizations: their entries leave the inventory at once. Returns
/// the objects that were handed back to us meanwhile, to be pruned later. `heirs.rs` explains why
/// this order loses no object.
async fn release(
    context: &Context<'_>,
    progress: &mut Progress<'_>,
    target: &Target,
    kept: &Inventory,
    others: &[Item],
) -> Result<Inventory, Failure> {
    if others.is_empty() {
        return Ok(Inventory::default());
    }
    progress.write_inventory(context, kept).await?;
    let owner = &progress.owner;
    let selector = live_objects::selector(owner);
    let live = objects::read_labeled(target, others, &[&selector], Denied::Unknown).await;
    let live = live.map_err(|error| Failure::port(reason::PRUNE_FAILED, &error))?;
    let is_ours = |live: &Object| {
        let eligibility = eligibility(live, &owner.id.namespace, &owner.id.name);
        matches!(eligibility, Eligibility::Delete | Eligibility::Terminating)
    };
    let ids: BTreeSet<ObjectId> = others.iter().map(|item| item.object.id()).collect();
    let ours = live.into_values().filter(is_ours);
    let ours: Vec<Object> = ours.filter(|live| ids.contains(&live.id())).collect();
    Ok(Inventory::of(&ours))
}

/// Splits off the objects of Flux's own controllers, which do not run here. Returns the other
/// objects and the ids of those.
async fn split_controllers(
    context: &Context<'_>,
    target: &Target,
    objects: Vec<Object>,
) -> Result<(Vec<Object>, Vec<driftless_manifest::ObjectId>), Failure> {
    let is_flux = |object: &Object| object.label("app.kubernetes.io/part-of") == Some("flux");
    if target.remote || !objects.iter().any(is_flux) {
        return Ok((objects, Vec::new()));
    }
    let kind = FluxKind::Kustomization;
    let gvk = Gvk::new("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    let definition = match context.hub.cluster.resource(&gvk).await? {
        Some(resource) => {
            context
                .hub
                .cluster
                .get(
                    &resource,
                    "",
                    &format!("{}.{}", kind.plural(), kind.group()),
                )
                .await?
        }
        None => None,
    };
    let ours = definition.is_some_and(|definition| is_current(&definition));
    let keep = context.hub.settings.keep_controllers;
    let (held, rest): (Vec<_>, Vec<_>) = objects
        .into_iter()
        .partition(|object| live_objects::is_controllers_own(object, keep, ours));
    Ok((rest, held.iter().map(Object::id).collect()))
}

/// Checks the health if the object asks for it.
async fn check_health(
    context: &Context<'_>,
    progress: &mut Progress<'_>,
    target: &Target,
    since: Duration,
) -> Result<RunEnd, Failure> {
    progress.stage = Stage::Checking;
    let inventory = progress.current_inventory();
    let health = health::check(
        context,
        target,
        &progress.owner,
        &inventory,
        progress.memory,
        since,
    );
    let health = Box::pin(health)
        .instrument(tracing::trace_span!("health"))
        .await;
    match health {
        Ok(health::Health::NotAsked) => {
            progress.memory.wait = None;
            Ok(RunEnd::Ready {
                is_checked: false,
                prune: PruneState::Finished,
            })
        }
        Ok(health::Health::Healthy) => {
            progress.memory.wait = None;
            Ok(RunEnd::Ready {
                is_checked: true,
                prune: PruneState::Finished,
            })
        }
        Ok(health::Health::Waiting(open)) => {
            let revision = progress.new.last_attempted_revision.clone();
            progress.memory.wait = Some(HealthWait {
                revision,
                digest: progress.digest.clone(),
                since: since.as_secs_f64(),
            });
            Ok(RunEnd::Waiting(open))
        }
        Err(failure) => {
            progress.memory.wait = None;
            progress.is_unhealthy = true;
            Err(failure)
        }
    }
}
