//! Pull requests and their comments.

use serde_json::{Value, json};

use super::repository::Repository;
use super::{Delivery, GitHub, State, json as shape};

/// The stub's data of a pull request.
#[derive(Clone, Debug)]
pub(crate) struct Pull {
    pub(super) number: u64,
    pub(super) title: String,
    /// The branch with the changes; `base` is the branch to merge into.
    pub(super) head: String,
    pub(super) base: String,
    /// The full name of the fork that has the head; `None` for the repository itself.
    pub(super) fork: Option<String>,
    pub(super) is_open: bool,
    pub(super) comments: Vec<Value>,
}

/// A pull request and the deliveries of its webhooks.
#[derive(Clone, Debug)]
pub struct PullRequest {
    /// The number of the pull request in the repository.
    pub number: u64,
    /// The commit at its head.
    pub head_sha: String,
    /// The deliveries of the webhook, one for each hook.
    pub deliveries: Vec<Delivery>,
}

impl GitHub {
    /// Opens a pull request for a branch and sends the `pull_request` webhook.
    pub fn open_pull_request(
        &self,
        repository: &Repository,
        head: &str,
        base: &str,
    ) -> PullRequest {
        self.open(repository, head, base, None)
    }

    /// Opens a pull request of a fork. The repository itself also has the branch, because a fork
    /// shares its commits.
    pub fn open_pull_request_of_fork(
        &self,
        repository: &Repository,
        head: &str,
        base: &str,
        fork: &str,
    ) -> PullRequest {
        self.open(repository, head, base, Some(fork.to_owned()))
    }

    /// Closes a pull request without a webhook.
    pub fn close_pull_request(&self, repository: &Repository, number: u64) {
        let mut state = self.shared.state();
        let list = state.pulls.entry(key(repository)).or_default();
        for pull in list.iter_mut().filter(|pull| pull.number == number) {
            pull.is_open = false;
        }
    }

    fn open(
        &self,
        repository: &Repository,
        head: &str,
        base: &str,
        fork: Option<String>,
    ) -> PullRequest {
        let mut state = self.shared.state();
        let list = state.pulls.entry(key(repository)).or_default();
        let number = list.len() as u64 + 1;
        list.push(Pull {
            number,
            title: format!("Merge {head}"),
            head: head.to_owned(),
            base: base.to_owned(),
            fork,
            is_open: true,
            comments: Vec::new(),
        });
        drop(state);
        self.announce_pull_request(repository, number, "opened")
    }

    /// Sends the `pull_request` webhook with an action: `synchronize` after a
    /// push to its head, `reopened`, `closed` …
    pub fn announce_pull_request(
        &self,
        repository: &Repository,
        number: u64,
        action: &str,
    ) -> PullRequest {
        let pull = find(&self.shared.state(), repository, number);
        let pull = pull
            .unwrap_or_else(|| panic!("{} has no pull request {number}", repository.full_name()));
        let head_sha = repository.resolve(&pull.head).expect("the head's branch");
        repository.git(["update-ref", &format!("refs/pull/{number}/head"), &head_sha]);
        let mut payload = json!({
            "action": action,
            "number": number,
            "pull_request": describe(self.url(), repository, &pull),
            "repository": shape::repository(self.url(), repository),
            "sender": shape::owner(self.url(), "tester"),
        });
        if let Some((_, installation)) = self.shared.state().access.installed(repository) {
            payload["installation"] = json!({"id": installation, "node_id": "MDIz"});
        }
        PullRequest {
            number,
            head_sha,
            deliveries: self.deliver("pull_request", &payload),
        }
    }

    /// Returns the comments of a pull request, oldest first.
    pub fn comments(&self, repository: &Repository, number: u64) -> Vec<Value> {
        let pull = find(&self.shared.state(), repository, number);
        pull.map(|pull| pull.comments).unwrap_or_default()
    }
}

fn key(repository: &Repository) -> String {
    repository.full_name().to_lowercase()
}

pub(super) fn find(state: &State, repository: &Repository, number: u64) -> Option<Pull> {
    let list = state.pulls.get(&key(repository))?;
    list.iter().find(|pull| pull.number == number).cloned()
}

