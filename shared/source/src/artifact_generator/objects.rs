//! The ExternalArtifacts of a generator.

use super::outputs::Output;
use crate::artifact;
use crate::lookup::artifact_of;
use driftless_flux::{
    ArtifactGenerator, ArtifactStatus, ConditionStatus, Conditions, FluxKind, GENERATOR_UID,
    GeneratedEntry, ObjectRef, READY, SOURCE_WATCHER, generation, reason, rfc3339,
};
use driftless_kernel::applier::{Applier, Strategy};
use driftless_kernel::cloud;
use driftless_kernel::context::{Context, status};
use driftless_kernel::failure::Failure;
use driftless_kernel::ports::{Cluster, ErrorKind, Impersonation, PortError};
use driftless_manifest::Object;
use driftless_plans::apply::change_detection::{Drift, compare};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The label of objects with the name of their controller.
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
const STRATEGY: Strategy = Strategy::forcing(SOURCE_WATCHER);

/// The ExternalArtifacts of the hub.
pub(super) struct Existing {
    objects: BTreeMap<ObjectRef, Object>,
    uid: String,
    /// The namespace of the generator.
    namespace: String,
    /// The objects in the inventory of the generator.
    known: BTreeSet<ObjectRef>,
}

impl Existing {
    /// Lists the ExternalArtifacts.
    ///
    /// # Errors
    /// The cluster's.
    pub async fn list(
        context: &Context<'_>,
        generator: &ArtifactGenerator,
    ) -> Result<Self, Failure> {
        let objects = context.hub.list(FluxKind::ExternalArtifact).await?;
        let objects = objects.into_iter();
        let inventory = generator.status.inventory.iter();
        Ok(Self {
            namespace: generator.id.namespace.clone(),
            known: inventory.filter_map(GeneratedEntry::artifact).collect(),
            objects: objects
                .filter_map(|object| Some((ObjectRef::of(&object)?, object)))
                .collect(),
            uid: generator.object.meta("uid").to_owned(),
        })
    }

    /// Returns whether an object is the generator's. A label is not sufficient in another
    /// namespace: its administrator can write any.
    fn is_own(&self, object: &Object) -> bool {
        let is_known = || ObjectRef::of(object).is_some_and(|id| self.known.contains(&id));
        !self.uid.is_empty()
            && object.label(GENERATOR_UID) == Some(&self.uid)
            && (object.namespace() == self.namespace || is_known())
    }

    fn own(&self) -> impl Iterator<Item = (&ObjectRef, &Object)> {
        let all = self.objects.iter();
        all.filter(|(_, object)| self.is_own(object))
    }

