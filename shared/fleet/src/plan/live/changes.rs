//! The changes and notices that follow from the comparisons of a cluster.

use super::dry_run::Outcome;
use super::placeholders;
use super::states::States;
use crate::embedded::Rendered;
use crate::plan::compare::{Key, Place, change, created, deleted, handover};
use crate::plan::diff::{changes, stated};
use crate::plan::immutable;
use crate::plan::model::{Action, Basis, Change, ClusterPlan, Notice};
use crate::plan::redact::Redactor;
use driftless_core::kustomization::live_objects;
use driftless_flux::{FluxKind, ObjectRef};
use driftless_manifest::Object;
use driftless_plans::apply::annotations::Policy;
use std::collections::BTreeMap;

/// The annotations of Helm that name the release of an object.
const RELEASE: [&str; 2] = [
    "meta.helm.sh/release-name",
    "meta.helm.sh/release-namespace",
];

/// The outcomes of the objects of a cluster.
#[derive(Default)]
pub struct Results<'a> {
    /// The outcomes of the objects that a step would apply.
    outcomes: Vec<(&'a Key, Outcome, Option<Object>)>,
    /// The objects that leave the repository, with what is live of them.
    gone: Vec<(&'a Key, Option<Object>)>,
    /// The objects that were not read.
    pub unread: Vec<&'a Key>,
    /// The Kustomizations and HelmReleases that were not read, with the reason.
    pub unread_owners: Vec<(ObjectRef, String)>,
}

impl<'a> Results<'a> {
    /// Adds the outcome of an object.
    pub fn add(&mut self, key: &'a Key, outcome: Outcome, live: Option<Object>) {
        self.outcomes.push((key, outcome, live));
    }

    /// Adds an object that leaves the repository.
    pub fn add_gone(&mut self, key: &'a Key, live: Option<Object>) {
        self.gone.push((key, live));
    }

    /// Adds the outcomes of another Kustomization or HelmRelease.
    pub fn extend(&mut self, other: Self) {
        self.outcomes.extend(other.outcomes);
        self.gone.extend(other.gone);
    }

    /// Returns whether no object was compared.
    pub fn is_empty(&self) -> bool {
        self.outcomes.is_empty() && self.gone.is_empty()
    }

    /// Returns the first reason if no object could be compared.
    pub fn is_all_denied(&self) -> Option<String> {
        let mut first = None;
        for (_, outcome, live) in &self.outcomes {
            match (outcome, live) {
                (Outcome::NotCompared(reason), None) => first = first.or(Some(reason)),
                _ => return None,
            }
        }
        first.filter(|_| self.gone.is_empty()).cloned()
    }

    /// Returns the Secrets among the live objects and the results of dry runs.
    fn secrets(&self) -> Vec<&Object> {
        let mut all = Vec::new();
        for (_, outcome, live) in &self.outcomes {
            all.extend(live);
            if let Outcome::Changed { applied, .. } = outcome {
                all.push(applied);
            }
        }
        all.extend(self.gone.iter().filter_map(|(_, live)| live.as_ref()));
        all.retain(|one| one.kind() == "Secret");
        all
    }
}

/// Returns the plan of a cluster, with its warnings and errors.
pub fn plan(
    states: States<'_>,
    place: &Place,
    results: Results<'_>,
) -> (ClusterPlan, Vec<Notice>, Vec<Notice>) {
    let redactor = states.redactor.with_secrets(results.secrets());
    let mut list = Lists {
        states,
        redactor: &redactor,
        plan: ClusterPlan {
            hub: place.0.clone(),
            cluster: place.1.clone(),
            basis: match results.is_empty() && !results.unread.is_empty() {
                true => Basis::Base,
                false => Basis::Live,
            },
            changes: Vec::new(),
            drift: Vec::new(),
        },
        warnings: Vec::new(),
        errors: Vec::new(),
        not_compared: BTreeMap::new(),
    };
    for (key, outcome, live) in results.outcomes {
        list.add(key, outcome, live.as_ref());
    }
    for (key, live) in results.gone {
        list.add_gone(key, live.as_ref());
    }
    for key in results.unread {
        list.add_base(key, None);
    }
    for (owner, reason) in results.unread_owners {
        let message =
            format!("its objects are compared with the base, not with the live state: {reason}");
        list.warn(&owner, message);
    }
    list.end()
}

/// The lists of a plan so far.
struct Lists<'a> {
    states: States<'a>,
    redactor: &'a Redactor,
    plan: ClusterPlan,
    warnings: Vec<Notice>,
    errors: Vec<Notice>,
    /// The unchanged objects that were not compared: their number, and the first reason.
    not_compared: BTreeMap<ObjectRef, (usize, String)>,
}

