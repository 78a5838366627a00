//! The one writer of users' objects: applies them by a [`Strategy`], patches them as Helm does,
//! and deletes exactly the object that was read.
//!
//! Strategies are values: a caller that applies as another field manager has another value, and
//! not another call of [`Cluster::apply`].

use crate::ports::{
    ApplyRequest, Cluster, Delete, Deleted, ErrorKind, Patch, PatchRequest, PortError, Resource,
    Result,
};
use driftless_flux::{HELM_CONTROLLER, KUSTOMIZE_CONTROLLER, shorten};
use driftless_fuel::{OutOfFuel, Tank};
use driftless_manifest::Object;
use driftless_plans::apply::three_way::{is_known, replacement, three_way, two_way};
use serde_json::Value;
use std::sync::atomic::{AtomicUsize, Ordering};
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

/// The most writes of one step to one cluster that have a span. Of more writes, the span of the
/// step has the number of those without one.
const MAX_SPANS: usize = 200;
/// The most bytes of the name of an object in a span.
const MAX_NAME: usize = 400;

/// The number of tries of a delete or patch of an object that other clients change at the same
/// time.
const TRIES: usize = 5;

/// The way in which a writer applies objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strategy {
    /// The name of the field manager.
    pub manager: &'static str,
    /// True if fields that other managers own are taken over.
    pub force: bool,
}

impl Strategy {
    /// Applies as kustomize-controller does.
    pub const KUSTOMIZE: Self = Self::forcing(KUSTOMIZE_CONTROLLER);
    /// Applies as helm-controller does.
    pub const HELM: Self = Self::forcing(HELM_CONTROLLER);

    /// Returns the strategy of a manager that takes fields from other managers.
    pub const fn forcing(manager: &'static str) -> Self {
        Self {
            manager,
            force: true,
        }
    }

    /// Returns the strategy of a manager that is refused with a conflict if the object sets a field
    /// of another manager to another value.
    pub const fn without_force(manager: &'static str) -> Self {
        Self {
            manager,
            force: false,
        }
    }
}

/// The change of an existing object when Helm applies without server-side apply.
#[derive(Clone, Copy, Debug)]
pub enum Change<'o> {
    /// Replace the object by the rendered one (`force`).
    Replace,
    /// Apply the changes between this previous object and the rendered one.
    Since(&'o Object),
    /// Take the object over: rendered fields win, and fields that others added stay.
    Adopt,
    /// Leave the object unchanged: Helm patches a kind that it does not know with the changes since
    /// the previous release, and there are none.
    Keep,
}

/// The error of [`Applier::create_or_patch`].
#[derive(Debug)]
pub struct NotChanged {
    /// The attempted change, in Helm's words; `None` if the object could not be read.
    pub attempt: Option<String>,
    /// The error of the cluster.
    pub error: PortError,
}

impl From<PortError> for NotChanged {
    fn from(error: PortError) -> Self {
        Self {
            attempt: None,
            error,
        }
    }
}

/// The spans of a step's writes to one cluster.
#[derive(Debug)]
pub struct WriteSpans {
    cluster: String,
    count: AtomicUsize,
    /// The span of the step.
    step: Span,
}

impl WriteSpans {
    /// Returns the spans of writes to a cluster of this name, below the current span.
    pub fn new(cluster: String) -> Self {
        Self {
            cluster,
            count: AtomicUsize::new(0),
            step: Span::current(),
        }
    }

    /// Returns the span of a write; one that is disabled if the step has too many.
    fn of(&self, action: &'static str, object: &Object) -> Span {
        let before = self.count.fetch_add(1, Ordering::Relaxed);
        if before >= MAX_SPANS {
            self.step
                .record("writes_without_span", before + 1 - MAX_SPANS);
            return Span::none();
        }
        tracing::trace_span!(
            "write",
            otel.kind = "client",
            otel.status_code = Empty,
            cluster = self.cluster,
            object = shorten(&object.id().to_string(), MAX_NAME),
            action,
        )
    }
}

/// Writes objects to a cluster by a strategy.
#[derive(Clone, Copy)]
pub struct Applier<'c> {
    cluster: &'c dyn Cluster,
    strategy: Strategy,
    spans: Option<&'c WriteSpans>,
}

impl<'c> Applier<'c> {
    /// Returns an applier that writes to a cluster by a strategy.
    pub fn new(cluster: &'c dyn Cluster, strategy: Strategy) -> Self {
        Self {
            cluster,
            strategy,
            spans: None,
        }
    }

    /// Adds a span for each write.
    #[must_use]
    pub fn with_spans(self, spans: &'c WriteSpans) -> Self {
        Self {
            spans: Some(spans),
            ..self
        }
    }

    /// Makes a write in its span.
    async fn traced<T>(
        &self,
        action: &'static str,
        object: &Object,
        write: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let span = self
            .spans
            .map_or_else(Span::none, |spans| spans.of(action, object));
        let written = write.instrument(span.clone()).await;
        if written.is_err() {
            span.record("otel.status_code", "ERROR");
        }
        written
    }

    /// Applies an object by server-side apply, and returns the live object.
    ///
    /// # Errors
    /// The errors of the cluster.
    pub async fn apply(&self, resource: &Resource, object: &Object) -> Result<Object> {
        let applied = self.server_side(resource, object, false);
        self.traced("apply", object, applied).await
    }

    /// Returns the object that an apply would store.
    ///
    /// # Errors
    /// The errors that the apply would have.
    pub async fn dry_run(&self, resource: &Resource, object: &Object) -> Result<Object> {
        self.server_side(resource, object, true).await
    }

