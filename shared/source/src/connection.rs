//! Connections to the host of a chart, an artifact or a bucket: from Secrets, as source-controller
//! 1.9 reads them.

use crate::bucket_login;
use crate::cloud_login::{self, Account};
use crate::secret::{SourceSecret, certificates, not_found};
use driftless_flux::{Bucket, HelmRepository, LocalRef, OCIRepository, parse_duration, reason};
use driftless_kernel::cloud;
use driftless_kernel::context::Context;
use driftless_kernel::failure::Failure;
use driftless_kernel::failure::TargetError;
use driftless_kernel::hub::Settings;
use driftless_kernel::ports::{AwsIdentity, BucketAddress, BucketLogin, Connection, Secret};
use std::time::Duration;
use url::Url;

/// source-controller's default for `spec.timeout`.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum timeout of a request: a function has two minutes for a step.
const MAX_TIMEOUT: Duration = Duration::from_secs(90);

/// Returns the connection to a HelmRepository.
///
/// # Errors
/// A Secret or an entry of it is missing or not valid.
pub async fn of_repository(
    context: &Context<'_>,
    source: &HelmRepository,
) -> Result<Connection, Failure> {
    let spec = &source.spec;
    let mut connection = start(context, spec.timeout.as_deref())?;
    connection.pass_credentials = spec.pass_credentials;
    connection.insecure = spec.insecure;
    let namespace = &source.id.namespace;
    if let Some(reference) = &spec.secret_ref {
        let place = SourceSecret::find(context, namespace, &reference.name).await?;
        let place = place.ok_or_else(|| {
            denied(format!(
                "failed to get authentication secret {}",
                not_found(namespace, &reference.name)
            ))
        })?;
        let detect = |error| denied(format!("failed to detect authentication methods: {error}"));
        connection.login = place.login(&spec.url).map_err(detect)?;
        if spec.cert_secret_ref.is_none() {
            // Before certSecretRef existed, the certificates were in the same Secret.
            place.certificates(&mut connection, true).map_err(detect)?;
        }
    }
    if let Some(reference) = &spec.cert_secret_ref {
        let place = SourceSecret::find(context, namespace, &reference.name).await?;
        let place = place.ok_or_else(|| {
            denied(format!(
                "failed to get TLS authentication secret {}",
                not_found(namespace, &reference.name)
            ))
        })?;
        let read = place.certificates(&mut connection, false);
        read.map_err(|error| {
            denied(format!(
                "failed to construct Helm client's TLS config: {error}"
            ))
        })?;
    }
    if let Some(cloud) = source.cloud() {
        let request = cloud_login::LoginRequest {
            namespace,
            cloud,
            url: &spec.url,
            account: Account::Never,
        };
        let login = cloud_login::login(context, &request, &connection).await;
        connection.login = Some(login.map_err(|failure| {
            let prefix = "unable to get authentication data from OIDC";
            failure.during(reason::AUTHENTICATION_FAILED, prefix)
        })?);
    }
    Ok(connection)
}

/// Returns the connection to the registry of an OCIRepository: with its Secret or those of its
/// service account, or with its cloud identity if there is no Secret at all.
///
/// # Errors
/// The same as [`of_repository`]; or a cloud refuses the login.
pub async fn of_registry(
    context: &Context<'_>,
    source: &OCIRepository,
) -> Result<Connection, Failure> {
    let spec = &source.spec;
    let mut connection = start(context, spec.timeout.as_deref())?;
    connection.insecure = spec.insecure;
    let namespace = &source.id.namespace;
    let places = pull_secrets(context, source).await?;
    if let Some(reference) = &spec.secret_ref {
        let place = SourceSecret::find(context, namespace, &reference.name).await?;
        let prefix = "failed to get credential: ";
        let place = place.ok_or_else(|| {
            let message = not_found(namespace, &reference.name);
            denied(format!("{prefix}failed to get secret {message}"))
        })?;
        let login = place.registry_login(&spec.url);
        connection.login = login.map_err(|error| denied(format!("{prefix}{error}")))?;
    }
    for place in &places {
        if connection.login.is_none() {
            connection.login = place
                .pull_login(&spec.url)
                .map_err(|error| denied(format!("failed to get credential: {error}")))?;
        }
    }
    let reference = spec.proxy_secret_ref.as_ref();
    connection.proxy = proxy(context, namespace, reference, "failed to get proxy address").await?;
    let prefix = format!("failed to generate transport for '{}'", spec.url);
    let reference = spec.cert_secret_ref.as_ref();
    certificates(context, namespace, reference, &mut connection, &prefix).await?;
    let has_secrets = spec.secret_ref.is_some() || !places.is_empty();
    if let Some(cloud) = source.cloud().filter(|_| !has_secrets) {
        let request = cloud_login::LoginRequest {
            namespace,
            cloud,
            url: &spec.url,
            account: Account::Named(source.service_account()),
        };
        let login = cloud_login::login(context, &request, &connection).await;
        connection.login = Some(login.map_err(|failure| {
            let (reason, prefix) = first_request(source);
            failure.during(reason, prefix)
        })?);
    }
    Ok(connection)
}

