//! `bitbucket`: commit statuses of Bitbucket Cloud.

use super::Provider;
use crate::Failure;
use crate::login::Login;
use crate::notification::{Call, Notification};
use crate::url::segment;
use async_trait::async_trait;
use http::StatusCode;
use serde_json::json;
use sha1::{Digest, Sha1};

pub(super) struct Bitbucket;

#[async_trait]
impl Provider for Bitbucket {
    async fn send(&self, notification: &Notification<'_>) -> Result<(), Failure> {
        let token = &notification.login.token;
        let token = notification.required(token, "the login ('token' of the Secret)")?;
        let parts = token
            .split_once(':')
            .filter(|(_, password)| !password.contains(':'));
        let (username, password) = parts.ok_or_else(|| {
            notification.refusal("'token' of the Secret is not in the form user:password")
        })?;
        let login = Login {
            username: username.to_owned(),
            password: password.to_owned(),
            ..Login::default()
        };
        let (_, [owner, name]) = notification.repository_of()?;
        let Some(status) = notification.commit_status()? else {
            return Ok(());
        };
        let state = if status.is_success {
            "SUCCESSFUL"
        } else {
            "FAILED"
        };
        // Keys have at most 40 characters.
        let key = hex::encode(Sha1::digest(&status.id));
        let (owner, name, commit) = (segment(&owner), segment(&name), &status.commit);
        let path = format!("repositories/{owner}/{name}/commit/{commit}/statuses/build");
        let url = format!("https://api.bitbucket.org/2.0/{path}");
        let call = Call::get(format!("{url}/{key}")).header("authorization", login.basic());
        let response = notification.exchange(call).await?;
        if response.status() != StatusCode::NOT_FOUND {
            let action = "read the status of the commit";
            let response = notification.accept(response, action)?;
            let known = notification.parse(&response, action)?;
            if known["state"] == state && known["description"] == *status.description {
                return Ok(());
            }
        }
        let body = json!({
            "key": key, "name": status.name, "description": status.description, "state": state,
            "url": "https://bitbucket.org",
        });
        let call = Call::post(url)
            .header("authorization", login.basic())
            .body("application/json", notification.json(&body)?);
        notification.deliver(call, "create the commit status").await
    }
}
