//! The step of a Kustomization: artifact, build, apply, prune, health, status.

pub mod apply;
pub mod build;
mod children;
pub mod decrypt;
mod deps;
mod finalize;
mod gate;
mod heirs;
mod inputs;
mod keys;
pub mod live;
pub mod memory;
mod peers;
mod prune;
pub mod remote;
mod report;
pub mod variables;
mod wait;

use crate::apply::plan::{Action, Change};
use crate::capsule;
use crate::driver::{self, Reconciler, Report};
use crate::failure::Failure;
use crate::flux::{
    ArtifactStatus, FluxKind, KUSTOMIZE_CONTROLLER, Kustomization, ObjectRef, is_current, reason,
};
use crate::inventory::{Eligibility, Inventory, eligibility};
use crate::kernel::Context;
use crate::ports::ErrorKind;
use crate::source::{artifact, lookup};
use crate::target::objects::{self, Denied, Item};
use crate::target::{self, Target};
use build::{Built, Inputs};
use driftless_manifest::{Gvk, Object};
use gate::{Gate, Later, Next};
use memory::{Memory, Wait};
use report::{Progress, Stage};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Duration;

/// How soon a wait for health is looked at again.
const HEALTH_AGAIN: Duration = Duration::from_secs(5);
/// How soon an object that is on its way out is looked at again.
const PRUNE_AGAIN: Duration = Duration::from_secs(30);

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
            // What was applied is not known: the next build is applied whatever it reads.
            memory.inputs.clear();
        }
        let mut progress = Progress::new(context, owner, memory);
        match run(context, &mut progress).await {
            Ok(end) => progress.succeed(context, end),
            Err(failure) => progress.fail(context, failure),
        }
    }

    async fn finalize(
        context: &Context<'_>,
        owner: Kustomization,
        _: &mut driver::Memory<Memory>,
    ) -> Report<Kustomization> {
        let end = finalize::finalize(context, &owner).await;
        Report {
            status: owner.status.clone(),
            object: owner,
            changed: Vec::new(),
            end,
        }
    }
}

/// What is left of a prune.
#[derive(Default)]
pub enum Left {
    /// Nothing.
    #[default]
    Nothing,
    /// Something is still on its way out.
    Terminating,
    /// All of it: it waits for children.
    Waits(Later),
}

/// How a run without failure ended.
pub enum RunEnd {
    /// Applied and, where asked, healthy.
    Ready {
        /// Whether health was looked at.
        checked: bool,
        /// What is left of the prune.
        left: Left,
    },
    /// Applied, and waiting for health.
    Waiting(String),
}

