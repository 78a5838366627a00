//! `driftless create kustomization`.

use super::flags::{self, List, NonEmpty as _, Reference, Time, items};
use super::object::{AwaitedState, NewObject, object};
use super::{Common, Named};
use crate::accepted::{Accepted, Flags, value};
use crate::error::{EXIT_CODES, Error};
use clap::{Arg, ArgAction};
use driftless_flux::{Decryption, FluxKind, HealthCheck, KustomizationSpec, SourceRef};

const EXAMPLES: &str = "Examples:
  driftless create kustomization infra --source GitRepository/fleet --path ./infra --prune \\
    --interval 1h --wait
  driftless create kustomization apps --depends-on infra --source GitRepository/fleet \\
    --path ./apps --prune
  driftless create kustomization apps -n team-a --source OCIRepository/apps.flux-system --prune
  driftless create kustomization apps --source fleet --path ./apps --decryption-provider sops \\
    --decryption-secret age --export";

/// The kinds that a health check may refer to.
const CHECKED: [&str; 4] = ["Deployment", "DaemonSet", "StatefulSet", "HelmRelease"];

/// Create or update a Kustomization
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    #[command(flatten)]
    named: Named,
    /// The source: [KIND/]NAME[.NAMESPACE] of a GitRepository, OCIRepository or Bucket; without a
    /// kind a GitRepository
    #[arg(long, value_name = "SOURCE", value_parser = flags::kustomization_source)]
    source: Option<Reference>,
    /// The directory in the source
    #[arg(long, default_value = "./", value_parser = flags::safe_path)]
    path: String,
    /// Delete objects that are no longer in the source
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false",
        default_missing_value = "true", hide_default_value = true, value_parser = flags::switch)]
    prune: bool,
    /// Wait until all objects are ready
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false",
        default_missing_value = "true", hide_default_value = true, value_parser = flags::switch)]
    wait: bool,
    /// Objects to be ready, as KIND/NAME.NAMESPACE of a Deployment, DaemonSet, StatefulSet or
    /// HelmRelease; not used with --wait
    #[arg(long, value_name = "OBJECTS")]
    health_check: Vec<List>,
    /// The timeout for objects to become ready
    #[arg(long, value_name = "DURATION", default_value = "2m")]
    health_check_timeout: Time,
    /// Kustomizations that must be ready first: [NAMESPACE/]NAME
    #[arg(long, value_name = "NAMES")]
    depends_on: Vec<List>,
    /// The service account that applies the objects
    #[arg(long, value_name = "NAME")]
    service_account: Option<String>,
    /// The provider that decrypts files: sops
    #[arg(long, value_name = "PROVIDER", value_parser = ["sops"])]
    decryption_provider: Option<String>,
    /// The Secret with the keys that decrypt files; needs --decryption-provider
    #[arg(long, value_name = "NAME")]
    decryption_secret: Option<String>,
    /// The namespace of all objects
    #[arg(long, value_name = "NAME")]
    target_namespace: Option<String>,
    /// The Secret with the kubeconfig of a remote cluster
    #[arg(long, value_name = "NAME")]
    kubeconfig_secret_ref: Option<String>,
    /// The interval at which a failed reconciliation is retried
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "0s",
        hide_default_value = true
    )]
    retry_interval: Time,
    #[command(flatten)]
    _accepted: Accepted<Deprecated>,
}

/// Flags that Flux still accepts, and ignores.
struct Deprecated;

impl Flags for Deprecated {
    fn flags() -> Vec<Arg> {
        vec![value("validation", clap::value_parser!(String))]
    }
}

impl Args {
    /// Returns the Kustomization.
    ///
    /// # Errors
    /// Fails for flags that are not valid or exclude each other.
    pub fn build(&self, common: &Common) -> Result<NewObject, Error> {
        let Some(source) = &self.source else {
            return Err(Error::usage("source is required")
                .next("add --source [KIND/]NAME, such as --source GitRepository/fleet"));
        };
        let metadata = common.metadata(&self.named)?;
        let checks = items(&self.health_check);
        let is_checked = self.wait || !checks.is_empty();
        let checks = checks.into_iter().filter(|_| !self.wait).map(check);
        let spec = KustomizationSpec {
            interval: common.interval.to_string(),
            path: self.path.clone(),
            prune: self.prune,
            source_ref: SourceRef {
                api_version: None,
                kind: source.kind.clone(),
                name: source.name.clone(),
                namespace: source.namespace(),
            },
            target_namespace: self.target_namespace.to_non_empty(),
            depends_on: flags::depends_on(&self.depends_on).map_err(Error::usage)?,
            kube_config: flags::kube_config(&self.kubeconfig_secret_ref),
            timeout: is_checked.then(|| self.health_check_timeout.to_string()),
            wait: self.wait,
            health_checks: checks.collect::<Result<_, _>>()?,
            service_account_name: self.service_account.to_non_empty(),
            decryption: self.decryption()?,
            retry_interval: self.retry_interval.nonzero(),
            ..KustomizationSpec::default()
        };
        Ok(NewObject {
            object: object(FluxKind::Kustomization, metadata, &spec)?,
            noun: "Kustomization",
            end: AwaitedState::Applied,
        })
    }

    /// Returns `decryption`. A Secret without a provider is an error; Flux drops it.
    fn decryption(&self) -> Result<Option<Decryption>, Error> {
        let secret_ref = flags::local_ref(&self.decryption_secret);
        let Some(provider) = self.decryption_provider.to_non_empty() else {
            return match secret_ref {
                None => Ok(None),
                Some(_) => Err(
                    Error::usage("--decryption-secret: no decryption provider given")
                        .next("add --decryption-provider sops"),
                ),
            };
        };
        Ok(Some(Decryption {
            provider,
            secret_ref,
            service_account_name: None,
        }))
    }
}

/// Parses the health check `KIND/NAME.NAMESPACE`.
fn check(text: &str) -> Result<HealthCheck, Error> {
    let wrong = || {
        let message =
            format!("invalid health check '{text}' must be in the format 'kind/name.namespace'");
        Error::usage(message)
    };
    let [kind, name] = text.split('/').collect::<Vec<_>>()[..] else {
        return Err(wrong());
    };
    if !CHECKED.contains(&kind) {
        return Err(Error::usage(format!(
            "invalid health check kind '{kind}' can be HelmRelease, Deployment, DaemonSet or StatefulSet"
        )));
    }
    let [name, namespace] = name.split('.').collect::<Vec<_>>()[..] else {
        return Err(wrong());
    };
    let is_release = kind == FluxKind::HelmRelease.as_str();
    Ok(HealthCheck {
        api_version: is_release.then(|| "helm.toolkit.fluxcd.io/v2".to_owned()),
        kind: kind.to_owned(),
        name: name.to_owned(),
        namespace: Some(namespace.to_owned()).filter(|namespace| !namespace.is_empty()),
    })
}
