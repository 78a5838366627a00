//! The kind `Bucket` of source.toolkit.fluxcd.io.

use super::kustomization::LocalRef;
use super::schema::{DURATION, TIMEOUT};
use super::source::AccessFrom;
use super::{FluxKind, FluxSpec, Source, SourceSpec, SourceStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A Bucket object of Flux.
pub type Bucket = Source<BucketSpec>;

/// The `spec` of a Bucket.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "self.provider == 'aws' || self.provider == 'generic' || !has(self.sts)",
     "message": "STS configuration is only supported for the 'aws' and 'generic' Bucket providers"},
    {"rule": "self.provider != 'aws' || !has(self.sts) || self.sts.provider == 'aws'",
     "message": "'aws' is the only supported STS provider for the 'aws' Bucket provider"},
    {"rule": "self.provider != 'generic' || !has(self.sts) || self.sts.provider == 'ldap'",
     "message": "'ldap' is the only supported STS provider for the 'generic' Bucket provider"},
    {"rule": "!has(self.sts) || self.sts.provider != 'aws' || !has(self.sts.secretRef)",
     "message": "spec.sts.secretRef is not required for the 'aws' STS provider"},
    {"rule": "!has(self.sts) || self.sts.provider != 'aws' || !has(self.sts.certSecretRef)",
     "message": "spec.sts.certSecretRef is not required for the 'aws' STS provider"},
    {"rule": "self.provider != 'generic' || !has(self.serviceAccountName)",
     "message": "ServiceAccountName is not supported for the 'generic' Bucket provider"},
    {"rule": "!has(self.secretRef) || !has(self.serviceAccountName)",
     "message": "cannot set both .spec.secretRef and .spec.serviceAccountName"},
]))]
pub struct BucketSpec {
    /// The provider: `generic` (any server with the S3 API), `aws`, `gcp` or `azure`.
    #[serde(default)]
    #[schemars(extend("enum" = ["generic", "aws", "gcp", "azure"], "x-default" = "generic"))]
    pub provider: Option<String>,
    /// The name of the bucket.
    pub bucket_name: String,
    /// The host of the endpoint, with a port if needed, without `https://`.
    pub endpoint: String,
    /// The service that issues temporary credentials.
    #[serde(default)]
    pub sts: Option<BucketSts>,
    /// Connects to the endpoint without TLS.
    #[serde(default)]
    pub insecure: bool,
    /// The region of the bucket.
    #[serde(default)]
    pub region: Option<String>,
    /// Fetches only objects whose key starts with this prefix.
    #[serde(default)]
    pub prefix: Option<String>,
    /// The Secret with the login: `accesskey` and `secretkey`; `serviceaccount` of Google;
    /// `accountKey`, `sasKey` or an application of Azure.
    #[serde(default)]
    pub secret_ref: Option<LocalRef>,
    /// The service account whose cloud identity is used.
    #[serde(default)]
    pub service_account_name: Option<String>,
    /// The Secret with `ca.crt`, `tls.crt` and `tls.key`.
    #[serde(default)]
    pub cert_secret_ref: Option<LocalRef>,
    /// The Secret with the `address` and credentials of a proxy.
    #[serde(default)]
    pub proxy_secret_ref: Option<LocalRef>,
    /// The interval between two checks of the source, such as `5m`.
    #[schemars(regex(pattern = DURATION))]
    pub interval: String,
    /// The timeout of a check; a minute when absent.
    #[serde(default)]
    #[schemars(regex(pattern = TIMEOUT), extend("x-default" = "60s"))]
    pub timeout: Option<String>,
    /// Patterns of objects to leave out, in the format of `.gitignore`.
    #[serde(default)]
    pub ignore: Option<String>,
    /// Suspends the reconciliation of this object.
    #[serde(default)]
    pub suspend: bool,
    /// A field of older versions; accepted, without effect as in Flux.
    #[serde(default)]
    #[schemars(extend("x-older" = true))]
    pub access_from: Option<AccessFrom>,
}

/// The service that issues temporary credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BucketSts {
    /// The provider of the service: `aws` or `ldap`.
    #[schemars(extend("enum" = ["aws", "ldap"]))]
    pub provider: String,
    /// The URL of the service.
    #[schemars(regex(pattern = r"^(http|https)://.*$"))]
    pub endpoint: String,
    /// The Secret with `username` and `password`.
    #[serde(default)]
    pub secret_ref: Option<LocalRef>,
    /// The Secret with `ca.crt`, `tls.crt` and `tls.key`.
    #[serde(default)]
    pub cert_secret_ref: Option<LocalRef>,
}

impl FluxSpec for BucketSpec {
    const KIND: FluxKind = FluxKind::Bucket;
    type Status = SourceStatus;
}

impl SourceSpec for BucketSpec {
    fn interval(&self) -> &str {
        &self.interval
    }
}

impl Bucket {
    /// Returns the provider, `generic` when absent.
    pub fn provider(&self) -> &str {
        let provider = self.spec.provider.as_deref().unwrap_or_default();
        match provider {
            "" => "generic",
            provider => provider,
        }
    }

    /// Returns a message about a field that requests an unsupported feature; `None` if all fields
    /// are supported.
    pub fn unsupported(&self) -> Option<String> {
        let provider = self.provider();
        let is_known = matches!(provider, "generic" | "aws" | "gcp" | "azure");
        (!is_known).then(|| {
            format!(
                "spec.provider '{}' is not known: expected generic, aws, gcp or azure",
                provider.escape_debug()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_manifest::Object;
    use serde_json::{Value, json};

    fn bucket(change: Value) -> Bucket {
        let mut spec =
            json!({"interval": "5m", "endpoint": "s3.acme.example", "bucketName": "acme-fleet"});
        let fields = change.as_object().cloned().unwrap_or_default();
        fields
            .into_iter()
            .for_each(|(field, value)| spec[field] = value);
        let object = json!({"apiVersion": "source.toolkit.fluxcd.io/v1beta1", "kind": "Bucket",
            "metadata": {"name": "fleet", "namespace": "apps"}, "spec": spec});
        Bucket::from_object(Object::new(object).unwrap()).unwrap()
    }

    #[test]
    fn unsupported_fields_are_refused() {
        let keys = json!({"name": "keys"});
        for fine in [
            json!({}),
            json!({"provider": "generic", "insecure": true, "prefix": "a/", "region": "x"}),
            json!({"provider": "aws", "secretRef": keys}),
            json!({"proxySecretRef": keys}),
            json!({"provider": "azure", "serviceAccountName": "reader"}),
            json!({"provider": "gcp"}),
            json!({"sts": {"provider": "ldap", "endpoint": "https://sts.acme.example"}}),
            json!({"accessFrom": {"namespaceSelectors": []}, "certSecretRef": keys}),
        ] {
            assert_eq!(bucket(fine).unsupported(), None);
        }
        let other = bucket(json!({"provider": "else"})).unsupported().unwrap();
        assert!(
            other.starts_with("spec.provider 'else' is not known"),
            "{other}"
        );
    }
}
