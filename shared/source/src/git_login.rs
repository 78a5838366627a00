//! Logins to Git repositories of clouds (`spec.provider`), as source-controller 1.9 gets them: as a
//! service account of the source's namespace.

use crate::cloud_login;
use driftless_flux::{GitRepository, reason};
use driftless_kernel::cloud::{self, Exchange, aws, azure};
use driftless_kernel::context::Context;
use driftless_kernel::failure::Failure;
use driftless_kernel::ports::{CodeCommit, GitAuth};

/// Flux's message prefix for a failed login.
const FAILED: &str = "failed to configure authentication options";

/// Returns the login for the repository of a source with a cloud as its provider; `None` with
/// another provider.
///
/// # Errors
/// The repository is not one of the cloud's; the service account or its identity is missing; the
/// cloud refuses it.
pub(super) async fn login(
    context: &Context<'_>,
    source: &GitRepository,
) -> Result<Option<GitAuth>, Failure> {
    let found = match source.spec.provider.as_deref() {
        Some("azure") => azure_devops(context, source).await,
        Some("aws") => code_commit(context, source).await,
        None | Some("generic" | "github" | "") => return Ok(None),
        Some(other) => {
            let message = format!("provider '{}' not implemented", other.escape_debug());
            Err(Failure::terminal(reason::UNSUPPORTED, message))
        }
    };
    let found = found.map_err(|failure| failure.during(reason::AUTHENTICATION_FAILED, FAILED));
    found.map(Some)
}

async fn azure_devops(context: &Context<'_>, source: &GitRepository) -> Result<GitAuth, Failure> {
    // Flux sends the token to any host.
    if !is_azure_devops(&source.spec.url) {
        let message = "invalid Azure DevOps URL: expected https://dev.azure.com/… or https://NAME.visualstudio.com/…";
        return Err(Failure::retry(reason::FAILED, message));
    }
    let account = account(context, source, azure::CLIENT).await?;
    let identity = azure::identity(&Exchange::new(context.ports, &context.hub), &account).await?;
    let now = context.ports.clock.now();
    let token = context.ports.clouds.azure.git(&identity, now).await;
    let prefix = || cloud::token_error_prefix(&account);
    let token = token.map_err(|error| Failure::port(reason::FAILED, &error).context(prefix()))?;
    Ok(GitAuth::Bearer(token.secret))
}

async fn code_commit(context: &Context<'_>, source: &GitRepository) -> Result<GitAuth, Failure> {
    let Some(repository) = CodeCommit::parse(&source.spec.url) else {
        let message = "invalid AWS CodeCommit Git URL: expected https://git-codecommit.REGION.amazonaws.com/v1/repos/NAME";
        return Err(Failure::retry(reason::FAILED, message));
    };
    let account = account(context, source, aws::ROLE).await?;
    let identity = aws::identity(
        &Exchange::new(context.ports, &context.hub),
        &account,
        &repository.region,
    )
    .await?;
    let now = context.ports.clock.now();
    let login = context.ports.clouds.aws.git(&repository, &identity, now);
    let prefix = || cloud::token_error_prefix(&account);
    let login = login.await;
    let login = login.map_err(|error| Failure::port(reason::FAILED, &error).context(prefix()))?;
    Ok(GitAuth::Basic {
        username: login.user,
        password: login.password,
    })
}

/// Returns the service account that the source names, else the operator's default one.
async fn account(
    context: &Context<'_>,
    source: &GitRepository,
    annotation: &str,
) -> Result<cloud::Account, Failure> {
    let own = source
        .spec
        .service_account_name
        .as_deref()
        .unwrap_or_default();
    let found = cloud_login::account(context, &source.id.namespace, own).await?;
    found.ok_or_else(|| {
        let provider = source.spec.provider.as_deref().unwrap_or_default();
        let message = format!(
            "spec.provider '{provider}' without a service account is not supported: driftless has no controller identity to fall back to. \
             Name a service account with the annotation {annotation} (spec.serviceAccountName), or a Secret with a login (spec.secretRef)"
        );
        Failure::terminal(reason::UNSUPPORTED, message)
    })
}

/// Returns whether a URL is one of Azure DevOps.
fn is_azure_devops(url: &str) -> bool {
    let host = url
        .strip_prefix("https://")
        .and_then(|rest| rest.split_once('/'));
    let host = host
        .map(|(host, _)| host.to_lowercase())
        .unwrap_or_default();
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let name = host.strip_suffix(".visualstudio.com");
    host == "dev.azure.com" || name.is_some_and(|name| !name.is_empty() && name.bytes().all(fits))
}

#[cfg(test)]
mod tests {
    use super::is_azure_devops;

    #[test]
    fn hosts_of_azure_devops() {
        for url in [
            "https://dev.azure.com/acme/project/_git/fleet",
            "https://acme.visualstudio.com/project/_git/fleet",
        ] {
            assert!(is_azure_devops(url), "{url}");
        }
        for url in [
            "http://dev.azure.com/acme/project/_git/fleet",
            "https://dev.azure.com.evil.example/acme",
            "https://dev.azure.com:8443/acme",
            "https://evil.example#.visualstudio.com/acme",
            "https://acme@dev.azure.com/acme",
            "https://.visualstudio.com/acme",
        ] {
            assert!(!is_azure_devops(url), "{url}");
        }
    }
}
