//! Logins to registries of clouds (`spec.provider`), as source-controller 1.9 gets them.

use driftless_flux::reason;
use driftless_kernel::cloud::{self, Exchange, aws, azure, google};
use driftless_kernel::context::Context;
use driftless_kernel::failure::{Failure, TargetError};
use driftless_kernel::hub::Settings;
use driftless_kernel::ports::{
    AcrRegistry, AwsIdentity, Connection, EcrRegistry, PortError, RegistryLogin, Secret,
    is_google_registry,
};

/// Flux's message prefix for a failed login.
const TOKEN: &str = "failed to get access token for artifact registry";
/// The user name for a login to a registry of Google with a token.
const GOOGLE_USER: &str = "oauth2accesstoken";

/// An object and the registry that it needs a login for.
pub(super) struct LoginRequest<'a> {
    /// The object's namespace.
    pub namespace: &'a str,
    /// The provider: `aws`, `azure` or `gcp`.
    pub cloud: &'a str,
    /// The registry's address, `oci://HOST/PATH`.
    pub url: &'a str,
    /// The account whose identity is used.
    pub account: Account<'a>,
}

/// The account whose identity a source uses.
#[derive(Clone, Copy)]
pub(super) enum Account<'a> {
    /// The service account of this name, else the operator's default one, else the installation
    /// itself.
    Named(&'a str),
    /// The installation itself: the object's kind has no field for a service account.
    Never,
}

impl LoginRequest<'_> {
    /// `HOST/PATH`
    fn repository(&self) -> &str {
        let bare = self.url.strip_prefix("oci://").unwrap_or(self.url);
        bare.trim_end_matches('/')
    }

    fn host(&self) -> &str {
        let repository = self.repository();
        repository
            .split_once('/')
            .map_or(repository, |(host, _)| host)
    }

    /// Returns what the user can do if the installation's identity cannot be used.
    fn instead(&self, annotation: &str) -> String {
        let account = match self.account {
            Account::Named(_) => format!(
                "name a service account with the annotation {annotation} (spec.serviceAccountName)"
            ),
            Account::Never => "use an OCIRepository with spec.serviceAccountName".to_owned(),
        };
        format!("{account}, or name a Secret with a login (spec.secretRef)")
    }

    /// Returns the service account whose identity is used, or nothing for the installation's.
    async fn account(&self, context: &Context<'_>) -> Result<Option<cloud::Account>, Failure> {
        let Account::Named(own) = self.account else {
            return Ok(None);
        };
        let found = account(context, self.namespace, own).await;
        found.map_err(|error| error.context(TOKEN).into())
    }
}

/// Returns the service account that a source names, else the operator's default one.
///
/// # Errors
/// Those of [`cloud::find`].
pub(super) async fn account(
    context: &Context<'_>,
    namespace: &str,
    own: &str,
) -> Result<Option<cloud::Account>, TargetError> {
    let settings = &context.hub.settings;
    let default = settings.default_source_service_account.as_deref();
    cloud::find(&context.hub, namespace, own, default).await
}

/// Returns user and password of a registry, for the identity that an object uses.
///
/// # Errors
/// The registry is not one of the cloud's; the identity is missing or unknown to the cloud; the
/// installation's own role is not allowed for this registry.
pub(super) async fn login(
    context: &Context<'_>,
    request: &LoginRequest<'_>,
    connection: &Connection,
) -> Result<(String, Secret), Failure> {
    let RegistryLogin { user, password } = match request.cloud {
        "aws" => ecr(context, request, connection).await?,
        "azure" => acr(context, request, connection).await?,
        "gcp" => google(context, request, connection).await?,
        other => {
            let message = format!("provider '{}' not implemented", other.escape_debug());
            return Err(Failure::retry(reason::FAILED, message));
        }
    };
    Ok((user, password))
}

