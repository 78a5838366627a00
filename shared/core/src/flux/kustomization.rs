//! `Kustomization` of kustomize.toolkit.fluxcd.io.

use super::schema::DURATION;
use super::{Conditions, FluxKind, ObjectRef, parse_duration, spec_and_status};
use driftless_manifest::Object;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::time::Duration;

/// A `Kustomization` of `kustomize.toolkit.fluxcd.io`, from any served version.
#[derive(Clone, Debug)]
pub struct Kustomization {
    /// Which one.
    pub id: ObjectRef,
    /// The live object it was read from.
    pub object: Object,
    /// What the user wants.
    pub spec: KustomizationSpec,
    /// What was written last.
    pub status: KustomizationStatus,
}

/// `spec` of a Kustomization.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KustomizationSpec {
    /// How often to reconcile.
    #[schemars(regex(pattern = DURATION))]
    pub interval: String,
    /// How soon to try again after a failure; the interval when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = DURATION))]
    pub retry_interval: Option<String>,
    /// How long an apply and its health checks may take; the interval less 30 seconds when absent, at least 30 seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = DURATION))]
    pub timeout: Option<String>,
    /// The source of the files.
    pub source_ref: SourceRef,
    /// The directory in the source; its root when empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Delete what is no longer rendered.
    #[serde(default)]
    #[schemars(!default)]
    pub prune: bool,
    /// Leave everything as it is.
    #[serde(default, skip_serializing_if = "is_false")]
    pub suspend: bool,
    /// Recreate objects whose immutable fields changed.
    #[serde(default, skip_serializing_if = "is_false")]
    #[schemars(extend("x-default" = false))]
    pub force: bool,
    /// Wait until everything applied is ready.
    #[serde(default, skip_serializing_if = "is_false")]
    pub wait: bool,
    /// What happens to the applied objects when this one is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicy>,
    /// Kustomizations that must be ready first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<DependsOn>,
    /// Objects whose health decides, when not all are waited for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub health_checks: Vec<HealthCheck>,
    /// Health of custom kinds, as CEL.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub health_check_exprs: Vec<HealthCheckExpr>,
    /// The namespace of all objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub target_namespace: Option<String>,
    /// Put before every name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub name_prefix: Option<String>,
    /// Put behind every name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub name_suffix: Option<String>,
    /// Labels and annotations of all objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common_metadata: Option<CommonMetadata>,
    /// Patches with their targets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<Patch>,
    /// Strategic merge patches of v1beta1 and v1beta2.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-older" = true))]
    pub patches_strategic_merge: Vec<Map<String, Value>>,
    /// JSON patches of v1beta1 and v1beta2.
    #[serde(
        default,
        rename = "patchesJson6902",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(extend("x-older" = true))]
    pub patches_json6902: Vec<Json6902Patch>,
    /// Image names, tags and digests to replace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// Components to add, as paths relative to `path`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<String>,
    /// Leave out components that do not exist.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ignore_missing_components: bool,
    /// kustomize's `buildMetadata`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("items" = {"type": "string", "enum": ["originAnnotations", "transformerAnnotations"]}))]
    pub build_metadata: Vec<String>,
    /// Fields to leave to others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<IgnoreRule>,
    /// Variables to substitute after the build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post_build: Option<PostBuild>,
    /// How to decrypt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decryption: Option<Decryption>,
    /// The remote cluster; the hub itself when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_config: Option<KubeConfigRef>,
    /// The service account to act as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// Of v1beta1; accepted and without effect, as in Flux.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-older" = true))]
    pub validation: Option<String>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde's skip_serializing_if passes a reference"
)]
pub(super) fn is_false(flag: &bool) -> bool {
    !flag
}

/// Whether Go would leave a text out.
#[expect(
    clippy::ref_option,
    reason = "serde's skip_serializing_if passes a reference"
)]
fn is_blank(text: &Option<String>) -> bool {
    text.as_ref().is_none_or(String::is_empty)
}

