//! How to talk to the host of a chart or an artifact: from Secrets, as source-controller 1.9 reads them.

use crate::cloud;
use crate::failure::Failure;
use crate::flux::{Bucket, HelmRepository, LocalRef, OCIRepository, parse_duration, reason};
use crate::hub::Settings;
use crate::ports::{BucketAddress, Connection, Secret};
use crate::source::cloud_login::{self, Account};
use crate::source::credentials::{entry, secret};
use crate::step::Context;
use crate::target::NoTarget;
use driftless_manifest::Object;
use serde_json::Value;
use std::time::Duration;
use url::Url;

/// source-controller's default for `spec.timeout`.
const TIMEOUT: Duration = Duration::from_secs(60);
/// A function has two minutes for a step.
const LONGEST: Duration = Duration::from_secs(90);

/// How to talk to a HelmRepository.
///
/// # Errors
/// A Secret is missing, or has not what it should have.
pub async fn of_repository(
    context: &Context<'_>,
    source: &HelmRepository,
) -> Result<Connection, Failure> {
    let spec = &source.spec;
    let mut how = start(context, spec.timeout.as_deref())?;
    how.pass_credentials = spec.pass_credentials;
    how.insecure = spec.insecure;
    let namespace = &source.id.namespace;
    if let Some(reference) = &spec.secret_ref {
        let place =
            Place::read(context, namespace, &reference.name, "authentication secret").await?;
        how.login = place.login(&spec.url)?;
        if spec.cert_secret_ref.is_none() {
            // Before certSecretRef, the certificates stood in the same Secret.
            place.certificates(&mut how, true)?;
        }
    }
    certificates(context, namespace, spec.cert_secret_ref.as_ref(), &mut how).await?;
    if let Some(cloud) = source.cloud() {
        let asked = cloud_login::Asked {
            namespace,
            cloud,
            url: &spec.url,
            account: Account::Never,
        };
        let login = cloud_login::login(context, &asked, &how).await;
        how.login = Some(login.map_err(|failure| {
            let lead = "unable to get authentication data from OIDC";
            failure.tried(reason::AUTHENTICATION_FAILED, lead)
        })?);
    }
    Ok(how)
}

/// How to talk to the registry of an OCIRepository: with its Secret, and with those of its service account; as its cloud
/// identity where there is no Secret at all.
///
/// # Errors
/// As [`of_repository`]; a cloud gives no login.
pub async fn of_registry(
    context: &Context<'_>,
    source: &OCIRepository,
) -> Result<Connection, Failure> {
    let spec = &source.spec;
    let mut how = start(context, spec.timeout.as_deref())?;
    how.insecure = spec.insecure;
    let namespace = &source.id.namespace;
    let places = pull_secrets(context, source).await?;
    if let Some(reference) = &spec.secret_ref {
        let place = Place::read(context, namespace, &reference.name, "registry secret").await?;
        how.login = place.login(&spec.url)?;
    }
    for place in &places {
        if how.login.is_none() {
            how.login = place.pull_login(&spec.url)?;
        }
    }
    certificates(context, namespace, spec.cert_secret_ref.as_ref(), &mut how).await?;
    let has_secrets = spec.secret_ref.is_some() || !places.is_empty();
    if let Some(cloud) = source.cloud().filter(|_| !has_secrets) {
        let asked = cloud_login::Asked {
            namespace,
            cloud,
            url: &spec.url,
            account: Account::Named(source.service_account()),
        };
        let login = cloud_login::login(context, &asked, &how).await;
        how.login = Some(login.map_err(|failure| {
            let (reason, lead) = first_question(source);
            failure.tried(reason, lead)
        })?);
    }
    Ok(how)
}

