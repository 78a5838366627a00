//! `driftless create source helm`.

use super::{made, refer_to};
use crate::create::apply::Hub;
use crate::create::flags::{self, Given as _};
use crate::create::object::{End, Fields, Made};
use crate::create::secret::{self, Secret};
use crate::create::{Common, Named};
use crate::error::{EXIT_CODES, Error};
use clap::ArgAction;
use driftless_helm::scheme_and_host;
use serde_json::{Map, Value};

const EXAMPLES: &str = "Examples:
  driftless create source helm podinfo --url https://stefanprodan.github.io/podinfo --interval 10m
  driftless create source helm charts --url https://charts.example.com --username me \\
    --password secret
  driftless create source helm charts --url oci://ghcr.io/acme/charts \\
    --secret-ref registry-login --export";

/// Create or update a HelmRepository
///
/// With a login or certificates a Secret helm-NAME is made first, unless --secret-ref names one.
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    #[command(flatten)]
    named: Named,
    /// The repository's address
    #[arg(long)]
    url: Option<String>,
    /// The user's name
    #[arg(short, long, value_name = "NAME", allow_hyphen_values = true)]
    username: Option<String>,
    /// The user's password
    #[arg(short, long, allow_hyphen_values = true)]
    password: Option<String>,
    /// The file with the client's certificate
    #[arg(long, value_name = "FILE")]
    cert_file: Option<String>,
    /// The file with the client's key
    #[arg(long, value_name = "FILE")]
    key_file: Option<String>,
    /// The file with the certificates of authorities
    #[arg(long, value_name = "FILE")]
    ca_file: Option<String>,
    /// The Secret with a login or certificates
    #[arg(long, value_name = "NAME")]
    secret_ref: Option<String>,
    /// Whose login a registry uses: aws, azure or gcp
    #[arg(long, value_name = "PROVIDER")]
    oci_provider: Option<String>,
    /// Send the login to other hosts, too
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false",
        default_missing_value = "true", hide_default_value = true, value_parser = flags::switch)]
    pass_credentials: bool,
}

impl Args {
    /// Writes the object, or applies it, with its Secret before it, and waits for it.
    pub async fn run(&self, common: &Common, timeout: Option<Value>) -> Result<(), Error> {
        let mut made = self.made(common, timeout)?;
        if common.export(&made.object)? {
            return Ok(());
        }
        let secret = self.secret(common)?;
        let hub = Hub::connect(common).await?;
        if let Some(secret) = secret {
            let name = secret.name.clone();
            hub.store(secret, "repository credentials").await?;
            refer_to(&mut made, &name);
            if self.pass_credentials {
                made.object["spec"]["passCredentials"] = true.into();
            }
        }
        hub.finish(made).await
    }

    fn made(&self, common: &Common, timeout: Option<Value>) -> Result<Made, Error> {
        let Some(url) = self.url.given() else {
            return Err(Error::usage("url is required")
                .next("add --url URL, such as --url https://charts.example.com"));
        };
        let metadata = common.metadata(&self.named)?;
        let parsed = scheme_and_host(url);
        let (scheme, host) =
            parsed.map_err(|why| Error::usage(format!("url parse failed: {why}")))?;
        if !["http", "https", "oci"].contains(&scheme.as_str()) {
            return Err(Error::usage(format!(
                "url scheme '{scheme}' not supported, can be: http, https and oci"
            )));
        }
        if host.is_empty() {
            return Err(Error::usage("url host is required"));
        }
        let registry = scheme == "oci";
        let secret = flags::name_of(&self.secret_ref);
        let mut spec = Fields::default();
        spec.set("url", url)
            .set("interval", common.interval)
            .set("timeout", timeout)
            .flag("passCredentials", self.pass_credentials && secret.is_some())
            .set("secretRef", secret);
        if registry {
            spec.set("type", "oci")
                .set("provider", self.oci_provider.given());
        }
        let mut made = made("HelmRepository", "HelmRepository source", metadata, spec);
        if registry {
            made.end = End::Stored;
        }
        Ok(made)
    }

    fn secret(&self, common: &Common) -> Result<Option<Secret>, Error> {
        let login = (self.username.given(), self.password.given());
        let files = [&self.cert_file, &self.key_file, &self.ca_file];
        let given = login != (None, None) || files.iter().any(|file| file.given().is_some());
        if !given {
            return Ok(None);
        }
        if self.secret_ref.given().is_some() {
            let what = "cannot use a login or certificates in combination with --secret-ref";
            return Err(Error::usage(what));
        }
        let secret = Secret::new(&format!("helm-{}", self.named.name), common, Map::new());
        let [certificate, key, authorities] = files;
        let tls = secret::tls::Files {
            certificate: certificate.given(),
            key: key.given(),
            authorities: authorities.given(),
        };
        secret::helm::fill(secret, login, &tls).map(Some)
    }
}
