//! No secret byte leaves the process.

use crate::site::{APPS, Login, PASSWORDS, Site, sealed};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

#[test]
fn a_secret_is_changed_or_unchanged_and_its_bytes_appear_nowhere() {
    let site = Site::new(Login::App);
    // Parts of secrets in other objects: by a variable, and by a replacement of kustomize.
    let probe = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: probe\ndata:\n  region: ${REGION}\n  whole: ${TOKEN}\n  \
        part: ${TOKEN:0:8}\n  taken: none\n";
    let kustomization = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [web.yaml, secret.yaml, \
        probe.yaml]\nreplacements:\n- source: {kind: Secret, name: database, fieldPath: stringData.password, options: {delimiter: \
        '-', index: 0}}\n  targets:\n  - select: {kind: ConfigMap, name: probe}\n    fieldPaths: [data.taken]\n";
    site.commit(
        "change",
        &[
            ("apps/secret.yaml", &sealed(&site.recipient, PASSWORDS[1])),
            ("apps/probe.yaml", probe),
            ("apps/kustomization.yaml", kustomization),
        ],
    );
    let text = site.comment_on("change");
    assert!(text.contains("`Secret/default/database`"), "{text}");
    assert!(
        text.contains("*** (before)") && text.contains("*** (after)"),
        "{text}"
    );
    assert!(
        text.contains("region: eu-west-7"),
        "the hub's ConfigMap is used: {text}"
    );
    let all = site.everything();
    for secret in PASSWORDS {
        let parts = [
            secret.to_owned(),
            STANDARD.encode(secret),
            secret[..8].to_owned(),
        ];
        for part in parts {
            assert!(!all.contains(&part), "'{part}' has left the process");
        }
    }
    assert!(!all.contains("AGE-SECRET-KEY"));
    let read = site.secrets.read.lock().expect("names").clone();
    assert!(read.iter().any(|name| name == "hubs/staging"), "{read:?}");
    assert!(
        read.iter()
            .any(|name| name == "tenants/staging/flux-system"),
        "{read:?}"
    );
}

#[test]
fn a_secret_that_is_only_encrypted_again_is_unchanged() {
    let site = Site::new(Login::App);
    let again = sealed(&site.recipient, PASSWORDS[0]);
    let apps = APPS.replace("interval: 10m", "interval: 20m");
    site.commit(
        "change",
        &[
            ("apps/secret.yaml", &again),
            ("clusters/staging/apps.yaml", &apps),
        ],
    );
    let text = site.comment_on("change");
    assert!(
        text.contains("1 to change") && !text.contains("database"),
        "{text}"
    );
}
