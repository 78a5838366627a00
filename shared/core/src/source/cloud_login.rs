//! The login of a registry that a cloud runs (`spec.provider`), as source-controller 1.9 gets it.

use crate::cloud::{self, Exchange, aws, azure, google};
use crate::failure::Failure;
use crate::flux::reason;
use crate::hub::Settings;
use crate::kernel::Context;
use crate::ports::{
    AcrRegistry, AwsIdentity, Connection, EcrRegistry, PortError, RegistryLogin, Secret,
    is_google_registry,
};

/// What a login is asked for, in Flux's words.
const TOKEN: &str = "failed to get access token for artifact registry";
/// The user of whoever logs in to a registry of Google's with a token.
const GOOGLE_USER: &str = "oauth2accesstoken";

/// Who wants to log in where.
pub(super) struct LoginRequest<'a> {
    /// The object's namespace.
    pub namespace: &'a str,
    /// `aws`, `azure`, `gcp`.
    pub cloud: &'a str,
    /// `oci://HOST/PATH`.
    pub url: &'a str,
    /// Whose identity is taken.
    pub account: Account<'a>,
}

/// Whose identity a source takes.
#[derive(Clone, Copy)]
pub(super) enum Account<'a> {
    /// The service account's of this name, else the operator's default one's, else the installation's own.
    Named(&'a str),
    /// The installation's own: the object's kind has no field for a service account.
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

    /// What to do where the installation's identity is not taken.
    fn instead(&self, annotation: &str) -> String {
        let account = match self.account {
            Account::Named(_) => format!(
                "name a service account with the annotation {annotation} (spec.serviceAccountName)"
            ),
            Account::Never => "use an OCIRepository, which has a serviceAccountName".to_owned(),
        };
        format!("{account}, or name a Secret with a login (spec.secretRef)")
    }

    /// The service account whose identity is taken; none: the installation's.
    async fn account(&self, context: &Context<'_>) -> Result<Option<cloud::Account>, Failure> {
        let Account::Named(own) = self.account else {
            return Ok(None);
        };
        let default = context
            .hub
            .settings
            .default_source_service_account
            .as_deref();
        let found = cloud::find(&context.hub, self.namespace, own, default).await;
        found.map_err(|none| none.context(TOKEN).into())
    }
}

/// User and password of a registry, for the identity that an object takes.
///
/// # Errors
/// The registry is not one of the cloud's; no identity, or one that the cloud does not know; the installation's own role was not
/// allowed for this registry.
pub(super) async fn login(
    context: &Context<'_>,
    asked: &LoginRequest<'_>,
    how: &Connection,
) -> Result<(String, Secret), Failure> {
    let RegistryLogin { user, password } = match asked.cloud {
        "aws" => ecr(context, asked, how).await?,
        "azure" => acr(context, asked, how).await?,
        "gcp" => google(context, asked, how).await?,
        other => {
            let what = format!("provider '{}' not implemented", other.escape_debug());
            return Err(Failure::retry(reason::FAILED, what));
        }
    };
    Ok((user, password))
}

async fn ecr(
    context: &Context<'_>,
    asked: &LoginRequest<'_>,
    how: &Connection,
) -> Result<RegistryLogin, Failure> {
    let Some(registry) = EcrRegistry::parse(asked.host()) else {
        let form = r"([0-9+]*).dkr[.-]ecr(?:-fips)?\.([^/.]*)\.(amazonaws\.com[.cn]*|amazonaws\.eu|sc2s\.sgov\.gov|c2s\.ic\.gov|cloud\.adc-e\.uk|csp\.hci\.ic\.gov|on\.aws)";
        return Err(invalid("AWS", asked.host(), form));
    };
    check_tls(how)?;
    let identity = match asked.account(context).await? {
        Some(account) => aws::identity(&exchange(context), &account, registry.region())
            .await
            .map_err(|failure| failure.context(TOKEN))?,
        None => {
            check_role(&context.hub.settings, asked, how)?;
            AwsIdentity::Installation
        }
    };
    let now = context.ports.clock.now();
    let given = context.ports.clouds.aws.registry(&registry, &identity, now);
    given.await.map_err(|error| not_given(&error))
}

async fn acr(
    context: &Context<'_>,
    asked: &LoginRequest<'_>,
    how: &Connection,
) -> Result<RegistryLogin, Failure> {
    let Some(registry) = AcrRegistry::parse(asked.host()) else {
        let form = r"^.+\.(azurecr\.io|azurecr\.cn|azurecr\.de|azurecr\.us)$";
        return Err(invalid("Azure", asked.host(), form));
    };
    check_tls(how)?;
    let account = needed_account(context, asked, azure::CLIENT).await?;
    let identity = azure::identity(&exchange(context), &account).await;
    let identity = identity.map_err(|failure| failure.context(TOKEN))?;
    let now = context.ports.clock.now();
    let given = context
        .ports
        .clouds
        .azure
        .registry(&registry, &identity, now);
    given.await.map_err(|error| not_given(&error))
}

