//! `driftless delete`: deletes Flux objects, as `flux delete` does.

use crate::error::{EXIT_CODES, Error};
use crate::hub::{self, Scope};
use crate::kinds::{KindCommand, KindName, Verb, examples};
use crate::term;
use driftless_flux::{FluxKind, is_suspended};
use driftless_kernel::applier::{Applier, Strategy};
use driftless_kernel::ports::Deleted;
use driftless_manifest::Object;
use std::io::IsTerminal as _;

const EXAMPLES: &str = "Examples:
  driftless delete kustomization apps -n team-a
  driftless delete helmrelease podinfo -n team-a --silent
  driftless delete source git fleet

A deleted Kustomization with prune deletes the objects that it applied; a deleted HelmRelease uninstalls its release. \
Suspend the object first to keep them. An object that is in Git comes back with the next reconciliation.";

/// Delete an object, after a question
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    #[command(subcommand)]
    command: KindCommand<Which>,
    #[command(flatten)]
    scope: Scope,
}

#[derive(clap::Args)]
struct Which {
    /// The object's name
    name: String,
    /// Delete without a question
    #[arg(short, long)]
    silent: bool,
}

impl Verb for Which {
    fn help(name: &KindName) -> String {
        examples(&[
            format!("delete {name} {}", name.example),
            format!("delete {name} NAME --silent"),
        ])
    }
}

/// Asks, and deletes the object that was read.
///
/// # Errors
/// The object does not exist, the answer is not yes, or the user may not delete it.
pub async fn run(args: Args) -> Result<(), Error> {
    let KindCommand { kind, args: which } = args.command;
    let hub = args.scope.connection.connect().await?;
    let (namespace, name, noun) = (&args.scope.namespace, &which.name, KindName::of(kind));
    let object = hub::object(&hub, kind, namespace, name).await?;
    if !which.silent {
        confirm(kind, &object)?;
    }
    term::action(&format!("deleting {noun} {name} in {namespace} namespace"));
    let resource = hub.resource(kind).await?;
    let applier = Applier::new(hub.cluster.as_ref(), Strategy::forcing(hub::MANAGER));
    // The user has seen this object: another one of the same name is not deleted.
    let deleted = applier
        .delete(&resource, &object, "Background", &|_| true)
        .await?;
    match deleted {
        Deleted::Gone => term::success(&format!("{noun} deleted")),
        Deleted::Pending => {
            term::success(&format!("{noun} deleted"));
            term::waiting(&format!(
                "{noun} {name} has finalizers: it is gone after its next reconciliation"
            ));
        }
    }
    Ok(())
}

/// Asks the user on the terminal.
fn confirm(kind: FluxKind, object: &Object) -> Result<(), Error> {
    let noun = KindName::of(kind);
    let (namespace, name) = (object.namespace(), object.name());
    if !std::io::stdin().is_terminal() {
        return Err(Error::new(format!(
            "{noun} {name} in {namespace} namespace: not deleted: stdin is not a terminal that could answer the question"
        ))
        .next("give --silent to delete without a question"));
    }
    if let Some(effect) = effect(kind, object) {
        term::line(&effect);
    }
    match term::confirm(&format!("Are you sure you want to delete this {noun}?"))? {
        true => Ok(()),
        false => {
            Err(Error::new("aborting: nothing was deleted").next("answer y, or give --silent"))
        }
    }
}

/// Returns the effect of a deletion on the objects that were applied.
fn effect(kind: FluxKind, object: &Object) -> Option<String> {
    let is_suspended = is_suspended(object);
    match kind {
        FluxKind::Kustomization if !is_suspended => {
            let prunes = object.pointer("/spec/prune") == Some(&true.into());
            let applied = object.pointer("/status/inventory/entries");
            let count = applied
                .and_then(|entries| entries.as_array())
                .map_or(0, Vec::len);
            (prunes && count > 0)
                .then(|| format!("This also deletes the {count} objects that it has applied."))
        }
        FluxKind::HelmRelease if !is_suspended => {
            Some("This also uninstalls its Helm release.".to_owned())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_effect_on_applied_objects_is_said() {
        let object = |spec: serde_json::Value| {
            Object::new(
                json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
                "metadata": {"name": "apps"}, "spec": spec,
                "status": {"inventory": {"entries": [{"id": "a_b__Secret", "v": "v1"}]}}}),
            )
            .unwrap()
        };
        let kind = FluxKind::Kustomization;
        let found = effect(kind, &object(json!({"prune": true})));
        assert_eq!(
            found.as_deref(),
            Some("This also deletes the 1 objects that it has applied.")
        );
        assert_eq!(effect(kind, &object(json!({"prune": false}))), None);
        let suspended = object(json!({"prune": true, "suspend": true}));
        assert_eq!(effect(kind, &suspended), None);
    }
}