/// What source-controller asks a registry first: it logs in there, and tells a failure so.
fn first_question(source: &OCIRepository) -> (&'static str, String) {
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

/// The Secrets that the service account of an OCIRepository has for registries.
async fn pull_secrets(
    context: &Context<'_>,
    source: &OCIRepository,
) -> Result<Vec<Place>, Failure> {
    let (namespace, name) = (&source.id.namespace, source.service_account());
    let fail = |what: String| {
        let what = format!("failed to get credential: {what}");
        Failure::retry(reason::AUTHENTICATION_FAILED, what)
    };
    let account = match cloud::find(&context.hub, namespace, name, None).await {
        Ok(None) => return Ok(Vec::new()),
        Ok(Some(account)) => account,
        Err(NoTarget::Gone(_)) => {
            return Err(fail(format!(
                "serviceaccount '{namespace}/{name}' not found"
            )));
        }
        Err(NoTarget::Failed(failure)) => return Err(failure),
    };
    let mut places = Vec::new();
    for name in account.pull_secrets() {
        let secret = secret(&context.hub, namespace, name).await?;
        let secret = secret.ok_or_else(|| {
            fail(format!(
                "failed to get image pull secret for serviceaccount '{}': secret '{namespace}/{name}' not found",
                account.shown()
            ))
        })?;
        places.push(Place {
            name: format!("Secret/{namespace}/{name}"),
            secret,
        });
    }
    Ok(places)
}

/// The address of a Bucket, and how to talk to it.
///
/// # Errors
/// An endpoint that is no host; as [`of_repository`].
pub async fn of_bucket(context: &Context<'_>, source: &Bucket) -> Result<BucketAddress, Failure> {
    let spec = &source.spec;
    let mut how = start(context, spec.timeout.as_deref())?;
    let namespace = &source.id.namespace;
    if let Some(reference) = &spec.secret_ref {
        let place = Place::read(context, namespace, &reference.name, "secret").await?;
        how.login = Some(place.access_key()?);
    }
    certificates(context, namespace, spec.cert_secret_ref.as_ref(), &mut how).await?;
    let address = BucketAddress {
        endpoint: endpoint(&spec.endpoint, spec.insecure)?,
        name: spec.bucket_name.clone(),
        region: region(spec.region.as_deref())?,
        how,
        as_installation: source.wants_role(),
    };
    if address.as_installation {
        check_role(&context.hub.settings, namespace, &address)?;
    }
    Ok(address)
}

/// Takes the certificates of a `certSecretRef`, if there is one.
async fn certificates(
    context: &Context<'_>,
    namespace: &str,
    reference: Option<&LocalRef>,
    how: &mut Connection,
) -> Result<(), Failure> {
    let Some(reference) = reference else {
        return Ok(());
    };
    let what = "TLS authentication secret";
    let place = Place::read(context, namespace, &reference.name, what).await?;
    place.certificates(how, false)
}

/// A region's name. It may become part of a host's.
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

/// The installation's own role reads what its operator named, and shows itself to AWS alone.
fn check_role(
    settings: &Settings,
    namespace: &str,
    address: &BucketAddress,
) -> Result<(), Failure> {
    let wanted = format!("{namespace}/{}", address.name);
    let lead = "spec.provider 'aws' without spec.secretRef reads the bucket with this installation's own AWS role";
    let what = if !settings.role_buckets.contains(&wanted) {
        format!(
            "{lead}, which is not allowed for this one: register the hub with --allow-role-bucket {wanted}, or name a Secret with \
             accesskey and secretkey"
        )
    } else if !is_aws(&address.endpoint) || address.how.certificate_authority.is_some() {
        format!(
            "{lead}, which is used over TLS at Amazon's own endpoints alone (s3.REGION.amazonaws.com, no certSecretRef)"
        )
    } else {
        return Ok(());
    };
    Err(Failure::terminal(reason::UNSUPPORTED, what))
}

fn is_aws(endpoint: &str) -> bool {
    let host = endpoint.strip_prefix("https://").unwrap_or_default();
    let is_s3 = host.starts_with("s3.") || host.starts_with("s3-");
    is_s3 && (host.ends_with(".amazonaws.com") || host.ends_with(".amazonaws.com.cn"))
}

/// The address of a host that is given without `https://`.
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

/// Without credentials: what everybody may read.
///
/// # Errors
/// None that depends on the caller.
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
        timeout: timeout.min(LONGEST),
        ..Connection::default()
    })
}

/// A Secret, and how messages name it.
struct Place {
    name: String,
    secret: Object,
}

impl Place {
    async fn read(
        context: &Context<'_>,
        namespace: &str,
        name: &str,
        what: &str,
    ) -> Result<Self, Failure> {
        match secret(&context.hub, namespace, name).await? {
            Some(secret) => Ok(Self {
                name: format!("Secret/{namespace}/{name}"),
                secret,
            }),
            None => Err(Failure::retry(
                reason::AUTHENTICATION_FAILED,
                format!("failed to get {what} '{namespace}/{name}': secrets \"{name}\" not found"),
            )),
        }
    }

    fn fail(&self, what: &str) -> Failure {
        Failure::retry(
            reason::AUTHENTICATION_FAILED,
            format!("{}: {what}", self.name),
        )
    }

