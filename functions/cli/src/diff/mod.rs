//! `driftless diff`: what a local directory would change on the hub, as `flux diff kustomization`
//! reports it.

mod compare;
mod local;
mod text;

use crate::concurrent;
use crate::error::Error;
use crate::hub::Scope;
use crate::kinds::{KindCommand, KindName, Verb, examples};
use crate::term;
use clap::ValueEnum;
use compare::{Comparison, Outcome};
use driftless_core::kustomization::live_objects::mark;
use driftless_flux::{FluxKind, Kustomization, ObjectRef};
use driftless_manifest::Object;
use driftless_plans::inventory::Inventory;
use std::path::PathBuf;

const EXIT_CODES: &str = "Exit codes: 0 no differences, 1 differences, 2 failed or wrong usage.";
const EXAMPLES: &str = "Examples:
  driftless diff kustomization apps -n team-a --path ./apps
  driftless diff kustomization apps -n team-a --path ./apps --kustomization-file apps.yaml";

const COMPARISON: &str = "The directory is built, and compared by a server-side dry run. The objects are built as a reconciliation builds \
them: with the patches, images and variables of the Kustomization. Encrypted values of SOPS files are not decrypted: they count as equal \
where the key exists. Values of Secrets are not printed. Nothing is stored.";

/// Compare a local directory with what is live
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
    /// The directory that is spec.path of the Kustomization
    #[arg(long, value_name = "DIR")]
    path: PathBuf,
    /// A file with the Kustomization, instead of the one on the hub
    #[arg(long, value_name = "FILE")]
    kustomization_file: Option<PathBuf>,
    /// Fail if a variable has no value and no default
    #[arg(long)]
    strict_substitute: bool,
    /// The format of the differences: that of `flux diff`, or changed lines of YAML
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Flux)]
    format: Format,
}

impl Verb for One {
    fn accepts(kind: FluxKind) -> bool {
        kind == FluxKind::Kustomization
    }

    fn help(name: &KindName) -> String {
        let examples = examples(&[
            format!("diff {name} apps -n team-a --path ./apps"),
            "diff ks agent --path ./edge --kustomization-file edge.yaml --context edge".to_owned(),
        ]);
        format!("{COMPARISON}\n\n{examples}\n\n{EXIT_CODES}")
    }
}

/// The format of the differences of an object.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Flux,
    Yaml,
}

/// Builds, compares and prints.
///
/// # Errors
/// There are differences (code 1), or the comparison failed (code 2).
pub async fn run(args: Args) -> Result<(), Error> {
    let found = compare(args).await.map_err(|error| error.with_code(2))?;
    match found {
        0 => Ok(()),
        count => Err(Error::new(format!("{count} objects differ"))),
    }
}

/// Returns the number of objects that differ.
async fn compare(args: Args) -> Result<usize, Error> {
    let KindCommand { kind, args: one } = args.command;
    let place = local::Place::of(&one.path)?;
    let file = one.kustomization_file.as_deref();
    let from_file = file.map(|file| local::kustomization(file, &one.name, &args.scope.namespace));
    let from_file = from_file.transpose()?;
    let hub = args.scope.connection.connect().await?;
    let id = ObjectRef::new(kind, &args.scope.namespace, &one.name);
    let (object, is_from_file) = match (from_file, hub.get(&id).await?) {
        (Some(file), None) => (file, true),
        // What was applied is in the status of the live object.
        (Some(mut file), Some(live)) => {
            if let Some(status) = live.pointer("/status") {
                file.as_map_mut()
                    .insert("status".to_owned(), status.clone());
            }
            (file, true)
        }
        (None, Some(live)) => (live, false),
        (None, None) => {
            return Err(Error::new(format!("{id} does not exist on the hub")).next(
                "give --kustomization-file FILE for a Kustomization that is not on the hub yet",
            ));
        }
    };
    let owner = Kustomization::from_object(object).map_err(Error::caused_by)?;
    if owner.spec.kube_config.is_some() && !is_from_file {
        return Err(Error::new(format!("{}: diff is not supported for remote clusters: spec.kubeConfig is set", owner.id))
            .next("give the kubeconfig of the remote cluster with --kubeconfig, and the Kustomization with --kustomization-file"));
    }
    let mut objects = local::build(&hub, &place, &owner, one.strict_substitute).await?;
    for object in &mut objects {
        mark(object, &owner);
    }
    let stale = stale(&owner, &objects);
    let comparison = Comparison::new(&hub, &owner, &objects)?;
    let outcomes = concurrent::run(objects.iter().map(|object| comparison.outcome(object))).await;
    let (mut text, mut count, mut failed) = (String::new(), 0, None);
    for (object, outcome) in objects.iter().zip(outcomes) {
        match outcome {
            Ok(outcome) => {
                count += usize::from(outcome.is_difference());
                text.push_str(&outcome.print(object, one.format));
            }
            Err(error) => {
                if failed.is_none() {
                    failed = Some(error);
                } else {
                    term::failure(&error.message);
                }
            }
        }
    }
    if failed.is_none() {
        count += stale.len();
        for id in stale {
            text.push_str(&text::line(&id, "deleted", Some("31")));
        }
    }
    term::result(&text)?;
    failed.map_or(Ok(count), Err)
}

/// Returns the applied objects that a prune would delete.
fn stale(owner: &Kustomization, objects: &[Object]) -> Vec<driftless_manifest::ObjectId> {
    if !owner.spec.prune {
        return Vec::new();
    }
    let applied = Inventory::from_status(owner.object.pointer("/status/inventory"));
    let gone = applied.minus(&Inventory::of(objects));
    gone.in_deletion_order()
        .into_iter()
        .map(|entry| entry.id)
        .collect()
}

impl Outcome {
    fn print(&self, object: &Object, format: Format) -> String {
        let id = object.id();
        match self {
            Self::Unchanged => String::new(),
            Self::Skipped => text::line(&id, "skipped", Some("33")),
            Self::Created => text::line(&id, "created", Some("32")),
            Self::Recreated => text::line(
                &id,
                "recreated: a field changes that cannot be changed",
                Some("33"),
            ),
            Self::Drifted { live, applied } => {
                let body = match format {
                    Format::Flux => text::report(live, applied),
                    Format::Yaml => text::changes(live, applied),
                };
                text::line(&id, "drifted", None) + &body
            }
        }
    }
}