async fn run(context: &Context<'_>, progress: &mut Progress<'_>) -> Result<RunEnd, Failure> {
    let owner = progress.owner.clone();
    let invalid = |what: String| Failure::terminal(reason::FAILED, what);
    owner
        .interval()
        .and(owner.retry_interval())
        .and(owner.timeout())
        .map_err(invalid)?;
    refuse_unsupported(&owner)?;
    let (source, artifact) = find_artifact(context, &owner).await?;
    progress.revision(&artifact);
    deps::check(context, &owner, &artifact).await?;
    progress.stage = Stage::Building;

    let inputs = Arc::new(inputs::read(context, &owner).await?);
    let digest = digest_of(&owner, &inputs);
    let same_inputs = progress.memory.inputs == digest;
    let connected = target::connect(context, &owner).await;
    progress.unconnected = connected.is_err();
    let target = connected?;

    if same_inputs
        && let Some(wait) = progress
            .memory
            .wait
            .clone()
            .filter(|wait| wait.revision == artifact.revision)
            .filter(|_| progress.memory.prune_wait.is_none())
    {
        // Applied already: only the health is open.
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
        || looks_at_cluster(context, &owner)
        || !owner.status.conditions.is_true("Ready");
    if !is_touched {
        let index = artifact::index(context.ports, &artifact).await;
        let index = artifact::or_request(context, &source, index).await;
        let index = index.map_err(artifact_failure)?;
        if progress.memory.read_set.is_unchanged_in(&index) {
            // Nothing the build reads has changed: the revision moves, nothing is rendered.
            progress.untouched = true;
            progress.digest = progress.last_digest();
            return Ok(RunEnd::Ready {
                checked: false,
                left: Left::Nothing,
            });
        }
    }
    let tree = artifact::load_of(context, &source, &artifact).await;
    let tree = tree.map_err(artifact_failure)?;
    let built = remote::build(context, tree, &owner, inputs).await?;
    let since = progress.health_since(context, &artifact);
    let left = apply_and_prune(context, progress, &target, &artifact, built).await?;
    progress.memory.inputs = digest;
    let end = check_health(context, progress, &target, since).await?;
    Ok(match end {
        RunEnd::Ready { checked, .. } => RunEnd::Ready { checked, left },
        waiting => waiting,
    })
}

/// What the cause says, and a user's request; a push looks at the files first.
fn looks_at_cluster(context: &Context<'_>, owner: &Kustomization) -> bool {
    let asked = owner
        .object
        .annotation(crate::flux::REQUESTED_AT)
        .unwrap_or_default();
    context.cause.reads_cluster() || asked != owner.status.last_handled_reconcile_at
}

/// Fields of Flux that this version cannot serve are refused, never ignored.
fn refuse_unsupported(owner: &Kustomization) -> Result<(), Failure> {
    if !owner.spec.ignore.is_empty() {
        let what = "spec.ignore (fields left to others) is not supported yet: remove the field, or set the annotation \
                    kustomize.toolkit.fluxcd.io/ssa: Merge on the objects";
        return Err(Failure::terminal(reason::UNSUPPORTED, what));
    }
    Ok(())
}

fn artifact_failure(error: crate::ports::PortError) -> Failure {
    let failure = Failure::port(reason::ARTIFACT_FAILED, &error);
    if error.kind == ErrorKind::NotFound {
        failure.context("the source must store it again")
    } else {
        failure
    }
}

async fn find_artifact(
    context: &Context<'_>,
    owner: &Kustomization,
) -> Result<(ObjectRef, ArtifactStatus), Failure> {
    let source: ObjectRef = owner
        .source()
        .map_err(|what| Failure::terminal(reason::ARTIFACT_FAILED, what))?;
    if context.hub.settings.no_cross_namespace_refs && source.namespace != owner.id.namespace {
        let what = format!(
            "can't access '{}/{}/{}', cross-namespace references have been blocked",
            source.kind, source.namespace, source.name
        );
        return Err(Failure::terminal(reason::ACCESS_DENIED, what));
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
    Ok((source, artifact))
}

/// Everything beside the files that decides what is applied and where. Values go in by digest alone.
fn digest_of(owner: &Kustomization, inputs: &Inputs) -> String {
    let keys = inputs
        .decryptor
        .as_ref()
        .map(decrypt::Decryptor::recipients)
        .unwrap_or_default();
    let parts = json!([owner.spec, inputs.variables, keys]);
    hex::encode(Sha256::digest(parts.to_string()))
}

/// Applies the build and prunes what it no longer has; returns what is left to prune.
async fn apply_and_prune(
    context: &Context<'_>,
    progress: &mut Progress<'_>,
    target: &Target,
    artifact: &ArtifactStatus,
    built: Built,
) -> Result<Left, Failure> {
    let owner = progress.owner.clone();
    let old = Inventory::from_status(owner.status.inventory.as_ref());
    let (mut objects, held) = split_controllers(context, target, built.objects).await?;
    // Of the same text as Flux's, so that the history goes on when somebody else serves the object.
    let digest = Sha256::digest(driftless_kustomize::to_yaml(&objects));
    progress.digest = Some(format!("sha256:{}", hex::encode(digest)));
    objects
        .iter_mut()
        .for_each(|object| live::mark(object, &owner));

    let mut new = Inventory::of(&objects);
    new.keep_unreadable(&old);
    // What is rendered and left alone on purpose stays ours if it was.
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
    // Write ahead: what is about to exist stands in the inventory before it exists.
    let union = old.union(&new);
    progress.write_ahead(context, &old, &union).await?;
    let enables_accounts = !target.remote && objects.iter().any(capsule::concerns);
    let mut applied = apply::apply(context, target, &owner, objects, &old).await;
    progress.changes(&applied, target.remote);
    let changed_account = |change: &Change| {
        change.id.kind == "ServiceAccount"
            && matches!(change.action, Action::Created | Action::Configured)
    };
    if enables_accounts && applied.changes.iter().any(changed_account) {
        // What fails is logged, and tried again by the timer.
        capsule::reconcile(context.ports, &context.hub).await;
    }
    progress.memory.target = json!(owner.spec.kube_config);
    if let Some(failure) = applied.failure.take() {
        progress.memory.inputs.clear();
        progress.memory.wait = None;
        // What was refused, or not tried, is not there because of us.
        let mut kept = union;
        kept.retain(|id| old.contains(id) || applied.may_have_made(id));
        progress.inventory(kept);
        return Err(failure);
    }
    progress.memory.read_set = built.read_set;
    let heirs = match gate.before_prune(progress.memory).await {
        Ok(Next::Prune(heirs)) => heirs,
        Ok(Next::Nothing) => {
            progress.inventory(new);
            return Ok(Left::Nothing);
        }
        Ok(Next::Later(later)) => {
            progress.inventory(union);
            return Ok(Left::Waits(later));
        }
        Err(failure) => {
            progress.inventory(union);
            progress.memory.inputs.clear();
            return Err(failure);
        }
    };
    let pruned = prune::prune_among(context, target, &owner, &gate.stale, &heirs).await;
    progress.pruned(pruned.changes, target.remote);
    let kept = new.union(&pruned.left);
    progress.inventory(kept.clone());
    let returned = match let_go(context, progress, target, &kept, &pruned.others).await {
        Ok(returned) => returned,
        Err(failure) => {
            // Whether one of them is ours is not known: the next prune looks at them again.
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
        None if pruned.terminating || !returned.is_empty() => Ok(Left::Terminating),
        None => Ok(Left::Nothing),
    }
}

/// Lets go of objects that are other Kustomizations': their entries leave the inventory at once, and what has been handed back to us
/// meanwhile is returned, to be pruned later. `heirs.rs` says why this order loses nothing.
async fn let_go(
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
    let live = objects::read(target, others, &live::selector(owner), Denied::Unknown).await;
    let live = live.map_err(|error| Failure::port(reason::PRUNE_FAILED, &error))?;
    let is_ours = |live: &Object| {
        let whose = eligibility(live, &owner.id.namespace, &owner.id.name);
        matches!(whose, Eligibility::Delete | Eligibility::Terminating)
    };
    let ours: Vec<Object> = live.into_values().filter(is_ours).collect();
    Ok(Inventory::of(&ours))
}

/// Takes out what belongs to controllers that do not run here.
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
        .partition(|object| live::is_controllers_own(object, keep, ours));
    Ok((rest, held.iter().map(Object::id).collect()))
}

/// Looks at the health when the object asks for it.
async fn check_health(
    context: &Context<'_>,
    progress: &mut Progress<'_>,
    target: &Target,
    since: Duration,
) -> Result<RunEnd, Failure> {
    progress.stage = Stage::Checking;
    let inventory = progress.current_inventory();
    let looked = wait::look(
        context,
        target,
        &progress.owner,
        &inventory,
        progress.memory,
        since,
    )
    .await;
    match looked {
        Ok(wait::Health::NotAsked) => {
            progress.memory.wait = None;
            Ok(RunEnd::Ready {
                checked: false,
                left: Left::Nothing,
            })
        }
        Ok(wait::Health::Healthy) => {
            progress.memory.wait = None;
            Ok(RunEnd::Ready {
                checked: true,
                left: Left::Nothing,
            })
        }
        Ok(wait::Health::Waiting(open)) => {
            let revision = progress.new.last_attempted_revision.clone();
            progress.memory.wait = Some(Wait {
                revision,
                digest: progress.digest.clone(),
                since: since.as_secs_f64(),
            });
            Ok(RunEnd::Waiting(open))
        }
        Err(failure) => {
            progress.memory.wait = None;
            progress.unhealthy = true;
            Err(failure)
        }
    }
}
