//! The operations of `driftless bootstrap github` on a repository: create it, commit files, create
//! a webhook and a deploy key.
//!
//! Endpoints and fields: GitHub REST API, version 2022-11-28 ("Repositories", "Git database",
//! "Repository contents", "Repository webhooks", "Deploy keys", "Meta").

use super::client::{Api, ApiRequest, ApiResponse};
use super::login::bearer;
use driftless_kernel::ports::{ErrorKind, PortError, Result, Secret};
use http::{HeaderValue, Method, header};
use serde::Deserialize;
use serde_json::{Value, json};

/// The number of attempts to push a commit while others push to the same branch.
const ATTEMPTS: usize = 3;
/// The limit of the number of pages of webhooks or deploy keys.
const PAGES: usize = 20;

/// The events of a webhook: pushes, and the pull requests that the function `plan` comments on.
const EVENTS: [&str; 2] = ["push", "pull_request"];

/// A client for the administration of one repository.
pub struct RepositorySetup {
    api: Api,
    login: HeaderValue,
    owner: String,
    name: String,
}

/// A file to commit.
#[derive(Clone, Debug)]
pub struct NewFile {
    /// The path of the file in the repository.
    pub path: String,
    /// The content of the file.
    pub text: String,
    /// The paths of files that prevent the write if one of them exists.
    pub unless: Vec<String>,
}

/// The outcome of an operation that creates or updates something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It did not exist and was created.
    Created,
    /// It existed with other values and was updated.
    Updated,
    /// It existed with the requested values.
    Unchanged,
}

#[derive(Deserialize)]
struct Reference {
    object: Sha,
}

#[derive(Deserialize)]
struct Sha {
    sha: String,
}

#[derive(Deserialize)]
struct Commit {
    tree: Sha,
}

#[derive(Deserialize)]
struct Hook {
    id: u64,
    #[serde(default)]
    events: Vec<String>,
    config: HookConfig,
}

#[derive(Deserialize)]
struct HookConfig {
    #[serde(default)]
    url: String,
}

#[derive(Deserialize)]
struct DeployKey {
    key: String,
    #[serde(default)]
    read_only: bool,
}

#[derive(Deserialize)]
struct Meta {
    #[serde(default)]
    ssh_keys: Vec<String>,
}

impl RepositorySetup {
    /// Creates a client for the repository `owner/name` at an API such as `https://api.github.com`.
    ///
    /// # Errors
    /// Fails if the URL is not valid, or if the token is not valid in a header.
    pub fn new(api: &str, token: &Secret, owner: &str, name: &str) -> Result<Self> {
        Ok(Self {
            api: Api::new(api.trim_end_matches('/'))?,
            login: bearer(token)?,
            owner: owner.to_owned(),
            name: name.to_owned(),
        })
    }

    /// Creates the repository, with a first commit, if it does not exist.
    ///
    /// # Errors
    /// Fails if a request to GitHub does.
    pub async fn create(&self, personal: bool, private: bool) -> Result<Outcome> {
        if if_exists(self.get("").await)?.is_some() {
            return Ok(Outcome::Unchanged);
        }
        let path = match personal {
            true => "/user/repos".to_owned(),
            false => format!("/orgs/{}/repos", self.owner),
        };
        let body = json!({"name": self.name, "private": private, "auto_init": true});
        self.send(Method::POST, path, body).await?;
        Ok(Outcome::Created)
    }

