//! `driftless create source helm`.

use super::new_source;
use crate::create::Secret;
use crate::create::apply::Hub;
use crate::create::basic_login::BasicLogin;
use crate::create::flags::{self, NonEmpty as _};
use crate::create::object::{AwaitedState, NewObject};
use crate::create::secret;
use crate::create::{Common, Named};
use crate::error::{EXIT_CODES, Error};
use clap::ArgAction;
use driftless_flux::{HelmRepositorySpec, LocalRef};
use driftless_helm::scheme_and_host;
use serde_json::{Map, Value};

/// The scheme and the type of a registry.
const OCI: &str = "oci";

const EXAMPLES: &str = "Examples:
  driftless create source helm podinfo --url https://stefanprodan.github.io/podinfo --interval 10m
  driftless create source helm charts --url https://charts.example.com --username me \\
    --password secret
  driftless create source helm charts --url oci://ghcr.io/acme/charts \\
    --secret-ref registry-login --export";

/// Create or update a HelmRepository
///
/// With a login or certificates a Secret helm-NAME is created first, unless --secret-ref names one.
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    #[command(flatten)]
    named: Named,
    /// The repository's address
    #[arg(long)]
    url: Option<String>,
    #[command(flatten)]
    login: BasicLogin,
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
    /// The provider of the login of a registry: aws, azure or gcp
    #[arg(long, value_name = "PROVIDER")]
    oci_provider: Option<String>,
    /// Also send the login to other hosts
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false",
        default_missing_value = "true", hide_default_value = true, value_parser = flags::switch)]
    pass_credentials: bool,
}

impl Args {
    /// Writes the object with `--export`. Otherwise applies its Secret and then the object, and
    /// waits until it is ready.
    pub async fn run(&self, common: &Common, timeout: Option<String>) -> Result<(), Error> {
        let mut spec = self.spec(common, timeout)?;
        let metadata = common.metadata(&self.named)?;
        if common.export(&new(&metadata, &spec)?.object)? {
            return Ok(());
        }
        let secret = self.secret(common)?;
        let hub = Hub::connect(common).await?;
        if let Some(secret) = secret {
            let name = secret.name.clone();
            hub.store(secret, "repository credentials").await?;
            spec.secret_ref = Some(LocalRef { name });
            spec.pass_credentials = self.pass_credentials;
        }
        hub.finish(new(&metadata, &spec)?).await
    }

    fn spec(&self, common: &Common, timeout: Option<String>) -> Result<HelmRepositorySpec, Error> {
        let Some(url) = self.url.to_non_empty() else {
            return Err(Error::usage("url is required")
                .next("add --url URL, such as --url https://charts.example.com"));
        };
        let (scheme, host) = scheme_and_host(&url)
            .map_err(|error| Error::usage(format!("url parse failed: {error}")))?;
        if !["http", "https", OCI].contains(&scheme.as_str()) {
            return Err(Error::usage(format!(
                "url scheme '{scheme}' not supported, can be: http, https and oci"
            )));
        }
        if host.is_empty() {
            return Err(Error::usage("url host is required"));
        }
        let is_registry = scheme == OCI;
        let secret_ref = flags::local_ref(&self.secret_ref);
        Ok(HelmRepositorySpec {
            url,
            interval: Some(common.interval.to_string()),
            timeout,
            pass_credentials: self.pass_credentials && secret_ref.is_some(),
            secret_ref,
            kind: is_registry.then(|| OCI.to_owned()),
            provider: self.oci_provider.to_non_empty().filter(|_| is_registry),
            ..HelmRepositorySpec::default()
        })
    }

    fn secret(&self, common: &Common) -> Result<Option<Secret>, Error> {
        let login = self.login.parts();
        let files = [&self.cert_file, &self.key_file, &self.ca_file];
        let given = login != (None, None) || files.iter().any(|file| file.non_empty().is_some());
        if !given {
            return Ok(None);
        }
        if self.secret_ref.non_empty().is_some() {
            let message = "cannot use a login or certificates in combination with --secret-ref";
            return Err(Error::usage(message));
        }
        let secret = Secret::new(&format!("helm-{}", self.named.name), common, Map::new());
        let [certificate, key, authorities] = files;
        let tls = secret::tls::Files {
            certificate: certificate.non_empty(),
            key: key.non_empty(),
            authorities: authorities.non_empty(),
        };
        secret::helm::fill(secret, login, &tls).map(Some)
    }
}

/// Returns the object. A registry has no index, so the command does not wait for it.
fn new(metadata: &Map<String, Value>, spec: &HelmRepositorySpec) -> Result<NewObject, Error> {
    let new = new_source("HelmRepository source", metadata, spec)?;
    Ok(match spec.kind.as_deref() {
        Some(OCI) => NewObject {
            end: AwaitedState::Stored,
            ..new
        },
        _ => new,
    })
}
