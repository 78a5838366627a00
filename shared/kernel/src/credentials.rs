//! The credentials of a source, from the Secret that `spec.secretRef` names.

use crate::failure::Failure;
use crate::hub::Hub;
use crate::ports::{Connection, ErrorKind, GitAuth, GitServer, PortError, Secret, SshKey};
use crate::repository::{Location, Repository, is_github, place};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use driftless_flux::{GitRepository, reason};
use driftless_manifest::{Gvk, Object};
use serde_json::Value;
use std::time::Duration;

/// The timeout for one read of a repository: Flux's default for `spec.timeout`.
const GIT_TIMEOUT: Duration = Duration::from_secs(60);

/// Reads a Secret of the hub, in the hub's own identity.
///
/// # Errors
/// The Secret cannot be read. A missing one is not an error.
pub async fn secret(hub: &Hub, namespace: &str, name: &str) -> Result<Option<Object>, Failure> {
    read(hub, "Secret", namespace, name).await
}

/// Reads a core object (`Secret`, `ConfigMap`) of the hub, in the hub's own identity.
///
/// # Errors
/// The cluster's.
pub async fn read(
    hub: &Hub,
    kind: &str,
    namespace: &str,
    name: &str,
) -> Result<Option<Object>, Failure> {
    let resource = hub.cluster.resource(&Gvk::new("v1", kind)).await?;
    match resource {
        Some(resource) => Ok(hub.cluster.get(&resource, namespace, name).await?),
        None => Err(Failure::retry(
            reason::FAILED,
            format!("the hub's API server does not serve {kind}"),
        )),
    }
}

/// Returns one decoded entry of a Secret.
pub fn entry(secret: &Object, key: &str) -> Option<Secret> {
    let text = secret.pointer("/data")?.get(key)?.as_str()?;
    STANDARD.decode(text).ok().map(Secret::new)
}

/// Returns the names of the entries of a Secret or ConfigMap.
pub fn keys(object: &Object) -> Vec<String> {
    let data = object.pointer("/data").and_then(Value::as_object);
    data.map(|data| data.keys().cloned().collect())
        .unwrap_or_default()
}

/// Returns the credentials for a GitRepository: the login in its Secret, or without one those of
/// [`Settings::source_auth`](crate::hub::Settings::source_auth). A deploy key (`identity`) is the
/// login for an `ssh://` address; at github.com it is used only without another login. `proxy` is
/// the address in the Secret of `spec.proxySecretRef`, and `cloud` the login of `spec.provider`,
/// which counts before that of the Secret.
///
/// # Errors
/// The Secret is missing or has none of the supported keys.
pub async fn git(
    hub: &Hub,
    source: &GitRepository,
    proxy: Option<Secret>,
    cloud: Option<GitAuth>,
) -> Result<GitAuth, Failure> {
    let mut found = match &source.spec.secret_ref {
        Some(reference) => git_login(hub, &source.id.namespace, &reference.name).await?,
        None => SecretCredentials::default(),
    };
    let url = &source.spec.url;
    if !url.starts_with("ssh://") {
        found.ssh = None;
    }
    let default = || hub.settings.source_auth(&source.id, url);
    let login = cloud.or(found.login).unwrap_or_else(default);
    // GitHub is read with the deploy key over SSH only without another login.
    let is_keyed = found.ssh.is_some() && login == GitAuth::Anonymous;
    let by_api = is_github(url) && !is_keyed;
    if by_api {
        found.ssh = None;
        found.connection = Connection::default();
    }
    let mut server = GitServer {
        login,
        ssh: found.ssh,
        connection: found.connection,
        submodules: source.spec.recurse_submodules,
        directories: source.spec.sparse_checkout.clone(),
        proven: source.spec.verify.is_some(),
    };
    server.connection.allow_local = !by_api && hub.settings.allow_local_clusters;
    server.connection.proxy = proxy;
    if server.ssh.is_none() && server.connection == Connection::default() && !server.needs_git() {
        return Ok(server.login);
    }
    server.connection.timeout = GIT_TIMEOUT;
    Ok(GitAuth::Server(Box::new(server)))
}

/// The credentials for a repository in a Secret.
#[derive(Default)]
struct SecretCredentials {
    login: Option<GitAuth>,
    ssh: Option<SshKey>,
    connection: Connection,
}

/// Reads a Secret with Flux's keys (github.com/fluxcd/pkg/git 0.52): `ca.crt` overrides `caFile`,
/// and a bearer token overrides user and password.
async fn git_login(hub: &Hub, namespace: &str, name: &str) -> Result<SecretCredentials, Failure> {
    let place = format!("Secret/{namespace}/{name}");
    let fail = |problem: &str| {
        Failure::retry(reason::AUTHENTICATION_FAILED, format!("{place}: {problem}"))
    };
    let secret = secret(hub, namespace, name).await?.ok_or_else(|| {
        let prefix = format!("failed to get secret '{namespace}/{name}'");
        let message = format!("{prefix}: {prefix}: secrets \"{name}\" not found");
        Failure::retry(reason::AUTHENTICATION_FAILED, message)
    })?;
    let text =
        |key: &str| entry(&secret, key).and_then(|value| value.expose_str().map(str::to_owned));
    let mut found = SecretCredentials::default();
    if let Some(app_id) = text("githubAppID") {
        found.login = Some(GitAuth::App {
            app_id,
            installation_id: text("githubAppInstallationID").unwrap_or_default(),
            private_key: entry(&secret, "githubAppPrivateKey")
                .ok_or_else(|| fail("has no githubAppPrivateKey"))?,
            base_url: text("githubAppBaseURL"),
        });
    } else if let Some(token) = entry(&secret, "bearerToken") {
        found.login = Some(GitAuth::Bearer(token));
    } else if let Some(username) = text("username") {
        let password =
            entry(&secret, "password").ok_or_else(|| fail("has a username and no password"))?;
        found.login = Some(GitAuth::Basic { username, password });
    }
    let bytes = |key: &str| entry(&secret, key).filter(|value| !value.expose().is_empty());
    found.ssh = bytes("identity").map(|identity| SshKey {
        identity,
        password: bytes("password"),
        known_hosts: text("known_hosts").unwrap_or_default(),
    });
    let authority = bytes("ca.crt").or_else(|| bytes("caFile"));
    found.connection.certificate_authority = authority.map(|pem| pem.expose().to_vec());
    found.connection.client_certificate = match (bytes("tls.crt"), bytes("tls.key")) {
        (Some(certificate), Some(key)) => Some((certificate.expose().to_vec(), key)),
        (None, None) => None,
        _ => return Err(fail("has only one of tls.crt and tls.key: set both")),
    };
    let is_empty = found.connection == Connection::default();
    match found.login.is_none() && found.ssh.is_none() && is_empty {
        true => Err(fail(
            "has no usable keys: expected username and password, bearerToken, githubAppID, identity, ca.crt or tls.crt",
        )),
        false => Ok(found),
    }
}