    /// Returns whether the objects of the generator are those of its inventory, with artifacts that
    /// are in the bucket.
    ///
    /// # Errors
    /// The bucket's.
    pub async fn are_intact(
        &self,
        context: &Context<'_>,
        inventory: &[GeneratedEntry],
    ) -> Result<bool, Failure> {
        let own: Vec<_> = self.own().collect();
        if own.len() != inventory.len() {
            return Ok(false);
        }
        for (id, object) in own {
            let Some(artifact) = artifact_of(object) else {
                return Ok(false);
            };
            let is_listed = inventory.iter().any(|entry| {
                entry.artifact().as_ref() == Some(id) && entry.digest == artifact.digest
            });
            if !is_listed
                || !artifact::is_generated(context, id, &artifact).await?
                || !artifact::exists(context, &artifact).await?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes the object of an artifact; returns true if the artifact is a new one, or was missing
    /// in the bucket.
    ///
    /// # Errors
    /// The cluster's or the bucket's; `AccessDenied` if the service account of the generator may
    /// not write the object.
    pub async fn write(
        &self,
        context: &Context<'_>,
        generator: &ArtifactGenerator,
        output: &Output,
    ) -> Result<bool, Failure> {
        let id = &output.id;
        let resource = context.hub.resource(id.kind).await?;
        let desired = object(generator, output, &resource.gvk.api_version())?;
        let live = self.objects.get(id);
        let is_same = |live: &&Object| compare(&desired, live, SOURCE_WATCHER) == Drift::Unchanged;
        let user = user(context, generator, &id.namespace)?;
        let before = live.and_then(artifact_of);
        let is_known = match &before {
            Some(before) => is_same_artifact(before, &output.artifact),
            None => false,
        };
        let unchanged = live.filter(is_same);
        if let Some(user) = &user
            && (unchanged.is_none() || !is_known)
        {
            let cluster = connect(context, user).await?;
            let allowed = Applier::new(cluster.as_ref(), STRATEGY);
            let allowed = allowed.dry_run(&resource, &desired).await;
            allowed.map_err(|error| denied(user, &error))?;
        }
        let hub = Applier::new(context.hub.cluster.as_ref(), STRATEGY);
        let applied = match unchanged {
            Some(live) => live.clone(),
            None => {
                if let Some(other) = live.and_then(|live| live.label(GENERATOR_UID))
                    && other != self.uid
                {
                    let by = &generator.id;
                    let message = format!(
                        "{id} is managed by ArtifactGenerator {other} and is being taken over by {}/{}",
                        by.namespace, by.name
                    );
                    let events = &context.events;
                    events.record(true, reason::OWNERSHIP_CONFLICT, &message, "");
                }
                hub.apply(&resource, &desired).await?
            }
        };
        artifact::note_generated(context, id, &output.artifact.digest).await?;
        let artifact = match before.filter(|_| is_known) {
            Some(before) => before,
            None => output.artifact.clone(),
        };
        write_status(context, id, &applied, &artifact, output.inputs.as_ref()).await?;
        if !is_known {
            let ArtifactStatus {
                revision, digest, ..
            } = &artifact;
            let message = format!("{id} reconciled with revision {revision}");
            let metadata = [("revision", revision.as_str()), ("digest", digest.as_str())];
            let events = &context.events;
            events.record_annotated(false, READY, &message, &metadata);
        }
        Ok(!is_known)
    }

    /// Deletes the objects of the generator that are not wanted, and forgets their artifacts.
    ///
    /// # Errors
    /// The cluster's or the bucket's.
    pub async fn delete_except(
        &self,
        context: &Context<'_>,
        generator: &ArtifactGenerator,
        wanted: &[ObjectRef],
    ) -> Result<(), Failure> {
        let resource = match context.hub.resource(FluxKind::ExternalArtifact).await {
            Ok(resource) => resource,
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for (id, live) in self.own().filter(|(id, _)| !wanted.contains(id)) {
            artifact::forget_generated(context, id).await?;
            let kept = |reason: &str| {
                let message = format!("{id} is not deleted: {reason}");
                let events = &context.events;
                events.record(true, reason::ACCESS_DENIED, &message, "");
            };
            // In its own namespace the generator has written the object with the hub's identity.
            let user = match id.namespace == generator.id.namespace {
                true => Ok(None),
                false => user(context, generator, &id.namespace),
            };
            let cluster = match &user {
                Ok(Some(user)) => connect(context, user).await?,
                Ok(None) => context.hub.cluster.clone(),
                Err(failure) => {
                    kept(&failure.message);
                    continue;
                }
            };
            let applier = Applier::new(cluster.as_ref(), STRATEGY);
            let is_ours = |live: &Object| self.is_own(live);
            let deletion = applier.delete(&resource, live, "Background", &is_ours);
            match deletion.await {
                Err(error) if error.kind == ErrorKind::Denied && matches!(user, Ok(Some(_))) => {
                    kept(&error.message);
                }
                deleted => drop(deleted?),
            }
        }
        Ok(())
    }
}

/// Returns whether a live artifact is the one that was made now, and its content is where it was
/// stored now.
fn is_same_artifact(live: &ArtifactStatus, made: &ArtifactStatus) -> bool {
    let parts = |one: &ArtifactStatus| {
        let ArtifactStatus {
            path,
            url,
            revision,
            digest,
            metadata,
            ..
        } = one.clone();
        (path, url, revision, digest, metadata)
    };
    parts(live) == parts(made)
}

/// Returns the user whose rights decide whether a generator may write to a namespace; `None` if it
/// is the generator's own namespace and the spec names no service account.
///
/// # Errors
/// `AccessDenied`: another namespace, and no service account.
fn user(
    context: &Context<'_>,
    generator: &ArtifactGenerator,
    namespace: &str,
) -> Result<Option<Impersonation>, Failure> {
    let own = &generator.id.namespace;
    let account = generator.spec.service_account_name.as_deref();
    let default = context.hub.settings.default_service_account.as_deref();
    let account = match account.filter(|name| !name.is_empty()) {
        Some(name) => Some(name),
        None if namespace != own => default,
        None => return Ok(None),
    };
    let Some(account) = account else {
        let message = format!(
            "spec.artifacts: namespace '{namespace}' is not that of the generator: set spec.serviceAccountName to an account that may write ExternalArtifacts there"
        );
        return Err(Failure::terminal(reason::ACCESS_DENIED, message));
    };
    if !cloud::is_account_name(account) {
        let message = format!(
            "spec.serviceAccountName '{}' is not a valid name of a service account",
            account.escape_debug()
        );
        return Err(Failure::terminal(reason::ACCESS_DENIED, message));
    }
    Ok(Some(Impersonation::service_account(own, account)))
}

async fn connect(context: &Context<'_>, user: &Impersonation) -> Result<Arc<dyn Cluster>, Failure> {
    let clusters = &context.ports.clusters;
    let cluster = clusters.connect(&context.hub.access, Some(user)).await;
    cluster.map_err(Failure::from)
}

/// Returns the failure of a write that the service account was tried for.
fn denied(user: &Impersonation, error: &PortError) -> Failure {
    let reason = match error.kind {
        ErrorKind::Denied => reason::ACCESS_DENIED,
        _ => reason::FAILED,
    };
    Failure::port(reason, error).context(format!("as {}", user.user))
}

/// Returns the ExternalArtifact of an artifact.
fn object(
    generator: &ArtifactGenerator,
    output: &Output,
    api_version: &str,
) -> Result<Object, Failure> {
    let (id, by) = (&output.id, &generator.id);
    let object = json!({"apiVersion": api_version, "kind": id.kind.as_str(),
        "metadata": {"name": id.name, "namespace": id.namespace},
        "spec": {"sourceRef": {"apiVersion": generator.object.api_version(),
            "kind": by.kind.as_str(), "name": by.name, "namespace": by.namespace}}});
    let mut object = Object::new(object)
        .map_err(|error| Failure::terminal(reason::FAILED, &error).caused_by(error))?;
    let common = generator.spec.common_metadata.clone().unwrap_or_default();
    for (key, value) in output.labels.iter().chain(&common.labels) {
        object.set_label(key, value);
    }
    for (key, value) in &common.annotations {
        object.set_annotation(key, value);
    }
    object.set_label(MANAGED_BY, SOURCE_WATCHER);
    object.set_label(GENERATOR_UID, generator.object.meta("uid"));
    Ok(object)
}

/// Writes the status of an ExternalArtifact over the one that was read, if it differs.
async fn write_status(
    context: &Context<'_>,
    id: &ObjectRef,
    live: &Object,
    artifact: &ArtifactStatus,
    inputs: Option<&Map<String, Value>>,
) -> Result<(), Failure> {
    let old = live.as_map().get("status").cloned();
    let old = old.unwrap_or_else(|| json!({}));
    let mut conditions = Conditions::of(live);
    let now = rfc3339(context.ports.clock.now());
    let (message, generation) = ("Artifact is ready", generation(live));
    conditions.set(
        READY,
        ConditionStatus::True,
        reason::META_SUCCEEDED,
        message,
        generation,
        &now,
    );
    let mut new = old.clone();
    if let Value::Object(new) = &mut new {
        new.insert("artifact".to_owned(), status::to_value(artifact)?);
        new.insert("conditions".to_owned(), status::to_value(&conditions)?);
        match inputs {
            Some(inputs) => new.insert("exportedInputs".to_owned(), json!(inputs)),
            None => new.remove("exportedInputs"),
        };
    }
    let changes = status::merge_patch(&old, &new);
    if changes.as_object().is_some_and(Map::is_empty) {
        return Ok(());
    }
    status::patch_of(context, id, live, &changes, SOURCE_WATCHER).await?;
    Ok(())
}
