//! The kind `ArtifactGenerator` of source.extensions.fluxcd.io, which composes ExternalArtifacts
//! from the artifacts of other sources.

use super::{
    ArtifactStatus, CommonMetadata, Conditions, FluxKind, FluxSpec, ObjectRef, Typed,
    parse_duration,
};
use crate::error::FieldError;
use driftless_manifest::Object;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::time::Duration;

/// The annotation that disables the reconciliation of a generator.
pub const GENERATOR_RECONCILE: &str = "source.extensions.fluxcd.io/reconcile";
/// The annotation with the interval of a generator.
pub const GENERATOR_INTERVAL: &str = "source.extensions.fluxcd.io/reconcileEvery";
/// The label of an ExternalArtifact with the uid of the generator that made it.
pub const GENERATOR_UID: &str = "source.extensions.fluxcd.io/generator";
/// The metadata of an artifact with the revision of its origin.
pub const ORIGIN_REVISION: &str = "org.opencontainers.image.revision";
/// The alias of the artifact that is made, in `to` and `inputsFrom`.
pub const ARTIFACT_ALIAS: &str = "artifact";

/// The interval of a generator that names none.
const INTERVAL: Duration = Duration::from_secs(60 * 60);

/// The pattern of `@alias/path`.
const PATH: &str = "^@([a-z0-9]([a-z0-9_-]*[a-z0-9])?)/(.*)$";
/// The pattern of `@alias`.
const REVISION: &str = "^@([a-z0-9]([a-z0-9_-]*[a-z0-9])?)$";
/// The pattern of `@artifact/path`, without `..`.
const DESTINATION: &str = "^@artifact/([^/]{0,1}|[^./][^/]|[.][^./]|[^/]{3,})(/([^/]{0,1}|[^./][^/]|[.][^./]|[^/]{3,}))*$";
/// The pattern of a namespace or service account.
const LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

/// An ArtifactGenerator object.
pub type ArtifactGenerator = Typed<ArtifactGeneratorSpec>;

/// The `spec` of an ArtifactGenerator.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.pathPattern) && size(self.pathPattern) > 0 || self.artifacts.all(a, a.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$') && a.name.size() <= 253)",
     "message": "artifact names must be valid Kubernetes object names when pathPattern is not set"},
    {"rule": "has(self.pathPattern) && size(self.pathPattern) > 0 || self.artifacts.all(a, !has(a.__namespace__) || (a.__namespace__.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && a.__namespace__.size() <= 63))",
     "message": "artifact namespaces must be valid Kubernetes namespaces when pathPattern is not set"},
]))]
pub struct ArtifactGeneratorSpec {
    /// Labels and annotations of all generated objects.
    #[serde(default)]
    pub common_metadata: Option<CommonMetadata>,
    /// The sources of the files.
    #[schemars(length(min = 1, max = 1000))]
    pub sources: Vec<GeneratorSource>,
    /// The service account that must be allowed to write the ExternalArtifacts.
    #[serde(default)]
    #[schemars(length(min = 1, max = 63), regex(pattern = LABEL))]
    pub service_account_name: Option<String>,
    /// The pattern of directories, `@alias/pattern`: each match makes every artifact once, with
    /// `{captures}` in place of the names.
    #[serde(default)]
    #[schemars(length(max = 1024), regex(pattern = PATH))]
    pub path_pattern: Option<String>,
    /// The management of the namespaces that artifacts are written to.
    #[serde(default)]
    pub managed_namespaces: Option<ManagedNamespaces>,
    /// The artifacts that are made.
    #[schemars(length(min = 1, max = 1000))]
    pub artifacts: Vec<OutputArtifact>,
}

/// A source of an ArtifactGenerator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GeneratorSource {
    /// The name of the source in the other fields.
    #[schemars(length(max = 63), regex(pattern = "^[a-z0-9]([a-z0-9_-]*[a-z0-9])?$"))]
    pub alias: String,
    /// The name of the source.
    #[schemars(length(max = 253), regex(pattern = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"))]
    pub name: String,
    /// The namespace of the source; that of the generator when absent.
    #[serde(default)]
    #[schemars(length(min = 1, max = 63), regex(pattern = LABEL))]
    pub namespace: Option<String>,
    /// The kind of the source.
    #[schemars(extend("enum" = ["Bucket", "GitRepository", "OCIRepository", "HelmChart", "ExternalArtifact"]))]
    pub kind: String,
}

