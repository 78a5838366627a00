//! The one event about a push: when all objects of the push have landed or failed, or the time for
//! it is over.

use super::digest_text::Digest;
use super::landing::{Followers, Progress, followers, landings, took};
use driftless_flux::{
    Alert, COMMIT_STATUS_UPDATE, FluxEvent, FluxKind, ObjectRef, Provider, Severity, meta_key,
};
use driftless_kernel::concurrent;
use driftless_kernel::context::Context;
use driftless_kernel::context::events::pending::Pending;
use driftless_kernel::context::events::push::{self, PushRef};
use driftless_kernel::context::events::{is_source, selects};
use driftless_kernel::failure::Failure;
use driftless_kernel::journal::{self, Journal, Landing, Push};
use driftless_manifest::Object;
use futures::FutureExt as _;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The reason of an event about a push whose objects have landed.
const LANDED: &str = "PushLanded";
/// The reason of an event about a push of which an object failed.
const FAILED: &str = "PushFailed";
/// The controller that reports pushes.
const CONTROLLER: &str = "driftless";
/// The shortest and the longest time before the next decision.
const PAUSES: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(60));
/// The journals that are read concurrently.
const CONCURRENCY: usize = 16;
/// The most objects of a push whose journals are read.
const MAX_JOURNALS: usize = 1000;

/// The decision about a push.
pub enum DigestOutcome {
    /// Decide again after this time.
    Wait(Duration),
    /// Send this event.
    Send(Box<FluxEvent>),
    /// Send nothing: the push did nothing that the Alert is about.
    Nothing,
}

/// Returns the Flux objects of the hub that pushes reach.
///
/// # Errors
/// The hub's.
pub async fn objects(context: &Context<'_>) -> Result<Vec<Object>, Failure> {
    let mut all = Vec::new();
    for kind in FluxKind::ALL {
        if push::is_pushed_to(kind)
            || matches!(kind, FluxKind::Kustomization | FluxKind::HelmRelease)
        {
            all.extend(context.hub.list(kind).await?);
        }
    }
    Ok(all)
}

/// Decides about a push for which the event `waiting` waits. `objects` are those of [`objects`].
///
/// # Errors
/// The bucket's.
pub async fn decide(
    context: &Context<'_>,
    provider: &Provider,
    alert: &Alert,
    (waiting, pushed): (&Pending, &PushRef),
    objects: &[Object],
) -> Result<DigestOutcome, Failure> {
    let Some(source) = pushed.source() else {
        return Ok(DigestOutcome::Nothing);
    };
    let found = followers(objects, &source, &pushed.revision);
    let age = waiting.age(context.ports);
    if !found.is_settled() && age < push::LIMIT {
        let (shortest, longest) = PAUSES;
        let left = push::LIMIT.saturating_sub(age).max(shortest);
        return Ok(DigestOutcome::Wait(
            (age / 2).clamp(shortest, longest).min(left),
        ));
    }
    let journals = journals(context, &found, alert).await?;
    let hub = &context.hub.settings.name;
    let landed = landings(hub, &journals, &pushed.revision);
    let no_cross = context.hub.settings.no_cross_namespace_refs;
    let view = View {
        context,
        alert,
        no_cross,
    };
    let digest = view.digest(&found, landed.as_ref(), waiting);
    let is_wanted = provider.is_commit_status() || !digest.is_empty();
    if !is_wanted || !view.wants(&digest) {
        return Ok(DigestOutcome::Nothing);
    }
    let about = found.sources.first().copied();
    let about = about.filter(|source| !no_cross || source.namespace() == alert.id.namespace);
    let severity = match digest.failed.is_empty() {
        true => (Severity::Info, LANDED),
        false => (Severity::Error, FAILED),
    };
    let mut event = match about {
        Some(about) => {
            context.event_about(about, CONTROLLER, severity.0, severity.1, &digest.message())
        }
        // The sources are in another namespace, which the Alert may not see.
        None => FluxEvent {
            severity: severity.0,
            reason: severity.1.to_owned(),
            message: digest.message(),
            reporting_controller: CONTROLLER.to_owned(),
            ..waiting.event.clone()
        },
    };
    let group = event.involved_object.group().to_owned();
    let mut set = |key: &str, value: &str| {
        event
            .metadata
            .insert(format!("{group}/{key}"), value.to_owned());
    };
    set(meta_key::REVISION, &pushed.revision);
    if provider.is_commit_status() {
        set(meta_key::COMMIT_STATUS, COMMIT_STATUS_UPDATE);
    }
    Ok(DigestOutcome::Send(Box::new(event)))
}

