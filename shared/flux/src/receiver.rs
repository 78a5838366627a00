//! The kind `Receiver` of notification.toolkit.fluxcd.io.

use super::kustomization::LocalRef;
use super::notification::ObjectSelector;
use super::schema::DURATION;
use super::{Conditions, FluxKind, FluxSpec, Typed, parse_duration};
use crate::error::FieldError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;
use std::time::Duration;

/// The start of the path of every Receiver's webhook.
pub const WEBHOOK_PATH: &str = "/hook/";
/// The interval of a Receiver that names none.
const INTERVAL: Duration = Duration::from_secs(600);

/// A Receiver object of any served version.
pub type Receiver = Typed<ReceiverSpec>;

/// The `status` of a Receiver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReceiverStatus {
    /// The generation that was reconciled last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The conditions of the object.
    pub conditions: Conditions,
    /// The value of `requestedAt` that was handled last.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_handled_reconcile_at: String,
    /// The path of the webhook: `/hook/` and a digest of the token, the name and the namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub webhook_path: String,
}

impl FluxSpec for ReceiverSpec {
    const KIND: FluxKind = FluxKind::Receiver;
    type Status = ReceiverStatus;
}

impl Receiver {
    /// Returns the path of the webhook for a token.
    pub fn webhook_path(&self, token: &[u8]) -> String {
        let mut digest = Sha256::new();
        digest.update(token);
        digest.update(&self.id.name);
        digest.update(&self.id.namespace);
        format!("{WEBHOOK_PATH}{}", hex::encode(digest.finalize()))
    }

    /// Returns `spec.interval`, or its default.
    ///
    /// # Errors
    /// The field is not a valid duration.
    pub fn interval(&self) -> Result<Duration, FieldError> {
        let interval = self.spec.interval.as_deref().map(parse_duration);
        let interval = interval.unwrap_or(Ok(INTERVAL));
        interval.map_err(FieldError::in_field("spec.interval"))
    }

    /// Returns whether senders log in with a token of an OIDC issuer. Such a Receiver has no
    /// Secret.
    pub fn is_oidc(&self) -> bool {
        self.spec.kind == OIDC
    }

    /// Returns the error of OIDC issuers that the definition also refuses, with the words of
    /// notification-controller; `None` if all are valid.
    pub fn invalid_provider(&self) -> Option<String> {
        let providers = self.spec.oidc_providers.as_deref().unwrap_or_default();
        let mut known = BTreeSet::new();
        let problems = providers.iter().enumerate().filter_map(|(at, provider)| {
            let problem = provider.problem(known.insert(&provider.issuer_url))?;
            Some(format!("oidcProviders[{at}]{problem}"))
        });
        problems.into_iter().next()
    }

    /// Returns the error of fields that contradict each other, which the definition also refuses;
    /// `None` if they do not.
    pub fn contradiction(&self) -> Option<&'static str> {
        let is_oidc = self.is_oidc();
        let providers = self.spec.oidc_providers.as_deref();
        let has_providers = providers.is_some_and(|all| !all.is_empty());
        let has_secret = self.spec.secret_ref.is_some();
        match (is_oidc, has_providers, has_secret) {
            (true, false, _) => Some("generic-oidc receiver requires at least one oidcProvider"),
            (false, true, _) => Some("oidcProviders can only be set when type is generic-oidc"),
            (true, _, true) => Some("secretRef cannot be set when type is generic-oidc"),
            (false, _, false) => Some("secretRef is required when type is not generic-oidc"),
            _ => None,
        }
    }
}

impl OidcProvider {
    /// Returns the audience that a token must have.
    pub fn audience(&self) -> &str {
        let audience = self.audience.as_deref().unwrap_or_default();
        match audience {
            "" => AUDIENCE,
            audience => audience,
        }
    }

    /// Returns the error of this provider; `is_new` is false if another one has the same issuer.
    fn problem(&self, is_new: bool) -> Option<String> {
        let url = &self.issuer_url;
        if url.is_empty() {
            return Some(": issuerURL is required".to_owned());
        }
        if !url.starts_with("http://") && !url.starts_with("https://") {
            return Some(format!(
                ": issuerURL {url:?} must start with http:// or https://"
            ));
        }
        if !is_new {
            return Some(format!(": duplicate issuerURL {url:?}"));
        }
        let of = |text: String| Some(format!(" (issuerURL={url:?}): {text}"));
        if self.validations.is_empty() {
            return of(
                "at least one validation is required; without validations any caller able to obtain a token from this issuer can \
                 trigger the Receiver"
                    .to_owned(),
            );
        }
        let variables = self.variables.as_deref().unwrap_or_default();
        for (at, OidcVariable { name, expression }) in variables.iter().enumerate() {
            if name.is_empty() {
                return of(format!("variables[{at}]: name is required"));
            }
            if expression.is_empty() {
                return of(format!(
                    "variables[{at}] (name={name:?}): expression is required"
                ));
            }
        }
        for (at, one) in self.validations.iter().enumerate() {
            if one.expression.is_empty() {
                return of(format!("validations[{at}]: expression is required"));
            }
            if one.message.is_empty() {
                return of(format!("validations[{at}]: message is required"));
            }
        }
        None
    }
}

