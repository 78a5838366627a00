//! Microsoft Entra ID identities: applications that trust a service account's token.

use super::{Account, Exchange, fail, quoted};
use crate::failure::Failure;
use crate::ports::{EntraIdentity, EntraProof};

/// The audience of a token for Entra ID.
const AUDIENCE: &str = "api://AzureADTokenExchange";
/// The annotation of a service account that names its application's client ID. Another one names
/// the tenant.
pub const CLIENT: &str = "azure.workload.identity/client-id";
const TENANT: &str = "azure.workload.identity/tenant-id";

/// Returns the application of a service account, with a token for it.
///
/// # Errors
/// An annotation is missing or not valid; the hub refuses the token.
pub async fn identity(
    exchange: &Exchange<'_>,
    account: &Account,
) -> Result<EntraIdentity, Failure> {
    let annotation = |name: &str, kind: &str| match account.annotation(name) {
        "" => {
            let message =
                format!("azure {kind} ID is not set in the service account annotation {name}");
            Err(fail(account, message))
        }
        text => Ok(text),
    };
    let (tenant, client) = (annotation(TENANT, "tenant")?, annotation(CLIENT, "client")?);
    if !is_tenant(tenant) {
        let message = format!(
            "invalid {TENANT} annotation: '{}'. expected letters, digits, '-' and '.'",
            quoted(tenant)
        );
        return Err(fail(account, message));
    }
    Ok(EntraIdentity {
        tenant: tenant.to_owned(),
        client: client.to_owned(),
        proof: EntraProof::Token(exchange.token(account, AUDIENCE).await?),
    })
}

/// Returns whether this is a tenant's id or domain, which becomes part of a URL's path.
pub fn is_tenant(text: &str) -> bool {
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