async fn ecr(
    context: &Context<'_>,
    request: &LoginRequest<'_>,
    connection: &Connection,
) -> Result<RegistryLogin, Failure> {
    let Some(registry) = EcrRegistry::parse(request.host()) else {
        let form = r"([0-9+]*).dkr[.-]ecr(?:-fips)?\.([^/.]*)\.(amazonaws\.com[.cn]*|amazonaws\.eu|sc2s\.sgov\.gov|c2s\.ic\.gov|cloud\.adc-e\.uk|csp\.hci\.ic\.gov|on\.aws)";
        return Err(invalid("AWS", request.host(), form));
    };
    check_tls(connection)?;
    let identity = match request.account(context).await? {
        Some(account) => aws::identity(
            &Exchange::new(context.ports, &context.hub),
            &account,
            registry.region(),
        )
        .await
        .map_err(|failure| failure.context(TOKEN))?,
        None => {
            check_role(&context.hub.settings, request, connection)?;
            AwsIdentity::Installation
        }
    };
    let now = context.ports.clock.now();
    let answer = context.ports.clouds.aws.registry(&registry, &identity, now);
    answer.await.map_err(|error| login_failure(&error))
}

async fn acr(
    context: &Context<'_>,
    request: &LoginRequest<'_>,
    connection: &Connection,
) -> Result<RegistryLogin, Failure> {
    let Some(registry) = AcrRegistry::parse(request.host()) else {
        let form = r"^.+\.(azurecr\.io|azurecr\.cn|azurecr\.de|azurecr\.us)$";
        return Err(invalid("Azure", request.host(), form));
    };
    check_tls(connection)?;
    let account = required_account(context, request, azure::CLIENT).await?;
    let identity = azure::identity(&Exchange::new(context.ports, &context.hub), &account).await;
    let identity = identity.map_err(|failure| failure.context(TOKEN))?;
    let now = context.ports.clock.now();
    let answer = context
        .ports
        .clouds
        .azure
        .registry(&registry, &identity, now);
    answer.await.map_err(|error| login_failure(&error))
}

async fn google(
    context: &Context<'_>,
    request: &LoginRequest<'_>,
    connection: &Connection,
) -> Result<RegistryLogin, Failure> {
    if !is_google_registry(request.host()) {
        let form = r"^(((.+\.)?gcr\.io)|(.+-docker\.pkg\.dev)|(docker\.s3nsregistry\.fr))$";
        return Err(invalid("GCP", request.host(), form));
    }
    check_tls(connection)?;
    let account = required_account(context, request, google::PROVIDER).await?;
    let identity = google::identity(&Exchange::new(context.ports, &context.hub), &account).await;
    let identity = identity.map_err(|failure| failure.context(TOKEN))?;
    let now = context.ports.clock.now();
    let answer = context.ports.clouds.google.token(&identity, now);
    let token = answer.await.map_err(|error| login_failure(&error))?;
    Ok(RegistryLogin {
        user: GOOGLE_USER.to_owned(),
        password: token.secret,
    })
}

/// Returns the service account of the object; an error without one, because the installation has
/// only an identity on AWS.
async fn required_account(
    context: &Context<'_>,
    request: &LoginRequest<'_>,
    annotation: &str,
) -> Result<cloud::Account, Failure> {
    if let Some(account) = request.account(context).await? {
        return Ok(account);
    }
    let (cloud, instead) = (request.cloud, request.instead(annotation));
    let message = format!(
        "spec.provider '{cloud}' without a service account is not supported: driftless has no controller identity in this cloud to \
         fall back to: {instead}"
    );
    Err(Failure::terminal(reason::UNSUPPORTED, message))
}

fn login_failure(error: &PortError) -> Failure {
    let prefix = "failed to create artifact registry credentials";
    Failure::port(reason::FAILED, error).context(prefix)
}

fn invalid(cloud: &str, host: &str, form: &str) -> Failure {
    let host = host.escape_debug();
    let message = format!("invalid {cloud} registry: '{host}'. must match {form}");
    Failure::retry(reason::FAILED, message)
}

