//! Applies objects as Helm does without server-side apply: creates new objects, and patches
//! existing ones with the changes since the previous release.

use super::action::Action;
use super::attempt::Attempt;
use super::phase::PhaseError;
use super::plan::Operation;
use driftless_helm::record::Release;
use driftless_kernel::applier::{Change, Strategy};
use driftless_kernel::concurrent;
use driftless_kernel::target::objects::{CONCURRENCY, Item, by_kind};
use driftless_manifest::{Object, ObjectId};
use driftless_plans::apply::three_way::is_known;
use futures::FutureExt as _;
use std::collections::BTreeMap;

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

    /// Applies the objects of a release; `before` has the objects of the release that it replaces,
    /// `live` the live objects, for the journal.
    ///
    /// # Errors
    /// The errors of all objects that could not be changed.
    pub async fn apply_client_side(
        &self,
        operation: &Operation,
        wanted: &[Item],
        before: &[Item],
        live: &BTreeMap<ObjectId, Object>,
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
                let applier = self.target.applier(Strategy::HELM);
                let fuel = &self.context.fuel;
                async move {
                    let (resource, object) = (&item.resource, &item.object);
                    let changed = applier.create_or_patch(resource, object, change, fuel);
                    changed.await.map_err(PhaseError::from)
                }
                .boxed()
            });
            for result in concurrent::run(CONCURRENCY, work.collect()).await {
                match result {
                    Ok(object) => {
                        self.record_applied(live.get(&object.id()), &object);
                        applied.push(object);
                    }
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