/// A hint for a repository that could not be read without a login.
pub struct LoginHint {
    repository: Repository,
    prefix: &'static str,
}

impl LoginHint {
    /// Returns a hint for an error, unless a login was sent or would not help.
    pub fn of(auth: &GitAuth, error: &PortError, url: &str) -> Option<Self> {
        let is_keyed = matches!(auth, GitAuth::Server(server) if server.ssh.is_some());
        let prefix = match error.kind {
            _ if *auth.login() != GitAuth::Anonymous => return None,
            _ if is_keyed => return None,
            ErrorKind::NotFound | ErrorKind::Denied => {
                "the repository was read without a login: if it is private"
            }
            ErrorKind::RateLimited => {
                "the repository was read without a login, and the host limits such requests: to allow more"
            }
            _ => return None,
        };
        match place(url) {
            Ok(Location::Hosted(repository)) => Some(Self { repository, prefix }),
            _ => None,
        }
    }

    /// Returns the advice for the operator, for objects of a namespace.
    pub fn hint(&self, namespace: &str) -> String {
        self.hint_or(namespace, "")
    }

    /// Returns the advice for the operator, for objects of a namespace, after `own`, the advice for
    /// the objects' owner.
    pub fn hint_or(&self, namespace: &str, own: &str) -> String {
        let (prefix, repository) = (self.prefix, self.repository.short_name());
        format!(
            "{prefix}, {own}let the operator register the hub with --allow-installation-repository {namespace}={repository}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_distinct() {
        let secret = |text: &str| Secret::new(text.to_owned());
        let basic = |username: &str, password: &str| GitAuth::Basic {
            username: username.to_owned(),
            password: secret(password),
        };
        let app = |installation: &str| GitAuth::App {
            app_id: "1".to_owned(),
            installation_id: installation.to_owned(),
            private_key: secret("key"),
            base_url: None,
        };
        let server = |server: GitServer| GitAuth::Server(Box::new(server));
        let keyed = |identity: &str| {
            server(GitServer {
                ssh: Some(SshKey {
                    identity: secret(identity),
                    password: None,
                    known_hosts: String::new(),
                }),
                ..GitServer::default()
            })
        };
        // The connection to a server is not part of the identity.
        let reached = server(GitServer {
            login: basic("a", "bc"),
            connection: Connection {
                allow_local: true,
                certificate_authority: Some(b"ca".to_vec()),
                ..Connection::default()
            },
            ..GitServer::default()
        });
        assert_eq!(reached.identity(), basic("a", "bc").identity());
        assert_eq!(*reached.login(), basic("a", "bc"));
        let all = [
            GitAuth::Anonymous,
            GitAuth::Installation,
            basic("a", "bc"),
            basic("ab", "c"),
            GitAuth::Bearer(secret("abc")),
            GitAuth::Bearer(secret("")),
            app("1"),
            app("2"),
            keyed("1"),
            keyed("2"),
        ];
        let distinct: std::collections::BTreeSet<String> =
            all.iter().map(GitAuth::identity).collect();
        assert_eq!(distinct.len(), all.len());
        assert_eq!(basic("a", "bc").identity(), basic("a", "bc").identity());
    }

    #[test]
    fn a_hint_is_given_if_a_login_may_help() {
        let url = "https://github.com/acme/apps";
        let hint = |auth: &GitAuth, kind: ErrorKind, url: &str| {
            let hint = LoginHint::of(auth, &PortError::new(kind, "no"), url);
            hint.map(|hint| hint.hint("team-a"))
        };
        let anonymous = GitAuth::Anonymous;
        let keyed = GitAuth::Server(Box::new(GitServer {
            ssh: Some(SshKey {
                identity: Secret::new("key"),
                password: None,
                known_hosts: String::new(),
            }),
            ..GitServer::default()
        }));
        let advice = hint(&anonymous, ErrorKind::NotFound, url).unwrap();
        assert!(
            advice.ends_with("--allow-installation-repository team-a=acme/apps"),
            "{advice}"
        );
        assert!(hint(&anonymous, ErrorKind::RateLimited, url).is_some());
        for (auth, kind, url) in [
            (&anonymous, ErrorKind::Unavailable, url),
            (&anonymous, ErrorKind::NotFound, "file:///srv/fleet"),
            (&GitAuth::Installation, ErrorKind::NotFound, url),
            (
                &keyed,
                ErrorKind::NotFound,
                "ssh://git@git.example/acme/apps",
            ),
        ] {
            assert_eq!(hint(auth, kind, url), None);
        }
    }
}
