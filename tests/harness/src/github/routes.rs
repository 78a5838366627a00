//! The REST endpoints.

use std::sync::Arc;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::access::Caller;
use super::repository::Repository;
use super::server::{Incoming, Service};
use super::setup::{self, Written};
use super::{Shared, State, checks, codeload, faults, json as shape, pulls};

/// The answer of an endpoint, without the headers that every answer has.
enum Reply {
    Json(u16, Value),
    /// A page of a list, and the address of the next one.
    Page(Value, Option<String>),
    Raw(&'static str, Vec<u8>),
    Redirect(String),
    Error(u16, String),
}

impl From<Written> for Reply {
    fn from(written: Written) -> Self {
        match written {
            Ok((status, body)) => Self::Json(status, body),
            Err((status, message)) => error(status, message),
        }
    }
}

const SHA: &str = "application/vnd.github.sha";
const RAW: [&str; 2] = [
    "application/vnd.github.raw",
    "application/vnd.github.raw+json",
];
/// GitHub's SSH host key, as `GET /meta` returns it.
const SSH_KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl";
/// Requests an hour for an authenticated caller, and for anyone.
const LIMITS: (usize, usize) = (5000, 60);

pub(super) const SERVICE: Service = Service {
    name: endpoint,
    answer,
};

fn answer(shared: &Shared, request: &Incoming) -> Response {
    let caller = shared
        .state()
        .access
        .caller(request.header("authorization"));
    let path: Vec<&str> = request.segments.iter().map(String::as_str).collect();
    let reply = match (&caller, path.as_slice()) {
        (Caller::Unknown, _) => error(401, "Bad credentials"),
        (_, ["repos", owner, name, rest @ ..]) => {
            match visible(shared, &caller, &format!("{owner}/{name}")) {
                None => error(404, "Not Found"),
                Some(repository) => Call {
                    shared,
                    request,
                    caller: &caller,
                    repository,
                }
                .route(rest),
            }
        }
        (_, ["app", "installations", id, "access_tokens"]) => access_token(shared, &caller, id),
        (_, ["orgs", owner, "repos"]) if request.method == "POST" => {
            let body = serde_json::from_slice(&request.body).unwrap_or_default();
            Reply::from(setup::create(shared, &caller, owner, &body))
        }
        (Caller::Token(token), ["user"]) if !is_of_app(token) => {
            Reply::Json(200, shape::owner(&shared.url, author(&caller)))
        }
        (_, ["user"]) => error(403, "Resource not accessible by integration"),
        (Caller::App { .. }, ["app"]) => Reply::Json(
            200,
            serde_json::json!({"id": 1, "slug": "driftless", "name": "driftless"}),
        ),
        (_, ["meta"]) => Reply::Json(200, serde_json::json!({"ssh_keys": [SSH_KEY]})),
        _ => error(404, "Not Found"),
    };
    let limit = if matches!(caller, Caller::Anonymous) {
        LIMITS.1
    } else {
        LIMITS.0
    };
    let used = shared.state().calls.len() + 1;
    finish(request, reply, limit, used)
}

/// Returns whether a token is one of the installation of an App.
fn is_of_app(token: &str) -> bool {
    token.starts_with("ghs_")
}

/// Returns the name of a caller, as the author of comments.
fn author(caller: &Caller) -> &'static str {
    match caller {
        Caller::Token(token) if is_of_app(token) => "driftless[bot]",
        _ => "driftless",
    }
}

fn visible(shared: &Shared, caller: &Caller, full_name: &str) -> Option<Arc<Repository>> {
    let state = shared.state();
    let repository = state.repositories.get(&full_name.to_lowercase())?;
    state
        .access
        .may_see(caller, repository)
        .then(|| Arc::clone(repository))
}

/// Returns the endpoint's short name, without references, hashes and paths.
fn endpoint(request: &Incoming) -> String {
    let path: Vec<&str> = request.segments.iter().map(String::as_str).collect();
    match path.as_slice() {
        ["repos", _, _] => "repository".to_owned(),
        ["repos", _, _, "commits", .., "status" | "statuses"] => "statuses".to_owned(),
        ["repos", _, _, "git", kind, ..] => format!("git/{kind}"),
        ["repos", _, _, first, ..] => (*first).to_owned(),
        ["app", "installations", _, "access_tokens"] => "access_tokens".to_owned(),
        _ => "unknown".to_owned(),
    }
}

