//! The specs of `notification.toolkit.fluxcd.io`: what their definitions declare. Nothing reads these objects yet.

use super::kustomization::LocalRef;
use super::schema::{DURATION, TIMEOUT};
use schemars::JsonSchema;
use std::collections::BTreeMap;

/// `spec` of an Alert.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AlertSpec {
    /// The Provider that gets the events.
    pub provider_ref: LocalRef,
    /// The least severity of an event.
    #[schemars(extend("enum" = ["info", "error"], "x-default" = "info"))]
    pub event_severity: Option<String>,
    /// The objects whose events are sent.
    pub event_sources: Vec<ObjectSelector>,
    /// Regular expressions of the messages to send.
    pub inclusion_list: Option<Vec<String>>,
    /// Regular expressions of the messages to leave out.
    pub exclusion_list: Option<Vec<String>>,
    /// What is added to the metadata of each event.
    pub event_metadata: Option<BTreeMap<String, String>>,
    /// A short text that is added to each event.
    #[schemars(length(max = 255))]
    pub summary: Option<String>,
    /// Send nothing.
    pub suspend: Option<bool>,
}

/// Objects of Flux, by name or label.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectSelector {
    /// The API version.
    pub api_version: Option<String>,
    /// The kind.
    #[schemars(extend("enum" = ["Bucket", "GitRepository", "Kustomization", "HelmRelease", "HelmChart", "HelmRepository",
        "ImageRepository", "ImagePolicy", "ImageUpdateAutomation", "OCIRepository", "ArtifactGenerator", "ExternalArtifact"]))]
    pub kind: String,
    /// The name; `*` for all.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The namespace; the object's own when absent.
    #[schemars(length(min = 1, max = 253))]
    pub namespace: Option<String>,
    /// The labels that the objects have, with the name `*`.
    pub match_labels: Option<BTreeMap<String, String>>,
}

/// `spec` of a Provider.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "self.type == 'github' || self.type == 'gitlab' || self.type == 'gitea' || self.type == 'bitbucketserver' || \
self.type == 'bitbucket' || self.type == 'azuredevops' || !has(self.commitStatusExpr)",
     "message": "spec.commitStatusExpr is only supported for the 'github', 'gitlab', 'gitea', 'bitbucketserver', 'bitbucket', \
'azuredevops' provider types"},
]))]
pub struct ProviderSpec {
    /// The service that gets the events.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["slack", "discord", "msteams", "rocket", "generic", "generic-hmac", "github", "gitlab", "gitea",
        "giteapullrequestcomment", "bitbucketserver", "bitbucket", "azuredevops", "googlechat", "googlepubsub", "webex", "sentry",
        "azureeventhub", "telegram", "lark", "matrix", "opsgenie", "alertmanager", "grafana", "githubdispatch",
        "githubpullrequestcomment", "gitlabmergerequestcomment", "pagerduty", "datadog", "nats", "zulip", "otel"]))]
    pub kind: String,
    /// Without effect, as in Flux.
    #[schemars(regex(pattern = DURATION))]
    pub interval: Option<String>,
    /// The channel in the service.
    #[schemars(length(max = 2048))]
    pub channel: Option<String>,
    /// The name to send as.
    #[schemars(length(max = 2048))]
    pub username: Option<String>,
    /// The service's address.
    #[schemars(length(max = 2048))]
    pub address: Option<String>,
    /// How long a request may take.
    #[schemars(regex(pattern = TIMEOUT))]
    pub timeout: Option<String>,
    /// A proxy's address; `proxySecretRef` takes its place.
    #[schemars(length(max = 2048), regex(pattern = r"^(http|https)://.*$"))]
    pub proxy: Option<String>,
    /// A proxy's address and credentials.
    pub proxy_secret_ref: Option<LocalRef>,
    /// The Secret with the login.
    pub secret_ref: Option<LocalRef>,
    /// The service account for a cloud's login.
    pub service_account_name: Option<String>,
    /// The Secret with `ca.crt`, `tls.crt` and `tls.key`.
    pub cert_secret_ref: Option<LocalRef>,
    /// The CEL expression of a commit status' name.
    pub commit_status_expr: Option<String>,
    /// Send nothing.
    pub suspend: Option<bool>,
}

/// `spec` of a Receiver.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "self.type != 'generic-oidc' || (has(self.oidcProviders) && size(self.oidcProviders) > 0)",
     "message": "generic-oidc receivers must define at least one oidcProvider"},
    {"rule": "self.type == 'generic-oidc' || !has(self.oidcProviders) || size(self.oidcProviders) == 0",
     "message": "oidcProviders can only be set when type is generic-oidc"},
    {"rule": "self.type != 'generic-oidc' || !has(self.secretRef)",
     "message": "secretRef cannot be set when type is generic-oidc"},
    {"rule": "self.type == 'generic-oidc' || has(self.secretRef)",
     "message": "secretRef is required when type is not generic-oidc"},
]))]
pub struct ReceiverSpec {
    /// The sender.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["generic", "generic-hmac", "generic-oidc", "github", "gitlab", "bitbucket", "harbor", "dockerhub",
        "quay", "gcr", "nexus", "acr", "cdevents"]))]
    pub kind: String,
    /// How often to look at the object.
    #[schemars(regex(pattern = DURATION), extend("x-default" = "10m"))]
    pub interval: Option<String>,
    /// The kinds of events that count.
    pub events: Option<Vec<String>>,
    /// The objects to reconcile.
    pub resources: Vec<ReceiverResource>,
    /// A CEL expression over `res` and `req`: which of the objects.
    pub resource_filter: Option<String>,
    /// The Secret with the `token`.
    pub secret_ref: Option<LocalRef>,
    /// Whose tokens are accepted.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["issuerURL"]))]
    pub oidc_providers: Option<Vec<OidcProvider>>,
    /// Answer nothing.
    pub suspend: Option<bool>,
}

/// Objects to reconcile.
#[derive(JsonSchema)]
pub struct ReceiverResource {
    /// Which.
    #[serde(flatten)]
    pub selector: ObjectSelector,
    /// A CEL expression over `res` and `req`: which of them.
    pub filter: Option<String>,
}

/// An issuer of tokens.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OidcProvider {
    /// Its address.
    #[serde(rename = "issuerURL")]
    #[schemars(regex(pattern = "^https?://"))]
    pub issuer_url: String,
    /// The audience that a token needs.
    pub audience: Option<String>,
    /// Names for parts of a token.
    pub variables: Option<Vec<OidcVariable>>,
    /// What a token must fulfil.
    #[schemars(length(min = 1))]
    pub validations: Vec<OidcValidation>,
}

/// A name for a part of a token.
#[derive(JsonSchema)]
pub struct OidcVariable {
    /// The name.
    pub name: String,
    /// The CEL expression.
    pub expression: String,
}

/// What a token must fulfil.
#[derive(JsonSchema)]
pub struct OidcValidation {
    /// The CEL expression.
    pub expression: String,
    /// The text when it is false.
    pub message: String,
}