impl Lists<'_> {
    fn add(&mut self, key: &Key, outcome: Outcome, live: Option<&Object>) {
        let Some(is) = self.states.new.get(key) else {
            if let Outcome::NotCompared(reason) = outcome {
                self.add_base(key, Some(&reason));
            }
            return;
        };
        let was = self.states.old.get(key);
        let is_changed = was.is_none_or(|was| stated(&was.object) != stated(&is.object));
        let mut change = match outcome {
            // The live values of the entries are not here, but the files have other ones.
            Outcome::Unchanged if is_changed && placeholders::are_in_secret(&is.object) => {
                return self.add_base(key, None);
            }
            Outcome::Unchanged => return,
            Outcome::NotCompared(reason) if is_changed => return self.add_base(key, Some(&reason)),
            Outcome::NotCompared(reason) => {
                let count = self.not_compared.entry(is.owner.clone());
                count.or_insert((0, reason)).0 += 1;
                return;
            }
            Outcome::Refused(message) => return self.refuse(key, is, is_changed, &message),
            Outcome::Created => {
                let mut change = created(is, self.states.new.checked, self.redactor);
                if was.is_some() {
                    let missing = "the object is missing in the cluster";
                    change.warnings.push(missing.to_owned());
                }
                change
            }
            Outcome::Recreated(live, message) => {
                let mut change = self.changed(was, is, &live, &is.object);
                change.warnings.push(format!(
                    "{message}: the object is deleted and created again"
                ));
                change
            }
            Outcome::Changed {
                live,
                applied,
                note,
            } => {
                let mut change = self.changed(was, is, &live, &applied);
                change.warnings.extend(note.map(str::to_owned));
                change
            }
        };
        change
            .warnings
            .extend(live.and_then(|live| taken_over(was, is, live)));
        match is_changed {
            true => self.plan.changes.push(change),
            false => self.plan.drift.push(change),
        }
    }

    fn changed(
        &self,
        was: Option<&Rendered>,
        is: &Rendered,
        live: &Object,
        applied: &Object,
    ) -> Change {
        let id = is.object.id();
        let mut diff = changes(Some(&stated(live)), Some(&stated(applied)), self.redactor);
        if diff.is_empty() {
            diff = "the change is in values that are not printed\n".to_owned();
        }
        let mut warnings = immutable::definition(live, applied);
        warnings.extend(was.and_then(|was| handover(was, is)));
        Change {
            action: Action::Change,
            owner: is.owner.to_string(),
            place: self.states.new.checked.places.of(&is.hub, &is.owner, &id),
            diff,
            warnings,
            id,
        }
    }

    /// Adds the difference between the two states, for an object that was not compared with the
    /// live one.
    fn add_base(&mut self, key: &Key, reason: Option<&str>) {
        let States { old, new, .. } = self.states;
        let Some(mut change) = change(key, old, new, self.redactor) else {
            return;
        };
        let warning = reason
            .map(|reason| format!("compared with the base, not with the live object: {reason}"));
        change.warnings.extend(warning);
        self.plan.changes.push(change);
    }

    /// Adds an object that the cluster refuses. That is an error of the change, unless the change
    /// does not concern the object.
    fn refuse(&mut self, key: &Key, is: &Rendered, is_changed: bool, message: &str) {
        let id = is.object.id();
        let notice = Notice {
            place: self.states.new.checked.places.of(&is.hub, &is.owner, &id),
            about: self.about(&is.owner),
            message: format!("{id} dry-run failed: {message}"),
        };
        match is_changed {
            true => {
                self.errors.push(notice);
                self.add_base(key, None);
            }
            false => self.warnings.push(notice),
        }
    }

    fn add_gone(&mut self, key: &Key, live: Option<&Object>) {
        let States { old, new, .. } = self.states;
        let (Some(was), Some(live)) = (old.get(key), live) else {
            return;
        };
        if !is_owned(was, live) {
            return;
        }
        let mut change = deleted(was, old, new);
        let is_helm = was.owner.kind == FluxKind::HelmRelease;
        let keeps = match is_helm {
            true => live
                .annotation("helm.sh/resource-policy")
                .is_some_and(|policy| policy.trim().eq_ignore_ascii_case("keep")),
            false => Policy::of(live).keeps(),
        };
        if keeps && change.action == Action::Delete {
            change.action = Action::Keep;
            change.warnings = vec![
                "the object stays in the cluster: a label or annotation of the live object excludes it"
                    .to_owned(),
            ];
        }
        self.plan.changes.push(change);
    }

    fn warn(&mut self, owner: &ObjectRef, message: String) {
        self.warnings.push(Notice {
            place: None,
            about: self.about(owner),
            message,
        });
    }

    fn about(&self, owner: &ObjectRef) -> String {
        let ClusterPlan { hub, cluster, .. } = &self.plan;
        match hub == cluster {
            true => format!("{hub}: {owner}"),
            false => format!("{hub}: cluster {cluster}: {owner}"),
        }
    }

    fn end(mut self) -> (ClusterPlan, Vec<Notice>, Vec<Notice>) {
        for (owner, (count, reason)) in std::mem::take(&mut self.not_compared) {
            let message = format!(
                "{count} objects that the change does not concern are not compared with the live ones: {reason}"
            );
            self.warn(&owner, message);
        }
        for notice in self.warnings.iter_mut().chain(&mut self.errors) {
            notice.message = self.redactor.text(&notice.message);
        }
        let lists = [&mut self.plan.changes, &mut self.plan.drift];
        for change in lists.into_iter().flatten() {
            for warning in &mut change.warnings {
                *warning = self.redactor.text(warning);
            }
        }
        self.plan.changes.sort_by(|a, b| a.id.cmp(&b.id));
        self.plan.drift.sort_by(|a, b| a.id.cmp(&b.id));
        (self.plan, self.warnings, self.errors)
    }
}

/// Returns a warning about a live object that does not belong to the Kustomization that applies it.
fn taken_over(was: Option<&Rendered>, is: &Rendered, live: &Object) -> Option<String> {
    if was.is_some() || is_owned(is, live) {
        return None;
    }
    Some(match live_objects::owner(live) {
        Some(other) => format!(
            "the object exists in the cluster and belongs to {other}: {} takes it over",
            is.owner
        ),
        None => format!(
            "the object exists in the cluster and belongs to no Kustomization: {} takes it over",
            is.owner
        ),
    })
}

/// Returns whether a live object belongs to the Kustomization or the release of a rendered one.
fn is_owned(rendered: &Rendered, live: &Object) -> bool {
    match rendered.owner.kind {
        FluxKind::HelmRelease => RELEASE.iter().all(|key| {
            let wanted = rendered.object.annotation(key);
            wanted.is_none() || live.annotation(key) == wanted
        }),
        _ => {
            let names = [live_objects::OWNER_NAME, live_objects::OWNER_NAMESPACE];
            let owner = names.map(|name| live.label(name).unwrap_or_default());
            owner == [&*rendered.owner.name, &*rendered.owner.namespace]
        }
    }
}
