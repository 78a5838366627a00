//! Applies a build to a cluster: stage by stage, kind by kind, and only the objects that differ.

use super::live_objects::{Known, LiveObjects};
use driftless_flux::{KUSTOMIZE_CONTROLLER, Kustomization, parse_rfc3339, reason};
use driftless_kernel::applier::Strategy;
use driftless_kernel::concurrent;
use driftless_kernel::context::Context;
use driftless_kernel::failure::{Class, Failure};
use driftless_kernel::ports::{ErrorKind, Patch, PortError, Resource, Values};
use driftless_kernel::target::objects::{CONCURRENCY, Item, by_kind};
use driftless_kernel::target::polling::{self, NotEstablished, Pauses};
use driftless_kernel::target::{self, Target};
use driftless_manifest::{Object, ObjectId};
use driftless_plans::apply::annotations::Policy;
use driftless_plans::apply::change_detection::{self, Drift};
use driftless_plans::apply::fingerprint::AppliedState;
use driftless_plans::apply::ignore_rules::IgnoreRules;
use driftless_plans::apply::plan::{Action, ChangeSet};
use driftless_plans::apply::{apply_order, is_immutable_error, normalize};
use driftless_plans::inventory::Inventory;
use futures::FutureExt as _;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Time limit for a recreation to wait until the old object is gone.
const RECREATE_WAIT: Duration = Duration::from_secs(10);

/// The result of an apply, with or without a failure.
#[derive(Default)]
pub struct Report {
    /// Each object with its action.
    pub changes: ChangeSet,
    /// The live objects after the apply, by inventory id.
    pub live: BTreeMap<String, Object>,
    /// The fingerprints to remember, by inventory id.
    pub applied: BTreeMap<String, AppliedState>,
    /// Objects whose write failed without a clear refusal: they may exist nevertheless.
    pub doubtful: BTreeSet<ObjectId>,
    /// The failures of all objects, as one.
    pub failure: Option<Failure>,
}

/// Applies objects in stages. A failed object stops the later stages, but not the other objects of
/// its kind.
pub async fn apply(
    context: &Context<'_>,
    target: &Target,
    owner: &Kustomization,
    objects: Vec<Object>,
    known: Known<'_>,
    ignore: &IgnoreRules,
) -> Report {
    let mut report = Report::default();
    for stage in apply_order::stages(objects, &[]) {
        let mut items = Vec::new();
        for object in stage.objects {
            match item(target, object).await {
                Ok(item) => items.push(item),
                Err(failure) => report.fail(failure),
            }
        }
        if report.failure.is_some() {
            break;
        }
        let live = match LiveObjects::read(target, owner, &items, known, ignore).await {
            Ok(live) => live,
            Err(failure) => {
                report.fail(failure);
                break;
            }
        };
        if let Err(failure) = live.keep_living_owners(context, owner, &mut items).await {
            report.fail(failure);
            break;
        }
        for group in by_kind(&items) {
            let job = Job {
                context,
                target,
                owner,
                live: &live,
                ignore,
            };
            let outdated = job.run(group, &mut report).await;
            if !outdated.is_empty() {
                job.run_again(outdated, known.inventory, &mut report).await;
            }
            if report.failure.is_some() {
                break;
            }
        }
        if report.failure.is_none() && stage.wait {
            let waited = wait_for_stage(context, target, &report).await;
            report.failure = waited.err();
        }
        if report.failure.is_some() {
            break;
        }
    }
    report
}

/// The apply of objects whose live state is known.
#[derive(Clone, Copy)]
struct Job<'j, 'c> {
    context: &'j Context<'c>,
    target: &'j Target,
    owner: &'j Kustomization,
    live: &'j LiveObjects,
    ignore: &'j IgnoreRules,
}

impl Job<'_, '_> {
    /// Applies objects and reports them. Returns those that were not read and that have changed
    /// since.
    async fn run(self, items: &[Item], report: &mut Report) -> Vec<Item> {
        let work = items.iter().map(|item| async move {
            let (target, live) = (self.target, self.live.get(&item.object));
            let is_remembered = self.live.is_remembered(&item.object);
            let version = live.filter(|_| is_remembered);
            let version = version.map(|live| live.meta("resourceVersion"));
            let change = change(
                self.context,
                target,
                self.owner,
                item,
                live,
                self.ignore,
                version,
            );
            (item, change.await)
        });
        let work = work.map(|one| one.boxed());
        let mut outdated = Vec::new();
        for (item, result) in concurrent::run(CONCURRENCY, work.collect()).await {
            match result {
                Err(failed)
                    if self.live.is_remembered(&item.object) && failed.may_be_outdated() =>
                {
                    outdated.push(item.clone());
                }
                result => report.add(self.context, self.owner, &item.object, result, self.live),
            }
        }
        outdated
    }

