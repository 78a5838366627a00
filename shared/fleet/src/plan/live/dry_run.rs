//! The comparison of one object with the live one, by the rules of the step that applies it.

use super::client_side;
use super::owner::Owner;
use super::placeholders;
use crate::plan::diff::stated;
use driftless_flux::{CrdsPolicy, DriftMode, HelmRelease, KUSTOMIZE_CONTROLLER};
use driftless_helmrelease::drift_detection::{self, Finding};
use driftless_kernel::applier::Applier;
use driftless_kernel::ports::{ErrorKind, PortError};
use driftless_kernel::target::Target;
use driftless_kernel::target::objects::Item;
use driftless_manifest::Object;
use driftless_plans::apply::annotations::Policy;
use driftless_plans::apply::change_detection::{self, Drift};
use driftless_plans::apply::ignore_rules::IgnoreRules;
use driftless_plans::apply::is_immutable_error;
use serde_json::Value;
use std::collections::BTreeSet;

/// The annotation that Helm sets on the objects of a release, and not on the definitions in `crds/`
/// of a chart.
const RELEASE_NAME: &str = "meta.helm.sh/release-name";

/// The result of the comparison of one object.
pub enum Outcome {
    /// A step would not write the object.
    Unchanged,
    /// The object does not exist, and would be created.
    Created,
    /// The object would be changed.
    Changed {
        /// The live object.
        live: Box<Object>,
        /// The object that the cluster would store.
        applied: Box<Object>,
        /// A change that the two objects do not show.
        note: Option<&'static str>,
    },
    /// The object would be deleted and created again, because of this message of the server.
    Recreated(Box<Object>, String),
    /// The live object cannot be compared, for this reason.
    NotCompared(String),
    /// The cluster refuses the object with this message.
    Refused(String),
}

/// The reason why more than one object cannot be compared.
pub enum Stop {
    /// The objects of this Kustomization or HelmRelease may not be compared.
    Excluded,
    /// The objects of this Kustomization or HelmRelease.
    Owner(String),
    /// All objects of the cluster.
    Cluster(String),
}

impl Stop {
    /// Converts the error of a read.
    pub fn by_read(error: PortError) -> Self {
        match error.kind {
            ErrorKind::Denied => Self::Owner(error.message),
            _ => Self::Cluster(error.message),
        }
    }
}

/// The objects of the changed state that others in the cluster need.
#[derive(Default)]
pub struct Creations {
    /// The names of its Namespaces.
    pub namespaces: BTreeSet<String>,
    /// The group and kind of its definitions.
    pub kinds: BTreeSet<(String, String)>,
    /// Those whose definition the change creates or changes.
    pub changed_kinds: BTreeSet<(String, String)>,
}

/// An object to compare.
pub struct Wanted<'a> {
    /// The object that a step sends, with its resource.
    pub item: Item,
    /// The rendered object before the change, if there is one.
    pub before: Option<&'a Object>,
    /// The rendered object after the change.
    pub after: &'a Object,
}

/// The common inputs of the comparisons of one Kustomization or HelmRelease.
pub struct Comparison<'a> {
    /// The Kustomization or HelmRelease after the change.
    pub owner: &'a Owner,
    /// Its cluster, as its user.
    pub target: &'a Target,
    /// The fields that are left to other writers.
    pub ignore: IgnoreRules,
    /// True if objects with changed immutable fields are recreated.
    pub forces: bool,
    /// True if the change makes a new release.
    pub upgrades: bool,
    /// The objects that others in the cluster need.
    pub creations: &'a Creations,
}