/// A source on the same hub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceRef {
    /// Not needed: the kind says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// `GitRepository`, `OCIRepository`, `Bucket` or `ExternalArtifact`.
    #[schemars(extend("enum" = ["OCIRepository", "GitRepository", "Bucket", "ExternalArtifact"]))]
    pub kind: String,
    /// The name.
    pub name: String,
    /// The namespace; the object's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// What happens to the applied objects when the Kustomization is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum DeletionPolicy {
    /// As `prune` says.
    #[default]
    MirrorPrune,
    /// Delete them.
    Delete,
    /// Delete them and wait until they are gone.
    WaitForTermination,
    /// Leave them.
    Orphan,
}

/// A dependency.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DependsOn {
    /// `Kustomization` (when absent) or `HelmRelease`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The name.
    pub name: String,
    /// The namespace; the object's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// A CEL expression over `self` and `dep`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_expr: Option<String>,
}

/// An object whose health decides.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheck {
    /// Such as `apps/v1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
    /// The namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// Health of a kind, as CEL.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheckExpr {
    /// The API version it is for.
    pub api_version: String,
    /// The kind it is for.
    #[serde(default)]
    pub kind: String,
    /// True while the object is on its way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_progress: Option<String>,
    /// True when it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// True when it is there.
    pub current: String,
}

/// Labels and annotations of all objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommonMetadata {
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// A patch with its target, as kustomize's.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct Patch {
    /// Strategic merge or JSON patch, as YAML.
    pub patch: String,
    /// What it applies to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Selector>,
}

/// A JSON patch of the older versions.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct Json6902Patch {
    /// The operations.
    pub patch: Vec<Map<String, Value>>,
    /// What it applies to.
    pub target: Selector,
}

/// What a patch applies to.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Selector {
    /// The group, a regular expression.
    #[serde(default, skip_serializing_if = "is_blank")]
    pub group: Option<String>,
    /// The version.
    #[serde(default, skip_serializing_if = "is_blank")]
    pub version: Option<String>,
    /// The kind.
    #[serde(default, skip_serializing_if = "is_blank")]
    pub kind: Option<String>,
    /// The namespace.
    #[serde(default, skip_serializing_if = "is_blank")]
    pub namespace: Option<String>,
    /// The name.
    #[serde(default, skip_serializing_if = "is_blank")]
    pub name: Option<String>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "is_blank")]
    pub annotation_selector: Option<String>,
    /// Labels.
    #[serde(default, skip_serializing_if = "is_blank")]
    pub label_selector: Option<String>,
}

/// An image to replace.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Image {
    /// The name that stands in the files.
    pub name: String,
    /// The name to put there.
    #[serde(default, skip_serializing_if = "is_blank")]
    pub new_name: Option<String>,
    /// The tag to put there.
    #[serde(default, skip_serializing_if = "is_blank")]
    pub new_tag: Option<String>,
    /// The digest to put there.
    #[serde(default, skip_serializing_if = "is_blank")]
    pub digest: Option<String>,
}

/// Fields to leave to others.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct IgnoreRule {
    /// JSON pointers.
    pub paths: Vec<String>,
    /// The objects; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Selector>,
}

/// Variables to substitute after the build.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PostBuild {
    /// Given here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub substitute: BTreeMap<String, String>,
    /// Taken from ConfigMaps and Secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub substitute_from: Vec<SubstituteFrom>,
    /// `WithVariables` (only when there are variables) or `Always`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["WithVariables", "Always"]))]
    pub substitute_strategy: Option<String>,
}

/// A ConfigMap or Secret with variables.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct SubstituteFrom {
    /// `ConfigMap` or `Secret`.
    #[schemars(extend("enum" = ["Secret", "ConfigMap"]))]
    pub kind: String,
    /// The name, in the object's namespace.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Go on when it does not exist.
    #[serde(default, skip_serializing_if = "is_false")]
    #[schemars(extend("x-default" = false))]
    pub optional: bool,
}

