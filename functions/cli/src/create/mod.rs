//! `driftless create`: creates Flux's objects, as `flux create` 2.9 does.

mod apply;
mod basic_login;
mod flags;
mod helmrelease;
mod kustomization;
mod names;
mod new_secret;
mod notification;
mod object;
mod secret;
mod source;
mod tenant;
mod unserved;

use crate::error::{EXIT_CODES, Error};
use crate::hub::Scope;
use crate::kinds::KindName;
use crate::{output, term};
use apply::Hub;
use clap::{ArgAction, Subcommand};
use driftless_flux::FluxKind;
use flags::List;
pub use flags::{Time, switch};
use object::NewObject;
use serde_json::{Map, Value};

pub use new_secret::Secret;
pub use secret::{KNOWN_HOSTS, KeyPair, Login, PUBLIC_KEY, Remote, known_hosts};
pub use tenant::Tenant;

const EXAMPLES: &str = "Examples:
  driftless create kustomization apps --source GitRepository/fleet --path ./apps --prune \\
    --interval 10m
  driftless create kustomization apps --source fleet --path ./apps --prune --export > apps.yaml";

/// Create or update Flux objects, and wait until they are ready
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"), args_override_self = true)]
pub struct Args {
    #[command(subcommand)]
    command: CreateCommand,
    #[command(flatten, next_help_heading = "Options of every create")]
    common: Common,
}

/// The flags of all subcommands.
#[derive(clap::Args)]
struct Common {
    #[command(flatten)]
    scope: Scope,
    /// The interval at which the object is reconciled
    #[arg(long, global = true, value_name = "DURATION", default_value = "1m")]
    interval: Time,
    /// Write the objects to stdout as YAML, without a cluster
    #[arg(long, global = true, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value = "false", default_missing_value = "true", hide_default_value = true, value_parser = flags::switch)]
    export: bool,
    /// The time to wait
    #[arg(long, global = true, value_name = "DURATION", default_value = "5m")]
    timeout: Time,
}

/// The name and labels of an object.
#[derive(clap::Args)]
struct Named {
    /// The object's name
    #[arg(value_parser = names::object_name)]
    name: String,
    /// Labels of the object: KEY=VALUE, separated by commas
    #[arg(long = "label", value_name = "LABELS")]
    labels: Vec<List>,
}

#[derive(Subcommand)]
enum CreateCommand {
    Tenant(tenant::Args),
    Source(source::Args),
    #[command(visible_aliases = KindName::of(FluxKind::Kustomization).short)]
    Kustomization(kustomization::Args),
    #[command(visible_aliases = KindName::of(FluxKind::HelmRelease).short)]
    Helmrelease(helmrelease::Args),
    Secret(secret::Args),
    Receiver(notification::Receiver),
    Alert(notification::Alert),
    AlertProvider(notification::Provider),
}

impl Common {
    /// Returns the `metadata` of an object.
    fn metadata(&self, named: &Named) -> Result<Map<String, Value>, Error> {
        let labels = names::labels(&named.labels)?;
        Ok(object::metadata(&named.name, &self.scope.namespace, labels))
    }

    /// Writes an object with `--export`, or applies it and waits until it is ready.
    async fn finish(&self, new: NewObject) -> Result<(), Error> {
        match self.export(&new.object)? {
            true => Ok(()),
            false => Hub::connect(self).await?.finish(new).await,
        }
    }

    /// Writes an object with `--export`, and returns whether it did. An object that driftless does
    /// not serve is written with a warning.
    ///
    /// # Errors
    /// Without `--export`, fails for an object that driftless does not serve, before it or its
    /// Secret is created.
    fn export(&self, object: &Value) -> Result<bool, Error> {
        let unserved = unserved::unserved(object);
        if self.export {
            if let Some(reason) = unserved {
                term::failure(&format!("not served: {reason}"));
            }
            return output::manifest(object).map(|()| true);
        }
        match unserved {
            None => Ok(false),
            Some(reason) => Err(Error::usage(reason).next(
                "write the object with --export, for a cluster where Flux's own controllers serve it",
            )),
        }
    }
}

/// Runs the command.
pub async fn run(args: Args) -> Result<(), Error> {
    let common = &args.common;
    match args.command {
        CreateCommand::Tenant(args) => args.run(common).await,
        CreateCommand::Source(args) => args.run(common).await,
        CreateCommand::Kustomization(args) => common.finish(args.build(common)?).await,
        CreateCommand::Helmrelease(args) => common.finish(args.build(common)?).await,
        CreateCommand::Secret(args) => args.run(common).await,
        CreateCommand::Receiver(args) => common.finish(args.build(common)?).await,
        CreateCommand::Alert(args) => common.finish(args.build(common)?).await,
        CreateCommand::AlertProvider(args) => common.finish(args.build(common)?).await,
    }
}
