//! Health: is everything that was applied, or everything that the object names, what it should be? A look takes seconds;
//! a wait is a delayed message.

use super::target::Target;
use crate::concurrent;
use crate::failure::Failure;
use crate::flux::{Kustomization, duration_text, reason, timestamp};
use crate::health::{self, Assessment, Health as Status, HealthExprs};
use crate::inventory::Inventory;
use crate::step::Context;
use driftless_manifest::{Gvk, Object, ObjectId};
use futures::FutureExt as _;
use std::time::Duration;

const CONCURRENCY: usize = 8;
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How a look at the health ended.
pub enum Health {
    /// Nothing to look at.
    NotAsked,
    /// All is well.
    Healthy,
    /// Not yet; what is missing.
    Waiting(String),
}

/// Looks at the health until all is well, something failed for good, or the step's patience ends.
///
/// # Errors
/// `HealthCheckFailed` when an object failed or the timeout is over; `InvalidCELExpression`.
pub async fn look(
    context: &Context<'_>,
    target: &Target,
    owner: &Kustomization,
    inventory: &Inventory,
    since: Duration,
) -> Result<Health, Failure> {
    let mut wanted = wanted(owner, inventory);
    if wanted.is_empty() {
        return Ok(Health::NotAsked);
    }
    let exprs = expressions(owner)?;
    let timeout = owner
        .timeout()
        .map_err(|what| Failure::terminal(reason::FAILED, what))?;
    let clock = context.ports.clock.as_ref();
    let (start, mut pause) = (clock.now(), FIRST_PAUSE);
    loop {
        let now = clock.now();
        let looks = wanted
            .drain(..)
            .map(|one| assess(target, one, &exprs, now).boxed())
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
            let what = format!(
                "health check failed after {}: failed early due to stalled resources: [{}]",
                duration_text(passed),
                list(&failed)
            );
            return Err(Failure::retry(reason::HEALTH_CHECK_FAILED, what));
        }
        if open.is_empty() {
            return Ok(Health::Healthy);
        }
        if passed >= timeout {
            let what = format!(
                "health check failed after {}: timeout waiting for: [{}]",
                duration_text(timeout),
                list(&open)
            );
            return Err(Failure::retry(reason::HEALTH_CHECK_FAILED, what));
        }
        if clock.now().saturating_sub(start) + pause > context.patience {
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
}

fn wanted(owner: &Kustomization, inventory: &Inventory) -> Vec<Wanted> {
    if owner.spec.wait {
        // With `wait`, healthChecks are ignored, as in Flux.
        return inventory
            .iter()
            .map(|entry| Wanted {
                id: entry.id.clone(),
                version: entry.version.clone(),
            })
            .collect();
    }
    let named = owner.spec.health_checks.iter().map(|check| {
        let gvk = Gvk::new(check.api_version.as_deref().unwrap_or("v1"), &check.kind);
        let namespace = check.namespace.clone().unwrap_or_default();
        Wanted {
            id: ObjectId {
                namespace,
                name: check.name.clone(),
                group: gvk.group,
                kind: gvk.kind,
            },
            version: gvk.version,
        }
    });
    named.collect()
}

async fn assess(
    target: &Target,
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
        return Ok((one, Status::NotFound, "not found".to_owned()));
    };
    let assessed = health_of(&live, exprs, now)?;
    Ok((one, assessed.status, assessed.message))
}

/// By the object's own expressions where one is for its kind, else as kstatus tells.
fn health_of(live: &Object, exprs: &HealthExprs, now: Duration) -> Result<Assessment, Failure> {
    let unknown = |what: String| {
        Ok(Assessment {
            status: Status::Unknown,
            message: what,
        })
    };
    match exprs.assess(live) {
        Some(assessed) => assessed.or_else(|error| unknown(error.to_string())),
        None => health::assess(live, timestamp(now)).or_else(|error| unknown(error.to_string())),
    }
}

fn expressions(owner: &Kustomization) -> Result<HealthExprs, Failure> {
    let checks = owner
        .spec
        .health_check_exprs
        .iter()
        .map(|check| health::HealthCheck {
            api_version: check.api_version.clone(),
            kind: check.kind.clone(),
            in_progress: check.in_progress.clone(),
            failed: check.failed.clone(),
            current: check.current.clone(),
        });
    let checks: Vec<_> = checks.collect();
    HealthExprs::parse(&checks).map_err(|error| Failure::terminal(reason::INVALID_CEL, error))
}

fn list(open: &[(Wanted, Status, String)]) -> String {
    let mut words: Vec<String> = open
        .iter()
        .map(|(one, status, _)| format!("{} status: '{status}'", one.id))
        .collect();
    words.sort();
    words.join(", ")
}
