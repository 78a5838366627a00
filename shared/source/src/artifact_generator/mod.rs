//! The step of an ArtifactGenerator: its sources' files are composed to artifacts, and an
//! ExternalArtifact is written for each.
//!
//! All artifacts are built and stored before the first object is written. The digest of an artifact
//! goes into the record of its ExternalArtifact before the status names it: consumers read only
//! what is in the record ([`crate::artifact`]).

mod made;
mod objects;
mod outputs;
mod sources;
mod validation;

use crate::consumers;
use driftless_flux::{
    ArtifactGenerator, ArtifactGeneratorStatus, ConditionStatus, GeneratedEntry, ObjectRef, READY,
    SOURCE_WATCHER, reason, rfc3339, sources_digest,
};
use driftless_kernel::context::{Context, LONGEST_RETRY, Outcome};
use driftless_kernel::driver::{Memory, Reconciler, Report, StepEnd};
use driftless_kernel::failure::{Class, Failure};
pub use made::step;
use objects::Existing;
use outputs::Output;
use sources::Observed;

/// The reconciler of ArtifactGenerators.
pub struct Generators;

impl Reconciler for Generators {
    type Object = ArtifactGenerator;
    type Memory = ();

    const CONTROLLER: &'static str = SOURCE_WATCHER;
    const INVALID: &'static str = reason::VALIDATION_FAILED;
    const ADDS_FINALIZER: bool = true;
    const NOTIFIES_FAILURES: bool = false;

    async fn reconcile(
        context: &Context<'_>,
        generator: ArtifactGenerator,
        _: &mut Memory<()>,
    ) -> Report<ArtifactGenerator> {
        let mut status = generator.status.clone();
        let mut changed = Vec::new();
        let end = match generate(context, &generator, &mut status, &mut changed).await {
            Ok(Some(count)) => succeeded(context, &generator, &mut status, &changed, count).await,
            Ok(None) => {
                let count = status.inventory.len();
                let message = format!("No drift detected, {count} artifact(s) up to date");
                StepEnd::Done(Outcome::done(message))
            }
            Err(failure) => failed(context, &generator, &mut status, failure),
        };
        let is_failed = matches!(end, StepEnd::Failed(..));
        Report {
            object: generator,
            status,
            // Those of a successful step are replaced by the objects that use them.
            changed: if is_failed { changed } else { Vec::new() },
            end,
        }
    }

    async fn finalize(
        context: &Context<'_>,
        generator: ArtifactGenerator,
        _: &mut Memory<()>,
    ) -> Report<ArtifactGenerator> {
        let status = generator.status.clone();
        let end = match delete_all(context, &generator).await {
            Ok(()) => StepEnd::Released,
            Err(failure) => StepEnd::Failed(failure, LONGEST_RETRY),
        };
        Report {
            object: generator,
            status,
            changed: Vec::new(),
            end,
        }
    }
}

async fn delete_all(context: &Context<'_>, generator: &ArtifactGenerator) -> Result<(), Failure> {
    let existing = Existing::list(context, generator).await?;
    existing.delete_except(context, generator, &[]).await
}

/// Makes the artifacts, unless nothing has changed. Returns their number; `changed` gets the
/// ExternalArtifacts with a new artifact.
async fn generate(
    context: &Context<'_>,
    generator: &ArtifactGenerator,
    status: &mut ArtifactGeneratorStatus,
    changed: &mut Vec<ObjectRef>,
) -> Result<Option<usize>, Failure> {
    validation::check(context, generator)?;
    let observed = sources::observe(context, generator).await?;
    validation::check_cycle(context, generator).await?;
    let artifacts = observed.iter().map(|one| (&*one.alias, &one.artifact));
    let digest = sources_digest(artifacts);
    let existing = Existing::list(context, generator).await?;
    if is_settled(context, generator, &digest, &existing).await? {
        return Ok(None);
    }
    let outputs = make(context, generator, &observed).await?;
    let wanted: Vec<ObjectRef> = outputs.iter().map(|output| output.id.clone()).collect();
    for output in &outputs {
        let name = &output.id.name;
        let written = existing.write(context, generator, output).await;
        let is_new =
            written.map_err(|failure| failure.context(format!("{name} reconcile failed")))?;
        note(status, output);
        if is_new {
            changed.push(output.id.clone());
        }
    }
    existing.delete_except(context, generator, &wanted).await?;
    status.inventory = outputs.iter().map(Output::entry).collect();
    status.observed_sources_digest = digest;
    Ok(Some(outputs.len()))
}

