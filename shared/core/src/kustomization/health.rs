//! Health checks of everything that was applied, or of everything that the object names. A check
//! polls for seconds; a longer wait is a delayed message.

use super::live_objects;
use super::memory::Memory;
use driftless_flux::{FluxKind, Kustomization, duration_text, reason};
use driftless_kernel::concurrent;
use driftless_kernel::context::Context;
use driftless_kernel::failure::Failure;
use driftless_kernel::target::Target;
use driftless_kernel::target::health::{expressions, health_of};
use driftless_kernel::target::objects::{self, CONCURRENCY, Denied, Item};
use driftless_kernel::target::polling::{Pauses, PollDecision};
use driftless_manifest::{Gvk, Object, ObjectId};
use driftless_plans::apply::annotations::Policy;
use driftless_plans::health::{Health as Status, HealthExprs};
use driftless_plans::inventory::Inventory;
use futures::FutureExt as _;
use serde_json::json;
use std::time::Duration;

/// Flux's default `apiVersion` of a health check.
const DEFAULT_API_VERSION: &str = "apps/v1";

/// Prefix of the message of a failed health check; the duration and the cause follow.
pub(super) const HEALTH_FAILED: &str = "health check failed after ";

/// The result of a health check.
pub enum Health {
    /// The object has no health checks.
    NotAsked,
    /// All objects are healthy.
    Healthy,
    /// Some objects are not healthy yet; lists them.
    Waiting(String),
}

fn unhealthy(took: Duration, cause: &str, objects: &str) -> Failure {
    let took = duration_text(took);
    let message = format!("{HEALTH_FAILED}{took}: {cause}: [{objects}]");
    Failure::retry(reason::HEALTH_CHECK_FAILED, message)
}

/// Polls the health until all objects are healthy, one failed for good, or the step has waited as
/// long as it may.
///
/// # Errors
/// `HealthCheckFailed` when an object failed or the timeout is over; `InvalidCELExpression`.
pub async fn check(
    context: &Context<'_>,
    target: &Target,
    owner: &Kustomization,
    inventory: &Inventory,
    memory: &Memory,
    since: Duration,
) -> Result<Health, Failure> {
    let mut awaited = awaited(owner, inventory, memory);
    if awaited.is_empty() {
        return Ok(Health::NotAsked);
    }
    let exprs = expressions(&owner.spec.health_check_exprs, &context.fuel)?;
    let timeout = owner
        .timeout()
        .map_err(|message| Failure::terminal(reason::FAILED, message))?;
    let clock = context.ports.clock.as_ref();
    let (step_ends, mut pauses) = (clock.now() + context.wait_budget, Pauses::new());
    loop {
        let assessed = assess(target, owner, awaited, &exprs, clock.now()).await?;
        let (mut open, mut failed) = (Vec::new(), Vec::new());
        for (one, status) in assessed {
            match status {
                Status::Current => {}
                Status::Failed => failed.push((one, status)),
                _ => open.push((one, status)),
            }
        }
        let passed = clock.now().saturating_sub(since);
        if !failed.is_empty() {
            let cause = "failed early due to stalled resources";
            return Err(unhealthy(passed, cause, &list(&failed)));
        }
        if open.is_empty() {
            return Ok(Health::Healthy);
        }
        match pauses.pause(clock, passed >= timeout, step_ends).await {
            PollDecision::Poll => awaited = open.into_iter().map(|(one, _)| one).collect(),
            PollDecision::StepEnds => return Ok(Health::Waiting(list(&open))),
            PollDecision::TooLate => {
                return Err(unhealthy(timeout, "timeout waiting for", &list(&open)));
            }
        }
    }
}

/// An object whose health is awaited.
struct AwaitedObject {
    id: ObjectId,
    version: String,
    /// True for a Job that Kubernetes deletes when it is finished.
    expires: bool,
}

impl AwaitedObject {
    fn gvk(&self) -> Gvk {
        Gvk {
            group: self.id.group.clone(),
            version: self.version.clone(),
            kind: self.id.kind.clone(),
        }
    }