/// Adds a comment; returns `None` if the pull request does not exist.
pub(super) fn comment(
    state: &mut State,
    url: &str,
    repository: &Repository,
    number: u64,
    author: &str,
    body: &Value,
) -> Option<Value> {
    state.last_comment += 1;
    let id = state.last_comment;
    let list = state.pulls.get_mut(&key(repository))?;
    let pull = list.iter_mut().find(|pull| pull.number == number)?;
    let name = repository.full_name();
    let comment = json!({
        "id": id,
        "node_id": format!("IC_{id}"),
        "url": format!("{url}/repos/{name}/issues/comments/{id}"),
        "html_url": format!("https://github.com/{name}/pull/{number}#issuecomment-{id}"),
        "issue_url": format!("{url}/repos/{name}/issues/{number}"),
        "body": body["body"],
        "user": shape::owner(url, author),
        "author_association": "NONE",
        "created_at": "2026-01-01T00:00:00Z",
        "updated_at": "2026-01-01T00:00:00Z",
    });
    pull.comments.push(comment.clone());
    Some(comment)
}

/// Changes a comment's text; returns `None` if the repository has no such comment.
pub(super) fn edit(
    state: &mut State,
    repository: &Repository,
    id: u64,
    body: &Value,
) -> Option<Value> {
    let list = state.pulls.get_mut(&key(repository))?;
    let mut comments = list.iter_mut().flat_map(|pull| pull.comments.iter_mut());
    let comment = comments.find(|comment| comment["id"] == id)?;
    comment["body"] = body["body"].clone();
    Some(comment.clone())
}

/// Deletes a comment; returns `None` if the repository has no such comment.
pub(super) fn delete(state: &mut State, repository: &Repository, id: u64) -> Option<()> {
    let list = state.pulls.get_mut(&key(repository))?;
    let pull = list
        .iter_mut()
        .find(|pull| pull.comments.iter().any(|comment| comment["id"] == id))?;
    pull.comments.retain(|comment| comment["id"] != id);
    Some(())
}

pub(super) fn describe(url: &str, repository: &Repository, pull: &Pull) -> Value {
    let name = repository.full_name();
    let number = pull.number;
    let api = format!("{url}/repos/{name}");
    let side = |branch: &str| {
        json!({
            "label": format!("{}:{branch}", repository.owner()),
            "ref": branch,
            "sha": repository.resolve(branch),
            "user": shape::owner(url, repository.owner()),
            "repo": shape::repository(url, repository),
        })
    };
    let mut head = side(&pull.head);
    if let Some(fork) = &pull.fork {
        let (owner, _) = fork.split_once('/').unwrap_or_default();
        head["label"] = format!("{owner}:{}", pull.head).into();
        head["repo"]["full_name"] = fork.clone().into();
        head["repo"]["fork"] = true.into();
        head["repo"]["html_url"] = format!("https://github.com/{fork}").into();
    }
    json!({
        "id": 1000 + number,
        "node_id": format!("PR_{number}"),
        "number": number,
        "state": if pull.is_open { "open" } else { "closed" },
        "locked": false,
        "draft": false,
        "title": pull.title,
        "body": null,
        "user": shape::owner(url, "tester"),
        "url": format!("{api}/pulls/{number}"),
        "html_url": format!("https://github.com/{name}/pull/{number}"),
        "diff_url": format!("https://github.com/{name}/pull/{number}.diff"),
        "patch_url": format!("https://github.com/{name}/pull/{number}.patch"),
        "issue_url": format!("{api}/issues/{number}"),
        "commits_url": format!("{api}/pulls/{number}/commits"),
        "review_comments_url": format!("{api}/pulls/{number}/comments"),
        "review_comment_url": format!("{api}/pulls/comments{{/number}}"),
        "comments_url": format!("{api}/issues/{number}/comments"),
        "statuses_url": format!("{api}/statuses/{}", repository.resolve(&pull.head).unwrap_or_default()),
        "head": head,
        "base": side(&pull.base),
        "author_association": "CONTRIBUTOR",
        "merged": false,
        "mergeable": true,
        "merge_commit_sha": null,
        "created_at": "2026-01-01T00:00:00Z",
        "updated_at": "2026-01-01T00:00:00Z",
    })
}

/// Returns the files that a pull request changes since the common ancestor with its base.
pub(super) fn files(url: &str, repository: &Repository, pull: &Pull) -> Value {
    let ends = repository
        .resolve(&pull.base)
        .zip(repository.resolve(&pull.head));
    ends.and_then(|(base, head)| shape::comparison(url, repository, &base, &head))
        .map_or_else(|| json!([]), |mut comparison| comparison["files"].take())
}
