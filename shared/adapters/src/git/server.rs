//! The adapter for repositories on any server, in Git's own protocol over HTTPS and SSH.

use super::{GitHost, RefSpec, highest, socks};
use crate::resolver;
use crate::tenant_http::Clients;
use async_trait::async_trait;
use bytes::Bytes;
use driftless_flux::GitReference;
use driftless_git::{
    Auth, Body, BoxError, Duplex, Error, FetchOptions, Limits, Network, ObjectId, Reference,
    Remote, RemoteUrl, Secret, SshLogin,
};
use driftless_kernel::address;
use driftless_kernel::ports::{
    Commit, Connection, ErrorKind, FetchLimits, GitAuth, GitServer, PortError, Result,
    SignedObjects,
};
use driftless_kernel::repository::Location;
use driftless_manifest::{FileTree, TreePath};
use futures::StreamExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;

/// The default time limit of one read.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The time limit for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Repositories of all servers at `https://` and `ssh://`. Local addresses are refused unless the
/// connection allows them.
#[derive(Clone, Default)]
pub struct GitServers {
    clients: Arc<Clients>,
}

impl GitServers {
    /// Creates the adapter with new HTTP clients.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the remote of a commit, its id, and where to find it.
    fn commit(
        &self,
        url: &str,
        commit: &Commit,
        auth: &GitAuth,
    ) -> Result<(Remote, ObjectId, FetchOptions)> {
        let remote = self.remote(url, auth)?;
        let id = |sha: &str, kind: &str| {
            ObjectId::from_hex(sha.as_bytes()).map_err(|_| {
                let message = format!("'{sha}' is not a {kind}: expected 40 hex digits");
                PortError::new(ErrorKind::Invalid, message)
            })
        };
        let mut options = FetchOptions::default();
        options.references = match commit.name.as_str() {
            "" => vec!["HEAD".to_owned()],
            name if name.starts_with("refs/") => vec![name.to_owned()],
            name => vec![format!("refs/heads/{name}"), format!("refs/tags/{name}")],
        };
        options.tag = commit
            .tag
            .as_deref()
            .map(|tag| id(tag, "tag"))
            .transpose()?;
        Ok((remote, id(&commit.sha, "commit")?, options))
    }

    fn remote(&self, url: &str, auth: &GitAuth) -> Result<Remote> {
        let server = match auth {
            GitAuth::Server(server) => GitServer::clone(server),
            login => GitServer {
                login: login.clone(),
                ..GitServer::default()
            },
        };
        let mut connection = server.connection.clone();
        if connection.timeout.is_zero() {
            connection.timeout = TIMEOUT;
        }
        let parsed = RemoteUrl::parse(url).map_err(|error| port_error(error, "read", url))?;
        let auth = match parsed.is_ssh() {
            true => Auth::Ssh(ssh(&server, url)?),
            false => http(&server.login, url)?,
        };
        let mut limits = Limits::default();
        limits.time = connection.timeout;
        let network = Gate {
            clients: self.clients.clone(),
            connection,
        };
        Ok(Remote {
            url: parsed,
            auth,
            network: Arc::new(network),
            limits,
            plain_login: true,
        })
    }
}

/// Returns the login over SSH. The errors for missing parts are those of Flux's git package.
fn ssh(server: &GitServer, url: &str) -> Result<SshLogin> {
    let missing = |option: &str| {
        let message = format!("{url}: invalid 'ssh' auth option: '{option}' is required");
        Err(PortError::new(ErrorKind::Denied, message))
    };
    let Some(key) = &server.ssh else {
        return missing("identity");
    };
    if key.known_hosts.trim().is_empty() {
        return missing("known_hosts");
    }
    let secret = |secret: &driftless_kernel::ports::Secret| Secret::new(secret.expose());
    Ok(SshLogin {
        identity: secret(&key.identity),
        password: key.password.as_ref().map(secret),
        known_hosts: key.known_hosts.clone(),
    })
}

