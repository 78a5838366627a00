//! `driftless create source`.

mod bucket;
mod chart;
mod git;
mod helm;
mod oci;

use super::Common;
use super::flags::Time;
use super::object::{AwaitedState, Fields, NewObject, object};
use crate::error::{EXIT_CODES, Error};
use clap::Subcommand;
use serde_json::{Map, Value, json};

const EXAMPLES: &str = "Examples:
  driftless create source git fleet --url https://github.com/acme/fleet --branch main
  driftless create source oci apps --url oci://ghcr.io/acme/apps --tag-semver '>=1.0.0' --export";

/// Create or update sources
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    #[command(subcommand)]
    kind: Kind,
    /// The timeout of a fetch
    #[arg(
        long,
        global = true,
        value_name = "DURATION",
        default_value = "0s",
        hide_default_value = true,
        help_heading = "Options of every source"
    )]
    fetch_timeout: Time,
}

#[derive(Subcommand)]
enum Kind {
    Git(git::Args),
    Helm(helm::Args),
    Oci(oci::Args),
    Bucket(bucket::Args),
    Chart(chart::Args),
}

impl Args {
    /// Writes the source with `--export`. Otherwise applies its Secret and then the source, and
    /// waits until it is ready.
    pub async fn run(&self, common: &Common) -> Result<(), Error> {
        let timeout = self.fetch_timeout.nonzero();
        match &self.kind {
            Kind::Git(args) => args.run(common, timeout).await,
            Kind::Helm(args) => args.run(common, timeout).await,
            Kind::Bucket(args) => args.run(common, timeout).await,
            Kind::Oci(args) => common.finish(args.build(common, timeout)?).await,
            Kind::Chart(args) => {
                if timeout.is_some() {
                    let reason = "a HelmChart is fetched with the timeout of its source";
                    return Err(Error::unsupported("--fetch-timeout", reason));
                }
                common.finish(args.build(common)?).await
            }
        }
    }
}

/// Returns the object of a source.
fn new_source(
    kind: &str,
    noun: &'static str,
    metadata: Map<String, Value>,
    spec: Fields,
) -> NewObject {
    NewObject {
        object: object("source.toolkit.fluxcd.io/v1", kind, metadata, spec),
        noun,
        end: AwaitedState::Fetched,
    }
}

/// Sets `secretRef` of a source to the Secret that was created for it.
fn set_secret_ref(source: &mut NewObject, secret: &str) {
    source.object["spec"]["secretRef"] = json!({ "name": secret });
}

/// Returns `verify` of a source.
///
/// # Errors
/// Fails for details without a provider.
fn verify(
    provider: Option<&str>,
    secret: Option<Value>,
    issuer: Option<&str>,
    subject: Option<&str>,
) -> Result<Option<Value>, Error> {
    let identity = issuer.is_some() || subject.is_some();
    let Some(provider) = provider else {
        let detail = match (secret, identity) {
            (None, false) => return Ok(None),
            (Some(_), _) => "a secret",
            (None, true) => "OIDC issuer/subject",
        };
        return Err(Error::usage(format!(
            "a verification provider must be specified when {detail} is specified"
        )));
    };
    let mut verify = Fields::default();
    verify.set("provider", provider).set("secretRef", secret);
    if identity {
        let (issuer, subject) = (issuer.unwrap_or_default(), subject.unwrap_or_default());
        verify.set(
            "matchOIDCIdentity",
            json!([{"issuer": issuer, "subject": subject}]),
        );
    }
    Ok(Some(verify.into()))
}