/// An artifact that a generator makes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutputArtifact {
    /// The name of the ExternalArtifact.
    #[schemars(length(max = 1024))]
    pub name: String,
    /// The namespace of the ExternalArtifact; that of the generator when absent.
    #[serde(default)]
    #[schemars(length(max = 1024))]
    pub namespace: Option<String>,
    /// A YAML file, `@alias/path`, for `status.exportedInputs` of the ExternalArtifact.
    #[serde(default)]
    #[schemars(length(min = 1, max = 1024), regex(pattern = PATH))]
    pub inputs_from: Option<String>,
    /// The source, `@alias`, whose revision is the artifact's; the digest when absent.
    #[serde(default)]
    #[schemars(length(max = 64), regex(pattern = REVISION))]
    pub revision: Option<String>,
    /// The source, `@alias`, whose revision becomes metadata of the artifact.
    #[serde(default)]
    #[schemars(length(max = 64), regex(pattern = REVISION))]
    pub origin_revision: Option<String>,
    /// The operations, in order; later ones overwrite the files of earlier ones.
    #[schemars(length(min = 1))]
    pub copy: Vec<CopyOperation>,
}

/// The copy of files of a source into an artifact.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CopyOperation {
    /// The files: `@alias/pattern`.
    #[schemars(length(min = 1, max = 1024), regex(pattern = PATH))]
    pub from: String,
    /// The destination: `@artifact/path`.
    #[schemars(length(min = 1, max = 1024), regex(pattern = DESTINATION))]
    pub to: String,
    /// Patterns of files and directories that are not copied.
    #[serde(default)]
    #[schemars(length(max = 100), inner(length(max = 1024)))]
    pub exclude: Vec<String>,
    /// The treatment of the files; `Overwrite` when absent.
    #[serde(default)]
    #[schemars(extend("enum" = ["Overwrite", "Merge", "Extract"]))]
    pub strategy: Option<String>,
    /// Accepts that no file matches `from`.
    #[serde(default)]
    pub optional: bool,
}

/// The namespaces that a generator creates and deletes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedNamespaces {
    /// CEL expressions over the name `ns`.
    #[schemars(length(min = 1))]
    pub allowed_names: Vec<String>,
    /// Deletes namespaces that no artifact is written to.
    pub prune: bool,
    /// Labels and annotations of the namespaces.
    #[serde(default)]
    pub metadata: Option<NamespacesMetadata>,
}

/// The labels and annotations of managed namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.fromSource) || (has(self.from) && size(self.from) > 0)",
     "message": "either fromSource or at least one from operation must be set"},
]))]
pub struct NamespacesMetadata {
    /// A file of a source with labels and annotations.
    #[serde(default)]
    pub from_source: Option<NamespaceMetadataFile>,
    /// Operations on the labels and annotations, in order.
    #[serde(default)]
    pub from: Vec<NamespaceMetadataOperation>,
}

/// A file with labels and annotations of namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "(has(self.allowedAnnotations) && size(self.allowedAnnotations) > 0) || (has(self.allowedLabels) && size(self.allowedLabels) > 0)",
     "message": "at least one annotation or label must be set"},
]))]
pub struct NamespaceMetadataFile {
    /// The file: `@alias/path`.
    #[schemars(length(min = 1, max = 1024), regex(pattern = PATH))]
    pub path: String,
    /// The annotations that the file may set, with a CEL expression for the value.
    #[serde(default)]
    pub allowed_annotations: BTreeMap<String, String>,
    /// The labels that the file may set, with a CEL expression for the value.
    #[serde(default)]
    pub allowed_labels: BTreeMap<String, String>,
}

