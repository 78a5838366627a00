//! `driftless logs`: the log of `driftless serve`, or that of an installation's functions in
//! CloudWatch, with the lines and filters of `flux logs`.

mod cloudwatch;
mod entry;
mod file;

use crate::error::{EXIT_CODES, Error};
use crate::{age, term};
use clap::ValueEnum;
use driftless_core::flux::{parse_duration, parse_rfc3339};
use entry::Entry;
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

/// The levels, the lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Level {
    Trace,
    Debug,
    Info,
    #[value(alias = "warning")]
    Warn,
    Error,
}

fn time(text: &str) -> Result<Duration, String> {
    parse_rfc3339(text).ok_or_else(|| "expected a time such as 2026-01-31T12:00:00Z".to_owned())
}

/// The lines to print.
pub struct Filter {
    kind: Option<String>,
    name: Option<String>,
    /// Every namespace if there is none.
    namespace: Option<String>,
    hub: Option<String>,
    level: Option<Level>,
    /// The earliest time, since 1970.
    pub since: Option<Duration>,
}

impl Filter {
    fn of(args: &Args) -> Self {
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

    /// Returns whether an entry is printed.
    pub fn has(&self, entry: &Entry) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted
                .as_ref()
                .is_none_or(|wanted| wanted.eq_ignore_ascii_case(found))
        };
        is(&self.kind, &entry.kind)
            && is(&self.name, &entry.name)
            && is(&self.namespace, &entry.namespace)
            && is(&self.hub, &entry.hub)
            && self
                .level
                .is_none_or(|level| entry.level.is_some_and(|found| found >= level))
            && self
                .since
                .is_none_or(|since| entry.time().is_none_or(|time| time >= since))
    }
}

/// Prints the lines.
///
/// # Errors
/// The log cannot be read.
pub async fn run(args: Args) -> Result<(), Error> {
    let filter = Filter::of(&args);
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

/// How the lines are printed.
pub struct Printer {
    /// The number of lines of the first part, if only the last ones are printed.
    tail: Option<usize>,
    /// True if new lines are printed until the command is interrupted.
    pub follows: bool,
}

impl Printer {
    /// Prints what the log had at the start.
    ///
    /// # Errors
    /// stdout cannot be written.
    pub fn first(&self, entries: &[Entry]) -> Result<(), Error> {
        let skipped = self
            .tail
            .map_or(0, |tail| entries.len().saturating_sub(tail));
        print(entries.get(skipped..).unwrap_or_default())
    }

    /// Prints new entries.
    ///
    /// # Errors
    /// stdout cannot be written.
    pub fn more(&self, entries: &[Entry]) -> Result<(), Error> {
        print(entries)
    }
}

fn print(entries: &[Entry]) -> Result<(), Error> {
    let colours = term::colours_on_stdout();
    let text: String = entries.iter().map(|entry| entry.line(colours)).collect();
    match text.is_empty() {
        true => Ok(()),
        false => term::result(&text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_filtered() {
        let entry = Entry::parse(
            r#"{"timestamp":"2026-01-01T00:00:00Z","level":"WARN","message":"m","hub":"eu","object":"Kustomization/team-a/apps"}"#,
        )
        .unwrap();
        let all = Filter {
            kind: None,
            name: None,
            namespace: None,
            hub: None,
            level: None,
            since: None,
        };
        assert!(all.has(&entry));
        let name = |text: &str| Some(text.to_owned());
        let filters = [
            (
                true,
                Filter {
                    kind: name("kustomization"),
                    ..all_of(&all)
                },
            ),
            (
                false,
                Filter {
                    kind: name("HelmRelease"),
                    ..all_of(&all)
                },
            ),
            (
                true,
                Filter {
                    name: name("apps"),
                    namespace: name("team-a"),
                    ..all_of(&all)
                },
            ),
            (
                false,
                Filter {
                    namespace: name("flux-system"),
                    ..all_of(&all)
                },
            ),
            (
                false,
                Filter {
                    hub: name("us"),
                    ..all_of(&all)
                },
            ),
            (
                true,
                Filter {
                    level: Some(Level::Info),
                    ..all_of(&all)
                },
            ),
            (
                false,
                Filter {
                    level: Some(Level::Error),
                    ..all_of(&all)
                },
            ),
            (
                true,
                Filter {
                    since: parse_rfc3339("2025-12-31T00:00:00Z"),
                    ..all_of(&all)
                },
            ),
            (
                false,
                Filter {
                    since: parse_rfc3339("2026-01-01T00:00:01Z"),
                    ..all_of(&all)
                },
            ),
        ];
        for (at, (want, filter)) in filters.iter().enumerate() {
            assert_eq!(filter.has(&entry), *want, "{at}");
        }
    }

    fn all_of(filter: &Filter) -> Filter {
        Filter {
            kind: filter.kind.clone(),
            name: filter.name.clone(),
            namespace: filter.namespace.clone(),
            hub: filter.hub.clone(),
            level: filter.level,
            since: filter.since,
        }
    }
}
