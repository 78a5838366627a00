//! The kinds `Alert` and `Provider` of notification.toolkit.fluxcd.io.

use super::kustomization::LocalRef;
use super::schema::{DURATION, TIMEOUT};
use super::{Conditions, FluxKind, FluxSpec, ObjectRef, Typed, parse_duration};
use crate::error::FieldError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// The time limit of a request to a Provider without `spec.timeout`.
const TIMEOUT_OF_PROVIDER: Duration = Duration::from_secs(15);
/// The name of an event source that stands for every object.
const EVERY_NAME: &str = "*";
/// The types of Providers that set the status of a commit.
const COMMIT_STATUS_TYPES: [&str; 6] = [
    "github",
    "gitlab",
    "gitea",
    "bitbucketserver",
    "bitbucket",
    "azuredevops",
];
/// The types of Providers that comment on a change request.
const CHANGE_REQUEST_TYPES: [&str; 3] = [
    "githubpullrequestcomment",
    "gitlabmergerequestcomment",
    "giteapullrequestcomment",
];

/// An Alert object of any served version.
pub type Alert = Typed<AlertSpec>;
/// A Provider object of any served version.
pub type Provider = Typed<ProviderSpec>;

impl FluxSpec for AlertSpec {
    const KIND: FluxKind = FluxKind::Alert;
    type Status = NotificationStatus;
}

impl FluxSpec for ProviderSpec {
    const KIND: FluxKind = FluxKind::Provider;
    /// A suspended Provider has a step, which discards the events.
    const WORKS_SUSPENDED: bool = true;
    type Status = NotificationStatus;
}

/// The `status` of an Alert or a Provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NotificationStatus {
    /// The generation that was reconciled last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The conditions of the object.
    pub conditions: Conditions,
    /// The value of `requestedAt` that was handled last.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_handled_reconcile_at: String,
}

impl Alert {
    /// Returns the reference of the Provider that gets the events.
    pub fn provider(&self) -> ObjectRef {
        let name = &self.spec.provider_ref.name;
        ObjectRef::new(FluxKind::Provider, &self.id.namespace, name)
    }
}

impl Provider {
    /// Returns the time limit of a request.
    ///
    /// # Errors
    /// `spec.timeout` is not a duration.
    pub fn timeout(&self) -> Result<Duration, FieldError> {
        let timeout = self.spec.timeout.as_deref().map(parse_duration);
        let timeout = timeout.unwrap_or(Ok(TIMEOUT_OF_PROVIDER));
        timeout.map_err(FieldError::in_field("spec.timeout"))
    }

    /// Returns the expression of the id of a commit status, if there is one.
    pub fn commit_status_expr(&self) -> Option<&str> {
        let text = self.spec.commit_status_expr.as_deref();
        text.filter(|text| !text.is_empty())
    }

    /// Returns whether the Provider sets the status of a commit.
    pub fn is_commit_status(&self) -> bool {
        COMMIT_STATUS_TYPES.contains(&&*self.spec.kind)
    }

    /// Returns whether the Provider comments on a change request.
    pub fn is_change_request(&self) -> bool {
        CHANGE_REQUEST_TYPES.contains(&&*self.spec.kind)
    }

    /// Returns whether the Provider gets the events unchanged.
    pub fn is_generic(&self) -> bool {
        matches!(&*self.spec.kind, "generic" | "generic-hmac")
    }
}

impl ObjectSelector {
    /// Returns whether the name stands for every object.
    pub fn is_every_name(&self) -> bool {
        self.name == EVERY_NAME
    }
}

/// The `spec` of an Alert.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
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
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
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
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
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
