//! The notifications about the object of a step: one LIST of the hub's Alerts (for the steps of one
//! message together), and a record in the bucket for each event that one of them selects. The step
//! of the Provider sends it (the module `notification` of the core): a slow service delays no
//! object.

use super::pending::{self, AddOutcome, Pending};
use super::push::{self, PushRef};
use super::{Sink, lock, matching};
use crate::context::Context;
use crate::ports::{Cause, PortError};
use async_trait::async_trait;
use driftless_flux::{Alert, AlertOptions, FluxEvent, ObjectRef, Severity};
use driftless_manifest::Object;
use std::collections::BTreeMap;
use std::time::Duration;

/// The time after the first event of a push at which the Provider checks whether it has landed.
const FIRST_CHECK: Duration = Duration::from_secs(5);

/// The sink that records the events which Alerts select.
pub struct Alerts;

#[async_trait]
impl Sink for Alerts {
    async fn send(
        &self,
        context: &Context<'_>,
        object: &Object,
        events: &[FluxEvent],
    ) -> Result<(), PortError> {
        // The events of Alerts and Providers are about notifications.
        let is_used = context.ports.notifiers.is_used();
        // As in Flux, a detail is only a Kubernetes event.
        let is_detail = |event: &FluxEvent| event.severity == Severity::Trace;
        if context.is_rehearsal
            || context.id.kind.is_static()
            || !is_used
            || events.iter().all(is_detail)
        {
            return Ok(());
        }
        let settings = &context.hub.settings;
        let mut requests = BTreeMap::new();
        let mut request = |object: &ObjectRef, after: Duration| {
            let known = requests.entry(object.clone()).or_insert(after);
            *known = after.min(*known);
        };
        let (mut pushes, mut separate) = (BTreeMap::new(), Vec::new());
        let alerts = context.events.alerts(context).await?;
        for alert in alerts.iter().cloned() {
            // The step of an Alert that cannot be parsed reports that.
            let Ok(alert) = Alert::from_object(alert) else {
                continue;
            };
            let no_cross = settings.no_cross_namespace_refs;
            let selected = |(_, event): &(usize, &FluxEvent)| {
                !is_detail(event) && matching::selects(&alert, event, object, no_cross)
            };
            let provider = alert.provider();
            // The step of the Alert reports an annotation that is not valid.
            let options = AlertOptions::of(&alert.object).unwrap_or_default();
            for (index, event) in events.iter().enumerate().filter(selected) {
                let waiting = Pending::new(context.ports, &alert.id.name, event.clone(), index);
                if event.severity == Severity::Error && options.follows_failures() {
                    request(&alert.id, Duration::ZERO);
                }
                let push = match options.digest {
                    true => push_of(context, object, (index, event), &mut pushes).await,
                    false => None,
                };
                if let Some(push) = push {
                    let pushed = waiting.clone().of_push(push);
                    match pending::add(context.ports, &settings.name, &provider, &pushed).await? {
                        AddOutcome::Added => request(&provider, FIRST_CHECK),
                        AddOutcome::Waits => {}
                        AddOutcome::Sent => separate.push((provider.clone(), waiting)),
                    }
                } else {
                    separate.push((provider.clone(), waiting));
                }
            }
        }
        for (provider, waiting) in separate {
            let added = pending::add(context.ports, &settings.name, &provider, &waiting).await?;
            if added != AddOutcome::Sent {
                request(&provider, Duration::ZERO);
            }
        }
        let requests = requests.into_iter().map(|(object, after)| {
            let (request, _) = context.request(object, Cause::Changed);
            (request, after)
        });
        lock(&context.events.requests).extend(requests);
        Ok(())
    }
}

/// Returns the push that an event of the step is part of, and keeps the result for other Alerts. If
/// it cannot be read, the event is a separate one.
async fn push_of(
    context: &Context<'_>,
    object: &Object,
    (index, event): (usize, &FluxEvent),
    known: &mut BTreeMap<usize, Option<PushRef>>,
) -> Option<PushRef> {
    if let Some(push) = known.get(&index) {
        return push.clone();
    }
    let found = push::of(context, object, event).await;
    let found = found.unwrap_or_else(|failure| {
        tracing::warn!(object = %context.id, "the push of an event is not known: {}", failure.message);
        None
    });
    known.insert(index, found.clone());
    found
}