/// How to decrypt.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Decryption {
    /// `sops`.
    #[schemars(extend("enum" = ["sops"]))]
    pub provider: String,
    /// The Secret with the keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalRef>,
    /// The service account for a cloud's key service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
}

/// A name in the object's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct LocalRef {
    /// The name.
    pub name: String,
}

/// A remote cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.configMapRef) || has(self.secretRef)",
     "message": "exactly one of spec.kubeConfig.configMapRef or spec.kubeConfig.secretRef must be specified"},
    {"rule": "!has(self.configMapRef) || !has(self.secretRef)",
     "message": "exactly one of spec.kubeConfig.configMapRef or spec.kubeConfig.secretRef must be specified"},
]))]
pub struct KubeConfigRef {
    /// The Secret with the kubeconfig.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretKeyRef>,
    /// The ConfigMap with a provider and a cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<LocalRef>,
}

/// A key of a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct SecretKeyRef {
    /// The Secret's name.
    pub name: String,
    /// The key; `value`, then `value.yaml`, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// `status` of a Kustomization.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KustomizationStatus {
    /// The generation that was looked at last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The conditions.
    pub conditions: Conditions,
    /// The value of `requestedAt` that was handled last.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_handled_reconcile_at: String,
    /// The revision that was applied last.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_applied_revision: String,
    /// The revision behind an OCI artifact's, when it says one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_applied_origin_revision: String,
    /// The revision that was tried last.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_attempted_revision: String,
    /// What was applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inventory: Option<Value>,
    /// The last five outcomes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Value>,
}

impl DependsOn {
    /// What an object depends on, and the expression that says whether it is ready: by default something of the same kind and
    /// namespace.
    ///
    /// # Errors
    /// A kind that nothing can depend on.
    pub(super) fn resolve(&self, of: &ObjectRef) -> Result<(ObjectRef, Option<String>), String> {
        let kind = match self.kind.as_deref() {
            None => of.kind,
            Some("Kustomization") => FluxKind::Kustomization,
            Some("HelmRelease") => FluxKind::HelmRelease,
            Some(other) => {
                return Err(format!(
                    "spec.dependsOn: kind '{other}' is not Kustomization or HelmRelease"
                ));
            }
        };
        let namespace = self.namespace.clone().filter(|ns| !ns.is_empty());
        let namespace = namespace.unwrap_or_else(|| of.namespace.clone());
        Ok((
            ObjectRef::new(kind, namespace, self.name.clone()),
            self.ready_expr.clone(),
        ))
    }
}

impl super::FluxObject for Kustomization {
    type Status = KustomizationStatus;

    fn from_object(object: Object) -> Result<Self, String> {
        Self::from_object(object)
    }

    fn object(&self) -> &Object {
        &self.object
    }

    fn status(&self) -> &KustomizationStatus {
        &self.status
    }

    fn is_suspended(&self) -> bool {
        self.spec.suspend
    }
}

impl Kustomization {
    /// Reads a live object of any served version.
    ///
    /// # Errors
    /// A sentence that names the field that is wrong.
    pub fn from_object(object: Object) -> Result<Self, String> {
        let (spec, status) = spec_and_status(&object)?;
        let id = ObjectRef::new(FluxKind::Kustomization, object.namespace(), object.name());
        Ok(Self {
            id,
            object,
            spec,
            status,
        })
    }

    /// `metadata.generation`.
    pub fn generation(&self) -> i64 {
        crate::flux::generation(&self.object)
    }

    /// The source, if its kind makes artifacts.
    ///
    /// # Errors
    /// A kind that is no source.
    pub fn source(&self) -> Result<ObjectRef, String> {
        let source = &self.spec.source_ref;
        let kind = FluxKind::parse(&source.kind).filter(|kind| kind.is_source()).ok_or_else(|| {
            format!(
                "spec.sourceRef.kind '{}' is not a source kind: expected GitRepository, OCIRepository, Bucket or ExternalArtifact",
                source.kind
            )
        })?;
        let namespace = source.namespace.clone().filter(|ns| !ns.is_empty());
        Ok(ObjectRef::new(
            kind,
            namespace.unwrap_or_else(|| self.id.namespace.clone()),
            source.name.clone(),
        ))
    }

