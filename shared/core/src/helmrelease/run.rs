//! Running an action phase by phase. What takes longer than the step's patience goes on with another message: the cursor says where.

use super::action::Action;
use super::attempt::Attempt;
use super::memory::Doing;
use super::objects::{self, CONCURRENCY, Item};
use super::plan::{self, Phase};
use super::render::{self, Order};
use crate::apply::drift::helm_fields_patch;
use crate::concurrent;
use crate::failure::Failure;
use crate::flux::{CrdsPolicy, DeletionPropagation, FluxKind, HELM_CONTROLLER, ObjectRef, reason};
use crate::ports::{Apply, Delete, ErrorKind, Patch, PortError, Resource};
use crate::target::Target;
use driftless_helm::Compat;
use driftless_helm::record::{NewRelease, Release, Status, Time};
use driftless_helm::values::{Table, merge};
use driftless_manifest::yaml::{Dialect, Limits, documents};
use driftless_manifest::{Gvk, Object, ObjectId};
use futures::FutureExt as _;
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

/// How Helm applies: fields are taken from whoever holds them.
pub const WRITE: Apply<'_> = Apply {
    manager: HELM_CONTROLLER,
    force: true,
    dry_run: false,
};
/// How long definitions may take to be served.
const ESTABLISHED: Duration = Duration::from_secs(20);

/// Why an action stopped.
#[derive(Debug)]
pub enum Broken {
    /// It failed, and the release with it.
    Failed(String),
    /// The cluster could not be asked: the action goes on later where it is.
    Later(Failure),
}

impl From<PortError> for Broken {
    fn from(error: PortError) -> Self {
        match error.kind {
            ErrorKind::Unavailable | ErrorKind::RateLimited | ErrorKind::Unreadable => {
                Self::Later(Failure::port(reason::FAILED, &error))
            }
            _ => Self::Failed(error.message),
        }
    }
}

/// How far a phase came.
pub enum Step {
    /// It is done.
    Done,
    /// It waits for this.
    Waiting(String),
}

/// How far an action came.
pub enum Progress {
    /// It is over; why it failed, if it did.
    Over(Option<String>),
    /// It waits for this.
    Waiting(String),
}

