//! `driftless kustomize`: the commands of kustomize other than `build`.

mod create;
mod detect;
mod paths;

use crate::error::{EXIT_CODES, Error};
use clap::Subcommand;

const EXAMPLES: &str = "Examples:
  driftless kustomize create --autodetect --recursive
  driftless build                        # renders the kustomization, as `kustomize build` does";

/// Write kustomizations, as kustomize does
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    #[command(subcommand)]
    command: KustomizeCommand,
}

#[derive(Subcommand)]
enum KustomizeCommand {
    #[command(alias = "init")]
    Create(create::Args),
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Error> {
    match &args.command {
        KustomizeCommand::Create(args) => args.run(),
    }
}
