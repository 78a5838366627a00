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

use driftless_manifest::{Gvk, Object};
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
/// The finalizer of ArtifactGenerators.
const GENERATOR_FINALIZER: &str = "source.extensions.fluxcd.io/finalizer";
/// The annotation that requests a reconciliation now; its value is copied to
/// `status.lastHandledReconcileAt`.
pub const REQUESTED_AT: &str = "reconcile.fluxcd.io/requestedAt";

/// The namespace and the name of the root objects of `flux bootstrap`.
pub const FLUX_SYSTEM: &str = "flux-system";

/// The kinds of Flux objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum FluxKind {
    /// A repository of a Git server.
    GitRepository,
    /// A repository of an OCI registry.
    OCIRepository,
    /// A bucket of an object store.
    Bucket,
    /// A repository of Helm charts.
    HelmRepository,
    /// A Helm chart of a repository or another source.
    HelmChart,
    /// An artifact of an ArtifactGenerator, or from a controller that is not part of Flux.
    ExternalArtifact,
    /// A generator of ExternalArtifacts.
    ArtifactGenerator,
    /// A Kustomization, which applies the files of a source.
    Kustomization,
    /// A HelmRelease, which installs a Helm chart.
    HelmRelease,
    /// A Receiver of webhooks.
    Receiver,
    /// A Provider of notifications.
    Provider,
    /// An Alert, which sends events to a Provider.
    Alert,
}

impl FluxKind {
    /// All kinds, the sources first.
    pub const ALL: [FluxKind; 12] = [
        Self::GitRepository,
        Self::OCIRepository,
        Self::Bucket,
        Self::HelmRepository,
        Self::HelmChart,
        Self::ExternalArtifact,
        Self::ArtifactGenerator,
        Self::Kustomization,
        Self::HelmRelease,
        Self::Receiver,
        Self::Provider,
        Self::Alert,
    ];

    /// Returns the name of the kind.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::GitRepository => "GitRepository",
            Self::OCIRepository => "OCIRepository",
            Self::Bucket => "Bucket",
            Self::HelmRepository => "HelmRepository",
            Self::HelmChart => "HelmChart",
            Self::ExternalArtifact => "ExternalArtifact",
            Self::ArtifactGenerator => "ArtifactGenerator",
            Self::Kustomization => "Kustomization",
            Self::HelmRelease => "HelmRelease",
            Self::Receiver => "Receiver",
            Self::Provider => "Provider",
            Self::Alert => "Alert",
        }
    }

    /// Returns whether objects of the kind have no interval: a step checks each generation of them
    /// once.
    pub fn is_static(self) -> bool {
        matches!(self, Self::Provider | Self::Alert)
    }

    /// Returns the plural name in URLs and on the command line.
    pub fn plural(self) -> &'static str {
        match self {
            Self::GitRepository => "gitrepositories",
            Self::OCIRepository => "ocirepositories",
            Self::Bucket => "buckets",
            Self::HelmRepository => "helmrepositories",
            Self::HelmChart => "helmcharts",
            Self::ExternalArtifact => "externalartifacts",
            Self::ArtifactGenerator => "artifactgenerators",
            Self::Kustomization => "kustomizations",
            Self::HelmRelease => "helmreleases",
            Self::Receiver => "receivers",
            Self::Provider => "providers",
            Self::Alert => "alerts",
        }
    }

    /// Returns the API group of the kind.
    pub fn group(self) -> &'static str {
        match self {
            Self::Kustomization => "kustomize.toolkit.fluxcd.io",
            Self::HelmRelease => "helm.toolkit.fluxcd.io",
            Self::ArtifactGenerator => "source.extensions.fluxcd.io",
            Self::Receiver | Self::Provider | Self::Alert => "notification.toolkit.fluxcd.io",
            _ => "source.toolkit.fluxcd.io",
        }
    }

    /// Returns the versions that Flux 2.x has served, the current one first.
    pub fn versions(self) -> &'static [&'static str] {
        match self {
            Self::GitRepository
            | Self::Bucket
            | Self::HelmRepository
            | Self::HelmChart
            | Self::Kustomization => &["v1", "v1beta2", "v1beta1"],
            Self::OCIRepository => &["v1", "v1beta2"],
            Self::ExternalArtifact => &["v1"],
            Self::ArtifactGenerator => &["v1beta1"],
            Self::HelmRelease => &["v2", "v2beta2", "v2beta1"],
            Self::Receiver => &["v1", "v1beta3", "v1beta2", "v1beta1"],
            Self::Provider | Self::Alert => &["v1beta3", "v1beta2", "v1beta1"],
        }
    }

    /// Returns the finalizer of the controller of the kind.
    pub fn finalizer(self) -> &'static str {
        match self {
            Self::ArtifactGenerator => GENERATOR_FINALIZER,
            _ => FINALIZER,
        }
    }

    /// Returns whether the kind produces artifacts.
    pub fn is_source(self) -> bool {
        matches!(
            self,
            Self::GitRepository
                | Self::OCIRepository
                | Self::Bucket
                | Self::HelmChart
                | Self::ExternalArtifact
        )
    }

    /// Returns the kind with a name.
    pub fn parse(kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == kind)
    }

    /// Returns the Flux kind of an API type of any version.
    pub fn of(gvk: &Gvk) -> Option<Self> {
        Self::parse(&gvk.kind).filter(|kind| kind.group() == gvk.group)
    }
}

impl fmt::Display for FluxKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

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
