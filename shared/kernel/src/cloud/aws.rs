//! AWS identities: roles that trust a service account's token.

use super::{Account, Exchange, fail, quoted};
use crate::failure::Failure;
use crate::ports::AwsIdentity;

/// The audience of a token for AWS.
const AUDIENCE: &str = "sts.amazonaws.com";
/// The annotation of a service account that names its AWS role.
pub const ROLE: &str = "eks.amazonaws.com/role-arn";

/// Returns the AWS role of a service account, with a token for it.
///
/// # Errors
/// The role annotation is missing or not valid; the hub refuses the token.
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

/// Returns whether this is `arn:aws:iam::ACCOUNT:role/NAME`, in any partition.
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

/// Returns Flux's name of the session, cut to the 64 characters that AWS accepts.
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
