//! Finds the drift of a live release by LISTs and local comparison, confirms it by a dry run for
//! each object, and corrects it.

use super::attempt::Attempt;
use super::conditions::{DRIFTED, reasons};
use super::drift_detection::{Drifted, Finding, changes, compare_with_live, name, summary};
use super::drifted::{DriftReport, DriftedObject};
use super::objects;
use super::phase::{PhaseError, Step};
use driftless_flux::{ConditionStatus, HELM_CONTROLLER, reason};
use driftless_kernel::applier::Strategy;
use driftless_kernel::failure::Failure;
use driftless_kernel::ports::{ErrorKind, Patch, PortError};
use driftless_kernel::target::objects::Item;
use driftless_manifest::Object;
use driftless_plans::apply::fingerprint::AppliedState;
use driftless_plans::apply::ignore_rules::IgnoreRules;
use serde_json::Value;

impl Attempt<'_> {
    /// Checks the objects of the newest release for drift.
    ///
    /// # Errors
    /// The cluster's, or an ignore rule that is not valid.
    pub async fn detect_drift(&self) -> Result<DriftReport, Failure> {
        let mut report = DriftReport::default();
        let Some(record) = self.storage.last() else {
            return Ok(report);
        };
        let rules = self.release.spec.drift_detection.as_ref();
        let rules = rules.map_or(&[][..], |drift| drift.ignore.as_slice());
        let rules = IgnoreRules::new(rules, "spec.driftDetection.ignore")
            .map_err(|message| Failure::terminal(reason::FAILED, message))?;
        let items = objects::items(&self.target, record, "").await;
        let items = items.map_err(Failure::from)?;
        let live = objects::live(&self.target, &self.release, &items).await?;
        let (mut all_drifted, mut errors) = (Vec::new(), Vec::new());
        for item in items {
            let id = item.object.id();
            let live = live.get(&id);
            let seen = AppliedState::new(&item.object, live, HELM_CONTROLLER);
            let is_unchanged = self.is_unchanged(&id.inventory_id(), &seen);
            report.seen.insert(id.inventory_id(), seen);
            let examined = self.examine(&item, live, &rules, is_unchanged).await;
            let drifted = match examined.map_err(PhaseError::from) {
                Ok(drifted) => drifted,
                Err(PhaseError::Failed(message)) => {
                    errors.push(message);
                    None
                }
                Err(PhaseError::Transient(failure)) => return Err(failure),
            };
            if let Some(drifted) = drifted {
                let patch = match &drifted {
                    Drifted::Changed(_, patch) => Some(patch.clone()),
                    _ => None,
                };
                all_drifted.push(drifted);
                let live = live.cloned();
                report.drifted.push(DriftedObject { item, patch, live });
            }
        }
        // If some drift was found, correct it; the next step finds the rest.
        if let (true, Some(error)) = (all_drifted.is_empty(), errors.first()) {
            let message = format!(
                "Could not determine release state: unable to determine cluster state: {error}"
            );
            return Err(Failure::retry(reasons::STATE_ERROR, message));
        }
        let full_name = format!("{}/{}.v{}", record.namespace, record.name, record.version);
        report.summary = (!all_drifted.is_empty()).then(|| summary(&full_name, &all_drifted));
        Ok(report)
    }

    /// Returns whether an object is unchanged since a check that found no drift, so that no dry run
    /// is needed.
    fn is_unchanged(&self, id: &str, seen: &AppliedState) -> bool {
        let release = &self.release;
        let is_same_spec = release.status.observed_generation == Some(release.generation());
        let drifted = release.status.conditions.get(DRIFTED);
        is_same_spec
            && drifted.is_some_and(|condition| condition.status == ConditionStatus::False)
            && self.memory.seen.get(id) == Some(seen)
    }

    async fn examine(
        &self,
        item: &Item,
        live: Option<&Object>,
        rules: &IgnoreRules,
        is_unchanged: bool,
    ) -> Result<Option<Drifted>, PortError> {
        let dry_run_object = match compare_with_live(&item.object, live, rules) {
            Finding::Excluded | Finding::Same => return Ok(None),
            Finding::Unknown(_) if is_unchanged => return Ok(None),
            Finding::Missing => return Ok(Some(Drifted::Gone(item.object.clone()))),
            Finding::Unknown(object) | Finding::Differs(object) => object,
        };
        let Some(live) = live else {
            return Ok(None);
        };
        let applier = self.target.applier(Strategy::HELM);
        let would = applier.dry_run(&item.resource, &dry_run_object).await?;
        let patch = changes(live, &would);
        Ok((!patch.is_empty()).then(|| Drifted::Changed(item.object.clone(), patch)))
    }

    /// Corrects the drift that was found: applies missing objects, and patches changed ones, so
    /// that ignored fields stay. An error of one object does not prevent the correction of the
    /// others.
    ///
    /// # Errors
    /// The cluster's, a line for each object.
    pub async fn correct(&mut self) -> Result<Step, PhaseError> {
        if self.drifted.is_empty() {
            let report = self.detect_drift().await.map_err(PhaseError::Transient)?;
            self.drifted = report.drifted;
        }
        let (mut corrected, mut errors) = (Vec::new(), Vec::new());
        for drifted in std::mem::take(&mut self.drifted) {
            let name = name(&drifted.item.object);
            let (done, attempted) = match drifted.patch {
                None => ("created", "creation"),
                Some(_) => ("configured", "patch"),
            };
            match self.correct_one(drifted).await.map_err(PhaseError::from) {
                Ok(()) => corrected.push(format!("{name} {done}")),
                Err(PhaseError::Failed(error)) => {
                    errors.push(format!("{name} {attempted} failure: {error}"))
                }
                Err(transient) => return Err(transient),
            }
        }
        self.corrected = corrected;
        match errors.is_empty() {
            true => Ok(Step::Done),
            false => Err(PhaseError::Failed(errors.join("\n"))),
        }
    }

    async fn correct_one(&self, drifted: DriftedObject) -> Result<(), PortError> {
        let DriftedObject { item, patch, live } = drifted;
        let (object, resource) = (&item.object, &item.resource);
        let applier = self.target.applier(Strategy::HELM);
        if let Some(patch) = patch {
            let patch = Patch::Json(Value::Array(patch));
            match applier.patch(resource, object, &patch).await {
                // The object was deleted since the check: apply it.
                Err(error) if error.kind == ErrorKind::NotFound => {}
                patched => {
                    self.record_applied(live.as_ref(), &patched?);
                    return Ok(());
                }
            }
        }
        let applied = applier.apply(resource, object).await?;
        self.record_applied(None, &applied);
        Ok(())
    }
}
