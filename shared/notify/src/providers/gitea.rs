//! `gitea` and `giteapullrequestcomment`: commit statuses and comments by Gitea's REST API.

use super::Provider;
use crate::Failure;
use crate::change_request::Place;
use crate::notification::Notification;
use crate::rest::Rest;
use crate::url::segment;
use async_trait::async_trait;
use http::Method;
use serde_json::json;

pub(super) struct Gitea;
pub(super) struct PullRequestComment;

/// The REST API for one repository.
struct Api<'n> {
    rest: Rest<'n>,
    /// The path of the repository: `repos/OWNER/NAME`.
    repository: String,
}

impl<'n> Api<'n> {
    /// Reads the token and the address.
    ///
    /// # Errors
    /// The token is missing, or the address is not that of a repository.
    fn new(notification: &'n Notification<'n>) -> Result<Self, Failure> {
        let token = notification.login.token_or_password();
        let token = notification.required(token, "the token ('token' of the Secret)")?;
        let (repository, [owner, name]) = notification.repository_of()?;
        Ok(Self {
            rest: Rest {
                notification,
                base: format!("{}/api/v1/", repository.origin),
                headers: vec![("authorization", format!("token {token}"))],
            },
            repository: format!("repos/{}/{}", segment(&owner), segment(&name)),
        })
    }
}

#[async_trait]
impl Provider for Gitea {
    async fn send(&self, notification: &Notification<'_>) -> Result<(), Failure> {
        notification.required(
            &notification.settings.commit_status,
            "the id of the commit status",
        )?;
        let api = Api::new(notification)?;
        let rest = &api.rest;
        let status = notification.any_commit_status()?;
        let (repository, commit) = (&api.repository, &status.commit);
        let state = match status.is_success {
            _ if notification.event.is_progressing() => "pending",
            true => "success",
            false => "failure",
        };
        let path = format!("{repository}/commits/{commit}/statuses?limit=50&page=1");
        // Gitea's client sends a type of content with this list, without content.
        let call = rest.call(Method::GET, &path).body("application/json", "");
        let known = notification
            .list(call, "list the statuses of the commit")
            .await?;
        if status.is_latest(&known, "status", state) {
            return Ok(());
        }
        let path = format!("{repository}/statuses/{commit}");
        let body = json!({
            "state": state, "target_url": "", "description": status.description,
            "context": status.id,
        });
        rest.write(Method::POST, &path, &body, "create the commit status")
            .await
    }
}

#[async_trait]
impl Provider for PullRequestComment {
    async fn send(&self, notification: &Notification<'_>) -> Result<(), Failure> {
        let uid = &notification.settings.provider_uid;
        notification.required(uid, "the uid of the Provider")?;
        let api = Api::new(notification)?;
        let rest = &api.rest;
        let user = rest.read("user", "read the user of the token").await?;
        let user = user["login"].as_str().unwrap_or_default();
        let comment = notification.comment("flux-pr-comment-key")?;
        let (repository, number) = (&api.repository, comment.number);
        let path = format!("{repository}/issues/{number}/comments");
        let page = format!("{path}?limit=100&page=1");
        let known = rest
            .list(&page, "list the comments of the pull request")
            .await?;
        let place = Place {
            create: path,
            edit: format!("{repository}/issues/comments"),
            method: Method::PATCH,
        };
        let own = comment.find(&known, "/user/login", user);
        comment.write(rest, place, own).await
    }
}
