//! Applies objects as Helm does without server-side apply: creates new objects, and patches
//! existing ones with the changes since the previous release.

use super::action::Action;
use super::attempt::Attempt;
use super::memory::Operation;
use super::run::PhaseError;
use crate::apply::three_way::{is_known, replacement, three_way, two_way};
use crate::concurrent;
use crate::flux::HELM_CONTROLLER;
use crate::ports::{ErrorKind, Patch, PortError};
use crate::target::Target;
use crate::target::objects::{CONCURRENCY, Item, by_kind};
use driftless_helm::record::Release;
use driftless_manifest::{Object, ObjectId};
use futures::FutureExt as _;
use serde_json::Value;
use std::collections::BTreeMap;

/// The number of attempts to write an object that other clients write at the same time.
const MAX_ATTEMPTS: usize = 5;

/// The way in which an existing object is changed.
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

impl Attempt<'_> {
    /// Returns whether an action uses server-side apply: by the spec, else like the previous
    /// release.
    pub fn applies_on_server(&self, action: &Action) -> bool {
        let was = |record: Option<&Release>| record.is_some_and(Release::is_server_side);
        match action {
            Action::Install => {
                let helm3 = self.context.hub.settings.helm3_defaults;
                self.release.install_server_side(!helm3)
            }
            Action::Upgrade => self.release.upgrade_server_side(was(self.storage.last())),
            Action::Rollback(target) => {
                let target = self.storage.get(target.version);
                self.release.rollback_server_side(was(target))
            }
            _ => true,
        }
    }

    /// Applies the objects of a release; `before` has the objects of the release that it replaces.
    ///
    /// # Errors
    /// The errors of all objects that could not be changed.
    pub async fn apply_client_side(
        &self,
        operation: &Operation,
        wanted: &[Item],
        before: &[Item],
    ) -> Result<Vec<Object>, PhaseError> {
        let (force, is_install) = match operation {
            Operation::Act(Action::Upgrade) => (self.release.upgrade().force, false),
            Operation::Act(Action::Rollback(_)) => (self.release.rollback().force, false),
            _ => (false, true),
        };
        let before: BTreeMap<ObjectId, &Object> = before
            .iter()
            .map(|item| (item.object.id(), &item.object))
            .collect();
        let change = |item: &Item| match before.get(&item.object.id()) {
            _ if force => Change::Replace,
            Some(before) => Change::Since(before),
            None if is_install || is_known(&item.object) => Change::Adopt,
            None => Change::Keep,
        };
        let mut applied = Vec::new();
        let mut errors = Vec::new();
        for group in by_kind(wanted) {
            let work = group.iter().map(|item| {
                let change = change(item);
                async move { create_or_patch(&self.target, item, change).await }.boxed()
            });
            for result in concurrent::run(CONCURRENCY, work.collect()).await {
                match result {
                    Ok(object) => applied.push(object),
                    Err(PhaseError::Failed(message)) => errors.push(message),
                    Err(transient) => return Err(transient),
                }
            }
        }
        errors.sort();
        match errors.is_empty() {
            true => Ok(applied),
            false => Err(PhaseError::Failed(errors.join(" && "))),
        }
    }
}

/// Creates an object, or changes the existing one.
///
/// # Errors
/// The cluster's, with Helm's prefix.
pub async fn create_or_patch(
    target: &Target,
    item: &Item,
    change: Change<'_>,
) -> Result<Object, PhaseError> {
    let cluster = target.cluster.as_ref();
    let (object, resource) = (&item.object, &item.resource);
    let (namespace, name) = (object.namespace(), object.name());
    let mut last = None;
    for _ in 0..MAX_ATTEMPTS {
        let Some(live) = cluster.get(resource, namespace, name).await? else {
            match cluster.create(resource, object, HELM_CONTROLLER).await {
                Err(error) if error.kind == ErrorKind::Conflict => last = Some(error),
                Err(error) => return Err(with_prefix(error, "failed to create resource")),
                Ok(created) => return Ok(created),
            }
            continue;
        };
        let Some(patch) = patch(object, &live, change) else {
            return Ok(live);
        };
        let patch = Patch::Merge(patch);
        let patched = cluster.patch(resource, namespace, name, None, &patch, HELM_CONTROLLER);
        match patched.await {
            Err(error) if matches!(error.kind, ErrorKind::Conflict | ErrorKind::NotFound) => {
                last = Some(error);
            }
            Err(error) => return Err(with_prefix(error, &describe(object, change))),
            Ok(patched) => return Ok(patched),
        }
    }
    let conflict = || {
        PortError::new(
            ErrorKind::Conflict,
            "other clients change the object all the time",
        )
    };
    Err(with_prefix(
        last.unwrap_or_else(conflict),
        &describe(object, change),
    ))
}

fn patch(object: &Object, live: &Object, change: Change<'_>) -> Option<Value> {
    match change {
        Change::Replace => replacement(object, live),
        Change::Keep => None,
        Change::Adopt => three_way(object, object, live),
        Change::Since(before) if is_known(object) => three_way(before, object, live),
        Change::Since(before) => two_way(before, object),
    }
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

fn with_prefix(error: PortError, prefix: &str) -> PhaseError {
    match PhaseError::from(error) {
        PhaseError::Failed(message) => PhaseError::Failed(format!("{prefix}: {message}")),
        transient => transient,
    }
}