/// Returns the journals of the sources of a push, and of the objects that the Alert names.
async fn journals(
    context: &Context<'_>,
    found: &Followers<'_>,
    alert: &Alert,
) -> Result<BTreeMap<ObjectRef, Journal>, Failure> {
    let no_cross = context.hub.settings.no_cross_namespace_refs;
    let sources = found
        .sources
        .iter()
        .filter_map(|source| ObjectRef::of(source));
    let objects = found.objects.iter();
    let objects = objects.filter(|(_, (object, _))| is_source(alert, object, no_cross));
    let ids = sources.chain(objects.map(|(id, _)| id.clone()));
    let reads = ids.take(MAX_JOURNALS).map(|id| {
        async move {
            let read = journal::read(
                context.ports.blobs.as_ref(),
                &context.hub.settings.name,
                &id,
            )
            .await;
            read.map(|journal| (id, journal))
        }
        .boxed()
    });
    let read = concurrent::run(CONCURRENCY, reads.collect()).await;
    Ok(read.into_iter().collect::<Result<_, _>>()?)
}

/// An Alert's view of a push.
struct View<'v, 'c> {
    context: &'v Context<'c>,
    alert: &'v Alert,
    no_cross: bool,
}

impl View<'_, '_> {
    /// Returns the result of a push for the objects that the Alert names.
    fn digest(
        &self,
        found: &Followers<'_>,
        landed: Option<&(Push, BTreeMap<ObjectRef, Landing>)>,
        waiting: &Pending,
    ) -> Digest {
        let mut digest = Digest::default();
        let (mut clusters, mut ends, mut unfinished) = (BTreeSet::new(), Vec::new(), 0);
        for (id, (object, progress)) in &found.objects {
            if !is_source(self.alert, object, self.no_cross) {
                continue;
            }
            let landing = landed.and_then(|(_, landings)| landings.get(id));
            match progress {
                // The release failed before the push.
                Progress::Failed(..) if id.kind == FluxKind::HelmRelease && landing.is_none() => {}
                Progress::Failed(reason, message) if self.selects(object, reason, message) => {
                    digest.failed.push((id.to_string(), message.clone()));
                }
                Progress::Failed(..) => {}
                Progress::Waits => digest.waiting += 1,
                Progress::Works => unfinished += 1,
                Progress::Ended => {
                    if let Some(landing) = landing {
                        digest.landed += 1;
                        ends.push(landing);
                        clusters.insert(cluster(object));
                    }
                }
            }
        }
        digest.clusters = clusters.len();
        digest.took = landed.and_then(|(push, _)| took(push, ends.into_iter()));
        digest.unfinished = (unfinished > 0).then_some((unfinished, push::LIMIT));
        let mut sources = found.sources.iter();
        if sources.any(|source| is_source(self.alert, source, self.no_cross)) {
            let first = &waiting.event;
            let is_of_source =
                FluxKind::parse(&first.involved_object.kind).is_some_and(push::is_pushed_to);
            digest.source = match is_of_source {
                true => Some(first.message.clone()),
                false => landed.map(|(push, _)| push.message.clone()),
            };
        }
        digest
    }

    /// Returns whether the Alert would get the event of a failure.
    fn selects(&self, object: &Object, reason: &str, message: &str) -> bool {
        let event = self
            .context
            .event_about(object, CONTROLLER, Severity::Error, reason, message);
        selects(self.alert, &event, object, self.no_cross)
    }

    /// Returns whether the result is severe enough for the Alert.
    fn wants(&self, digest: &Digest) -> bool {
        let severity = self.alert.spec.event_severity.as_deref();
        severity != Some(Severity::Error.as_str()) || !digest.failed.is_empty()
    }
}

/// Returns what distinguishes the cluster of an object from others of the hub.
fn cluster(object: &Object) -> String {
    match object.pointer("/spec/kubeConfig") {
        Some(kubeconfig) => format!("{} {kubeconfig}", object.namespace()),
        None => String::new(),
    }
}
