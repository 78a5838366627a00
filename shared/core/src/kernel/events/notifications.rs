//! The notifications about the object of a step: one LIST of the hub's Alerts, and a record in the
//! bucket for each event that one of them selects. The step of the Provider sends it
//! ([`crate::notification`]): a slow service delays no object.

use super::pending::{self, Pending};
use super::{Sink, lock, matching};
use crate::flux::{Alert, FluxEvent, FluxKind, FluxObject as _, Severity};
use crate::kernel::Context;
use crate::ports::{Cause, PortError};
use async_trait::async_trait;
use driftless_manifest::Object;
use std::collections::BTreeSet;

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
        let (hub, settings) = (&context.hub, &context.hub.settings);
        let mut providers = BTreeSet::new();
        for alert in hub.list(FluxKind::Alert).await? {
            // The step of an Alert that cannot be parsed reports that.
            let Ok(alert) = Alert::from_object(alert) else {
                continue;
            };
            let no_cross = settings.no_cross_namespace_refs;
            let selected = |(_, event): &(usize, &FluxEvent)| {
                !is_detail(event) && matching::selects(&alert, event, object, no_cross)
            };
            let provider = alert.provider();
            for (index, event) in events.iter().enumerate().filter(selected) {
                let event = Pending::new(context.ports, &alert.id.name, event.clone(), index);
                if pending::add(context.ports, &settings.name, &provider, &event).await? {
                    providers.insert(provider.clone());
                }
            }
        }
        let requests = providers.into_iter();
        let requests = requests.map(|provider| context.request(provider, Cause::Changed));
        lock(&context.events.requests).extend(requests);
        Ok(())
    }
}
