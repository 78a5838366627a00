//! The types of providers. [`TABLE`] registers them; each has a module.

mod alertmanager;
mod azuredevops;
mod azureeventhub;
mod bitbucket;
mod bitbucketserver;
mod datadog;
mod discord;
mod generic;
mod gitea;
mod github;
mod gitlab;
mod googlechat;
mod googlepubsub;
mod grafana;
mod lark;
mod matrix;
mod msteams;
mod nats;
mod opsgenie;
mod otel;
mod pagerduty;
mod rocket;
mod sentry;
mod slack;
mod telegram;
mod webex;
mod zulip;

use crate::Failure;
use crate::notification::Notification;
use async_trait::async_trait;

/// A type of provider.
#[async_trait]
trait Provider: Sync {
    /// Sends the requests for an event.
    async fn send(&self, notification: &Notification<'_>) -> Result<(), Failure>;
}

/// The types of providers, by `spec.type`.
const TABLE: &[(&str, &dyn Provider)] = &[
    ("alertmanager", &alertmanager::Alertmanager),
    ("azuredevops", &azuredevops::AzureDevOps),
    ("azureeventhub", &azureeventhub::AzureEventHub),
    ("bitbucket", &bitbucket::Bitbucket),
    ("bitbucketserver", &bitbucketserver::BitbucketServer),
    ("datadog", &datadog::Datadog),
    ("discord", &discord::Discord),
    ("generic", &generic::Generic),
    ("generic-hmac", &generic::GenericHmac),
    ("gitea", &gitea::Gitea),
    ("giteapullrequestcomment", &gitea::PullRequestComment),
    ("github", &github::GitHub),
    ("githubdispatch", &github::Dispatch),
    ("githubpullrequestcomment", &github::PullRequestComment),
    ("gitlab", &gitlab::GitLab),
    ("gitlabmergerequestcomment", &gitlab::MergeRequestComment),
    ("googlechat", &googlechat::GoogleChat),
    ("googlepubsub", &googlepubsub::GooglePubSub),
    ("grafana", &grafana::Grafana),
    ("lark", &lark::Lark),
    ("matrix", &matrix::Matrix),
    ("msteams", &msteams::Teams),
    ("nats", &nats::Nats),
    ("opsgenie", &opsgenie::Opsgenie),
    ("otel", &otel::Otel),
    ("pagerduty", &pagerduty::PagerDuty),
    ("rocket", &rocket::Rocket),
    ("sentry", &sentry::Sentry),
    ("slack", &slack::Slack),
    ("telegram", &telegram::Telegram),
    ("webex", &webex::Webex),
    ("zulip", &zulip::Zulip),
];

/// Returns all values of `spec.type`, sorted.
pub fn kinds() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|(kind, _)| *kind)
}

/// Sends a notification by the type of its Provider.
///
/// # Errors
/// Those of [`crate::send`].
pub(crate) async fn send(notification: &Notification<'_>) -> Result<(), Failure> {
    match find(&notification.settings.kind) {
        Some(provider) => provider.send(notification).await,
        None => Err(notification.refusal("spec.type is not a known type of provider")),
    }
}

fn find(kind: &str) -> Option<&'static dyn Provider> {
    let found = TABLE.iter().find(|(known, _)| *known == kind);
    found.map(|(_, provider)| *provider)
}