    /// Reads objects and applies them.
    async fn run_again(self, mut items: Vec<Item>, inventory: &Inventory, report: &mut Report) {
        let applied = &Values::new();
        let known = Known { inventory, applied };
        let live = LiveObjects::read(self.target, self.owner, &items, known, self.ignore).await;
        let live = match live {
            Ok(live) => live,
            Err(failure) => return report.fail(failure),
        };
        let kept = live.keep_living_owners(self.context, self.owner, &mut items);
        if let Err(failure) = kept.await {
            return report.fail(failure);
        }
        let job = Job {
            live: &live,
            ..self
        };
        job.run(&items, report).await;
    }
}

impl Report {
    fn fail(&mut self, failure: Failure) {
        match &mut self.failure {
            None => self.failure = Some(failure),
            Some(first) => {
                if matches!(failure.class, Class::Retry(_)) {
                    first.class = failure.class;
                }
                first.message = format!("{}\n{}", first.message, failure.message);
            }
        }
    }

    /// Checks whether an object was applied, or may have been.
    pub fn may_have_applied(&self, id: &ObjectId) -> bool {
        self.doubtful.contains(id) || self.applied.contains_key(&id.inventory_id())
    }

    fn add(
        &mut self,
        context: &Context<'_>,
        owner: &Kustomization,
        object: &Object,
        result: Result<(Action, Option<Object>), NotApplied>,
        before: &LiveObjects,
    ) {
        match result {
            Ok((action, live)) => {
                let changes = &context.events.changes;
                changes.change(&object.id(), action, before.get(object), live.as_ref());
                let id = object.id().inventory_id();
                self.changes.push(object.id(), action);
                let applied = AppliedState::new(object, live.as_ref(), KUSTOMIZE_CONTROLLER);
                self.applied.insert(id.clone(), applied);
                if let Some(live) = live {
                    self.live.insert(id, live);
                }
            }
            Err(failed) => {
                if !failed.is_refused {
                    self.doubtful.insert(object.id());
                }
                let remedy = target::remedy(&context.hub, owner, &failed.error);
                let mut failure = apply_failure(object, &failed.error);
                failure.message.extend(remedy);
                self.fail(failure);
            }
        }
    }
}

/// The reason that an object was not applied.
struct NotApplied {
    error: PortError,
    /// True if the API server refused the write that would have created or changed the object, so
    /// that nothing was written.
    is_refused: bool,
}

/// Any error except the refusal of the first write: it is unknown what was written.
impl From<PortError> for NotApplied {
    fn from(error: PortError) -> Self {
        Self {
            error,
            is_refused: false,
        }
    }
}

impl NotApplied {
    /// Returns whether the reason may be that the object has changed since it was read.
    fn may_be_outdated(&self) -> bool {
        !matches!(self.error.kind, ErrorKind::Denied | ErrorKind::RateLimited)
    }

    /// Converts an error of the first write.
    fn by_write(error: PortError) -> Self {
        Self {
            is_refused: matches!(error.kind, ErrorKind::Denied | ErrorKind::Invalid),
            error,
        }
    }
}

async fn item(target: &Target, mut object: Object) -> Result<Item, Failure> {
    let (id, gvk) = (object.id(), object.gvk());
    let resource = target
        .cluster
        .resource(&gvk)
        .await
        .map_err(|error| apply_failure(&object, &error))?;
    let Some(resource) = resource else {
        let message = format!(
            "{id} dry-run failed: no matches for kind \"{}\" in version \"{}\"",
            gvk.kind,
            gvk.api_version()
        );
        return Err(Failure::retry(reason::FAILED, message));
    };
    if resource.namespaced && object.namespace().is_empty() {
        let message = format!(
            "{id} namespace not specified: set metadata.namespace, or spec.targetNamespace"
        );
        return Err(Failure::retry(reason::FAILED, message));
    }
    normalize::object(&mut object);
    Ok(Item::new(object, resource))
}

fn apply_failure(object: &Object, error: &PortError) -> Failure {
    let id = object.id();
    let message = match (error.kind, error.reason.as_str()) {
        (ErrorKind::NotFound, _) => format!("{id} not found"),
        (_, "") => format!("{id} dry-run failed"),
        (_, reason) => format!("{id} dry-run failed ({reason})"),
    };
    Failure::port(reason::FAILED, error).context(message)
}

