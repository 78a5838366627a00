//! `driftless check`: a whole fleet repository, applied to API servers in this process.

mod define;
mod drive;
mod report;

use crate::embedded::World;
use crate::error::{EXIT_CODES, Error};
use crate::fleet::Options;
use clap::ValueEnum;
use driftless_adapters::offline::Offline;
use driftless_core::testing::{MemoryQueue, TestClock};
use drive::Drive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "Examples:
  driftless check                                  # the repository in the working folder
  driftless check fleet --path clusters/staging
  driftless check fleet --source https://github.com/acme/apps=../apps -o json

Every hub that the repository describes, and every remote cluster, is an API server in this process; nothing else is asked,
and nothing is changed. What Git does not have stands in: a server for each kubeconfig Secret, placeholders for encrypted
values, pods that always run. What cannot be had offline, and what comes from it, is told as a note.";

/// Apply a fleet repository to API servers in this process and tell every error
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    /// The folder of the fleet repository
    #[arg(default_value = ".")]
    dir: PathBuf,
    #[command(flatten)]
    fleet: Options,
    /// What could not be checked is an error, too
    #[arg(long)]
    strict: bool,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// FILE:LINE: error: OBJECT: MESSAGE
    Text,
    /// A JSON document
    Json,
}

/// Checks.
pub async fn run(args: Args) -> Result<(), Error> {
    let start = Instant::now();
    let fleet = args.fleet.open(&args.dir, Duration::ZERO).await?;
    let queue = Arc::new(MemoryQueue::default());
    let clock = Arc::new(TestClock::default());
    let world = World::start(
        &fleet,
        Arc::new(Offline),
        Arc::new(Offline),
        queue.clone(),
        clock.clone(),
        false,
    )
    .await?;
    let mut drive = Drive::new(&world, queue, clock);
    drive.run().await?;
    let report = drive.report(&fleet).await?;
    report.print(args.output == Format::Json, args.strict, start.elapsed())
}
