//! `driftless create source oci`.

use super::{Signatures, new_source};
use crate::create::flags::{self, List, NonEmpty as _};
use crate::create::object::NewObject;
use crate::create::{Common, Named};
use crate::error::{EXIT_CODES, Error};
use clap::ArgAction;
use driftless_flux::{Invalid, LayerSelector, OCIReference, OCIRepositorySpec};

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
    #[command(flatten)]
    signatures: Signatures,
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
struct Layer(Option<LayerSelector>);

/// Parses `MEDIA-TYPE:OPERATION`.
fn layer(text: &str) -> Result<Layer, Invalid> {
    if text.is_empty() {
        return Ok(Layer(None));
    }
    match text.split_once(':') {
        Some((media_type, operation)) if !media_type.is_empty() && !operation.is_empty() => {
            match operation {
                "extract" | "copy" => Ok(Layer(Some(LayerSelector {
                    media_type: media_type.to_owned(),
                    operation: operation.to_owned(),
                }))),
                _ => Err("operation must be \"extract\" or \"copy\"".into()),
            }
        }
        _ => Err("must be in the format '<media-type>:<operation>'".into()),
    }
}

impl Args {
    /// Returns the OCIRepository.
    ///
    /// # Errors
    /// Fails for flags that are not valid or missing.
    pub fn build(&self, common: &Common, timeout: Option<String>) -> Result<NewObject, Error> {
        let Some(url) = self.url.to_non_empty() else {
            return Err(Error::usage("url is required")
                .next("add --url URL, such as --url oci://ghcr.io/acme/apps"));
        };
        let reference = OCIReference {
            digest: self.digest.to_non_empty().unwrap_or_default(),
            semver: self.tag_semver.to_non_empty().unwrap_or_default(),
            tag: self.tag.to_non_empty().unwrap_or_default(),
            ..OCIReference::default()
        };
        if reference == OCIReference::default() {
            let message = "--tag, --tag-semver or --digest is required";
            return Err(Error::usage(message));
        }
        let metadata = common.metadata(&self.named)?;
        let spec = OCIRepositorySpec {
            provider: Some(self.provider.clone()),
            url,
            insecure: self.insecure,
            interval: common.interval.to_string(),
            reference: Some(reference),
            ignore: flags::ignore(&self.ignore_paths),
            layer_selector: self.layer_selector.clone().and_then(|layer| layer.0),
            timeout,
            service_account_name: self.service_account.to_non_empty(),
            secret_ref: flags::local_ref(&self.secret_ref),
            proxy_secret_ref: flags::local_ref(&self.proxy_secret_ref),
            cert_secret_ref: flags::local_ref(&self.cert_ref),
            verify: self.signatures.verification()?,
            ..OCIRepositorySpec::default()
        };
        new_source("OCIRepository", &metadata, &spec)
    }
}
