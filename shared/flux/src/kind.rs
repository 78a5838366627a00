//! The kinds of Flux objects: their names, API groups and versions, and which kinds may name a
//! source.

use super::FINALIZER;
use driftless_manifest::Gvk;
use serde::{Deserialize, Serialize};
use std::fmt;

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

/// The facts of a kind that no object changes.
struct KindFacts {
    name: &'static str,
    plural: &'static str,
    short_name: Option<&'static str>,
    /// The category of `kubectl get`.
    category: &'static str,
    group: &'static str,
    /// The versions that Flux 2.x has served, the current one first.
    versions: &'static [&'static str],
    finalizer: &'static str,
    /// True if the kind produces artifacts.
    is_source: bool,
    /// The kinds whose objects may name an object of this kind as their source.
    followers: &'static [FluxKind],
}

/// Returns the facts of a kind of source-controller.
const fn source(name: &'static str, plural: &'static str) -> KindFacts {
    KindFacts {
        name,
        plural,
        short_name: None,
        category: "fluxcd-sources",
        group: "source.toolkit.fluxcd.io",
        versions: &["v1", "v1beta2", "v1beta1"],
        finalizer: FINALIZER,
        is_source: true,
        followers: &[],
    }
}

/// Returns the facts of a kind of notification-controller.
const fn notification(name: &'static str, plural: &'static str) -> KindFacts {
    KindFacts {
        category: "fluxcd-notifications",
        group: "notification.toolkit.fluxcd.io",
        versions: &["v1beta3", "v1beta2", "v1beta1"],
        is_source: false,
        ..source(name, plural)
    }
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

    /// Returns the facts of the kind: the only place that states them.
    fn facts(self) -> KindFacts {
        use FluxKind::{ArtifactGenerator, GitRepository, HelmChart, HelmRelease, Kustomization};
        match self {
            GitRepository => KindFacts {
                short_name: Some("gitrepo"),
                followers: &[Kustomization, HelmChart, GitRepository, ArtifactGenerator],
                ..source("GitRepository", "gitrepositories")
            },
            Self::OCIRepository => KindFacts {
                short_name: Some("ocirepo"),
                versions: &["v1", "v1beta2"],
                followers: &[Kustomization, HelmRelease, ArtifactGenerator],
                ..source("OCIRepository", "ocirepositories")
            },
            Self::Bucket => KindFacts {
                followers: &[Kustomization, HelmChart, ArtifactGenerator],
                ..source("Bucket", "buckets")
            },
            Self::HelmRepository => KindFacts {
                short_name: Some("helmrepo"),
                is_source: false,
                followers: &[HelmChart],
                ..source("HelmRepository", "helmrepositories")
            },
            HelmChart => KindFacts {
                short_name: Some("hc"),
                followers: &[HelmRelease, ArtifactGenerator],
                ..source("HelmChart", "helmcharts")
            },
            Self::ExternalArtifact => KindFacts {
                short_name: Some("ea"),
                versions: &["v1"],
                followers: &[Kustomization, HelmRelease, ArtifactGenerator],
                ..source("ExternalArtifact", "externalartifacts")
            },
            ArtifactGenerator => KindFacts {
                short_name: Some("ag"),
                group: "source.extensions.fluxcd.io",
                versions: &["v1beta1"],
                finalizer: "source.extensions.fluxcd.io/finalizer",
                is_source: false,
                ..source("ArtifactGenerator", "artifactgenerators")
            },
            Kustomization => KindFacts {
                short_name: Some("ks"),
                category: "fluxcd-appliers",
                group: "kustomize.toolkit.fluxcd.io",
                is_source: false,
                ..source("Kustomization", "kustomizations")
            },
            HelmRelease => KindFacts {
                short_name: Some("hr"),
                category: "fluxcd-appliers",
                group: "helm.toolkit.fluxcd.io",
                versions: &["v2", "v2beta2", "v2beta1"],
                is_source: false,
                ..source("HelmRelease", "helmreleases")
            },
            Self::Receiver => KindFacts {
                versions: &["v1", "v1beta3", "v1beta2", "v1beta1"],
                ..notification("Receiver", "receivers")
            },
            Self::Provider => notification("Provider", "providers"),
            Self::Alert => notification("Alert", "alerts"),
        }
    }

    /// Returns the name of the kind.
    pub fn as_str(self) -> &'static str {
        self.facts().name
    }

    /// Returns the plural name in URLs and on the command line.
    pub fn plural(self) -> &'static str {
        self.facts().plural
    }

    /// Returns the short name of `kubectl`.
    pub(crate) fn short_name(self) -> Option<&'static str> {
        self.facts().short_name
    }

    /// Returns the category of `kubectl get`.
    pub(crate) fn category(self) -> &'static str {
        self.facts().category
    }

    /// Returns the API group of the kind.
    pub fn group(self) -> &'static str {
        self.facts().group
    }

    /// Returns the versions that Flux 2.x has served, the current one first.
    pub fn versions(self) -> &'static [&'static str] {
        self.facts().versions
    }

    /// Returns the finalizer of the controller of the kind.
    pub fn finalizer(self) -> &'static str {
        self.facts().finalizer
    }

    /// Returns whether the kind produces artifacts.
    pub fn is_source(self) -> bool {
        self.facts().is_source
    }

    /// Returns the kinds whose objects may name an object of this kind as their source.
    pub fn followers(self) -> &'static [FluxKind] {
        self.facts().followers
    }

    /// Returns whether objects of the kind have no interval: a step checks each generation of them
    /// once.
    pub fn is_static(self) -> bool {
        matches!(self, Self::Provider | Self::Alert)
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
