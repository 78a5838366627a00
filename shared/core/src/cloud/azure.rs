//! Applications of Microsoft Entra ID.

use super::{Account, Exchange, fail, quoted};
use crate::failure::Failure;
use crate::ports::EntraIdentity;

/// Who accepts a service account's token for an application.
const AUDIENCE: &str = "api://AzureADTokenExchange";
/// Where a service account says which application it is, and of which tenant.
pub const CLIENT: &str = "azure.workload.identity/client-id";
const TENANT: &str = "azure.workload.identity/tenant-id";

/// The application of a service account, which trusts whoever has that account's token.
///
/// # Errors
/// The account names no application; the hub gives no token.
pub async fn identity(
    exchange: &Exchange<'_>,
    account: &Account,
) -> Result<EntraIdentity, Failure> {
    let annotation = |name: &str, what: &str| match account.annotation(name) {
        "" => {
            let what =
                format!("azure {what} ID is not set in the service account annotation {name}");
            Err(fail(account, what))
        }
        text => Ok(text),
    };
    let (tenant, client) = (annotation(TENANT, "tenant")?, annotation(CLIENT, "client")?);
    if !is_tenant(tenant) {
        let what = format!(
            "invalid {TENANT} annotation: '{}'. expected letters, digits, '-' and '.'",
            quoted(tenant)
        );
        return Err(fail(account, what));
    }
    Ok(EntraIdentity {
        tenant: tenant.to_owned(),
        client: client.to_owned(),
        token: exchange.token(account, AUDIENCE).await?,
    })
}

/// An id or a domain, which becomes part of a path.
fn is_tenant(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    text.len() <= 253 && text.bytes().all(fits) && !text.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::is_tenant;

    #[test]
    fn tenants() {
        assert!(is_tenant("00000000-0000-0000-0000-000000000001") && is_tenant("acme.example"));
        for text in ["../common", "a/b", "a?b", "..", "a b"] {
            assert!(!is_tenant(text), "{text}");
        }
    }
}
