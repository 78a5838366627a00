//! The credentials of a source, from the Secret that `spec.secretRef` names.

use crate::failure::Failure;
use crate::flux::{GitRepository, reason};
use crate::hub::Hub;
use crate::ports::{Connection, ErrorKind, GitAuth, GitServer, PortError, Secret, SshKey};
use crate::repository::{Location, Repository, is_github, place};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use driftless_manifest::{Gvk, Object};
use serde_json::Value;
use std::time::Duration;

/// How long one reading of a repository may take: Flux's default for `spec.timeout`.
const GIT_TIMEOUT: Duration = Duration::from_secs(60);

/// Reads a Secret of the hub, in the hub's own identity.
///
/// # Errors
/// It does not exist, or cannot be read.
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

/// One entry of a Secret, decoded.
pub fn entry(secret: &Object, key: &str) -> Option<Secret> {
    let text = secret.pointer("/data")?.get(key)?.as_str()?;
    STANDARD.decode(text).ok().map(Secret::new)
}

/// The names of a Secret's or ConfigMap's entries.
pub fn keys(object: &Object) -> Vec<String> {
    let data = object.pointer("/data").and_then(Value::as_object);
    data.map(|data| data.keys().cloned().collect())
        .unwrap_or_default()
}

/// How a GitRepository is read: with the login in its Secret; without one, as
/// [`Settings::source_auth`](crate::hub::Settings::source_auth) says. A deploy key (`identity`) is a login of an `ssh://` address;
/// at github.com it is used where there is no other one.
/// `proxy` is the address in the Secret of `spec.proxySecretRef`.
///
/// # Errors
/// The Secret is missing or has none of the keys.
pub async fn git(
    hub: &Hub,
    source: &GitRepository,
    proxy: Option<Secret>,
) -> Result<GitAuth, Failure> {
    let mut found = match &source.spec.secret_ref {
        Some(reference) => git_login(hub, &source.id.namespace, &reference.name).await?,
        None => Found::default(),
    };
    let url = &source.spec.url;
    if !url.starts_with("ssh://") {
        found.ssh = None;
    }
    let unnamed = || hub.settings.source_auth(&source.id, url);
    let login = found.login.unwrap_or_else(unnamed);
    // Who has nothing else comes to GitHub with the deploy key, over SSH.
    let is_keyed = found.ssh.is_some() && login == GitAuth::Anonymous;
    if is_github(url) && !is_keyed {
        return Ok(login);
    }
    let mut connection = found.connection;
    connection.allow_local = hub.settings.allow_local_clusters;
    connection.proxy = proxy;
    let submodules = source.spec.recurse_submodules;
    if found.ssh.is_none() && connection == Connection::default() && !submodules {
        return Ok(login);
    }
    connection.timeout = GIT_TIMEOUT;
    Ok(GitAuth::Server(Box::new(GitServer {
        login,
        ssh: found.ssh,
        connection,
        submodules,
    })))
}

/// What a Secret has for a repository.
#[derive(Default)]
struct Found {
    login: Option<GitAuth>,
    ssh: Option<SshKey>,
    connection: Connection,
}

/// What stands in a Secret with Flux's keys (github.com/fluxcd/pkg/git 0.52): `ca.crt` wins over `caFile`, a bearer token over user
/// and password.
async fn git_login(hub: &Hub, namespace: &str, name: &str) -> Result<Found, Failure> {
    let place = format!("Secret/{namespace}/{name}");
    let fail =
        |what: &str| Failure::retry(reason::AUTHENTICATION_FAILED, format!("{place}: {what}"));
    let secret = secret(hub, namespace, name).await?.ok_or_else(|| {
        let lead = format!("failed to get secret '{namespace}/{name}'");
        let what = format!("{lead}: {lead}: secrets \"{name}\" not found");
        Failure::retry(reason::AUTHENTICATION_FAILED, what)
    })?;
    let text =
        |key: &str| entry(&secret, key).and_then(|value| value.expose_str().map(str::to_owned));
    let mut found = Found::default();
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
        _ => return Err(fail("has one of tls.crt and tls.key, and needs both")),
    };
    let is_empty = found.connection == Connection::default();
    match found.login.is_none() && found.ssh.is_none() && is_empty {
        true => Err(fail(
            "has none of username and password, bearerToken, githubAppID, identity, ca.crt, tls.crt",
        )),
        false => Ok(found),
    }
}

/// A repository that was read without a login and could not be: what may be done about it.
pub struct Unnamed {
    repository: Repository,
    lead: &'static str,
}

impl Unnamed {
    /// None where a login was sent, or where none would help.
    pub fn of(auth: &GitAuth, error: &PortError, url: &str) -> Option<Self> {
        let is_keyed = matches!(auth, GitAuth::Server(server) if server.ssh.is_some());
        let lead = match error.kind {
            _ if *auth.login() != GitAuth::Anonymous => return None,
            _ if is_keyed => return None,
            ErrorKind::NotFound | ErrorKind::Denied => {
                "it was read without a login: if the repository is private"
            }
            ErrorKind::RateLimited => {
                "it was read without a login, and the host answers few of such requests: for more"
            }
            _ => return None,
        };
        match place(url) {
            Ok(Location::Hosted(repository)) => Some(Self { repository, lead }),
            _ => None,
        }
    }

    /// What the operator may do for objects of a namespace.
    pub fn hint(&self, namespace: &str) -> String {
        self.hint_or(namespace, "")
    }

    /// What the operator may do for objects of a namespace, and before it what their owner may.
    pub fn hint_or(&self, namespace: &str, own: &str) -> String {
        let (lead, repository) = (self.lead, self.repository.short_name());
        format!(
            "{lead}, {own}let the operator register the hub with --allow-installation-repository {namespace}={repository}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_told_apart() {
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
        // How a server is reached says nothing of who reads.
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
    fn what_to_do_is_told_when_a_login_may_help() {
        let url = "https://github.com/acme/apps";
        let hint = |auth: &GitAuth, kind: ErrorKind, url: &str| {
            let unnamed = Unnamed::of(auth, &PortError::new(kind, "no"), url);
            unnamed.map(|unnamed| unnamed.hint("team-a"))
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
        let told = hint(&anonymous, ErrorKind::NotFound, url).unwrap();
        assert!(
            told.ends_with("--allow-installation-repository team-a=acme/apps"),
            "{told}"
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
