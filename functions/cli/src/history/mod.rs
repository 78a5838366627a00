//! `driftless history`: what an object applied or fetched, when, how long it took, the result, and
//! the objects that changed.

mod changes;
mod place;
mod status;

use crate::error::{EXIT_CODES, Error};
use crate::hub::{self, Scope};
use crate::kinds::{KindCommand, KindName, Verb, examples};
use crate::output::{self, Output};
use crate::ready::{ready, shorten};
use crate::trace::find;
use crate::{table, term};
use changes::Found;
use clap::ValueEnum;
use driftless_flux::{FluxKind, ObjectRef};
use driftless_kernel::hub::Hub;
use driftless_manifest::ObjectId;
use place::Journals;
use serde_json::Value;
use std::path::PathBuf;

const EXAMPLES: &str = "Examples:
  driftless history kustomization apps -n team-a --diff
  driftless history helmrelease podinfo -n team-a -o json
  driftless history source git flux-system
  driftless history deployment/web -n team-a --data ./state

A Kustomization keeps its last five results, a HelmRelease the revisions of spec.maxHistory, in their status. Sources keep only the \
current artifact; older ones are in the events, which Kubernetes deletes after an hour. The journal has the objects that the last 30 \
steps of each object changed: in the bucket of an installation, or in the data directory of `driftless serve`. It is read from --data, \
else from the bucket that DRIFTLESS_BUCKET names (with the other variables of the functions), else from the directory that `serve` uses \
by default for this cluster. Values are those of numbers, booleans and images, and none may come from a Secret. Times are in UTC.";

/// Print what an object applied or fetched, when, with which result, and what changed
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    /// An applied object: KIND/NAME, as kubectl accepts it. Prints the steps that changed it
    #[arg(value_name = "KIND/NAME")]
    object: Option<String>,
    #[command(subcommand)]
    command: Option<KindCommand<Which>>,
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    scope: Scope,
}

#[derive(clap::Args)]
struct Options {
    #[command(flatten)]
    output: Output<Format>,
    /// Also print the fields that changed, as -o wide does
    #[arg(long, global = true)]
    diff: bool,
    /// Read the journal from this data directory of `driftless serve`
    #[arg(long, global = true, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The hub's name in the journal, if there are several hubs
    #[arg(long, global = true, value_name = "NAME")]
    hub: Option<String>,
}

#[derive(clap::Args)]
struct Which {
    /// The object's name
    name: String,
}

impl Verb for Which {
    fn help(name: &KindName) -> String {
        examples(&[
            format!("history {name} {}", name.example),
            format!("history {name} NAME -o json"),
        ])
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Wide,
    Json,
}

impl output::Format for Format {
    const DEFAULT: &'static str = "table";
}

impl Options {
    fn shows_fields(&self) -> bool {
        self.diff || self.output.format == Format::Wide
    }
}

/// Reads and prints the history.
///
/// # Errors
/// The object does not exist, its kind has no history, or the journal cannot be read.
pub async fn run(args: Args) -> Result<(), Error> {
    let Args {
        object,
        command,
        options,
        scope,
    } = args;
    match (object, command) {
        (Some(object), None) => of_applied(&object, &options, &scope).await,
        (None, Some(KindCommand { kind, args })) => {
            of_flux_object(kind, &args.name, &options, &scope).await
        }
        (Some(object), Some(_)) => Err(Error::usage(format!(
            "'{object}' and a kind of Flux object"
        ))
        .next("give one of them: KIND/NAME, or a kind and a name")),
        (None, None) => Err(Error::usage("no object").next(
            "give a kind and a name, such as kustomization apps, or KIND/NAME of an applied object",
        )),
    }
}

/// Prints the history of a Flux object: from its status, and from its journal if there is one.
async fn of_flux_object(
    kind: FluxKind,
    name: &str,
    options: &Options,
    scope: &Scope,
) -> Result<(), Error> {
    if matches!(
        kind,
        FluxKind::Alert | FluxKind::Provider | FluxKind::Receiver
    ) {
        return Err(Error::usage(format!("a {kind} has no history"))
            .next(format!("driftless events --for {kind}/{name}")));
    }
    let hub = scope.connection.connect().await?;
    let object = hub::object(&hub, kind, &scope.namespace, name).await?;
    let entries = status::entries(&hub, kind, &object).await?;
    let steps = match journals(options, &hub).await? {
        Some(journals) => {
            let id = ObjectRef::new(kind, &scope.namespace, name);
            changes::of_flux_object(&journals, &id).await?
        }
        None => Vec::new(),
    };
    if options.output.format == Format::Json {
        let entries = entries.iter().map(status::Entry::document);
        return print_json(entries, &steps);
    }
    if entries.is_empty() && steps.is_empty() {
        let (status, message) = ready(&object);
        term::failure(&format!(
            "{} {name} has no history yet: Ready is {status}: {}",
            KindName::of(kind),
            shorten(&message)
        ));
        return Ok(());
    }
    let rows: Vec<Vec<String>> = entries.iter().map(status::Entry::row).collect();
    let mut text = table::render(&status::HEADER, &rows);
    if !steps.is_empty() {
        text.push_str("\nChanges:\n");
        text.push_str(&changes::render(&steps, false, options.shows_fields()));
    }
    term::result(&term::plain(&text))
}

/// Prints the steps that changed an applied object, of all Flux objects of the hub.
async fn of_applied(word: &str, options: &Options, scope: &Scope) -> Result<(), Error> {
    let named = find::parse(&[word.to_owned()])?;
    let Some(named) = named.first() else {
        return Err(Error::usage("no object").next("give KIND/NAME"));
    };
    let hub = scope.connection.connect().await?;
    let Some(journals) = journals(options, &hub).await? else {
        return Err(Error::new("the changes of an object are in the journal, and none was found").next(
            "give --data DIR of driftless serve, or set DRIFTLESS_BUCKET and the other variables of an installation",
        ));
    };
    let served = find::served(&hub, &named.resource).await?;
    let id = ObjectId {
        group: served.gvk.group.clone(),
        kind: served.gvk.kind.clone(),
        namespace: match served.namespaced {
            true => scope.namespace.clone(),
            false => String::new(),
        },
        name: named.name.clone(),
    };
    let steps = changes::of_applied(&journals, &id).await?;
    if steps.is_empty() && options.output.format != Format::Json {
        term::failure(&format!(
            "{id}: no step changed it since the journal began; driftless trace names what applies it"
        ));
        return Ok(());
    }
    if options.output.format == Format::Json {
        return print_json(std::iter::empty(), &steps);
    }
    let text = changes::render(&steps, true, options.shows_fields());
    term::result(&term::plain(&text))
}

async fn journals(options: &Options, hub: &Hub) -> Result<Option<Journals>, Error> {
    let data = options.data.as_deref();
    Journals::find(data, options.hub.as_deref(), &hub.access.server).await
}

fn print_json(entries: impl Iterator<Item = Value>, steps: &[Found]) -> Result<(), Error> {
    let steps = steps.iter().map(Found::document);
    output::print_json(&entries.chain(steps).collect())
}