    fn login(&self, url: &str) -> Result<Option<(String, Secret)>, Failure> {
        if let Some(config) = entry(&self.secret, ".dockerconfigjson") {
            return self.docker_login(&config, url);
        }
        let text = |key: &str| {
            let value = entry(&self.secret, key)?;
            value.expose_str().map(str::to_owned)
        };
        match (text("username"), entry(&self.secret, "password")) {
            (Some(username), Some(password)) => Ok(Some((username, password))),
            (None, None) => Ok(None),
            _ => Err(self.fail("expected both username and password")),
        }
    }

    /// An access key's id and its secret.
    fn access_key(&self) -> Result<(String, Secret), Failure> {
        let id = entry(&self.secret, "accesskey");
        let id = id.and_then(|id| id.expose_str().map(str::to_owned));
        match (id, entry(&self.secret, "secretkey")) {
            (Some(id), Some(secret)) if !id.is_empty() && !secret.expose().is_empty() => {
                Ok((id, secret))
            }
            _ => Err(Failure::retry(
                reason::AUTHENTICATION_FAILED,
                format!(
                    "invalid '{}' secret data: required fields 'accesskey' and 'secretkey'",
                    self.secret.name()
                ),
            )),
        }
    }

    /// The login of a service account's Secret, which may be for other registries.
    fn pull_login(&self, url: &str) -> Result<Option<(String, Secret)>, Failure> {
        match entry(&self.secret, ".dockerconfigjson") {
            Some(config) => self.docker_entry(&config, url),
            None => Ok(None),
        }
    }

    /// The entry of a `.dockerconfigjson` for the host of `url`.
    fn docker_login(
        &self,
        config: &Secret,
        url: &str,
    ) -> Result<Option<(String, Secret)>, Failure> {
        let login = self.docker_entry(config, url)?;
        let missing = || {
            self.fail(&format!(
                ".dockerconfigjson: no login for '{}'",
                host_of(url)
            ))
        };
        login.map(Some).ok_or_else(missing)
    }

    fn docker_entry(
        &self,
        config: &Secret,
        url: &str,
    ) -> Result<Option<(String, Secret)>, Failure> {
        use base64::{Engine as _, engine::general_purpose::STANDARD};
        let broken = || self.fail(".dockerconfigjson: expected {\"auths\": {HOST: {...}}}");
        let config: Value = serde_json::from_slice(config.expose()).map_err(|_| broken())?;
        let auths = config
            .get("auths")
            .and_then(Value::as_object)
            .ok_or_else(broken)?;
        let same_host = auths
            .iter()
            .filter(|(name, _)| host_of(name) == host_of(url));
        let Some((_, found)) = same_host.max_by_key(|(name, _)| nearness(name, url)) else {
            return Ok(None);
        };
        let text = |key: &str| found.get(key).and_then(Value::as_str);
        if let (Some(username), Some(password)) = (text("username"), text("password")) {
            let password = Secret::new(password.to_owned().into_bytes());
            return Ok(Some((username.to_owned(), password)));
        }
        let pair = text("auth").and_then(|auth| STANDARD.decode(auth).ok());
        let pair = pair.and_then(|pair| String::from_utf8(pair).ok());
        let (username, password) = pair
            .as_deref()
            .and_then(|pair| pair.split_once(':'))
            .ok_or_else(broken)?;
        let password = Secret::new(password.to_owned().into_bytes());
        Ok(Some((username.to_owned(), password)))
    }

    /// `ca.crt`, `tls.crt` and `tls.key`; of older Secrets `caFile`, `certFile` and `keyFile`.
    fn certificates(&self, how: &mut Connection, optional: bool) -> Result<(), Failure> {
        let either =
            |new: &str, old: &str| entry(&self.secret, new).or_else(|| entry(&self.secret, old));
        let authority = either("ca.crt", "caFile");
        let pair = (either("tls.crt", "certFile"), either("tls.key", "keyFile"));
        let none = authority.is_none() && pair.0.is_none() && pair.1.is_none();
        if none && !optional {
            return Err(self.fail("has neither ca.crt nor tls.crt and tls.key"));
        }
        how.certificate_authority = authority.map(|pem| pem.expose().to_vec());
        how.client_certificate = match pair {
            (Some(certificate), Some(key)) => Some((certificate.expose().to_vec(), key)),
            (None, None) => None,
            _ => return Err(self.fail("expected both tls.crt and tls.key")),
        };
        Ok(())
    }
}

