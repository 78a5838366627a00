//! Bringing objects into the cluster as Helm does without server-side apply: what is new is created, what is there is patched by
//! what changed since the release before.

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

/// How often an object that others write at the same time is read again.
const TRIES: usize = 5;

/// How an object that is there is changed.
#[derive(Clone, Copy, Debug)]
pub enum Change<'o> {
    /// It becomes what is sent, and nothing else: `force`.
    Replace,
    /// It is moved by what changed since this.
    Since(&'o Object),
    /// It becomes ours: what is sent counts, and what others added stays.
    Adopt,
    /// It stays as it is: Helm patches a kind that it does not know by what changed, and nothing did.
    Keep,
}

impl Attempt<'_> {
    /// Whether an action applies on the server: as the spec says, else as the release of before was applied.
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

    /// Brings the objects of a release into the cluster; `before` are those of the release that it replaces.
    ///
    /// # Errors
    /// Every object that could not be changed.
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
                async move { bring(&self.target, item, change).await }.boxed()
            });
            for brought in concurrent::run(CONCURRENCY, work.collect()).await {
                match brought {
                    Ok(object) => applied.push(object),
                    Err(PhaseError::Failed(why)) => errors.push(why),
                    Err(later) => return Err(later),
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

/// Brings one object to what is sent.
///
/// # Errors
/// The cluster's, in Helm's words.
pub async fn bring(target: &Target, item: &Item, change: Change<'_>) -> Result<Object, PhaseError> {
    let cluster = target.cluster.as_ref();
    let (object, resource) = (&item.object, &item.resource);
    let (namespace, name) = (object.namespace(), object.name());
    let mut last = None;
    for _ in 0..TRIES {
        let Some(live) = cluster.get(resource, namespace, name).await? else {
            match cluster.create(resource, object, HELM_CONTROLLER).await {
                Err(error) if error.kind == ErrorKind::Conflict => last = Some(error),
                Err(error) => return Err(worded(error, "failed to create resource")),
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
            Err(error) => return Err(worded(error, &describe(object, change))),
            Ok(patched) => return Ok(patched),
        }
    }
    let what = describe(object, change);
    let gone = || PortError::new(ErrorKind::Conflict, "it is written by others all the time");
    Err(worded(last.unwrap_or_else(gone), &what))
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

fn worded(error: PortError, tried: &str) -> PhaseError {
    match PhaseError::from(error) {
        PhaseError::Failed(why) => PhaseError::Failed(format!("{tried}: {why}")),
        later => later,
    }
}
