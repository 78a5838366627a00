//! Roles of AWS.

use super::{Account, Exchange, fail, quoted};
use crate::failure::Failure;
use crate::ports::AwsIdentity;

/// Who accepts a service account's token for a role.
const AUDIENCE: &str = "sts.amazonaws.com";
/// Where a service account says which role it takes.
pub const ROLE: &str = "eks.amazonaws.com/role-arn";

/// The role of a service account, which AWS gives in a region to whoever has that account's token.
///
/// # Errors
/// The account names no role; the hub gives no token.
pub async fn identity(
    exchange: &Exchange<'_>,
    account: &Account,
    region: &str,
) -> Result<AwsIdentity, Failure> {
    let arn = account.annotation(ROLE);
    if !is_role(arn) {
        return Err(fail(
            account,
            format!(
                r"invalid {ROLE} annotation: '{}'. must match ^arn:aws[\w-]*:iam::[0-9]{{1,30}}:role/.{{1,200}}$",
                quoted(arn)
            ),
        ));
    }
    Ok(AwsIdentity::Role {
        arn: arn.to_owned(),
        session: session(&account.name, &account.namespace, region),
        token: exchange.token(account, AUDIENCE).await?,
    })
}

/// `arn:aws:iam::ACCOUNT:role/NAME`, in any partition.
fn is_role(arn: &str) -> bool {
    let parts: Vec<&str> = arn.splitn(6, ':').collect();
    let ["arn", partition, "iam", "", account, resource] = parts[..] else {
        return false;
    };
    let name = resource.strip_prefix("role/").unwrap_or_default();
    partition.starts_with("aws")
        && !account.is_empty()
        && account.bytes().all(|byte| byte.is_ascii_digit())
        && !name.is_empty()
        && name.len() <= 200
}

/// How Flux names the session; AWS takes 64 characters.
fn session(account: &str, namespace: &str, region: &str) -> String {
    let mut name = format!("{account}.{namespace}.{region}.fluxcd.io");
    name.truncate(64);
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arns_of_roles() {
        assert!(is_role("arn:aws:iam::012345678901:role/team/deployer"));
        for arn in [
            "",
            "deployer",
            "arn:aws:iam::1:user/ann",
            "arn:aws:iam::1:role/",
            "arn:aws:iam::a:role/b",
        ] {
            assert!(!is_role(arn), "{arn}");
        }
    }

    #[test]
    fn sessions() {
        assert_eq!(
            session("flux", "apps", "eu-west-1"),
            "flux.apps.eu-west-1.fluxcd.io"
        );
        assert_eq!(session(&"a".repeat(80), "apps", "eu-west-1").len(), 64);
    }
}
