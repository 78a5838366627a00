//! Applies objects to a hub, and waits until they are ready.

use super::Common;
use super::new_secret::Secret;
use super::object::{AwaitedState, NewObject};
use crate::error::Error;
use crate::hub::{MANAGER, apply_as, resource};
use crate::progress::Progress;
use crate::ready::{ready, revision, text};
use crate::reconcile::is_settled;
use crate::term;
use driftless_flux::{Conditions, STALLED, is_suspended};
use driftless_kernel::applier::{Applier, Strategy};
use driftless_kernel::hub;
use driftless_kernel::ports::Resource;
use driftless_manifest::{Gvk, Object};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// The interval at which an object is read while the command waits for it.
const POLL: Duration = Duration::from_millis(500);

/// A hub on which objects are created, with the deadline for their readiness.
pub struct Hub {
    hub: hub::Hub,
    deadline: Instant,
}

/// The effect of an apply on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The object did not exist.
    Created,
    /// The object existed.
    Updated,
}

impl Hub {
    /// Connects as the user of the kubeconfig.
    pub async fn connect(common: &Common) -> Result<Self, Error> {
        let deadline = Instant::now() + common.timeout.0;
        let hub = common.scope.connection.connect().await?;
        Ok(Self { hub, deadline })
    }

    /// Applies an object, and waits until it is ready.
    ///
    /// # Errors
    /// Fails with the errors of the cluster, if the object is stalled, and at the deadline.
    pub async fn finish(&self, new: NewObject) -> Result<(), Error> {
        let noun = new.noun;
        term::action(&format!("applying {noun}"));
        let (resource, object, change) = self.apply(new.object).await?;
        let verb = match change {
            Change::Created => "created",
            Change::Updated => "updated",
        };
        term::success(&format!("{noun} {verb}"));
        if new.end == AwaitedState::Stored {
            term::success(&format!("{noun} {} is ready", object.name()));
            return Ok(());
        }
        term::waiting(&format!("waiting for {noun} reconciliation"));
        let object = self.until_ready(&resource, &object).await?;
        match new.end {
            AwaitedState::Fetched => {
                term::success(&format!("{noun} reconciliation completed"));
                term::success(&format!("fetched revision: {}", revision(&object)));
            }
            AwaitedState::Applied => {
                term::success(&format!("{noun} {} is ready", object.name()));
                term::success(&format!("applied revision {}", revision(&object)));
            }
            AwaitedState::Opened => {
                let path = object
                    .pointer("/status/webhookPath")
                    .and_then(Value::as_str);
                let path = path.unwrap_or_default();
                term::success(&format!("{noun} {} is ready", object.name()));
                term::success(&format!("generated webhook URL {path}"));
            }
            AwaitedState::Stored => {}
        }
        Ok(())
    }

    /// Applies the Secret of a source, before the source. `content` describes it in messages.
    ///
    /// # Errors
    /// Fails with the errors of the cluster.
    pub async fn store(&self, secret: Secret, content: &str) -> Result<(), Error> {
        term::action(&format!("applying secret with {content}"));
        self.apply(secret.stored()).await?;
        term::success("authentication configured");
        Ok(())
    }

    /// Applies an object by server-side apply. Takes over the fields of other managers that the
    /// object sets; an object that was suspended is resumed, as `flux create` does by writing the
    /// whole spec.
    ///
    /// # Errors
    /// Fails with the errors of the cluster, and if it does not serve the kind.
    pub async fn apply(&self, object: Value) -> Result<(Resource, Object, Change), Error> {
        let mut object = Object::new(object).map_err(Error::caused_by)?;
        let resource = self.resource(&object.gvk()).await?;
        let cluster = self.hub.cluster.as_ref();
        let live = cluster
            .get(&resource, object.namespace(), object.name())
            .await?;
        if live.as_ref().is_some_and(is_suspended)
            && let Some(Value::Object(spec)) = object.as_map_mut().get_mut("spec")
        {
            spec.insert("suspend".to_owned(), json!(false));
        }
        if let Some(live) = live.as_ref().filter(|live| live.kind() == "Secret") {
            check_type(live, &object)?;
        }
        let role = "/roleRef";
        let is_other_role = |live: &&Object| live.pointer(role) != object.pointer(role);
        if let Some(live) = live.as_ref().filter(is_other_role) {
            // The role of a binding is immutable: delete the binding first.
            let applier = Applier::new(cluster, Strategy::forcing(MANAGER));
            let deletion = applier.delete(&resource, live, "Background", &|_| false);
            deletion.await?;
        }
        let object = apply_as(cluster, &resource, &object, false).await?;
        let change = match live {
            None => Change::Created,
            Some(_) => Change::Updated,
        };
        Ok((resource, object, change))
    }

    async fn resource(&self, gvk: &Gvk) -> Result<Resource, Error> {
        let found = resource(self.hub.cluster.as_ref(), gvk).await;
        found.map_err(|error| match error.next {
            Some(_) => error,
            None => error.next(
                "install Flux's definitions of this version, or write the object with --export",
            ),
        })
    }

    /// Polls an object until `Ready` is true for the generation that was applied.
    async fn until_ready(&self, resource: &Resource, object: &Object) -> Result<Object, Error> {
        let (namespace, name) = (object.namespace(), object.name());
        let shown = format!("{} {namespace}/{name}", object.kind());
        let progress = Progress::new(shown.as_str());
        loop {
            let found = self.hub.cluster.get(resource, namespace, name).await?;
            let object =
                found.ok_or_else(|| Error::new(format!("{shown} was deleted meanwhile")))?;
            let (status, message) = ready(&object);
            if is_settled(&object) && status == "True" {
                return Ok(object);
            }
            if is_settled(&object) && Conditions::of(&object).is_true(STALLED) {
                return Err(Error::new(format!("{shown}: {message}"))
                    .next("correct what the message names, and run the command again"));
            }
            if Instant::now() >= self.deadline {
                return Err(Error::new(format!("{shown}: not ready in time; its status: {message}"))
                    .next("check that the hub is served: see the log of driftless serve, or of the reconcile function; or give a longer --timeout"));
            }
            progress.say(format!("{shown}: {message}"));
            tokio::time::sleep(POLL).await;
        }
    }
}

/// Checks that a Secret keeps its type, which is immutable.
///
/// # Errors
/// Fails if the types differ.
fn check_type(live: &Object, object: &Object) -> Result<(), Error> {
    let type_of = |secret: &Object| text(secret, "/type").unwrap_or_else(|| "Opaque".to_owned());
    let (was, is) = (type_of(live), type_of(object));
    if was == is {
        return Ok(());
    }
    let (namespace, name) = (live.namespace(), live.name());
    Err(Error::new(format!(
        "Secret {namespace}/{name}: the type {was} cannot be changed to {is}"
    ))
    .next("delete it first, or choose another name"))
}
