//! The administration of a project of GitLab.
//!
//! Endpoints and fields: GitLab REST API v4 ("Projects", "Groups", "Branches", "Repository files",
//! "Commits", "Deploy keys").

use super::{
    Client, NewRepository, RepositoryAdministration, Visibility, is_same_key, known_key, too_long,
};
use crate::git::github::{NewFile, Outcome, if_exists};
use crate::percent::encode;
use async_trait::async_trait;
use driftless_kernel::ports::{ErrorKind, PortError, Result, Secret};
use serde::Deserialize;
use serde_json::json;

/// The limit of the number of pages of deploy keys.
const PAGES: usize = 20;

/// A client for the administration of one project.
pub struct GitLabRepository(Client);

#[derive(Deserialize)]
struct Id {
    id: u64,
}

#[derive(Deserialize)]
struct Project {
    /// Absent in a project without a commit.
    default_branch: Option<String>,
}

#[derive(Deserialize)]
struct Commit {
    id: String,
}

#[derive(Deserialize)]
struct DeployKey {
    key: String,
    #[serde(default)]
    can_push: bool,
}

impl GitLabRepository {
    /// Creates a client for the project `owner/name` at an API such as
    /// `https://gitlab.com/api/v4`. The owner is a user, or a group with the groups above it.
    ///
    /// # Errors
    /// Fails if the URL is not valid, or if the token is not valid in a header.
    pub fn new(api: &str, token: &Secret, owner: &str, name: &str) -> Result<Self> {
        Client::new("GitLab", api, token, owner, name).map(Self)
    }

    /// Returns the path of the project in the API.
    fn project(&self, rest: &str) -> String {
        let name = encode(&format!("{}/{}", self.0.owner, self.0.name));
        format!("/projects/{name}{rest}")
    }

    /// Reads a file of a branch; returns `None` if it does not exist.
    async fn file(&self, branch: &str, path: &str) -> Result<Option<Vec<u8>>> {
        let (path, branch) = (encode(path), encode(branch));
        let path = self.project(&format!("/repository/files/{path}/raw?ref={branch}"));
        let answer = if_exists(self.0.get(&path).await)?;
        Ok(answer.map(|answer| answer.body.to_vec()))
    }

    async fn has_branch(&self, branch: &str) -> Result<bool> {
        let path = self.project(&format!("/repository/branches/{}", encode(branch)));
        Ok(if_exists(self.0.get(&path).await)?.is_some())
    }
}

#[async_trait]
impl RepositoryAdministration for GitLabRepository {
    async fn create(&self, new: &NewRepository<'_>) -> Result<Outcome> {
        if if_exists(self.0.get(&self.project("")).await)?.is_some() {
            return Ok(Outcome::Unchanged);
        }
        let visibility = match new.visibility {
            Visibility::Private => "private",
            Visibility::Internal => "internal",
            Visibility::Public => "public",
        };
        let mut body = json!({"name": self.0.name, "path": self.0.name, "visibility": visibility,
            "initialize_with_readme": true, "default_branch": new.branch});
        if !new.personal {
            let path = format!("/groups/{}?with_projects=false", encode(&self.0.owner));
            let Some(group) = if_exists(self.0.get(&path).await)? else {
                let message = format!(
                    "GitLab has no group {}, or the token may not read it; for the project of a user give --personal",
                    self.0.owner
                );
                return Err(PortError::new(ErrorKind::NotFound, message));
            };
            body["namespace_id"] = group.json::<Id>("a group")?.id.into();
        }
        self.0.post("/projects".to_owned(), body).await?;
        Ok(Outcome::Created)
    }

    async fn commit(
        &self,
        branch: &str,
        files: &[NewFile],
        message: &str,
    ) -> Result<Option<String>> {
        let is_new = !self.has_branch(branch).await?;
        let project: Project = self.0.get(&self.project("")).await?.json("a project")?;
        // The first commit of a project creates its branch.
        let from = match is_new {
            false => Some(branch.to_owned()),
            true => project.default_branch,
        };
        let mut actions = Vec::new();
        for NewFile { path, text, unless } in files {
            let Some(from) = &from else {
                actions.push(json!({"action": "create", "file_path": path, "content": text}));
                continue;
            };
            let found = self.file(from, path).await?;
            let mut is_there = found.as_deref() == Some(text.as_bytes());
            for other in unless {
                is_there = is_there || self.file(from, other).await?.is_some();
            }
            if !is_there {
                let action = if found.is_some() { "update" } else { "create" };
                actions.push(json!({"action": action, "file_path": path, "content": text}));
            }
        }
        if actions.is_empty() && !is_new {
            return Ok(None);
        }
        if let (true, Some(from)) = (actions.is_empty(), &from) {
            // The default branch has the files, and the new branch has nothing else.
            let path = self.project(&format!(
                "/repository/branches?branch={}&ref={}",
                encode(branch),
                encode(from)
            ));
            let answer = self.0.post(path, json!({})).await?;
            #[derive(Deserialize)]
            struct Branch {
                commit: Commit,
            }
            return Ok(Some(answer.json::<Branch>("a branch")?.commit.id));
        }
        let mut body = json!({"branch": branch, "commit_message": message, "actions": actions});
        if let (true, Some(from)) = (is_new, from) {
            body["start_branch"] = from.into();
        }
        let answer = self
            .0
            .post(self.project("/repository/commits"), body)
            .await?;
        Ok(Some(answer.json::<Commit>("a commit")?.id))
    }

    async fn deploy_key(&self, title: &str, key: &str, read_only: bool) -> Result<Outcome> {
        let mut next = Some(self.project("/deploy_keys?per_page=100"));
        for _ in 0..PAGES {
            let Some(path) = next.take() else { break };
            let answer = self.0.get(&path).await?;
            let keys: Vec<DeployKey> = answer.json("deploy keys")?;
            if let Some(known) = keys.iter().find(|known| is_same_key(&known.key, key)) {
                return known_key(!known.can_push, read_only);
            }
            next = answer.next_page();
        }
        if next.is_some() {
            return Err(too_long("deploy keys"));
        }
        let body = json!({"title": title, "key": key.trim(), "can_push": !read_only});
        self.0.post(self.project("/deploy_keys"), body).await?;
        Ok(Outcome::Created)
    }

    /// Returns an empty string: GitLab's API has no SSH keys of the host.
    async fn known_hosts(&self, _: &str) -> Result<String> {
        Ok(String::new())
    }
}
