//! The metrics of one process, in Prometheus's text format: counters of its work, the metrics of
//! Flux's controllers and of their objects, and the process itself.

mod objects;
mod process;

use driftless_flux::ObjectRef;
use driftless_kernel::ports::Request;
use driftless_manifest::Object;
use objects::ObjectInfos;
use process::Process;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::prometheus_text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets_range};
use prometheus_client::registry::Registry;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(crate) use prometheus_text::CONTENT_TYPE;

/// Returns histograms with the buckets of Flux's `gotk_reconcile_duration_seconds`: ten between
/// 10 ms and 30 minutes (fluxcd/pkg/runtime v0.110).
#[derive(Clone)]
struct StepDurations;

impl MetricConstructor<Histogram> for StepDurations {
    fn new_metric(&self) -> Histogram {
        Histogram::new(exponential_buckets_range(0.01, 1800.0, 10))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StepLabels {
    kind: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    path: &'static str,
    status: u16,
}

/// The labels of a Flux object: those of Flux's controllers, and its hub.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct ObjectLabels {
    kind: &'static str,
    name: String,
    namespace: String,
    hub: String,
}

impl ObjectLabels {
    fn new(hub: &str, id: &ObjectRef) -> Self {
        Self {
            kind: id.kind.as_str(),
            name: id.name.clone(),
            namespace: id.namespace.clone(),
            hub: hub.to_owned(),
        }
    }
}

/// The metrics of the process.
pub(crate) struct Metrics {
    steps: Family<StepLabels, Counter>,
    step_durations: Family<KindLabel, Histogram, StepDurations>,
    requests: Family<RequestLabels, Counter>,
    sweeps: Family<ResultLabel, Counter>,
    crowded: Family<ResultLabel, Counter>,
    queue: Gauge,
    /// The durations of each object's steps, if objects have metrics.
    objects: Option<ObjectMetrics>,
    /// Locked while the metrics are written, so that two requests do not replace each other's
    /// objects.
    registry: Mutex<Registry>,
}

/// The metrics that name Flux objects.
struct ObjectMetrics {
    durations: Family<ObjectLabels, Histogram, StepDurations>,
    /// The objects that have durations.
    measured: Mutex<BTreeSet<ObjectLabels>>,
    infos: ObjectInfos,
}

impl Metrics {
    /// Creates metrics. With `objects`, each Flux object has metrics with its name.
    pub(crate) fn new(objects: bool) -> Self {
        let metrics = Self {
            steps: Family::default(),
            step_durations: Family::new_with_constructor(StepDurations),
            requests: Family::default(),
            sweeps: Family::default(),
            crowded: Family::default(),
            queue: Gauge::default(),
            objects: objects.then(ObjectMetrics::new),
            registry: Mutex::default(),
        };
        metrics.register();
        metrics
    }

    /// Registers all families. The registry adds `_total` to the names of counters, and a full stop
    /// to each help text.
    fn register(&self) {
        let mut registry = lock(&self.registry);
        let steps = "Steps, by kind of object and result";
        registry.register("driftless_steps", steps, self.steps.clone());
        let durations = "Duration of steps, by kind of object";
        registry.register(
            "driftless_step_seconds",
            durations,
            self.step_durations.clone(),
        );
        let sweeps = "Sweeps of the timer, by result";
        registry.register("driftless_sweeps", sweeps, self.sweeps.clone());
        let requests = "Requests, by path and status";
        registry.register("driftless_http_requests", requests, self.requests.clone());
        registry.register(
            "driftless_http_crowded_connections",
            "Connections that came when all places were taken, by result: replaced another one, or refused",
            self.crowded.clone(),
        );
        let queue = "Requests that wait in the queue";
        registry.register("driftless_queue_length", queue, self.queue.clone());
        registry.register_collector(Box::new(Process));
        if let Some(objects) = &self.objects {
            registry.register(
                "gotk_reconcile_duration_seconds",
                "The duration in seconds of a GitOps Toolkit resource reconciliation",
                objects.durations.clone(),
            );
            registry.register_collector(Box::new(objects.infos.clone()));
        }
    }

    /// Returns true if objects have metrics.
    pub(crate) fn has_objects(&self) -> bool {
        self.objects.is_some()
    }

    /// Counts a step that has ended.
    pub(crate) fn step(&self, request: &Request, result: &'static str, took: Duration) {
        let id = request.consumers.first().unwrap_or(&request.object);
        let (kind, seconds) = (id.kind.as_str(), took.as_secs_f64());
        self.steps
            .get_or_create_owned(&StepLabels { kind, result })
            .inc();
        let durations = &self.step_durations;
        durations
            .get_or_create_owned(&KindLabel { kind })
            .observe(seconds);
        // A message that moves the revisions of many objects has no duration of each of them, and a
        // skipped step is not a reconciliation.
        if let Some(objects) = &self.objects
            && request.consumers.is_empty()
            && result != "skipped"
        {
            let labels = ObjectLabels::new(&request.hub, &request.object);
            let mut measured = lock(&objects.measured);
            let durations = objects.durations.get_or_create_owned(&labels);
            durations.observe(seconds);
            measured.insert(labels);
        }
    }

    /// Counts an answered request.
    pub(crate) fn request(&self, path: &'static str, status: u16) {
        let labels = RequestLabels { path, status };
        self.requests.get_or_create_owned(&labels).inc();
    }

    /// Counts a connection that came when all places were taken.
    pub(crate) fn count_refused_connection(&self, result: &'static str) {
        let labels = ResultLabel { result };
        self.crowded.get_or_create_owned(&labels).inc();
    }

