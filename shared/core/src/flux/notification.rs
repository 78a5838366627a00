//! The specs of Alerts and Providers (notification.toolkit.fluxcd.io), for their
//! CustomResourceDefinitions. No code reads these objects yet.

use super::kustomization::LocalRef;
use super::schema::{DURATION, TIMEOUT};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The `spec` of an Alert.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AlertSpec {
    /// The Provider that gets the events.
    pub provider_ref: LocalRef,
    /// The minimum severity of the events to send.
    #[schemars(extend("enum" = ["info", "error"], "x-default" = "info"))]
    pub event_severity: Option<String>,
    /// The objects whose events are sent.
    pub event_sources: Vec<ObjectSelector>,
    /// Regular expressions of the messages to send.
    pub inclusion_list: Option<Vec<String>>,
    /// Regular expressions of the messages to leave out.
    pub exclusion_list: Option<Vec<String>>,
    /// Metadata to add to each event.
    pub event_metadata: Option<BTreeMap<String, String>>,
    /// A short description to add to each event.
    #[schemars(length(max = 255))]
    pub summary: Option<String>,
    /// Suspends the sending of events.
    pub suspend: Option<bool>,
}

/// A selector of Flux objects by name or label.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectSelector {
    /// The API version of the objects.
    pub api_version: Option<String>,
    /// The kind of the objects.
    #[schemars(extend("enum" = ["Bucket", "GitRepository", "Kustomization", "HelmRelease", "HelmChart", "HelmRepository",
        "ImageRepository", "ImagePolicy", "ImageUpdateAutomation", "OCIRepository", "ArtifactGenerator", "ExternalArtifact"]))]
    pub kind: String,
    /// The name of the object; `*` for all.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The namespace of the objects; that of this object when absent.
    #[schemars(length(min = 1, max = 253))]
    pub namespace: Option<String>,
    /// The labels that the objects must have, if the name is `*`.
    pub match_labels: Option<BTreeMap<String, String>>,
}

/// The `spec` of a Provider.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "self.type == 'github' || self.type == 'gitlab' || self.type == 'gitea' || self.type == 'bitbucketserver' || \
self.type == 'bitbucket' || self.type == 'azuredevops' || !has(self.commitStatusExpr)",
     "message": "spec.commitStatusExpr is only supported for the 'github', 'gitlab', 'gitea', 'bitbucketserver', 'bitbucket', \
'azuredevops' provider types"},
]))]
pub struct ProviderSpec {
    /// The type of the service that gets the events.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["slack", "discord", "msteams", "rocket", "generic", "generic-hmac", "github", "gitlab", "gitea",
        "giteapullrequestcomment", "bitbucketserver", "bitbucket", "azuredevops", "googlechat", "googlepubsub", "webex", "sentry",
        "azureeventhub", "telegram", "lark", "matrix", "opsgenie", "alertmanager", "grafana", "githubdispatch",
        "githubpullrequestcomment", "gitlabmergerequestcomment", "pagerduty", "datadog", "nats", "zulip", "otel"]))]
    pub kind: String,
    /// The interval of reconciliations; without effect, as in Flux.
    #[schemars(regex(pattern = DURATION))]
    pub interval: Option<String>,
    /// The channel of the service that gets the events.
    #[schemars(length(max = 2048))]
    pub channel: Option<String>,
    /// The user name that is shown as the sender.
    #[schemars(length(max = 2048))]
    pub username: Option<String>,
    /// The URL of the service.
    #[schemars(length(max = 2048))]
    pub address: Option<String>,
    /// The timeout of a request.
    #[schemars(regex(pattern = TIMEOUT))]
    pub timeout: Option<String>,
    /// The URL of a proxy; deprecated, use `proxySecretRef`.
    #[schemars(length(max = 2048), regex(pattern = r"^(http|https)://.*$"))]
    pub proxy: Option<String>,
    /// The Secret with the `address` and credentials of a proxy.
    pub proxy_secret_ref: Option<LocalRef>,
    /// The Secret with the credentials of the service.
    pub secret_ref: Option<LocalRef>,
    /// The service account whose cloud identity is used.
    pub service_account_name: Option<String>,
    /// The Secret with `ca.crt`, `tls.crt` and `tls.key`.
    pub cert_secret_ref: Option<LocalRef>,
    /// The CEL expression of the name of a commit status.
    pub commit_status_expr: Option<String>,
    /// Suspends the sending of events.
    pub suspend: Option<bool>,
}
