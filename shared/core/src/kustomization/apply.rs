//! Applying a build to a cluster: stage by stage, kind by kind, only what differs.

use super::live::Live;
use crate::apply::annotations::Policy;
use crate::apply::drift::{self, Drift};
use crate::apply::fingerprint::Applied;
use crate::apply::plan::{Action, ChangeSet};
use crate::apply::{is_immutable_error, normalize, stage};
use crate::concurrent;
use crate::failure::{Class, Failure};
use crate::flux::{KUSTOMIZE_CONTROLLER, Kustomization, reason};
use crate::inventory::Inventory;
use crate::kernel::Context;
use crate::ports::{self, ErrorKind, Patch, PortError, Resource};
use crate::target::objects::{self, CONCURRENCY, Item, by_kind};
use crate::target::polling::{self, NotEstablished, Pauses};
use crate::target::{self, Target};
use driftless_manifest::{Object, ObjectId};
use futures::FutureExt as _;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long a recreation waits for the old object to go.
const RECREATE_WAIT: Duration = Duration::from_secs(10);
/// Flux's way of applying: as its own field manager, taking fields from whoever holds them.
const WRITE: ports::Apply<'_> = ports::Apply {
    manager: KUSTOMIZE_CONTROLLER,
    force: true,
    dry_run: false,
};

/// What an apply did, whether it ended well or not.
#[derive(Default)]
pub struct Report {
    /// Each object and what was done with it.
    pub changes: ChangeSet,
    /// The live objects after it, by inventory id.
    pub live: BTreeMap<String, Object>,
    /// The fingerprints to remember.
    pub applied: BTreeMap<String, Applied>,
    /// Objects whose write failed without a clear refusal: they may be there all the same.
    pub doubtful: BTreeSet<ObjectId>,
    /// What failed.
    pub failure: Option<Failure>,
}