fn http(login: &GitAuth, url: &str) -> Result<Auth> {
    Ok(match login.login() {
        // The installation has logins only for hosts with GitHub's API.
        GitAuth::Anonymous | GitAuth::Installation | GitAuth::Server(_) => Auth::None,
        GitAuth::Basic { username, password } => Auth::Basic {
            user: username.clone(),
            password: Secret::new(password.expose()),
        },
        GitAuth::Bearer(token) => Auth::Bearer(Secret::new(token.expose())),
        GitAuth::App { .. } => {
            let message =
                format!("{url}: a GitHub App cannot log in to a host without GitHub's API");
            return Err(PortError::new(ErrorKind::Denied, message));
        }
    })
}

#[async_trait]
impl GitHost for GitServers {
    fn reads(&self, place: &Location) -> bool {
        matches!(place, Location::Hosted(_) | Location::Server)
    }

    async fn resolve(
        &self,
        url: &str,
        _: &Location,
        reference: &GitReference,
        auth: &GitAuth,
        _: Option<&Commit>,
    ) -> Result<Commit> {
        let remote = self.remote(url, auth)?;
        let list = async |prefix: &str| {
            let found = remote.references(&[prefix]).await;
            found.map_err(|error| port_error(error, "list remote for", url))
        };
        let (full, name) = match RefSpec::of(reference)? {
            RefSpec::Commit { sha, branch } => {
                // This request checks whether the login may read the repository.
                list("HEAD").await?;
                return Ok(commit(sha.to_owned(), branch));
            }
            RefSpec::Name(name) => (name.to_owned(), name),
            RefSpec::Tag(tag) => (format!("refs/tags/{tag}"), tag),
            RefSpec::Branch(branch) => (format!("refs/heads/{branch}"), branch),
            RefSpec::Semver(range) => {
                let tags = list("refs/tags/").await?;
                let names = tags
                    .iter()
                    .filter_map(|tag| tag.name.strip_prefix("refs/tags/"));
                let tag = highest(range, names)?;
                let full = format!("refs/tags/{tag}");
                return target(&tags, &full, tag, url);
            }
        };
        target(&list(&full).await?, &full, name, url)
    }

    async fn fetch(
        &self,
        url: &str,
        _: &Location,
        commit: &Commit,
        auth: &GitAuth,
        limits: FetchLimits,
    ) -> Result<FileTree> {
        let (mut remote, id, mut options) = self.commit(url, commit, auth)?;
        remote.limits.packed = limits.bytes;
        remote.limits.unpacked = limits.bytes;
        remote.limits.files = limits.files;
        remote.limits.objects = limits.files.saturating_mul(3);
        remote.limits.fuel = limits.fuel;
        // The tag is not needed for the files.
        options.tag = None;
        if let GitAuth::Server(server) = auth {
            options.submodules = server.submodules;
            let directories = server.directories.iter();
            options.directories = directories
                .filter_map(|directory| TreePath::new(directory).ok())
                .collect();
        }
        let fetched = remote.fetch(id, &options).await;
        let fetched = fetched.map_err(|error| port_error(error, "clone", url))?;
        Ok(fetched.files)
    }

    async fn signed(
        &self,
        url: &str,
        _: &Location,
        commit: &Commit,
        auth: &GitAuth,
    ) -> Result<SignedObjects> {
        let (remote, id, options) = self.commit(url, commit, auth)?;
        let fetched = remote.objects(id, &options).await;
        let fetched = fetched.map_err(|error| port_error(error, "clone", url))?;
        Ok(SignedObjects {
            commit: fetched.commit,
            tags: fetched.tags.into_iter().map(|(_, tag)| tag).collect(),
        })
    }
}

fn commit(sha: String, name: &str) -> Commit {
    Commit {
        sha,
        name: name.to_owned(),
        ..Commit::default()
    }
}

/// Returns the commit of a reference.
fn target(found: &[Reference], full: &str, name: &str, url: &str) -> Result<Commit> {
    let found = found.iter().find(|found| found.name == full);
    let found = found.ok_or_else(|| {
        let message = format!("{url}: couldn't find remote ref \"{full}\"");
        PortError::new(ErrorKind::NotFound, message)
    })?;
    Ok(Commit {
        tag: found.peeled.map(|_| found.object.to_string()),
        ..commit(found.target().to_string(), name)
    })
}

