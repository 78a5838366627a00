//! Drift of a live release: found by LISTs and local comparison, confirmed by one dry run, set right.

use super::apply::WRITE;
use super::attempt::Attempt;
use super::conditions::{DRIFTED, reasons};
use super::drift::{Drifted, Finding, IgnoreRules, changes, look, name, summary};
use super::objects;
use super::run::{PhaseError, Step};
use crate::apply::fingerprint::Applied;
use crate::failure::Failure;
use crate::flux::{ConditionStatus, HELM_CONTROLLER, reason};
use crate::ports::{Apply, ErrorKind, Patch, PortError};
use crate::target::objects::Item;
use driftless_manifest::Object;
use serde_json::Value;
use std::collections::BTreeMap;

/// An object that drifted, and how it is set right.
#[derive(Clone, Debug)]
pub struct Found {
    item: Item,
    /// The changes to the live object; `None` when it is gone.
    patch: Option<Vec<Value>>,
}

/// What a look for drift finds.
#[derive(Debug, Default)]
pub struct DriftReport {
    /// What drifted.
    pub drifted: Vec<Found>,
    /// The sentence about it.
    pub summary: Option<String>,
    /// Every object of the release as it is, by inventory id.
    pub seen: BTreeMap<String, Applied>,
}

impl Attempt<'_> {
    /// Looks for drift of the newest release.
    ///
    /// # Errors
    /// The cluster's, a rule that cannot be read.
    pub async fn drift(&self) -> Result<DriftReport, Failure> {
        let mut look = DriftReport::default();
        let Some(record) = self.storage.last() else {
            return Ok(look);
        };
        let rules = self.release.spec.drift_detection.as_ref();
        let rules = IgnoreRules::new(rules.map_or(&[], |drift| drift.ignore.as_slice()))
            .map_err(|what| Failure::terminal(reason::FAILED, what))?;
        let items = objects::items(&self.target, record, "").await;
        let items = items.map_err(|broken| match broken {
            PhaseError::Failed(what) => Failure::retry(reason::FAILED, what),
            PhaseError::Transient(failure) => failure,
        })?;
        let live = objects::live(&self.target, &self.release, &items).await?;
        let (mut told, mut errors) = (Vec::new(), Vec::new());
        for item in items {
            let id = item.object.id();
            let live = live.get(&id);
            let seen = Applied::new(&item.object, live, HELM_CONTROLLER);
            let is_known = self.is_known(&id.inventory_id(), &seen);
            look.seen.insert(id.inventory_id(), seen);
            let examined = self.examine(&item, live, &rules, is_known).await;
            let drifted = match examined.map_err(PhaseError::from) {
                Ok(drifted) => drifted,
                Err(PhaseError::Failed(why)) => {
                    errors.push(why);
                    None
                }
                Err(PhaseError::Transient(failure)) => return Err(failure),
            };
            if let Some(drifted) = drifted {
                let patch = match &drifted {
                    Drifted::Changed(_, patch) => Some(patch.clone()),
                    _ => None,
                };
                told.push(drifted);
                look.drifted.push(Found { item, patch });
            }
        }
        // What is known to have drifted is seen to; the rest is found again.
        if let (true, Some(why)) = (told.is_empty(), errors.first()) {
            let what = format!(
                "Could not determine release state: unable to determine cluster state: {why}"
            );
            return Err(Failure::retry(reasons::STATE_ERROR, what));
        }
        let full_name = format!("{}/{}.v{}", record.namespace, record.name, record.version);
        look.summary = (!told.is_empty()).then(|| summary(&full_name, &told));
        Ok(look)
    }

    /// Whether an object is as it was when the last look found no drift: what only a dry run can tell was told then.
    fn is_known(&self, id: &str, seen: &Applied) -> bool {
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
        is_known: bool,
    ) -> Result<Option<Drifted>, PortError> {
        let asked = match look(&item.object, live, rules) {
            Finding::Excluded | Finding::Same => return Ok(None),
            Finding::Unknown(_) if is_known => return Ok(None),
            Finding::Missing => return Ok(Some(Drifted::Gone(item.object.clone()))),
            Finding::Unknown(asked) | Finding::Differs(asked) => asked,
        };
        let Some(live) = live else {
            return Ok(None);
        };
        let how = Apply {
            dry_run: true,
            ..WRITE
        };
        let would = self
            .target
            .cluster
            .apply(&item.resource, &asked, how)
            .await?;
        let patch = changes(live, &would);
        Ok((!patch.is_empty()).then(|| Drifted::Changed(item.object.clone(), patch)))
    }

    /// Sets right what was found: what is gone is applied anew, what differs is patched, so that ignored fields stay. One object's
    /// trouble keeps no other from being corrected.
    ///
    /// # Errors
    /// The cluster's, a line an object.
    pub async fn correct(&mut self) -> Result<Step, PhaseError> {
        if self.drifted.is_empty() {
            let found = self.drift().await.map_err(PhaseError::Transient)?;
            self.drifted = found.drifted;
        }
        let (mut corrected, mut errors) = (Vec::new(), Vec::new());
        for found in std::mem::take(&mut self.drifted) {
            let name = name(&found.item.object);
            let (done, tried) = match found.patch {
                None => ("created", "creation"),
                Some(_) => ("configured", "patch"),
            };
            match self.correct_one(found).await.map_err(PhaseError::from) {
                Ok(()) => corrected.push(format!("{name} {done}")),
                Err(PhaseError::Failed(why)) => {
                    errors.push(format!("{name} {tried} failure: {why}"))
                }
                Err(later) => return Err(later),
            }
        }
        self.corrected = corrected;
        match errors.is_empty() {
            true => Ok(Step::Done),
            false => Err(PhaseError::Failed(errors.join("\n"))),
        }
    }

    async fn correct_one(&self, found: Found) -> Result<(), PortError> {
        let Found { item, patch } = found;
        let (object, resource) = (&item.object, &item.resource);
        let (namespace, name) = (object.namespace(), object.name());
        let cluster = self.target.cluster.as_ref();
        if let Some(patch) = patch {
            let patch = Patch::Json(Value::Array(patch));
            let patched = cluster.patch(resource, namespace, name, None, &patch, HELM_CONTROLLER);
            match patched.await {
                // It went meanwhile.
                Err(error) if error.kind == ErrorKind::NotFound => {}
                other => return other.map(drop),
            }
        }
        cluster.apply(resource, object, WRITE).await.map(drop)
    }
}