impl Attempt<'_> {
    /// Goes on with the action that is under way.
    ///
    /// # Errors
    /// What makes it go on later.
    pub async fn advance(&mut self, doing: &Doing) -> Result<Progress, Failure> {
        let phases = doing.phases(&self.release);
        while let Some(phase) = phases.get(self.running()?.cursor.phase).copied() {
            match self.phase(doing, phase).await {
                Ok(Step::Done) => self.running()?.cursor.next_phase(),
                Ok(Step::Waiting(what)) => {
                    self.flush().await?;
                    return Ok(Progress::Waiting(what));
                }
                Err(Broken::Later(failure)) => return Err(failure),
                Err(Broken::Failed(error)) => {
                    self.fail(doing, phase, &error).await?;
                    return Ok(Progress::Over(Some(error)));
                }
            }
        }
        Ok(Progress::Over(None))
    }

    async fn phase(&mut self, doing: &Doing, phase: Phase) -> Result<Step, Broken> {
        match phase {
            Phase::Crds(policy) => self.crds(policy).await,
            Phase::Namespace => self.namespace().await,
            Phase::WriteRecord => self.write_record(doing).await,
            Phase::Hooks(event) => self.hooks(event).await,
            Phase::Apply => self.apply().await,
            Phase::Wait { jobs } => self.wait(jobs).await,
            Phase::Delete => self.delete_all().await,
            Phase::WaitGone => self.wait_gone().await,
            Phase::Supersede => self.supersede(doing).await,
            Phase::Finish => self.finish_record(doing).await,
            Phase::Purge => self.purge().await,
            Phase::Correct => self.correct().await,
        }
    }

    /// The record that the action makes, or is done to.
    pub fn record(&self) -> Result<Release, Broken> {
        let running = self.memory.running.as_ref();
        let version = running.map_or(0, |running| running.record);
        let found = self.storage.get(version).cloned();
        found.ok_or_else(|| {
            Broken::Failed(format!(
                "release {} has no revision {version}: release: not found",
                self.release.release_name()
            ))
        })
    }

    /// Writes a record and notes that the action did.
    pub async fn write(&mut self, record: Release) -> Result<(), PortError> {
        let version = record.version;
        let now = self.context.ports.clock.now();
        self.storage.write(&self.target, record, now).await?;
        self.dirty = false;
        if let Some(running) = &mut self.memory.running {
            running.wrote(version);
        }
        Ok(())
    }

    /// Writes what was only noted in the record so far.
    async fn flush(&mut self) -> Result<(), Failure> {
        if self.dirty
            && let Ok(record) = self.record()
        {
            self.write(record).await?;
        }
        Ok(())
    }

    fn moment(&self) -> Time {
        let now = self.context.ports.clock.now();
        let at = jiff::Timestamp::from_duration(now.try_into().unwrap_or_default());
        Time::utc(at.unwrap_or(jiff::Timestamp::UNIX_EPOCH))
    }

    async fn crds(&mut self, policy: CrdsPolicy) -> Result<Step, Broken> {
        let chart = self.chart().await?;
        let found = driftless_helm::definitions(&chart, self.values()?, Compat::Helm4);
        let mut made = Vec::new();
        for (name, text) in found.map_err(|error| Broken::Failed(error.to_string()))? {
            let failed = |error: &dyn std::fmt::Display| {
                Broken::Failed(format!(
                    "failed to parse CustomResourceDefinition {name}: {error}"
                ))
            };
            let values = documents(text.as_bytes(), &name, Dialect::V2, &Limits::default());
            for value in values.map_err(|error| failed(&error))? {
                if value.is_null() {
                    continue;
                }
                let object = Object::new(value).map_err(|error| failed(&error))?;
                made.extend(self.definition(object, policy).await?);
            }
        }
        let clock = &self.context.ports.clock;
        let end = clock.now() + ESTABLISHED;
        for (resource, name) in made {
            loop {
                let live = self.target.cluster.get(&resource, "", &name).await?;
                if live.is_some_and(|live| crate::health::is_current(&live)) {
                    break;
                }
                if clock.now() >= end {
                    let what =
                        format!("CustomResourceDefinition {name} is not established in time");
                    return Err(Broken::Failed(what));
                }
                clock.sleep(Duration::from_millis(100)).await;
            }
        }
        Ok(Step::Done)
    }

    async fn definition(
        &self,
        mut object: Object,
        policy: CrdsPolicy,
    ) -> Result<Option<(Resource, String)>, Broken> {
        let resource = self.resource(&object).await?;
        let name = object.name().to_owned();
        let there = self
            .target
            .cluster
            .get(&resource, object.namespace(), &name)
            .await?;
        if there.is_some() && policy == CrdsPolicy::Create {
            return Ok(None);
        }
        object.set_label(super::chart::ORIGIN_NAME, &self.release.id.name);
        object.set_label(super::chart::ORIGIN_NAMESPACE, &self.release.id.namespace);
        self.target.cluster.apply(&resource, &object, WRITE).await?;
        Ok(Some((resource, name)))
    }

    /// The kind of an object in the cluster.
    ///
    /// # Errors
    /// It is not served.
    pub async fn resource(&self, object: &Object) -> Result<Resource, Broken> {
        let found = self.target.cluster.resource(&object.gvk()).await?;
        found.ok_or_else(|| {
            let (kind, version) = (object.kind(), object.api_version());
            Broken::Failed(format!(
                "no matches for kind \"{kind}\" in version \"{version}\""
            ))
        })
    }

    async fn namespace(&mut self) -> Result<Step, Broken> {
        let name = self.release.release_namespace();
        let object = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": {"name": name}}});
        let object = Object::new(object).map_err(|error| Broken::Failed(error.to_string()))?;
        let resource = self.resource(&object).await?;
        let there = self.target.cluster.get(&resource, "", name).await?;
        if there.is_none() {
            self.target.cluster.apply(&resource, &object, WRITE).await?;
        }
        Ok(Step::Done)
    }

    async fn write_record(&mut self, doing: &Doing) -> Result<Step, Broken> {
        let is_new = matches!(
            doing,
            Doing::Act(Action::Install | Action::Upgrade | Action::Rollback(_))
        );
        let record = match doing {
            Doing::Act(Action::Install) => self.new_install().await?,
            Doing::Act(Action::Upgrade) => self.new_upgrade().await?,
            Doing::Act(Action::Rollback(target)) => self.new_rollback(target.version)?,
            Doing::Act(Action::Unlock) => {
                let mut record = self.record()?;
                super::outcome::unlock(&mut record);
                record
            }
            Doing::Act(Action::Test | Action::CorrectDrift) => self.record()?,
            Doing::Act(Action::UninstallRemediation) | Doing::Uninstall => {
                let mut record = self.record()?;
                record.info.deleted = Some(self.moment());
                record.set_status(
                    Status::Uninstalling,
                    "Deletion in progress (or silently failed)",
                );
                record
            }
        };
        if is_new {
            self.check_ownership(doing, &record).await?;
            let most = self.release.max_history();
            self.storage.make_room(&self.target, most).await?;
        }
        self.write(record).await?;
        // From here on a dead writer leaves something behind: the memory must know of it.
        self.remember().await.map_err(Broken::Later)?;
        Ok(Step::Done)
    }

    async fn new_install(&mut self) -> Result<Release, Broken> {
        let install = self.release.install().into_owned();
        if self.storage.last().is_some() && !install.replace && !self.may_reuse_name() {
            return Err(Broken::Failed(
                "cannot reuse a name that is still in use".to_owned(),
            ));
        }
        let values = self.values()?.clone();
        let check_schema = !install.disable_schema_validation;
        self.made(values, false, check_schema).await
    }

    /// Flux installs over what was uninstalled with its history kept, or failed.
    fn may_reuse_name(&self) -> bool {
        let last = self.storage.last().map(|last| &last.info.status);
        matches!(last, Some(Status::Uninstalled | Status::Failed))
    }

    async fn new_upgrade(&mut self) -> Result<Release, Broken> {
        let upgrade = self.release.upgrade().into_owned();
        let mut values = self.values()?.clone();
        let current = self.replaced()?;
        if upgrade.preserve_values {
            // The values of before, and the new ones over them; the chart's own values stay those of before, too.
            let before = merge(current.chart.values.clone(), current.config.clone());
            let mut chart = self.chart().await?.as_ref().clone();
            chart.values = before;
            self.loaded = Some(chart.into());
            values = merge(current.config.clone(), values);
        }
        let check_schema = !upgrade.disable_schema_validation;
        self.made(values, true, check_schema).await
    }

    /// The release that an upgrade or rollback replaces.
    fn replaced(&self) -> Result<Release, Broken> {
        let running = self.memory.running.as_ref();
        let version = running.and_then(|running| running.replaces);
        let found = version
            .and_then(|version| self.storage.get(version))
            .cloned();
        found.ok_or_else(|| {
            let name = self.release.release_name();
            Broken::Failed(format!("\"{name}\" has no deployed releases"))
        })
    }

    async fn made(
        &mut self,
        values: Table,
        is_upgrade: bool,
        check_schema: bool,
    ) -> Result<Release, Broken> {
        let chart = self.chart().await?;
        let version = self
            .memory
            .running
            .as_ref()
            .map_or(1, |running| running.record);
        let order = Order {
            chart: &chart,
            values: &values,
            revision: version,
            is_upgrade,
            check_schema,
        };
        let ports = self.context.ports;
        let rendered = render::render(ports, &self.target, &self.release, &order).await?;
        let first = match is_upgrade {
            true => self.replaced()?.info.first_deployed,
            false => None,
        };
        let new = NewRelease {
            name: self.release.release_name(),
            namespace: self.release.release_namespace().to_owned(),
            version,
            first_deployed: first,
            now: self.moment(),
            labels: Default::default(),
            server_side: true,
        };
        Ok(match is_upgrade {
            true => new.upgrade(&chart, &rendered, values),
            false => new.install(&chart, &rendered, values),
        })
    }

    fn new_rollback(&self, to: i64) -> Result<Release, Broken> {
        let current = self.replaced()?;
        let target = self.storage.get(to);
        let target =
            target.ok_or_else(|| Broken::Failed(format!("release has no {to} version")))?;
        Ok(target.rollback_from(&current, self.moment(), true))
    }

    /// Objects that are there and belong to nobody or somebody else are taken over, unless that is switched off.
    async fn check_ownership(&self, doing: &Doing, record: &Release) -> Result<(), Broken> {
        let items = objects::items(&self.target, record).await?;
        let (verb, switched_off) = match doing {
            Doing::Act(Action::Install) => {
                ("install", self.release.install().disable_take_ownership)
            }
            Doing::Act(Action::Upgrade) => {
                ("update", self.release.upgrade().disable_take_ownership)
            }
            _ => ("", false),
        };
        if !switched_off {
            return Ok(());
        }
        let live = objects::live(&self.target, &self.release, &items).await?;
        for live in live.values() {
            objects::owned_by(live, record).map_err(|why| {
                let (kind, name, namespace) = (live.kind(), live.name(), live.namespace());
                Broken::Failed(format!(
                    "Unable to continue with {verb}: {kind} \"{name}\" in namespace \"{namespace}\" exists and cannot be \
                     imported into the current release: {why}"
                ))
            })?;
        }
        Ok(())
    }

    async fn apply(&mut self) -> Result<Step, Broken> {
        let record = self.record()?;
        let before = self.replaced().ok();
        let wanted = objects::items(&self.target, &record).await?;
        if let Some(before) = before.as_ref().filter(|before| !before.is_server_side()) {
            self.take_client_side_fields(before, &wanted).await?;
        }
        for group in by_kind(&wanted) {
            let work = group
                .iter()
                .map(|item| apply_one(&self.target, item).boxed());
            for applied in concurrent::run(CONCURRENCY, work.collect()).await {
                self.note(&applied?);
            }
        }
        if let Some(before) = before {
            let (old, _) = objects::known_items(&self.target, &before).await?;
            let kept: BTreeSet<ObjectId> = wanted.iter().map(|item| item.object.id()).collect();
            let stale = old
                .into_iter()
                .filter(|item| !kept.contains(&item.object.id()));
            let stale: Vec<Item> = stale.collect();
            self.delete_items(&before, &stale, "Background").await?;
        }
        Ok(Step::Done)
    }

    /// What an older Helm sent without server-side apply becomes ours, so that fields that are no longer rendered really go.
    async fn take_client_side_fields(
        &self,
        before: &Release,
        wanted: &[Item],
    ) -> Result<(), Broken> {
        let live = objects::live(&self.target, &self.release, wanted).await?;
        for item in wanted {
            let Some(live) = live.get(&item.object.id()) else {
                continue;
            };
            let patch = helm_fields_patch(live, HELM_CONTROLLER);
            let Some(patch) = patch.filter(|_| objects::owned_by(live, before).is_ok()) else {
                continue;
            };
            let (namespace, name) = (live.namespace(), live.name());
            let patch = Patch::Json(patch);
            self.target
                .cluster
                .patch(
                    &item.resource,
                    namespace,
                    name,
                    None,
                    &patch,
                    HELM_CONTROLLER,
                )
                .await?;
        }
        Ok(())
    }

    /// Flux objects of the hub that were applied are looked at next.
    fn note(&mut self, applied: &Object) {
        if self.target.remote {
            return;
        }
        let gvk = Gvk {
            version: String::new(),
            ..applied.gvk()
        };
        if let Some(kind) = FluxKind::of(&gvk) {
            let id = ObjectRef::new(kind, applied.namespace(), applied.name());
            self.woken.push(id);
        }
    }

    async fn delete_all(&mut self) -> Result<Step, Broken> {
        let record = self.record()?;
        let (mut items, _) = objects::known_items(&self.target, &record).await?;
        items.reverse();
        let propagation = match self.release.uninstall().deletion_propagation {
            None | Some(DeletionPropagation::Background) => "Background",
            Some(DeletionPropagation::Foreground) => "Foreground",
            Some(DeletionPropagation::Orphan) => "Orphan",
        };
        self.delete_items(&record, &items, propagation).await?;
        Ok(Step::Done)
    }

    /// Deletes objects that belong to a release, one after the other, but those that say that they are kept.
    async fn delete_items(
        &self,
        record: &Release,
        items: &[Item],
        propagation: &'static str,
    ) -> Result<(), Broken> {
        let live = objects::live(&self.target, &self.release, items).await?;
        let mut errors = Vec::new();
        for item in items {
            let Some(live) = live.get(&item.object.id()) else {
                continue;
            };
            if is_kept(&item.object) || is_kept(live) || objects::owned_by(live, record).is_err() {
                continue;
            }
            match delete_one(&self.target, &item.resource, live, propagation).await {
                Ok(()) => {}
                Err(error) => match Broken::from(error) {
                    Broken::Failed(why) => errors.push(why),
                    later => return Err(later),
                },
            }
        }
        match errors.is_empty() {
            true => Ok(()),
            false => Err(Broken::Failed(format!(
                "uninstallation completed with {} error(s): {}",
                errors.len(),
                errors.join("; ")
            ))),
        }
    }

    async fn supersede(&mut self, doing: &Doing) -> Result<Step, Broken> {
        let own = self.record()?.version;
        let replaced = self
            .memory
            .running
            .as_ref()
            .and_then(|running| running.replaces);
        let versions = match doing {
            Doing::Act(Action::Upgrade) => replaced.into_iter().collect(),
            _ => self.storage.all_deployed(),
        };
        for version in versions.into_iter().filter(|version| *version != own) {
            if let Some(mut record) = self.storage.get(version).cloned() {
                record.info.status = Status::Superseded;
                self.write(record).await?;
            }
        }
        Ok(Step::Done)
    }

    async fn finish_record(&mut self, doing: &Doing) -> Result<Step, Broken> {
        let mut record = self.record()?;
        let (status, description) = match doing {
            Doing::Act(action @ (Action::Install | Action::Upgrade | Action::Rollback(_))) => {
                (Status::Deployed, plan::success_description(action))
            }
            _ => (Status::Uninstalled, Some("Uninstallation complete")),
        };
        let description =
            description.map_or_else(|| record.info.description.clone(), str::to_owned);
        record.set_status(status, description);
        self.write(record).await?;
        Ok(Step::Done)
    }

    async fn purge(&mut self) -> Result<Step, Broken> {
        self.purged = self.storage.purge(&self.target).await?;
        Ok(Step::Done)
    }

    /// What a failure leaves: the record says it, objects that were created are taken away when that is asked for.
    async fn fail(&mut self, doing: &Doing, phase: Phase, error: &str) -> Result<(), Failure> {
        let running = self.running()?;
        let wrote = running.written.contains(&running.record);
        let Ok(mut record) = self.record() else {
            return Ok(());
        };
        let Doing::Act(action) = doing else {
            return Ok(());
        };
        match action {
            Action::Install | Action::Upgrade | Action::Rollback(_) if wrote => {
                if plan::cleans_up(action, &self.release)
                    && let Err(Broken::Failed(why)) = self.clean_up(&record).await
                {
                    tracing::warn!(object = %self.release.id, "objects of a failed release are left: {why}");
                }
                let name = record.name.clone();
                let text = plan::failure_description(action, &name, phase, error);
                record.set_status(Status::Failed, text);
                self.write(record).await?;
            }
            Action::Test => self.write(record).await?,
            _ => {}
        }
        Ok(())
    }

    /// Deletes what the failed release has and the one before has not.
    async fn clean_up(&self, record: &Release) -> Result<(), Broken> {
        let (items, _) = objects::known_items(&self.target, record).await?;
        let before = match self.replaced() {
            Ok(before) => objects::known_items(&self.target, &before).await?.0,
            Err(_) => Vec::new(),
        };
        let before: BTreeSet<ObjectId> = before.iter().map(|item| item.object.id()).collect();
        let created = items
            .into_iter()
            .filter(|item| !before.contains(&item.object.id()));
        let mut created: Vec<Item> = created.collect();
        created.reverse();
        self.delete_items(record, &created, "Background").await
    }
}