/// Converts an error with the message of Flux's git package: `unable to clone 'URL': …`.
fn port_error(error: Error, operation: &str, url: &str) -> PortError {
    let kind = match &error {
        Error::NotFound(_) => ErrorKind::NotFound,
        Error::Unauthorised(_) | Error::HostKey(_) | Error::Login(_) => ErrorKind::Denied,
        Error::Url(_) | Error::Limit(_) | Error::Content(_) => ErrorKind::Invalid,
        Error::Unreachable { source, .. } => match source.downcast_ref::<PortError>() {
            Some(inner) => inner.kind,
            None => ErrorKind::Unavailable,
        },
        Error::Protocol(_) => ErrorKind::Unreadable,
        _ => ErrorKind::Unavailable,
    };
    let message = match &error {
        Error::Unreachable { source, .. } => format!("{error}: {source}"),
        _ => error.to_string(),
    };
    PortError::new(kind, format!("unable to {operation} '{url}': {message}"))
}

/// The network of the Git client: the HTTP client for hosts that tenants name, and the same checks
/// for SSH.
struct Gate {
    clients: Arc<Clients>,
    connection: Connection,
}

#[async_trait]
impl Network for Gate {
    async fn request(
        &self,
        request: http::Request<Bytes>,
    ) -> std::result::Result<http::Response<Body>, BoxError> {
        let url = reqwest::Url::parse(&request.uri().to_string())?;
        if url.scheme() == "http" && !self.connection.allow_local {
            return Err(PortError::new(
                ErrorKind::Unsupported,
                driftless_kernel::repository::PLAIN,
            )
            .into());
        }
        let client = self.clients.client(&url, &self.connection)?;
        let (parts, body) = request.into_parts();
        let request = client.request(parts.method, url).headers(parts.headers);
        let sent = request.body(body).send().await;
        let response = sent.map_err(|error| crate::tenant_http::reason(&error))?;
        let mut answer = http::Response::builder().status(response.status());
        if let Some(headers) = answer.headers_mut() {
            headers.clone_from(response.headers());
        }
        let body = futures::stream::unfold(response, async |mut response| {
            let chunk = response.chunk().await;
            let chunk = chunk.map_err(|error| crate::tenant_http::reason(&error).into());
            chunk.transpose().map(|chunk| (chunk, response))
        });
        Ok(answer.body(body.boxed())?)
    }

    async fn connect(
        &self,
        host: &str,
        port: u16,
    ) -> std::result::Result<Box<dyn Duplex>, BoxError> {
        let local = self.connection.allow_local;
        if !local && address::is_local_host(host) {
            let message = format!(
                "'{host}' is loopback or link-local, and leads back into this installation"
            );
            return Err(PortError::new(ErrorKind::Invalid, message).into());
        }
        if let Some(proxy) = &self.connection.proxy {
            let connected = socks::connect(proxy, local, host, port);
            let stream = tokio::time::timeout(CONNECT_TIMEOUT, connected).await;
            return Ok(Box::new(stream.map_err(|_| "no connection in time")??));
        }
        let mut found = resolver::addresses(host, local).await?;
        found.iter_mut().for_each(|place| place.set_port(port));
        let stream = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(found.as_slice()));
        let stream = stream.await.map_err(|_| "no connection in time")??;
        Ok(Box::new(stream))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_kernel::ports::{Secret, SshKey};
    use driftless_kernel::repository::place;
    use std::process::{Command, Stdio};

    async fn resolve(url: &str, auth: &GitAuth, branch: &str) -> Result<Commit> {
        let reference = GitReference {
            branch: branch.to_owned(),
            ..GitReference::default()
        };
        let place = Location::Server;
        GitServers::new()
            .resolve(url, &place, &reference, auth, None)
            .await
    }

    fn keyed(known_hosts: &str) -> GitAuth {
        GitAuth::Server(Box::new(GitServer {
            ssh: Some(SshKey {
                identity: Secret::new("canary"),
                password: None,
                known_hosts: known_hosts.to_owned(),
            }),
            ..GitServer::default()
        }))
    }

