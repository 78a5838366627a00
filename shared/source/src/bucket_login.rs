//! Logins to buckets, as source-controller 1.10 finds them: the Secret of the object, the cloud
//! identity of its service account, or a service that issues temporary credentials.

use crate::cloud_login;
use crate::secret::{SourceSecret, certificates, not_found};
use driftless_flux::{Bucket, BucketSpec, BucketSts, Invalid, reason};
use driftless_kernel::cloud::google::KeyProblem;
use driftless_kernel::cloud::{self, Exchange, aws, azure, google};
use driftless_kernel::context::Context;
use driftless_kernel::failure::{Failure, TargetError};
use driftless_kernel::ports::{
    AwsIdentity, AzureBucketLogin, BucketLogin, Connection, EntraIdentity, EntraProof, GoogleLogin,
    LdapLogin, Secret,
};
use url::Url;

/// The entry of a Secret with the key of a Google service account.
const GOOGLE_KEY: &str = "serviceaccount";
/// The region of the STS, where neither the object nor its endpoint names one.
const DEFAULT_REGION: &str = "us-east-1";

/// Returns the login of a Bucket; `secret` is that of `spec.secretRef`, and the connection gets the
/// access key of S3.
///
/// # Errors
/// The Secret has other entries; the service account or its annotations are missing or not valid;
/// `spec.sts` does not fit the provider.
pub(super) async fn of(
    context: &Context<'_>,
    source: &Bucket,
    secret: Option<SourceSecret>,
    connection: &mut Connection,
) -> Result<BucketLogin, Failure> {
    match source.provider() {
        "gcp" => of_google(context, source, secret).await,
        "azure" => of_azure(context, source, secret).await,
        provider => of_s3(context, source, provider, secret, connection).await,
    }
}

async fn of_s3(
    context: &Context<'_>,
    source: &Bucket,
    provider: &str,
    secret: Option<SourceSecret>,
    connection: &mut Connection,
) -> Result<BucketLogin, Failure> {
    if let Some(secret) = &secret {
        connection.login = Some(secret.access_key().map_err(denied)?);
    }
    let sts = source.spec.sts.as_ref();
    if let Some(sts) = sts {
        check_sts(provider, sts)?;
    }
    let ldap = match sts.filter(|sts| sts.provider == "ldap") {
        Some(sts) => Some(of_ldap(context, source, sts, connection).await?),
        None => None,
    };
    if secret.is_some() {
        return Ok(BucketLogin::AccessKey);
    }
    if let Some(ldap) = ldap {
        return Ok(BucketLogin::Ldap(Box::new(ldap)));
    }
    if provider != "aws" {
        return Ok(BucketLogin::AccessKey);
    }
    let sts = sts.map(|sts| sts.endpoint.clone());
    let Some(account) = account(context, source).await? else {
        return Ok(BucketLogin::Aws {
            identity: AwsIdentity::Installation,
            sts,
        });
    };
    let region = region_of(&source.spec);
    let identity = aws::identity(
        &Exchange::new(context.ports, &context.hub),
        &account,
        &region,
    )
    .await;
    Ok(BucketLogin::Aws {
        identity: identity.map_err(|failure| {
            failure.during(reason::AUTHENTICATION_FAILED, "AWS authentication failed")
        })?,
        sts,
    })
}

