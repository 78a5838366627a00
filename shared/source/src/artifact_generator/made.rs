//! The step of an ExternalArtifact that a generator makes.

use crate::artifact;
use crate::lookup::artifact_of;
use driftless_flux::{FluxKind, ObjectRef};
use driftless_kernel::context::{Context, Outcome};
use driftless_kernel::failure::Failure;
use driftless_kernel::ports::Cause;
use driftless_manifest::Object;

/// Runs the step of an ExternalArtifact: queues its generator if the artifact is not what the
/// generator stored, or is no longer in the bucket. One of another controller needs nothing.
///
/// # Errors
/// The bucket's.
pub async fn step(context: &Context<'_>, object: &Object) -> Result<Outcome, Failure> {
    let Some(generator) = generator_of(object) else {
        let message = "nothing to do: another controller writes the status";
        return Ok(Outcome::done(message));
    };
    let id = &context.id;
    let is_stored = match artifact_of(object) {
        Some(artifact) => {
            artifact::is_generated(context, id, &artifact).await?
                && artifact::exists(context, &artifact).await?
        }
        None => false,
    };
    if is_stored {
        return Ok(Outcome {
            notifies: true,
            ..Outcome::done("the artifact is in the bucket")
        });
    }
    // A tenant who writes the object can name any generator: only one in the same namespace is
    // queued, unless a generator has made the object.
    if generator.namespace != id.namespace && !artifact::has_generator(context, id).await? {
        return Ok(Outcome::done(format!(
            "{generator} has not made the object"
        )));
    }
    let message = format!("{generator} is queued to make the artifact");
    Ok(Outcome {
        enqueue: vec![context.request(generator, Cause::Changed)],
        ..Outcome::done(message)
    })
}

/// Returns the generator that an ExternalArtifact names as its source.
pub(super) fn generator_of(object: &Object) -> Option<ObjectRef> {
    let field = |name: &str| object.pointer(&format!("/spec/sourceRef/{name}"))?.as_str();
    let kind = FluxKind::ArtifactGenerator;
    let group = field("apiVersion")?.split('/').next();
    let is_ours = field("kind") == Some(kind.as_str()) && group == Some(kind.group());
    let namespace = field("namespace").unwrap_or_else(|| object.namespace());
    let name = field("name").filter(|_| is_ours)?;
    Some(ObjectRef::new(kind, namespace, name))
}
