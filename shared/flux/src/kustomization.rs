//! The kind `Kustomization` of kustomize.toolkit.fluxcd.io.

use super::schema::DURATION;
use super::{Conditions, FluxKind, FluxSpec, ObjectRef, Typed, parse_duration};
use crate::error::FieldError;
use driftless_manifest::Object;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::time::Duration;

/// The label with the name of the Kustomization that applied an object.
pub const KUSTOMIZATION_NAME: &str = "kustomize.toolkit.fluxcd.io/name";
/// The label with the namespace of that Kustomization.
pub const KUSTOMIZATION_NAMESPACE: &str = "kustomize.toolkit.fluxcd.io/namespace";

/// A Kustomization of kustomize.toolkit.fluxcd.io, of any served version.
pub type Kustomization = Typed<KustomizationSpec>;

/// The `spec` of a Kustomization.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KustomizationSpec {
    /// The interval between two reconciliations, such as `10m`.
    #[schemars(regex(pattern = DURATION))]
    pub interval: String,
    /// The interval before a retry after a failure; `interval` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = DURATION))]
    pub retry_interval: Option<String>,
    /// The timeout of an apply with its health checks; the interval less 30 seconds when absent, at
    /// least 30 seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = DURATION))]
    pub timeout: Option<String>,
    /// The source of the files.
    pub source_ref: SourceRef,
    /// The directory in the source; the root when empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Deletes objects that are no longer rendered.
    #[serde(default)]
    #[schemars(!default)]
    pub prune: bool,
    /// Suspends the reconciliation of this object.
    #[serde(default, skip_serializing_if = "is_false")]
    pub suspend: bool,
    /// Recreates objects whose immutable fields changed.
    #[serde(default, skip_serializing_if = "is_false")]
    #[schemars(extend("x-default" = false))]
    pub force: bool,
    /// Waits until all applied objects are ready.
    #[serde(default, skip_serializing_if = "is_false")]
    pub wait: bool,
    /// The policy for the applied objects when this object is deleted; `MirrorPrune` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicy>,
    /// The objects that must be ready before this one is reconciled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<DependsOn>,
    /// The objects whose health is checked, if `wait` is false.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub health_checks: Vec<HealthCheck>,
    /// CEL expressions for the health of custom kinds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub health_check_exprs: Vec<HealthCheckExpr>,
    /// The namespace to set in all objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub target_namespace: Option<String>,
    /// A prefix for the names of all objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub name_prefix: Option<String>,
    /// A suffix for the names of all objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub name_suffix: Option<String>,
    /// Labels and annotations to add to all objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common_metadata: Option<CommonMetadata>,
    /// Strategic merge and JSON patches with their targets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<Patch>,
    /// Strategic merge patches (v1beta1 and v1beta2).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-older" = true))]
    pub patches_strategic_merge: Vec<Map<String, Value>>,
    /// JSON patches (v1beta1 and v1beta2).
    #[serde(
        default,
        rename = "patchesJson6902",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(extend("x-older" = true))]
    pub patches_json6902: Vec<Json6902Patch>,
    /// The image names, tags and digests to replace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// The components to add, as paths relative to `path`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<String>,
    /// Skips components that do not exist.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ignore_missing_components: bool,
    /// The `buildMetadata` of kustomize.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("items" = {"type": "string", "enum": ["originAnnotations", "transformerAnnotations"]}))]
    pub build_metadata: Vec<String>,
    /// Fields to ignore.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<IgnoreRule>,
    /// The variables to substitute after the build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post_build: Option<PostBuild>,
    /// The decryption of files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decryption: Option<Decryption>,
    /// The remote cluster; the cluster of this object when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_config: Option<KubeConfigRef>,
    /// The service account to impersonate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// A field of v1beta1; accepted, without effect as in Flux.
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

/// Returns whether Go's `omitempty` would leave a string out.
#[expect(
    clippy::ref_option,
    reason = "serde's skip_serializing_if passes a reference"
)]
fn is_blank(text: &Option<String>) -> bool {
    text.as_ref().is_none_or(String::is_empty)
}

/// A reference to a source in the same cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceRef {
    /// The API version; optional, because the kind implies it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The kind: `GitRepository`, `OCIRepository`, `Bucket` or `ExternalArtifact`.
    #[schemars(extend("enum" = ["OCIRepository", "GitRepository", "Bucket", "ExternalArtifact"]))]
    pub kind: String,
    /// The name of the object.
    pub name: String,
    /// The namespace of the object; that of this object when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// The policy for the applied objects when the Kustomization is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum DeletionPolicy {
    /// Delete them if `prune` is true.
    #[default]
    MirrorPrune,
    /// Delete them even if `prune` is false.
    Delete,
    /// Delete them and wait until they are gone.
    WaitForTermination,
    /// Keep them in the cluster.
    Orphan,
}

/// A dependency on a Kustomization or HelmRelease.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DependsOn {
    /// The kind, `Kustomization` or `HelmRelease`; that of this object when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The name of the object.
    pub name: String,
    /// The namespace of the object; that of this object when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// A CEL expression over `self` and `dep` that is true if the dependency is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_expr: Option<String>,
}