async fn of_google(
    context: &Context<'_>,
    source: &Bucket,
    secret: Option<SourceSecret>,
) -> Result<BucketLogin, Failure> {
    if let Some(secret) = secret {
        let invalid = |problem: String| {
            denied(format!(
                "invalid '{}' secret data: {problem}",
                secret.name()
            ))
        };
        let key = secret.entry(GOOGLE_KEY);
        let key = key.ok_or_else(|| invalid(format!("required fields '{GOOGLE_KEY}'")))?;
        let login = google::service_account_key(&key).map_err(|problem| {
            invalid(match problem {
                KeyProblem::Syntax => format!("failed to parse '{GOOGLE_KEY}' as JSON"),
                KeyProblem::Type => format!(
                    "'{GOOGLE_KEY}' must contain a service account key with 'type' set to 'service_account'"
                ),
                other => format!("'{GOOGLE_KEY}' {other}"),
            })
        })?;
        return Ok(BucketLogin::Google(login));
    }
    let account = required_account(context, source, google::PROVIDER, GOOGLE_KEY).await?;
    let identity = google::identity(&Exchange::new(context.ports, &context.hub), &account).await;
    let identity = identity.map_err(|failure| unconfirmed(source, failure))?;
    Ok(BucketLogin::Google(GoogleLogin::Principal(identity)))
}

async fn of_azure(
    context: &Context<'_>,
    source: &Bucket,
    secret: Option<SourceSecret>,
) -> Result<BucketLogin, Failure> {
    let endpoint = &source.spec.endpoint;
    let login = match secret {
        Some(secret) => azure_secret(&secret, endpoint)?,
        None => {
            let entries = "accountKey, sasKey, or tenantId, clientId and clientSecret";
            let account = required_account(context, source, azure::CLIENT, entries).await?;
            let identity =
                azure::identity(&Exchange::new(context.ports, &context.hub), &account).await;
            AzureBucketLogin::Entra(identity.map_err(|failure| unconfirmed(source, failure))?)
        }
    };
    if endpoint.contains('?') && !matches!(login, AzureBucketLogin::Sas(_)) {
        return Err(denied(
            "spec.endpoint: a query is only supported with the entry sasKey of the Secret"
                .to_owned(),
        ));
    }
    Ok(BucketLogin::Azure(login))
}

/// Returns a failed login at Google's or Microsoft's cloud as Flux reports it, which logs in for
/// the first request.
fn unconfirmed(source: &Bucket, failure: Failure) -> Failure {
    let name = &source.spec.bucket_name;
    let prefix = format!("failed to confirm existence of '{name}' bucket");
    failure.during(reason::BUCKET_FAILED, prefix)
}

/// Reads the login of a Secret in the order of source-controller: an application, the account's
/// key, a shared access signature.
fn azure_secret(secret: &SourceSecret, endpoint: &str) -> Result<AzureBucketLogin, Failure> {
    let entry = |name: &str| {
        secret
            .entry(name)
            .filter(|value| !value.expose().is_empty())
    };
    let text = |name: &str| entry(name).and_then(|value| value.expose_str().map(str::to_owned));
    let unsupported = |field: &str| {
        let message = format!(
            "the entry '{field}' of the secret '{}' is not supported yet: use accountKey, sasKey, or tenantId, clientId and \
             clientSecret; or spec.serviceAccountName without spec.secretRef",
            secret.name()
        );
        Failure::terminal(reason::UNSUPPORTED, message)
    };
    if let Some(client) = text("clientId") {
        let Some(tenant) = text("tenantId") else {
            let message = format!(
                "the secret '{}' has clientId without tenantId, which in Flux selects a managed identity of the machine: driftless has \
                 none. Set spec.serviceAccountName, or add tenantId and clientSecret",
                secret.name()
            );
            return Err(Failure::terminal(reason::UNSUPPORTED, message));
        };
        if !azure::is_tenant(&tenant) {
            return Err(denied(format!(
                "failed to create token credential from '{}' Secret: invalid tenantId: expected letters, digits, '-' and '.'",
                secret.name()
            )));
        }
        return match entry("clientSecret") {
            _ if entry("authorityHost").is_some() => Err(unsupported("authorityHost")),
            Some(proof) => Ok(AzureBucketLogin::Entra(EntraIdentity {
                tenant,
                client,
                proof: EntraProof::ClientSecret(proof),
            })),
            None if entry("clientCertificate").is_some() => Err(unsupported("clientCertificate")),
            None => Err(unsupported("clientId without clientSecret")),
        };
    }
    if let Some(key) = entry("accountKey") {
        let account = account_name(endpoint).map_err(|problem| {
            denied(format!(
                "failed to create shared credential from '{}' Secret data: failed to extract account name from endpoint: {problem}",
                secret.name()
            ))
        })?;
        return Ok(AzureBucketLogin::AccountKey { account, key });
    }
    match entry("sasKey") {
        Some(query) => Ok(AzureBucketLogin::Sas(merged(endpoint, &query))),
        None => Err(denied(format!(
            "invalid '{}' secret data: requires a 'clientId' or 'accountKey' field, a combination of 'tenantId', 'clientId' and \
             'clientSecret', or 'tenantId', 'clientId' and 'clientCertificate'",
            secret.name()
        ))),
    }
}

