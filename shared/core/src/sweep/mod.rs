//! The timer: what is due, what was lost, what drifted. Each minute it LISTs the Flux objects of each hub and queues what
//! needs a look; a lost message costs at most that minute.

mod drift;
mod due;
mod rehearsal;
mod snapshot;

use crate::concurrent;
use crate::failure::Failure;
use crate::flux::{FluxKind, ObjectRef};
use crate::hub::{self, Hub};
use crate::ports::{Cause, Ports, Precondition, Request, Result};
use crate::state::{self, key_part};
use driftless_manifest::Object;
use due::Entry;
use futures::FutureExt as _;
use std::collections::BTreeMap;
use std::time::Duration;

/// How many hubs are looked at at once.
const HUBS: usize = 8;

/// What a sweep of one hub found.
#[derive(Debug)]
pub struct Report {
    /// The hub.
    pub hub: String,
    /// What was queued.
    pub queued: Vec<Request>,
    /// Why the hub could not be looked at.
    pub failure: Option<Failure>,
}

/// Sweeps every registered hub. A hub that cannot be reached does not keep the others waiting.
///
/// # Errors
/// The registry cannot be read.
pub async fn sweep(ports: &Ports) -> Result<Vec<Report>> {
    let names = hub::names(ports).await?;
    let sweeps = names.into_iter().map(|name| {
        async move {
            match sweep_hub(ports, &name).await {
                Ok(queued) => Report {
                    hub: name,
                    queued,
                    failure: None,
                },
                Err(failure) => {
                    tracing::warn!(hub = name, reason = failure.reason, "{}", failure.message);
                    Report {
                        hub: name,
                        queued: Vec::new(),
                        failure: Some(failure),
                    }
                }
            }
        }
        .boxed()
    });
    Ok(concurrent::run(HUBS, sweeps.collect()).await)
}

async fn sweep_hub(ports: &Ports, name: &str) -> Result<Vec<Request>, Failure> {
    let hub = hub::connect(ports, name).await?;
    let objects = list(&hub).await?;
    let key = format!("schedule/{}.json", key_part(name));
    let known = state::read::<BTreeMap<String, Entry>>(ports.blobs.as_ref(), &key).await?;
    let (old, when) = match known {
        Some((schedule, version)) => (schedule, Precondition::Is(version)),
        None => (BTreeMap::new(), Precondition::Absent),
    };

    let now = ports.clock.now();
    let revisions = due::revisions(&objects);
    let mut schedule = BTreeMap::new();
    let mut requests = Vec::new();
    let mut quiet = Vec::new();
    let mut rehearsed = Vec::new();
    for (id, object) in &objects {
        let known = old.get(&id.key());
        let cause = due::due(id, object, known, &revisions, now);
        let entry = match cause {
            Some(_) => Entry::queued(object, now),
            None => known.cloned().unwrap_or_else(|| Entry::queued(object, now)),
        };
        schedule.insert(id.key(), entry);
        if cause.is_some() && due::may_be_settled(id, object) {
            rehearsed.push(id.clone());
        }
        match cause {
            Some(cause) => requests.push(Request {
                hub: name.to_owned(),
                object: id.clone(),
                cause,
            }),
            None => quiet.push(object),
        }
    }
    let settled = rehearsal::settled(ports, &hub, &rehearsed, &objects).await;
    requests.retain(|request| !settled.contains(&request.object));
    for id in drift::drifted(ports, &hub, &quiet).await {
        requests.push(Request {
            hub: name.to_owned(),
            object: id,
            cause: Cause::Drift,
        });
    }
    // The queue first: a schedule that is not written costs a second look, a request that is not sent would be lost.
    let batch = requests
        .iter()
        .map(|request| (request.clone(), Duration::ZERO))
        .collect::<Vec<_>>();
    if !batch.is_empty() {
        ports.queue.send(batch).await?;
    }
    if schedule != old {
        state::write(ports.blobs.as_ref(), &key, &schedule, when).await?;
    }
    Ok(requests)
}

/// Every Flux object of the hub, sources first.
async fn list(hub: &Hub) -> Result<Vec<(ObjectRef, Object)>, Failure> {
    let lists = FluxKind::ALL.into_iter().map(|kind| hub.list(kind).boxed());
    let mut all = Vec::new();
    for list in concurrent::run(FluxKind::ALL.len(), lists.collect()).await {
        all.extend(
            list?
                .into_iter()
                .filter_map(|object| Some((ObjectRef::of(&object)?, object))),
        );
    }
    Ok(all)
}