    async fn server_side(
        &self,
        resource: &Resource,
        object: &Object,
        dry_run: bool,
    ) -> Result<Object> {
        let Strategy { manager, force } = self.strategy;
        let request = ApplyRequest {
            resource,
            object,
            manager,
            force,
            dry_run,
        };
        self.cluster.apply(&request).await
    }

    /// Creates an object.
    ///
    /// # Errors
    /// The errors of the cluster; a conflict if the object exists.
    pub async fn create(&self, resource: &Resource, object: &Object) -> Result<Object> {
        let manager = self.strategy.manager;
        let created = self.cluster.create(resource, object, manager);
        self.traced("create", object, created).await
    }

    /// Changes the live object of the same name by a patch.
    ///
    /// # Errors
    /// The errors of the cluster; "not found" if the object does not exist.
    pub async fn patch(
        &self,
        resource: &Resource,
        object: &Object,
        patch: &Patch,
    ) -> Result<Object> {
        let (namespace, name) = (object.namespace(), object.name());
        let manager = self.strategy.manager;
        let request = PatchRequest {
            resource,
            namespace,
            name,
            subresource: None,
            patch,
            manager,
        };
        let patched = self.cluster.patch(&request);
        self.traced("patch", object, patched).await
    }

    /// Creates an object, or changes the existing one as Helm does without server-side apply: by a
    /// merge patch with the changes since the previous release.
    ///
    /// # Errors
    /// The errors of the cluster, with the attempted change; the merge needs more work than the
    /// fuel of the step has.
    pub async fn create_or_patch(
        &self,
        resource: &Resource,
        object: &Object,
        change: Change<'_>,
        step: &Tank,
    ) -> std::result::Result<Object, NotChanged> {
        let failed = |attempt: &str, error| NotChanged {
            attempt: Some(attempt.to_owned()),
            error,
        };
        let attempt = describe(object, change);
        let mut last = None;
        for _ in 0..TRIES {
            let live = self
                .cluster
                .get(resource, object.namespace(), object.name());
            let Some(live) = live.await? else {
                match self.create(resource, object).await {
                    Err(error) if error.kind == ErrorKind::Conflict => last = Some(error),
                    Err(error) => return Err(failed("failed to create resource", error)),
                    Ok(created) => return Ok(created),
                }
                continue;
            };
            let merged = patch(object, &live, change, step);
            let merged = merged.map_err(|out| {
                let message = format!("merging the object with the live one needs {out}");
                failed(&attempt, PortError::new(ErrorKind::Invalid, message))
            })?;
            let Some(patch) = merged else {
                return Ok(live);
            };
            match self.patch(resource, object, &Patch::Merge(patch)).await {
                Err(error) if matches!(error.kind, ErrorKind::Conflict | ErrorKind::NotFound) => {
                    last = Some(error);
                }
                Err(error) => return Err(failed(&attempt, error)),
                Ok(patched) => return Ok(patched),
            }
        }
        let conflict = || {
            let message = "other clients change the object all the time";
            PortError::new(ErrorKind::Conflict, message)
        };
        Err(failed(&attempt, last.unwrap_or_else(conflict)))
    }

    /// Deletes the object that was read, and not a later one of the same name. If it was changed
    /// meanwhile, it is read again, and deleted if it still `is_ours`. An object that is gone is
    /// not an error.
    ///
    /// # Errors
    /// The errors of the cluster; a conflict if the object is no longer ours, or changes
    /// continually.
    pub async fn delete(
        &self,
        resource: &Resource,
        live: &Object,
        propagation: &'static str,
        is_ours: &(dyn Fn(&Object) -> bool + Sync),
    ) -> Result<Deleted> {
        let deleted = self.delete_read(resource, live, propagation, is_ours);
        self.traced("delete", live, deleted).await
    }

    async fn delete_read(
        &self,
        resource: &Resource,
        live: &Object,
        propagation: &'static str,
        is_ours: &(dyn Fn(&Object) -> bool + Sync),
    ) -> Result<Deleted> {
        let (uid, namespace, name) = (live.meta("uid"), live.namespace(), live.name());
        let mut version = live.meta("resourceVersion").to_owned();
        let mut tries = 0;
        loop {
            let options = Delete {
                uid: Some(uid.to_owned()),
                resource_version: Some(version),
                propagation: Some(propagation),
            };
            let deletion = self.cluster.delete(resource, namespace, name, &options);
            let error = match deletion.await {
                Err(error) if error.kind == ErrorKind::NotFound => return Ok(Deleted::Gone),
                Err(error) if error.kind == ErrorKind::Conflict && tries < TRIES => error,
                deleted => return deleted,
            };
            tries += 1;
            match self.cluster.get(resource, namespace, name).await? {
                None => return Ok(Deleted::Gone),
                Some(other) if other.meta("uid") != uid => return Ok(Deleted::Gone),
                Some(changed) if is_ours(&changed) => {
                    version = changed.meta("resourceVersion").to_owned();
                }
                Some(_) => return Err(error),
            }
        }
    }
}

/// Returns the merge patch of a change; `None` if it changes nothing.
fn patch(
    object: &Object,
    live: &Object,
    change: Change<'_>,
    step: &Tank,
) -> std::result::Result<Option<Value>, OutOfFuel> {
    Ok(match change {
        Change::Replace => replacement(object, live),
        Change::Keep => None,
        Change::Adopt => three_way(object, object, live, step)?,
        Change::Since(before) if is_known(object) => three_way(before, object, live, step)?,
        Change::Since(before) => two_way(before, object),
    })
}

fn describe(object: &Object, change: Change<'_>) -> String {
    match change {
        Change::Replace => "failed to replace object".to_owned(),
        _ => format!(
            "cannot patch \"{}\" with kind {}",
            object.name(),
            object.kind()
        ),
    }
}