fn access_token(shared: &Shared, caller: &Caller, id: &str) -> Reply {
    match caller {
        Caller::App { installation } if id.parse() == Ok(*installation) => {
            match shared.state().access.issue(*installation) {
                Some(token) => Reply::Json(201, shape::installation_token(&token)),
                None => error(404, "Not Found"),
            }
        }
        Caller::App { .. } => error(404, "Not Found"),
        _ => error(401, "A JSON web token could not be decoded"),
    }
}

/// One request to one repository.
struct Call<'a> {
    shared: &'a Shared,
    request: &'a Incoming,
    caller: &'a Caller,
    repository: Arc<Repository>,
}

impl Call<'_> {
    fn route(&self, rest: &[&str]) -> Reply {
        match (self.request.method.as_str(), rest) {
            ("GET", []) => Reply::Json(200, shape::repository(self.url(), &self.repository)),
            ("GET", ["commits"]) => self.history(),
            ("GET", ["commits", reference @ .., "status"]) => {
                self.combined_status(&reference.join("/"))
            }
            ("GET", ["commits", reference @ .., "statuses"]) => {
                self.status_list(&reference.join("/"))
            }
            ("GET", ["commits", reference @ ..]) => self.commit(&reference.join("/")),
            ("GET", ["git", "ref", reference @ ..]) => self.reference(&reference.join("/")),
            ("GET", ["git", "refs"]) => self.references("refs/"),
            ("GET", ["git", "matching-refs", start @ ..]) => {
                self.references(&format!("refs/{}", start.join("/")))
            }
            ("GET", ["tags"]) => self.named("refs/tags/"),
            ("GET", ["branches"]) => self.named("refs/heads/"),
            ("GET", ["branches", name @ ..]) => self.branch(&name.join("/")),
            ("GET", ["git", "commits", sha]) => self.git_commit(sha),
            ("GET", ["git", "tags", sha]) => self.git_tag(sha),
            ("GET", ["git", "trees", tree @ ..]) => self.tree(&tree.join("/")),
            ("GET", ["git", "blobs", sha]) => self.blob(sha),
            ("GET", ["contents", path @ ..]) => self.contents(&path.join("/")),
            ("GET", ["compare", range @ ..]) => self.compare(&range.join("/")),
            ("GET", ["tarball"]) => self.tarball("HEAD"),
            ("GET", ["tarball", reference @ ..]) => self.tarball(&reference.join("/")),
            ("GET", ["installation"]) => self.installation(),
            ("POST", ["git", "trees"]) => self.set(|_, body| setup::tree(&self.repository, body)),
            ("POST", ["git", "commits"]) => {
                self.set(|_, body| setup::commit(&self.repository, body))
            }
            ("POST", ["git", "refs"]) => {
                self.set(|_, body| setup::create_reference(&self.repository, self.url(), body))
            }
            ("PATCH", ["git", "refs", name @ ..]) => self.set(|_, body| {
                setup::update_reference(&self.repository, self.url(), &name.join("/"), body)
            }),
            ("PUT", ["contents", path @ ..]) => {
                self.set(|_, body| setup::put_file(&self.repository, &path.join("/"), body))
            }
            ("GET", ["hooks"]) => Reply::Json(200, setup::hooks(&self.shared.state())),
            ("POST", ["hooks"]) => self.set(|state, body| setup::set_hook(state, None, body)),
            ("PATCH", ["hooks", id]) => {
                self.set(|state, body| setup::set_hook(state, id.parse().ok(), body))
            }
            ("GET", ["keys"]) => {
                Reply::Json(200, setup::keys(&self.shared.state(), &self.repository))
            }
            ("POST", ["keys"]) => {
                self.set(|state, body| setup::add_key(state, &self.repository, body))
            }
            ("POST", ["statuses", sha]) => self.post_status(sha),
            ("GET", ["pulls", number]) => self.pull(number, pulls::describe),
            ("GET", ["pulls", number, "files"]) => self.pull(number, pulls::files),
            ("GET", ["issues", number, "comments"]) => {
                self.pull(number, |_, _, pull| Value::Array(pull.comments.clone()))
            }
            ("DELETE", ["issues", "comments", id]) => self.delete_comment(id),
            ("POST", ["check-runs"]) => {
                self.check(|state, body| checks::create(state, &self.repository, body))
            }
            ("PATCH", ["check-runs", id]) => self.check(|state, body| {
                let id = id.parse().unwrap_or_default();
                checks::update(state, &self.repository, id, body)
            }),
            ("POST", ["issues", "comments", id]) => self.edit_comment(id),
            ("PATCH", ["issues", "comments", id]) => self.edit_comment(id),
            ("POST", ["issues", number, "comments"]) => self.comment(number),
            _ => error(404, "Not Found"),
        }
    }

    fn url(&self) -> &str {
        &self.shared.url
    }

    fn accepts(&self, media: &str) -> bool {
        self.request
            .header("accept")
            .split(',')
            .any(|one| one.trim() == media)
    }

    fn commit(&self, reference: &str) -> Reply {
        let Some(sha) = self.repository.resolve(reference) else {
            return error(422, &format!("No commit found for SHA: {reference}"));
        };
        if self.accepts(SHA) || self.accepts("application/vnd.github.v3.sha") {
            return Reply::Raw(
                "application/vnd.github.sha; charset=utf-8",
                sha.into_bytes(),
            );
        }
        Reply::Json(200, shape::commit(self.url(), &self.repository, &sha))
    }

    fn history(&self) -> Reply {
        let from = self.request.query("sha").unwrap_or("HEAD");
        let Some(sha) = self.repository.resolve(from) else {
            return error(409, "Git Repository is empty.");
        };
        let list = self.repository.ask(["rev-list", "--max-count=100", &sha]);
        self.page(&lines(list), |sha| {
            shape::commit(self.url(), &self.repository, sha)
        })
    }

    fn reference(&self, name: &str) -> Reply {
        let full = format!("refs/{name}");
        let hash = self.repository.ask([
            "rev-parse",
            "--verify",
            "--quiet",
            "--end-of-options",
            &full,
        ]);
        match hash {
            Some(hash) => Reply::Json(
                200,
                shape::reference(self.url(), &self.repository, &full, &hash),
            ),
            None if self
                .repository
                .ask(["rev-list", "--all", "--max-count=1"])
                .as_deref()
                == Some("") =>
            {
                error(409, "Git Repository is empty.")
            }
            None => error(404, "Not Found"),
        }
    }

    fn references(&self, start: &str) -> Reply {
        let all = lines(
            self.repository
                .ask(["for-each-ref", "--format=%(objectname) %(refname)"]),
        );
        let matching: Vec<String> = all
            .into_iter()
            .filter(|line| {
                line.split_once(' ')
                    .is_some_and(|(_, name)| name.starts_with(start))
            })
            .collect();
        self.page(&matching, |line| {
            let (hash, name) = line.split_once(' ').unwrap_or_default();
            shape::reference(self.url(), &self.repository, name, hash)
        })
    }

    /// Returns a page of branches or tags, with the commits that they point at.
    fn named(&self, prefix: &str) -> Reply {
        // GitHub lists tags from the newest name to the oldest.
        let order = if prefix == "refs/tags/" {
            "-version:refname"
        } else {
            "refname"
        };
        let sort = format!("--sort={order}");
        let list = self
            .repository
            .ask(["for-each-ref", &sort, "--format=%(refname)", prefix]);
        self.page(&lines(list), |full| {
            let name = full.strip_prefix(prefix).unwrap_or(full);
            let sha = self.repository.resolve(full).unwrap_or_default();
            shape::named(self.url(), &self.repository, name, &sha)
        })
    }

    fn branch(&self, name: &str) -> Reply {
        match self.repository.resolve(&format!("refs/heads/{name}")) {
            Some(sha) => Reply::Json(200, shape::branch(self.url(), &self.repository, name, &sha)),
            None => error(404, "Branch not found"),
        }
    }

    fn git_commit(&self, sha: &str) -> Reply {
        match self.repository.resolve(sha) {
            Some(full) if full == sha => {
                Reply::Json(200, shape::git_commit(self.url(), &self.repository, sha))
            }
            _ => error(404, "Not Found"),
        }
    }

    fn git_tag(&self, sha: &str) -> Reply {
        match self.repository.ask(["cat-file", "tag", sha]) {
            Some(text) => Reply::Json(
                200,
                shape::git_tag(self.url(), &self.repository, sha, &text),
            ),
            None => error(404, "Not Found"),
        }
    }

    fn tree(&self, name: &str) -> Reply {
        let base = self
            .repository
            .resolve(name)
            .unwrap_or_else(|| name.to_owned());
        let tree = format!("{base}^{{tree}}");
        let hash = self.repository.ask([
            "rev-parse",
            "--verify",
            "--quiet",
            "--end-of-options",
            &tree,
        ]);
        let Some(hash) = hash else {
            return error(404, "Not Found");
        };
        let recursive = self.request.query("recursive").is_some();
        Reply::Json(
            200,
            shape::tree(self.url(), &self.repository, &hash, recursive),
        )
    }

    fn blob(&self, sha: &str) -> Reply {
        match self.repository.bytes(["cat-file", "blob", sha]) {
            None => error(404, "Not Found"),
            Some(bytes) if self.accepts_raw() => Reply::Raw("application/vnd.github.raw", bytes),
            Some(bytes) => Reply::Json(200, shape::blob(self.url(), &self.repository, sha, &bytes)),
        }
    }

    fn accepts_raw(&self) -> bool {
        RAW.iter().any(|media| self.accepts(media)) || self.accepts("application/vnd.github.v3.raw")
    }

    fn contents(&self, path: &str) -> Reply {
        let reference = self.request.query("ref").unwrap_or("HEAD");
        let Some(sha) = self.repository.resolve(reference) else {
            return error(404, &format!("No commit found for the ref {reference}"));
        };
        let object = format!("{sha}:{path}");
        match self.repository.ask(["cat-file", "-t", &object]).as_deref() {
            Some("blob") if self.accepts_raw() => Reply::Raw(
                "application/vnd.github.raw; charset=utf-8",
                self.repository
                    .bytes(["cat-file", "blob", &object])
                    .unwrap_or_default(),
            ),
            Some("blob") => Reply::Json(200, shape::file(self.url(), &self.repository, &sha, path)),
            Some("tree") => Reply::Json(
                200,
                shape::directory(self.url(), &self.repository, &sha, path),
            ),
            _ => error(404, "Not Found"),
        }
    }

    fn compare(&self, range: &str) -> Reply {
        let ends = range.split_once("...").and_then(|(base, head)| {
            Some((
                self.repository.resolve(base)?,
                self.repository.resolve(head)?,
            ))
        });
        match ends {
            Some((base, head)) => {
                match shape::comparison(self.url(), &self.repository, &base, &head) {
                    Some(comparison) => Reply::Json(200, comparison),
                    None => error(404, "No common ancestor between the two commits."),
                }
            }
            None => error(404, "Not Found"),
        }
    }

    fn tarball(&self, reference: &str) -> Reply {
        let Some(sha) = self.repository.resolve(reference) else {
            return error(404, "Not Found");
        };
        let token = if self.repository.is_private() {
            format!("?token={}", codeload::token(&sha))
        } else {
            String::new()
        };
        let (host, name) = (&self.shared.codeload, self.repository.full_name());
        Reply::Redirect(format!("{host}/{name}/legacy.tar.gz/{sha}{token}"))
    }

    fn installation(&self) -> Reply {
        match self.shared.state().access.installed(&self.repository) {
            Some((app, id)) if matches!(self.caller, Caller::App { installation } if *installation == id) => {
                Reply::Json(
                    200,
                    shape::installation(self.url(), &self.repository, app, id),
                )
            }
            Some(_) => error(401, "A JSON web token could not be decoded"),
            None => error(404, "Not Found"),
        }
    }

    fn post_status(&self, sha: &str) -> Reply {
        if !self
            .shared
            .state()
            .access
            .may_write(self.caller, &self.repository)
        {
            return error(403, "Resource not accessible by integration");
        }
        if self.repository.resolve(sha).as_deref() != Some(sha) {
            return error(422, &format!("No commit found for SHA: {sha}"));
        }
        let body: Value = match serde_json::from_slice(&self.request.body) {
            Ok(body) => body,
            Err(_) => return error(400, "Problems parsing JSON"),
        };
        let state = body["state"].as_str().unwrap_or_default();
        if !["error", "failure", "pending", "success"].contains(&state) {
            return error(422, "Validation Failed: state");
        }
        if body["description"]
            .as_str()
            .is_some_and(|text| text.chars().count() > 140)
        {
            return error(
                422,
                "Validation Failed: description is too long (maximum is 140 characters)",
            );
        }
        let mut shared = self.shared.state();
        let list = shared.statuses.entry(self.status_key(sha)).or_default();
        let status = shape::status(self.url(), &self.repository, sha, list.len(), &body);
        list.push(status.clone());
        Reply::Json(201, status)
    }

    fn pull(&self, number: &str, view: impl Fn(&str, &Repository, &pulls::Pull) -> Value) -> Reply {
        let number = number.parse().unwrap_or_default();
        let pull = pulls::find(&self.shared.state(), &self.repository, number);
        match pull {
            Some(pull) => Reply::Json(200, view(self.url(), &self.repository, &pull)),
            None => error(404, "Not Found"),
        }
    }

    fn comment(&self, number: &str) -> Reply {
        self.write(201, |state, body| {
            let number = number.parse().ok()?;
            let author = author(self.caller);
            pulls::comment(state, self.url(), &self.repository, number, author, body)
        })
    }

    fn edit_comment(&self, id: &str) -> Reply {
        self.write(200, |state, body| {
            pulls::edit(state, &self.repository, id.parse().ok()?, body)
        })
    }

    fn delete_comment(&self, id: &str) -> Reply {
        let mut state = self.shared.state();
        if !state.access.may_write(self.caller, &self.repository) {
            return error(403, "Resource not accessible by integration");
        }
        let id = id.parse().unwrap_or_default();
        match pulls::delete(&mut state, &self.repository, id) {
            Some(()) => Reply::Json(204, Value::Null),
            None => error(404, "Not Found"),
        }
    }

    /// Runs `work` like [`Call::set`] if the caller is a GitHub App.
    fn check(&self, work: impl FnOnce(&mut State, &Value) -> Written) -> Reply {
        match self.caller {
            Caller::Token(token) if is_of_app(token) => self.set(work),
            _ => error(403, "You must authenticate via a GitHub App."),
        }
    }

    /// Runs `work` with the request's JSON body if the caller may write. `None` is answered with
    /// 404.
    fn write(&self, status: u16, work: impl FnOnce(&mut State, &Value) -> Option<Value>) -> Reply {
        let mut state = self.shared.state();
        if !state.access.may_write(self.caller, &self.repository) {
            return error(403, "Resource not accessible by integration");
        }
        let Ok(body) = serde_json::from_slice::<Value>(&self.request.body) else {
            return error(400, "Problems parsing JSON");
        };
        match work(&mut state, &body) {
            Some(answer) => Reply::Json(status, answer),
            None => error(404, "Not Found"),
        }
    }

    /// Runs `work` like [`Call::write`], but `work` returns GitHub's error.
    fn set(&self, work: impl FnOnce(&mut State, &Value) -> Written) -> Reply {
        let mut state = self.shared.state();
        if !state.access.may_write(self.caller, &self.repository) {
            return error(403, "Resource not accessible by personal access token");
        }
        match serde_json::from_slice::<Value>(&self.request.body) {
            Ok(body) => Reply::from(work(&mut state, &body)),
            Err(_) => error(400, "Problems parsing JSON"),
        }
    }

    fn status_key(&self, sha: &str) -> (String, String) {
        (self.repository.full_name().to_lowercase(), sha.to_owned())
    }

    /// Returns the commit of a reference and its statuses, newest first, as GitHub lists them.
    fn statuses(&self, reference: &str) -> Option<(String, Vec<Value>)> {
        let sha = self.repository.resolve(reference)?;
        let state = self.shared.state();
        let list = state.statuses.get(&self.status_key(&sha));
        Some((sha, list.into_iter().flatten().rev().cloned().collect()))
    }

    fn status_list(&self, reference: &str) -> Reply {
        match self.statuses(reference) {
            Some((_, list)) => Reply::Json(200, Value::Array(list)),
            None => error(404, "Not Found"),
        }
    }

    fn combined_status(&self, reference: &str) -> Reply {
        match self.statuses(reference) {
            Some((sha, list)) => Reply::Json(
                200,
                shape::combined(self.url(), &self.repository, &sha, &list),
            ),
            None => error(404, "Not Found"),
        }
    }

    fn page(&self, all: &[String], item: impl Fn(&str) -> Value) -> Reply {
        let number = |name: &str, default: usize| {
            self.request
                .query(name)
                .and_then(|n| n.parse().ok())
                .unwrap_or(default)
        };
        let size = number("per_page", 30).clamp(1, 100);
        let skip = (number("page", 1).max(1) - 1) * size;
        let items = all.iter().skip(skip).take(size).map(|line| item(line));
        let next = (skip + size < all.len()).then(|| {
            let path = self.request.uri.split('?').next().unwrap_or_default();
            let page = skip / size + 2;
            format!("{}{path}?per_page={size}&page={page}", self.url())
        });
        Reply::Page(items.collect(), next)
    }
}

