//! `driftless create source oci`.

use super::{new_source, verify};
use crate::create::flags::{self, List, NonEmpty as _};
use crate::create::object::{Fields, NewObject};
use crate::create::{Common, Named};
use crate::error::{EXIT_CODES, Error};
use clap::ArgAction;
use serde_json::{Value, json};

const EXAMPLES: &str = "Examples:
  driftless create source oci apps --url oci://ghcr.io/acme/apps --tag 6.6.2 --interval 10m
  driftless create source oci apps --url oci://ghcr.io/acme/apps --tag-semver '>=1.0.0' \\
    --verify-provider cosign \\
    --verify-issuer '^https://token.actions.githubusercontent.com$' \\
    --verify-subject '^https://github.com/acme/apps/.*$'
  driftless create source oci chart --url oci://ghcr.io/acme/charts/web --tag 1.2.3 \\
    --layer-selector application/vnd.cncf.helm.chart.content.v1.tar+gzip:copy --export";

/// Create or update an OCIRepository
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    #[command(flatten)]
    named: Named,
    /// The repository's address: oci://HOST/REPOSITORY
    #[arg(long)]
    url: Option<String>,
    /// The artifact's tag
    #[arg(long)]
    tag: Option<String>,
    /// A range of versions, for the artifact with the highest tag in it
    #[arg(long, value_name = "RANGE")]
    tag_semver: Option<String>,
    /// The artifact's digest
    #[arg(long)]
    digest: Option<String>,
    /// The provider of the login
    #[arg(long, default_value = "generic", value_parser = ["generic", "aws", "azure", "gcp"])]
    provider: String,
    /// The image pull Secret with the login
    #[arg(long, value_name = "NAME")]
    secret_ref: Option<String>,
    /// The Secret with the proxy's address and login
    #[arg(long, value_name = "NAME")]
    proxy_secret_ref: Option<String>,
    /// The service account with image pull Secrets
    #[arg(long, value_name = "NAME")]
    service_account: Option<String>,
    /// The Secret with TLS certificates
    #[arg(long, value_name = "NAME")]
    cert_ref: Option<String>,
    /// The provider that verifies the artifact's signature: cosign
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
    /// Paths to ignore
    #[arg(long, value_name = "PATHS")]
    ignore_paths: Vec<List>,
    /// Use HTTP without TLS
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false",
        default_missing_value = "true", hide_default_value = true, value_parser = flags::switch)]
    insecure: bool,
    /// The layer to use, and the operation on it: MEDIA-TYPE:extract or MEDIA-TYPE:copy
    #[arg(long, value_name = "SELECTOR", value_parser = layer)]
    layer_selector: Option<Layer>,
}

/// The value of `layerSelector`; an empty flag selects no layer.
#[derive(Clone)]
struct Layer(Option<Value>);

/// Parses `MEDIA-TYPE:OPERATION`.
fn layer(text: &str) -> Result<Layer, String> {
    if text.is_empty() {
        return Ok(Layer(None));
    }
    match text.split_once(':') {
        Some((media_type, operation)) if !media_type.is_empty() && !operation.is_empty() => {
            match operation {
                "extract" | "copy" => Ok(Layer(Some(
                    json!({"mediaType": media_type, "operation": operation}),
                ))),
                _ => Err("operation must be \"extract\" or \"copy\"".to_owned()),
            }
        }
        _ => Err("must be in the format '<media-type>:<operation>'".to_owned()),
    }
}

impl Args {
    /// Returns the OCIRepository.
    ///
    /// # Errors
    /// Fails for flags that are not valid or missing.
    pub fn build(&self, common: &Common, timeout: Option<Value>) -> Result<NewObject, Error> {
        let Some(url) = self.url.non_empty() else {
            return Err(Error::usage("url is required")
                .next("add --url URL, such as --url oci://ghcr.io/acme/apps"));
        };
        let mut reference = Fields::default();
        reference
            .set("digest", self.digest.non_empty())
            .set("semver", self.tag_semver.non_empty())
            .set("tag", self.tag.non_empty());
        if reference.is_empty() {
            let message = "--tag, --tag-semver or --digest is required";
            return Err(Error::usage(message));
        }
        let metadata = common.metadata(&self.named)?;
        let layer = self.layer_selector.clone().and_then(|layer| layer.0);
        let mut spec = Fields::default();
        spec.set("provider", self.provider.as_str())
            .set("url", url)
            .flag("insecure", self.insecure)
            .set("interval", common.interval)
            .set("ref", Value::from(reference))
            .set("ignore", flags::ignore(&self.ignore_paths))
            .set("layerSelector", layer)
            .set("timeout", timeout)
            .set("serviceAccountName", self.service_account.non_empty())
            .set("secretRef", flags::name_of(&self.secret_ref))
            .set("proxySecretRef", flags::name_of(&self.proxy_secret_ref))
            .set("certSecretRef", flags::name_of(&self.cert_ref))
            .set(
                "verify",
                verify(
                    self.verify_provider.non_empty(),
                    flags::name_of(&self.verify_secret_ref),
                    self.verify_issuer.non_empty(),
                    self.verify_subject.non_empty(),
                )?,
            );
        Ok(new_source("OCIRepository", "OCIRepository", metadata, spec))
    }
}
