//! `driftless events`: the events of Flux objects, as `flux events` prints them.

mod rows;
mod selection;

use crate::error::{EXIT_CODES, Error};
use crate::follow::Follow;
use crate::hub::{self, Scope};
use crate::output::{self, Output, TableOrJson};
use crate::{age, table, term};
use clap::ValueEnum;
use driftless_kernel::ports::Change;
use driftless_manifest::{Gvk, Object};
use selection::Selection;
use std::collections::BTreeSet;

const EXAMPLES: &str = "Examples:
  driftless events -n team-a
  driftless events -A --types warning
  driftless events --for Kustomization/apps -n team-a --watch
  driftless events --for HelmRelease -n team-a

With --for KIND/NAME, the events of the object's source are also printed.";

/// Print the events of Flux objects
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    /// All namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Print new events until the command is interrupted
    #[arg(short, long, conflicts_with = "output")]
    watch: bool,
    /// Only events of an object, or of a kind
    #[arg(long = "for", value_name = "KIND[/NAME]")]
    of: Option<String>,
    /// Only events of these types: Normal, Warning
    #[arg(
        long,
        value_name = "TYPE",
        value_delimiter = ',',
        ignore_case = true,
        value_enum
    )]
    types: Vec<Type>,
    #[command(flatten)]
    output: Output<TableOrJson>,
    #[command(flatten)]
    scope: Scope,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Type {
    Normal,
    Warning,
}

impl Type {
    fn name(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Lists and prints the events, and follows them with `--watch`.
///
/// # Errors
/// The object of `--for` does not exist, or events cannot be listed.
pub async fn run(args: Args) -> Result<(), Error> {
    let hub = args.scope.connection.connect().await?;
    let namespace = &args.scope.namespace;
    let place = if args.all_namespaces { "" } else { namespace };
    let selection = match &args.of {
        Some(of) => Selection::of(&hub, of, namespace, place).await?,
        None => Selection::all(place),
    };
    let resource = hub::resource(hub.cluster.as_ref(), &Gvk::new("v1", "Event")).await?;
    let passes = |event: &Object| {
        let kind = event.pointer("/type").and_then(|kind| kind.as_str());
        let has_type = args.types.is_empty()
            || args
                .types
                .iter()
                .any(|one| kind.is_some_and(|kind| kind.eq_ignore_ascii_case(one.name())));
        has_type && selection.has(event)
    };
    let mut follows = Vec::new();
    for place in selection.namespaces() {
        follows.push(Follow::start(hub.cluster.as_ref(), resource.clone(), &place).await?);
    }
    let found = follows
        .iter()
        .flat_map(Follow::objects)
        .filter(|event| passes(event));
    let mut found: Vec<Object> = found.cloned().collect();
    found.sort_by_key(rows::time);
    if args.output.format == TableOrJson::Json {
        return output::print_json(&output::document(found, false));
    }
    if found.is_empty() && !args.watch {
        match args.all_namespaces {
            true => term::failure("No events found."),
            false => term::failure(&format!("No events found in {namespace} namespace.")),
        }
        return Ok(());
    }
    let header = rows::header(selection.shows_namespace());
    let print = |events: &[Object], header: &[&str]| {
        let row = |event: &Object| rows::row(event, selection.shows_namespace(), age::now());
        let rows: Vec<Vec<String>> = events.iter().map(row).collect();
        term::result(&term::plain(&table::render(header, &rows)))
    };
    print(&found, &header)?;
    let mut printed: BTreeSet<(String, String)> = found.iter().map(version).collect();
    if !args.watch {
        return Ok(());
    }
    loop {
        let steps = follows.iter_mut().map(Follow::next);
        let changes = futures::future::try_join_all(steps).await?;
        let written = changes
            .into_iter()
            .flatten()
            .filter_map(|change| match change {
                Change::Written(event) if passes(&event) => Some(event),
                _ => None,
            });
        let mut new: Vec<Object> = written
            .filter(|event| printed.insert(version(event)))
            .collect();
        new.sort_by_key(rows::time);
        if !new.is_empty() {
            print(&new, &[])?;
        }
    }
}

/// Returns what distinguishes an event, and each of its repetitions.
fn version(event: &Object) -> (String, String) {
    let (uid, version) = (event.meta("uid"), event.meta("resourceVersion"));
    (uid.to_owned(), version.to_owned())
}