/// Brings one object to its desired state. If the live object was not read, `version` is its known
/// resourceVersion, and the API server refuses the write if it has another one.
async fn change(
    context: &Context<'_>,
    target: &Target,
    owner: &Kustomization,
    item: &Item,
    live: Option<&Object>,
    ignore: &IgnoreRules,
    version: Option<&str>,
) -> Result<(Action, Option<Object>), NotApplied> {
    let Item { object, resource } = item;
    let policy = Policy::of(object);
    if policy.skip(live).is_some() {
        return Ok((Action::Skipped, live.cloned()));
    }
    let cleaned = match live {
        Some(live) if policy.takes_over(live) => clean_managers(target, resource, live).await?,
        _ => None,
    };
    let before = cleaned.as_ref().or(live);
    // A new object has all its fields.
    let left = before.filter(|_| !ignore.paths(object).is_empty());
    let compared = left.and_then(|before| ignore.with_live_values(object, before));
    let compared = compared.as_ref().unwrap_or(object);
    if let Some(before) = before
        && is_as_desired(target, resource, compared, before).await
    {
        let action = if cleaned.is_some() {
            Action::Configured
        } else {
            Action::Unchanged
        };
        return Ok((action, Some(before.clone())));
    }
    let payload = left.and_then(|before| ignore.payload(object, before, KUSTOMIZE_CONTROLLER));
    let payload = payload.as_ref().unwrap_or(object);
    let version = version.map(|known| match &cleaned {
        Some(cleaned) => cleaned.meta("resourceVersion"),
        None => known,
    });
    let conditional = version.map(|version| with_version(payload, version));
    let payload = conditional.as_ref().unwrap_or(payload);
    let applier = target.applier(Strategy::KUSTOMIZE);
    match applier.apply(resource, payload).await {
        Ok(new) => Ok(after_write(target, item, live, new).await?),
        Err(error)
            if is_immutable_error(&error.message)
                && (owner.spec.force || policy.recreates(before)) =>
        {
            let new = recreate(context, target, item).await?;
            Ok((Action::Created, Some(new)))
        }
        Err(error) => Err(NotApplied::by_write(error)),
    }
}

/// Returns an object whose apply is refused if the live object has another resourceVersion.
fn with_version(object: &Object, version: &str) -> Object {
    let mut object = object.clone();
    if let Some(Value::Object(metadata)) = object.as_map_mut().get_mut("metadata") {
        metadata.insert("resourceVersion".to_owned(), version.into());
    }
    object
}

/// Checks whether an apply would change nothing: by the live object if that is sufficient, else by
/// a dry run.
async fn is_as_desired(
    target: &Target,
    resource: &Resource,
    object: &Object,
    live: &Object,
) -> bool {
    match change_detection::compare(object, live, KUSTOMIZE_CONTROLLER) {
        Drift::Unchanged => true,
        Drift::Configured => false,
        Drift::Unknown => {
            let applier = target.applier(Strategy::KUSTOMIZE);
            // An error of the dry run is an error of the apply as well, which then reports it.
            let would = applier.dry_run(resource, object).await;
            would.is_ok_and(|would| change_detection::is_same(&would, live))
        }
    }
}

/// Returns the action of a successful apply. The API server leaves the `resourceVersion` unchanged
/// if no field changed.
async fn after_write(
    target: &Target,
    item: &Item,
    live: Option<&Object>,
    new: Object,
) -> Result<(Action, Option<Object>), PortError> {
    match live {
        Some(live) if live.meta("resourceVersion") == new.meta("resourceVersion") => {
            Ok((Action::Unchanged, Some(new)))
        }
        // The live object was not read, and is gone.
        Some(live) if live.meta("uid") != new.meta("uid") => Ok((Action::Created, Some(new))),
        Some(_) => Ok((Action::Configured, Some(new))),
        None if !Policy::of(&item.object).takes_over(&new) => Ok((first_action(&new), Some(new))),
        None => {
            // The object was not in the inventory, but may have existed: fields of other tools
            // become ours, and the second apply removes them if they are not rendered.
            let new = match clean_managers(target, &item.resource, &new).await? {
                Some(_) => {
                    let applier = target.applier(Strategy::KUSTOMIZE);
                    applier.apply(&item.resource, &item.object).await?
                }
                None => new,
            };
            Ok((first_action(&new), Some(new)))
        }
    }
}