    #[test]
    fn reads_repositories_on_servers() {
        let git = GitServers::new();
        for url in ["https://git.example/a/b", "https://git.example/a/b/c"] {
            assert!(git.reads(&place(url).unwrap()), "{url}");
        }
        assert!(!git.reads(&place("file:///a/b").unwrap()));
    }

    #[tokio::test]
    async fn addresses_of_this_machine_are_not_reached() {
        for url in [
            "https://localhost/a/b",
            "https://127.0.0.1:1/a/b",
            "https://[::1]/a/b",
        ] {
            let error = resolve(url, &GitAuth::Anonymous, "main").await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
            assert!(
                error.message.contains("leads back into this installation"),
                "{error}"
            );
        }
    }

    #[tokio::test]
    async fn a_deploy_key_of_github_is_used_over_ssh() {
        use crate::git::{GitHub, GitRouter, Hosts};
        use driftless_kernel::ports::Git;
        use driftless_memory::MemorySecrets;
        let keys = Arc::new(MemorySecrets::default());
        let router = GitRouter::new()
            .with(GitHub::new(Hosts::default(), keys).unwrap())
            .with(GitServers::new());
        let url = "ssh://git@github.com/acme/fleet";
        let key = keyed("github.com ssh-ed25519 x");
        let reference = GitReference::default();
        let error = router.resolve(url, &reference, &key, None).await;
        let error = error.unwrap_err().message;
        assert!(error.contains("identity: is not a private key"), "{error}");
    }

