//! The kinds of Flux objects as subcommands of a verb: `export kustomization`, `delete source git`.

use clap::Subcommand;
use driftless_flux::FluxKind;

/// A verb with a subcommand for each kind, which takes these arguments.
pub trait Verb: clap::Args {
    /// The verb, such as `delete`.
    const NAME: &'static str;
    /// The flags of the examples.
    const FLAGS: &'static str;
}

/// Returns the examples of a kind.
fn examples<V: Verb>(kind: &str, name: &str) -> String {
    let (verb, flags) = (V::NAME, V::FLAGS);
    format!("Examples:\n  driftless {verb} {kind} {name}\n  driftless {verb} {kind} {flags}")
}

/// The kind of an object on the command line.
#[derive(Subcommand)]
pub enum KindCommand<V: Verb> {
    /// Kustomizations
    #[command(visible_alias = "ks", alias = "kustomizations", after_help = examples::<V>("kustomization", "apps -n team-a"))]
    Kustomization(V),
    /// Helm releases
    #[command(visible_alias = "hr", alias = "helmreleases", after_help = examples::<V>("helmrelease", "podinfo -n team-a"))]
    Helmrelease(V),
    /// Sources
    #[command(alias = "sources", after_help = examples::<V>("source git", "flux-system"))]
    Source(SourceCommand<V>),
    /// Alerts
    #[command(alias = "alerts", after_help = examples::<V>("alert", "failures -n team-a"))]
    Alert(V),
    /// Providers of notifications
    #[command(alias = "alert-providers", alias = "provider", after_help = examples::<V>("alert-provider", "slack -n team-a"))]
    AlertProvider(V),
    /// Receivers of webhooks
    #[command(alias = "receivers", after_help = examples::<V>("receiver", "github -n team-a"))]
    Receiver(V),
    /// Generators of artifacts
    #[command(alias = "artifacts", after_help = examples::<V>("artifact generator", "apps -n team-a"))]
    Artifact(ArtifactCommand<V>),
}

/// The kinds that generate artifacts.
#[derive(clap::Args)]
pub struct ArtifactCommand<V: Verb> {
    #[command(subcommand)]
    kind: ArtifactKind<V>,
}

#[derive(Subcommand)]
enum ArtifactKind<V: Verb> {
    /// ArtifactGenerators
    #[command(alias = "generators", alias = "artifactgenerator", after_help = examples::<V>("artifact generator", "apps -n team-a"))]
    Generator(V),
}

/// The kinds of sources.
#[derive(clap::Args)]
pub struct SourceCommand<V: Verb> {
    #[command(subcommand)]
    kind: SourceKind<V>,
}

#[derive(Subcommand)]
enum SourceKind<V: Verb> {
    /// Git repositories
    #[command(alias = "gitrepository", after_help = examples::<V>("source git", "flux-system"))]
    Git(V),
    /// OCI repositories
    #[command(alias = "ocirepository", after_help = examples::<V>("source oci", "apps -n team-a"))]
    Oci(V),
    /// Helm repositories
    #[command(alias = "helmrepository", after_help = examples::<V>("source helm", "podinfo"))]
    Helm(V),
    /// Helm charts
    #[command(alias = "helmchart", after_help = examples::<V>("source chart", "flux-system-podinfo"))]
    Chart(V),
    /// Buckets
    #[command(after_help = examples::<V>("source bucket", "apps"))]
    Bucket(V),
    /// Artifacts of other controllers
    #[command(alias = "externalartifact", after_help = examples::<V>("source external", "apps"))]
    External(V),
}

impl<V: Verb> KindCommand<V> {
    /// Returns the kind and the arguments.
    pub fn parts(self) -> (FluxKind, V) {
        match self {
            Self::Kustomization(verb) => (FluxKind::Kustomization, verb),
            Self::Helmrelease(verb) => (FluxKind::HelmRelease, verb),
            Self::Alert(verb) => (FluxKind::Alert, verb),
            Self::AlertProvider(verb) => (FluxKind::Provider, verb),
            Self::Receiver(verb) => (FluxKind::Receiver, verb),
            Self::Artifact(ArtifactCommand {
                kind: ArtifactKind::Generator(verb),
            }) => (FluxKind::ArtifactGenerator, verb),
            Self::Source(SourceCommand { kind }) => match kind {
                SourceKind::Git(verb) => (FluxKind::GitRepository, verb),
                SourceKind::Oci(verb) => (FluxKind::OCIRepository, verb),
                SourceKind::Helm(verb) => (FluxKind::HelmRepository, verb),
                SourceKind::Chart(verb) => (FluxKind::HelmChart, verb),
                SourceKind::Bucket(verb) => (FluxKind::Bucket, verb),
                SourceKind::External(verb) => (FluxKind::ExternalArtifact, verb),
            },
        }
    }
}

/// Returns the name of a kind in the messages of Flux's command line, which is also its
/// subcommand.
pub fn human(kind: FluxKind) -> &'static str {
    match kind {
        FluxKind::GitRepository => "source git",
        FluxKind::OCIRepository => "source oci",
        FluxKind::HelmRepository => "source helm",
        FluxKind::HelmChart => "source chart",
        FluxKind::Bucket => "source bucket",
        FluxKind::ExternalArtifact => "source external",
        FluxKind::ArtifactGenerator => "artifact generator",
        FluxKind::Kustomization => "kustomization",
        FluxKind::HelmRelease => "helmrelease",
        FluxKind::Receiver => "receiver",
        FluxKind::Provider => "alert-provider",
        FluxKind::Alert => "alert",
    }
}