/// Returns the action of an apply to an object whose live state was unknown: if the object existed
/// before, the response has fields of other managers, or ours are younger than the object. When the
/// API server creates an object by an apply, it sets the time of the fields first, so that
/// `creationTimestamp` may be a second later.
fn first_action(new: &Object) -> Action {
    let created = parse_rfc3339(new.meta("creationTimestamp"));
    let entries = new
        .pointer("/metadata/managedFields")
        .and_then(Value::as_array);
    let is_first = entries.into_iter().flatten().all(|entry| {
        let time = entry["time"].as_str().and_then(parse_rfc3339);
        entry["manager"] == KUSTOMIZE_CONTROLLER && time.is_some() && time <= created
    });
    match is_first {
        true => Action::Created,
        false => Action::Configured,
    }
}

/// Takes over the fields of kubectl's client-side apply, as Flux does, so that removed fields are
/// really deleted.
async fn clean_managers(
    target: &Target,
    resource: &Resource,
    live: &Object,
) -> Result<Option<Object>, PortError> {
    let Some(patch) = change_detection::managed_fields_patch(live, KUSTOMIZE_CONTROLLER) else {
        return Ok(None);
    };
    let applier = target.applier(Strategy::KUSTOMIZE);
    let patched = applier.patch(resource, live, &Patch::Json(patch)).await?;
    Ok(Some(patched))
}

/// Deletes and creates an object whose immutable fields changed, as `force` asks.
async fn recreate(
    context: &Context<'_>,
    target: &Target,
    item: &Item,
) -> Result<Object, PortError> {
    let Item { object, resource } = item;
    let (namespace, name) = (object.namespace(), object.name());
    let applier = target.applier(Strategy::KUSTOMIZE);
    // If the object is gone meanwhile, no delete is needed: one without a uid could delete a new
    // object.
    if let Some(old) = target.cluster.get(resource, namespace, name).await? {
        applier
            .delete(resource, &old, "Background", &|_| true)
            .await?;
    }
    let clock = context.ports.clock.as_ref();
    let (end, mut pauses) = (clock.now() + RECREATE_WAIT, Pauses::new());
    while target
        .cluster
        .get(resource, namespace, name)
        .await?
        .is_some()
    {
        if !pauses.until(clock, end).await {
            let message = "the old object is still being deleted; the next retry recreates it";
            return Err(PortError::new(ErrorKind::Conflict, message));
        }
    }
    applier.apply(resource, object).await
}

/// Waits until the next stage can use the objects of this one: definitions are established,
/// namespaces exist.
async fn wait_for_stage(
    context: &Context<'_>,
    target: &Target,
    report: &Report,
) -> Result<(), Failure> {
    let changed: Vec<&Object> = report
        .changes
        .iter()
        .filter(|entry| matches!(entry.action, Action::Created | Action::Configured))
        .filter_map(|entry| report.live.get(&entry.id.inventory_id()))
        .filter(|live| matches!(live.kind(), "CustomResourceDefinition" | "Namespace"))
        .collect();
    let (cluster, clock) = (target.cluster.as_ref(), context.ports.clock.as_ref());
    let waited = polling::wait_until_established(cluster, clock, &changed).await;
    waited.map_err(|error| match error {
        NotEstablished::Late(id, seconds) => {
            let message = format!("{id} is not established after {seconds}s");
            Failure::retry(reason::HEALTH_CHECK_FAILED, message)
        }
        NotEstablished::Deleted(id) => Failure::retry(
            reason::FAILED,
            format!("{id} was deleted while it was applied"),
        ),
        NotEstablished::Cluster(error) => error.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn action(manager: &str, time: &str) -> Action {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
            "name": "a", "creationTimestamp": "2026-11-25T14:50:17Z",
            "managedFields": [{"manager": manager, "time": time}]}});
        first_action(&Object::new(object).unwrap())
    }

    #[test]
    fn a_new_object_is_created_also_across_a_second() {
        let own = KUSTOMIZE_CONTROLLER;
        assert_eq!(action(own, "2026-11-25T14:50:17Z"), Action::Created);
        assert_eq!(action(own, "2026-11-25T14:50:16Z"), Action::Created);
        assert_eq!(action(own, "2026-11-25T14:50:18Z"), Action::Configured);
        assert_eq!(
            action("kubectl", "2026-11-25T14:50:17Z"),
            Action::Configured
        );
        assert_eq!(action(own, ""), Action::Configured);
    }
}
