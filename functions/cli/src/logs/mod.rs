//! `driftless logs`: the log of `driftless serve`, or that of an installation's functions in
//! CloudWatch, with the lines and filters of `flux logs`.

mod cloudwatch;
mod entry;
mod file;
mod filter;
mod level;

use crate::age;
use crate::error::{EXIT_CODES, Error};
use driftless_flux::{Invalid, parse_duration, parse_rfc3339};
use filter::{Filter, Printer};
use level::Level;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "Examples:
  driftless logs --file serve.log -A --since 10m
  driftless serve 2>&1 | driftless logs --file - -A
  driftless logs --stack driftless -A --level warn --since 1h
  driftless logs --stack driftless --kind Kustomization --name apps -n team-a --follow

--stack reads the log groups of the stack's functions (STACK-...). It needs logs:DescribeLogGroups and logs:FilterLogEvents, and AWS_REGION. \
Lines without an object are printed with -A only.";

/// Print the log of serve, or of an installation's functions
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    /// A file with the log of `driftless serve`; - for stdin
    #[arg(long, value_name = "FILE", required_unless_present_any = ["stack", "log_group"], conflicts_with_all = ["stack", "log_group"])]
    file: Option<PathBuf>,
    /// The CloudFormation stack of an installation
    #[arg(long, value_name = "NAME")]
    stack: Option<String>,
    /// A log group in CloudWatch
    #[arg(long, value_name = "NAME")]
    log_group: Vec<String>,
    /// Only lines of objects of this kind
    #[arg(long)]
    kind: Option<String>,
    /// Only lines of objects with this name
    #[arg(long)]
    name: Option<String>,
    /// Only lines of objects in this namespace
    #[arg(short, long, value_name = "NAME", default_value = "flux-system")]
    namespace: String,
    /// Lines of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Only lines of this hub
    #[arg(long, value_name = "NAME")]
    hub: Option<String>,
    /// Only lines of this level or a higher one
    #[arg(long, value_enum, ignore_case = true)]
    level: Option<Level>,
    /// Only lines that are not older
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, conflicts_with = "since_time")]
    since: Option<Duration>,
    /// Only lines since this time (RFC 3339)
    #[arg(long, value_name = "TIME", value_parser = time)]
    since_time: Option<Duration>,
    /// Only the last lines
    #[arg(long, value_name = "COUNT")]
    tail: Option<usize>,
    /// Print new lines until the command is interrupted
    #[arg(short, long)]
    follow: bool,
}

fn time(text: &str) -> Result<Duration, Invalid> {
    parse_rfc3339(text).ok_or("expected a time such as 2026-01-31T12:00:00Z".into())
}

impl From<&Args> for Filter {
    fn from(args: &Args) -> Self {
        let since = args.since.map(|since| age::now().saturating_sub(since));
        Self {
            kind: args.kind.clone(),
            name: args.name.clone(),
            namespace: (!args.all_namespaces).then(|| args.namespace.clone()),
            hub: args.hub.clone(),
            level: args.level,
            since: since.or(args.since_time),
        }
    }
}

/// Prints the lines.
///
/// # Errors
/// The log cannot be read.
pub async fn run(args: Args) -> Result<(), Error> {
    let filter = Filter::from(&args);
    let printer = Printer {
        tail: args.tail,
        follows: args.follow,
    };
    match &args.file {
        Some(path) => file::run(path, &filter, &printer).await,
        None => {
            let groups = cloudwatch::Groups::find(args.stack.as_deref(), &args.log_group).await?;
            groups.run(&filter, &printer).await
        }
    }
}
