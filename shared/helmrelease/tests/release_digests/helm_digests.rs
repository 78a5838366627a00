//! Compares digests and names of HelmReleases with those of helm-controller 1.6
//! (`tests/oracle/helm-controller`), and its snapshots of the records in the corpus.

use driftless_flux::HelmRelease;
use driftless_helm::record::{RecordLimits, Release};
use driftless_helmrelease::history::{snapshot, test_hooks, verify};
use driftless_helmrelease::state::{common_metadata_digest, post_renderers_digest};
use driftless_manifest::Object;
use serde_json::{Value, json};
use std::path::Path;

fn lines(file: &str) -> Vec<Value> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/helm-record");
    let text = std::fs::read_to_string(directory.join(file)).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn digests_and_names_of_specs() {
    let (specs, answers) = (lines("specs.jsonl"), lines("specs.answers.jsonl"));
    assert_eq!(specs.len(), answers.len());
    for (mut spec, answer) in specs.into_iter().zip(answers) {
        spec["interval"] = json!("5m");
        spec["chartRef"] = json!({"kind": "HelmChart", "name": "web"});
        let object = json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
            "metadata": {"name": "web", "namespace": "apps"}, "spec": spec});
        let release = HelmRelease::from_object(Object::new(object).unwrap()).unwrap();
        let metadata = release.spec.common_metadata.as_ref();
        let renderers = release.spec.post_renderers.as_deref();
        assert_eq!(
            post_renderers_digest(renderers),
            answer["postRenderers"],
            "{spec}"
        );
        assert_eq!(
            common_metadata_digest(metadata),
            answer["commonMetadata"],
            "{spec}"
        );
        assert_eq!(release.release_name(), answer["releaseName"], "{spec}");
    }
}

#[test]
fn snapshots_of_records() {
    for (line, answer) in lines("helm.jsonl").iter().zip(lines("flux.jsonl")) {
        let oci_digest = line["ociDigest"].as_str().unwrap_or_default();
        for version in ["helm3", "helm4"] {
            let mut secret = line[version].clone();
            secret["apiVersion"] = json!("v1");
            secret["kind"] = json!("Secret");
            let secret = Object::new(secret).unwrap();
            let record = Release::from_secret(&secret, &RecordLimits::default()).unwrap();
            let mut ours = snapshot(&record, None, oci_digest).unwrap();
            assert!(verify(&ours, &record).is_ok());
            ours.test_hooks = Some(test_hooks(&record, &[]));
            let mut theirs = answer[version].clone();
            drop_nulls(&mut theirs);
            assert_eq!(
                serde_json::to_value(&ours).unwrap(),
                theirs,
                "{} of {version}",
                line["name"]
            );
        }
    }
}

/// The zero times of Kubernetes.
fn drop_nulls(value: &mut Value) {
    if let Some(map) = value.as_object_mut() {
        map.retain(|_, value| !value.is_null());
        map.values_mut().for_each(drop_nulls);
    }
}