    /// Returns an object with only its identity.
    fn object(&self) -> Result<Object, Failure> {
        let ObjectId {
            namespace, name, ..
        } = &self.id;
        let object = json!({"apiVersion": self.gvk().api_version(), "kind": self.id.kind,
            "metadata": {"namespace": namespace, "name": name}});
        Object::new(object).map_err(|error| {
            let message = format!("{}: {error}", self.id);
            Failure::terminal(reason::HEALTH_CHECK_FAILED, message)
        })
    }
}

fn awaited(owner: &Kustomization, inventory: &Inventory, memory: &Memory) -> Vec<AwaitedObject> {
    let expires = |id: &ObjectId| {
        let applied = memory.applied.get(&id.inventory_id());
        applied.is_some_and(|applied| applied.expires)
    };
    if owner.spec.wait {
        // With `wait`, healthChecks are ignored, as in Flux. The Kustomization cannot wait for
        // itself.
        return inventory
            .iter()
            .filter(|entry| !is_itself(owner, &entry.id))
            .map(|entry| AwaitedObject {
                expires: expires(&entry.id),
                id: entry.id.clone(),
                version: entry.version.clone(),
            })
            .collect();
    }
    let named = owner.spec.health_checks.iter().map(|check| {
        let api_version = check.api_version.as_deref().unwrap_or(DEFAULT_API_VERSION);
        let gvk = Gvk::new(api_version, &check.kind);
        let namespace = check.namespace.clone().unwrap_or_default();
        let id = ObjectId {
            namespace,
            name: check.name.clone(),
            group: gvk.group,
            kind: gvk.kind,
        };
        AwaitedObject {
            expires: expires(&id),
            id,
            version: gvk.version,
        }
    });
    named.collect()
}

fn is_itself(owner: &Kustomization, id: &ObjectId) -> bool {
    owner.spec.kube_config.is_none()
        && id.kind == "Kustomization"
        && id.group == FluxKind::Kustomization.group()
        && (&id.namespace, &id.name) == (&owner.id.namespace, &owner.id.name)
}

/// Returns the status of each object, from one read of all of them.
async fn assess(
    target: &Target,
    owner: &Kustomization,
    awaited: Vec<AwaitedObject>,
    exprs: &HealthExprs,
    now: Duration,
) -> Result<Vec<(AwaitedObject, Status)>, Failure> {
    let mut items = Vec::with_capacity(awaited.len());
    let mut ids = Vec::with_capacity(awaited.len());
    for one in &awaited {
        let resource = target.cluster.resource(&one.gvk()).await?;
        let item = match resource {
            Some(resource) => Some(Item::new(one.object()?, resource)),
            None => None,
        };
        // A health check may name a namespace although its kind is cluster-scoped.
        ids.push(item.as_ref().map(|item| item.object.id()));
        items.extend(item);
    }
    let selector = live_objects::selector(owner);
    let live = objects::read(target, &items, &selector, Denied::Error).await?;
    let checks = awaited.into_iter().zip(ids).map(|(one, id)| {
        let live = id.and_then(|id| live.get(&id));
        async move {
            let status = match live {
                Some(live) if owner.spec.wait && Policy::of(live).skip(None).is_some() => {
                    Status::Current
                }
                Some(live) => health_of(target, live, exprs, now).await.status,
                // A finished Job may have been deleted after its `ttlSecondsAfterFinished`, which
                // Flux counts as done.
                None if one.expires => Status::Current,
                None => Status::NotFound,
            };
            (one, status)
        }
        .boxed()
    });
    Ok(concurrent::run(CONCURRENCY, checks.collect()).await)
}

fn list(open: &[(AwaitedObject, Status)]) -> String {
    let mut words: Vec<String> = open
        .iter()
        .map(|(one, status)| format!("{} status: '{status}'", one.id))
        .collect();
    words.sort();
    words.join(", ")
}
