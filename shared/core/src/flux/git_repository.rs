use super::kustomization::LocalRef;
use super::{Conditions, FluxKind, ObjectRef, parse_duration};
use crate::ports::GitReference;
use driftless_manifest::Object;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::time::Duration;

/// A `GitRepository` of `source.toolkit.fluxcd.io`, from any served version.
#[derive(Clone, Debug)]
pub struct GitRepository {
    /// Which one.
    pub id: ObjectRef,
    /// The live object it was read from.
    pub object: Object,
    /// What the user wants.
    pub spec: GitRepositorySpec,
    /// What was written last.
    pub status: GitRepositoryStatus,
}

/// `spec` of a GitRepository.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitRepositorySpec {
    /// The repository's address.
    pub url: String,
    /// The Secret with the credentials.
    #[serde(default)]
    pub secret_ref: Option<LocalRef>,
    /// `generic`, `github`, `azure` or `aws`.
    #[serde(default)]
    pub provider: Option<String>,
    /// The service account for a cloud's login.
    #[serde(default)]
    pub service_account_name: Option<String>,
    /// How often to look.
    pub interval: String,
    /// How long a look may take.
    #[serde(default)]
    pub timeout: Option<String>,
    /// Which commit.
    #[serde(default, rename = "ref")]
    pub reference: Option<Map<String, Value>>,
    /// Which signatures are needed.
    #[serde(default)]
    pub verify: Option<Map<String, Value>>,
    /// A proxy's address and credentials.
    #[serde(default)]
    pub proxy_secret_ref: Option<LocalRef>,
    /// Patterns of files to leave out, as `.gitignore` has them.
    #[serde(default)]
    pub ignore: Option<String>,
    /// Leave everything as it is.
    #[serde(default)]
    pub suspend: bool,
    /// Fetch submodules.
    #[serde(default)]
    pub recurse_submodules: bool,
    /// Other repositories' files to put into this artifact.
    #[serde(default)]
    pub include: Vec<Map<String, Value>>,
    /// Only these folders.
    #[serde(default)]
    pub sparse_checkout: Vec<String>,
    /// Of older versions; accepted and without effect, as in Flux.
    #[serde(default)]
    pub git_implementation: Option<String>,
    /// Of older versions; accepted and without effect, as in Flux.
    #[serde(default)]
    pub access_from: Option<Map<String, Value>>,
}

/// `status` of a GitRepository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GitRepositoryStatus {
    /// The generation that was looked at last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The conditions.
    pub conditions: Conditions,
    /// The value of `requestedAt` that was handled last.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_handled_reconcile_at: String,
    /// The newest artifact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact: Option<ArtifactStatus>,
    /// The ignore patterns the artifact was made with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_ignore: Option<String>,
    /// The folders the artifact was made with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub observed_sparse_checkout: Vec<String>,
}

/// `status.artifact` of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ArtifactStatus {
    /// The blob's key.
    pub path: String,
    /// The blob's address.
    pub url: String,
    /// `main@sha1:…`.
    pub revision: String,
    /// `sha256:…` of the blob.
    pub digest: String,
    /// When it was stored, RFC 3339.
    pub last_update_time: String,
    /// Bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// What the source says about it, such as the origin's revision.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

impl GitRepository {
    /// Reads a live object of any served version.
    ///
    /// # Errors
    /// A sentence that names the field that is wrong.
    pub fn from_object(object: Object) -> Result<Self, String> {
        let map = object.as_map();
        let spec = map.get("spec").cloned().unwrap_or_default();
        let spec = serde_json::from_value(spec).map_err(|error| format!("spec: {error}"))?;
        let status = match map.get("status") {
            Some(status) => serde_json::from_value(status.clone())
                .map_err(|error| format!("status: {error}"))?,
            None => GitRepositoryStatus::default(),
        };
        let id = ObjectRef::new(FluxKind::GitRepository, object.namespace(), object.name());
        Ok(Self {
            id,
            object,
            spec,
            status,
        })
    }

    /// `metadata.generation`.
    pub fn generation(&self) -> i64 {
        self.object
            .pointer("/metadata/generation")
            .and_then(Value::as_i64)
            .unwrap_or(0)
    }

    /// The reference, `master` when nothing is given (source-controller's default branch).
    ///
    /// # Errors
    /// A sentence that names the field that is wrong.
    pub fn reference(&self) -> Result<GitReference, String> {
        let reference = Value::Object(self.spec.reference.clone().unwrap_or_default());
        let mut reference: GitReference =
            serde_json::from_value(reference).map_err(|error| format!("spec.ref: {error}"))?;
        if reference == GitReference::default() {
            "master".clone_into(&mut reference.branch);
        }
        Ok(reference)
    }

    /// The interval.
    ///
    /// # Errors
    /// No duration.
    pub fn interval(&self) -> Result<Duration, String> {
        parse_duration(&self.spec.interval).map_err(|error| format!("spec.interval: {error}"))
    }

    /// A field that asks for something this version cannot do, as a sentence; nothing is silently ignored.
    pub fn unsupported(&self) -> Option<String> {
        let spec = &self.spec;
        let field = if spec.verify.is_some() {
            "spec.verify (signature verification)"
        } else if spec.proxy_secret_ref.is_some() {
            "spec.proxySecretRef"
        } else if spec.recurse_submodules {
            "spec.recurseSubmodules"
        } else if !spec.include.is_empty() {
            "spec.include"
        } else if !matches!(
            spec.provider.as_deref(),
            None | Some("generic" | "github" | "")
        ) {
            "spec.provider other than generic and github"
        } else {
            return None;
        };
        Some(format!(
            "{field} is not supported yet: remove the field, or keep this source with Flux's source-controller"
        ))
    }
}