    /// Reads a file at a commit; returns `None` if it does not exist.
    async fn file(&self, commit: &str, path: &str) -> Result<Option<String>> {
        let mut request = self.request(
            Method::GET,
            self.path(&format!("/contents/{path}?ref={commit}")),
        );
        let raw = HeaderValue::from_static("application/vnd.github.raw+json");
        request.headers.push((header::ACCEPT, raw));
        let Some(answer) = if_exists(self.api.ask(request).await)? else {
            return Ok(None);
        };
        match String::from_utf8(answer.body.to_vec()) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(PortError::new(
                ErrorKind::Invalid,
                format!("{path} of the repository is not UTF-8"),
            )),
        }
    }

    /// Commits files to a branch, which is created from the default branch if it does not exist.
    /// Returns the commit's SHA; `None` if all files are up to date.
    ///
    /// # Errors
    /// Fails if a request to GitHub does, for example because branch protection refuses the push.
    pub async fn commit(
        &self,
        branch: &str,
        files: &[NewFile],
        message: &str,
    ) -> Result<Option<String>> {
        let mut refused = None;
        for _ in 0..ATTEMPTS {
            match self.try_commit(branch, files, message).await {
                // Not a fast-forward: there was another push in the meantime.
                Err(error) if error.message.contains("fast forward") => refused = Some(error),
                done => return done,
            }
        }
        let conflict = "other pushes to the branch prevent the commit";
        Err(refused.unwrap_or_else(|| PortError::new(ErrorKind::Conflict, conflict)))
    }

    async fn try_commit(
        &self,
        branch: &str,
        files: &[NewFile],
        message: &str,
    ) -> Result<Option<String>> {
        let (head, is_new) = match self.head(branch).await? {
            Some(head) => (head, false),
            None => self.default_head(branch).await?,
        };
        let mut changed = Vec::new();
        for NewFile { path, text, unless } in files {
            let mut is_there = self.file(&head, path).await?.as_ref() == Some(text);
            for other in unless {
                is_there = is_there || self.file(&head, other).await?.is_some();
            }
            if !is_there {
                changed
                    .push(json!({"path": path, "mode": "100644", "type": "blob", "content": text}));
            }
        }
        if changed.is_empty() && !is_new {
            return Ok(None);
        }
        let sha = match changed.is_empty() {
            true => head,
            false => self.make_commit(&head, changed, message).await?,
        };
        let (method, path, body) = match is_new {
            true => (
                Method::POST,
                "/git/refs".to_owned(),
                json!({"ref": format!("refs/heads/{branch}"), "sha": sha}),
            ),
            false => (
                Method::PATCH,
                format!("/git/refs/heads/{branch}"),
                json!({"sha": sha, "force": false}),
            ),
        };
        self.send(method, self.path(&path), body).await?;
        Ok(Some(sha))
    }

    async fn make_commit(&self, head: &str, tree: Vec<Value>, message: &str) -> Result<String> {
        let answer = self.get(&format!("/git/commits/{head}")).await?;
        let base: Commit = answer.json("a commit")?;
        let body = json!({"base_tree": base.tree.sha, "tree": tree});
        let answer = self
            .send(Method::POST, self.path("/git/trees"), body)
            .await?;
        let tree: Sha = answer.json("a tree")?;
        let body = json!({"message": message, "tree": tree.sha, "parents": [head]});
        let answer = self
            .send(Method::POST, self.path("/git/commits"), body)
            .await?;
        Ok(answer.json::<Sha>("a commit")?.sha)
    }

    /// Returns the commit of a branch; `None` if the branch does not exist.
    async fn head(&self, branch: &str) -> Result<Option<String>> {
        match self.get(&format!("/git/ref/heads/{branch}")).await {
            // GitHub answers with a conflict if the repository has no commit.
            Err(error) if error.kind == ErrorKind::Conflict => Ok(None),
            answer => if_exists(answer)?
                .map(|answer| Ok(answer.json::<Reference>("a reference")?.object.sha))
                .transpose(),
        }
    }

    /// Returns the commit from which a branch starts, and whether the branch must still be created.
    /// A repository without a commit gets one first, because GitHub creates no trees and commits in
    /// an empty repository.
    async fn default_head(&self, branch: &str) -> Result<(String, bool)> {
        #[derive(Deserialize)]
        struct Repository {
            default_branch: String,
        }
        let repository: Repository = self.get("").await?.json("a repository")?;
        if let Some(head) = self.head(&repository.default_branch).await? {
            return Ok((head, true));
        }
        let body = json!({"message": "Initial commit", "content": "", "branch": branch});
        let path = self.path("/contents/.gitkeep");
        self.send(Method::PUT, path, body).await?;
        match self.head(branch).await? {
            Some(head) => Ok((head, false)),
            None => {
                let message = "the repository has no commit, and the first commit failed";
                Err(PortError::new(ErrorKind::Unreadable, message))
            }
        }
    }

    /// Creates a webhook for pushes and pull requests, or updates the one with this URL. Its secret
    /// is always set, because it cannot be read. An installation without plans ignores the events
    /// of pull requests.
    ///
    /// # Errors
    /// Fails if a request to GitHub does.
    pub async fn webhook(&self, url: &str, secret: &Secret) -> Result<Outcome> {
        let secret = secret.expose_str().unwrap_or_default();
        let config =
            json!({"url": url, "content_type": "json", "secret": secret, "insecure_ssl": "0"});
        let hooks: Vec<Hook> = self.list("/hooks", "webhooks").await?;
        let body = json!({"name": "web", "active": true, "events": EVENTS, "config": config});
        let Some(hook) = hooks.into_iter().find(|hook| hook.config.url == url) else {
            self.send(Method::POST, self.path("/hooks"), body).await?;
            return Ok(Outcome::Created);
        };
        let mut events = hook.events;
        for wanted in EVENTS {
            if !events.iter().any(|event| event == wanted || event == "*") {
                events.push(wanted.to_owned());
            }
        }
        let body = json!({"active": true, "events": events, "config": config});
        let path = self.path(&format!("/hooks/{}", hook.id));
        self.send(Method::PATCH, path, body).await?;
        Ok(Outcome::Updated)
    }

    /// Adds a public key, a line of `authorized_keys`, as a deploy key.
    ///
    /// # Errors
    /// Fails if a request to GitHub does, or if the key exists with other rights.
    pub async fn deploy_key(&self, title: &str, key: &str, read_only: bool) -> Result<Outcome> {
        let body_of = |key: &str| {
            let mut parts = key.split_whitespace().map(str::to_owned);
            (parts.next(), parts.next())
        };
        let keys: Vec<DeployKey> = self.list("/keys", "deploy keys").await?;
        let known = keys
            .iter()
            .find(|known| body_of(&known.key) == body_of(key));
        if let Some(known) = known {
            return match known.read_only == read_only {
                true => Ok(Outcome::Unchanged),
                false => Err(PortError::new(
                    ErrorKind::Conflict,
                    "the repository has this deploy key with other rights: delete it there",
                )),
            };
        }
        let body = json!({"title": title, "key": key.trim(), "read_only": read_only});
        self.send(Method::POST, self.path("/keys"), body).await?;
        Ok(Outcome::Created)
    }

    /// Returns the host's SSH keys from the API as lines of `known_hosts`; an empty string if the
    /// API has none.
    ///
    /// # Errors
    /// Fails if the request to GitHub does.
    pub async fn known_hosts(&self, host: &str) -> Result<String> {
        let request = self.request(Method::GET, "/meta".to_owned());
        let Some(answer) = if_exists(self.api.ask(request).await)? else {
            return Ok(String::new());
        };
        let meta: Meta = answer.json("the API's meta data")?;
        let is_plain = |key: &&String| !key.contains(['\n', '\r']);
        let lines = meta.ssh_keys.iter().filter(is_plain);
        Ok(lines.map(|key| format!("{host} {key}\n")).collect())
    }

    async fn list<T: for<'de> Deserialize<'de>>(&self, rest: &str, kind: &str) -> Result<Vec<T>> {
        let mut all = Vec::new();
        let mut next = Some(self.path(&format!("{rest}?per_page=100")));
        for _ in 0..PAGES {
            let Some(path) = next.take() else {
                return Ok(all);
            };
            let answer = self.api.ask(self.request(Method::GET, path)).await?;
            all.extend(answer.json::<Vec<T>>(kind)?);
            next = answer.next_page();
        }
        match next {
            None => Ok(all),
            Some(_) => Err(PortError::new(
                ErrorKind::Invalid,
                format!("the repository has more than {} {kind}", PAGES * 100),
            )),
        }
    }

    fn path(&self, rest: &str) -> String {
        format!("/repos/{}/{}{rest}", self.owner, self.name)
    }

    async fn get(&self, rest: &str) -> Result<ApiResponse> {
        let request = self.request(Method::GET, self.path(rest));
        self.api.ask(request).await
    }

    async fn send(&self, method: Method, path: String, body: Value) -> Result<ApiResponse> {
        let mut request = self.request(method, path);
        request.body = Some(body);
        self.api.ask(request).await
    }

    fn request(&self, method: Method, path: String) -> ApiRequest {
        ApiRequest {
            method,
            ..ApiRequest::get(&path, Some(self.login.clone()))
        }
    }
}

/// Returns the answer; `None` if the resource does not exist.
pub(in crate::git) fn if_exists(answer: Result<ApiResponse>) -> Result<Option<ApiResponse>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
