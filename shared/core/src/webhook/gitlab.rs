//! GitLab's deliveries (GitLab Docs, "Webhook events", "System hooks"). A delivery is not signed,
//! but has the secret token.

use super::signature::is_token;
use super::{Address, Delivery, Event, Refusal, Sender, read};
use serde::Deserialize;

/// The sender for gitlab.com and servers with GitLab.
pub struct GitLab;

/// The used part of a push or tag push event.
#[derive(Debug, Deserialize)]
struct Push {
    #[serde(rename = "ref")]
    reference: String,
    project: Project,
}

#[derive(Debug, Deserialize)]
struct Project {
    git_http_url: String,
    #[serde(default)]
    git_ssh_url: String,
}

/// The event of a system hook, which is in the body only.
#[derive(Debug, Deserialize)]
struct SystemEvent {
    #[serde(default)]
    event_name: String,
}

impl Sender for GitLab {
    fn host(&self) -> &'static str {
        "GitLab"
    }

    fn is_sender(&self, delivery: &Delivery<'_>) -> bool {
        (delivery.header)("x-gitlab-event").is_some()
    }

    fn proof<'a>(&self, delivery: &Delivery<'a>) -> Option<&'a str> {
        (delivery.header)("x-gitlab-token")
    }

    fn secret(&self) -> &'static str {
        "gitlab/webhook"
    }

    fn verify(&self, secret: &[u8], proof: &str, _: &[u8]) -> bool {
        is_token(secret, Some(proof))
    }

    fn read(&self, delivery: &Delivery<'_>) -> Result<Event, Refusal> {
        let expected = "Push Hook or Tag Push Hook";
        match (delivery.header)("x-gitlab-event").unwrap_or_default() {
            "Push Hook" | "Tag Push Hook" => push(delivery.body),
            "System Hook" => {
                let event: SystemEvent = read("system hook", delivery.body)?;
                match event.event_name.as_str() {
                    "push" | "tag_push" => push(delivery.body),
                    other => Ok(Event::unused(other, "push or tag_push")),
                }
            }
            other => Ok(Event::unused(other, expected)),
        }
    }
}

fn push(body: &[u8]) -> Result<Event, Refusal> {
    let push: Push = read("push", body)?;
    let urls = [push.project.git_http_url, push.project.git_ssh_url];
    Ok(Event::Push {
        addresses: urls.iter().filter_map(|url| Address::of(url)).collect(),
        references: vec![push.reference],
    })
}