fn lines(text: Option<String>) -> Vec<String> {
    text.unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect()
}

fn error(status: u16, message: &str) -> Reply {
    Reply::Error(status, message.to_owned())
}

/// Adds the headers of every answer, and answers a conditional request.
fn finish(request: &Incoming, reply: Reply, limit: usize, used: usize) -> Response {
    let mut response = match reply {
        Reply::Error(status, text) => faults::message(status, &text),
        Reply::Redirect(url) => (StatusCode::FOUND, [(header::LOCATION, url)]).into_response(),
        Reply::Json(status, value) => {
            let kind = "application/json; charset=utf-8";
            conditional(request, status, kind, value.to_string().into_bytes())
        }
        Reply::Page(items, next) => {
            let kind = "application/json; charset=utf-8";
            let mut page = conditional(request, 200, kind, items.to_string().into_bytes());
            if let Some(next) = next {
                let link = HeaderValue::from_str(&format!("<{next}>; rel=\"next\""));
                page.headers_mut()
                    .insert(header::LINK, link.expect("a header value"));
            }
            page
        }
        Reply::Raw(kind, bytes) => conditional(request, 200, kind, bytes),
    };
    let reset = 1_900_000_000_u64;
    let headers = [
        ("x-ratelimit-limit", limit.to_string()),
        (
            "x-ratelimit-remaining",
            limit.saturating_sub(used).to_string(),
        ),
        ("x-ratelimit-used", used.to_string()),
        ("x-ratelimit-reset", reset.to_string()),
        ("x-ratelimit-resource", "core".to_owned()),
        ("x-github-request-id", format!("0000:{used:04X}")),
        ("x-github-media-type", "github.v3; format=json".to_owned()),
    ];
    for (name, value) in headers {
        let value = HeaderValue::from_str(&value).expect("a header value");
        response
            .headers_mut()
            .insert(HeaderName::from_static(name), value);
    }
    response
}

fn conditional(request: &Incoming, status: u16, kind: &'static str, body: Vec<u8>) -> Response {
    let code = StatusCode::from_u16(status).expect("an HTTP status");
    if request.method != "GET" {
        return (code, [(header::CONTENT_TYPE, kind)], body).into_response();
    }
    let tag = format!("\"{}\"", hex::encode(Sha256::digest(&body)));
    let known = request.header("if-none-match").split(',');
    // Weak and strong tags compare alike here, as on GitHub.
    if known
        .map(|t| t.trim().trim_start_matches("W/"))
        .any(|t| t == tag)
    {
        return (StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response();
    }
    let headers = [(header::CONTENT_TYPE, kind.to_owned()), (header::ETAG, tag)];
    (code, headers, body).into_response()
}
