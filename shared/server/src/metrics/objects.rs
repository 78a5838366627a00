//! The metric `gotk_resource_info`, which Flux's documentation makes of each object by
//! kube-state-metrics: Flux's Grafana dashboards and alerts read it.

use super::lock;
use driftless_flux::{FluxKind, ObjectRef};
use driftless_manifest::Object;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use serde_json::Value;
use std::fmt;
use std::sync::{Arc, Mutex};

/// The labels of one object.
type Labels = Vec<(&'static str, String)>;

/// The state of each Flux object as labels.
#[derive(Clone, Default)]
pub(super) struct ObjectInfos(Arc<Mutex<Vec<Labels>>>);

impl ObjectInfos {
    /// Replaces the objects, each of which has its hub.
    pub(super) fn replace(&self, known: &[(String, ObjectRef, Object)]) {
        let infos = known
            .iter()
            .map(|(hub, id, object)| labels(hub, id, object));
        *lock(&self.0) = infos.collect();
    }
}

impl fmt::Debug for ObjectInfos {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ObjectInfos")
    }
}

impl Collector for ObjectInfos {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut family = encoder.encode_descriptor(
            "gotk_resource_info",
            "The current state of a GitOps Toolkit resource",
            None,
            MetricType::Gauge,
        )?;
        for labels in lock(&self.0).iter() {
            ConstGauge::new(1i64).encode(family.encode_family(labels)?)?;
        }
        Ok(())
    }
}

/// Returns the labels of an object: those that the configuration of kube-state-metrics in
/// fluxcd/flux2-monitoring-example has for its kind. A field without a value has no label.
fn labels(hub: &str, id: &ObjectRef, object: &Object) -> Labels {
    let gvk = object.gvk();
    let mut labels = vec![
        ("customresource_group", gvk.group.clone()),
        ("customresource_kind", gvk.kind.clone()),
        ("customresource_version", gvk.version.clone()),
        ("hub", hub.to_owned()),
        ("name", id.name.clone()),
        ("exported_namespace", id.namespace.clone()),
    ];
    if let Some(ready) = ready(object) {
        labels.push(("ready", ready.to_owned()));
    }
    let suspended = [("suspended", "/spec/suspend")];
    for (label, pointer) in suspended.iter().chain(fields(id.kind)) {
        match object.pointer(pointer) {
            Some(Value::String(text)) => labels.push((label, text.clone())),
            Some(Value::Bool(flag)) => labels.push((label, flag.to_string())),
            _ => {}
        }
    }
    labels
}

/// Returns the status of the condition `Ready`.
fn ready(object: &Object) -> Option<&str> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    let mut ready = conditions.iter().filter(|one| one["type"] == "Ready");
    ready.next()?["status"].as_str()
}

/// Returns the labels that only some kinds have, with the fields of their values.
fn fields(kind: FluxKind) -> &'static [(&'static str, &'static str)] {
    const REVISION: (&str, &str) = ("revision", "/status/artifact/revision");
    const URL: (&str, &str) = ("url", "/spec/url");
    match kind {
        FluxKind::Kustomization => &[
            ("revision", "/status/lastAppliedRevision"),
            ("source_name", "/spec/sourceRef/name"),
        ],
        FluxKind::HelmRelease => &[
            ("revision", "/status/history/0/chartVersion"),
            ("chart_name", "/status/history/0/chartName"),
            ("chart_app_version", "/status/history/0/appVersion"),
            ("chart_ref_name", "/spec/chartRef/name"),
            ("chart_source_name", "/spec/chart/spec/sourceRef/name"),
        ],
        FluxKind::GitRepository | FluxKind::OCIRepository | FluxKind::HelmRepository => {
            &[REVISION, URL]
        }
        FluxKind::Bucket => &[
            REVISION,
            ("endpoint", "/spec/endpoint"),
            ("bucket_name", "/spec/bucketName"),
        ],
        FluxKind::HelmChart => &[
            REVISION,
            ("chart_name", "/spec/chart"),
            ("chart_version", "/spec/version"),
        ],
        FluxKind::ExternalArtifact => &[REVISION],
        FluxKind::Receiver => &[("webhook_path", "/status/webhookPath")],
        FluxKind::ArtifactGenerator | FluxKind::Provider | FluxKind::Alert => &[],
    }
}
