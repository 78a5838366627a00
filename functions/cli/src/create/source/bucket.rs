//! `driftless create source bucket`.

use super::new_source;
use crate::create::Secret;
use crate::create::apply::Hub;
use crate::create::flags::{self, List, NonEmpty as _};
use crate::create::{Common, Named, names};
use crate::error::{EXIT_CODES, Error};
use clap::ArgAction;
use driftless_flux::{BucketSpec, LocalRef};

/// The name of the kind in messages.
const NOUN: &str = "Bucket source";

const EXAMPLES: &str = "Examples:
  driftless create source bucket apps --bucket-name apps --endpoint minio.example.com:9000 \\
    --access-key KEY --secret-key SECRET
  driftless create source bucket apps --bucket-name apps --provider aws \\
    --endpoint s3.amazonaws.com --region us-east-1 --export";

/// Create or update a Bucket
///
/// With --access-key and --secret-key a Secret bucket-NAME is created first, unless --secret-ref
/// names one.
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    #[command(flatten)]
    named: Named,
    /// The bucket's provider
    #[arg(long, default_value = "generic", value_parser = ["generic", "aws", "azure", "gcp"])]
    provider: String,
    /// The bucket's name
    #[arg(long, value_name = "NAME")]
    bucket_name: Option<String>,
    /// The provider's host
    #[arg(long, value_name = "HOST")]
    endpoint: Option<String>,
    /// The access key
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    access_key: Option<String>,
    /// The secret key
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    secret_key: Option<String>,
    /// The bucket's region
    #[arg(long)]
    region: Option<String>,
    /// Use HTTP without TLS
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false",
        default_missing_value = "true", hide_default_value = true, value_parser = flags::switch)]
    insecure: bool,
    /// The Secret with the keys
    #[arg(long, value_name = "NAME")]
    secret_ref: Option<String>,
    /// The Secret with the proxy's address and login
    #[arg(long, value_name = "NAME")]
    proxy_secret_ref: Option<String>,
    /// Paths to ignore
    #[arg(long, value_name = "PATHS")]
    ignore_paths: Vec<List>,
}

impl Args {
    /// Writes the object with `--export`. Otherwise applies its Secret and then the object, and
    /// waits until it is ready.
    pub async fn run(&self, common: &Common, timeout: Option<String>) -> Result<(), Error> {
        let mut spec = self.spec(common, timeout)?;
        let metadata = common.metadata(&self.named)?;
        if common.export(&new_source(NOUN, &metadata, &spec)?.object)? {
            return Ok(());
        }
        let secret = self.secret(common)?;
        let hub = Hub::connect(common).await?;
        if let Some(secret) = secret {
            let name = secret.name.clone();
            hub.store(secret, "the bucket credentials").await?;
            spec.secret_ref = Some(LocalRef { name });
        }
        hub.finish(new_source(NOUN, &metadata, &spec)?).await
    }

    fn spec(&self, common: &Common, timeout: Option<String>) -> Result<BucketSpec, Error> {
        let Some(bucket_name) = self.bucket_name.to_non_empty() else {
            return Err(Error::usage("bucket-name is required").next("add --bucket-name NAME"));
        };
        let Some(endpoint) = self.endpoint.to_non_empty() else {
            return Err(Error::usage("endpoint is required")
                .next("add --endpoint HOST, such as --endpoint s3.eu-west-1.amazonaws.com"));
        };
        Ok(BucketSpec {
            bucket_name,
            provider: Some(self.provider.clone()),
            insecure: self.insecure,
            endpoint,
            region: self.region.to_non_empty(),
            interval: common.interval.to_string(),
            ignore: flags::ignore(&self.ignore_paths),
            timeout,
            secret_ref: flags::local_ref(&self.secret_ref),
            proxy_secret_ref: flags::local_ref(&self.proxy_secret_ref),
            ..BucketSpec::default()
        })
    }

    fn secret(&self, common: &Common) -> Result<Option<Secret>, Error> {
        let (access, secret) = match (self.access_key.non_empty(), self.secret_key.non_empty()) {
            (None, None) => return Ok(None),
            (Some(access), Some(secret)) => (access, secret),
            _ => {
                let message = "--access-key and --secret-key must be given together";
                return Err(Error::usage(message));
            }
        };
        if self.secret_ref.non_empty().is_some() {
            let message = "cannot use --access-key in combination with --secret-ref";
            return Err(Error::usage(message));
        }
        let labels = names::labels(&self.named.labels)?;
        let mut new = Secret::new(&format!("bucket-{}", self.named.name), common, labels);
        new.set("accesskey", access).set("secretkey", secret);
        Ok(Some(new))
    }
}