/// Refuses connections without TLS: a cloud's login opens more than one repository, so it must not
/// be readable on the way.
fn check_tls(connection: &Connection) -> Result<(), Failure> {
    match connection.insecure {
        false => Ok(()),
        true => Err(Failure::terminal(
            reason::UNSUPPORTED,
            "spec.insecure with a cloud's login is not supported: its registries speak TLS. Remove the field",
        )),
    }
}

/// Checks that the installation's own role may read the registry: the operator named it, and only
/// public certificates are trusted.
fn check_role(
    settings: &Settings,
    request: &LoginRequest<'_>,
    connection: &Connection,
) -> Result<(), Failure> {
    let prefix = "spec.provider 'aws' without a service account reads the registry with this installation's own AWS role";
    let message = if !is_allowed(settings, request) {
        format!(
            "{prefix}, which is not allowed for this registry: register the hub with --allow-role-registry {}/{}, or {}",
            request.namespace,
            request.repository().escape_debug(),
            request.instead(aws::ROLE)
        )
    } else if connection.certificate_authority.is_some() {
        format!("{prefix}, which only trusts public certificates: remove spec.certSecretRef")
    } else {
        return Ok(());
    };
    Err(Failure::terminal(reason::UNSUPPORTED, message))
}

/// Returns whether the operator allowed the namespace to read this repository or a parent of it.
fn is_allowed(settings: &Settings, request: &LoginRequest<'_>) -> bool {
    let allowed = settings
        .role_registries
        .iter()
        .filter_map(|one| one.trim_end_matches('/').split_once('/'));
    let mut allowed = allowed.filter(|(namespace, _)| *namespace == request.namespace);
    allowed.any(|(_, repository)| {
        let rest = request.repository().strip_prefix(repository);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "012345678901.dkr.ecr.eu-west-1.amazonaws.com";

    fn request<'a>(namespace: &'a str, url: &'a str) -> LoginRequest<'a> {
        LoginRequest {
            namespace,
            cloud: "aws",
            url,
            account: Account::Never,
        }
    }

    #[test]
    fn the_installations_own_role() {
        let settings = Settings {
            role_registries: vec![
                format!("apps/{HOST}/charts"),
                "ops".to_owned(),
                format!("all/{HOST}/"),
            ],
            ..Settings::default()
        };
        let check = |namespace: &str, path: &str, connection: &Connection| {
            let url = format!("oci://{HOST}{path}");
            check_role(&settings, &request(namespace, &url), connection)
                .map_err(|failure| failure.message)
        };
        let connection = Connection::default();
        for (namespace, path) in [
            ("apps", "/charts"),
            ("apps", "/charts/"),
            ("apps", "/charts/web"),
            ("all", "/anything"),
        ] {
            assert_eq!(
                check(namespace, path, &connection),
                Ok(()),
                "{namespace}{path}"
            );
        }
        for (namespace, path) in [
            ("apps", ""),
            ("apps", "/charts-of-others"),
            ("apps", "/other/charts"),
            ("other", "/charts"),
            ("ops", "/charts"),
            ("", "/charts"),
        ] {
            let refused = check(namespace, path, &connection).unwrap_err();
            let flag = format!("--allow-role-registry {namespace}/{HOST}{path}, or");
            assert!(refused.contains(&flag), "{refused}");
        }
        let trusting = Connection {
            certificate_authority: Some(b"pem".to_vec()),
            ..Connection::default()
        };
        assert!(
            check("apps", "/charts", &trusting)
                .unwrap_err()
                .contains("certSecretRef")
        );
    }

    #[test]
    fn a_registry_url_is_split_into_host_and_repository() {
        let request = request("apps", "oci://ghcr.io/a/b/");
        assert_eq!(
            (request.host(), request.repository()),
            ("ghcr.io", "ghcr.io/a/b")
        );
    }
}
