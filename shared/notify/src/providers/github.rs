//! `github`, `githubdispatch` and `githubpullrequestcomment`: commit statuses, repository
//! dispatches and comments by GitHub's REST API.

use super::Provider;
use crate::Failure;
use crate::change_request::Place;
use crate::notification::Notification;
use crate::rest::Rest;
use crate::tokens::{AppToken, JSON, github_app, headers};
use crate::url::segment;
use async_trait::async_trait;
use http::Method;
use serde_json::{Value, json};

/// The media type of comments, which GitHub's client asks for.
const REACTIONS: &str = "application/vnd.github.squirrel-girl-preview";

pub(super) struct GitHub;
pub(super) struct Dispatch;
pub(super) struct PullRequestComment;

/// The REST API for one repository.
struct Api<'n> {
    rest: Rest<'n>,
    /// The path of the repository: `repos/OWNER/NAME`.
    repository: String,
    /// The slug of the GitHub App, or an empty string.
    slug: String,
}

impl<'n> Api<'n> {
    /// Reads the address, and reads or requests the token.
    ///
    /// # Errors
    /// The token is missing, or the address is not that of a repository.
    async fn new(notification: &'n Notification<'n>, wants_slug: bool) -> Result<Self, Failure> {
        let token = token(notification, wants_slug).await?;
        let (repository, [owner, name]) = notification.repository_of()?;
        let host = &repository.host;
        let base = match host.as_str() {
            "github.com" => "https://api.github.com/".to_owned(),
            _ if host.starts_with("api.") || host.contains(".api.") => {
                format!("{}/", repository.origin)
            }
            _ => format!("{}/api/v3/", repository.origin),
        };
        Ok(Self {
            rest: Rest {
                notification,
                base,
                headers: headers(&token.token),
            },
            slug: token.slug,
            repository: format!("repos/{}/{}", segment(&owner), segment(&name)),
        })
    }

    /// Reads a list; GitHub's client reads an answer without a body as an empty one.
    async fn list(&self, path: &str, accept: &str, action: &str) -> Result<Value, Failure> {
        let notification = self.rest.notification;
        let call = self.rest.call(Method::GET, path).header("accept", accept);
        let response = notification.succeed(call, action).await?;
        match response.body().is_empty() {
            true => Ok(Value::Null),
            false => notification.parse_list(&response, action),
        }
    }
}

/// Returns the token of the Secret, else that of the identity, else that of the GitHub App of the
/// Secret.
async fn token(notification: &Notification<'_>, wants_slug: bool) -> Result<AppToken, Failure> {
    let settings = notification.settings;
    let identity = settings.identity.as_deref().unwrap_or_default();
    let (token, slug) = match notification.login.token_or_password() {
        "" => (identity, settings.app_slug.as_str()),
        token => (token, ""),
    };
    if !token.is_empty() {
        let (token, slug) = (token.to_owned(), slug.to_owned());
        return Ok(AppToken { token, slug });
    }
    let token = github_app(notification, wants_slug).await?;
    token.ok_or_else(|| {
        notification.refusal("the Secret has neither 'token' nor the key of a GitHub App")
    })
}

#[async_trait]
impl Provider for GitHub {
    async fn send(&self, notification: &Notification<'_>) -> Result<(), Failure> {
        // Before the token of a GitHub App is requested.
        let Some(status) = notification.commit_status()? else {
            return Ok(());
        };
        let api = Api::new(notification, false).await?;
        let (repository, commit) = (&api.repository, &status.commit);
        let state = if status.is_success {
            "success"
        } else {
            "failure"
        };
        let path = format!("{repository}/commits/{commit}/statuses?per_page=50");
        let known = api
            .list(&path, JSON, "list the statuses of the commit")
            .await?;
        if status.is_latest(&known, "state", state) {
            return Ok(());
        }
        let path = format!("{repository}/statuses/{commit}");
        let body = json!({"state": state, "description": status.description, "context": status.id});
        api.rest
            .write(Method::POST, &path, &body, "create the commit status")
            .await
    }
}

#[async_trait]
impl Provider for Dispatch {
    async fn send(&self, notification: &Notification<'_>) -> Result<(), Failure> {
        let api = Api::new(notification, false).await?;
        let object = &notification.event.involved_object;
        let kind = format!("{}/{}.{}", object.kind, object.name, object.namespace);
        let event = notification.event_json()?;
        let event: Value = serde_json::from_str(&event)
            .map_err(|error| notification.refusal(format!("the event cannot be JSON: {error}")))?;
        let body = json!({"event_type": kind, "client_payload": event});
        let path = format!("{}/dispatches", api.repository);
        api.rest
            .write(Method::POST, &path, &body, "dispatch the event")
            .await
    }
}

#[async_trait]
impl Provider for PullRequestComment {
    async fn send(&self, notification: &Notification<'_>) -> Result<(), Failure> {
        let settings = notification.settings;
        notification.required(&settings.provider_uid, "the uid of the Provider")?;
        let api = Api::new(notification, true).await?;
        let user = match api.slug.as_str() {
            "" => {
                let user = api.rest.read("user", "read the user of the token").await?;
                user["login"].as_str().unwrap_or_default().to_owned()
            }
            slug => format!("{slug}[bot]"),
        };
        let comment = notification.comment("flux-pr-comment-key")?;
        let (repository, number) = (&api.repository, comment.number);
        let path = format!("{repository}/issues/{number}/comments");
        let page = format!("{path}?direction=asc&per_page=100&sort=created");
        let known = api
            .list(&page, REACTIONS, "list the comments of the pull request")
            .await?;
        let place = Place {
            create: path,
            edit: format!("{repository}/issues/comments"),
            method: Method::PATCH,
        };
        let own = comment.find(&known, "/user/login", &user);
        comment.write(&api.rest, place, own).await
    }
}