    /// Counts a sweep that has ended.
    pub(crate) fn sweep(&self, result: &'static str) {
        let labels = ResultLabel { result };
        self.sweeps.get_or_create_owned(&labels).inc();
    }

    /// Renders all metrics for `GET /metrics`. `waiting` is the number of requests in the queue, if
    /// it is known: the metric keeps its value otherwise. `known` are the Flux objects of each hub:
    /// objects that are not among them have been deleted, and lose their metrics.
    ///
    /// # Errors
    /// A metric cannot be formatted.
    pub(crate) fn render(
        &self,
        waiting: Option<u64>,
        known: &[(String, ObjectRef, Object)],
    ) -> Result<String, std::fmt::Error> {
        let registry = lock(&self.registry);
        if let Some(waiting) = waiting {
            self.queue.set(i64::try_from(waiting).unwrap_or(i64::MAX));
        }
        if let Some(objects) = &self.objects {
            objects.keep(known);
        }
        let mut text = String::new();
        prometheus_text::encode(&mut text, &registry)?;
        Ok(text)
    }
}

impl ObjectMetrics {
    fn new() -> Self {
        Self {
            durations: Family::new_with_constructor(StepDurations),
            measured: Mutex::default(),
            infos: ObjectInfos::default(),
        }
    }

    fn keep(&self, known: &[(String, ObjectRef, Object)]) {
        let labels = |(hub, id, _): &(String, ObjectRef, Object)| ObjectLabels::new(hub, id);
        let existing: BTreeSet<_> = known.iter().map(labels).collect();
        let mut measured = lock(&self.measured);
        // Before the first sweep of the process no object is known.
        if !existing.is_empty() {
            for deleted in measured.difference(&existing) {
                self.durations.remove(deleted);
            }
            measured.retain(|labels| existing.contains(labels));
        }
        drop(measured);
        self.infos.replace(known);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_flux::FluxKind;
    use driftless_kernel::ports::Cause;
    use serde_json::json;

    fn id(name: &str) -> ObjectRef {
        ObjectRef::new(FluxKind::Kustomization, "apps", name)
    }

    fn step(metrics: &Metrics, name: &str, result: &'static str, millis: u64) {
        let request = Request::new("default", id(name), Cause::Timer);
        metrics.step(&request, result, Duration::from_millis(millis));
    }

    fn listed(name: &str) -> (String, ObjectRef, Object) {
        let object = json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
            "kind": "Kustomization",
            "metadata": {"name": name, "namespace": "apps"},
            "spec": {"sourceRef": {"kind": "GitRepository", "name": "fleet"}, "suspend": true},
            "status": {
                "lastAppliedRevision": "main@sha1:\"1\"",
                "conditions": [{"type": "Ready", "status": "False"}],
            },
        });
        let object = Object::new(object).unwrap();
        ("default".to_owned(), id(name), object)
    }

    #[track_caller]
    fn check(text: &str, lines: &[&str]) {
        for line in lines {
            assert!(
                text.lines().any(|have| have == *line),
                "{line} is not in:\n{text}"
            );
        }
    }

    #[test]
    fn renders_every_family() {
        let metrics = Metrics::new(false);
        step(&metrics, "web", "done", 500);
        step(&metrics, "web", "failed", 250);
        metrics.request("/webhook", 202);
        metrics.sweep("done");
        metrics.count_refused_connection("replaced");
        let text = metrics.render(Some(3), &[]).unwrap();
        check(
            &text,
            &[
                "# TYPE driftless_steps_total counter",
                "driftless_steps_total{kind=\"Kustomization\",result=\"failed\"} 1",
                "driftless_step_seconds_sum{kind=\"Kustomization\"} 0.75",
                "driftless_step_seconds_count{kind=\"Kustomization\"} 2",
                "driftless_http_requests_total{path=\"/webhook\",status=\"202\"} 1",
                "driftless_sweeps_total{result=\"done\"} 1",
                "driftless_http_crowded_connections_total{result=\"replaced\"} 1",
                "driftless_queue_length 3",
            ],
        );
        assert!(!text.contains("gotk_"), "{text}");
    }

    #[test]
    fn objects_have_the_metrics_of_flux() {
        let metrics = Metrics::new(true);
        step(&metrics, "web", "done", 500);
        step(&metrics, "deleted", "done", 500);
        step(&metrics, "web", "skipped", 500);
        let before = metrics.render(Some(0), &[]).unwrap();
        assert!(before.contains("name=\"deleted\""), "{before}");
        let text = metrics.render(Some(0), &[listed("web")]).unwrap();
        let object = "kind=\"Kustomization\",name=\"web\",namespace=\"apps\",hub=\"default\"";
        check(
            &text,
            &[
                &format!("gotk_reconcile_duration_seconds_count{{{object}}} 1"),
                &format!("gotk_reconcile_duration_seconds_bucket{{{object},le=\"0.01\"}} 0"),
                "gotk_resource_info{customresource_group=\"kustomize.toolkit.fluxcd.io\",\
                 customresource_kind=\"Kustomization\",customresource_version=\"v1\",hub=\"default\",\
                 name=\"web\",exported_namespace=\"apps\",ready=\"False\",suspended=\"true\",\
                 revision=\"main@sha1:\\\"1\\\"\",source_name=\"fleet\"} 1",
            ],
        );
        assert!(!text.contains("name=\"deleted\""), "{text}");
    }
}
