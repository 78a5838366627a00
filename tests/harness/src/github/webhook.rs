//! Signed webhooks.

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::repository::Repository;
use super::{GitHub, json as shape};
use crate::http::Http;

/// A webhook's address, secret, events and extra headers.
#[derive(Clone, Debug)]
pub(crate) struct Hook {
    pub(super) url: String,
    secret: String,
    pub(super) events: Vec<String>,
    headers: Vec<(String, String)>,
}

impl Hook {
    /// Creates a webhook without extra headers.
    pub(super) fn new(url: String, secret: String, events: Vec<String>) -> Self {
        Self {
            url,
            secret,
            events,
            headers: Vec::new(),
        }
    }

    /// Checks whether the webhook is sent an event. A ping is sent to all.
    fn wants(&self, event: &str) -> bool {
        let named = |wanted: &String| wanted == event || wanted == "*";
        event == "ping" || self.events.iter().any(named)
    }
}

/// One sent webhook, also if it was not received.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The `X-GitHub-Delivery` id.
    pub id: String,
    /// `push`, `ping` …
    pub event: String,
    /// The address that it was sent to.
    pub url: String,
    /// The signed body.
    pub body: String,
    /// The status of the answer; `None` without an answer.
    pub status: Option<u16>,
    /// The answer's body, or the error.
    pub answer: String,
}

/// A push and the deliveries of its webhooks.
#[derive(Clone, Debug)]
pub struct Push {
    /// The commit before the push; `None` for a new branch.
    pub before: Option<String>,
    /// The commit after the push.
    pub sha: String,
    /// The deliveries of the webhook, one for each hook.
    pub deliveries: Vec<Delivery>,
}

/// Returns the value of `X-Hub-Signature-256` for a body.
pub fn sign(secret: &str, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("any key length");
    mac.update(body);
    format!("sha256={}", hex::encode(mac.finalize().into_bytes()))
}

/// The hash that a push event has instead of a commit: before a branch is created, after it is
/// deleted.
pub const NO_COMMIT: &str = "0000000000000000000000000000000000000000";

impl GitHub {
    /// Sends every event from now on to `url`, signed with `secret`.
    pub fn add_webhook(&self, url: &str, secret: &str) {
        self.add_webhook_with_headers(url, secret, &[]);
    }

    /// Adds a webhook with extra request headers, such as the `Host` that an emulator routes by.
    pub fn add_webhook_with_headers(&self, url: &str, secret: &str, headers: &[(&str, &str)]) {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        self.shared.state().hooks.push(Hook {
            url: url.to_owned(),
            secret: secret.to_owned(),
            events: vec!["*".to_owned()],
            headers: headers.iter().map(owned).collect(),
        });
    }

    /// Removes every webhook: pushes are no longer announced.
    pub fn remove_webhooks(&self) {
        self.shared.state().hooks.clear();
    }

    /// Returns every delivery so far, oldest first.
    pub fn deliveries(&self) -> Vec<Delivery> {
        self.shared.state().deliveries.clone()
    }

    /// Sends the push webhook for a reference that moved without [`GitHub::push`],
    /// such as a tag, a forced push or a deletion (to [`NO_COMMIT`]).
    pub fn announce(
        &self,
        repository: &Repository,
        reference: &str,
        before: Option<&str>,
        after: &str,
    ) -> Push {
        let payload = self.push_payload(repository, reference, before, after);
        Push {
            before: before.map(str::to_owned),
            sha: after.to_owned(),
            deliveries: self.deliver("push", &payload),
        }
    }

    /// Sends an event to every hook that has it and waits for the answers.
    pub fn deliver(&self, event: &str, payload: &Value) -> Vec<Delivery> {
        let mut hooks = self.shared.state().hooks.clone();
        hooks.retain(|hook| hook.wants(event));
        let body = payload.to_string();
        let number = self.shared.state().deliveries.len();
        let send = |(at, hook): (usize, &Hook)| {
            let id = guid(&format!("{number}/{at}/{body}"));
            send(hook, &id, event, &body)
        };
        let sent: Vec<Delivery> = hooks.iter().enumerate().map(send).collect();
        self.shared.state().deliveries.extend(sent.clone());
        sent
    }

    /// Sends a delivery again with the same id, as the button on GitHub does.
    pub fn redeliver(&self, delivery: &Delivery) -> Vec<Delivery> {
        let hooks = self.shared.state().hooks.clone();
        let same = hooks.iter().filter(|hook| hook.url == delivery.url);
        same.map(|hook| send(hook, &delivery.id, &delivery.event, &delivery.body))
            .collect()
    }

    /// Returns the body of a push event.
    pub fn push_payload(
        &self,
        repository: &Repository,
        reference: &str,
        before: Option<&str>,
        after: &str,
    ) -> Value {
        let url = self.url();
        let range = before.map_or_else(|| after.to_owned(), |before| format!("{before}..{after}"));
        let listed = repository.ask(["rev-list", "--reverse", "--max-count=20", &range]);
        let commits: Vec<Value> = listed
            .unwrap_or_default()
            .lines()
            .map(|sha| shape::pushed(repository, sha))
            .collect();
        let moved = before.filter(|_| after != NO_COMMIT);
        let forced = moved.is_some_and(|before| {
            repository
                .ask(["merge-base", "--is-ancestor", before, after])
                .is_none()
        });
        let mut described = shape::repository(url, repository);
        described["master_branch"] = described["default_branch"].clone();
        described["owner"]["name"] = repository.owner().into();
        let mut payload = json!({
            "ref": reference,
            "before": before.unwrap_or(NO_COMMIT),
            "after": after,
            "repository": described,
            "pusher": {"name": "tester", "email": "tester@example.com"},
            "organization": {"login": repository.owner(), "id": 1},
            "sender": shape::owner(url, "tester"),
            "created": before.is_none(),
            "deleted": after == NO_COMMIT,
            "forced": forced,
            "base_ref": null,
            "compare": format!("https://github.com/{}/compare/{range}", repository.full_name()),
            "head_commit": commits.last(),
            "commits": commits,
        });
        if let Some((_, installation)) = self.shared.state().access.installed(repository) {
            payload["installation"] = json!({"id": installation, "node_id": "MDIz"});
        }
        payload
    }
}

fn send(hook: &Hook, id: &str, event: &str, body: &str) -> Delivery {
    let signature = sign(&hook.secret, body.as_bytes());
    let mut headers = vec![
        ("content-type", "application/json"),
        ("user-agent", "GitHub-Hookshot/0000000"),
        ("accept", "*/*"),
        ("x-github-event", event),
        ("x-github-delivery", id),
        ("x-github-hook-id", "1"),
        ("x-hub-signature-256", signature.as_str()),
    ];
    headers.extend(hook.headers.iter().map(|(n, v)| (n.as_str(), v.as_str())));
    let answer = Http::plain().send("POST", &hook.url, &headers, Some(body.as_bytes()));
    Delivery {
        id: id.to_owned(),
        event: event.to_owned(),
        url: hook.url.clone(),
        body: body.to_owned(),
        status: answer.as_ref().ok().map(|answer| answer.status),
        answer: answer.map_or_else(|e| e.to_string(), |answer| answer.text()),
    }
}

/// Returns an id in the form of a GUID, derived from the delivery.
fn guid(seed: &str) -> String {
    let hash = hex::encode(Sha256::digest(seed));
    let parts = [
        &hash[..8],
        &hash[8..12],
        &hash[12..16],
        &hash[16..20],
        &hash[20..32],
    ];
    parts.join("-")
}
