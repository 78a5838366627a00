//! Flux's changes to rendered documents: the post-renderers of the release, the labels with the
//! name of the HelmRelease, and the common metadata.

use super::chart::{ORIGIN_NAME, ORIGIN_NAMESPACE};
use crate::error::ReleaseError;
use driftless_flux::{HelmRelease, KustomizeRenderer};
use driftless_fuel::Tank;
use driftless_kustomize::{Build, Options};
use driftless_manifest::{FileTree, Object, Reader, TreePath, yaml};
use serde_json::{Value, json};

/// The path of the rendered documents in the tree that kustomize builds.
const FILE: &str = "helm-output.yaml";

/// Applies the post-renderers, labels and common metadata to rendered documents.
///
/// # Errors
/// The error of kustomize, or a document that is not an object.
pub fn run(
    release: &HelmRelease,
    mut documents: Vec<Value>,
    step: &Tank,
) -> Result<Vec<Value>, ReleaseError> {
    let renderers = release.spec.post_renderers.iter().flatten();
    for renderer in renderers.filter_map(|renderer| renderer.kustomize.as_ref()) {
        documents = kustomize(renderer, documents, step)?;
    }
    documents
        .into_iter()
        .map(|document| mark(release, document))
        .collect()
}

fn mark(release: &HelmRelease, document: Value) -> Result<Value, ReleaseError> {
    let mut object =
        Object::new(document).map_err(|error| ReleaseError::PostRender(error.to_string()))?;
    object.set_label(ORIGIN_NAME, &release.id.name);
    object.set_label(ORIGIN_NAMESPACE, &release.id.namespace);
    if let Some(common) = &release.spec.common_metadata {
        let labels = common.labels.iter();
        labels.for_each(|(key, value)| object.set_label(key, value));
        let annotations = common.annotations.iter();
        annotations.for_each(|(key, value)| object.set_annotation(key, value));
    }
    Ok(object.into_value())
}

fn kustomize(
    renderer: &KustomizeRenderer,
    documents: Vec<Value>,
    step: &Tank,
) -> Result<Vec<Value>, ReleaseError> {
    let text: Vec<String> = documents.iter().map(yaml::to_string).collect();
    let tree = FileTree::from_files([(FILE, text.join("---\n").as_str())])
        .map_err(|error| ReleaseError::PostRender(error.to_string()))?;
    let merges = renderer.patches_strategic_merge.iter();
    let merges: Vec<String> = merges.map(|patch| json!(patch).to_string()).collect();
    let patches: Vec<Value> = renderer
        .patches
        .iter()
        .map(|patch| match &patch.target {
            Some(target) => json!({"patch": patch.patch, "target": target}),
            None => json!({"patch": patch.patch}),
        })
        .collect();
    let json_patches = renderer.patches_json6902.iter();
    let json_patches: Vec<Value> = json_patches
        .map(|patch| json!({"patch": json!(patch.patch).to_string(), "target": patch.target}))
        .collect();
    let kustomization = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
        "resources": [FILE], "patches": patches, "images": renderer.images,
        "patchesStrategicMerge": merges, "patchesJson6902": json_patches,
    });
    let mut options = Options::flux();
    options.limits.fuel = step.clone();
    let reader = Reader::new(&tree);
    let objects = Build::new(&reader, &TreePath::root())
        .kustomization(&kustomization)
        .options(&options)
        .objects()
        .map_err(|error| ReleaseError::PostRender(error.to_string()))?;
    Ok(objects.into_iter().map(Object::into_value).collect())
}