impl Comparison<'_> {
    /// Compares an object with the live one.
    ///
    /// # Errors
    /// The cluster does not answer, or refuses every request of the user.
    pub async fn outcome(
        &self,
        wanted: &Wanted<'_>,
        live: Option<&Object>,
    ) -> Result<Outcome, Stop> {
        // The live object has the values in place of the placeholders.
        let before = wanted.before.is_some_and(placeholders::has_any);
        if before || placeholders::has_any(&wanted.item.object) {
            let reason = "values of the object are not here (give --sops-key or --with)";
            return Ok(Outcome::NotCompared(reason.to_owned()));
        }
        let mut desired = wanted.item.object.clone();
        if let Some(live) = live {
            placeholders::keep_live_entries(&mut desired, live);
        }
        match self.owner {
            Owner::Kustomization(_) => self.of_kustomization(wanted, desired, live).await,
            Owner::HelmRelease(release) if self.upgrades => {
                self.of_upgrade(release, wanted, desired, live).await
            }
            Owner::HelmRelease(release) => {
                self.of_drift_detection(release, wanted, &desired, live)
                    .await
            }
        }
    }

    /// Compares as `kustomization::apply` does.
    async fn of_kustomization(
        &self,
        wanted: &Wanted<'_>,
        desired: Object,
        live: Option<&Object>,
    ) -> Result<Outcome, Stop> {
        let policy = Policy::of(&desired);
        if policy.skip(live).is_some() {
            return Ok(Outcome::Unchanged);
        }
        let with_ignored = live.and_then(|live| self.ignore.with_live_values(&desired, live));
        let desired = with_ignored.unwrap_or(desired);
        let takes_over = live.is_some_and(|live| {
            let patch = change_detection::managed_fields_patch(live, KUSTOMIZE_CONTROLLER);
            policy.takes_over(live) && patch.is_some()
        });
        if let Some(live) = live.filter(|_| !takes_over)
            && change_detection::compare(&desired, live, KUSTOMIZE_CONTROLLER) == Drift::Unchanged
        {
            return Ok(Outcome::Unchanged);
        }
        let outcome = self.dry_run(wanted, &desired, live).await?;
        let note = "fields that kubectl applied are taken over: those that the repository does not have are removed";
        Ok(match outcome {
            Outcome::Changed { live, applied, .. } => Outcome::Changed {
                live,
                applied,
                note: takes_over.then_some(note),
            },
            Outcome::Unchanged if takes_over => match live {
                Some(live) => Outcome::Changed {
                    live: Box::new(live.clone()),
                    applied: Box::new(live.clone()),
                    note: Some(note),
                },
                None => Outcome::Unchanged,
            },
            other => other,
        })
    }

    /// Compares as the upgrade of a release does: every object is applied.
    async fn of_upgrade(
        &self,
        release: &HelmRelease,
        wanted: &Wanted<'_>,
        desired: Object,
        live: Option<&Object>,
    ) -> Result<Outcome, Stop> {
        let is_of_release = desired.annotation(RELEASE_NAME).is_some();
        let keeps_definitions = release.upgrade_crds() != CrdsPolicy::CreateReplace;
        if live.is_some() && !is_of_release && keeps_definitions {
            return Ok(Outcome::Unchanged);
        }
        let Some(live) = live else {
            return self.dry_run(wanted, &desired, None).await;
        };
        let was_server_side = has_applied(live, self.owner.manager());
        if release.upgrade_server_side(was_server_side) {
            return self.dry_run(wanted, &desired, Some(live)).await;
        }
        let before = wanted.before.unwrap_or(wanted.after);
        let applied = client_side::applied(before, wanted.after, live);
        Ok(applied.map_or(Outcome::Unchanged, |applied| compared(live, applied)))
    }

    /// Compares as drift detection does: without a new release, nothing else writes the objects.
    async fn of_drift_detection(
        &self,
        release: &HelmRelease,
        wanted: &Wanted<'_>,
        desired: &Object,
        live: Option<&Object>,
    ) -> Result<Outcome, Stop> {
        if release.drift_mode() != DriftMode::Enabled {
            return Ok(Outcome::Unchanged);
        }
        let object = match drift_detection::compare_with_live(desired, live, &self.ignore) {
            Finding::Excluded | Finding::Same => return Ok(Outcome::Unchanged),
            Finding::Missing => return Ok(Outcome::Created),
            Finding::Unknown(object) | Finding::Differs(object) => object,
        };
        let outcome = self.dry_run(wanted, &object, live).await?;
        Ok(match &outcome {
            Outcome::Changed { live, applied, .. }
                if drift_detection::changes(live, applied).is_empty() =>
            {
                Outcome::Unchanged
            }
            _ => outcome,
        })
    }

    async fn dry_run(
        &self,
        wanted: &Wanted<'_>,
        desired: &Object,
        live: Option<&Object>,
    ) -> Result<Outcome, Stop> {
        let applier = Applier::new(self.target.cluster.as_ref(), self.owner.strategy());
        let error = match (applier.dry_run(&wanted.item.resource, desired).await, live) {
            (Ok(applied), Some(live)) => return Ok(compared(live, applied)),
            // A dry run gives a new object no version.
            (Ok(applied), None) if applied.meta("resourceVersion").is_empty() => {
                return Ok(Outcome::Created);
            }
            (Ok(_), None) => {
                let reason = "the object exists, and its user may not read it";
                return Ok(Outcome::NotCompared(reason.to_owned()));
            }
            (Err(error), _) => error,
        };
        let message = error.message.clone();
        if error.kind == ErrorKind::NotFound && live.is_none() && self.creates_namespace(desired) {
            return Ok(Outcome::Created);
        }
        if let Some(live) = live
            && is_immutable_error(&message)
        {
            let recreates = self.forces || Policy::of(desired).recreates(Some(live));
            return Ok(match recreates {
                true => Outcome::Recreated(Box::new(live.clone()), message),
                false => Outcome::Refused(message),
            });
        }
        let gvk = desired.gvk();
        let kind = (gvk.group, gvk.kind);
        if self.creations.changed_kinds.contains(&kind) && error.kind != ErrorKind::Denied {
            let reason = format!("the change changes its definition first ({message})");
            return Ok(Outcome::NotCompared(reason));
        }
        refusal(error)
    }

    fn creates_namespace(&self, object: &Object) -> bool {
        let namespace = object.namespace();
        let by_release = self.owner.release().is_some_and(|release| {
            let creates = release.install().create_namespace;
            creates && release.release_namespace() == namespace
        });
        by_release || self.creations.namespaces.contains(namespace)
    }
}

