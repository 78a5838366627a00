//! Applies the objects of a release to the cluster, and deletes them.

use super::attempt::Attempt;
use super::definitions::definitions;
use super::objects;
use super::phase::{PhaseError, Step};
use super::plan::Operation;
use driftless_flux::{CrdsPolicy, DeletionPropagation, HELM_CONTROLLER, ObjectRef};
use driftless_helm::record::Release;
use driftless_kernel::applier::{Change, Strategy};
use driftless_kernel::concurrent;
use driftless_kernel::ports::{Patch, Resource};
use driftless_kernel::target::Target;
use driftless_kernel::target::objects::{CONCURRENCY, DELETION_TIME, Item, by_kind};
use driftless_kernel::target::polling::{self, NotEstablished};
use driftless_manifest::{Object, ObjectId};
use driftless_plans::apply::change_detection::helm_fields_patch;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

impl Attempt<'_> {
    /// Applies the chart's CustomResourceDefinitions and waits until they are established.
    pub async fn crds(
        &mut self,
        operation: &Operation,
        policy: CrdsPolicy,
    ) -> Result<Step, PhaseError> {
        let on_server = match operation {
            Operation::Act(action) => self.applies_on_server(action),
            Operation::Uninstall => true,
        };
        let chart = self.chart().await?;
        let mut made = Vec::new();
        for object in definitions(&chart, self.values()?)? {
            made.extend(self.apply_definition(object, policy, on_server).await?);
        }
        let clock = self.context.ports.clock.as_ref();
        let cluster = self.target.cluster.as_ref();
        let made: Vec<&Object> = made.iter().collect();
        match polling::wait_until_established(cluster, clock, &made).await {
            Ok(()) => Ok(Step::Done),
            Err(NotEstablished::Cluster(error)) => Err(error.into()),
            Err(NotEstablished::Late(id, _)) => {
                let name = id.name;
                let message = format!("CustomResourceDefinition {name} is not established in time");
                Err(PhaseError::Failed(message))
            }
            Err(NotEstablished::Deleted(id)) => {
                let message = format!("{id} was deleted while it was applied");
                Err(PhaseError::Failed(message))
            }
        }
    }

    async fn apply_definition(
        &self,
        mut object: Object,
        policy: CrdsPolicy,
        on_server: bool,
    ) -> Result<Option<Object>, PhaseError> {
        let resource = self.resource(&object).await?;
        let (namespace, name) = (object.namespace(), object.name());
        let live = self.target.cluster.get(&resource, namespace, name).await?;
        if live.is_some() && policy == CrdsPolicy::Create {
            return Ok(None);
        }
        object.set_label(super::chart::ORIGIN_NAME, &self.release.id.name);
        object.set_label(super::chart::ORIGIN_NAMESPACE, &self.release.id.namespace);
        let applier = self.target.applier(Strategy::HELM);
        let made = if on_server {
            applier.apply(&resource, &object).await?
        } else {
            let replaced =
                applier.create_or_patch(&resource, &object, Change::Replace, &self.context.fuel);
            replaced.await?
        };
        self.record_applied(live.as_ref(), &made);
        Ok(Some(made))
    }

    /// Returns the API resource of an object's kind.
    ///
    /// # Errors
    /// The cluster does not serve the kind.
    pub async fn resource(&self, object: &Object) -> Result<Resource, PhaseError> {
        let found = self.target.cluster.resource(&object.gvk()).await?;
        found.ok_or_else(|| {
            let (kind, version) = (object.kind(), object.api_version());
            PhaseError::Failed(format!(
                "no matches for kind \"{kind}\" in version \"{version}\""
            ))
        })
    }

    /// Creates the release's namespace if it does not exist.
    pub async fn namespace(&mut self) -> Result<Step, PhaseError> {
        let name = self.release.release_namespace();
        let object = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": {"name": name}}});
        let object = Object::new(object).map_err(|error| PhaseError::Failed(error.to_string()))?;
        let resource = self.resource(&object).await?;
        let live = self.target.cluster.get(&resource, "", name).await?;
        if live.is_none() {
            let applier = self.target.applier(Strategy::HELM);
            let made = applier.apply(&resource, &object).await?;
            self.record_applied(None, &made);
        }
        Ok(Step::Done)
    }

    /// Applies the manifest of the record, and deletes the objects that only the replaced release
    /// had, or an earlier one that failed.
    pub async fn apply(&mut self, operation: &Operation) -> Result<Step, PhaseError> {
        let record = self.record()?;
        let before = self.replaced().ok();
        let wanted = objects::items(
            &self.target,
            &record,
            objects::manifest_error_prefix(operation),
        )
        .await?;
        let old = match &before {
            Some(before) => objects::known_items(&self.target, before).await?.0,
            None => Vec::new(),
        };
        let live = self.live_before(&wanted).await;
        let applied = match record.is_server_side() {
            true => {
                let applied = self.apply_server_side(&wanted, before.as_ref(), &live);
                applied.await?
            }
            false => {
                let applied = self.apply_client_side(operation, &wanted, &old, &live);
                applied.await?
            }
        };
        applied.iter().for_each(|object| self.note_changed(object));
        if let Some(before) = before {
            // The manifests of these two are parsed already.
            let parsed = [record.version, before.version];
            let others = self.storage.since_deployed();
            let others = others.filter(|one| !parsed.contains(&one.version));
            let mut stale = objects::items_of(&self.target, others).await?;
            stale.extend(old);
            let mut seen: BTreeSet<ObjectId> = wanted.iter().map(|one| one.object.id()).collect();
            stale.retain(|item| seen.insert(item.object.id()));
            self.delete_items(&before, &stale, "Background", Duration::MAX)
                .await?;
        }
        Ok(Step::Done)
    }

    async fn apply_server_side(
        &self,
        wanted: &[Item],
        before: Option<&Release>,
        live: &BTreeMap<ObjectId, Object>,
    ) -> Result<Vec<Object>, PhaseError> {
        if let Some(before) = before.filter(|before| !before.is_server_side()) {
            self.take_client_side_fields(before, wanted).await?;
        }
        let mut all = Vec::new();
        for group in by_kind(wanted) {
            let work = group
                .iter()
                .map(|item| apply_one(&self.target, item).boxed());
            let results = concurrent::run(CONCURRENCY, work.collect()).await;
            let applied = results.iter().flatten();
            applied.for_each(|object| self.record_applied(live.get(&object.id()), object));
            for applied in results {
                all.push(applied?);
            }
        }
        Ok(all)
    }

    /// Moves the fields that an older Helm wrote without server-side apply to our field manager, so
    /// that fields that are no longer rendered are removed.
    async fn take_client_side_fields(
        &self,
        before: &Release,
        wanted: &[Item],
    ) -> Result<(), PhaseError> {
        let live = objects::live(&self.target, &self.release, wanted).await?;
        for item in wanted {
            let Some(live) = live.get(&item.object.id()) else {
                continue;
            };
            let patch = helm_fields_patch(live, HELM_CONTROLLER);
            let Some(patch) = patch.filter(|_| objects::owned_by(live, before).is_ok()) else {
                continue;
            };
            let applier = self.target.applier(Strategy::HELM);
            let patch = Patch::Json(patch);
            applier.patch(&item.resource, live, &patch).await?;
        }
        Ok(())
    }

    /// Notes an applied Flux object of the hub, so that it is reconciled next.
    fn note_changed(&mut self, applied: &Object) {
        if self.target.remote {
            return;
        }
        self.changed.extend(ObjectRef::of(applied));
    }

    /// Deletes the objects of the release in reverse order. If the time of the step is over before
    /// that, the next step continues with those that are left.
    pub async fn delete_all(&mut self) -> Result<Step, PhaseError> {
        let record = self.record()?;
        let mut items = objects::possible_items(&self.target, &self.storage).await?;
        items.reverse();
        let propagation = match self.release.uninstall().deletion_propagation {
            None | Some(DeletionPropagation::Background) => "Background",
            Some(DeletionPropagation::Foreground) => "Foreground",
            Some(DeletionPropagation::Orphan) => "Orphan",
        };
        let until = self.start + DELETION_TIME;
        let left = self.delete_items(&record, &items, propagation, until);
        Ok(match left.await? {
            0 => Step::Done,
            left => Step::Waiting(format!("{left} objects that are not deleted yet")),
        })
    }

    /// Deletes objects that belong to a release, kind by kind, except those with
    /// `helm.sh/resource-policy: keep`. The objects of one kind are deleted concurrently. Returns
    /// the number of those that are left at `until`, the time since 1970.
    pub async fn delete_items(
        &self,
        record: &Release,
        items: &[Item],
        propagation: &'static str,
        until: Duration,
    ) -> Result<usize, PhaseError> {
        let (target, clock) = (&self.target, &self.context.ports.clock);
        let live = objects::live_owned(target, &self.release, items).await?;
        let is_ours = |live: &Object| !is_kept(live) && objects::owned_by(live, record).is_ok();
        let is_ours: &(dyn Fn(&Object) -> bool + Sync) = &is_ours;
        let (mut errors, mut left) = (Vec::new(), 0);
        for group in by_kind(items) {
            let found = group
                .iter()
                .filter(|item| !is_kept(&item.object))
                .filter_map(|item| Some((item, live.get(&item.object.id())?)));
            let is_open = |live: &Object| live.meta("deletionTimestamp").is_empty();
            let found = found.filter(|(_, live)| is_open(live) && is_ours(live));
            let is_cut = AtomicBool::new(false);
            let deletions = found.map(|(item, live)| {
                let is_cut = &is_cut;
                async move {
                    if is_cut.load(Ordering::Relaxed) || clock.now() >= until {
                        return Ok(false);
                    }
                    let applier = target.applier(Strategy::HELM);
                    let deletion = applier.delete(&item.resource, live, propagation, is_ours);
                    let deleted = deletion.await.map(|_| true).map_err(PhaseError::from);
                    if deleted.is_ok() {
                        self.record_deleted(live);
                    }
                    if let Err(PhaseError::Transient(_)) = deleted {
                        is_cut.store(true, Ordering::Relaxed);
                    }
                    deleted
                }
                .boxed()
            });
            let deletions: Vec<BoxFuture<'_, Result<bool, PhaseError>>> = deletions.collect();
            for deleted in concurrent::run(CONCURRENCY, deletions).await {
                match deleted {
                    Ok(true) => {}
                    Ok(false) => left += 1,
                    Err(PhaseError::Failed(message)) => errors.push(message),
                    Err(transient) => return Err(transient),
                }
            }
        }
        match errors.is_empty() || left > 0 {
            true => Ok(left),
            false => Err(PhaseError::Failed(format!(
                "uninstallation completed with {} error(s): {}",
                errors.len(),
                errors.join("; ")
            ))),
        }
    }
}

fn is_kept(object: &Object) -> bool {
    let policy = object.annotation("helm.sh/resource-policy");
    policy.is_some_and(|policy| policy.trim().eq_ignore_ascii_case("keep"))
}

async fn apply_one(target: &Target, item: &Item) -> Result<Object, PhaseError> {
    let object = &item.object;
    let applier = target.applier(Strategy::HELM);
    let applied = applier.apply(&item.resource, object).await;
    applied.map_err(|error| match PhaseError::from(error) {
        PhaseError::Failed(message) => PhaseError::Failed(format!(
            "server-side apply failed for object {}/{} {}/{}, Kind={}: {message}",
            object.namespace(),
            object.name(),
            item.resource.gvk.group,
            item.resource.gvk.version,
            object.kind()
        )),
        transient => transient,
    })
}