/// An object whose health is checked.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheck {
    /// The API version of the object, such as `apps/v1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The kind of the object.
    pub kind: String,
    /// The name of the object.
    pub name: String,
    /// The namespace of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// CEL expressions for the health of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheckExpr {
    /// The API version of the objects.
    pub api_version: String,
    /// The kind of the objects.
    #[serde(default)]
    pub kind: String,
    /// An expression that is true while the object is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_progress: Option<String>,
    /// An expression that is true if the object failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// An expression that is true if the object is ready.
    pub current: String,
}

/// Labels and annotations to add to all objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommonMetadata {
    /// The annotations to set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// The labels to set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// A patch with its target, in the format of kustomize.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct Patch {
    /// The strategic merge patch or JSON patch, as YAML.
    pub patch: String,
    /// The selector of the objects to patch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Selector>,
}

/// A JSON patch of the older versions.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct Json6902Patch {
    /// The operations of the patch.
    pub patch: Vec<Map<String, Value>>,
    /// The selector of the objects to patch.
    pub target: Selector,
}

/// A selector of objects. The fields are regular expressions, except the selectors of annotations
/// and labels.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Selector {
    /// The API group of the objects.
    #[serde(default, skip_serializing_if = "is_blank")]
    pub group: Option<String>,
    /// The API version of the objects.
    #[serde(default, skip_serializing_if = "is_blank")]
    pub version: Option<String>,
    /// The kind of the objects.
    #[serde(default, skip_serializing_if = "is_blank")]
    pub kind: Option<String>,
    /// The namespace of the objects.
    #[serde(default, skip_serializing_if = "is_blank")]
    pub namespace: Option<String>,
    /// The name of the objects.
    #[serde(default, skip_serializing_if = "is_blank")]
    pub name: Option<String>,
    /// A selector of annotations, such as `a=b`.
    #[serde(default, skip_serializing_if = "is_blank")]
    pub annotation_selector: Option<String>,
    /// A selector of labels, such as `a=b`.
    #[serde(default, skip_serializing_if = "is_blank")]
    pub label_selector: Option<String>,
}

/// An image to replace.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Image {
    /// The name of the image in the files.
    pub name: String,
    /// The name to replace it with.
    #[serde(default, skip_serializing_if = "is_blank")]
    pub new_name: Option<String>,
    /// The tag to set.
    #[serde(default, skip_serializing_if = "is_blank")]
    pub new_tag: Option<String>,
    /// The digest to set.
    #[serde(default, skip_serializing_if = "is_blank")]
    pub digest: Option<String>,
}

/// Fields to ignore.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct IgnoreRule {
    /// The JSON pointers of the fields.
    pub paths: Vec<String>,
    /// The selector of the objects; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Selector>,
}

/// The variables to substitute after the build.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PostBuild {
    /// Variables with their values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub substitute: BTreeMap<String, String>,
    /// ConfigMaps and Secrets with variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub substitute_from: Vec<SubstituteFrom>,
    /// The strategy: `WithVariables` (only if there are variables) or `Always`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["WithVariables", "Always"]))]
    pub substitute_strategy: Option<String>,
}

/// A reference to a ConfigMap or Secret with variables.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct SubstituteFrom {
    /// The kind: `ConfigMap` or `Secret`.
    #[schemars(extend("enum" = ["Secret", "ConfigMap"]))]
    pub kind: String,
    /// The name of the ConfigMap or Secret, in the namespace of this object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Ignores an object that does not exist.
    #[serde(default, skip_serializing_if = "is_false")]
    #[schemars(extend("x-default" = false))]
    pub optional: bool,
}

/// The decryption of files.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Decryption {
    /// The provider of the decryption: `sops`.
    #[schemars(extend("enum" = ["sops"]))]
    pub provider: String,
    /// The Secret with the keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalRef>,
    /// The service account whose cloud identity is used for the key service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
}

/// A reference to an object in the same namespace.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema,
)]
pub struct LocalRef {
    /// The name of the object.
    pub name: String,
}

/// A reference to a remote cluster.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema,
)]
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
    /// The ConfigMap with the provider and the name of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<LocalRef>,
}

/// A reference to a key of a Secret.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema,
)]
pub struct SecretKeyRef {
    /// The name of the Secret.
    pub name: String,
    /// The key in the Secret; `value` or else `value.yaml` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// The `status` of a Kustomization.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KustomizationStatus {
    /// The generation that was reconciled last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The conditions of the object.
    pub conditions: Conditions,
    /// The value of `requestedAt` that was handled last.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_handled_reconcile_at: String,
    /// The revision that was applied last.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_applied_revision: String,
    /// The origin revision of the OCI artifact, if it has one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_applied_origin_revision: String,
    /// The revision that was attempted last.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_attempted_revision: String,
    /// The objects that were applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inventory: Option<Value>,
    /// The last five results of reconciliations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Value>,
}