/// Returns a shared access signature with the query of the endpoint, as source-controller does:
/// parameters of the signature win.
fn merged(endpoint: &str, signature: &Secret) -> Secret {
    let signature = signature.expose_str().unwrap_or_default().trim();
    let signature = signature.strip_prefix('?').unwrap_or(signature);
    match endpoint.split_once('?') {
        Some((_, query)) => Secret::new(format!("{query}&{signature}")),
        None => Secret::new(signature.to_owned()),
    }
}

/// Returns the name of the storage account: the first label of the endpoint's host.
fn account_name(endpoint: &str) -> Result<String, Invalid> {
    let url = Url::parse(endpoint).map_err(Invalid::new)?;
    let host = url.host_str().unwrap_or_default();
    match host.split('.').collect::<Vec<_>>().as_slice() {
        [name, _, _, ..] => Ok((*name).to_owned()),
        _ => Err(format!("expected '{host}' to be a subdomain").into()),
    }
}

/// Checks that the service of temporary credentials fits the provider, as source-controller does.
fn check_sts(provider: &str, sts: &BucketSts) -> Result<(), Failure> {
    let invalid = |message: String| Failure::terminal(reason::INVALID_STS, message);
    let unneeded = |field: &str| {
        let name = &sts.provider;
        invalid(format!(
            "spec.sts.{field} is not required for the '{name}' STS provider"
        ))
    };
    match (provider, sts.provider.as_str()) {
        ("aws", "aws") if sts.secret_ref.is_some() => Err(unneeded("secretRef")),
        ("aws", "aws") if sts.cert_secret_ref.is_some() => Err(unneeded("certSecretRef")),
        ("aws", "aws") if !is_aws_sts(&sts.endpoint) => Err(denied(format!(
            "AWS authentication failed: invalid STS endpoint: '{}'. must match \
             ^https://(.+\\.)?sts(-fips)?(\\.[^.]+)?(\\.vpce)?\\.amazonaws\\.com$",
            sts.endpoint.escape_debug()
        ))),
        ("aws", "aws") | ("generic", "ldap") => Ok(()),
        (_, other) => Err(invalid(format!(
            "STS provider '{}' is not supported for '{provider}' bucket provider",
            other.escape_debug()
        ))),
    }
}

/// Returns whether an address is an STS of Amazon, which a token of a service account may be sent
/// to: `https://[NAME.]sts[-fips][.REGION][.vpce].amazonaws.com`.
fn is_aws_sts(endpoint: &str) -> bool {
    let host = endpoint.strip_prefix("https://");
    let Some(name) = host.and_then(|host| host.strip_suffix(".amazonaws.com")) else {
        return false;
    };
    let is_label = |label: &str| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !label.is_empty() && label.bytes().all(fits)
    };
    let labels: Vec<&str> = name.split('.').collect();
    let labels = match labels.as_slice() {
        [rest @ .., "vpce"] => rest,
        all => all,
    };
    let is_sts = |label: &str| matches!(label, "sts" | "sts-fips");
    labels.iter().all(|label| is_label(label))
        && match labels {
            [.., service] if is_sts(service) => true,
            [.., service, _] => is_sts(service),
            _ => false,
        }
}

