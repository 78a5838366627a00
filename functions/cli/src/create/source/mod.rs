//! `driftless create source`.

mod bucket;
mod chart;
mod git;
mod helm;
mod oci;

use super::Common;
use super::flags::Time;
use super::object::{End, Fields, Made, object};
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
    /// How long a fetch may take
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
    /// Writes the source, or applies it, with its Secret before it, and waits for it.
    pub async fn run(&self, common: &Common) -> Result<(), Error> {
        let timeout = self.fetch_timeout.given();
        match &self.kind {
            Kind::Git(args) => args.run(common, timeout).await,
            Kind::Helm(args) => args.run(common, timeout).await,
            Kind::Bucket(args) => args.run(common, timeout).await,
            Kind::Oci(args) => common.finish(args.made(common, timeout)?).await,
            Kind::Chart(args) => {
                if timeout.is_some() {
                    let why = "a HelmChart is fetched in the time of its source";
                    return Err(Error::unsupported("--fetch-timeout", why));
                }
                common.finish(args.made(common)?).await
            }
        }
    }
}

/// A source as an object.
fn made(kind: &str, noun: &'static str, metadata: Map<String, Value>, spec: Fields) -> Made {
    Made {
        object: object("source.toolkit.fluxcd.io/v1", kind, metadata, spec),
        noun,
        end: End::Fetched,
    }
}

/// Names the Secret that was made for a source.
fn refer_to(made: &mut Made, secret: &str) {
    made.object["spec"]["secretRef"] = json!({ "name": secret });
}

/// `verify` of a source.
///
/// # Errors
/// Details without a provider.
fn verify(
    provider: Option<&str>,
    secret: Option<Value>,
    issuer: Option<&str>,
    subject: Option<&str>,
) -> Result<Option<Value>, Error> {
    let identity = issuer.is_some() || subject.is_some();
    let Some(provider) = provider else {
        let what = match (secret, identity) {
            (None, false) => return Ok(None),
            (Some(_), _) => "a secret",
            (None, true) => "OIDC issuer/subject",
        };
        return Err(Error::usage(format!(
            "a verification provider must be specified when {what} is specified"
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