impl DependsOn {
    /// Returns the object of the dependency, by default of the kind and namespace of `of`, and the
    /// expression of its readiness.
    ///
    /// # Errors
    /// The kind of the dependency is not supported.
    pub(super) fn resolve(
        &self,
        of: &ObjectRef,
    ) -> Result<(ObjectRef, Option<String>), FieldError> {
        let kind = match self.kind.as_deref() {
            None => of.kind,
            Some("Kustomization") => FluxKind::Kustomization,
            Some("HelmRelease") => FluxKind::HelmRelease,
            Some(other) => {
                return Err(FieldError::Value(format!(
                    "spec.dependsOn: kind '{other}' is not Kustomization or HelmRelease"
                )));
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

impl FluxSpec for KustomizationSpec {
    const KIND: FluxKind = FluxKind::Kustomization;
    type Status = KustomizationStatus;
}

impl Kustomization {
    /// Returns whether values of what it renders may come from a Secret: it decrypts files, or
    /// substitutes variables of one.
    pub fn may_have_secret_values(&self) -> bool {
        let substituted = self.spec.post_build.iter();
        let mut substituted = substituted.flat_map(|build| &build.substitute_from);
        self.spec.decryption.is_some() || substituted.any(|from| from.kind == "Secret")
    }

    /// Returns the source of the files.
    ///
    /// # Errors
    /// The kind of `spec.sourceRef` does not produce artifacts.
    pub fn source(&self) -> Result<ObjectRef, FieldError> {
        let source = &self.spec.source_ref;
        let kind = FluxKind::parse(&source.kind).filter(|kind| kind.is_source()).ok_or_else(|| FieldError::Value(format!(
                "spec.sourceRef.kind '{}' is not a source kind: expected GitRepository, OCIRepository, Bucket or ExternalArtifact",
                source.kind)))?;
        let namespace = source.namespace.clone().filter(|ns| !ns.is_empty());
        Ok(ObjectRef::new(
            kind,
            namespace.unwrap_or_else(|| self.id.namespace.clone()),
            source.name.clone(),
        ))
    }

    /// Returns the dependencies with their `readyExpr`. The default of Flux is the same kind and
    /// namespace.
    ///
    /// # Errors
    /// The kind of a dependency is not supported.
    pub fn dependencies(&self) -> Result<Vec<(ObjectRef, Option<String>)>, FieldError> {
        let all = self.spec.depends_on.iter();
        all.map(|dependency| dependency.resolve(&self.id)).collect()
    }

    /// Returns `spec.interval`.
    ///
    /// # Errors
    /// The field is not a valid duration.
    pub fn interval(&self) -> Result<Duration, FieldError> {
        parse_duration(&self.spec.interval).map_err(FieldError::in_field("spec.interval"))
    }

    /// Returns the interval before a retry after a failure.
    ///
    /// # Errors
    /// The field is not a valid duration.
    pub fn retry_interval(&self) -> Result<Duration, FieldError> {
        match &self.spec.retry_interval {
            Some(text) => parse_duration(text).map_err(FieldError::in_field("spec.retryInterval")),
            None => self.interval(),
        }
    }

    /// Returns the timeout of an apply with its health checks.
    ///
    /// # Errors
    /// The field is not a valid duration.
    pub fn timeout(&self) -> Result<Duration, FieldError> {
        const MIN_TIMEOUT: Duration = Duration::from_secs(30);
        let time = match &self.spec.timeout {
            Some(text) => parse_duration(text).map_err(FieldError::in_field("spec.timeout"))?,
            None => self.interval()?.saturating_sub(MIN_TIMEOUT),
        };
        Ok(time.max(MIN_TIMEOUT))
    }

    /// Returns whether the applied objects are deleted when this object is deleted.
    pub fn deletes_on_deletion(&self) -> bool {
        match self.spec.deletion_policy.unwrap_or_default() {
            DeletionPolicy::MirrorPrune => self.spec.prune,
            DeletionPolicy::Delete | DeletionPolicy::WaitForTermination => true,
            DeletionPolicy::Orphan => false,
        }
    }
}

/// Returns the Kustomization whose labels an object has, except the object itself: a root may apply
/// itself.
pub fn kustomization_of(object: &Object) -> Option<ObjectRef> {
    let (name, namespace) = (
        object.label(KUSTOMIZATION_NAME)?,
        object.label(KUSTOMIZATION_NAMESPACE)?,
    );
    let owner = ObjectRef::new(FluxKind::Kustomization, namespace, name);
    (ObjectRef::of(object).as_ref() != Some(&owner)).then_some(owner)
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
                .to_string()
                .contains("'Pod' is not a source kind")
        );
    }

    #[test]
    fn errors_name_the_field() {
        let object = json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": {"name": "apps", "namespace": "team"}, "spec": {"interval": 5}});
        let error = Kustomization::from_object(Object::new(object).unwrap())
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("spec: "), "{error}");
        let odd = kustomization(
            json!({"interval": "-5m", "sourceRef": {"kind": "GitRepository", "name": "x"}}),
        );
        assert!(
            odd.interval()
                .unwrap_err()
                .to_string()
                .starts_with("spec.interval: '-5m' is not a valid duration")
        );
    }
}
