//! Flux's API, as driftless reads and writes it: every served version is read into one model, and status goes back in
//! the version that the hub serves.

mod bucket;
mod condition;
mod crd;
mod external_artifact;
mod git_repository;
mod helm_chart;
mod helm_release;
mod helm_repository;
mod kustomization;
mod notification;
mod oci_repository;
mod schema;
mod source;
mod time;
mod verification;

pub use bucket::{Bucket, BucketSpec, BucketSts};
pub use condition::{
    Condition, ConditionStatus, Conditions, HEALTHY, READY, RECONCILING, STALLED, reason, shorten,
};
pub use crd::{custom_resource_definitions, is_current, undeclared};
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
pub use source::{AccessFrom, ArtifactStatus, NamespaceSelector, Source, SourceSpec, SourceStatus};
pub use time::{duration_text, parse_duration, parse_rfc3339, rfc3339, timestamp};
pub use verification::{OidcIdentity, Verification};

use driftless_manifest::{Gvk, Object};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

/// The field manager and the event source of Kustomizations.
pub const KUSTOMIZE_CONTROLLER: &str = "kustomize-controller";
/// The field manager and the event source of Helm releases.
pub const HELM_CONTROLLER: &str = "helm-controller";
/// The field manager and the event source of sources.
pub const SOURCE_CONTROLLER: &str = "source-controller";
/// Flux's finalizer.
pub const FINALIZER: &str = "finalizers.fluxcd.io";
/// The annotation that asks for a reconciliation now; its value comes back in `status.lastHandledReconcileAt`.
pub const REQUESTED_AT: &str = "reconcile.fluxcd.io/requestedAt";

/// The namespace, and the name of the root objects, as `flux bootstrap` has them.
pub const FLUX_SYSTEM: &str = "flux-system";

/// An object of Flux's API with its fields as types.
pub trait FluxObject: Sized + Send + Sync {
    /// Its `status`.
    type Status: Serialize + Send + Sync;

    /// Reads a live object of any served version.
    ///
    /// # Errors
    /// A sentence that names the field that is wrong.
    fn from_object(object: Object) -> Result<Self, String>;

    /// The live object it was read from.
    fn object(&self) -> &Object;

    /// The status it has.
    fn status(&self) -> &Self::Status;

    /// Whether everything is left as it is.
    fn is_suspended(&self) -> bool;
}

/// The kinds of Flux objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum FluxKind {
    /// A Git repository.
    GitRepository,
    /// An OCI repository.
    OCIRepository,
    /// A bucket.
    Bucket,
    /// A repository of Helm charts.
    HelmRepository,
    /// A Helm chart.
    HelmChart,
    /// An artifact that something else made.
    ExternalArtifact,
    /// A kustomization.
    Kustomization,
    /// A Helm release.
    HelmRelease,
    /// A webhook receiver.
    Receiver,
    /// A notification provider.
    Provider,
    /// An alert.
    Alert,
}

impl FluxKind {
    /// Every kind, sources first.
    pub const ALL: [FluxKind; 11] = [
        Self::GitRepository,
        Self::OCIRepository,
        Self::Bucket,
        Self::HelmRepository,
        Self::HelmChart,
        Self::ExternalArtifact,
        Self::Kustomization,
        Self::HelmRelease,
        Self::Receiver,
        Self::Provider,
        Self::Alert,
    ];

