//! Secrets of sources: logins, access keys, certificates, proxies. The errors have the texts of
//! Flux's own reader (github.com/fluxcd/pkg/runtime/secrets 0.110), and never a byte of the Secret.

use driftless_flux::{Invalid, LocalRef, reason};
use driftless_kernel::address::authority;
use driftless_kernel::context::Context;
use driftless_kernel::credentials::{entry, secret};
use driftless_kernel::failure::Failure;
use driftless_kernel::ports::{Connection, Secret};
use driftless_manifest::Object;
use serde_json::Value;
use url::Url;

/// The first line of a certificate in PEM.
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----";
/// The URL schemes of proxies that Flux accepts.
const PROXY_SCHEMES: [&str; 3] = ["http", "https", "socks5"];
/// Maximum bytes of a proxy's address, as in Flux.
const MAX_PROXY_BYTES: usize = 2048;

/// A Secret, and its name for messages.
pub struct SourceSecret {
    /// The name for messages, `NAMESPACE/NAME`.
    name: String,
    secret: Object,
}

impl SourceSecret {
    /// Reads a Secret of a hub; returns `None` if it does not exist.
    ///
    /// # Errors
    /// An error of the cluster.
    pub async fn find(
        context: &Context<'_>,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Self>, Failure> {
        let found = secret(&context.hub, namespace, name).await?;
        Ok(found.map(|secret| Self {
            name: format!("{namespace}/{name}"),
            secret,
        }))
    }

    fn fail(&self, problem: &str) -> Invalid {
        format!("secret '{}'{problem}", self.name).into()
    }

    /// Returns the login for the host of `url`: user and password, or the entry of a
    /// `.dockerconfigjson`.
    pub(crate) fn login(&self, url: &str) -> Result<Option<(String, Secret)>, Invalid> {
        if let Some(config) = entry(&self.secret, ".dockerconfigjson") {
            return match self.docker_login(&config, url)? {
                Some(login) => Ok(Some(login)),
                None => Err(format!(
                    "no auth config for '{}' in the docker-registry Secret '{}'",
                    authority(url),
                    self.secret.name()
                )
                .into()),
            };
        }
        self.user()
    }

    /// Returns the login like [`login`](Self::login), but without an error if a `.dockerconfigjson`
    /// has no entry for the host.
    pub(crate) fn registry_login(&self, url: &str) -> Result<Option<(String, Secret)>, Invalid> {
        match entry(&self.secret, ".dockerconfigjson") {
            Some(config) => self.docker_login(&config, url),
            None => self.user(),
        }
    }

    fn user(&self) -> Result<Option<(String, Secret)>, Invalid> {
        let username = entry(&self.secret, "username");
        let username = username.and_then(|text| text.expose_str().map(str::to_owned));
        let half = |has: &str, misses: &str| {
            let problem = format!(": malformed basic auth - has '{has}' but missing '{misses}'");
            Err(self.fail(&problem))
        };
        match (username, entry(&self.secret, "password")) {
            (Some(username), Some(password)) => Ok(Some((username, password))),
            (None, None) => Ok(None),
            (Some(_), None) => half("username", "password"),
            (None, Some(_)) => half("password", "username"),
        }
    }

    /// Returns the name of the Secret, for messages.
    pub(crate) fn name(&self) -> &str {
        self.secret.name()
    }

    /// Returns the value of an entry.
    pub(crate) fn entry(&self, name: &str) -> Option<Secret> {
        entry(&self.secret, name)
    }

    /// Returns the id and the secret of an access key.
    pub(crate) fn access_key(&self) -> Result<(String, Secret), Invalid> {
        let id = entry(&self.secret, "accesskey");
        let id = id.and_then(|id| id.expose_str().map(str::to_owned));
        match (id, entry(&self.secret, "secretkey")) {
            (Some(id), Some(secret)) if !id.is_empty() && !secret.expose().is_empty() => {
                Ok((id, secret))
            }
            _ => Err(format!(
                "invalid '{}' secret data: required fields 'accesskey' and 'secretkey'",
                self.secret.name()
            )
            .into()),
        }
    }

    /// Returns the login of a service account's Secret, which may be for other registries.
    pub(crate) fn pull_login(&self, url: &str) -> Result<Option<(String, Secret)>, Invalid> {
        match entry(&self.secret, ".dockerconfigjson") {
            Some(config) => self.docker_login(&config, url),
            None => Ok(None),
        }
    }

