//! A stub of the APIs of GitLab (below `/gitlab`) and Gitea (below `/gitea`) with one repository in
//! memory.

use crate::create::runtime;
use axum::Router;
use axum::body::{Bytes, to_bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// The token that may do everything.
pub const TOKEN: &str = "administers";

/// The files of a branch.
pub type Files = BTreeMap<String, String>;

/// The one repository of the stub.
#[derive(Clone, Debug, Default)]
pub struct Repository {
    /// True if it was created.
    pub exists: bool,
    /// The body of the request that created it, with the path.
    pub created: Option<(String, Value)>,
    pub branches: BTreeMap<String, Files>,
    /// The title, the key, and whether it may write.
    pub keys: Vec<(String, String, bool)>,
    /// The number of commits.
    pub commits: usize,
}

/// The running stub.
pub struct Stub {
    url: String,
    state: Arc<Mutex<Repository>>,
    _runtime: Runtime,
}

impl Stub {
    pub fn start() -> Self {
        let runtime = runtime();
        let state = Arc::<Mutex<Repository>>::default();
        let shared = Arc::clone(&state);
        let app = Router::new().fallback(move |request: Request| {
            let shared = Arc::clone(&shared);
            async move { respond(&shared, request).await }
        });
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"));
        let listener = listener.expect("listen");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        runtime.spawn(async move { axum::serve(listener, app).await.expect("serve") });
        Self {
            url,
            state,
            _runtime: runtime,
        }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns a copy of the repository.
    pub fn repository(&self) -> Repository {
        self.state.lock().expect("the state").clone()
    }

    /// Creates the repository with these files on a branch.
    pub fn create(&self, branch: &str, files: &[(&str, &str)]) {
        let files = files.iter();
        let files = files.map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
        let mut state = self.state.lock().expect("the state");
        state.exists = true;
        state.branches.insert(branch.to_owned(), files.collect());
    }
}

/// A request: its method, the parts of its path without encoding, its query and body.
struct Asked {
    method: String,
    parts: Vec<String>,
    query: BTreeMap<String, String>,
    body: Value,
}

type Answer = Result<Value, (u16, &'static str)>;
const MISSING: (u16, &str) = (404, "Not Found");

async fn respond(state: &Mutex<Repository>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body: Bytes = to_bytes(body, 1 << 20).await.expect("a body");
    let login = head.headers.get("authorization");
    let query = head.uri.query().unwrap_or_default().split('&');
    let asked = Asked {
        method: head.method.to_string(),
        parts: head.uri.path().split('/').skip(1).map(decode).collect(),
        query: query
            .filter_map(|pair| pair.split_once('='))
            .map(|(name, value)| (name.to_owned(), decode(value)))
            .collect(),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    };
    let answer = match login.is_some_and(|login| *login == format!("Bearer {TOKEN}")) {
        false => Err((401, "Unauthorized")),
        true => asked.answer(&mut state.lock().expect("the state")),
    };
    match answer {
        Ok(Value::String(text)) => text.into_response(),
        Ok(body) => axum::Json(body).into_response(),
        Err((status, message)) => {
            let status = StatusCode::from_u16(status).expect("a status");
            (status, axum::Json(json!({"message": message}))).into_response()
        }
    }
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let mut digit = || char::from(rest.next().expect("a digit"));
        match byte {
            b'%' => {
                let hex: String = [digit(), digit()].into_iter().collect();
                bytes.push(u8::from_str_radix(&hex, 16).expect("hex"));
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).expect("UTF-8")
}

impl Asked {
    fn text(&self, field: &str) -> String {
        self.body[field].as_str().unwrap_or_default().to_owned()
    }

    fn answer(&self, state: &mut Repository) -> Answer {
        let parts: Vec<&str> = self.parts.iter().map(String::as_str).collect();
        match (self.method.as_str(), parts.as_slice()) {
            ("GET", ["gitlab", "groups", "acme/platform"]) => Ok(json!({"id": 7})),
            ("POST", ["gitlab", "projects"])
            | ("POST", ["gitea", "orgs", "acme", "repos"])
            | ("POST", ["gitea", "user", "repos"]) => {
                state.exists = true;
                state.created = Some((parts.join("/"), self.body.clone()));
                let readme = ("README".to_owned(), "fleet\n".to_owned());
                let branch = self.text("default_branch");
                state.branches.insert(branch, Files::from([readme]));
                Ok(json!({"id": 1}))
            }
            _ if !state.exists => Err(MISSING),
            (
                method,
                [
                    "gitlab",
                    "projects",
                    "acme/platform/fleet" | "me/fleet",
                    rest @ ..,
                ],
            ) => self.gitlab(state, method, rest),
            (method, ["gitea", "repos", "acme" | "me", "fleet", rest @ ..]) => {
                self.gitea(state, method, rest)
            }
            _ => Err(MISSING),
        }
    }

    fn gitlab(&self, state: &mut Repository, method: &str, rest: &[&str]) -> Answer {
        let query = |name: &str| self.query.get(name).cloned().unwrap_or_default();
        match (method, rest) {
            ("GET", []) => Ok(json!({"default_branch": state.branches.keys().next()})),
            ("GET", ["repository", "branches", name]) => {
                let found = state.branches.contains_key(*name);
                found.then(|| json!({"name": name})).ok_or(MISSING)
            }
            ("POST", ["repository", "branches"]) => {
                let files = state.branches.get(&query("ref")).cloned().ok_or(MISSING)?;
                state.branches.insert(query("branch"), files);
                Ok(json!({"commit": {"id": "branched"}}))
            }
            ("GET", ["repository", "files", path, "raw"]) => {
                let files = state.branches.get(&query("ref")).ok_or(MISSING)?;
                files.get(*path).cloned().map(Value::String).ok_or(MISSING)
            }
            ("POST", ["repository", "commits"]) => {
                let actions = self.body["actions"].as_array().expect("actions");
                let change = |one: &Value| {
                    let text = |field: &str| one[field].as_str().expect("a string").to_owned();
                    (text("action"), text("file_path"), text("content"))
                };
                let from = self.text("start_branch");
                self.commit(
                    state,
                    &from,
                    &self.text("branch"),
                    actions.iter().map(change),
                )?;
                Ok(json!({"id": format!("commit{}", state.commits)}))
            }
            ("GET", ["deploy_keys"]) => {
                let keys = state.keys.iter();
                let keys = keys.map(|(_, key, write)| json!({"key": key, "can_push": write}));
                Ok(keys.collect())
            }
            ("POST", ["deploy_keys"]) => {
                let write = self.body["can_push"] == true;
                state
                    .keys
                    .push((self.text("title"), self.text("key"), write));
                Ok(json!({"id": 1}))
            }
            _ => Err(MISSING),
        }
    }

    fn gitea(&self, state: &mut Repository, method: &str, rest: &[&str]) -> Answer {
        match (method, rest) {
            ("GET", []) => {
                let branch = state.branches.keys().next();
                Ok(
                    json!({"default_branch": branch.map_or("main", String::as_str), "empty": branch.is_none()}),
                )
            }
            ("GET", ["branches", name @ ..]) => {
                let found = state.branches.contains_key(&name.join("/"));
                found.then(|| json!({"name": name})).ok_or(MISSING)
            }
            ("GET", ["contents", path @ ..]) => {
                let files = state.branches.get(&self.query["ref"]).ok_or(MISSING)?;
                let text = files.get(&path.join("/")).ok_or(MISSING)?;
                Ok(json!({"sha": text.len().to_string(), "content": STANDARD.encode(text)}))
            }
            ("POST", ["contents"]) => {
                let files = self.body["files"].as_array().expect("files");
                let change = |one: &Value| {
                    let text = |field: &str| one[field].as_str().expect("a string").to_owned();
                    let content = STANDARD.decode(text("content")).expect("base64");
                    let content = String::from_utf8(content).expect("UTF-8");
                    (text("operation"), text("path"), content)
                };
                let (old, new) = (self.text("branch"), self.text("new_branch"));
                let (from, to) = match new.as_str() {
                    "" => (String::new(), old),
                    _ => (old, new),
                };
                self.commit(state, &from, &to, files.iter().map(change))?;
                Ok(json!({"commit": {"sha": format!("commit{}", state.commits)}}))
            }
            ("GET", ["keys"]) if self.query["page"] == "1" => {
                let keys = state.keys.iter();
                let keys = keys.map(|(_, key, write)| json!({"key": key, "read_only": !write}));
                Ok(keys.collect())
            }
            ("GET", ["keys"]) => Ok(json!([])),
            ("POST", ["keys"]) => {
                let write = self.body["read_only"] != true;
                state
                    .keys
                    .push((self.text("title"), self.text("key"), write));
                Ok(json!({"id": 1}))
            }
            _ => Err(MISSING),
        }
    }

    /// Commits changes to a branch, which begins at `from` unless that is empty.
    fn commit(
        &self,
        state: &mut Repository,
        from: &str,
        branch: &str,
        changes: impl Iterator<Item = (String, String, String)>,
    ) -> Result<(), (u16, &'static str)> {
        let start = if from.is_empty() { branch } else { from };
        let mut files = state.branches.get(start).cloned().unwrap_or_default();
        if from.is_empty() != state.branches.contains_key(branch) && !state.branches.is_empty() {
            return Err((400, "the branch exists, or does not exist"));
        }
        for (action, path, text) in changes {
            if (action == "update") != files.contains_key(&path) {
                return Err((
                    400,
                    "A file with this name already exists, or does not exist",
                ));
            }
            files.insert(path, text);
        }
        state.branches.insert(branch.to_owned(), files);
        state.commits += 1;
        Ok(())
    }
}
