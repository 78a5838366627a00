//! Finds objects that need no step, by a rehearsal of their step.
//!
//! A rehearsal runs the same step over ports that only read ([`super::read_only`]), from one
//! [`Snapshot`] for all rehearsals. It ends as soon as the step would write something, download
//! files or read an artifact: then a message is queued, and the real step reads and decides again.
//! A rehearsal that runs to its end has shown that the real step would do nothing.
//!
//! A rehearsal does not compare what a Kustomization applied with the live objects: the sweep's
//! check for drift does that in each minute.

use super::read_only::{ReadOnly, SnapshotsOfClusters};
use super::snapshot::Snapshot;
use crate::driver::{self, Reconciler};
use crate::flux::{FluxKind, ObjectRef};
use crate::helmrelease::{self, HelmReleases};
use crate::hub::Hub;
use crate::kernel::{Context, Outcome, Recorder};
use crate::kustomization::{self, Kustomizations};
use crate::ports::{Cause, Ports};
use crate::schedule::Records;
use crate::source::reconciler::Sources;
use crate::source::{bucket, consumers, git, helm_chart, helm_repository, oci};
use driftless_manifest::Object;
use futures::FutureExt as _;
use futures::future::{AbortHandle, Abortable, Either, select};
use futures::stream::{BoxStream, StreamExt as _};
use serde_json::Value;
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
    flux: Arc<Vec<Object>>,
    /// The hub and other clusters, as rehearsals of HelmReleases read them.
    releases: (Arc<Snapshot>, SnapshotsOfClusters),
    /// The same, as rehearsals of the other kinds read them.
    others: (Arc<Snapshot>, SnapshotsOfClusters),
}

impl<'a> Rehearsals<'a> {
    /// Prepares rehearsals; `flux` are the hub's Flux objects that were listed.
    pub fn new(ports: &'a Ports, hub: &'a Hub, records: Arc<Records>, flux: Vec<Object>) -> Self {
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
            releases: snapshot(helmrelease::OWNER_NAME),
            others: snapshot(kustomization::live::OWNER_NAME),
            flux,
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

    /// Returns whether the chart was made of the artifact that its source has now: then it is what
    /// a step would make.
    fn is_chart_of_artifact(&self, object: &Object) -> bool {
        let text = |object: &Object, pointer: &str| {
            let text = object.pointer(pointer).and_then(Value::as_str);
            text.map(str::to_owned).filter(|text| !text.is_empty())
        };
        let Some(source) = consumers::source_of(object.clone()) else {
            return false;
        };
        let found = self
            .flux
            .iter()
            .find(|one| ObjectRef::of(one).as_ref() == Some(&source));
        let current = found.and_then(|source| text(source, "/status/artifact/revision"));
        current.is_some() && current == text(object, "/status/observedSourceArtifactRevision")
    }

    async fn is_settled(&self, id: &ObjectRef, object: &Object) -> bool {
        if id.kind == FluxKind::HelmChart && self.is_chart_of_artifact(object) {
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
        let context = Context {
            ports: &ports,
            hub: Hub {
                cluster: read_only.cluster(snapshot.clone()),
                ..self.hub.clone()
            },
            id: id.clone(),
            cause: Cause::Timer,
            wait_budget: Duration::ZERO,
            events: Recorder::default(),
            is_rehearsal: true,
        };
        let step = Abortable::new(rehearse(&context, object.clone()), registration).boxed();
        match select(step, self.ports.clock.timeout(LIMIT)).await {
            Either::Left((Ok(Some(outcome)), _)) => is_nothing(&outcome),
            _ => false,
        }
    }
}

/// Runs the step of an object; `None` if it failed or would change its memory.
async fn rehearse(context: &Context<'_>, object: Object) -> Option<Outcome> {
    match context.id.kind {
        FluxKind::GitRepository => run::<Sources<git::Git>>(context, object).await,
        FluxKind::OCIRepository => run::<Sources<oci::Oci>>(context, object).await,
        FluxKind::Bucket => run::<Sources<bucket::Objects>>(context, object).await,
        FluxKind::HelmRepository => run::<Sources<helm_repository::Helm>>(context, object).await,
        FluxKind::HelmChart => run::<Sources<helm_chart::Helm>>(context, object).await,
        FluxKind::Kustomization => run::<Kustomizations>(context, object).await,
        FluxKind::HelmRelease => run::<HelmReleases>(context, object).await,
        _ => None,
    }
}

async fn run<R: Reconciler>(context: &Context<'_>, object: Object) -> Option<Outcome> {
    driver::rehearse::<R>(context, object).await.ok().flatten()
}

fn is_nothing(outcome: &Outcome) -> bool {
    outcome.requeue_after.is_none() && outcome.enqueue.is_empty() && outcome.failure.is_none()
}
