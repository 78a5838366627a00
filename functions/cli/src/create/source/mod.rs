//! `driftless create source`.

mod bucket;
mod chart;
mod git;
mod helm;
mod oci;

use super::Common;
use super::flags::{NonEmpty as _, Time, local_ref};
use super::object::{AwaitedState, NewObject, object};
use crate::error::{EXIT_CODES, Error};
use clap::Subcommand;
use driftless_flux::{OidcIdentity, SourceSpec, Verification};
use serde::Serialize;
use serde_json::{Map, Value};

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
///
/// # Errors
/// The spec cannot be written as JSON.
fn new_source<S: SourceSpec + Serialize>(
    noun: &'static str,
    metadata: &Map<String, Value>,
    spec: &S,
) -> Result<NewObject, Error> {
    Ok(NewObject {
        object: object(S::KIND, metadata.clone(), spec)?,
        noun,
        end: AwaitedState::Fetched,
    })
}

/// Flags of the signatures that an artifact must have.
#[derive(clap::Args)]
struct Signatures {
    /// The provider that verifies the signature: cosign
    #[arg(long, value_name = "PROVIDER", value_parser = ["cosign"])]
    verify_provider: Option<String>,
    /// The Secret with the public keys for signatures
    #[arg(long, value_name = "NAME")]
    verify_secret_ref: Option<String>,
    /// A regular expression for the subject of a keyless signature
    #[arg(long, value_name = "REGEX")]
    verify_subject: Option<String>,
    /// A regular expression for the issuer of a keyless signature
    #[arg(long, value_name = "REGEX")]
    verify_issuer: Option<String>,
}

impl Signatures {
    /// Returns `verify` of a source.
    ///
    /// # Errors
    /// Fails for details without a provider.
    fn verification(&self) -> Result<Option<Verification>, Error> {
        let secret_ref = local_ref(&self.verify_secret_ref);
        let identity = OidcIdentity {
            issuer: self.verify_issuer.to_non_empty().unwrap_or_default(),
            subject: self.verify_subject.to_non_empty().unwrap_or_default(),
        };
        let is_keyless = identity != OidcIdentity::default();
        let Some(provider) = self.verify_provider.to_non_empty() else {
            let detail = match (secret_ref, is_keyless) {
                (None, false) => return Ok(None),
                (Some(_), _) => "a secret",
                (None, true) => "OIDC issuer/subject",
            };
            return Err(Error::usage(format!(
                "a verification provider must be specified when {detail} is specified"
            )));
        };
        Ok(Some(Verification {
            provider,
            secret_ref,
            match_oidc_identity: is_keyless.then_some(identity).into_iter().collect(),
            trusted_root_secret_ref: None,
        }))
    }
}