    /// Returns the login of a `.dockerconfigjson` for the host of `url`, if it has one.
    fn docker_login(
        &self,
        config: &Secret,
        url: &str,
    ) -> Result<Option<(String, Secret)>, Invalid> {
        use base64::{Engine as _, engine::general_purpose::STANDARD};
        let broken = || self.fail(": .dockerconfigjson: expected {\"auths\": {HOST: {...}}}");
        let config: Value = serde_json::from_slice(config.expose()).map_err(|_| broken())?;
        let auths = config
            .get("auths")
            .and_then(Value::as_object)
            .ok_or_else(broken)?;
        let same_host = auths
            .iter()
            .filter(|(name, _)| authority(name) == authority(url));
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

    /// Sets the certificates of a connection from `ca.crt`, `tls.crt` and `tls.key`; in older
    /// Secrets `caFile`, `certFile` and `keyFile`. A Secret without any is accepted if `optional`
    /// is true.
    ///
    /// # Errors
    /// A message that names the Secret: an entry is missing or not valid.
    pub fn certificates(&self, connection: &mut Connection, optional: bool) -> Result<(), Invalid> {
        let either =
            |new: &str, old: &str| entry(&self.secret, new).or_else(|| entry(&self.secret, old));
        let authority = either("ca.crt", "caFile");
        let pair = (either("tls.crt", "certFile"), either("tls.key", "keyFile"));
        let none = authority.is_none() && pair.0.is_none() && pair.1.is_none();
        if none && !optional {
            let problem = " must contain either 'ca.crt' or both 'tls.crt' and 'tls.key'";
            return Err(self.fail(problem));
        }
        let is_pem = |pem: &Secret| {
            let begin = CERTIFICATE.as_bytes();
            pem.expose().windows(begin.len()).any(|text| text == begin)
        };
        if authority.as_ref().is_some_and(|pem| !is_pem(pem)) {
            return Err("failed to parse CA certificate".into());
        }
        connection.certificate_authority = authority.map(|pem| pem.expose().to_vec());
        let half = |has: &str, misses: &str| {
            Err(self.fail(&format!(" contains '{has}' but missing '{misses}'")))
        };
        connection.client_certificate = match pair {
            (Some(certificate), Some(key)) => Some((certificate.expose().to_vec(), key)),
            (None, None) => None,
            (Some(_), None) => return half("tls.crt", "tls.key"),
            (None, Some(_)) => return half("tls.key", "tls.crt"),
        };
        Ok(())
    }

    /// Returns the address of a proxy with its user: the entry `address`, with the optional entries
    /// `username` and `password`, which override a user in the address.
    pub(crate) fn proxy(&self) -> Result<Secret, Invalid> {
        let text = |key: &str| entry(&self.secret, key)?.expose_str().map(str::to_owned);
        let proxy = proxy_of(text("address"), text("username"), text("password"));
        proxy.map_err(|error| self.fail(&format!(": {error}")))
    }
}

/// Sets the certificates of a `certSecretRef`, if there is one. The message of a failure begins
/// with `prefix`.
///
/// # Errors
/// The Secret cannot be read, or an entry of it is missing or not valid.
pub async fn certificates(
    context: &Context<'_>,
    namespace: &str,
    reference: Option<&LocalRef>,
    connection: &mut Connection,
    prefix: &str,
) -> Result<(), Failure> {
    let Some(LocalRef { name, .. }) = reference else {
        return Ok(());
    };
    let read = match SourceSecret::find(context, namespace, name).await? {
        Some(place) => place.certificates(connection, false),
        None => Err(format!("secret '{namespace}/{name}' not found").into()),
    };
    read.map_err(|error| {
        Failure::retry(reason::AUTHENTICATION_FAILED, format!("{prefix}: {error}"))
    })
}

/// Returns Flux's message for a missing Secret.
pub(super) fn not_found(namespace: &str, name: &str) -> String {
    format!("'{namespace}/{name}': secrets \"{name}\" not found")
}

/// Returns how many bytes of the path of `url` the name of a login matches: the login with the
/// longest match is used.
fn nearness(name: &str, url: &str) -> usize {
    let path = |text: &str| {
        let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
        let (_, path) = rest.split_once('/').unwrap_or_default();
        match path.trim_end_matches('/') {
            // A version of the registry's API is not part of the path.
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

fn proxy_of(
    address: Option<String>,
    username: Option<String>,
    password: Option<String>,
) -> Result<Secret, Invalid> {
    let address = address.ok_or("key 'address' not found")?;
    if address.is_empty() {
        return Err("proxy address is empty".into());
    }
    if address.len() > MAX_PROXY_BYTES {
        return Err(
            format!("proxy URL exceeds maximum length of {MAX_PROXY_BYTES} characters").into(),
        );
    }
    // The parser's message names no part of the address, which may hold a password.
    let mut url = Url::parse(&address)
        .map_err(|error| Invalid::from(format!("failed to parse proxy address: {error}")))?;
    if !PROXY_SCHEMES.contains(&url.scheme()) {
        return Err(format!(
            "proxy URL must use one of the supported schemes ({}), got '{}'",
            PROXY_SCHEMES.join(", "),
            url.scheme()
        )
        .into());
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err("proxy address has no host".into());
    }
    if let Some(username) = username {
        let is_set = url
            .set_username(&username)
            .and_then(|()| url.set_password(password.as_deref()));
        is_set.map_err(|()| "proxy address can have no user".to_owned())?;
    }
    Ok(Secret::new(url.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use serde_json::json;

    fn place(entries: &[(&str, &str)]) -> SourceSecret {
        let data = entries
            .iter()
            .map(|(key, text)| (*key, STANDARD.encode(text)));
        let data: std::collections::BTreeMap<_, _> = data.collect();
        SourceSecret {
            name: "apps/login".into(),
            secret: Object::new(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "data": data}))
                .unwrap(),
        }
    }

    type Login = Result<Option<(String, String)>, Invalid>;

    fn plain(login: Result<Option<(String, Secret)>, Invalid>) -> Login {
        let plain =
            |(user, password): (String, Secret)| (user, password.expose_str().unwrap().to_owned());
        login.map(|login| login.map(plain))
    }

    fn login(entries: &[(&str, &str)]) -> Login {
        plain(place(entries).login("oci://ghcr.io/acme/charts"))
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
            Err(
                "secret 'apps/login': malformed basic auth - has 'username' but missing 'password'"
                    .into()
            )
        );
        let elsewhere = [(".dockerconfigjson", r#"{"auths": {"docker.io": {}}}"#)];
        let error = "no auth config for 'ghcr.io' in the docker-registry Secret 'login'";
        assert_eq!(login(&elsewhere), Err(error.into()));
        // A public repository is read without a login.
        let registry = place(&elsewhere).registry_login("oci://ghcr.io/acme/charts");
        assert_eq!(plain(registry), Ok(None));
    }

    #[test]
    fn access_keys() {
        let key = |entries: &[(&str, &str)]| {
            let key = place(entries).access_key();
            key.map(|(id, secret)| (id, secret.expose_str().unwrap().to_owned()))
        };
        assert_eq!(
            key(&[("accesskey", "AK"), ("secretkey", "SK")]),
            Ok(("AK".to_owned(), "SK".to_owned()))
        );
        for entries in [&[("accesskey", "AK")][..], &[("secretkey", "SK")], &[]] {
            assert_eq!(
                key(entries).unwrap_err(),
                "invalid 'login' secret data: required fields 'accesskey' and 'secretkey'".into()
            );
        }
    }

    #[test]
    fn proxies() {
        let of = |address: &str, user: Option<&str>, password: Option<&str>| {
            let user = user.map(str::to_owned);
            let password = password.map(str::to_owned);
            let proxy = proxy_of(Some(address.to_owned()), user, password)?;
            Ok::<_, Invalid>(proxy.expose_str().unwrap().to_owned())
        };
        let plain = "http://proxy.example.com:3128";
        assert_eq!(of(plain, None, None).unwrap(), format!("{plain}/"));
        let named = "http://ann:p%40@proxy.example.com:3128/";
        assert_eq!(of(plain, Some("ann"), Some("p@")).unwrap(), named);
        let own = "https://bob:canary@proxy.example.com/";
        assert_eq!(of(own, None, None).unwrap(), own);
        let without = "https://ann@proxy.example.com/";
        assert_eq!(of(own, Some("ann"), None).unwrap(), without);
        for (address, error) in [
            ("", "proxy address is empty"),
            (
                "ftp://u:canary@a",
                "proxy URL must use one of the supported schemes (http, https, socks5), got 'ftp'",
            ),
            (
                "http://u:canary@a b",
                "failed to parse proxy address: invalid international domain name",
            ),
        ] {
            assert_eq!(of(address, None, None).unwrap_err(), error.into());
        }
        assert!(of(&format!("http://{}", "a".repeat(2048)), None, None).is_err());
        assert_eq!(
            proxy_of(None, None, None).unwrap_err(),
            "key 'address' not found".into()
        );
    }

    #[test]
    fn certificates() {
        let mut connection = Connection::default();
        let authority = format!("# ours\n{CERTIFICATE}\n...");
        let whole = [
            ("caFile", authority.as_str()),
            ("tls.crt", "cert"),
            ("tls.key", "key"),
        ];
        place(&whole).certificates(&mut connection, false).unwrap();
        assert_eq!(
            connection.certificate_authority.as_deref(),
            Some(authority.as_bytes())
        );
        assert!(connection.client_certificate.is_some());
        for (entries, error) in [
            (
                &[("tls.crt", "cert")][..],
                "secret 'apps/login' contains 'tls.crt' but missing 'tls.key'",
            ),
            (
                &[("tls.key", "key")],
                "secret 'apps/login' contains 'tls.key' but missing 'tls.crt'",
            ),
            (&[("ca.crt", "nonsense")], "failed to parse CA certificate"),
            (
                &[],
                "secret 'apps/login' must contain either 'ca.crt' or both 'tls.crt' and 'tls.key'",
            ),
        ] {
            let refused = place(entries).certificates(&mut Connection::default(), false);
            assert_eq!(refused.unwrap_err().to_string(), error);
        }
        assert!(place(&[]).certificates(&mut connection, true).is_ok());
    }
}
