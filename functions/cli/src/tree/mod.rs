//! `driftless tree`: the objects that a Kustomization has applied, as `flux tree` prints them.

mod load;
mod node;

use crate::error::{EXIT_CODES, Error};
use crate::hub::{self, Scope};
use crate::kinds::{KindCommand, KindName, Verb, examples};
use crate::output::{self, Output};
use crate::term;
use clap::ValueEnum;
use driftless_flux::FluxKind;
use driftless_manifest::yaml;
use node::Node;

const EXAMPLES: &str = "Examples:
  driftless tree kustomization flux-system
  driftless tree kustomization flux-system --compact
  driftless tree kustomization apps -n team-a -o json";

const REMOTE: &str = "Objects of a Kustomization or HelmRelease on a remote cluster (spec.kubeConfig) have no branches: only \
the hub is read.";

/// Print the objects that a Kustomization has applied, with those of its Kustomizations and
/// HelmReleases
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    #[command(subcommand)]
    command: KindCommand<One>,
    #[command(flatten)]
    scope: Scope,
}

#[derive(clap::Args)]
struct One {
    /// The object's name
    name: String,
    /// Only Flux's objects
    #[arg(long)]
    compact: bool,
    #[command(flatten)]
    output: Output<Format>,
}

impl Verb for One {
    fn accepts(kind: FluxKind) -> bool {
        kind == FluxKind::Kustomization
    }

    fn help(name: &KindName) -> String {
        let examples = examples(&[
            format!("tree {name} flux-system"),
            format!("tree {name} flux-system --compact"),
        ]);
        format!("{REMOTE}\n\n{examples}")
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Tree,
    Json,
    Yaml,
}

impl output::Format for Format {
    const DEFAULT: &'static str = "tree";
}

/// Reads the objects and prints the tree.
///
/// # Errors
/// The Kustomization does not exist, or an object cannot be read.
pub async fn run(args: Args) -> Result<(), Error> {
    let KindCommand { kind, args: one } = args.command;
    let hub = args.scope.connection.connect().await?;
    let namespace = &args.scope.namespace;
    let root = hub::object(&hub, kind, namespace, &one.name).await?;
    let mut tree = load::tree(&hub, root).await?;
    if one.compact {
        tree.retain(|id| id.group.contains("toolkit.fluxcd.io"));
    }
    match one.output.format {
        Format::Tree => term::result(&(tree.print() + "\n")),
        Format::Json => output::print_json(&tree.document()),
        Format::Yaml => term::result(&(yaml::to_string(&tree.document()) + "\n")),
    }
}

impl Node {
    /// Removes the nodes below this one whose id does not pass, with everything below them.
    fn retain(&mut self, passes: impl Fn(&driftless_manifest::ObjectId) -> bool + Copy) {
        self.children.retain(|child| passes(&child.id));
        for child in &mut self.children {
            child.retain(passes);
        }
    }
}