async fn google(
    context: &Context<'_>,
    asked: &LoginRequest<'_>,
    how: &Connection,
) -> Result<RegistryLogin, Failure> {
    if !is_google_registry(asked.host()) {
        let form = r"^(((.+\.)?gcr\.io)|(.+-docker\.pkg\.dev)|(docker\.s3nsregistry\.fr))$";
        return Err(invalid("GCP", asked.host(), form));
    }
    check_tls(how)?;
    let account = needed_account(context, asked, google::PROVIDER).await?;
    let identity = google::identity(&exchange(context), &account).await;
    let identity = identity.map_err(|failure| failure.context(TOKEN))?;
    let now = context.ports.clock.now();
    let given = context.ports.clouds.google.token(&identity, now);
    let token = given.await.map_err(|error| not_given(&error))?;
    Ok(RegistryLogin {
        user: GOOGLE_USER.to_owned(),
        password: token.secret,
    })
}

/// The service account whose identity is taken, where the installation has none of its own: it is on AWS.
async fn needed_account(
    context: &Context<'_>,
    asked: &LoginRequest<'_>,
    annotation: &str,
) -> Result<cloud::Account, Failure> {
    if let Some(account) = asked.account(context).await? {
        return Ok(account);
    }
    let (cloud, instead) = (asked.cloud, asked.instead(annotation));
    let what = format!(
        "spec.provider '{cloud}' without a service account is not supported: the controller's own identity in the cloud, which Flux \
         takes then, is not there with driftless: {instead}"
    );
    Err(Failure::terminal(reason::UNSUPPORTED, what))
}

fn not_given(error: &PortError) -> Failure {
    let lead = "failed to create artifact registry credentials";
    Failure::port(reason::FAILED, error).context(lead)
}

fn exchange<'a>(context: &'a Context<'_>) -> Exchange<'a> {
    Exchange {
        ports: context.ports,
        hub: &context.hub,
        audiences: Vec::new(),
    }
}

fn invalid(cloud: &str, host: &str, form: &str) -> Failure {
    let host = host.escape_debug();
    let what = format!("invalid {cloud} registry: '{host}'. must match {form}");
    Failure::retry(reason::FAILED, what)
}

/// A login of a cloud opens more than one repository: nobody on the way gets to see it.
fn check_tls(how: &Connection) -> Result<(), Failure> {
    match how.insecure {
        false => Ok(()),
        true => Err(Failure::terminal(
            reason::UNSUPPORTED,
            "spec.insecure with a cloud's login is not supported: its registries speak TLS. Remove the field",
        )),
    }
}

/// The installation's own role reads what its operator named, and trusts Amazon alone to be that.
fn check_role(
    settings: &Settings,
    asked: &LoginRequest<'_>,
    how: &Connection,
) -> Result<(), Failure> {
    let lead = "spec.provider 'aws' without a service account reads the registry with this installation's own AWS role";
    let what = if !is_allowed(settings, asked) {
        format!(
            "{lead}, which is not allowed for this one: register the hub with --allow-role-registry {}/{}, or {}",
            asked.namespace,
            asked.repository().escape_debug(),
            asked.instead(aws::ROLE)
        )
    } else if how.certificate_authority.is_some() {
        format!("{lead}, which trusts public certificates alone: remove spec.certSecretRef")
    } else {
        return Ok(());
    };
    Err(Failure::terminal(reason::UNSUPPORTED, what))
}

/// Whether a repository is one that its namespace may read, or below one.
fn is_allowed(settings: &Settings, asked: &LoginRequest<'_>) -> bool {
    let allowed = settings
        .role_registries
        .iter()
        .filter_map(|one| one.trim_end_matches('/').split_once('/'));
    let mut allowed = allowed.filter(|(namespace, _)| *namespace == asked.namespace);
    allowed.any(|(_, repository)| {
        let rest = asked.repository().strip_prefix(repository);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "012345678901.dkr.ecr.eu-west-1.amazonaws.com";

    fn asked<'a>(namespace: &'a str, url: &'a str) -> LoginRequest<'a> {
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
        let check = |namespace: &str, path: &str, how: &Connection| {
            let url = format!("oci://{HOST}{path}");
            check_role(&settings, &asked(namespace, &url), how).map_err(|failure| failure.message)
        };
        let how = Connection::default();
        for (namespace, path) in [
            ("apps", "/charts"),
            ("apps", "/charts/"),
            ("apps", "/charts/web"),
            ("all", "/anything"),
        ] {
            assert_eq!(check(namespace, path, &how), Ok(()), "{namespace}{path}");
        }
        for (namespace, path) in [
            ("apps", ""),
            ("apps", "/charts-of-others"),
            ("apps", "/other/charts"),
            ("other", "/charts"),
            ("ops", "/charts"),
            ("", "/charts"),
        ] {
            let told = check(namespace, path, &how).unwrap_err();
            let flag = format!("--allow-role-registry {namespace}/{HOST}{path}, or");
            assert!(told.contains(&flag), "{told}");
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
    fn places() {
        let asked = asked("apps", "oci://ghcr.io/a/b/");
        assert_eq!(
            (asked.host(), asked.repository()),
            ("ghcr.io", "ghcr.io/a/b")
        );
    }
}
