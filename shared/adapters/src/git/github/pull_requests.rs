//! Pull requests of GitHub: their state, comments and check runs (GitHub REST API, version
//! 2022-11-28).

use super::client::{ApiRequest, ApiResponse};
use super::{GitHub, Session, hosted};
use crate::percent::encode_path;
use async_trait::async_trait;
use driftless_kernel::ports::{
    Annotation, AnnotationLevel, Check, Comment, Conclusion, ErrorKind, GitAuth, PullRequest,
    PullRequests, Result,
};
use driftless_kernel::repository;
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

/// The name of the check run.
const CHECK: &str = "driftless plan";
/// The most annotations of one request (GitHub Docs, "REST API endpoints for check runs").
const ANNOTATIONS: usize = 50;
/// The limit of the number of pages of comments.
const PAGES: usize = 30;
/// The limits of the texts of a check run in characters.
const MAX_MESSAGE: usize = 4_000;
const MAX_SUMMARY: usize = 60_000;

#[derive(Deserialize)]
struct Pull {
    state: String,
    head: End,
    base: End,
}

#[derive(Deserialize)]
struct End {
    #[serde(rename = "ref")]
    branch: String,
    sha: String,
    repo: Option<Name>,
}

#[derive(Deserialize)]
struct Name {
    full_name: String,
    #[serde(default)]
    private: bool,
}

#[derive(Deserialize)]
struct Comparison {
    merge_base_commit: CommitName,
}

#[derive(Deserialize)]
struct CommitName {
    sha: String,
}

#[derive(Deserialize)]
struct ListedComment {
    id: u64,
    #[serde(default)]
    body: Option<String>,
    user: Option<Author>,
}

#[derive(Deserialize)]
struct Author {
    login: String,
}

#[derive(Deserialize)]
struct Created {
    id: u64,
}

#[async_trait]
impl PullRequests for GitHub {
    async fn pull_request(&self, url: &str, number: u64) -> Result<Option<PullRequest>> {
        self.at(url, async |session| {
            let path = session.path(&format!("pulls/{number}"));
            let answer = session.ask(|login| ApiRequest::get(&path, login)).await;
            let Some(answer) = super::if_exists(answer)? else {
                return Ok(None);
            };
            let pull: Pull = answer.json(&format!("GET {path}"))?;
            let name = |end: &End| end.repo.as_ref().map(|repo| repo.full_name.to_lowercase());
            let is_private = pull.base.repo.as_ref().is_some_and(|repo| repo.private);
            Ok(Some(PullRequest {
                is_public: !is_private,
                is_open: pull.state == "open",
                is_fork: name(&pull.head).is_none() || name(&pull.head) != name(&pull.base),
                head_sha: pull.head.sha,
                base_ref: pull.base.branch,
                base_sha: pull.base.sha,
            }))
        })
        .await
    }

    async fn merge_base(&self, url: &str, base: &str, head: &str) -> Result<String> {
        self.at(url, async |session| {
            let range = encode_path(&format!("{base}...{head}"));
            let path = session.path(&format!("compare/{range}?per_page=1"));
            let answer = session.ask(|login| ApiRequest::get(&path, login)).await?;
            let found: Comparison = answer.json(&format!("GET {path}"))?;
            Ok(found.merge_base_commit.sha)
        })
        .await
    }

    async fn own_comments(&self, url: &str, number: u64) -> Result<Vec<Comment>> {
        self.at(url, async |session| {
            let own = session.own_name().await?;
            let mut next = Some(session.path(&format!("issues/{number}/comments?per_page=100")));
            let mut found = Vec::new();
            for _ in 0..PAGES {
                let Some(path) = next.take() else {
                    break;
                };
                let answer = session.ask(|login| ApiRequest::get(&path, login)).await?;
                let page: Vec<ListedComment> = answer.json(&format!("GET {path}"))?;
                let is_own = |comment: &ListedComment| {
                    let author = comment.user.as_ref();
                    author.is_some_and(|author| author.login.eq_ignore_ascii_case(&own))
                };
                let page = page.into_iter().filter(is_own).map(|comment| Comment {
                    id: comment.id,
                    body: comment.body.unwrap_or_default(),
                });
                found.extend(page);
                next = answer.next_page();
            }
            Ok(found)
        })
        .await
    }