/// Applies objects in stages. An object that fails stops the stages behind it, not its neighbours.
pub async fn apply(
    context: &Context<'_>,
    target: &Target,
    owner: &Kustomization,
    objects: Vec<Object>,
    known: &Inventory,
) -> Report {
    let mut report = Report::default();
    for stage in stage::stages(objects, &[]) {
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
        let live = match Live::read(target, owner, &items, known).await {
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
            let work = group
                .iter()
                .map(|item| apply_one(context, target, owner, item, &live).boxed());
            for (object, result) in concurrent::run(CONCURRENCY, work.collect()).await {
                report.add(context, owner, object, result);
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

    /// Whether an object was applied, or may have been.
    pub fn may_have_made(&self, id: &ObjectId) -> bool {
        self.doubtful.contains(id) || self.applied.contains_key(&id.inventory_id())
    }

    fn add(
        &mut self,
        context: &Context<'_>,
        owner: &Kustomization,
        object: &Object,
        result: Result<(Action, Option<Object>), NotApplied>,
    ) {
        match result {
            Ok((action, live)) => {
                let id = object.id().inventory_id();
                self.changes.push(object.id(), action);
                let applied = Applied::new(object, live.as_ref(), KUSTOMIZE_CONTROLLER);
                self.applied.insert(id.clone(), applied);
                if let Some(live) = live {
                    self.live.insert(id, live);
                }
            }
            Err(not) => {
                if !not.is_refused {
                    self.doubtful.insert(object.id());
                }
                let remedy = target::remedy(&context.hub, owner, &not.error);
                let mut failure = apply_failure(object, &not.error);
                failure.message.extend(remedy);
                self.fail(failure);
            }
        }
    }
}

/// Why an object was not applied as it should be.
struct NotApplied {
    error: PortError,
    /// The API server refused the write that would have made or changed the object: it has done nothing.
    is_refused: bool,
}

/// Anything but the refusal of the first write: what has happened is not known.
impl From<PortError> for NotApplied {
    fn from(error: PortError) -> Self {
        Self {
            error,
            is_refused: false,
        }
    }
}

impl NotApplied {
    /// The answer to the first write.
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
        let what = format!(
            "{id} dry-run failed: no matches for kind \"{}\" in version \"{}\"",
            gvk.kind,
            gvk.api_version()
        );
        return Err(Failure::retry(reason::FAILED, what));
    };
    if resource.namespaced && object.namespace().is_empty() {
        let what = format!(
            "{id} namespace not specified: set metadata.namespace, or spec.targetNamespace"
        );
        return Err(Failure::retry(reason::FAILED, what));
    }
    normalize::object(&mut object);
    Ok(Item::new(object, resource))
}

fn apply_failure(object: &Object, error: &PortError) -> Failure {
    let id = object.id();
    let what = match (error.kind, error.reason.as_str()) {
        (ErrorKind::NotFound, _) => format!("{id} not found"),
        (_, "") => format!("{id} dry-run failed"),
        (_, why) => format!("{id} dry-run failed ({why})"),
    };
    Failure::port(reason::FAILED, error).context(what)
}

async fn apply_one<'i>(
    context: &Context<'_>,
    target: &Target,
    owner: &Kustomization,
    item: &'i Item,
    live: &Live,
) -> (&'i Object, Result<(Action, Option<Object>), NotApplied>) {
    let result = change(context, target, owner, item, live.get(&item.object)).await;
    (&item.object, result)
}

/// Brings one object to what it should be.
async fn change(
    context: &Context<'_>,
    target: &Target,
    owner: &Kustomization,
    item: &Item,
    live: Option<&Object>,
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
    if let Some(before) = before
        && is_as_desired(target, resource, object, before).await
    {
        let action = if cleaned.is_some() {
            Action::Configured
        } else {
            Action::Unchanged
        };
        return Ok((action, Some(before.clone())));
    }
    match target.cluster.apply(resource, object, WRITE).await {
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

/// Whether an apply would change nothing: told from the live object where that can be told, else by a dry run.
async fn is_as_desired(
    target: &Target,
    resource: &Resource,
    object: &Object,
    live: &Object,
) -> bool {
    match drift::compare(object, live, KUSTOMIZE_CONTROLLER) {
        Drift::Unchanged => true,
        Drift::Configured => false,
        Drift::Unknown => {
            let how = ports::Apply {
                dry_run: true,
                ..WRITE
            };
            // What a dry run is refused for, the apply is refused for, too, and says it.
            let would = target.cluster.apply(resource, object, how).await;
            would.is_ok_and(|would| drift::is_same(&would, live))
        }
    }
}

/// What a successful apply did. The API server leaves the `resourceVersion` as it is when nothing changed.
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
        Some(_) => Ok((Action::Configured, Some(new))),
        None if !Policy::of(&item.object).takes_over(&new) => Ok((first_action(&new), Some(new))),
        None => {
            // The inventory did not know it, and it may have been there: what other tools once set there becomes ours, and
            // goes with the second apply when it is not rendered.
            let new = match clean_managers(target, &item.resource, &new).await? {
                Some(_) => {
                    target
                        .cluster
                        .apply(&item.resource, &item.object, WRITE)
                        .await?
                }
                None => new,
            };
            Ok((first_action(&new), Some(new)))
        }
    }
}

/// What an apply did to an object that nobody knew of: its answer shows others' fields, or ours as younger than the object, when
/// it was there before.
fn first_action(new: &Object) -> Action {
    let entries = new
        .pointer("/metadata/managedFields")
        .and_then(Value::as_array);
    let is_first = entries.into_iter().flatten().all(|entry| {
        entry["manager"] == KUSTOMIZE_CONTROLLER && entry["time"] == new.meta("creationTimestamp")
    });
    match is_first {
        true => Action::Created,
        false => Action::Configured,
    }
}

/// Takes the fields of kubectl's client-side apply over, as Flux does, so that removed fields really go.
async fn clean_managers(
    target: &Target,
    resource: &Resource,
    live: &Object,
) -> Result<Option<Object>, PortError> {
    let Some(patch) = drift::managed_fields_patch(live, KUSTOMIZE_CONTROLLER) else {
        return Ok(None);
    };
    let patch = Patch::Json(patch);
    let patched = target
        .cluster
        .patch(
            resource,
            live.namespace(),
            live.name(),
            None,
            &patch,
            KUSTOMIZE_CONTROLLER,
        )
        .await?;
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
    // What went meanwhile needs no delete: one without a uid would hit whatever has just come.
    if let Some(old) = target.cluster.get(resource, namespace, name).await? {
        objects::delete(target, resource, &old, "Background", &|_| true).await?;
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
            let what =
                "the old object is still being deleted, its recreation goes on with the next try";
            return Err(PortError::new(ErrorKind::Conflict, what));
        }
    }
    target.cluster.apply(resource, object, WRITE).await
}

/// Waits until what this stage made can be used by the next: definitions established, namespaces there.
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
    let waited = polling::wait_until_established(target, context.ports.clock.as_ref(), &changed).await;
    waited.map_err(|why| match why {
        NotEstablished::Late(id, seconds) => {
            let what = format!("{id} is not established after {seconds}s");
            Failure::retry(reason::HEALTH_CHECK_FAILED, what)
        }
        NotEstablished::Deleted(id) => Failure::retry(
            reason::FAILED,
            format!("{id} was deleted while it was applied"),
        ),
        NotEstablished::Cluster(error) => error.into(),
    })
}