/// The host of an address, with its port: `oci://ghcr.io/a/b` and `https://ghcr.io/v1/` are both `ghcr.io`.
fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or_default()
}

/// How much of an address behind its host stands in the name of a login: the one that has the most is meant for it.
fn nearness(name: &str, url: &str) -> usize {
    let path = |text: &str| {
        let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
        let (_, path) = rest.split_once('/').unwrap_or_default();
        match path.trim_end_matches('/') {
            // A version of the registry's API is no part of it.
            "" | "v1" | "v2" => "/".to_owned(),
            path => format!("/{path}/"),
        }
    };
    let name = path(name);
    match path(url).starts_with(&name) {
        true => name.len(),
        false => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use serde_json::json;

    fn place(entries: &[(&str, &str)]) -> Place {
        let data = entries
            .iter()
            .map(|(key, text)| (*key, STANDARD.encode(text)));
        let data: std::collections::BTreeMap<_, _> = data.collect();
        Place {
            name: "Secret/apps/login".into(),
            secret: Object::new(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "data": data}))
                .unwrap(),
        }
    }

    fn login(entries: &[(&str, &str)]) -> Result<Option<(String, String)>, String> {
        let login = place(entries).login("oci://ghcr.io/acme/charts");
        let plain =
            |(user, password): (String, Secret)| (user, password.expose_str().unwrap().to_owned());
        login
            .map(|login| login.map(plain))
            .map_err(|failure| failure.message)
    }

    #[test]
    fn logins() {
        let ann = Ok(Some(("ann".to_owned(), "pw".to_owned())));
        assert_eq!(login(&[("username", "ann"), ("password", "pw")]), ann);
        let docker = r#"{"auths": {"https://ghcr.io/v1/": {"username": "ann", "password": "pw"}, "other": {}}}"#;
        assert_eq!(login(&[(".dockerconfigjson", docker)]), ann);
        let docker = format!(
            r#"{{"auths": {{"ghcr.io": {{"auth": "{}"}}}}}}"#,
            STANDARD.encode("ann:pw")
        );
        assert_eq!(login(&[(".dockerconfigjson", &docker)]), ann);
        let docker = r#"{"auths": {"https://ghcr.io/v2/": {}, "ghcr.io/acme": {"username": "ann", "password": "pw"}, "ghcr.io/other": {}}}"#;
        assert_eq!(login(&[(".dockerconfigjson", docker)]), ann);
        assert_eq!(login(&[("ca.crt", "pem")]), Ok(None));
        assert_eq!(
            login(&[("username", "ann")]),
            Err("Secret/apps/login: expected both username and password".to_owned())
        );
        assert_eq!(
            login(&[(".dockerconfigjson", r#"{"auths": {"docker.io": {}}}"#)]),
            Err("Secret/apps/login: .dockerconfigjson: no login for 'ghcr.io'".to_owned())
        );
    }

    #[test]
    fn access_keys() {
        let key = |entries: &[(&str, &str)]| {
            let key = place(entries).access_key();
            key.map(|(id, secret)| (id, secret.expose_str().unwrap().to_owned()))
                .map_err(|failure| failure.message)
        };
        assert_eq!(
            key(&[("accesskey", "AK"), ("secretkey", "SK")]),
            Ok(("AK".to_owned(), "SK".to_owned()))
        );
        for entries in [&[("accesskey", "AK")][..], &[("secretkey", "SK")], &[]] {
            assert_eq!(
                key(entries).unwrap_err(),
                "invalid 'login' secret data: required fields 'accesskey' and 'secretkey'"
            );
        }
    }

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

    /// The role is for what the operator named, and nobody else gets to see what it signs.
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
                how: Connection {
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

    #[test]
    fn certificates() {
        let mut how = Connection::default();
        place(&[("caFile", "ca"), ("tls.crt", "cert"), ("tls.key", "key")])
            .certificates(&mut how, false)
            .unwrap();
        assert_eq!(how.certificate_authority.as_deref(), Some(&b"ca"[..]));
        assert!(how.client_certificate.is_some());
        let half = place(&[("tls.crt", "cert")]).certificates(&mut how, false);
        assert!(
            half.unwrap_err()
                .message
                .contains("both tls.crt and tls.key")
        );
        assert!(place(&[]).certificates(&mut how, false).is_err());
        assert!(place(&[]).certificates(&mut how, true).is_ok());
    }
}