    #[tokio::test]
    async fn ssh_needs_an_identity_and_known_hosts() {
        let url = "ssh://git@git.example/a/b";
        for (auth, expected) in [
            (
                GitAuth::Anonymous,
                "invalid 'ssh' auth option: 'identity' is required",
            ),
            (
                keyed(""),
                "invalid 'ssh' auth option: 'known_hosts' is required",
            ),
            (keyed("git.example x"), "identity: is not a private key"),
        ] {
            let error = resolve(url, &auth, "main").await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Denied, "{error}");
            let message = error.message;
            assert!(
                message.contains(expected) && !message.contains("canary"),
                "{message}"
            );
        }
    }

    fn git(directory: &std::path::Path, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .arg("-C")
            .arg(directory)
            .args(["-c", "user.name=a", "-c", "user.email=a@example.com"])
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// The logins that the servers got.
    static LOGINS: std::sync::Mutex<Vec<String>> = std::sync::Mutex::new(Vec::new());

    /// `git http-backend` on a port of this machine.
    async fn serve(directory: std::path::PathBuf) -> std::net::SocketAddr {
        use axum::extract::Request;
        use axum::http::Response;
        let answer = move |request: Request| {
            let directory = directory.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
                let header = |name: &str| {
                    let value = head.headers.get(name);
                    value
                        .map(|value| value.to_str().unwrap())
                        .unwrap_or_default()
                };
                let login = header("authorization").to_owned();
                LOGINS.lock().unwrap().push(login);
                let mut child = tokio::process::Command::new("git")
                    .args(["-c", "uploadpack.allowFilter=true", "http-backend"])
                    .env("GIT_PROJECT_ROOT", &directory)
                    .env("GIT_HTTP_EXPORT_ALL", "1")
                    .env("PATH_INFO", head.uri.path())
                    .env("QUERY_STRING", head.uri.query().unwrap_or_default())
                    .env("REQUEST_METHOD", head.method.as_str())
                    .env("CONTENT_TYPE", header("content-type"))
                    .env("GIT_PROTOCOL", header("git-protocol"))
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .spawn()
                    .unwrap();
                use tokio::io::AsyncWriteExt;
                let mut stdin = child.stdin.take().unwrap();
                stdin.write_all(&body).await.unwrap();
                drop(stdin);
                let output = child.wait_with_output().await.unwrap().stdout;
                let end = output
                    .windows(4)
                    .position(|bytes| bytes == b"\r\n\r\n")
                    .unwrap();
                let mut response = Response::builder();
                for line in std::str::from_utf8(&output[..end]).unwrap().lines() {
                    let (name, value) = line.split_once(": ").unwrap();
                    response = match name {
                        "Status" => response.status(&value[..3]),
                        _ => response.header(name, value),
                    };
                }
                let body = axum::body::Body::from(output[end + 4..].to_vec());
                response.body(body).unwrap()
            }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = axum::Router::new().fallback(answer);
        tokio::spawn(async move { axum::serve(listener, router).await });
        address
    }

    /// Returns options for a server on this machine.
    fn local(server: GitServer) -> GitAuth {
        GitAuth::Server(Box::new(GitServer {
            connection: Connection {
                allow_local: true,
                timeout: Duration::from_secs(20),
                ..server.connection
            },
            ..server
        }))
    }

    #[tokio::test]
    async fn hosts_with_an_api_are_also_read_in_gits_own_protocol() {
        use crate::git::{GitHub, Hosts};
        use driftless_kernel::repository::Repository;
        use driftless_memory::MemorySecrets;
        if Command::new("git").arg("--version").output().is_err() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let (fleet, library) = (
            directory.path().join("acme/fleet"),
            directory.path().join("acme/library"),
        );
        for (path, file) in [(&library, "l.yaml"), (&fleet, "apps/a.yaml")] {
            let file = path.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            git(path, &["init", "-q", "-b", "main"]);
            std::fs::write(file, "a\n").unwrap();
            git(path, &["add", "-A"]);
            git(path, &["commit", "-q", "-m", "one"]);
        }
        let module = library.to_str().unwrap();
        let add = [
            "-c",
            "protocol.file.allow=always",
            "submodule",
            "add",
            "-q",
            module,
            "lib",
        ];
        git(&fleet, &add);
        git(
            &fleet,
            &[
                "config",
                "-f",
                ".gitmodules",
                "submodule.lib.url",
                "../library",
            ],
        );
        std::fs::write(fleet.join("top.yaml"), "t\n").unwrap();
        git(&fleet, &["add", "-A"]);
        git(&fleet, &["commit", "-q", "-m", "two"]);
        git(&fleet, &["tag", "-a", "-m", "v1", "v1"]);
        let (sha, tag) = (
            git(&fleet, &["rev-parse", "HEAD"]),
            git(&fleet, &["rev-parse", "v1"]),
        );
        let address = serve(directory.path().to_owned()).await;
        let host = address.to_string();
        let hosts = Hosts::default().with(&host, &format!("http://{host}/api"));
        let github = GitHub::new(hosts, Arc::new(MemorySecrets::default())).unwrap();
        let place = Location::Hosted(Repository {
            host: host.clone(),
            owner: "acme".to_owned(),
            name: "fleet".to_owned(),
        });
        let url = format!("https://{host}/acme/fleet");
        let commit = Commit {
            sha,
            name: "v1".to_owned(),
            tag: Some(tag),
            ..Commit::default()
        };
        let login = || GitAuth::Bearer(Secret::new("ghp_token"));
        let files = async |server: GitServer| {
            let auth = local(GitServer {
                login: login(),
                ..server
            });
            let limits = FetchLimits::default();
            let fetched = github.fetch(&url, &place, &commit, &auth, limits).await;
            let fetched = fetched.unwrap();
            let paths = fetched.index().iter().map(|(path, _)| path.to_string());
            paths.collect::<Vec<String>>()
        };
        let submodules = GitServer {
            submodules: true,
            ..GitServer::default()
        };
        let all = [".gitmodules", "apps/a.yaml", "lib/l.yaml", "top.yaml"];
        assert_eq!(files(submodules).await, all);
        // The API, which this host does not serve, is not asked about the files of a signed commit.
        let proven = GitServer {
            proven: true,
            ..GitServer::default()
        };
        let own = [".gitmodules", "apps/a.yaml", "top.yaml"];
        assert_eq!(files(proven).await, own);
        let sparse = GitServer {
            directories: vec!["./apps".to_owned()],
            ..GitServer::default()
        };
        assert_eq!(
            files(sparse).await,
            [".gitmodules", "apps/a.yaml", "top.yaml"]
        );

        let auth = local(GitServer {
            login: login(),
            ..GitServer::default()
        });
        let signed = github.signed(&url, &place, &commit, &auth).await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        assert_eq!(
            text(&signed.commit),
            git(&fleet, &["cat-file", "commit", "HEAD"])
        );
        assert_eq!(
            text(&signed.tags[0]),
            git(&fleet, &["cat-file", "tag", "v1"])
        );
        let seen = LOGINS.lock().unwrap().clone();
        let expected = "Basic eC1hY2Nlc3MtdG9rZW46Z2hwX3Rva2Vu";
        assert!(seen.iter().any(|login| login == expected), "{seen:?}");
    }

    #[tokio::test]
    async fn without_encryption_only_where_the_operator_allows_it() {
        let url = "http://git.example/a/b";
        let error = resolve(url, &GitAuth::Anonymous, "main").await.unwrap_err();
        assert!(error.message.contains("--allow-local-clusters"), "{error}");
    }

    #[tokio::test]
    async fn a_repository_behind_http() {
        if Command::new("git").arg("--version").output().is_err() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let fleet = directory.path().join("group/sub/fleet");
        std::fs::create_dir_all(&fleet).unwrap();
        git(&fleet, &["init", "-q", "-b", "main"]);
        std::fs::write(fleet.join("a.yaml"), "a\n").unwrap();
        git(&fleet, &["add", "-A"]);
        git(&fleet, &["commit", "-q", "-m", "one"]);
        for tag in ["v1.0.0", "v1.2.0", "v2.0.0"] {
            git(&fleet, &["tag", "-a", "-m", tag, tag]);
        }
        let head = git(&fleet, &["rev-parse", "HEAD"]);
        let address = serve(directory.path().to_owned()).await;
        let url = format!("http://{address}/group/sub/fleet");
        let auth = GitAuth::Server(Box::new(GitServer {
            connection: Connection {
                allow_local: true,
                timeout: Duration::from_secs(20),
                ..Connection::default()
            },
            ..GitServer::default()
        }));
        let servers = GitServers::new();
        for (reference, revision) in [
            (
                serde_json::json!({"branch": "main"}),
                format!("main@sha1:{head}"),
            ),
            (
                serde_json::json!({"tag": "v1.0.0"}),
                format!("v1.0.0@sha1:{head}"),
            ),
            (
                serde_json::json!({"semver": "1.x"}),
                format!("v1.2.0@sha1:{head}"),
            ),
            (
                serde_json::json!({"name": "refs/heads/main"}),
                format!("refs/heads/main@sha1:{head}"),
            ),
            (serde_json::json!({"commit": head}), format!("sha1:{head}")),
        ] {
            let reference: GitReference = serde_json::from_value(reference).unwrap();
            let place = Location::Server;
            let commit = servers
                .resolve(&url, &place, &reference, &auth, None)
                .await
                .unwrap();
            assert_eq!(commit.revision(), revision);
            let is_tag = revision.starts_with('v');
            assert_eq!(commit.tag.is_some(), is_tag, "{revision}");
            let objects = servers.signed(&url, &place, &commit, &auth).await.unwrap();
            let tags: Vec<String> = objects
                .tags
                .iter()
                .map(|tag| String::from_utf8_lossy(tag).trim().to_owned())
                .collect();
            let expected = is_tag.then(|| git(&fleet, &["cat-file", "tag", &commit.name]));
            assert_eq!(tags, expected.into_iter().collect::<Vec<_>>());
            let limits = FetchLimits::default();
            let files = servers
                .fetch(&url, &place, &commit, &auth, limits)
                .await
                .unwrap();
            assert_eq!(files.index().len(), 1);
        }
        let error = resolve(&url, &auth, "absent").await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound);
        assert!(
            error
                .message
                .ends_with("couldn't find remote ref \"refs/heads/absent\"")
        );
        let absent = format!("http://{address}/absent");
        let error = resolve(&absent, &auth, "main").await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
        assert!(
            error.message.starts_with("unable to list remote for"),
            "{error}"
        );
        // The same URL is refused if local addresses are not allowed.
        let error = resolve(&url, &GitAuth::Anonymous, "main")
            .await
            .unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unsupported);
    }
}
