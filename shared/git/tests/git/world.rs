//! Repositories in a directory, served by the real git.

use crate::skip::skip;
use async_trait::async_trait;
use bytes::Bytes;
use driftless_git::{
    Auth, Body, BoxError, Duplex, Error, FetchOptions, FetchedCommit, Limits, Network, ObjectId,
    Remote, RemoteUrl,
};
use futures::StreamExt;
use http::{Request, Response, StatusCode};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// Returns whether git is installed; prints that a test is skipped otherwise.
pub fn is_git_here() -> bool {
    let found = Command::new("git").arg("--version").output().is_ok();
    if !found {
        skip("git is not installed");
    }
    found
}

/// Repositories below one directory, served at `https://git.example/NAME`.
pub struct World {
    pub root: TempDir,
}

impl World {
    pub fn new() -> Self {
        Self {
            root: tempfile::tempdir().unwrap(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Runs git in a repository and returns its output.
    pub fn git(&self, name: &str, arguments: &[&str]) -> String {
        self.git_with(name, arguments, b"")
    }

    pub fn git_with(&self, name: &str, arguments: &[&str], input: &[u8]) -> String {
        use std::io::Write;
        let mut child = git_command()
            .arg("-C")
            .arg(self.path(name))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {arguments:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Creates an empty repository.
    pub fn repository(&self, name: &str) {
        std::fs::create_dir_all(self.path(name)).unwrap();
        self.git(name, &["init", "-q", "-b", "main"]);
    }

    /// Commits these files and returns the hash of the commit.
    pub fn commit(&self, name: &str, files: &[(&str, &str)]) -> ObjectId {
        for (path, content) in files {
            let path = self.path(name).join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        self.git(name, &["add", "-A"]);
        self.git(name, &["commit", "-q", "--allow-empty", "-m", "a commit"]);
        self.id(name, "HEAD")
    }

    pub fn id(&self, name: &str, revision: &str) -> ObjectId {
        id(&self.git(name, &["rev-parse", revision]))
    }

    /// Returns a server of these repositories.
    pub fn server(&self) -> Server {
        Server {
            root: self.root.path().to_owned(),
            login: None,
            protocol: None,
            redirect: None,
            asked: Mutex::default(),
        }
    }
}

pub fn git_command() -> Command {
    let mut command = Command::new("git");
    command.env_clear();
    for name in ["PATH", "LD_LIBRARY_PATH"] {
        if let Ok(value) = std::env::var(name) {
            command.env(name, value);
        }
    }
    for (name, value) in [
        ("HOME", "/nonexistent"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_COUNT", "3"),
        ("GIT_CONFIG_KEY_0", "safe.directory"),
        ("GIT_CONFIG_VALUE_0", "*"),
        ("GIT_CONFIG_KEY_1", "protocol.file.allow"),
        ("GIT_CONFIG_VALUE_1", "always"),
        ("GIT_CONFIG_KEY_2", "uploadpack.allowFilter"),
        ("GIT_CONFIG_VALUE_2", "true"),
        ("GIT_AUTHOR_NAME", "a"),
        ("GIT_AUTHOR_EMAIL", "a@example.com"),
        ("GIT_COMMITTER_NAME", "a"),
        ("GIT_COMMITTER_EMAIL", "a@example.com"),
        ("GIT_AUTHOR_DATE", "2026-01-01T00:00:00Z"),
        ("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z"),
    ] {
        command.env(name, value);
    }
    command
}

pub fn id(hex: &str) -> ObjectId {
    ObjectId::from_hex(hex.as_bytes()).unwrap()
}

/// `git http-backend`, without a socket.
pub struct Server {
    root: PathBuf,
    /// The value of `Authorization` that is accepted.
    pub login: Option<String>,
    /// The protocol version that the server uses, regardless of the requested one.
    pub protocol: Option<&'static str>,
    /// Requests to this host are redirected to that URL and the path.
    pub redirect: Option<(String, String)>,
    /// The method, the URL and the login of each request.
    pub asked: Mutex<Vec<(String, String, Option<String>)>>,
}

#[async_trait]
impl Network for Server {
    async fn request(&self, request: Request<Bytes>) -> Result<Response<Body>, BoxError> {
        let login = request.headers().get("authorization");
        let login = login.map(|login| login.to_str().unwrap().to_owned());
        let url = request.uri().to_string();
        let method = request.method().to_string();
        self.asked
            .lock()
            .unwrap()
            .push((method, url, login.clone()));
        if let Some((from, to)) = &self.redirect
            && request.uri().host() == Some(from)
        {
            let to = format!("{to}{}", request.uri().path_and_query().unwrap());
            return Ok(answer(StatusCode::FOUND, &[("location", &to)], ""));
        }
        if self.login.is_some() && login != self.login {
            return Ok(answer(StatusCode::UNAUTHORIZED, &[], "no"));
        }
        let (root, protocol) = (self.root.clone(), self.protocol);
        tokio::task::spawn_blocking(move || Ok(backend(&root, protocol, &request))).await?
    }

    async fn connect(&self, _: &str, _: u16) -> Result<Box<dyn Duplex>, BoxError> {
        Err("there is no SSH here".into())
    }
}

/// Returns an answer in several chunks.
pub fn answer(
    status: StatusCode,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Response<Body> {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    let body: Bytes = body.into();
    let pieces: Vec<_> = body
        .chunks(1013)
        .map(Bytes::copy_from_slice)
        .map(Ok)
        .collect();
    let body = futures::stream::iter(pieces).boxed();
    response.body(body).unwrap()
}

fn backend(root: &PathBuf, protocol: Option<&str>, request: &Request<Bytes>) -> Response<Body> {
    use std::io::Write;
    let header = |name: &str| {
        let value = request.headers().get(name);
        value
            .map(|value| value.to_str().unwrap())
            .unwrap_or_default()
            .to_owned()
    };
    let asked = header("git-protocol");
    let mut child = git_command()
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", request.uri().path())
        .env("QUERY_STRING", request.uri().query().unwrap_or_default())
        .env("REQUEST_METHOD", request.method().as_str())
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", request.body().len().to_string())
        .env("GIT_PROTOCOL", protocol.unwrap_or(&asked))
        .env("REMOTE_ADDR", "192.0.2.1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(request.body())
        .unwrap();
    let output = child.wait_with_output().unwrap().stdout;
    let end = output
        .windows(4)
        .position(|bytes| bytes == b"\r\n\r\n")
        .unwrap();
    let head = String::from_utf8(output[..end].to_vec()).unwrap();
    let (mut status, mut headers) = (StatusCode::OK, Vec::new());
    for line in head.lines() {
        let (name, value) = line.split_once(": ").unwrap();
        match name {
            "Status" => status = value[..3].parse().unwrap(),
            _ => headers.push((name, value)),
        }
    }
    answer(status, &headers, output[end + 4..].to_vec())
}

/// Returns a remote at a URL, with default limits.
pub fn remote(network: impl Network + 'static, url: &str) -> Remote {
    Remote {
        url: RemoteUrl::parse(url).unwrap(),
        auth: Auth::None,
        network: Arc::new(network),
        limits: Limits::default(),
        plain_login: false,
    }
}

/// Fetches the commit that a reference points to.
pub async fn clone(remote: &Remote, reference: &str) -> Result<FetchedCommit, Error> {
    let found = remote.references(&[reference]).await?;
    let found = found.into_iter().find(|found| found.name == reference);
    let found = found.ok_or_else(|| Error::NotFound(format!("no {reference}")))?;
    let mut options = FetchOptions::default();
    options.references = vec![reference.to_owned()];
    options.tag = found.peeled.map(|_| found.object);
    remote.fetch(found.target(), &options).await
}

/// Lists `PATH=CONTENT` of each file, with `*` after the path of an executable and `@` after that
/// of a link.
pub fn listing(fetched: &FetchedCommit) -> Vec<String> {
    use driftless_manifest::EntryKind as K;
    let line = |(path, entry): (&driftless_manifest::TreePath, &driftless_manifest::Entry)| {
        let mark = match entry.kind {
            K::File => "",
            K::Executable => "*",
            K::Link => "@",
        };
        let content = fetched.files.content(path).unwrap();
        format!("{path}{mark}={}", String::from_utf8_lossy(content))
    };
    fetched.files.index().iter().map(line).collect()
}
