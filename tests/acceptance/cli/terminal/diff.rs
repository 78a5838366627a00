//! `diff kustomization`, compared with the real `flux` on one hub: the same directory, the same
//! differences.

use super::hub::Hub;
use driftless_harness::command::{Done, driftless, words};
use driftless_harness::tools;
use std::process::Command;

const BUILD: &str =
    "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [all.yaml]\n";
/// The objects of the Kustomization `apps` with changes: a map with new entries, a container with
/// another image and new lists, a Secret, and a new object.
const OBJECTS: &str = r#"apiVersion: v1
kind: ConfigMap
metadata: {name: settings, annotations: {note: "two words"}}
data:
  size: "size-${size}"
  config.yaml: |
    server:
      port: 80
    log: debug
---
apiVersion: v1
kind: Secret
metadata: {name: git-token, labels: {a: c}}
type: Opaque
data: {username: Z2l0, password: b3RoZXI=, more: eA==}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      volumes:
      - {name: cache, emptyDir: {}}
      containers:
      - name: web
        image: nginx:1.29
        args: ["-v", "--log=info"]
        env:
        - {name: A, value: "1"}
        - {name: B, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        ports:
        - {name: http, containerPort: 80}
        volumeMounts:
        - {name: cache, mountPath: /cache}
        resources: {limits: {cpu: "1", memory: 64Mi}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: added}
data: {a: b}
"#;

#[test]
fn differences_as_flux() {
    let hub = Hub::start();
    let home = tempfile::tempdir().expect("a home");
    let apps = home.path().join("apps");
    std::fs::create_dir(&apps).expect("make the directory");
    std::fs::write(apps.join("kustomization.yaml"), BUILD).expect("write");
    std::fs::write(apps.join("all.yaml"), OBJECTS).expect("write");
    let line = format!(
        "diff kustomization apps -n team-a --path {}",
        apps.display()
    );
    let run = |command: &mut Command, more: &[&str]| {
        let command = command.args(words(&line)).args(more);
        Done::of(command.env("KUBECONFIG", hub.kubeconfig()))
    };
    let mut theirs = Command::new(tools::FLUX.path());
    theirs.env_clear().env("HOME", home.path()).env("TZ", "UTC");
    let theirs = run(&mut theirs, &["--progress-bar=false"]);
    let ours = run(&mut driftless(home.path()), &[]);
    assert_eq!(theirs.code, 1, "{}{}", theirs.out, theirs.err);
    assert_eq!(ours.code, 1, "{}{}", ours.out, ours.err);
    assert_eq!(theirs.out, ours.out);
}