/// Returns the login of the user of LDAP that `spec.sts` names.
async fn of_ldap(
    context: &Context<'_>,
    source: &Bucket,
    sts: &BucketSts,
    storage: &Connection,
) -> Result<LdapLogin, Failure> {
    let namespace = &source.id.namespace;
    let url = Url::parse(&sts.endpoint).map_err(|error| {
        let endpoint = sts.endpoint.escape_debug();
        let message = format!("failed to parse STS endpoint '{endpoint}': {error}");
        Failure::terminal(reason::URL_INVALID, message)
    })?;
    if !matches!(url.scheme(), "http" | "https") {
        let message = "spec.sts.endpoint: expected a URL with https:// or http://";
        return Err(Failure::terminal(reason::URL_INVALID, message));
    }
    let (user, password) = match &sts.secret_ref {
        None => (String::new(), Secret::new(Vec::new())),
        Some(reference) => {
            let secret = SourceSecret::find(context, namespace, &reference.name).await?;
            let secret = secret.ok_or_else(|| {
                let message = not_found(namespace, &reference.name);
                denied(format!("failed to get STS secret {message}"))
            })?;
            let filled = |name: &str| secret.entry(name).filter(|one| !one.expose().is_empty());
            let user = filled("username").and_then(|one| one.expose_str().map(str::to_owned));
            match (user, filled("password")) {
                (Some(user), Some(password)) => (user, password),
                _ => {
                    return Err(denied(format!(
                        "invalid '{}' secret data for 'ldap' STS provider: required fields username, password",
                        secret.name()
                    )));
                }
            }
        }
    };
    let mut connection = Connection {
        login: None,
        certificate_authority: None,
        client_certificate: None,
        ..storage.clone()
    };
    let reference = sts.cert_secret_ref.as_ref();
    let prefix = "failed to get STS TLS config";
    certificates(context, namespace, reference, &mut connection, prefix).await?;
    Ok(LdapLogin {
        endpoint: sts.endpoint.clone(),
        user,
        password,
        connection,
    })
}

/// Returns the service account of the object, else the operator's default one.
async fn account(
    context: &Context<'_>,
    source: &Bucket,
) -> Result<Option<cloud::Account>, Failure> {
    let own = source
        .spec
        .service_account_name
        .as_deref()
        .unwrap_or_default();
    let found = cloud_login::account(context, &source.id.namespace, own).await;
    found.map_err(|error| match error {
        TargetError::Gone(failure) => Failure {
            reason: reason::AUTHENTICATION_FAILED,
            ..failure
        },
        TargetError::Failed(failure) => failure,
    })
}

/// Returns the service account of the object; an error without one, because the installation has
/// only an identity on AWS.
async fn required_account(
    context: &Context<'_>,
    source: &Bucket,
    annotation: &str,
    entries: &str,
) -> Result<cloud::Account, Failure> {
    if let Some(account) = account(context, source).await? {
        return Ok(account);
    }
    let message = format!(
        "spec.provider '{}' without a service account is not supported: driftless has no controller identity in this cloud to fall \
         back to: name a service account with the annotation {annotation} (spec.serviceAccountName), or name a Secret with {entries} \
         (spec.secretRef)",
        source.provider()
    );
    Err(Failure::terminal(reason::UNSUPPORTED, message))
}

/// Returns the region of a bucket, for the STS: that of the object, else that of an endpoint such
/// as `s3.eu-west-1.amazonaws.com`.
fn region_of(spec: &BucketSpec) -> String {
    let given = spec.region.as_deref().unwrap_or_default();
    if !given.is_empty() {
        return given.to_owned();
    }
    let name = spec.endpoint.strip_suffix(".amazonaws.com");
    let region = name.and_then(|name| name.split_once("s3."));
    region
        .map_or(DEFAULT_REGION, |(_, region)| region)
        .to_owned()
}

