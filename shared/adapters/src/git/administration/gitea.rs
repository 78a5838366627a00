//! The administration of a repository of Gitea.
//!
//! Endpoints and fields: Gitea API v1, version 1.20 or newer ("repository": contents, branches,
//! keys), which Forgejo also has.

use super::{
    Client, NewRepository, RepositoryAdministration, Visibility, is_same_key, known_key, too_long,
};
use crate::git::github::{NewFile, Outcome, if_exists};
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use driftless_kernel::ports::{Result, Secret};
use serde::Deserialize;
use serde_json::json;

/// The number of deploy keys of a page, and the limit of the number of pages.
const PER_PAGE: usize = 50;
const PAGES: usize = 40;

/// A client for the administration of one repository.
pub struct GiteaRepository(Client);

#[derive(Deserialize)]
struct Repository {
    default_branch: String,
    #[serde(default)]
    empty: bool,
}

/// A file, with its content in base64.
#[derive(Deserialize)]
struct Content {
    sha: String,
    content: Option<String>,
}

#[derive(Deserialize)]
struct Changed {
    commit: Sha,
}

#[derive(Deserialize)]
struct Sha {
    sha: String,
}

#[derive(Deserialize)]
struct DeployKey {
    key: String,
    #[serde(default)]
    read_only: bool,
}

impl GiteaRepository {
    /// Creates a client for the repository `owner/name` at an API such as
    /// `https://gitea.com/api/v1`.
    ///
    /// # Errors
    /// Fails if the URL is not valid, or if the token is not valid in a header.
    pub fn new(api: &str, token: &Secret, owner: &str, name: &str) -> Result<Self> {
        Client::new("Gitea", api, token, owner, name).map(Self)
    }

    fn path(&self, rest: &str) -> String {
        format!("/repos/{}/{}{rest}", self.0.owner, self.0.name)
    }

    /// Reads a file of a branch; returns `None` if it does not exist.
    async fn file(&self, branch: &str, path: &str) -> Result<Option<Content>> {
        let path = self.path(&format!("/contents/{path}?ref={branch}"));
        let answer = if_exists(self.0.get(&path).await)?;
        answer.map(|answer| answer.json("a file")).transpose()
    }
}

impl Content {
    fn is(&self, text: &str) -> bool {
        let content = self.content.as_deref().unwrap_or_default();
        let content: String = content.split_whitespace().collect();
        STANDARD
            .decode(content)
            .is_ok_and(|bytes| bytes == text.as_bytes())
    }
}

#[async_trait]
impl RepositoryAdministration for GiteaRepository {
    async fn create(&self, new: &NewRepository<'_>) -> Result<Outcome> {
        if if_exists(self.0.get(&self.path("")).await)?.is_some() {
            return Ok(Outcome::Unchanged);
        }
        let path = match new.personal {
            true => "/user/repos".to_owned(),
            false => format!("/orgs/{}/repos", self.0.owner),
        };
        let body = json!({"name": self.0.name, "private": new.visibility != Visibility::Public,
            "auto_init": true, "default_branch": new.branch});
        self.0.post(path, body).await?;
        Ok(Outcome::Created)
    }

    async fn commit(
        &self,
        branch: &str,
        files: &[NewFile],
        message: &str,
    ) -> Result<Option<String>> {
        let repository: Repository = self.0.get(&self.path("")).await?.json("a repository")?;
        let found = match repository.empty {
            true => None,
            false => if_exists(self.0.get(&self.path(&format!("/branches/{branch}"))).await)?,
        };
        let is_new = found.is_none() && !repository.empty;
        let from = match is_new {
            true => repository.default_branch.as_str(),
            false => branch,
        };
        let mut changes = Vec::new();
        for NewFile { path, text, unless } in files {
            let content = STANDARD.encode(text);
            if repository.empty {
                changes.push(json!({"operation": "create", "path": path, "content": content}));
                continue;
            }
            let found = self.file(from, path).await?;
            let mut is_there = found.as_ref().is_some_and(|found| found.is(text));
            for other in unless {
                is_there = is_there || self.file(from, other).await?.is_some();
            }
            match found {
                _ if is_there => {}
                // With the blob's SHA, a change that another user makes in the meantime is kept.
                Some(Content { sha, .. }) => changes.push(
                    json!({"operation": "update", "path": path, "content": content, "sha": sha}),
                ),
                None => {
                    changes.push(json!({"operation": "create", "path": path, "content": content}))
                }
            }
        }
        if changes.is_empty() && !is_new {
            return Ok(None);
        }
        if changes.is_empty() {
            #[derive(Deserialize)]
            struct Branch {
                commit: BranchCommit,
            }
            #[derive(Deserialize)]
            struct BranchCommit {
                id: String,
            }
            // The default branch has the files, and the new branch has nothing else.
            let body = json!({"new_branch_name": branch, "old_branch_name": from});
            let answer = self.0.post(self.path("/branches"), body).await?;
            return Ok(Some(answer.json::<Branch>("a branch")?.commit.id));
        }
        let mut body = json!({"branch": from, "message": message, "files": changes});
        if is_new {
            body["new_branch"] = branch.into();
        }
        let answer = self.0.post(self.path("/contents"), body).await?;
        Ok(Some(answer.json::<Changed>("a commit")?.commit.sha))
    }

    async fn deploy_key(&self, title: &str, key: &str, read_only: bool) -> Result<Outcome> {
        for page in 1..=PAGES {
            let path = self.path(&format!("/keys?limit={PER_PAGE}&page={page}"));
            let keys: Vec<DeployKey> = self.0.get(&path).await?.json("deploy keys")?;
            if let Some(known) = keys.iter().find(|known| is_same_key(&known.key, key)) {
                return known_key(known.read_only, read_only);
            }
            // A server may have a smaller limit of a page.
            if !keys.is_empty() {
                continue;
            }
            let body = json!({"title": title, "key": key.trim(), "read_only": read_only});
            self.0.post(self.path("/keys"), body).await?;
            return Ok(Outcome::Created);
        }
        Err(too_long("deploy keys"))
    }

    /// Returns an empty string: Gitea's API has no SSH keys of the host.
    async fn known_hosts(&self, _: &str) -> Result<String> {
        Ok(String::new())
    }
}