/// Adds an artifact to the inventory, so that none is lost if a later one fails.
fn note(status: &mut ArtifactGeneratorStatus, output: &Output) {
    let is_other = |entry: &GeneratedEntry| entry.artifact().as_ref() != Some(&output.id);
    status.inventory.retain(is_other);
    status.inventory.push(output.entry());
}

/// Builds and stores the artifacts.
async fn make(
    context: &Context<'_>,
    generator: &ArtifactGenerator,
    observed: &[Observed],
) -> Result<Vec<Output>, Failure> {
    let files = sources::load(context, generator, observed).await?;
    outputs::make(context, generator, observed, files).await
}

/// Returns whether the artifacts are those of the spec and the sources, and are all there.
async fn is_settled(
    context: &Context<'_>,
    generator: &ArtifactGenerator,
    digest: &str,
    existing: &Existing,
) -> Result<bool, Failure> {
    let status = &generator.status;
    let ready = status.conditions.ready();
    let is_observed = ready.is_some_and(|ready| {
        ready.status == ConditionStatus::True && ready.observed_generation == generator.generation()
    });
    let has_pattern = generator.spec.path_pattern.is_some();
    let count = status.inventory.len();
    if !is_observed
        || status.observed_sources_digest != digest
        || !has_pattern && count != generator.spec.artifacts.len()
    {
        return Ok(false);
    }
    existing.are_intact(context, &status.inventory).await
}

/// Sets `Ready`, and returns the outcome with the requests for the objects that follow the new
/// artifacts.
async fn succeeded(
    context: &Context<'_>,
    generator: &ArtifactGenerator,
    status: &mut ArtifactGeneratorStatus,
    changed: &[ObjectRef],
    count: usize,
) -> StepEnd {
    let message = format!("reconciliation succeeded, generated {count} artifact(s)");
    let requests = match consumers::of_sources(context, changed).await {
        Ok(requests) => requests,
        Err(failure) => {
            // With the old digest, the next step finds the change again.
            let before = &generator.status.observed_sources_digest;
            status.observed_sources_digest.clone_from(before);
            return failed(context, generator, status, failure);
        }
    };
    let (generation, now) = (generator.generation(), rfc3339(context.ports.clock.now()));
    let conditions = &mut status.conditions;
    conditions.set_ready(reason::META_SUCCEEDED, &message, generation, &now);
    context.events.record(false, READY, &message, "");
    StepEnd::Done(Outcome {
        notifies: true,
        enqueue: requests,
        ..Outcome::done(message)
    })
}

/// Sets the conditions of a failure, and records its event.
fn failed(
    context: &Context<'_>,
    generator: &ArtifactGenerator,
    status: &mut ArtifactGeneratorStatus,
    failure: Failure,
) -> StepEnd {
    let (generation, now) = (generator.generation(), rfc3339(context.ports.clock.now()));
    let Failure {
        reason, message, ..
    } = &failure;
    let conditions = &mut status.conditions;
    let not_ready = ConditionStatus::False;
    conditions.set(READY, not_ready, reason, message, generation, &now);
    if failure.class == Class::Terminal {
        conditions.set_stalled(reason, message, generation, &now);
    } else {
        let retry = reason::PROGRESSING_WITH_RETRY;
        conditions.set_reconciling(retry, "Reconciliation in progress", generation, &now);
    }
    let before = generator.status.conditions.get(READY);
    if before.map(|ready| (&*ready.reason, &ready.message)) != Some((*reason, message)) {
        context.events.record(true, reason, message, "");
    }
    StepEnd::Failed(failure, LONGEST_RETRY)
}