fn denied(message: impl std::fmt::Display) -> Failure {
    Failure::retry(reason::AUTHENTICATION_FAILED, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_of_amazon_alone_get_tokens() {
        for endpoint in [
            "https://sts.amazonaws.com",
            "https://sts.eu-west-1.amazonaws.com",
            "https://sts-fips.us-east-1.amazonaws.com",
            "https://vpce-1-2.sts.eu-west-1.vpce.amazonaws.com",
        ] {
            assert!(is_aws_sts(endpoint), "{endpoint}");
        }
        for endpoint in [
            "http://sts.amazonaws.com",
            "https://evil.example/.sts.amazonaws.com",
            "https://evil.example#.sts.amazonaws.com",
            "https://evil.example?sts.amazonaws.com",
            "https://ann@sts.amazonaws.com",
            "https://sts.amazonaws.com/",
            "https://sts.amazonaws.com.evil.example",
            "https://s3.amazonaws.com",
            "https://amazonaws.com",
            "https://sts.a.b.amazonaws.com",
        ] {
            assert!(!is_aws_sts(endpoint), "{endpoint}");
        }
    }

    #[test]
    fn a_signature_has_the_query_of_the_endpoint() {
        let of = |endpoint: &str| {
            let found = merged(endpoint, &Secret::new("?sv=1&sig=a\n"));
            found.expose_str().unwrap_or_default().to_owned()
        };
        assert_eq!(of("https://acme.blob.core.windows.net"), "sv=1&sig=a");
        assert_eq!(of("https://a.b.c/?sv=0&x=y"), "sv=0&x=y&sv=1&sig=a");
    }

    #[test]
    fn accounts_of_azure() {
        let name = |endpoint| account_name(endpoint);
        assert_eq!(name("https://acme.blob.core.windows.net").unwrap(), "acme");
        assert_eq!(
            name("https://acme.example").unwrap_err().to_string(),
            "expected 'acme.example' to be a subdomain"
        );
    }

    #[test]
    fn regions() {
        let region = |region: Option<&str>, endpoint: &str| {
            region_of(&BucketSpec {
                region: region.map(str::to_owned),
                endpoint: endpoint.to_owned(),
                ..Default::default()
            })
        };
        assert_eq!(region(Some("eu-west-3"), "s3.amazonaws.com"), "eu-west-3");
        assert_eq!(region(None, "s3.eu-west-1.amazonaws.com"), "eu-west-1");
        assert_eq!(region(None, "s3.amazonaws.com"), "us-east-1");
        assert_eq!(region(None, "minio.acme.example"), "us-east-1");
    }

    #[test]
    fn the_service_of_credentials_fits_the_provider() {
        let sts = |provider: &str, endpoint: &str| BucketSts {
            provider: provider.to_owned(),
            endpoint: endpoint.to_owned(),
            ..BucketSts::default()
        };
        let aws = "https://sts.eu-west-1.amazonaws.com";
        assert!(check_sts("aws", &sts("aws", aws)).is_ok());
        assert!(check_sts("generic", &sts("ldap", "https://sts.acme.example")).is_ok());
        for (bucket, service, expected) in [
            (
                "aws",
                "ldap",
                "STS provider 'ldap' is not supported for 'aws' bucket provider",
            ),
            (
                "generic",
                "aws",
                "STS provider 'aws' is not supported for 'generic' bucket provider",
            ),
        ] {
            let failure = check_sts(bucket, &sts(service, aws)).unwrap_err();
            assert_eq!(
                (failure.reason, failure.message.as_str()),
                ("InvalidSTSConfiguration", expected)
            );
        }
        let wrong = check_sts("aws", &sts("aws", "https://sts.acme.example")).unwrap_err();
        assert!(
            wrong.message.contains("invalid STS endpoint"),
            "{}",
            wrong.message
        );
    }
}
