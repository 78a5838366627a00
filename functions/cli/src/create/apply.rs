//! Applying objects to a hub, and waiting for them.

use super::Common;
use super::object::{End, Made};
use super::secret::Secret;
use crate::error::Error;
use crate::hub::{apply_as, resource};
use crate::progress::Progress;
use crate::ready::{ready, revision, suspended, text};
use crate::reconcile::is_settled;
use crate::term;
use driftless_core::flux::{Conditions, STALLED};
use driftless_core::hub;
use driftless_core::ports::{Delete, Resource};
use driftless_manifest::{Gvk, Object};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// How often an object is looked at while waiting.
const POLL: Duration = Duration::from_millis(500);

/// A hub on which objects are made, and until when they have to be ready.
pub struct Hub {
    hub: hub::Hub,
    deadline: Instant,
}

/// Whether an object was there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was not.
    Created,
    /// It was.
    Updated,
}

impl Hub {
    /// Connects as the person who runs the command.
    pub async fn connect(common: &Common) -> Result<Self, Error> {
        let deadline = Instant::now() + common.timeout.0;
        let hub = common.connection.connect().await?;
        Ok(Self { hub, deadline })
    }

    /// Applies an object, and waits until it is ready.
    ///
    /// # Errors
    /// The cluster's, a failure that the object tells of, or that the time is over.
    pub async fn finish(&self, made: Made) -> Result<(), Error> {
        let noun = made.noun;
        term::action(&format!("applying {noun}"));
        let (resource, object, change) = self.apply(made.object).await?;
        let verb = match change {
            Change::Created => "created",
            Change::Updated => "updated",
        };
        term::success(&format!("{noun} {verb}"));
        if made.end == End::Stored {
            term::success(&format!("{noun} {} is ready", object.name()));
            return Ok(());
        }
        term::waiting(&format!("waiting for {noun} reconciliation"));
        let object = self.until_ready(&resource, &object).await?;
        match made.end {
            End::Fetched => {
                term::success(&format!("{noun} reconciliation completed"));
                term::success(&format!("fetched revision: {}", revision(&object)));
            }
            End::Applied => {
                term::success(&format!("{noun} {} is ready", object.name()));
                term::success(&format!("applied revision {}", revision(&object)));
            }
            End::Stored => {}
        }
        Ok(())
    }

    /// Applies the Secret of an object that follows.
    ///
    /// # Errors
    /// The cluster's.
    pub async fn store(&self, secret: Secret, what: &str) -> Result<(), Error> {
        term::action(&format!("applying secret with {what}"));
        self.apply(secret.stored()).await?;
        term::success("authentication configured");
        Ok(())
    }

    /// Applies an object by server-side apply. What others set becomes ours where we set it, too; an object that was suspended
    /// is resumed, as `flux create` does by writing the whole spec.
    ///
    /// # Errors
    /// The cluster's, or that it does not serve the kind.
    pub async fn apply(&self, object: Value) -> Result<(Resource, Object, Change), Error> {
        let mut object = Object::new(object).map_err(Error::new)?;
        let resource = self.resource(&object.gvk()).await?;
        let cluster = self.hub.cluster.as_ref();
        let live = cluster
            .get(&resource, object.namespace(), object.name())
            .await?;
        if live.as_ref().is_some_and(suspended)
            && let Some(Value::Object(spec)) = object.as_map_mut().get_mut("spec")
        {
            spec.insert("suspend".to_owned(), json!(false));
        }
        if let Some(live) = live.as_ref().filter(|live| live.kind() == "Secret") {
            keeps_type(live, &object)?;
        }
        let replaced = live.as_ref().is_some_and(|live| {
            let role = "/roleRef";
            live.pointer(role) != object.pointer(role)
        });
        if replaced {
            // The API server changes no role of a binding.
            let how = Delete::default();
            cluster
                .delete(&resource, object.namespace(), object.name(), &how)
                .await?;
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

    /// Polls an object until its `Ready` is true for what was applied.
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
                    .next("is anybody serving this hub? See the log of driftless serve, or of the reconcile function; or give a longer --timeout"));
            }
            progress.say(format!("{shown}: {message}"));
            tokio::time::sleep(POLL).await;
        }
    }
}

/// Whether a Secret stays of its type: the API server changes none.
///
/// # Errors
/// It would not.
fn keeps_type(live: &Object, object: &Object) -> Result<(), Error> {
    let of = |secret: &Object| text(secret, "/type").unwrap_or_else(|| "Opaque".to_owned());
    let (was, is) = (of(live), of(object));
    if was == is {
        return Ok(());
    }
    let (namespace, name) = (live.namespace(), live.name());
    Err(Error::new(format!(
        "Secret {namespace}/{name} is of the type {was}, which cannot be changed to {is}"
    ))
    .next("delete it first, or choose another name"))
}