fn is_kept(object: &Object) -> bool {
    let policy = object.annotation("helm.sh/resource-policy");
    policy.is_some_and(|policy| policy.trim().eq_ignore_ascii_case("keep"))
}

/// Objects of one kind go together, in the order of the manifest.
fn by_kind(items: &[Item]) -> Vec<&[Item]> {
    items.chunk_by(|a, b| a.resource == b.resource).collect()
}

async fn apply_one(target: &Target, item: &Item) -> Result<Object, Broken> {
    let object = &item.object;
    let applied = target.cluster.apply(&item.resource, object, WRITE).await;
    applied.map_err(|error| match Broken::from(error) {
        Broken::Failed(why) => Broken::Failed(format!(
            "server-side apply failed for object {}/{} {}, Kind={}: {why}",
            object.namespace(),
            object.name(),
            object.api_version(),
            object.kind()
        )),
        later => later,
    })
}

/// Deletes the object that was looked at, and no other that took its place.
pub async fn delete_one(
    target: &Target,
    resource: &Resource,
    live: &Object,
    propagation: &'static str,
) -> Result<(), PortError> {
    let how = Delete {
        uid: Some(live.meta("uid").to_owned()),
        resource_version: None,
        propagation: Some(propagation),
    };
    let (namespace, name) = (live.namespace(), live.name());
    match target.cluster.delete(resource, namespace, name, &how).await {
        Err(error) if error.kind != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A list of what is not as it should be, for messages.
pub fn list(open: &[(ObjectId, String)]) -> String {
    let words = open
        .iter()
        .map(|(id, status)| format!("{id} status: '{status}'"));
    let mut words: Vec<String> = words.collect();
    words.sort();
    words.join(", ")
}
