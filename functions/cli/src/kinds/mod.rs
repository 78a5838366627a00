//! The kinds of Flux's objects on the command line: their names, and the commands with a
//! subcommand for each of them, such as `export kustomization` and `delete source git`.

mod command;

use driftless_flux::FluxKind;
use std::fmt;

pub use command::{KindArgs, KindCommand, Verb, examples};

/// The names of a kind.
pub struct KindName {
    /// The command whose subcommand the kind is; `None` for a kind that has its own command.
    pub family: Option<&'static Family>,
    /// The name for one object.
    pub one: &'static str,
    /// The name for all objects, which `get` lists.
    pub many: &'static str,
    /// The short name.
    pub short: Option<&'static str>,
    /// Another name that is accepted.
    pub other: Option<&'static str>,
    /// The objects in words.
    pub about: &'static str,
    /// The name of an object in examples, with the flag of its namespace.
    pub example: &'static str,
}

/// The names of a command with several kinds.
pub struct Family {
    /// The name for one object.
    pub one: &'static str,
    /// The name for all objects, which `get` lists.
    pub many: &'static str,
    /// Another name that is accepted.
    pub other: &'static str,
    /// The objects in words.
    pub about: &'static str,
}

/// All kinds in the order of the help; those of a family follow each other.
const ALL: [FluxKind; 12] = [
    FluxKind::Kustomization,
    FluxKind::HelmRelease,
    FluxKind::GitRepository,
    FluxKind::OCIRepository,
    FluxKind::HelmRepository,
    FluxKind::HelmChart,
    FluxKind::Bucket,
    FluxKind::ExternalArtifact,
    FluxKind::Alert,
    FluxKind::Provider,
    FluxKind::Receiver,
    FluxKind::ArtifactGenerator,
];
/// The kinds of `get all`, in Flux's order: the sources first.
pub const LISTED: [FluxKind; 11] = [
    FluxKind::OCIRepository,
    FluxKind::Bucket,
    FluxKind::GitRepository,
    FluxKind::HelmRepository,
    FluxKind::HelmChart,
    FluxKind::ExternalArtifact,
    FluxKind::HelmRelease,
    FluxKind::Kustomization,
    FluxKind::Receiver,
    FluxKind::Provider,
    FluxKind::Alert,
];
/// The sources among them.
pub const LISTED_SOURCES: &[FluxKind] = LISTED.split_at(6).0;

const SOURCE: Family = Family {
    one: "source",
    many: "sources",
    other: "sources",
    about: "Sources",
};
const ARTIFACT: Family = Family {
    one: "artifact",
    many: "artifact",
    other: "artifacts",
    about: "Generators of artifacts",
};

impl KindName {
    /// Returns the names of a kind.
    pub const fn of(kind: FluxKind) -> Self {
        match kind {
            FluxKind::Kustomization => Self {
                short: Some("ks"),
                ..Self::new("kustomization", "kustomizations", "Kustomizations")
                    .with("apps -n team-a")
            },
            FluxKind::HelmRelease => Self {
                short: Some("hr"),
                ..Self::new("helmrelease", "helmreleases", "Helm releases")
                    .with("podinfo -n team-a")
            },
            FluxKind::GitRepository => Self {
                other: Some("gitrepository"),
                ..Self::source("git", "Git repositories").with("flux-system")
            },
            FluxKind::OCIRepository => Self {
                other: Some("ocirepository"),
                ..Self::source("oci", "OCI repositories").with("apps -n team-a")
            },
            FluxKind::HelmRepository => Self {
                other: Some("helmrepository"),
                ..Self::source("helm", "Helm repositories").with("podinfo")
            },
            FluxKind::HelmChart => Self {
                other: Some("helmchart"),
                ..Self::source("chart", "Helm charts").with("flux-system-podinfo")
            },
            FluxKind::Bucket => Self::source("bucket", "Buckets").with("apps"),
            FluxKind::ExternalArtifact => Self {
                other: Some("externalartifact"),
                ..Self::source("external", "Artifacts of other controllers").with("apps")
            },
            FluxKind::ArtifactGenerator => Self {
                family: Some(&ARTIFACT),
                other: Some("artifactgenerator"),
                ..Self::new("generator", "generators", "ArtifactGenerators").with("apps -n team-a")
            },
            FluxKind::Receiver => {
                Self::new("receiver", "receivers", "Receivers of webhooks").with("github -n team-a")
            }
            FluxKind::Provider => Self {
                other: Some("provider"),
                ..Self::new(
                    "alert-provider",
                    "alert-providers",
                    "Providers of notifications",
                )
                .with("slack -n team-a")
            },
            FluxKind::Alert => Self::new("alert", "alerts", "Alerts").with("failures -n team-a"),
        }
    }

    const fn new(one: &'static str, many: &'static str, about: &'static str) -> Self {
        Self {
            family: None,
            one,
            many,
            short: None,
            other: None,
            about,
            example: "",
        }
    }

    const fn source(name: &'static str, about: &'static str) -> Self {
        Self {
            family: Some(&SOURCE),
            ..Self::new(name, name, about)
        }
    }

    const fn with(self, example: &'static str) -> Self {
        Self { example, ..self }
    }

    /// Returns the names that are accepted in addition to the one that the help shows.
    pub fn aliases(&self, shown: &str) -> Vec<&'static str> {
        aliases(shown, [Some(self.one), Some(self.many), self.other])
    }

    /// Returns the words after `get` that list the objects, such as `sources git`.
    pub fn listed(&self) -> String {
        join(self.family.map(|family| family.many), self.many)
    }
}

impl Family {
    fn aliases(&self, shown: &str) -> Vec<&'static str> {
        aliases(shown, [Some(self.one), Some(self.many), Some(self.other)])
    }
}

/// Returns whether objects of a kind can be suspended by a command, as in Flux.
pub fn is_suspendable(kind: FluxKind) -> bool {
    use FluxKind::{Alert, ExternalArtifact, Provider, Receiver};
    !matches!(kind, ExternalArtifact | Alert | Provider | Receiver)
}

/// Writes the words after a verb that name one object, which are also those of the messages of
/// Flux's command line, such as `source git`.
impl fmt::Display for KindName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&join(self.family.map(|family| family.one), self.one))
    }
}

fn join(family: Option<&str>, name: &str) -> String {
    match family {
        Some(family) => format!("{family} {name}"),
        None => name.to_owned(),
    }
}

fn aliases(shown: &str, all: [Option<&'static str>; 3]) -> Vec<&'static str> {
    let mut names: Vec<_> = all
        .into_iter()
        .flatten()
        .filter(|one| *one != shown)
        .collect();
    names.dedup();
    names
}