/// Returns an expression, unless it is empty.
fn expression(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}

impl ReceiverSpec {
    /// Returns the filter of all resources, if there is one.
    pub fn filter(&self) -> Option<&str> {
        expression(self.resource_filter.as_ref())
    }
}

impl ReceiverResource {
    /// Returns the filter of this resource, if there is one.
    pub fn filter(&self) -> Option<&str> {
        expression(self.filter.as_ref())
    }
}

/// The type of senders that log in with an OIDC token.
const OIDC: &str = "generic-oidc";
/// The audience of tokens if the provider names none.
const AUDIENCE: &str = "notification-controller";

/// The `spec` of a Receiver.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
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
    /// The type of the sender.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["generic", "generic-hmac", "generic-oidc", "github", "gitlab", "bitbucket", "harbor", "dockerhub",
        "quay", "gcr", "nexus", "acr", "cdevents"]))]
    pub kind: String,
    /// The interval between two reconciliations of this object.
    #[schemars(regex(pattern = DURATION), extend("x-default" = "10m"))]
    pub interval: Option<String>,
    /// The types of events to handle.
    pub events: Option<Vec<String>>,
    /// The objects to reconcile after an event.
    pub resources: Vec<ReceiverResource>,
    /// A CEL expression over `res`, `req` and, of a token, `claims`, which selects the objects to
    /// reconcile.
    pub resource_filter: Option<String>,
    /// The Secret with the `token` of the webhook.
    pub secret_ref: Option<LocalRef>,
    /// The OIDC issuers whose tokens are accepted.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["issuerURL"]))]
    pub oidc_providers: Option<Vec<OidcProvider>>,
    /// Suspends the handling of events.
    pub suspend: Option<bool>,
}

/// A selector of objects to reconcile.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub struct ReceiverResource {
    /// The kind, name and labels of the objects.
    #[serde(flatten)]
    pub selector: ObjectSelector,
    /// A CEL expression over `res` and `req` that selects from these objects.
    pub filter: Option<String>,
}

/// An OIDC issuer of tokens.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OidcProvider {
    /// The URL of the issuer.
    #[serde(rename = "issuerURL")]
    #[schemars(regex(pattern = "^https?://"))]
    pub issuer_url: String,
    /// The audience that a token must have.
    pub audience: Option<String>,
    /// Variables with parts of a token, for the validations.
    pub variables: Option<Vec<OidcVariable>>,
    /// A condition that a token must meet.
    #[schemars(length(min = 1))]
    pub validations: Vec<OidcValidation>,
}

/// A variable with a part of a token.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub struct OidcVariable {
    /// The name of the variable.
    pub name: String,
    /// The CEL expression over the token.
    pub expression: String,
}

/// A condition that a token must meet.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub struct OidcValidation {
    /// The CEL expression over the token.
    pub expression: String,
    /// The error message if the expression is false.
    pub message: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_manifest::Object;
    use serde_json::{Value, json};

    fn receiver(spec: &Value) -> Receiver {
        let object = json!({"apiVersion": "notification.toolkit.fluxcd.io/v1beta2",
            "kind": "Receiver", "metadata": {"name": "hook", "namespace": "apps"}, "spec": spec});
        Receiver::from_object(Object::new(object).unwrap()).unwrap()
    }

    #[test]
    fn the_path_is_a_digest_of_token_name_and_namespace() {
        let receiver = receiver(&json!({"type": "generic", "resources": []}));
        let digest = hex::encode(Sha256::digest("tokenhookapps"));
        assert_eq!(receiver.webhook_path(b"token"), format!("/hook/{digest}"));
        assert_eq!(receiver.interval(), Ok(INTERVAL));
    }

    #[test]
    fn fields_that_contradict_each_other() {
        let secret = json!({"name": "token"});
        let providers = json!([{"issuerURL": "https://a", "validations": []}]);
        for (spec, error) in [
            (json!({"type": "github", "secretRef": secret}), None),
            (
                json!({"type": "github"}),
                Some("secretRef is required when type is not generic-oidc"),
            ),
            (
                json!({"type": "generic-oidc"}),
                Some("generic-oidc receiver requires at least one oidcProvider"),
            ),
            (
                json!({"type": "github", "secretRef": secret, "oidcProviders": providers}),
                Some("oidcProviders can only be set when type is generic-oidc"),
            ),
            (
                json!({"type": "generic-oidc", "secretRef": secret, "oidcProviders": providers}),
                Some("secretRef cannot be set when type is generic-oidc"),
            ),
        ] {
            let mut spec = spec;
            spec["resources"] = json!([{"kind": "Bucket", "name": "a"}]);
            assert_eq!(receiver(&spec).contradiction(), error, "{spec}");
        }
    }
}
