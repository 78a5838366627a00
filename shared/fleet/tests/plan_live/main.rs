//! Plans that are compared with live clusters: embedded API servers to which the base state of a
//! fleet was applied, and which others changed.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail with a panic that names the expectation"
)]

mod releases;
mod site;

use driftless_fleet::plan::{
    Action, Basis, COMMENT_LIMIT, Installed, Plan, Unreachable, json, markdown, summary, text,
};
use driftless_flux::{FluxKind, ObjectRef};
use serde_json::json;
use site::{HUB, Site, config_map, find, ids, kustomization, run};

/// Returns every form of a plan as text.
fn printed(plan: &Plan) -> String {
    let json = json(plan).to_string();
    [json, markdown(plan, COMMENT_LIMIT, None), text(plan)].join("\n")
}

fn deployment(app: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web, namespace: default}}\nspec:\n  replicas: 0\n  \
         selector: {{matchLabels: {{app: {app}}}}}\n  template:\n    metadata: {{labels: {{app: {app}}}}}\n    \
         spec: {{containers: [{{name: web, image: example.com/web}}]}}\n"
    )
}

#[test]
fn objects_are_compared_with_the_live_ones() {
    run(async {
        let apps = kustomization("apps", "");
        let files =
            |name: &'static str, value: &str| (name, config_map(&name[5..name.len() - 5], value));
        let base = [
            files("apps/drifted.yaml", "a"),
            files("apps/missing.yaml", "a"),
            files("apps/changed.yaml", "a"),
            files("apps/already.yaml", "a"),
            files("apps/same.yaml", "a"),
            files("apps/removed.yaml", "a"),
            files("apps/kept.yaml", "a"),
            files("apps/stolen.yaml", "a"),
            files("apps/vanished.yaml", "a"),
            ("apps/web.yaml", deployment("web")),
        ];
        let base: Vec<_> = base.iter().map(|(name, text)| (*name, &**text)).collect();
        let root = ("clusters/one/apps.yaml", &*apps);
        let site = Site::start(&[&base[..], &[root]].concat()).await;
        site.patch(
            &config_map("drifted", "a"),
            json!({"data": {"key": "by hand"}}),
        )
        .await;
        site.patch(&config_map("already", "a"), json!({"data": {"key": "b"}}))
            .await;
        site.delete(&config_map("missing", "a")).await;
        site.delete(&config_map("vanished", "a")).await;
        let disabled =
            json!({"metadata": {"annotations": {"kustomize.toolkit.fluxcd.io/prune": "disabled"}}});
        site.patch(&config_map("kept", "a"), disabled).await;
        let other = json!({"metadata": {"labels": {"kustomize.toolkit.fluxcd.io/name": "other"}}});
        site.patch(&config_map("stolen", "a"), other).await;
        site.give(&config_map("foreign", "mine")).await;

        let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: fresh}\n";
        let inside = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: inside, namespace: fresh}\ndata: {a: b}\n";
        let head = [
            files("apps/drifted.yaml", "a"),
            files("apps/missing.yaml", "a"),
            files("apps/changed.yaml", "b"),
            files("apps/already.yaml", "b"),
            files("apps/same.yaml", "a"),
            files("apps/foreign.yaml", "ours"),
            ("apps/web.yaml", deployment("site")),
            ("apps/namespace.yaml", namespace.to_owned()),
            ("apps/inside.yaml", inside.to_owned()),
        ];
        let head: Vec<_> = head.iter().map(|(name, text)| (*name, &**text)).collect();
        let plan = site.plan(&[&head[..], &[root]].concat()).await;

        let cluster = &plan.clusters[0];
        assert_eq!(cluster.basis, Basis::Live);
        assert_eq!(
            ids(&cluster.changes),
            [
                "create Namespace/fresh",
                "change ConfigMap/default/changed",
                "change ConfigMap/default/foreign",
                "keep ConfigMap/default/kept",
                "delete ConfigMap/default/removed",
                "change Deployment/default/web",
                "create ConfigMap/fresh/inside",
            ],
            "{}",
            text(&plan)
        );
        assert_eq!(
            ids(&cluster.drift),
            [
                "change ConfigMap/default/drifted",
                "create ConfigMap/default/missing"
            ]
        );
        let diff = &find(&cluster.drift, "ConfigMap/default/drifted").diff;
        assert!(diff.contains("-  key: by hand\n+  key: a\n"), "{diff}");
        let foreign = find(&cluster.changes, "ConfigMap/default/foreign");
        assert!(
            foreign.warnings[0].contains("belongs to no Kustomization"),
            "{:?}",
            foreign.warnings
        );
        assert!(foreign.diff.contains("-  key: mine\n+  key: ours\n"));
        assert_eq!(plan.errors.len(), 1, "{:?}", plan.errors);
        let error = &plan.errors[0];
        assert!(
            error
                .message
                .starts_with("Deployment/default/web dry-run failed: ")
                && error.message.contains("immutable"),
            "{error:?}"
        );
        let place = error.place.as_ref().expect("a place").to_string();
        assert!(place.ends_with("apps/web.yaml:1"), "{place}");
        assert!(
            summary(&plan).contains("2 drifted objects"),
            "{}",
            summary(&plan)
        );
        assert!(text(&plan).contains("drift that an apply puts back, 2 objects:"));
    });
}

