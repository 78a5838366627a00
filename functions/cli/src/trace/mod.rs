//! `driftless trace`: from an object to the Kustomization or HelmRelease that applied it, and to
//! its source, as `flux trace` prints them.

pub mod find;
mod objects;
mod origin;
mod report;

use crate::error::{EXIT_CODES, Error};
use crate::hub::Scope;
use crate::{term, trace::find::Named};
use driftless_manifest::Gvk;

const EXAMPLES: &str = "Examples:
  driftless trace deployment my-app -n apps
  driftless trace pod/redis-0 cm/redis -n redis
  driftless trace namespace redis
  driftless trace redis --kind HelmRelease --api-version helm.toolkit.fluxcd.io/v2 -n redis

Times are in UTC.";

/// Trace objects to the Flux object that applied them, and to their source and revision
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    /// The objects: RESOURCE NAME..., or RESOURCE/NAME...
    #[arg(required = true, value_name = "RESOURCE")]
    objects: Vec<String>,
    /// The kind of the object, such as Deployment; then the argument is its name
    #[arg(long, requires = "api_version")]
    kind: Option<String>,
    /// The API version of the object, such as apps/v1
    #[arg(long, requires = "kind", value_name = "VERSION")]
    api_version: Option<String>,
    #[command(flatten)]
    scope: Scope,
}

/// Finds and traces the objects.
///
/// # Errors
/// An object does not exist, or Flux does not manage it.
pub async fn run(args: Args) -> Result<(), Error> {
    let named = match (&args.kind, &args.api_version, args.objects.as_slice()) {
        (Some(kind), Some(version), [name]) => vec![Named {
            resource: find::Resource::Exact(Gvk::new(version, kind)),
            name: name.clone(),
        }],
        (Some(_), ..) => {
            return Err(Error::usage("--kind: expected a single name")
                .next("give one name with --kind and --api-version"));
        }
        _ => find::parse(&args.objects)?,
    };
    let hub = args.scope.connection.connect().await?;
    let objects = find::read_all(&hub, &named, &args.scope.namespace).await?;
    let mut failed = None;
    let many = objects.len();
    for (at, object) in objects.iter().enumerate() {
        match origin::trace(&hub, object).await {
            Ok(report) => term::result(&term::plain(&report))?,
            Err(error) if many == 1 => return Err(error),
            Err(error) => {
                term::failure(&error.message);
                failed = Some(error);
            }
        }
        if at + 1 < many {
            term::result("---\n")?;
        }
    }
    failed.map_or(Ok(()), Err)
}