/// Converts the error of a dry run.
fn refusal(error: PortError) -> Result<Outcome, Stop> {
    let message = error.message;
    let has = |words: &str| message.contains(words);
    match error.kind {
        ErrorKind::Denied if has("cannot impersonate ") => Err(Stop::Owner(message)),
        // A missing right, in the words of RBAC. Other refusals are those of admission.
        ErrorKind::Denied if has(" cannot ") && has(" resource ") => {
            Ok(Outcome::NotCompared(message))
        }
        ErrorKind::Denied if error.reason == "Unauthorized" || error.reason.is_empty() => {
            Err(Stop::Cluster(message))
        }
        _ if has("does not support dry run") => Ok(Outcome::NotCompared(message)),
        // The API server answers with an internal error.
        _ if has("failed to create typed patch object") => Ok(Outcome::Refused(message)),
        ErrorKind::Denied | ErrorKind::NotFound | ErrorKind::Conflict | ErrorKind::Invalid => {
            Ok(Outcome::Refused(message))
        }
        ErrorKind::Unavailable if error.reason == "InternalError" => {
            Ok(Outcome::NotCompared(message))
        }
        _ => Err(Stop::Cluster(message)),
    }
}

fn compared(live: &Object, applied: Object) -> Outcome {
    match stated(live) == stated(&applied) {
        true => Outcome::Unchanged,
        false => Outcome::Changed {
            live: Box::new(live.clone()),
            applied: Box::new(applied),
            note: None,
        },
    }
}

/// Returns whether a manager has applied fields of an object by server-side apply.
fn has_applied(object: &Object, manager: &str) -> bool {
    let entries = object.pointer("/metadata/managedFields");
    let mut entries = entries.and_then(Value::as_array).into_iter().flatten();
    entries.any(|entry| entry["manager"] == manager && entry["operation"] == "Apply")
}
