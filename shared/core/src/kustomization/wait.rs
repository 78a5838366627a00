//! Health: is everything that was applied, or everything that the object names, what it should be? A look takes seconds;
//! a wait is a delayed message.

use super::memory::Memory;
use crate::apply::annotations::Policy;
use crate::concurrent;
use crate::failure::Failure;
use crate::flux::{FluxKind, Kustomization, duration_text, reason};
use crate::health::{Health as Status, HealthExprs};
use crate::inventory::Inventory;
use crate::kernel::Context;
use crate::target::Target;
use crate::target::health::{expressions, health_of};
use crate::target::objects::CONCURRENCY;
use driftless_manifest::{Gvk, ObjectId};
use futures::FutureExt as _;
use std::time::Duration;

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// What Flux takes for a health check that names no `apiVersion`.
const DEFAULT_API_VERSION: &str = "apps/v1";

/// How the message of a health check that failed begins; what took how long follows.
pub(super) const HEALTH_FAILED: &str = "health check failed after ";

/// How a look at the health ended.
pub enum Health {
    /// Nothing to look at.
    NotAsked,
    /// All is well.
    Healthy,
    /// Not yet; what is missing.
    Waiting(String),
}

fn unhealthy(took: Duration, what: &str, which: &str) -> Failure {
    let took = duration_text(took);
    let what = format!("{HEALTH_FAILED}{took}: {what}: [{which}]");
    Failure::retry(reason::HEALTH_CHECK_FAILED, what)
}

/// Looks at the health until all is well, something failed for good, or the step has waited as long as it may.
///
/// # Errors
/// `HealthCheckFailed` when an object failed or the timeout is over; `InvalidCELExpression`.
pub async fn look(
    context: &Context<'_>,
    target: &Target,
    owner: &Kustomization,
    inventory: &Inventory,
    memory: &Memory,
    since: Duration,
) -> Result<Health, Failure> {
    let mut wanted = wanted(owner, inventory, memory);
    if wanted.is_empty() {
        return Ok(Health::NotAsked);
    }
    let exprs = expressions(&owner.spec.health_check_exprs)?;
    let timeout = owner
        .timeout()
        .map_err(|what| Failure::terminal(reason::FAILED, what))?;
    let clock = context.ports.clock.as_ref();
    let (start, mut pause) = (clock.now(), FIRST_PAUSE);
    loop {
        let now = clock.now();
        let looks = wanted
            .drain(..)
            .map(|one| assess(target, owner, one, &exprs, now).boxed())
            .collect();
        let (mut open, mut failed) = (Vec::new(), Vec::new());
        for look in concurrent::run(CONCURRENCY, looks).await {
            match look? {
                (_, Status::Current, _) => {}
                (one, Status::Failed, message) => failed.push((one, Status::Failed, message)),
                other => open.push(other),
            }
        }
        let passed = clock.now().saturating_sub(since);
        if !failed.is_empty() {
            let what = "failed early due to stalled resources";
            return Err(unhealthy(passed, what, &list(&failed)));
        }
        if open.is_empty() {
            return Ok(Health::Healthy);
        }
        if passed >= timeout {
            return Err(unhealthy(timeout, "timeout waiting for", &list(&open)));
        }
        if clock.now().saturating_sub(start) + pause > context.wait_budget {
            return Ok(Health::Waiting(list(&open)));
        }
        wanted = open.into_iter().map(|(one, ..)| one).collect();
        clock.sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// An object to look at.
struct Wanted {
    id: ObjectId,
    version: String,
    /// A Job that goes by itself when it is finished.
    expires: bool,
}

fn wanted(owner: &Kustomization, inventory: &Inventory, memory: &Memory) -> Vec<Wanted> {
    let expires = |id: &ObjectId| {
        let applied = memory.applied.get(&id.inventory_id());
        applied.is_some_and(|applied| applied.expires)
    };
    if owner.spec.wait {
        // With `wait`, healthChecks are ignored, as in Flux. The Kustomization cannot wait for itself.
        return inventory
            .iter()
            .filter(|entry| !is_itself(owner, &entry.id))
            .map(|entry| Wanted {
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
        Wanted {
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

async fn assess(
    target: &Target,
    owner: &Kustomization,
    one: Wanted,
    exprs: &HealthExprs,
    now: Duration,
) -> Result<(Wanted, Status, String), Failure> {
    let gvk = Gvk {
        group: one.id.group.clone(),
        version: one.version.clone(),
        kind: one.id.kind.clone(),
    };
    let Some(resource) = target.cluster.resource(&gvk).await? else {
        return Ok((one, Status::NotFound, "the kind is not served".to_owned()));
    };
    let Some(live) = target
        .cluster
        .get(&resource, &one.id.namespace, &one.id.name)
        .await?
    else {
        // A finished Job may have been taken away by its own `ttlSecondsAfterFinished`, which Flux counts as done.
        let status = if one.expires {
            Status::Current
        } else {
            Status::NotFound
        };
        return Ok((one, status, "not found".to_owned()));
    };
    if owner.spec.wait && Policy::of(&live).skip(None).is_some() {
        return Ok((one, Status::Current, "left alone".to_owned()));
    }
    let assessed = health_of(target, &live, exprs, now).await;
    Ok((one, assessed.status, assessed.message))
}

fn list(open: &[(Wanted, Status, String)]) -> String {
    let mut words: Vec<String> = open
        .iter()
        .map(|(one, status, _)| format!("{} status: '{status}'", one.id))
        .collect();
    words.sort();
    words.join(", ")
}
