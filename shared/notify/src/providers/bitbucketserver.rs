//! `bitbucketserver`: build statuses of Bitbucket Server and Data Center.

use super::Provider;
use crate::Failure;
use crate::notification::{Call, Notification};
use async_trait::async_trait;
use http::{Method, StatusCode};
use serde_json::json;
use sha1::{Digest, Sha1};

pub(super) struct BitbucketServer;

#[async_trait]
impl Provider for BitbucketServer {
    async fn send(&self, notification: &Notification<'_>) -> Result<(), Failure> {
        let base = commits_url(notification)?;
        let id = &notification.settings.commit_status;
        notification.required(id, "the id of the commit status")?;
        let login = &notification.login;
        let authorization = match login.token.as_str() {
            "" if login.username.is_empty() || login.password.is_empty() => {
                let reason = "the Secret has neither 'token' nor 'username' and 'password'";
                return Err(notification.refusal(reason));
            }
            "" => login.basic(),
            token => format!("Bearer {token}"),
        };
        let call = |method: Method, url: String| {
            Call::new(method, url)
                .header("authorization", authorization.as_str())
                .header("x-atlassian-token", "no-check")
                .header("x-requested-with", "XMLHttpRequest")
        };
        let Some(status) = notification.commit_status()? else {
            return Ok(());
        };
        let state = if status.is_success {
            "SUCCESSFUL"
        } else {
            "FAILED"
        };
        let description = &status.description;
        let name = format!("{} [{description}]", status.name);
        // Keys have at most 40 characters.
        let key = hex::encode(Sha1::digest(&status.id));
        let url = format!("{base}/{}/builds", status.commit);
        let response = notification
            .exchange(call(Method::GET, format!("{url}?key={key}")))
            .await?;
        if response.status() != StatusCode::NOT_FOUND {
            let action = "read the build status of the commit";
            let response = notification.accept(response, action)?;
            if response.status() == StatusCode::OK {
                let known = notification.parse(&response, action)?;
                let fields = [
                    ("key", key.as_str()),
                    ("state", state),
                    ("description", description),
                    ("name", &name),
                ];
                if fields.iter().all(|(field, value)| known[*field] == **value) {
                    return Ok(());
                }
            }
        }
        let body = json!({
            "key": key, "state": state, "url": notification.settings.address,
            "description": description, "name": name,
        });
        let call = call(Method::POST, url).body("application/json", notification.json(&body)?);
        notification.deliver(call, "create the build status").await
    }
}

/// Returns the URL of the commits: the address is that of a clone, with `/scm/` in its path.
fn commits_url(notification: &Notification<'_>) -> Result<String, Failure> {
    let invalid = || {
        let form = "https://HOST/scm/PROJECT/REPOSITORY.git";
        notification.refusal(format!("the address is not in the form {form}"))
    };
    let mut url = notification.url()?;
    if !["http", "https"].contains(&url.scheme.as_str()) {
        return Err(invalid());
    }
    let path = url.path.strip_suffix(".git").unwrap_or(&url.path);
    let (context, id) = path.rsplit_once("/scm/").ok_or_else(invalid)?;
    let (project, name) = id.split_once('/').ok_or_else(invalid)?;
    if name.contains('/') {
        return Err(invalid());
    }
    url.path = format!("{context}/rest/api/latest/projects/{project}/repos/{name}/commits");
    url.query = None;
    let login = url.userinfo.as_ref().map(|login| format!("{login}@"));
    let (scheme, host) = (&url.scheme, &url.host);
    Ok(format!(
        "{scheme}://{}{host}{}",
        login.unwrap_or_default(),
        url.path
    ))
}