/// Returns the reason and message prefix of source-controller's first request to a registry, which
/// is where its login fails.
fn first_request(source: &OCIRepository) -> (&'static str, String) {
    let reference = source.spec.reference.as_ref();
    match reference.is_some_and(|one| one.digest.is_empty() && !one.semver.is_empty()) {
        true => (
            reason::READ_FAILED,
            format!(
                "failed to determine the artifact tag for '{}'",
                source.spec.url
            ),
        ),
        false => (
            reason::OCI_PULL_FAILED,
            "failed to determine artifact digest".to_owned(),
        ),
    }
}

/// Returns the Secrets with registry logins of the service account of an OCIRepository.
async fn pull_secrets(
    context: &Context<'_>,
    source: &OCIRepository,
) -> Result<Vec<SourceSecret>, Failure> {
    let (namespace, name) = (&source.id.namespace, source.service_account());
    let fail = |reason: String| denied(format!("failed to get credential: {reason}"));
    let account = match cloud::find(&context.hub, namespace, name, None).await {
        Ok(None) => return Ok(Vec::new()),
        Ok(Some(account)) => account,
        Err(TargetError::Gone(_)) => {
            return Err(fail(format!(
                "serviceaccount '{namespace}/{name}' not found"
            )));
        }
        Err(TargetError::Failed(failure)) => return Err(failure),
    };
    let mut places = Vec::new();
    for name in account.pull_secrets() {
        let place = SourceSecret::find(context, namespace, name).await?;
        places.push(place.ok_or_else(|| {
            fail(format!(
                "failed to get image pull secret for serviceaccount '{}': secret '{namespace}/{name}' not found",
                account.qualified_name()
            ))
        })?);
    }
    Ok(places)
}

/// Returns the address of a Bucket, with its connection.
///
/// # Errors
/// The endpoint is not a host; or the same as [`of_repository`].
pub async fn of_bucket(context: &Context<'_>, source: &Bucket) -> Result<BucketAddress, Failure> {
    let spec = &source.spec;
    let mut connection = start(context, spec.timeout.as_deref())?;
    let namespace = &source.id.namespace;
    let mut secret = None;
    if let Some(reference) = &spec.secret_ref {
        let place = SourceSecret::find(context, namespace, &reference.name).await?;
        secret = Some(place.ok_or_else(|| {
            let message = not_found(namespace, &reference.name);
            denied(format!("failed to get secret {message}"))
        })?);
    }
    let reference = spec.proxy_secret_ref.as_ref();
    connection.proxy = proxy(context, namespace, reference, "failed to get proxy URL").await?;
    let provider = source.provider();
    let is_s3 = !matches!(provider, "gcp" | "azure");
    // As in Flux, the clients of the other clouds do not use the certificates.
    let reference = spec.cert_secret_ref.as_ref().filter(|_| is_s3);
    let prefix = "failed to get TLS config";
    certificates(context, namespace, reference, &mut connection, prefix).await?;
    let endpoint = match provider {
        "azure" => container_endpoint(&spec.endpoint)?,
        _ => endpoint(&spec.endpoint, spec.insecure)?,
    };
    let login = bucket_login::of(context, source, secret, &mut connection).await?;
    let address = BucketAddress {
        endpoint,
        name: spec.bucket_name.clone(),
        region: region(spec.region.as_deref())?,
        connection,
        login,
    };
    let role = AwsIdentity::Installation;
    if matches!(&address.login, BucketLogin::Aws { identity, .. } if *identity == role) {
        check_role(&context.hub.settings, namespace, &address)?;
    }
    Ok(address)
}