/// An operation on labels and annotations of namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceMetadataOperation {
    /// The way in which the values are applied.
    #[schemars(extend("enum" = ["Reset", "Override", "Merge"]))]
    pub strategy: String,
    /// The name of the namespace, or `*`.
    #[schemars(
        length(max = 63),
        regex(pattern = r"^(\*|[a-z0-9]([-a-z0-9]*[a-z0-9])?)$")
    )]
    pub namespace: String,
    /// The annotations that the operation sets.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    /// The labels that the operation sets.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// The `status` of an ArtifactGenerator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ArtifactGeneratorStatus {
    /// The conditions of the object.
    pub conditions: Conditions,
    /// The value of `requestedAt` that was handled last.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_handled_reconcile_at: String,
    /// The generated objects.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inventory: Vec<GeneratedEntry>,
    /// The [digest](sources_digest) of the sources that the artifacts were made from.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub observed_sources_digest: String,
}

/// An object in the inventory of a generator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GeneratedEntry {
    /// The kind of the object; `ExternalArtifact` when empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The name of the object.
    pub name: String,
    /// The namespace of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The digest of the artifact.
    pub digest: String,
    /// The name of the artifact's file.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub filename: String,
}

impl GeneratedEntry {
    /// Returns the ExternalArtifact of the entry; `None` if it is of another kind.
    pub fn artifact(&self) -> Option<ObjectRef> {
        let kind = FluxKind::ExternalArtifact;
        matches!(self.kind.as_str(), "" | "ExternalArtifact")
            .then(|| ObjectRef::new(kind, &self.namespace, &self.name))
    }
}

impl FluxSpec for ArtifactGeneratorSpec {
    const KIND: FluxKind = FluxKind::ArtifactGenerator;
    type Status = ArtifactGeneratorStatus;
}

impl ArtifactGenerator {
    /// Returns the sources with their aliases, in the order of `spec.sources`.
    ///
    /// # Errors
    /// The kind of a source has no artifacts.
    pub fn sources(&self) -> Result<Vec<(&str, ObjectRef)>, FieldError> {
        let sources = self.spec.sources.iter();
        let found = sources.map(|source| {
            let kind = FluxKind::parse(&source.kind).filter(|kind| kind.is_source());
            let GeneratorSource {
                kind: given, name, ..
            } = source;
            let kind = kind.ok_or_else(|| {
                FieldError::Value(format!("source `{name}` kind '{given}' not supported"))
            })?;
            let namespace = source.namespace.as_deref().filter(|one| !one.is_empty());
            let namespace = namespace.unwrap_or(&self.id.namespace);
            Ok((source.alias.as_str(), ObjectRef::new(kind, namespace, name)))
        });
        found.collect()
    }

    /// Returns the ExternalArtifact of an artifact with this name.
    pub fn artifact(&self, name: &str, namespace: Option<&str>) -> ObjectRef {
        let namespace = namespace.filter(|namespace| !namespace.is_empty());
        let namespace = namespace.unwrap_or(&self.id.namespace);
        ObjectRef::new(FluxKind::ExternalArtifact, namespace, name)
    }

    /// Returns the ExternalArtifacts that the spec names; with a path pattern, their templates.
    pub fn artifacts(&self) -> Vec<ObjectRef> {
        let artifacts = self.spec.artifacts.iter();
        artifacts
            .map(|one| self.artifact(&one.name, one.namespace.as_deref()))
            .collect()
    }
}

/// Returns the interval of a generator: its annotation, or one hour.
pub fn generator_interval(object: &Object) -> Duration {
    let every = object.annotation(GENERATOR_INTERVAL);
    every
        .and_then(|text| parse_duration(text).ok())
        .filter(|every| !every.is_zero())
        .unwrap_or(INTERVAL)
}

/// Returns the digest of the artifacts of sources, by alias, which changes with each revision.
pub fn sources_digest<'a>(
    artifacts: impl IntoIterator<Item = (&'a str, &'a ArtifactStatus)>,
) -> String {
    let part = |(alias, artifact): (&str, &ArtifactStatus)| {
        let ArtifactStatus {
            digest,
            revision,
            url,
            ..
        } = artifact;
        format!("{alias}=[digest={digest},revision={revision},url={url}]")
    };
    let mut parts: Vec<String> = artifacts.into_iter().map(part).collect();
    parts.sort();
    format!("sha256:{}", hex::encode(Sha256::digest(parts.join("|"))))
}