    /// The kind's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::GitRepository => "GitRepository",
            Self::OCIRepository => "OCIRepository",
            Self::Bucket => "Bucket",
            Self::HelmRepository => "HelmRepository",
            Self::HelmChart => "HelmChart",
            Self::ExternalArtifact => "ExternalArtifact",
            Self::Kustomization => "Kustomization",
            Self::HelmRelease => "HelmRelease",
            Self::Receiver => "Receiver",
            Self::Provider => "Provider",
            Self::Alert => "Alert",
        }
    }

    /// Whether its objects are reconciled. The other kinds have their definitions alone.
    pub fn is_served(self) -> bool {
        !matches!(
            self,
            Self::ExternalArtifact | Self::Receiver | Self::Provider | Self::Alert
        )
    }

    /// The plural name in URLs and on the command line.
    pub fn plural(self) -> &'static str {
        match self {
            Self::GitRepository => "gitrepositories",
            Self::OCIRepository => "ocirepositories",
            Self::Bucket => "buckets",
            Self::HelmRepository => "helmrepositories",
            Self::HelmChart => "helmcharts",
            Self::ExternalArtifact => "externalartifacts",
            Self::Kustomization => "kustomizations",
            Self::HelmRelease => "helmreleases",
            Self::Receiver => "receivers",
            Self::Provider => "providers",
            Self::Alert => "alerts",
        }
    }

    /// The API group.
    pub fn group(self) -> &'static str {
        match self {
            Self::Kustomization => "kustomize.toolkit.fluxcd.io",
            Self::HelmRelease => "helm.toolkit.fluxcd.io",
            Self::Receiver | Self::Provider | Self::Alert => "notification.toolkit.fluxcd.io",
            _ => "source.toolkit.fluxcd.io",
        }
    }

    /// The versions Flux 2.x has served, the current one first.
    pub fn versions(self) -> &'static [&'static str] {
        match self {
            Self::GitRepository
            | Self::Bucket
            | Self::HelmRepository
            | Self::HelmChart
            | Self::Kustomization => &["v1", "v1beta2", "v1beta1"],
            Self::OCIRepository => &["v1", "v1beta2"],
            Self::ExternalArtifact => &["v1"],
            Self::HelmRelease => &["v2", "v2beta2", "v2beta1"],
            Self::Receiver => &["v1", "v1beta3", "v1beta2", "v1beta1"],
            Self::Provider | Self::Alert => &["v1beta3", "v1beta2", "v1beta1"],
        }
    }

    /// Whether the kind makes artifacts.
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

    /// The kind of that name.
    pub fn parse(kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == kind)
    }

    /// The Flux kind of an API type, whatever its version.
    pub fn of(gvk: &Gvk) -> Option<Self> {
        Self::parse(&gvk.kind).filter(|kind| kind.group() == gvk.group)
    }
}

impl fmt::Display for FluxKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The cloud whose login `spec.provider` asks for; none for `generic`.
fn cloud(provider: Option<&str>) -> Option<&str> {
    provider.filter(|name| !matches!(*name, "" | "generic"))
}

/// One Flux object on a hub.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectRef {
    /// The kind.
    pub kind: FluxKind,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl ObjectRef {
    /// A reference from its parts.
    pub fn new(kind: FluxKind, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            kind,
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The reference of a live object, if it is one of Flux's.
    pub fn of(object: &Object) -> Option<Self> {
        Some(Self::new(
            FluxKind::of(&object.gvk())?,
            object.namespace(),
            object.name(),
        ))
    }

    /// What a client of Flux's says of one that is not there.
    pub fn not_found(&self) -> String {
        format!(
            "{}.{} \"{}\" not found",
            self.kind.plural(),
            self.kind.group(),
            self.name
        )
    }

    /// The same as a client with a cache says it.
    pub fn not_cached(&self) -> String {
        format!(
            "{}.{} \"{}\" not found",
            self.kind,
            self.kind.group(),
            self.name
        )
    }

    /// A key for blobs. Names of Kubernetes objects have no `/`, so the parts cannot run into each other.
    pub fn key(&self) -> String {
        format!("{}/{}/{}", self.kind.plural(), self.namespace, self.name)
    }
}

/// `Kind/namespace/name`, as Flux's messages name an object.
impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.kind, self.namespace, self.name)
    }
}

/// `spec` and `status` of a live object; a status that is absent is an empty one.
fn spec_and_status<Spec, Status>(object: &Object) -> Result<(Spec, Status), String>
where
    Spec: DeserializeOwned,
    Status: DeserializeOwned + Default,
{
    let map = object.as_map();
    let spec = map.get("spec").cloned().unwrap_or_default();
    let spec = serde_json::from_value(spec).map_err(|error| format!("spec: {error}"))?;
    let status = match map.get("status") {
        Some(status) => {
            serde_json::from_value(status.clone()).map_err(|error| format!("status: {error}"))?
        }
        None => Status::default(),
    };
    Ok((spec, status))
}

/// The generation a live object has.
pub fn generation(object: &Object) -> i64 {
    object
        .pointer("/metadata/generation")
        .and_then(Value::as_i64)
        .unwrap_or(0)
}
