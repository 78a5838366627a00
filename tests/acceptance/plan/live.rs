//! The comparison with the live clusters.

use crate::site::{APPS, Login, Site};
use driftless_harness::github::Change;

const PLAIN: &str = "apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata:
  name: plain
  namespace: flux-system
spec:
  interval: 10m
  path: ./plain
  prune: true
  targetNamespace: default
  sourceRef:
    kind: GitRepository
    name: flux-system
";

fn settings(color: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\ndata:\n  color: {color}\n"
    )
}

/// The live object differs from the one in the repository: a private plan shows the live value, one
/// that everyone can read shows the base.
#[test]
fn a_change_is_compared_with_the_live_object_in_a_private_plan_alone() {
    for is_private in [true, false] {
        let site = Site::new(Login::App);
        let files = [
            ("clusters/staging/plain.yaml", PLAIN.to_owned()),
            ("plain/settings.yaml", settings("green")),
        ];
        let files = files.map(|(path, text)| Change::write(path, text));
        site.repository.commit("main", &files, "Add settings");
        site.give(&settings("by-hand").replace("metadata:", "metadata:\n  namespace: default"));
        site.repository.set_private(is_private);
        site.commit("change", &[("plain/settings.yaml", &settings("blue"))]);
        let comment = site.comment_on("change");
        let before = match is_private {
            true => "-  color: by-hand",
            false => "-  color: green",
        };
        assert!(comment.contains(before), "{comment}");
        assert!(comment.contains("+  color: blue"), "{comment}");
        assert_eq!(comment.contains("by-hand"), is_private, "{comment}");
    }
}

/// A change that takes the Secret away from a Kustomization does not show what it had made of it.
#[test]
fn values_that_came_from_a_secret_are_not_read_from_the_cluster() {
    let site = Site::new(Login::App);
    let probe = |part: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: probe\ndata:\n  part: {part}\n"
        )
    };
    let first = Change::write("apps/probe.yaml", probe("${TOKEN:0:3}"));
    site.repository.commit("main", &[first], "Add a probe");
    site.give(&probe("live-value").replace("metadata:", "metadata:\n  namespace: default"));
    let (plain, _) = APPS
        .split_once("  decryption:")
        .expect("a part with secrets");
    site.commit(
        "change",
        &[
            ("clusters/staging/apps.yaml", plain),
            ("apps/probe.yaml", &probe("none")),
        ],
    );
    let comment = site.comment_on("change");
    assert!(comment.contains("+  part: none"), "{comment}");
    assert!(!comment.contains("live-value"), "{comment}");
}