/// Checks the endpoint of Azure, which is a URL, and returns it without its query.
fn container_endpoint(text: &str) -> Result<String, Failure> {
    let url = Url::parse(text).ok().filter(|url| {
        let has_login = !url.username().is_empty() || url.password().is_some();
        matches!(url.scheme(), "http" | "https") && !has_login && url.fragment().is_none()
    });
    let bare = url.map(|mut url| {
        // It is part of the login, and so of no message.
        url.set_query(None);
        String::from(url)
    });
    bare.ok_or_else(|| {
        denied(
            "spec.endpoint: expected a URL, such as https://acme.blob.core.windows.net".to_owned(),
        )
    })
}

fn denied(message: String) -> Failure {
    Failure::retry(reason::AUTHENTICATION_FAILED, message)
}

/// Returns the address of the proxy of a `proxySecretRef`, if there is one. The message of a
/// failure begins with `prefix`.
///
/// # Errors
/// The Secret cannot be read, or has no valid address.
pub async fn proxy(
    context: &Context<'_>,
    namespace: &str,
    reference: Option<&LocalRef>,
    prefix: &str,
) -> Result<Option<Secret>, Failure> {
    let Some(LocalRef { name, .. }) = reference else {
        return Ok(None);
    };
    let proxy = match SourceSecret::find(context, namespace, name).await? {
        Some(place) => place.proxy(),
        None => Err(format!("secret '{namespace}/{name}' not found").into()),
    };
    proxy
        .map(Some)
        .map_err(|error| denied(format!("{prefix}: {error}")))
}

/// Checks a region's name, which may become part of a host name.
fn region(text: Option<&str>) -> Result<String, Failure> {
    let text = text.unwrap_or_default();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    match text.chars().all(fits) {
        true => Ok(text.to_owned()),
        false => Err(Failure::retry(
            reason::AUTHENTICATION_FAILED,
            "spec.region: expected letters, digits and '-', such as eu-west-1",
        )),
    }
}

/// Checks that the installation's own role may read the bucket: the operator named it, and the
/// requests go to AWS alone.
fn check_role(
    settings: &Settings,
    namespace: &str,
    address: &BucketAddress,
) -> Result<(), Failure> {
    let wanted = format!("{namespace}/{}", address.name);
    let prefix = "spec.provider 'aws' without spec.secretRef reads the bucket with this installation's own AWS role";
    let message = if !settings.role_buckets.contains(&wanted) {
        format!(
            "{prefix}, which is not allowed for this bucket: register the hub with --allow-role-bucket {wanted}, or name a Secret with \
             accesskey and secretkey"
        )
    } else if !is_aws(&address.endpoint) || address.connection.certificate_authority.is_some() {
        format!(
            "{prefix}, which is only used over TLS at Amazon's own endpoints (s3.REGION.amazonaws.com, no certSecretRef)"
        )
    } else {
        return Ok(());
    };
    Err(Failure::terminal(reason::UNSUPPORTED, message))
}

fn is_aws(endpoint: &str) -> bool {
    let host = endpoint.strip_prefix("https://").unwrap_or_default();
    let is_s3 = host.starts_with("s3.") || host.starts_with("s3-");
    is_s3 && (host.ends_with(".amazonaws.com") || host.ends_with(".amazonaws.com.cn"))
}

/// Returns the URL of a host that is given without `https://`.
fn endpoint(host: &str, insecure: bool) -> Result<String, Failure> {
    let scheme = if insecure { "http" } else { "https" };
    let bare = Url::parse(&format!("{scheme}://{host}"))
        .ok()
        .filter(|url| url.path() == "/" && url.username().is_empty() && url.password().is_none())
        .filter(|url| url.query().is_none() && url.fragment().is_none());
    match bare {
        Some(url) => Ok(url.as_str().trim_end_matches('/').to_owned()),
        None => Err(Failure::retry(
            reason::AUTHENTICATION_FAILED,
            "spec.endpoint: expected a host, such as s3.example.com or minio.example.com:9000",
        )),
    }
}