    /// The dependencies, with Flux's default of the same kind and namespace.
    ///
    /// # Errors
    /// A kind that nothing can depend on.
    pub fn dependencies(&self) -> Result<Vec<(ObjectRef, Option<String>)>, String> {
        let all = self.spec.depends_on.iter();
        all.map(|dependency| dependency.resolve(&self.id)).collect()
    }

    /// The interval.
    ///
    /// # Errors
    /// No duration.
    pub fn interval(&self) -> Result<Duration, String> {
        parse_duration(&self.spec.interval).map_err(|error| format!("spec.interval: {error}"))
    }

    /// How soon to try again after a failure.
    ///
    /// # Errors
    /// No duration.
    pub fn retry_interval(&self) -> Result<Duration, String> {
        match &self.spec.retry_interval {
            Some(text) => {
                parse_duration(text).map_err(|error| format!("spec.retryInterval: {error}"))
            }
            None => self.interval(),
        }
    }

    /// How long an apply and its health checks may take.
    ///
    /// # Errors
    /// No duration.
    pub fn timeout(&self) -> Result<Duration, String> {
        const LEAST: Duration = Duration::from_secs(30);
        let time = match &self.spec.timeout {
            Some(text) => parse_duration(text).map_err(|error| format!("spec.timeout: {error}"))?,
            None => self.interval()?.saturating_sub(LEAST),
        };
        Ok(time.max(LEAST))
    }

    /// Whether deleting this object deletes what it applied.
    pub fn deletes_on_deletion(&self) -> bool {
        match self.spec.deletion_policy.unwrap_or_default() {
            DeletionPolicy::MirrorPrune => self.spec.prune,
            DeletionPolicy::Delete | DeletionPolicy::WaitForTermination => true,
            DeletionPolicy::Orphan => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn kustomization(spec: Value) -> Kustomization {
        let object = json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1beta1", "kind": "Kustomization",
            "metadata": {"name": "apps", "namespace": "team", "generation": 3}, "spec": spec});
        Kustomization::from_object(Object::new(object).unwrap()).unwrap()
    }

    #[test]
    fn defaults_of_flux() {
        let apps = kustomization(
            json!({"interval": "10m", "prune": true, "validation": "client",
            "sourceRef": {"kind": "GitRepository", "name": "fleet"}, "dependsOn": [{"name": "infra"}]}),
        );
        assert_eq!(apps.timeout().unwrap(), Duration::from_secs(570));
        assert_eq!(apps.retry_interval().unwrap(), Duration::from_secs(600));
        assert_eq!(
            apps.source().unwrap().to_string(),
            "GitRepository/team/fleet"
        );
        assert_eq!(
            apps.dependencies().unwrap()[0].0.to_string(),
            "Kustomization/team/infra"
        );
        assert!(apps.deletes_on_deletion());
        let short =
            kustomization(json!({"interval": "10s", "sourceRef": {"kind": "Pod", "name": "x"}}));
        assert_eq!(short.timeout().unwrap(), Duration::from_secs(30));
        assert!(
            short
                .source()
                .unwrap_err()
                .contains("'Pod' is not a source kind")
        );
    }

    #[test]
    fn nonsense_is_named() {
        let object = json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": {"name": "apps", "namespace": "team"}, "spec": {"interval": 5}});
        let error = Kustomization::from_object(Object::new(object).unwrap()).unwrap_err();
        assert!(error.starts_with("spec: "), "{error}");
        let odd = kustomization(
            json!({"interval": "-5m", "sourceRef": {"kind": "GitRepository", "name": "x"}}),
        );
        assert!(
            odd.interval()
                .unwrap_err()
                .starts_with("spec.interval: '-5m' is not a valid duration")
        );
    }
}
