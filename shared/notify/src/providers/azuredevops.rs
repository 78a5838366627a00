//! `azuredevops`: commit statuses of Azure DevOps.

use super::Provider;
use crate::login::Login;
use crate::notification::{Call, Notification};
use crate::url::segment;
use crate::{Event, Failure};
use async_trait::async_trait;
use http::Method;
use serde_json::{Value, json};

/// The version of the API of commit statuses.
const VERSION: &str = "application/json;api-version=6.0";

pub(super) struct AzureDevOps;

#[async_trait]
impl Provider for AzureDevOps {
    async fn send(&self, notification: &Notification<'_>) -> Result<(), Failure> {
        let identity = notification
            .settings
            .identity
            .as_deref()
            .unwrap_or_default();
        let token = match notification.login.token.as_str() {
            "" => identity,
            token => token,
        };
        let token = notification.required(
            token,
            "the token ('token' of the Secret, or that of the workload's identity)",
        )?;
        let (repository, [organization, project, _, name]) = notification.repository_of()?;
        let Some(status) = notification.commit_status()? else {
            return Ok(());
        };
        let login = Login {
            password: token.to_owned(),
            ..Login::default()
        };
        let state = if status.is_success {
            "succeeded"
        } else {
            "error"
        };
        let genre = genre(notification.event);
        let (organization, project) = (segment(&organization), segment(&project));
        let (name, commit) = (segment(&name), &status.commit);
        let path = format!("_apis/git/repositories/{name}/commits/{commit}/statuses");
        let url = format!("{}/{organization}/{project}/{path}", repository.origin);
        let call = |method: Method| {
            Call::new(method, url.as_str())
                .header("accept", VERSION)
                .header("authorization", login.basic())
        };
        let action = "list the statuses of the commit";
        let known = notification.ask(call(Method::GET), action).await?;
        let known = known.get("value").and_then(Value::as_array);
        let latest = known.into_iter().flatten().find(|known| {
            let has_text = known["state"].is_string() && known["description"].is_string();
            let context = &known["context"];
            has_text && context["name"] == *status.id && context["genre"] == *genre
        });
        let is_same =
            |known: &Value| known["state"] == state && known["description"] == *status.description;
        if latest.is_some_and(is_same) {
            return Ok(());
        }
        let body = json!({
            "context": {"genre": genre, "name": status.id}, "description": status.description,
            "state": state,
        });
        let call =
            call(Method::POST).body("application/json;charset=utf-8", notification.json(&body)?);
        notification.deliver(call, "create the commit status").await
    }
}

fn genre(event: &Event) -> String {
    match event.metadata.get("summary") {
        Some(summary) => format!("fluxcd:{summary}"),
        None => "fluxcd".to_owned(),
    }
}
