//! The kinds of `get` on the command line.

use clap::Subcommand;
use driftless_flux::FluxKind;

/// The objects to print.
#[derive(Subcommand)]
pub enum GetCommand {
    /// Everything
    #[command(after_help = "Examples:
  driftless get all -A
  driftless get all -A --status-selector ready=false")]
    All,
    /// Kustomizations
    #[command(
        alias = "ks",
        alias = "kustomization",
        after_help = "Examples:
  driftless get kustomizations -A
  driftless get kustomizations apps -n team-a -o yaml"
    )]
    Kustomizations(Name),
    /// Helm releases
    #[command(
        alias = "hr",
        alias = "helmrelease",
        after_help = "Examples:
  driftless get helmreleases -A
  driftless get helmreleases podinfo -n team-a -o json"
    )]
    Helmreleases(Name),
    /// Sources
    #[command(
        alias = "source",
        after_help = "Examples:
  driftless get sources all -A
  driftless get sources git flux-system"
    )]
    Sources(Sources),
    /// Receivers of webhooks
    #[command(
        alias = "receiver",
        after_help = "Examples:
  driftless get receivers -A"
    )]
    Receivers(Name),
    /// Providers of notifications
    #[command(
        alias = "alert-provider",
        after_help = "Examples:
  driftless get alert-providers -A
  driftless get alert-providers slack -n team-a -o yaml"
    )]
    AlertProviders(Name),
    /// Alerts
    #[command(
        alias = "alert",
        after_help = "Examples:
  driftless get alerts -A
  driftless get alerts -A --status-selector ready=false"
    )]
    Alerts(Name),
    /// Generators of artifacts
    #[command(
        alias = "artifacts",
        after_help = "Examples:
  driftless get artifact generators -A"
    )]
    Artifact(Artifact),
}

#[derive(clap::Args)]
pub struct Artifact {
    #[command(subcommand)]
    kind: ArtifactKind,
}

#[derive(Subcommand)]
enum ArtifactKind {
    /// ArtifactGenerators
    #[command(
        alias = "generator",
        after_help = "Examples:
  driftless get artifact generators -A"
    )]
    Generators(Name),
}

#[derive(clap::Args)]
pub struct Sources {
    #[command(subcommand)]
    kind: SourceKind,
}

#[derive(Subcommand)]
enum SourceKind {
    /// Sources of every kind
    #[command(after_help = "Examples:
  driftless get sources all -A")]
    All,
    /// Git repositories
    #[command(
        alias = "gitrepository",
        after_help = "Examples:
  driftless get sources git -A
  driftless get sources git flux-system -o yaml"
    )]
    Git(Name),
    /// OCI repositories
    #[command(
        alias = "ocirepository",
        after_help = "Examples:
  driftless get sources oci -A"
    )]
    Oci(Name),
    /// Helm repositories
    #[command(
        alias = "helmrepository",
        after_help = "Examples:
  driftless get sources helm -n team-a"
    )]
    Helm(Name),
    /// Helm charts
    #[command(
        alias = "helmchart",
        after_help = "Examples:
  driftless get sources chart -A"
    )]
    Chart(Name),
    /// Buckets
    #[command(after_help = "Examples:
  driftless get sources bucket -A")]
    Bucket(Name),
    /// Artifacts of other controllers
    #[command(after_help = "Examples:
  driftless get sources external -A")]
    External(Name),
}

#[derive(clap::Args)]
pub struct Name {
    /// The object's name
    name: Option<String>,
}

/// The kinds of `get all` after the sources, in Flux's order.
const OTHERS: [FluxKind; 5] = [
    FluxKind::HelmRelease,
    FluxKind::Kustomization,
    FluxKind::Receiver,
    FluxKind::Provider,
    FluxKind::Alert,
];
const SOURCES: [FluxKind; 6] = [
    FluxKind::OCIRepository,
    FluxKind::Bucket,
    FluxKind::GitRepository,
    FluxKind::HelmRepository,
    FluxKind::HelmChart,
    FluxKind::ExternalArtifact,
];

impl GetCommand {
    /// Returns the kinds to list.
    pub fn kinds(&self) -> Vec<FluxKind> {
        match self {
            Self::All => SOURCES.into_iter().chain(OTHERS).collect(),
            Self::Kustomizations(_) => vec![FluxKind::Kustomization],
            Self::Helmreleases(_) => vec![FluxKind::HelmRelease],
            Self::Receivers(_) => vec![FluxKind::Receiver],
            Self::AlertProviders(_) => vec![FluxKind::Provider],
            Self::Alerts(_) => vec![FluxKind::Alert],
            Self::Artifact(_) => vec![FluxKind::ArtifactGenerator],
            Self::Sources(Sources { kind }) => match kind {
                SourceKind::All => SOURCES.to_vec(),
                SourceKind::Git(_) => vec![FluxKind::GitRepository],
                SourceKind::Oci(_) => vec![FluxKind::OCIRepository],
                SourceKind::Helm(_) => vec![FluxKind::HelmRepository],
                SourceKind::Chart(_) => vec![FluxKind::HelmChart],
                SourceKind::Bucket(_) => vec![FluxKind::Bucket],
                SourceKind::External(_) => vec![FluxKind::ExternalArtifact],
            },
        }
    }

    /// Returns the name of the only object to list; `None` for all objects of the kinds.
    pub fn name(&self) -> Option<&str> {
        use SourceKind::{All, Bucket, Chart, External, Git, Helm, Oci};
        let name = match self {
            Self::All | Self::Sources(Sources { kind: All }) => return None,
            Self::Kustomizations(name)
            | Self::Helmreleases(name)
            | Self::Receivers(name)
            | Self::AlertProviders(name)
            | Self::Alerts(name)
            | Self::Artifact(Artifact {
                kind: ArtifactKind::Generators(name),
            }) => name,
            Self::Sources(Sources {
                kind:
                    Git(name) | Oci(name) | Helm(name) | Chart(name) | Bucket(name) | External(name),
            }) => name,
        };
        name.name.as_deref()
    }

    /// Returns whether all objects have the same kind.
    pub fn is_one_kind(&self) -> bool {
        !matches!(
            self,
            Self::All
                | Self::Sources(Sources {
                    kind: SourceKind::All
                })
        )
    }
}
