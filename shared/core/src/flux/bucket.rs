use super::kustomization::LocalRef;
use super::{FluxKind, Source, SourceSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A `Bucket`.
pub type Bucket = Source<BucketSpec>;

/// `spec` of a Bucket.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BucketSpec {
    /// `generic` (anything that speaks S3), `aws`, `gcp` or `azure`.
    #[serde(default)]
    pub provider: Option<String>,
    /// The bucket's name.
    pub bucket_name: String,
    /// The host, with a port where it needs one, without `https://`.
    pub endpoint: String,
    /// Where temporary credentials come from.
    #[serde(default)]
    pub sts: Option<Map<String, Value>>,
    /// Talk to the endpoint without TLS.
    #[serde(default)]
    pub insecure: bool,
    /// The endpoint's region.
    #[serde(default)]
    pub region: Option<String>,
    /// Only objects whose key starts with this.
    #[serde(default)]
    pub prefix: Option<String>,
    /// The Secret with `accesskey` and `secretkey`.
    #[serde(default)]
    pub secret_ref: Option<LocalRef>,
    /// The service account for a cloud's login.
    #[serde(default)]
    pub service_account_name: Option<String>,
    /// The Secret with `ca.crt`, `tls.crt` and `tls.key`.
    #[serde(default)]
    pub cert_secret_ref: Option<LocalRef>,
    /// A proxy's address and credentials.
    #[serde(default)]
    pub proxy_secret_ref: Option<LocalRef>,
    /// How often to look.
    pub interval: String,
    /// How long a look may take; a minute when absent.
    #[serde(default)]
    pub timeout: Option<String>,
    /// Patterns of objects to leave out, as `.gitignore` has them.
    #[serde(default)]
    pub ignore: Option<String>,
    /// Leave everything as it is.
    #[serde(default)]
    pub suspend: bool,
    /// Of older versions; accepted and without effect, as in Flux.
    #[serde(default)]
    pub access_from: Option<Map<String, Value>>,
}

impl SourceSpec for BucketSpec {
    const KIND: FluxKind = FluxKind::Bucket;

    fn interval(&self) -> &str {
        &self.interval
    }

    fn suspend(&self) -> bool {
        self.suspend
    }
}

impl Bucket {
    /// A field that asks for something this version cannot do, as a sentence.
    pub fn unsupported(&self) -> Option<String> {
        let spec = &self.spec;
        let remedy = match spec.provider.as_deref() {
            None | Some("" | "generic") => "remove the field",
            Some("aws") if spec.secret_ref.is_some() => "remove the field",
            Some("aws") => {
                return Some(format!(
                    "spec.provider 'aws' without spec.secretRef would read the bucket with this installation's own role, which is \
                     not supported: name a Secret with accesskey and secretkey, {OR_FLUX}"
                ));
            }
            Some(other) => {
                return Some(format!(
                    "spec.provider '{other}' is not supported yet: use the provider generic with an endpoint that speaks S3 and a \
                     Secret with accesskey and secretkey, {OR_FLUX}"
                ));
            }
        };
        let field = if spec.sts.is_some() {
            "spec.sts"
        } else if spec.proxy_secret_ref.is_some() {
            "spec.proxySecretRef"
        } else if spec.service_account_name.is_some() {
            "spec.serviceAccountName"
        } else {
            return None;
        };
        Some(format!("{field} is not supported yet: {remedy}, {OR_FLUX}"))
    }
}

const OR_FLUX: &str = "or keep this source with Flux's source-controller";