    async fn create_comment(&self, url: &str, number: u64, body: &str) -> Result<u64> {
        self.at(url, async |session| {
            let path = session.path(&format!("issues/{number}/comments"));
            let answer = session
                .write(Method::POST, &path, &json!({"body": body}))
                .await?;
            let created: Created = answer.json(&format!("POST {path}"))?;
            Ok(created.id)
        })
        .await
    }

    async fn edit_comment(&self, url: &str, id: u64, body: &str) -> Result<bool> {
        self.at(url, async |session| {
            let path = session.path(&format!("issues/comments/{id}"));
            let answer = session
                .write(Method::PATCH, &path, &json!({"body": body}))
                .await;
            Ok(super::if_exists(answer)?.is_some())
        })
        .await
    }

    async fn delete_comment(&self, url: &str, id: u64) -> Result<()> {
        self.at(url, async |session| {
            let path = session.path(&format!("issues/comments/{id}"));
            let answer = session
                .ask(|login| ApiRequest {
                    method: Method::DELETE,
                    ..ApiRequest::get(&path, login)
                })
                .await;
            super::if_exists(answer).map(drop)
        })
        .await
    }

    async fn create_check(&self, url: &str, commit: &str, check: &Check) -> Result<Option<u64>> {
        self.at(url, async |session| {
            let path = session.path("check-runs");
            let mut body = content(check, &[]);
            body["name"] = CHECK.into();
            body["head_sha"] = commit.into();
            match session.write(Method::POST, &path, &body).await {
                Ok(answer) => {
                    let created: Created = answer.json(&format!("POST {path}"))?;
                    Ok(Some(created.id))
                }
                Err(error) if error.kind == ErrorKind::Denied => Ok(None),
                Err(error) => Err(error),
            }
        })
        .await
    }

    async fn update_check(&self, url: &str, id: u64, check: &Check) -> Result<()> {
        self.at(url, async |session| {
            let path = session.path(&format!("check-runs/{id}"));
            let mut parts: Vec<&[Annotation]> = check.annotations.chunks(ANNOTATIONS).collect();
            // The last request also has the conclusion.
            let last = parts.pop().unwrap_or_default();
            let open = Check {
                conclusion: None,
                ..check.clone()
            };
            for part in parts {
                let body = content(&open, part);
                session.write(Method::PATCH, &path, &body).await?;
            }
            let body = content(check, last);
            session.write(Method::PATCH, &path, &body).await?;
            Ok(())
        })
        .await
    }
}

impl GitHub {
    /// Runs requests on the repository at a URL, with the installation's own login.
    async fn at<T>(
        &self,
        url: &str,
        requests: impl AsyncFnOnce(Session<'_>) -> Result<T>,
    ) -> Result<T> {
        let place = repository::place(url)?;
        let auth = GitAuth::Installation;
        requests(self.session(hosted(&place)?, &auth)).await
    }
}

impl Session<'_> {
    /// Sends a request that writes.
    async fn write(&self, method: Method, path: &str, body: &Value) -> Result<ApiResponse> {
        self.ask(|login| ApiRequest {
            method: method.clone(),
            body: Some(body.clone()),
            ..ApiRequest::get(path, login)
        })
        .await
    }
}

/// Returns the body of a request for a check run.
fn content(check: &Check, annotations: &[Annotation]) -> Value {
    let annotations: Vec<Value> = annotations.iter().map(annotation).collect();
    let output = json!({
        "title": cut(&check.title, 250),
        "summary": cut(&check.summary, MAX_SUMMARY),
        "annotations": annotations,
    });
    match check.conclusion {
        None => json!({"status": "in_progress", "output": output}),
        Some(conclusion) => json!({
            "status": "completed",
            "conclusion": match conclusion {
                Conclusion::Success => "success",
                Conclusion::Neutral => "neutral",
                Conclusion::Failure => "failure",
            },
            "output": output,
        }),
    }
}

fn annotation(annotation: &Annotation) -> Value {
    json!({
        "path": annotation.file.to_string_lossy(),
        "start_line": annotation.line,
        "end_line": annotation.line,
        "annotation_level": match annotation.level {
            AnnotationLevel::Failure => "failure",
            AnnotationLevel::Warning => "warning",
        },
        "message": cut(&annotation.message, MAX_MESSAGE),
    })
}

/// Returns the first characters of a string.
fn cut(text: &str, length: usize) -> String {
    text.chars().take(length).collect()
}