#[test]
fn values_of_live_secrets_are_never_printed() {
    run(async {
        let secret = |value: &str| {
            format!(
                "apiVersion: v1\nkind: Secret\nmetadata: {{name: login, namespace: default}}\nstringData: {{password: {value}}}\n"
            )
        };
        let (apps, old, new) = (
            kustomization("apps", ""),
            secret("base-value-1"),
            secret("head-value-2"),
        );
        let map = config_map("copy", "x");
        let root = ("clusters/one/apps.yaml", &*apps);
        let site = Site::start(&[root, ("apps/login.yaml", &old), ("apps/copy.yaml", &map)]).await;
        // "live-value-3" in base64.
        site.patch(&old, json!({"data": {"password": "bGl2ZS12YWx1ZS0z"}}))
            .await;
        let leak =
            json!({"data": {"key": "https://live-value-3@host", "other": "bGl2ZS12YWx1ZS0z"}});
        site.patch(&map, leak).await;
        let unchanged = [root, ("apps/login.yaml", &*old), ("apps/copy.yaml", &map)];
        let changed = [root, ("apps/login.yaml", &*new), ("apps/copy.yaml", &map)];
        for head in [unchanged, changed] {
            let plan = site.plan(&head).await;
            let all = printed(&plan);
            assert_eq!(
                plan.clusters[0].drift.len() + plan.clusters[0].changes.len(),
                2,
                "{all}"
            );
            for value in [
                "live-value-3",
                "bGl2ZS12YWx1ZS0z",
                "head-value-2",
                "aGVhZC12YWx1ZS0y",
                "base-value-1",
                "YmFzZS12YWx1ZS0x",
            ] {
                assert!(!all.contains(value), "{value} in {all}");
            }
            assert!(all.contains("*** (before)"), "{all}");
        }
    });
}

#[test]
fn missing_rights_are_warnings_that_name_the_right() {
    run(async {
        let account = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: deployer, namespace: flux-system}\n---\n\
            apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: deployer}\n\
            roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}\n\
            subjects: [{kind: ServiceAccount, name: deployer, namespace: flux-system}]\n";
        let (infra, apps) = (
            kustomization("infra", ""),
            kustomization(
                "apps",
                "  serviceAccountName: deployer\n  dependsOn: [{name: infra}]\n",
            ),
        );
        let (old, new, same) = (
            config_map("a", "old"),
            config_map("a", "new"),
            config_map("same", "x"),
        );
        let files = |a| {
            [
                ("clusters/one/infra.yaml", &*infra),
                ("clusters/one/apps.yaml", &*apps),
                ("infra/account.yaml", account),
                ("apps/a.yaml", a),
                ("apps/same.yaml", &*same),
            ]
        };
        let site = Site::start(&files(&old)).await;
        let reader = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: reader}\n\
            rules: [{apiGroups: [''], resources: [configmaps], verbs: [get, list]}]\n";
        let binding = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: reader}\n\
            roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}\n\
            subjects: [{kind: ServiceAccount, name: deployer, namespace: flux-system}]\n";
        site.give(reader).await;
        site.give(binding).await;
        site.delete("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: deployer}\n")
            .await;
        let plan = site.plan(&files(&new)).await;
        let cluster = &plan.clusters[0];
        assert_eq!(cluster.basis, Basis::Live, "{}", text(&plan));
        let change = find(&cluster.changes, "ConfigMap/default/a");
        let right = "User \"system:serviceaccount:flux-system:deployer\" cannot patch resource \"configmaps\"";
        assert!(
            change.warnings.iter().any(|one| one.contains(right)),
            "{:?}",
            change.warnings
        );
        assert!(change.diff.contains("-  key: old\n+  key: new\n"));
        assert!(plan.errors.is_empty(), "{:?}", plan.errors);
        assert_eq!(
            ids(&cluster.drift),
            ["create ClusterRoleBinding/deployer"],
            "{}",
            text(&plan)
        );
    });
}

