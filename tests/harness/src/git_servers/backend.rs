//! `git http-backend` behind HTTPS and a login.

use super::Repositories;
use crate::runtime::Listening;
use crate::tls::Identity;
use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::http::{Response, header, request};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// The largest body of a request, in bytes.
const LIMIT: usize = 64 << 20;

/// The repositories at `https://127.0.0.1:PORT/NAME`, for one user.
pub struct HttpServer {
    server: Listening,
    authority: String,
}

struct Backend {
    root: PathBuf,
    /// The value of the header `Authorization`.
    login: String,
    user: String,
}

impl HttpServer {
    /// Starts the server; each request needs the login.
    pub fn start(repositories: &Repositories, user: &str, password: &str) -> Self {
        let pair = STANDARD.encode(format!("{user}:{password}"));
        let backend = Arc::new(Backend {
            root: repositories.path().to_owned(),
            login: format!("Basic {pair}"),
            user: user.to_owned(),
        });
        let identity = Identity::new();
        let authority = identity.authority.clone();
        let app = Router::new().fallback(move |request: Request| {
            let backend = Arc::clone(&backend);
            async move {
                let (parts, body) = request.into_parts();
                let body = to_bytes(body, LIMIT).await.unwrap_or_default();
                let work = move || backend.answer(&parts, &body);
                let answer = tokio::task::spawn_blocking(work).await;
                answer.expect("git http-backend")
            }
        });
        Self {
            server: Listening::start(app, Some(identity)),
            authority,
        }
    }

    /// Returns the URL of a repository.
    pub fn url(&self, name: &str) -> String {
        format!("https://{}/{name}", self.server.address())
    }

    /// Returns the certificate of the server's authority, in PEM.
    pub fn authority(&self) -> &str {
        &self.authority
    }
}

impl Backend {
    fn answer(&self, parts: &request::Parts, body: &Bytes) -> Response<Body> {
        let header = |name: &str| {
            let value = parts.headers.get(name);
            value.and_then(|value| value.to_str().ok()).unwrap_or("")
        };
        if header("authorization") != self.login {
            let mut refused = Response::new(Body::from("login needed"));
            *refused.status_mut() = axum::http::StatusCode::UNAUTHORIZED;
            let basic = header::HeaderValue::from_static("Basic realm=\"git\"");
            refused
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, basic);
            return refused;
        }
        let mut git = Command::new("git");
        git.arg("http-backend")
            .env("GIT_PROJECT_ROOT", &self.root)
            .env("GIT_HTTP_EXPORT_ALL", "1")
            .env("REMOTE_USER", &self.user)
            .env("REMOTE_ADDR", "127.0.0.1")
            .env("REQUEST_METHOD", parts.method.as_str())
            .env("PATH_INFO", parts.uri.path())
            .env("QUERY_STRING", parts.uri.query().unwrap_or_default())
            .env("CONTENT_TYPE", header("content-type"))
            .env("CONTENT_LENGTH", body.len().to_string())
            .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
            .env("GIT_PROTOCOL", header("git-protocol"));
        let streams = git.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = streams.spawn().expect("start git http-backend");
        let mut input = child.stdin.take().expect("a pipe");
        let body = body.clone();
        // Git may answer before it has read everything.
        let writer = std::thread::spawn(move || drop(input.write_all(&body)));
        let output = child.wait_with_output().expect("run git http-backend");
        writer.join().expect("write the body");
        cgi(&output.stdout)
    }
}

/// Parses the output of a CGI program.
fn cgi(output: &[u8]) -> Response<Body> {
    let end = output.windows(4).position(|four| four == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(output)));
    let mut response = Response::builder();
    for line in String::from_utf8_lossy(&output[..end]).lines() {
        let (name, value) = line.split_once(": ").expect("a header");
        response = match name {
            "Status" => response.status(value.split(' ').next().expect("a status")),
            name => response.header(name, value),
        };
    }
    let body = Body::from(output[end + 4..].to_vec());
    response.body(body).expect("an answer")
}
