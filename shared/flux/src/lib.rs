//! The model of Flux's API: all served versions are parsed into one model, and the status is
//! written in the version that the hub serves.

mod alert_annotations;
mod artifact_generator;
mod bucket;
mod condition;
mod crd;
mod error;
mod event;
mod external_artifact;
mod git_repository;
mod helm_chart;
mod helm_release;
mod helm_repository;
mod kind;
mod kustomization;
mod notification;
mod oci_repository;
mod receiver;
mod references;
mod schema;
mod source;
mod text;
mod time;
mod typed;
mod verification;

pub use alert_annotations::{AlertOptions, LONGEST_REMINDER};
pub use artifact_generator::*;
pub use bucket::{Bucket, BucketSpec, BucketSts};
pub use condition::{
    Condition, ConditionStatus, Conditions, HEALTHY, READY, RECONCILING, STALLED, reason, shorten,
};
pub use crd::{custom_resource_definitions, is_current, undeclared};
pub use error::{DurationError, FieldError, Invalid};
pub use event::{COMMIT_STATUS_UPDATE, EVENT_GROUP, FluxEvent, InvolvedObject, Severity, meta_key};
pub use external_artifact::{ExternalArtifactSpec, ExternalSourceRef};
pub use git_repository::{
    GitInclude, GitReference, GitRepository, GitRepositorySpec, GitVerification,
};
pub use helm_chart::{ChartSource, HelmChart, HelmChartSpec};
pub use helm_release::*;
pub use helm_repository::{HelmRepository, HelmRepositorySpec};
pub use kind::FluxKind;
pub use kustomization::*;
pub use notification::*;
pub use oci_repository::{LayerSelector, OCIReference, OCIRepository, OCIRepositorySpec};
pub use receiver::*;
pub use references::{REFERENCE_KINDS, Reference, references};
pub use source::{
    AccessFrom, ArtifactStatus, NamespaceSelector, Source, SourceSpec, SourceStatus, source_of,
};
pub use text::short_hashes;
pub use time::{duration_text, parse_duration, parse_rfc3339, rfc3339, timestamp};
pub use typed::{FluxObject, FluxSpec, Typed};
pub use verification::{OidcIdentity, Verification};

use driftless_manifest::Object;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt;

/// The field manager and the event source of Kustomizations.
pub const KUSTOMIZE_CONTROLLER: &str = "kustomize-controller";
/// The field manager and the event source of Helm releases.
pub const HELM_CONTROLLER: &str = "helm-controller";
/// The field manager and the event source of sources.
pub const SOURCE_CONTROLLER: &str = "source-controller";
/// The field manager and the event source of Receivers.
pub const NOTIFICATION_CONTROLLER: &str = "notification-controller";
/// The field manager and the event source of ArtifactGenerators.
pub const SOURCE_WATCHER: &str = "source-watcher";
/// The finalizer of Flux's controllers.
pub const FINALIZER: &str = "finalizers.fluxcd.io";
/// The annotation that requests a reconciliation now; its value is copied to
/// `status.lastHandledReconcileAt`.
pub const REQUESTED_AT: &str = "reconcile.fluxcd.io/requestedAt";

/// The namespace and the name of the root objects of `flux bootstrap`.
pub const FLUX_SYSTEM: &str = "flux-system";

/// Returns the cloud of `spec.provider`; `None` for `generic`.
fn cloud(provider: Option<&str>) -> Option<&str> {
    provider.filter(|name| !matches!(*name, "" | "generic"))
}

/// A reference to a Flux object on a hub.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectRef {
    /// The kind of the object.
    pub kind: FluxKind,
    /// The namespace of the object.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
}

impl ObjectRef {
    /// Creates a reference from its parts.
    pub fn new(kind: FluxKind, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            kind,
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// Returns the reference of a live object; `None` if its kind is not one of Flux.
    pub fn of(object: &Object) -> Option<Self> {
        Some(Self::new(
            FluxKind::of(&object.gvk())?,
            object.namespace(),
            object.name(),
        ))
    }

    /// Returns the message of a Kubernetes client about an object that does not exist.
    pub fn not_found(&self) -> String {
        format!(
            "{}.{} \"{}\" not found",
            self.kind.plural(),
            self.kind.group(),
            self.name
        )
    }

    /// Returns the message of a Kubernetes client with a cache about an object that does not exist.
    pub fn not_cached(&self) -> String {
        format!(
            "{}.{} \"{}\" not found",
            self.kind,
            self.kind.group(),
            self.name
        )
    }

    /// Returns a unique part of a blob's key: names of Kubernetes objects have no `/`.
    pub fn key(&self) -> String {
        format!("{}/{}/{}", self.kind.plural(), self.namespace, self.name)
    }

    /// Parses a [`key`](Self::key); `None` for another text.
    pub fn from_key(key: &str) -> Option<Self> {
        let mut parts = key.splitn(3, '/');
        let plural = parts.next()?;
        let kind = FluxKind::ALL
            .into_iter()
            .find(|kind| kind.plural() == plural)?;
        Some(Self::new(kind, parts.next()?, parts.next()?))
    }
}

/// Writes `Kind/namespace/name`, the name of an object in Flux's messages.
impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.kind, self.namespace, self.name)
    }
}

/// Returns whether the reconciliation of a live object is suspended: by its spec, or by the
/// annotation of an ArtifactGenerator.
pub fn is_suspended(object: &Object) -> bool {
    match FluxKind::of(&object.gvk()) {
        Some(FluxKind::ArtifactGenerator) => object
            .annotation(GENERATOR_RECONCILE)
            .is_some_and(|value| value.eq_ignore_ascii_case("disabled")),
        _ => object.pointer("/spec/suspend") == Some(&Value::Bool(true)),
    }
}

/// Returns whether the annotation [`REQUESTED_AT`] has the value that a step handled last; both may
/// be absent.
pub fn is_request_handled(object: &Object) -> bool {
    let handled = object.pointer("/status/lastHandledReconcileAt");
    let handled = handled.and_then(Value::as_str).unwrap_or_default();
    object.annotation(REQUESTED_AT).unwrap_or_default() == handled
}

/// Returns the merge patch that suspends or resumes an object. As Flux's command line does, it
/// removes the field instead of setting it to false. An ArtifactGenerator has an annotation in
/// place of the field.
pub fn suspension(kind: FluxKind, suspend: bool) -> Value {
    if kind == FluxKind::ArtifactGenerator {
        let value = suspend.then_some("disabled");
        return json!({"metadata": {"annotations": {GENERATOR_RECONCILE: value}}});
    }
    json!({"spec": {"suspend": suspend.then_some(true)}})
}

/// Returns `metadata.generation` of a live object; 0 if it is missing.
pub fn generation(object: &Object) -> i64 {
    object
        .pointer("/metadata/generation")
        .and_then(Value::as_i64)
        .unwrap_or(0)
}