#[test]
fn a_cluster_that_cannot_be_reached_is_compared_with_the_base() {
    run(async {
        let (apps, edge) = (
            kustomization("apps", ""),
            kustomization(
                "edge",
                "  kubeConfig: {secretRef: {name: edge-kubeconfig}}\n",
            ),
        );
        let (old, new) = (config_map("a", "old"), config_map("a", "new"));
        let files = |a| {
            [
                ("clusters/one/apps.yaml", &*apps),
                ("clusters/one/edge.yaml", &*edge),
                ("apps/a.yaml", a),
                ("edge/a.yaml", a),
            ]
        };
        let site = Site::start(&files(&*old)).await;
        // Everything can be reached, and the remote cluster drifted.
        let plan = site.plan(&files(&*new)).await;
        assert!(plan.warnings.is_empty(), "{}", text(&plan));
        assert_eq!(plan.clusters.len(), 2, "{}", text(&plan));
        assert!(plan.clusters.iter().all(|one| one.basis == Basis::Live));

        let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: edge-kubeconfig, namespace: flux-system}\n";
        site.delete(secret).await;
        let plan = site.plan(&files(&*new)).await;
        let bases: Vec<Basis> = plan.clusters.iter().map(|one| one.basis).collect();
        assert!(bases.contains(&Basis::Base) && bases.contains(&Basis::Live));
        let [warning] = plan.warnings.as_slice() else {
            panic!("one warning: {:?}", plan.warnings);
        };
        assert!(
            warning
                .message
                .contains("compared with the base, not with the live state")
                && warning.message.contains("edge-kubeconfig"),
            "{warning:?}"
        );

        let reason = Unreachable("connection refused".to_owned());
        let nothing = Installed::new(&site.world.ports).with_hub(HUB, Err(reason));
        let plan = site.plan_with(&files(&*new), &nothing).await;
        assert!(plan.clusters.iter().all(|one| one.basis == Basis::Base));
        assert_eq!(plan.count(Action::Change), 2);
        assert!(
            plan.warnings
                .iter()
                .all(|one| one.message.ends_with("connection refused")),
            "{:?}",
            plan.warnings
        );
    });
}

#[test]
fn annotations_and_ignored_fields_keep_a_step_from_a_write() {
    run(async {
        let apps = kustomization(
            "apps",
            "  ignore: [{paths: [/data/free], target: {kind: ConfigMap}}]\n",
        );
        let with = |name: &str, mark: &str, value: &str| {
            format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: default, annotations: {{kustomize.toolkit.fluxcd.io/{mark}}}}}\n\
                 data: {{key: {value}}}\n"
            )
        };
        let files = |value: &str| {
            [
                ("apps/once.yaml", with("once", "ssa: IfNotPresent", value)),
                ("apps/merged.yaml", with("merged", "ssa: Merge", value)),
                ("apps/plain.yaml", config_map("plain", value)),
            ]
        };
        let root = ("clusters/one/apps.yaml", &*apps);
        let base = files("a");
        let base: Vec<_> = base.iter().map(|(name, text)| (*name, &**text)).collect();
        let site = Site::start(&[&base[..], &[root]].concat()).await;
        let free = json!({"data": {"free": "of another writer"}});
        for name in ["once", "merged", "plain"] {
            site.patch(&config_map(name, "a"), free.clone()).await;
        }
        let off = json!({"metadata": {"annotations": {"kustomize.toolkit.fluxcd.io/reconcile": "disabled"}}});
        site.patch(&config_map("plain", "a"), off).await;
        let head = files("b");
        let head: Vec<_> = head.iter().map(|(name, text)| (*name, &**text)).collect();
        let plan = site.plan(&[&head[..], &[root]].concat()).await;
        assert_eq!(
            ids(&plan.clusters[0].changes),
            ["change ConfigMap/default/merged"],
            "{}",
            text(&plan)
        );
        let diff = &plan.clusters[0].changes[0].diff;
        assert!(!diff.contains("-  free"), "{diff}");
        let owner = ObjectRef::new(FluxKind::Kustomization, "flux-system", "apps");
        assert_eq!(plan.clusters[0].changes[0].owner, owner.to_string());
    });
}
