//! Finds objects that need no step, by a rehearsal of their step.
//!
//! A rehearsal runs the same step over ports that only read ([`super::read_only`]), from one
//! [`Snapshot`] for all rehearsals. It ends as soon as the step would write something, download
//! files or read an artifact: then a message is queued, and the real step reads and decides again.
//! A rehearsal that runs to its end has shown that the real step would do nothing.
//!
//! A rehearsal does not compare what a Kustomization applied with the live objects: the sweep's
//! check for drift does that in each minute.

use super::due::{self, Artifacts};
use super::read_only::{ReadOnly, SnapshotsOfClusters};
use super::snapshot::Snapshot;
use crate::kustomization;
use crate::step;
use driftless_flux::{FluxKind, ObjectRef};
use driftless_kernel::context::{Context, Outcome};
use driftless_kernel::hub::Hub;
use driftless_kernel::ports::{Ports, in_time};
use driftless_kernel::schedule::{self, Records};
use driftless_manifest::Object;
use futures::FutureExt as _;
use futures::future::{AbortHandle, Abortable};
use futures::stream::{BoxStream, StreamExt as _};
use std::sync::Arc;
use std::time::Duration;

/// Steps that are rehearsed concurrently.
const CONCURRENCY: usize = 16;
/// The limit of the time of a rehearsal: a host that hangs must not delay the other rehearsals.
const LIMIT: Duration = Duration::from_secs(8);

/// The snapshots that all rehearsals of a sweep share.
pub struct Rehearsals<'a> {
    ports: &'a Ports,
    hub: &'a Hub,
    records: Arc<Records>,
    artifacts: Artifacts,
    /// The hub and other clusters, as rehearsals of HelmReleases read them.
    releases: (Arc<Snapshot>, SnapshotsOfClusters),
    /// The same, as rehearsals of the other kinds read them.
    others: (Arc<Snapshot>, SnapshotsOfClusters),
}

impl<'a> Rehearsals<'a> {
    /// Prepares rehearsals; `flux` are the hub's Flux objects that were listed.
    pub fn new(
        ports: &'a Ports,
        hub: &'a Hub,
        records: Arc<Records>,
        flux: &[(ObjectRef, Object)],
    ) -> Self {
        let artifacts = due::artifacts(flux);
        let flux: Vec<Object> = flux.iter().map(|(_, object)| object.clone()).collect();
        let flux = Arc::new(flux);
        let snapshot = |label| {
            let snapshot = Snapshot::new(hub.cluster.clone(), Some(flux.clone()), label);
            (
                Arc::new(snapshot),
                SnapshotsOfClusters::new(ports.clusters.clone(), label),
            )
        };
        Self {
            ports,
            hub,
            records,
            releases: snapshot(driftless_helmrelease::OWNER_NAME),
            others: snapshot(kustomization::live_objects::OWNER_NAME),
            artifacts,
        }
    }

    /// Rehearses the steps of objects, and returns each with true if its step would do nothing, in
    /// the order in which the rehearsals end.
    pub fn run<'s>(
        &'s self,
        objects: Vec<(&'s ObjectRef, &'s Object)>,
    ) -> BoxStream<'s, (ObjectRef, bool)> {
        let rehearsals = objects.into_iter().map(move |(id, object)| {
            async move { (id.clone(), self.is_settled(id, object).await) }.boxed()
        });
        let rehearsals: Vec<_> = rehearsals.collect();
        futures::stream::iter(rehearsals)
            .buffer_unordered(CONCURRENCY)
            .boxed()
    }

    async fn is_settled(&self, id: &ObjectRef, object: &Object) -> bool {
        if due::is_chart_of_artifact(id, object, &self.artifacts) {
            return true;
        }
        let (stop, registration) = AbortHandle::new_pair();
        let (snapshot, clusters) = match id.kind {
            FluxKind::HelmRelease => &self.releases,
            _ => &self.others,
        };
        let read_only = ReadOnly {
            hub: &self.hub.settings.name,
            id,
            records: &self.records,
            clusters,
            stop,
        };
        let ports = read_only.ports(self.ports);
        let hub = Hub {
            cluster: read_only.cluster(snapshot.clone()),
            ..self.hub.clone()
        };
        let context = Context::rehearsal(&ports, hub, id.clone());
        let step = Abortable::new(rehearse(&context, object.clone()), registration).boxed();
        let done = in_time(self.ports.clock.as_ref(), LIMIT, step).await;
        matches!(done, Some(Ok(Some(outcome))) if is_nothing(&outcome))
    }
}

/// Runs the step of an object; `None` if it failed or would change its memory.
async fn rehearse(context: &Context<'_>, object: Object) -> Option<Outcome> {
    let hub = &context.hub.settings.name;
    let lease = schedule::peek(context.ports, hub, &context.id).await;
    let mut lease = lease.ok()?;
    let outcome = step::reconcile(context, object, &mut lease).await.ok()?;
    (!lease.has_new_memory).then_some(outcome)
}

fn is_nothing(outcome: &Outcome) -> bool {
    outcome.requeue_after.is_none() && outcome.enqueue.is_empty() && outcome.failure.is_none()
}
