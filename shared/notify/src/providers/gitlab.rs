//! `gitlab` and `gitlabmergerequestcomment`: commit statuses and notes by GitLab's REST API.

use super::Provider;
use crate::Failure;
use crate::change_request::Place;
use crate::notification::Notification;
use crate::rest::Rest;
use crate::url::{form, segment};
use async_trait::async_trait;
use http::Method;
use serde_json::{Value, json};

pub(super) struct GitLab;
pub(super) struct MergeRequestComment;

/// The REST API for one project.
struct Api<'n> {
    rest: Rest<'n>,
    /// The path of the repository: `projects/ID`.
    project: String,
}

impl<'n> Api<'n> {
    /// Reads the token and the address.
    ///
    /// # Errors
    /// The token is missing, or the address is not that of a repository.
    fn new(notification: &'n Notification<'n>) -> Result<Self, Failure> {
        let token = notification.login.token_or_password();
        let token = notification.required(token, "the token ('token' of the Secret)")?;
        let repository = notification.repository()?;
        // GitLab's client escapes dots, because its proxies may read them as an extension.
        let id = segment(&repository.id).replace('.', "%2E");
        Ok(Self {
            rest: Rest {
                notification,
                base: format!("{}/api/v4/", repository.origin),
                headers: vec![
                    ("accept", "application/json".to_owned()),
                    ("private-token", token.to_owned()),
                ],
            },
            project: format!("projects/{id}"),
        })
    }
}

#[async_trait]
impl Provider for GitLab {
    async fn send(&self, notification: &Notification<'_>) -> Result<(), Failure> {
        let api = Api::new(notification)?;
        let rest = &api.rest;
        let Some(status) = notification.commit_status()? else {
            return Ok(());
        };
        let (project, commit) = (&api.project, &status.commit);
        let state = if status.is_success {
            "success"
        } else {
            "failed"
        };
        let query = form(&[("name", &status.id)]);
        let path = format!("{project}/repository/commits/{commit}/statuses?{query}");
        let known = rest.list(&path, "list the statuses of the commit").await?;
        let is_same = |known: &Value| {
            known["sha"] == **commit
                && known["status"] == state
                && known["description"] == *status.description
                && known["name"] == *status.id
        };
        if known
            .as_array()
            .is_some_and(|known| known.iter().any(is_same))
        {
            return Ok(());
        }
        let path = format!("{project}/statuses/{commit}");
        let body = json!({"state": state, "name": status.id, "description": status.description});
        rest.write(Method::POST, &path, &body, "create the commit status")
            .await
    }
}

#[async_trait]
impl Provider for MergeRequestComment {
    async fn send(&self, notification: &Notification<'_>) -> Result<(), Failure> {
        let uid = &notification.settings.provider_uid;
        notification.required(uid, "the uid of the Provider")?;
        let api = Api::new(notification)?;
        let rest = &api.rest;
        let user = rest.read("user", "read the user of the token").await?;
        let user = user["username"].as_str().unwrap_or_default();
        let comment = notification.comment("flux-mr-comment-key")?;
        let (project, number) = (&api.project, comment.number);
        let path = format!("{project}/merge_requests/{number}/notes");
        let page = format!("{path}?order_by=created_at&per_page=100&sort=asc");
        let known = rest
            .list(&page, "list the notes of the merge request")
            .await?;
        let place = Place {
            create: path.clone(),
            edit: path,
            method: Method::PUT,
        };
        let own = comment.find(&known, "/author/username", user);
        comment.write(rest, place, own).await
    }
}
