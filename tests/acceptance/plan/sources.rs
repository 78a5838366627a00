//! The other repositories that a hub follows.

use crate::site::{Login, Site};
use driftless_flux::{FluxKind, ObjectRef};
use driftless_harness::github::Change;

const SOURCE: &str = "apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata:
  name: team-a
  namespace: flux-system
spec:
  interval: 1m
  url: https://github.com/acme/team-a
  ref:
    branch: main
";
const TEAM: &str = "---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata:
  name: team
  namespace: flux-system
spec:
  interval: 10m
  path: ./deploy
  prune: true
  targetNamespace: default
  commonMetadata:
    labels:
      tier: one
  sourceRef:
    kind: GitRepository
    name: team-a
";

/// A change of the fleet is rendered with the files of a tenant's repository, unless everyone can
/// read the plan.
#[test]
fn objects_of_another_repository_are_compared_in_a_private_plan_alone() {
    for is_private in [true, false] {
        let site = Site::new(Login::App);
        let team = site.github.repository("acme/team-a");
        let object =
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: of-the-team\ndata:\n  a: b\n";
        team.commit("main", &[Change::write("deploy/a.yaml", object)], "First");
        let path = "clusters/staging/team.yaml";
        let files = |team: &str| format!("{SOURCE}{team}");
        let first = Change::write(path, files(TEAM));
        site.repository.commit("main", &[first], "Add the team");
        site.give(SOURCE);
        let source = ObjectRef::new(FluxKind::GitRepository, "flux-system", "team-a");
        site.step(&source);
        site.repository.set_private(is_private);
        let changed = TEAM.replace("tier: one", "tier: two");
        site.commit("change", &[(path, &files(&changed))]);
        let comment = site.comment_on("change");
        let is_compared = comment.contains("ConfigMap/default/of-the-team");
        assert_eq!(is_compared, is_private, "{comment}");
        assert_eq!(
            comment.contains("Everyone can read"),
            !is_private,
            "{comment}"
        );
    }
}
