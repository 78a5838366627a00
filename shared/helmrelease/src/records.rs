//! Writes the record of an action: created when the action starts, written again when it ends.

use super::action::Action;
use super::attempt::Attempt;
use super::objects;
use super::phase::{PhaseError, Step, record_error};
use super::plan;
use super::plan::Operation;
use super::render::{self, RenderRequest};
use driftless_helm::record::{NewRelease, Release, Status};
use driftless_helm::values::{Table, merge};
use std::sync::Arc;

impl Attempt<'_> {
    /// Writes the record at the start of an operation, or its result for a test or an unlock.
    pub async fn write_record(&mut self, operation: &Operation) -> Result<Step, PhaseError> {
        let is_new = matches!(
            operation,
            Operation::Act(Action::Install | Action::Upgrade | Action::Rollback(_))
        );
        if is_new && self.has_written_record() {
            // A previous step crashed between the record and the next phase: the record is this
            // action's.
            return Ok(Step::Done);
        }
        let record = match operation {
            Operation::Act(Action::Install) => self.new_install().await?,
            Operation::Act(Action::Upgrade) => self.new_upgrade().await?,
            Operation::Act(action @ Action::Rollback(target)) => {
                self.new_rollback(target.version, self.applies_on_server(action))?
            }
            Operation::Act(Action::Unlock) => {
                let mut record = self.record()?;
                super::outcome::unlock(&mut record);
                record
            }
            Operation::Act(Action::Test | Action::CorrectDrift) => self.record()?,
            Operation::Act(Action::UninstallRemediation) | Operation::Uninstall => {
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
            self.check_ownership(operation, &record).await?;
            if *operation == Operation::Act(Action::Install) {
                self.supersede_uninstalled().await?;
            }
            let most = self.release.max_history();
            let deleted = self.storage.make_room(&self.target, most).await;
            deleted.map_err(record_error)?;
        }
        self.write(record).await?;
        // A crash from here on leaves a pending record, so store the cursor now.
        self.store_memory().await.map_err(PhaseError::Transient)?;
        Ok(Step::Done)
    }

    fn has_written_record(&self) -> bool {
        let running = self.memory.running.as_ref();
        running.is_some_and(|running| {
            running.written.contains(&running.record) && self.storage.get(running.record).is_some()
        })
    }

    async fn new_install(&mut self) -> Result<Release, PhaseError> {
        let install = self.release.install().into_owned();
        if self.storage.last().is_some() && !(install.replace && self.may_reuse_name()) {
            let message = "release name check failed: cannot reuse a name that is still in use";
            return Err(PhaseError::Failed(message.to_owned()));
        }
        let values = self.values()?.clone();
        let check_schema = !install.disable_schema_validation;
        self.record_release(values, &Action::Install, check_schema)
            .await
    }

    /// Returns whether `install.replace` may reuse the name: the last release failed, or was
    /// uninstalled with its history kept.
    fn may_reuse_name(&self) -> bool {
        let last = self.storage.last().map(|last| &last.info.status);
        matches!(last, Some(Status::Uninstalled | Status::Failed))
    }

    async fn supersede_uninstalled(&mut self) -> Result<(), PhaseError> {
        let uninstalled = |last: &&Release| last.info.status == Status::Uninstalled;
        if let Some(mut last) = self.storage.last().filter(uninstalled).cloned() {
            last.set_status(Status::Superseded, "superseded by new release");
            self.write(last).await?;
        }
        Ok(())
    }

    async fn new_upgrade(&mut self) -> Result<Release, PhaseError> {
        let upgrade = self.release.upgrade().into_owned();
        let mut values = self.values()?.clone();
        let current = self.replaced()?;
        if upgrade.preserve_values {
            // The new values are merged over the previous ones. The chart's default values also
            // stay the previous ones.
            let before = merge(current.chart.values.clone(), current.config.clone());
            let mut chart = self.chart().await?.as_ref().clone();
            chart.values = before;
            self.loaded = Some(chart.into());
            values = merge(current.config.clone(), values);
        }
        let check_schema = !upgrade.disable_schema_validation;
        self.record_release(values, &Action::Upgrade, check_schema)
            .await
    }

    /// Returns the release that an upgrade or rollback replaces.
    ///
    /// # Errors
    /// No release is deployed.
    pub fn replaced(&self) -> Result<Release, PhaseError> {
        let running = self.memory.running.as_ref();
        let version = running.and_then(|running| running.replaces);
        let found = version
            .and_then(|version| self.storage.get(version))
            .cloned();
        found.ok_or_else(|| {
            let name = self.release.release_name();
            PhaseError::Failed(format!("\"{name}\" has no deployed releases"))
        })
    }

    async fn record_release(
        &mut self,
        values: Table,
        action: &Action,
        check_schema: bool,
    ) -> Result<Release, PhaseError> {
        let is_upgrade = *action == Action::Upgrade;
        let chart = self.chart().await?;
        let version = self
            .memory
            .running
            .as_ref()
            .map_or(1, |running| running.record);
        let request = RenderRequest {
            chart: chart.clone(),
            values: Arc::new(values.clone()),
            revision: version,
            is_upgrade,
            check_schema,
        };
        let ports = self.context.ports;
        let rendered = render::render(
            ports,
            &self.target,
            &self.release,
            &request,
            &self.context.fuel,
        );
        let rendered = rendered.await?;
        if rendered.reads_secrets {
            self.context.events.changes.withhold_values();
        }
        let rendered = rendered.release;
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
            server_side: self.applies_on_server(action),
        };
        Ok(match is_upgrade {
            true => new.upgrade(&chart, &rendered, values),
            false => new.install(&chart, &rendered, values),
        })
    }

    fn new_rollback(&self, to: i64, server_side: bool) -> Result<Release, PhaseError> {
        let current = self.replaced()?;
        let target = self.storage.get(to);
        let target =
            target.ok_or_else(|| PhaseError::Failed(format!("release has no {to} version")))?;
        Ok(target.rollback_from(&current, self.moment(), server_side))
    }

    /// Checks the ownership of existing objects if taking ownership is disabled; by default,
    /// objects without an owner or of another one are taken over.
    async fn check_ownership(
        &self,
        operation: &Operation,
        record: &Release,
    ) -> Result<(), PhaseError> {
        let items = objects::items(
            &self.target,
            record,
            objects::manifest_error_prefix(operation),
        )
        .await?;
        let (verb, is_disabled) = match operation {
            Operation::Act(Action::Install) => {
                ("install", self.release.install().disable_take_ownership)
            }
            Operation::Act(Action::Upgrade) => {
                ("update", self.release.upgrade().disable_take_ownership)
            }
            _ => ("", false),
        };
        if !is_disabled {
            return Ok(());
        }
        let live = objects::live(&self.target, &self.release, &items).await?;
        for live in live.values() {
            objects::owned_by(live, record).map_err(|error| {
                let (kind, name, namespace) = (live.kind(), live.name(), live.namespace());
                PhaseError::Failed(format!(
                    "unable to continue with {verb}: {kind} \"{name}\" in namespace \"{namespace}\" exists and cannot be \
                     imported into the current release: {error}"
                ))
            })?;
        }
        Ok(())
    }

    /// Marks the records of the previous releases as superseded.
    pub async fn supersede(&mut self, operation: &Operation) -> Result<Step, PhaseError> {
        let own = self.record()?.version;
        let replaced = self
            .memory
            .running
            .as_ref()
            .and_then(|running| running.replaces);
        let versions = match operation {
            Operation::Act(Action::Upgrade) => replaced.into_iter().collect(),
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

    /// Writes the record with its final status.
    pub async fn finish_record(&mut self, operation: &Operation) -> Result<Step, PhaseError> {
        let mut record = self.record()?;
        let (status, description) = match operation {
            Operation::Act(action @ (Action::Install | Action::Upgrade | Action::Rollback(_))) => {
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

    /// Deletes all records of the release.
    pub async fn purge(&mut self) -> Result<Step, PhaseError> {
        let purged = self.storage.purge(&self.target).await;
        self.purged = purged.map_err(record_error)?;
        Ok(Step::Done)
    }
}