/// Returns a connection without credentials, for public repositories.
///
/// # Errors
/// Never, because the default timeout is valid.
pub fn anonymous(context: &Context<'_>) -> Result<Connection, Failure> {
    start(context, None)
}

fn start(context: &Context<'_>, timeout: Option<&str>) -> Result<Connection, Failure> {
    let timeout = timeout.map_or(Ok(TIMEOUT), parse_duration);
    let timeout = timeout.map_err(|error| {
        Failure::terminal(reason::URL_INVALID, format!("spec.timeout: {error}"))
    })?;
    Ok(Connection {
        allow_local: context.hub.settings.allow_local_clusters,
        timeout: timeout.min(MAX_TIMEOUT),
        ..Connection::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints() {
        for (host, insecure, address) in [
            ("s3.amazonaws.com", false, "https://s3.amazonaws.com"),
            (
                "minio.acme.example:9000",
                true,
                "http://minio.acme.example:9000",
            ),
            ("minio.acme.example/", false, "https://minio.acme.example"),
            ("[2001:db8::1]:9000", false, "https://[2001:db8::1]:9000"),
        ] {
            assert_eq!(endpoint(host, insecure).unwrap(), address);
        }
        for host in [
            "https://s3.acme.example",
            "s3.acme.example/a",
            "ann@s3.acme.example",
            "a?b",
            "a#b",
            "",
            "a b",
        ] {
            assert!(endpoint(host, false).is_err(), "{host}");
        }
        assert_eq!(region(Some("eu-west-1")).unwrap(), "eu-west-1");
        assert_eq!(region(None).unwrap(), "");
        for text in ["acme.example/", "a#", "a.b", "a@b", "ü"] {
            assert!(region(Some(text)).is_err(), "{text}");
        }
    }

    /// The role is for the buckets that the operator named, and its signatures are only sent to
    /// AWS.
    #[test]
    fn the_installations_own_role() {
        let settings = Settings {
            role_buckets: vec!["apps/acme-fleet".to_owned()],
            ..Settings::default()
        };
        let check = |namespace: &str, name: &str, endpoint: &str, ca: Option<&[u8]>| {
            let address = BucketAddress {
                endpoint: endpoint.to_owned(),
                name: name.to_owned(),
                connection: Connection {
                    certificate_authority: ca.map(<[u8]>::to_vec),
                    ..Connection::default()
                },
                ..BucketAddress::default()
            };
            check_role(&settings, namespace, &address).map_err(|failure| failure.message)
        };
        let aws = "https://s3.eu-west-1.amazonaws.com";
        assert_eq!(check("apps", "acme-fleet", aws, None), Ok(()));
        for (namespace, name) in [("other", "acme-fleet"), ("apps", "state")] {
            let refused = check(namespace, name, aws, None).unwrap_err();
            let flag = format!("--allow-role-bucket {namespace}/{name}");
            assert!(refused.contains(&flag), "{refused}");
        }
        for text in [
            "https://acme.blob.core.windows.net",
            "http://10.0.0.8:10000/acme?sv=1",
        ] {
            assert!(container_endpoint(text).is_ok(), "{text}");
        }
        for text in [
            "acme.blob.core.windows.net",
            "ftp://a.b.c",
            "https://ann@a.b.c",
            "https://a.b.c#d",
        ] {
            assert!(container_endpoint(text).is_err(), "{text}");
        }
        for endpoint in [
            "http://s3.eu-west-1.amazonaws.com",
            "https://s3.acme.example",
            "https://x.execute-api.eu-west-1.amazonaws.com",
            "https://s3.amazonaws.com.acme.example",
            "https://s3.amazonaws.com:8443",
        ] {
            assert!(
                check("apps", "acme-fleet", endpoint, None).is_err(),
                "{endpoint}"
            );
        }
        assert!(check("apps", "acme-fleet", aws, Some(b"pem")).is_err());
    }
}
