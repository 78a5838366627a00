//! `driftless audit`: who changed which object on which cluster, and when.

mod filter;

use crate::age;
use crate::error::{EXIT_CODES, Error};
use crate::hub::Connection;
use crate::installation;
use crate::output::{self, Output};
use crate::serve::DEFAULT_NAME;
use crate::{ready, table, term};
use clap::ValueEnum;
use driftless_flux::{Invalid, parse_duration, parse_rfc3339};
use driftless_kernel::audit::{self, Change, Record};
use driftless_kernel::hub;
use driftless_kernel::ports::Blobs;
use driftless_manifest::yaml;
use filter::Filter;
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "Examples:
  driftless audit
  driftless audit --hub prod --since 168h --kind Deployment -n shop --name web
  driftless audit --since 2026-01-01T00:00:00Z --until 2026-02-01T00:00:00Z --author ada
  driftless audit --by kustomization/team-a/apps --cluster eu-1 -o yaml --data ./state

Each step that created, configured or deleted objects writes a record, the oldest is printed first. It is read from --data (the data \
directory of `driftless serve`), else from the bucket that DRIFTLESS_BUCKET names (with the other variables of the functions; it needs \
s3:ListBucket and s3:GetObject for audit/ and hubs/), else from the directory that `serve` uses by default for this cluster. The author is \
that of the commit, unverified, and is known if a delivery of the Git host announced the commit. A record has no values: the digest is of the changed \
fields with their new values, and of a Secret, or where values may come from a Secret, of the names of the fields only. A cluster is the name \
of the hub, or NAMESPACE/NAME of the kubeconfig of a remote cluster. Times are in UTC.";

/// Print who changed which object on which cluster, and when
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    /// Only records of this hub, also of one that is no longer registered [default: all registered
    /// hubs]
    #[arg(long, value_name = "NAME")]
    hub: Option<String>,
    #[command(flatten)]
    filter: Filter,
    /// Only records since this time (RFC 3339), or this long ago
    #[arg(long, value_name = "TIME|DURATION", value_parser = moment, default_value = "24h")]
    since: Moment,
    /// Only records up to this time (RFC 3339), or this long ago [default: now]
    #[arg(long, value_name = "TIME|DURATION", value_parser = moment)]
    until: Option<Moment>,
    /// Read this data directory of `driftless serve`
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    #[command(flatten)]
    output: Output<Format>,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    /// A table with the deliveries and digests
    Wide,
    Json,
    Yaml,
}

impl output::Format for Format {
    const DEFAULT: &'static str = "table";
}

/// A time, or a time before now.
#[derive(Clone, Copy)]
enum Moment {
    At(Duration),
    Ago(Duration),
}

impl Moment {
    /// Returns the time since 1970.
    fn time(self, now: Duration) -> Duration {
        match self {
            Self::At(time) => time,
            Self::Ago(age) => now.saturating_sub(age),
        }
    }
}

fn moment(text: &str) -> Result<Moment, Invalid> {
    let age = || parse_duration(text).ok().map(Moment::Ago);
    let time = parse_rfc3339(text).map(Moment::At);
    let expected = "expected a time such as 2026-01-31T12:00:00Z, or a duration such as 36h";
    time.or_else(age).ok_or(expected.into())
}

/// Reads and prints the records.
///
/// # Errors
/// No store is found, or it cannot be read.
pub async fn run(args: Args) -> Result<(), Error> {
    let name = args.hub.as_deref().unwrap_or(DEFAULT_NAME);
    let place = || Ok((name, args.connection.server()?));
    let Some(blobs) = installation::store(args.data.as_deref(), place).await? else {
        return Err(Error::new("no audit log was found").next(
            "give --data DIR of driftless serve, or set DRIFTLESS_BUCKET and the other variables of an installation",
        ));
    };
    let now = age::now();
    let since = args.since.time(now);
    let until = args.until.map_or(now, |until| until.time(now));
    let mut records = read(blobs.as_ref(), args.hub.as_deref(), since, until).await?;
    records.retain_mut(|record| args.filter.keep(record));
    print(&records, args.output.format)
}

/// Returns the records of a hub, or of all registered ones: the oldest first.
async fn read(
    blobs: &dyn Blobs,
    named: Option<&str>,
    since: Duration,
    until: Duration,
) -> Result<Vec<Record>, Error> {
    let hubs = match named {
        Some(named) => vec![named.to_owned()],
        None => hub::names_in(blobs).await?,
    };
    let mut records = Vec::new();
    for hub in hubs {
        records.extend(audit::read(blobs, &hub, since, until).await?);
    }
    // The times of all records have the same form.
    records.sort_by(|a, b| a.time.cmp(&b.time));
    Ok(records)
}

fn print(records: &[Record], format: Format) -> Result<(), Error> {
    match format {
        Format::Json => output::print_json(&json!(records)),
        Format::Yaml => term::result(&yaml::to_string(&json!(records))),
        Format::Table | Format::Wide if records.is_empty() => {
            term::failure("no record of this time matches; --since 720h prints those of a month");
            Ok(())
        }
        Format::Table | Format::Wide => {
            term::result(&term::plain(&render(records, format == Format::Wide)))
        }
    }
}

/// Renders a line for each change.
fn render(records: &[Record], is_wide: bool) -> String {
    let mut header = vec![
        "Time", "Cluster", "Object", "Action", "By", "Cause", "Revision", "Author",
    ];
    if is_wide {
        header.extend(["Delivery", "Digest"]);
    }
    let rows = records.iter().flat_map(|record| {
        let changes = record.changes.iter();
        changes.map(move |change| row(record, change, is_wide))
    });
    table::render(&header, &rows.collect::<Vec<_>>())
}

fn row(record: &Record, change: &Change, is_wide: bool) -> Vec<String> {
    let Record { hub, cluster, .. } = record;
    let cluster = match cluster == hub {
        true => cluster.clone(),
        false => format!("{hub}: {cluster}"),
    };
    let commit = record.commit.as_ref();
    let mut row = vec![
        record.time.clone(),
        cluster,
        change.object(),
        change.action.clone(),
        record.by.to_string(),
        record.cause.in_words().to_owned(),
        ready::shorten(&record.revision),
        commit.map_or_else(String::new, |commit| commit.author.clone()),
    ];
    if is_wide {
        row.push(commit.map_or_else(String::new, |commit| commit.delivery.clone()));
        row.push(change.digest.clone().unwrap_or_default());
    }
    row
}
