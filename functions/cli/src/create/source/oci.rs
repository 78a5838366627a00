//! `driftless create source oci`.

use super::{made, verify};
use crate::create::flags::{self, Given as _, List};
use crate::create::object::{Fields, Made};
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
    /// A range of versions; the artifact has the highest tag in it
    #[arg(long, value_name = "RANGE")]
    tag_semver: Option<String>,
    /// The artifact's digest
    #[arg(long)]
    digest: Option<String>,
    /// Whose login is used
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
    /// What checks the artifact's signature: cosign
    #[arg(long, value_name = "PROVIDER", value_parser = ["cosign"])]
    verify_provider: Option<String>,
    /// The Secret with the keys that signatures are checked with
    #[arg(long, value_name = "NAME")]
    verify_secret_ref: Option<String>,
    /// A regular expression for the subject of a signature without a key
    #[arg(long, value_name = "REGEX")]
    verify_subject: Option<String>,
    /// A regular expression for the issuer of a signature without a key
    #[arg(long, value_name = "REGEX")]
    verify_issuer: Option<String>,
    /// Paths that are left out
    #[arg(long, value_name = "PATHS")]
    ignore_paths: Vec<List>,
    /// Use HTTP without TLS
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false",
        default_missing_value = "true", hide_default_value = true, value_parser = flags::switch)]
    insecure: bool,
    /// The layer to take, and what to do with it: MEDIA-TYPE:extract or MEDIA-TYPE:copy
    #[arg(long, value_name = "SELECTOR", value_parser = layer)]
    layer_selector: Option<Layer>,
}

/// The layer to take, as the object has it; an empty text selects none.
#[derive(Clone)]
struct Layer(Option<Value>);

/// `MEDIA-TYPE:OPERATION`.
fn layer(text: &str) -> Result<Layer, String> {
    if text.is_empty() {
        return Ok(Layer(None));
    }
    match text.split_once(':') {
        Some((of, operation)) if !of.is_empty() && !operation.is_empty() => match operation {
            "extract" | "copy" => Ok(Layer(Some(
                json!({"mediaType": of, "operation": operation}),
            ))),
            _ => Err("operation must be \"extract\" or \"copy\"".to_owned()),
        },
        _ => Err("must be in the format '<media-type>:<operation>'".to_owned()),
    }
}

impl Args {
    /// The object.
    ///
    /// # Errors
    /// Flags that are not valid or absent.
    pub fn made(&self, common: &Common, timeout: Option<Value>) -> Result<Made, Error> {
        let Some(url) = self.url.given() else {
            return Err(Error::usage("url is required")
                .next("add --url URL, such as --url oci://ghcr.io/acme/apps"));
        };
        let mut reference = Fields::default();
        reference
            .set("digest", self.digest.given())
            .set("semver", self.tag_semver.given())
            .set("tag", self.tag.given());
        if reference.is_empty() {
            let what = "--tag, --tag-semver or --digest is required";
            return Err(Error::usage(what));
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
            .set("serviceAccountName", self.service_account.given())
            .set("secretRef", flags::name_of(&self.secret_ref))
            .set("proxySecretRef", flags::name_of(&self.proxy_secret_ref))
            .set("certSecretRef", flags::name_of(&self.cert_ref))
            .set(
                "verify",
                verify(
                    self.verify_provider.given(),
                    flags::name_of(&self.verify_secret_ref),
                    self.verify_issuer.given(),
                    self.verify_subject.given(),
                )?,
            );
        Ok(made("OCIRepository", "OCIRepository", metadata, spec))
    }
}
