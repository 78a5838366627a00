//! `driftless create`: makes Flux's objects, as `flux create` 2.9 does.

mod apply;
mod flags;
mod helmrelease;
mod kustomization;
mod names;
mod notification;
mod object;
mod secret;
mod served;
mod source;
mod tenant;

use crate::error::{EXIT_CODES, Error};
use crate::hub::Connection;
use crate::term;
use apply::Hub;
use clap::{ArgAction, Subcommand};
use flags::{List, Time};
use object::Made;
use serde_json::{Map, Value};

pub use secret::{KNOWN_HOSTS, KeyPair, PUBLIC_KEY, known_hosts};
pub use tenant::Tenant;

const EXAMPLES: &str = "Examples:
  driftless create kustomization apps --source GitRepository/fleet --path ./apps --prune \\
    --interval 10m
  driftless create kustomization apps --source fleet --path ./apps --prune --export > apps.yaml";

/// Create or update objects of Flux, and wait for them
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"), args_override_self = true)]
pub struct Args {
    #[command(subcommand)]
    what: What,
    #[command(flatten, next_help_heading = "Options of every create")]
    common: Common,
}

/// The flags of all commands.
#[derive(clap::Args)]
struct Common {
    #[command(flatten)]
    connection: Connection,
    /// The namespace
    #[arg(
        short,
        long,
        global = true,
        value_name = "NAME",
        default_value = "flux-system"
    )]
    namespace: String,
    /// How often the object is reconciled
    #[arg(long, global = true, value_name = "DURATION", default_value = "1m")]
    interval: Time,
    /// Write the objects to stdout as YAML, and ask no cluster
    #[arg(long, global = true, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value = "false", default_missing_value = "true", hide_default_value = true, value_parser = flags::switch)]
    export: bool,
    /// How long to wait
    #[arg(long, global = true, value_name = "DURATION", default_value = "5m")]
    timeout: Time,
}

/// What every object has of its own.
#[derive(clap::Args)]
struct Named {
    /// The object's name
    #[arg(value_parser = names::object_name)]
    name: String,
    /// Labels of the object: KEY=VALUE, several with commas between them
    #[arg(long = "label", value_name = "LABELS")]
    labels: Vec<List>,
}

#[derive(Subcommand)]
enum What {
    Tenant(tenant::Args),
    Source(source::Args),
    #[command(alias = "ks")]
    Kustomization(kustomization::Args),
    #[command(alias = "hr")]
    Helmrelease(helmrelease::Args),
    Secret(secret::Args),
    Receiver(notification::Receiver),
    Alert(notification::Alert),
    AlertProvider(notification::Provider),
}

impl Common {
    /// `metadata` of an object.
    fn metadata(&self, named: &Named) -> Result<Map<String, Value>, Error> {
        let labels = names::labels(&named.labels)?;
        Ok(object::metadata(&named.name, &self.namespace, labels))
    }

    /// Writes an object, or applies it and waits for it.
    async fn finish(&self, made: Made) -> Result<(), Error> {
        match self.export(&made.object)? {
            true => Ok(()),
            false => Hub::connect(self).await?.finish(made).await,
        }
    }

    /// Writes an object with `--export`: whether it did. One that driftless does not serve is written with a warning.
    ///
    /// # Errors
    /// Without `--export`, an object that driftless does not serve: before anything is made of it or of its Secret.
    fn export(&self, object: &Value) -> Result<bool, Error> {
        let refused = served::refused(object);
        if self.export {
            if let Some(why) = refused {
                term::failure(&format!("not served: {why}"));
            }
            return object::export(object).map(|()| true);
        }
        match refused {
            None => Ok(false),
            Some(why) => Err(Error::usage(why).next(
                "write the object with --export, for a cluster where Flux's own controllers serve it",
            )),
        }
    }
}

/// Runs the command.
pub async fn run(args: Args) -> Result<(), Error> {
    let common = &args.common;
    match args.what {
        What::Tenant(args) => args.run(common).await,
        What::Source(args) => args.run(common).await,
        What::Kustomization(args) => common.finish(args.made(common)?).await,
        What::Helmrelease(args) => common.finish(args.made(common)?).await,
        What::Secret(args) => args.run(common).await,
        What::Receiver(args) => common.export(&args.made(common)?).map(drop),
        What::Alert(args) => common.export(&args.made(common)?).map(drop),
        What::AlertProvider(args) => common.export(&args.made(common)?).map(drop),
    }
}
