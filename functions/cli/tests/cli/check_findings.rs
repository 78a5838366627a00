//! The truth of a check: what can never work is an error with its file and line; what a cluster may
//! accept is not an error.

use crate::check::{check, config_map, fleet, kustomization};
use driftless_harness::command::Done;
use serde_json::Value;
use std::path::Path;

/// Returns the errors as `FILE:LINE: MESSAGE`, and the notes as `ABOUT: MESSAGE`.
fn findings(done: &Done, directory: &Path) -> (Vec<String>, Vec<String>) {
    let json: Value = serde_json::from_str(&done.out)
        .unwrap_or_else(|error| panic!("{error}: {}{}", done.out, done.err));
    let root = directory.canonicalize().expect("the directory");
    let text = |one: &Value, field: &str| one[field].as_str().unwrap_or_default().to_owned();
    let error = |one: &Value| {
        let file = text(one, "file");
        let file = Path::new(&file);
        let file = file.strip_prefix(&root).unwrap_or(file).display();
        format!("{file}:{}: {}", one["line"], text(one, "message"))
    };
    let note = |one: &Value| format!("{}: {}", text(one, "object"), text(one, "message"));
    let list = |field: &str| json[field].as_array().expect("a list").clone();
    (
        list("errors").iter().map(error).collect(),
        list("notes").iter().map(note).collect(),
    )
}

fn checked(directory: &Path, more: &[&str]) -> (Vec<String>, Vec<String>) {
    let done = check(directory, &[&["-o", "json"], more].concat());
    findings(&done, directory)
}

/// Asserts that these are all errors: the beginning of each, and words of it.
fn are(errors: &[String], expected: &[(&str, &str)]) {
    assert_eq!(errors.len(), expected.len(), "{errors:#?}");
    for (begin, words) in expected {
        let mut all = errors.iter();
        assert!(
            all.any(|error| error.starts_with(begin) && error.contains(words)),
            "no '{begin} .. {words}' in {errors:#?}"
        );
    }
}

fn depends(name: &str, on: &[&str]) -> String {
    let on: String = on
        .iter()
        .map(|name| format!("  - name: {name}\n"))
        .collect();
    kustomization(name, &format!("  dependsOn:\n{on}"))
}

#[test]
fn impossible_dependencies_are_errors() {
    let wrong_source =
        kustomization("source", "").replace("name: flux-system\n", "name: flux-sytem\n");
    let directory = fleet(&[
        ("clusters/one/base.yaml", kustomization("base", "")),
        ("base/a.yaml", config_map("base")),
        ("clusters/one/typo.yaml", depends("typo", &["base", "bsae"])),
        ("typo/a.yaml", config_map("typo")),
        ("clusters/one/self.yaml", depends("self", &["self"])),
        ("self/a.yaml", config_map("self")),
        ("clusters/one/left.yaml", depends("left", &["right"])),
        ("left/a.yaml", config_map("left")),
        ("clusters/one/right.yaml", depends("right", &["left"])),
        ("right/a.yaml", config_map("right")),
        ("clusters/one/behind.yaml", depends("behind", &["left"])),
        ("behind/a.yaml", config_map("behind")),
        ("clusters/one/source.yaml", wrong_source),
        ("source/a.yaml", config_map("source")),
    ]);
    let (errors, notes) = checked(directory.path(), &[]);
    are(
        &errors,
        &[
            (
                "clusters/one/typo.yaml:15:",
                "'flux-system/bsae' is not found",
            ),
            ("clusters/one/self.yaml:14:", "is the object itself"),
            (
                "clusters/one/left.yaml:14:",
                "flux-system/left -> flux-system/right -> flux-system/left",
            ),
            (
                "clusters/one/right.yaml:14:",
                "flux-system/right -> flux-system/left -> flux-system/right",
            ),
            ("clusters/one/source.yaml:", "\"flux-sytem\" not found"),
        ],
    );
    let waits = "dependency 'flux-system/left' is not ready";
    assert!(notes.iter().any(|note| note.contains(waits)), "{notes:#?}");
    let text = check(directory.path(), &[]);
    assert!(
        text.err.contains("1 not checked (1 wait for others)"),
        "{}",
        text.err
    );
}

/// If nothing states the address of the fleet, a name that differs from all others is still an
/// error.
#[test]
fn one_source_of_another_name_is_an_error() {
    let renamed = |name: &str, source: &str| {
        kustomization(name, "").replace("name: flux-system\n", &format!("name: {source}\n"))
    };
    let directory = fleet(&[
        ("clusters/one/a.yaml", renamed("a", "config")),
        ("clusters/one/b.yaml", renamed("b", "config")),
        ("clusters/one/c.yaml", renamed("c", "confg")),
        ("a/a.yaml", config_map("a")),
        ("b/a.yaml", config_map("b")),
        ("c/a.yaml", config_map("c")),
    ]);
    std::fs::remove_dir_all(directory.path().join("clusters/one/flux-system")).expect("no sync");
    let (errors, _) = checked(directory.path(), &[]);
    are(&errors, &[("clusters/one/c.yaml:", "\"confg\" not found")]);
}

fn source(kind: &str, name: &str, spec: &str) -> String {
    format!(
        "apiVersion: source.toolkit.fluxcd.io/v1\nkind: {kind}\nmetadata:\n  name: {name}\n  namespace: flux-system\nspec:\n  interval: 1h\n{spec}"
    )
}

#[test]
fn an_unsupported_field_is_an_error_of_check() {
    let url = "  url: https://github.com/acme/apps\n";
    let objects = [
        source(
            "GitRepository",
            "plain",
            "  url: http://git.acme.example/apps\n",
        ),
        source(
            "GitRepository",
            "verified",
            &format!("{url}  verify:\n    secretRef:\n      name: keys\n"),
        ),
        source(
            "GitRepository",
            "cloud",
            "  url: https://dev.azure.com/acme/project/_git/apps\n  provider: azure\n",
        ),
        source("GitRepository", "other", url),
    ];
    let directory = fleet(&[("clusters/one/all.yaml", objects.join("---\n"))]);
    let (errors, notes) = checked(directory.path(), &[]);
    are(
        &errors,
        &[
            (
                "clusters/one/all.yaml:8:",
                "not served: spec.url: http:// is allowed only",
            ),
            ("clusters/one/all.yaml:30:", "not served: spec.provider"),
        ],
    );
    // A source without a directory is not checked, and is not an error.
    assert!(
        notes
            .iter()
            .any(|note| note.starts_with("GitRepository/flux-system/other: not checked: ")),
        "{notes:#?}"
    );
    let done = check(directory.path(), &["-o", "sarif", "--allow-not-served"]);
    assert_eq!(done.code, 0, "{}{}", done.out, done.err);
    assert!(done.out.contains("\"not-served\""), "{}", done.out);
}

#[test]
fn files_for_key_services_alone_are_named() {
    let encrypted = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: a\n  namespace: default\nstringData:\n    a: ENC[AES256_GCM,data:a+/=,iv:b=,tag:c=,type:str]\nsops:\n    kms:\n        - arn: arn:aws:kms:eu-west-1:1:key/x\n          created_at: \"2024-01-01T00:00:00Z\"\n          enc: AQ==\n          aws_profile: \"\"\n    lastmodified: \"2024-01-01T00:00:00Z\"\n    mac: ENC[AES256_GCM,data:a+/=,iv:b=,tag:c=,type:str]\n    encrypted_regex: ^(data|stringData)$\n    version: 3.8.1\n";
    let decryption = "  decryption:\n    provider: sops\n";
    let directory = fleet(&[
        ("clusters/one/apps.yaml", kustomization("apps", decryption)),
        ("apps/secret.yaml", encrypted.to_owned()),
    ]);
    let (errors, _) = checked(directory.path(), &[]);
    are(
        &errors,
        &[(
            "apps/secret.yaml:",
            "not served: the file is encrypted for AWS KMS only",
        )],
    );
}

/// The key that decrypts the other Secrets is itself encrypted in Git; a value of `stringData` is a
/// part of a name.
#[test]
fn placeholders_are_valid_values() {
    let enc = "ENC[AES256_GCM,data:a+/=,iv:b=,tag:c=,type:str]";
    let secret = |name: &str, field: &str, key: &str| {
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata:\n  name: {name}\n  namespace: flux-system\n{field}:\n  {key}: {enc}\nsops:\n  age: []\n  mac: {enc}\n"
        )
    };
    let named = config_map("x").replace("name: x", "name: ${DOMAIN}-production");
    let keys = |name: &str, secret: &str| {
        kustomization(
            name,
            &format!("  decryption:\n    provider: sops\n    secretRef:\n      name: {secret}\n"),
        )
    };
    let vars = "  postBuild:\n    substituteFrom:\n    - kind: Secret\n      name: vars\n";
    let directory = fleet(&[
        (
            "clusters/one/key.sops.yaml",
            secret("key", "stringData", "age.agekey"),
        ),
        (
            "clusters/one/data.sops.yaml",
            secret("data", "data", "age.agekey"),
        ),
        (
            "clusters/one/vars.sops.yaml",
            secret("vars", "stringData", "DOMAIN"),
        ),
        ("clusters/one/apps.yaml", keys("apps", "key")),
        ("clusters/one/more.yaml", keys("more", "data")),
        ("clusters/one/named.yaml", kustomization("named", vars)),
        ("apps/a.yaml", config_map("a")),
        ("more/a.yaml", config_map("b")),
        ("named/a.yaml", named),
    ]);
    let (errors, _) = checked(directory.path(), &[]);
    are(&errors, &[]);
}

#[test]
fn flags_of_api_servers_are_known_or_a_note() {
    let scaler = "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata:\n  name: web\n  namespace: default\nspec:\n  minReplicas: 0\n  maxReplicas: 1\n  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}\n  metrics:\n  - type: External\n    external: {metric: {name: up}, target: {type: Value, value: 1}}\n";
    let bundle = "apiVersion: certificates.k8s.io/v1alpha1\nkind: ClusterTrustBundle\nmetadata: {name: a}\nspec: {trustBundle: x}\n";
    let old = "apiVersion: networking.k8s.io/v1beta1\nkind: Ingress\nmetadata: {name: a, namespace: default}\n";
    let files = [
        (
            "clusters/one/apps.yaml",
            kustomization("apps", "  wait: true\n"),
        ),
        ("apps/scaler.yaml", scaler.to_owned()),
        ("apps/bundle.yaml", bundle.to_owned()),
    ];
    let directory = fleet(&files);
    let (errors, notes) = checked(directory.path(), &[]);
    are(&errors, &[]);
    for flag in [
        "--api-feature-gates HPAScaleToZero=true",
        "--runtime-config certificates.k8s.io/v1alpha1=true",
    ] {
        assert!(
            notes.iter().any(|note| note.contains(flag)),
            "{flag}: {notes:#?}"
        );
    }
    let on = [
        "--api-feature-gates",
        "HPAScaleToZero=true",
        "--runtime-config",
        "api/alpha=true",
    ];
    assert_eq!(checked(directory.path(), &on), (vec![], vec![]));
    are(
        &checked(
            directory.path(),
            &["--api-feature-gates", "HPAScaleToZero=false"],
        )
        .0,
        &[("apps/scaler.yaml:7:", "minReplicas")],
    );
    let off = ["--runtime-config", "certificates.k8s.io/v1alpha1=false"];
    are(
        &checked(directory.path(), &off).0,
        &[("apps/bundle.yaml:1:", "no matches for kind")],
    );
    let talos = "cluster:\n  apiServer:\n    extraArgs:\n      feature-gates: HPAScaleToZero=true\n      runtime-config: certificates.k8s.io/v1alpha1=true\n";
    let directory = fleet(&[&files[..], &[("talos/patch.yaml", talos.to_owned())]].concat());
    assert_eq!(checked(directory.path(), &[]), (vec![], vec![]));
    // A version that no API server serves any longer stays an error.
    let directory = fleet(&[&files[..1], &[("apps/old.yaml", old.to_owned())]].concat());
    are(
        &checked(directory.path(), &[]).0,
        &[("apps/old.yaml:", "no matches for kind")],
    );
}

#[test]
fn one_remote_file_of_a_generator_is_one_placeholder() {
    let generator = "resources: [a.yaml]\nconfigMapGenerator:\n- name: dashboards\n  namespace: default\n  files:\n  - board.json=https://boards.acme.example/1.json\n";
    let directory = fleet(&[
        ("clusters/one/apps.yaml", kustomization("apps", "")),
        ("apps/kustomization.yaml", generator.to_owned()),
        ("apps/a.yaml", config_map("a").replace("a: b", "a: [b]")),
    ]);
    let (errors, notes) = checked(directory.path(), &[]);
    are(&errors, &[("apps/a.yaml:", "")]);
    let words = "https://boards.acme.example/1.json: not checked: the file is not fetched; the entry is a placeholder";
    assert!(
        notes.iter().any(|note| note.starts_with(words)),
        "{notes:#?}"
    );
}

#[test]
fn a_kubeconfig_in_git_gets_a_stand_in_cluster() {
    let config = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: edge-kubeconfig\n  namespace: flux-system\nstringData:\n  value: |\n    apiVersion: v1\n    kind: Config\n    current-context: a\n    contexts:\n    - name: a\n      context: {cluster: a, user: a}\n    clusters:\n    - name: a\n      cluster: {server: 'https://edge-1.example.com:6443'}\n    users:\n    - name: a\n      user: {token: x}\n";
    let remote = "  kubeConfig:\n    secretRef:\n      name: edge-kubeconfig\n";
    let directory = fleet(&[
        ("clusters/one/config.yaml", config.to_owned()),
        ("clusters/one/edge.yaml", kustomization("edge", remote)),
        ("edge/a.yaml", config_map("a")),
    ]);
    let (errors, notes) = checked(directory.path(), &[]);
    are(&errors, &[]);
    assert!(
        notes.iter().any(|note| note
            .contains("cluster edge replaces that of Secret/flux-system/edge-kubeconfig")),
        "{notes:#?}"
    );
}

#[test]
fn notes_of_one_kind_are_one_line() {
    let object = |kind: &str| {
        format!(
            "apiVersion: acme.example/v1\nkind: {kind}\nmetadata:\n  name: a\n  namespace: default\n"
        )
    };
    let all = ["Gadget", "Gizmo", "Widget"].map(object).join("---\n");
    let directory = fleet(&[
        ("clusters/one/apps.yaml", kustomization("apps", "")),
        ("apps/all.yaml", all),
    ]);
    let lines = |more: &[&str]| {
        let done = check(directory.path(), more);
        let notes = done.out.lines().filter(|line| line.starts_with("note: "));
        notes.map(str::to_owned).collect::<Vec<_>>()
    };
    let short = lines(&[]);
    assert_eq!(short.len(), 1, "{short:#?}");
    assert!(short[0].contains("3 times: "), "{short:#?}");
    assert_eq!(lines(&["--verbose"]).len(), 3);
}

#[test]
fn a_check_that_reached_little_reports_it() {
    let directory = fleet(&[
        ("lost/a.yaml", kustomization("a", "")),
        ("lost/b.yaml", kustomization("b", "")),
        ("lost/c.yaml", kustomization("c", "")),
        ("lost/e.yaml", kustomization("e", "")),
        ("clusters/one/d.yaml", config_map("d")),
    ]);
    let done = check(directory.path(), &[]);
    assert!(
        done.out
            .contains("not checked: most of the fleet: only 1 of 5 Kustomizations"),
        "{}",
        done.out
    );
    assert_eq!(check(directory.path(), &["--strict"]).code, 1);
}

#[test]
fn the_address_and_root_are_read_from_the_clone() {
    let other = source(
        "GitRepository",
        "self",
        "  url: https://github.com/acme/elsewhere\n  ref:\n    branch: main\n",
    );
    let by_other = kustomization("apps", "").replace("name: flux-system\n", "name: self\n");
    let directory = fleet(&[
        ("clusters/one/apps.yaml", format!("{other}---\n{by_other}")),
        ("apps/a.yaml", config_map("a")),
        (
            ".git/config",
            "[remote \"origin\"]\n\turl = git@github.com:acme/elsewhere.git\n".to_owned(),
        ),
    ]);
    assert_eq!(checked(directory.path(), &[]), (vec![], vec![]));
    let below = check(&directory.path().join("apps"), &[]);
    assert_eq!(below.code, 1);
    assert!(
        below
            .err
            .contains("run the command on the root of the repository"),
        "{}",
        below.err
    );
}

fn capsule_definition(kind: &str, plural: &str) -> String {
    format!(
        "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: {plural}.capsule.clastix.io\n\
         spec:\n  group: capsule.clastix.io\n  scope: Cluster\n  names: {{kind: {kind}, plural: {plural}}}\n  versions:\n  - name: \
         v1beta2\n    served: true\n    storage: true\n    schema:\n      openAPIV3Schema: {{type: object, \
         x-kubernetes-preserve-unknown-fields: true}}\n"
    )
}

/// Creates a fleet with Capsule's definitions, a Tenant whose owner is an annotated account, and
/// objects that are applied as that account.
pub fn capsule_fleet() -> tempfile::TempDir {
    let tenant = "---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: oil-system\n---\napiVersion: v1\nkind: ServiceAccount\nmetadata:\n  \
                  name: gitops-reconciler\n  namespace: oil-system\n  annotations:\n    capsule.addon.fluxcd/enabled: \"true\"\n---\n\
                  apiVersion: capsule.clastix.io/v1beta2\nkind: Tenant\nmetadata:\n  name: oil\nspec:\n  owners:\n  - name: \
                  system:serviceaccount:oil-system:gitops-reconciler\n    kind: ServiceAccount\n";
    let apps = "---\napiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata:\n  name: apps\n  namespace: oil-system\nspec:\n  \
                interval: 10m\n  prune: true\n  serviceAccountName: gitops-reconciler\n  kubeConfig:\n    secretRef:\n      name: \
                gitops-reconciler-kubeconfig\n      key: kubeconfig\n  sourceRef:\n    kind: GitRepository\n    name: oil\n---\napiVersion: \
                source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata:\n  name: oil\n  namespace: oil-system\nspec:\n  interval: 10m\n  \
                url: https://github.com/oil/oil-apps\n";
    fleet(&[
        (
            "clusters/one/definitions.yaml",
            capsule_definition("Tenant", "tenants")
                + &capsule_definition("GlobalTenantResource", "globaltenantresources"),
        ),
        ("clusters/one/tenant.yaml", tenant.to_owned()),
        ("clusters/one/apps.yaml", apps.to_owned()),
    ])
}

#[test]
fn an_owner_of_a_capsule_tenant_has_its_own_rights() {
    let platform = capsule_fleet();
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: oil-production\n";
    let own = config_map("web").replace("namespace: default", "namespace: oil-production");
    let binding = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata:\n  name: oil\nroleRef:\n  apiGroup: \
                   rbac.authorization.k8s.io\n  kind: ClusterRole\n  name: cluster-admin\nsubjects:\n- kind: ServiceAccount\n  name: \
                   gitops-reconciler\n  namespace: oil-system\n";
    for (file, text, words) in [
        ("web.yaml", own, None),
        ("foreign.yaml", config_map("foreign"), Some("cannot")),
        ("binding.yaml", binding.to_owned(), Some("cannot")),
    ] {
        let tenant = tempfile::tempdir().expect("a directory");
        std::fs::write(tenant.path().join("namespace.yaml"), namespace).expect("write");
        std::fs::write(tenant.path().join(file), text).expect("write");
        let source = format!(
            "https://github.com/oil/oil-apps={}",
            tenant.path().display()
        );
        let done = check(platform.path(), &["-o", "json", "--source", &source]);
        let (errors, _) = findings(&done, tenant.path());
        match words {
            Some(words) => are(&errors, &[(&format!("{file}:"), words)]),
            None => assert_eq!(errors, Vec::<String>::new()),
        }
    }
}

/// The addon reports its failures in no Flux object.
#[test]
fn failures_of_the_capsule_addon_are_errors() {
    let of_account = |namespace: &str, name: &str| {
        format!(
            "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {namespace}\n---\napiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: \
             {name}\n  namespace: {namespace}\n  annotations:\n    capsule.addon.fluxcd/enabled: \"true\"\n---\napiVersion: \
             capsule.clastix.io/v1beta2\nkind: Tenant\nmetadata:\n  name: {namespace}\nspec:\n  owners:\n  - name: \
             system:serviceaccount:{namespace}:{name}\n    kind: ServiceAccount\n"
        )
    };
    let foreign = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: first\n  namespace: oil-system\n---\napiVersion: v1\nkind: \
                   Secret\nmetadata:\n  name: gitops-reconciler-kubeconfig\n  namespace: oil-system\nstringData:\n  token: a\n";
    let platform = |files: &[(&str, &str)]| {
        let platform = capsule_fleet();
        let directory = platform.path().join("clusters/one");
        for (file, text) in files {
            std::fs::write(directory.join(file), text).expect("write a file");
        }
        std::fs::remove_file(directory.join("apps.yaml")).expect("remove a file");
        platform
    };

    let exists = platform(&[("foreign.yaml", foreign)]);
    let done = check(exists.path(), &["-o", "json"]);
    let (errors, _) = findings(&done, exists.path());
    let words = "Secret/oil-system/gitops-reconciler-kubeconfig exists and was not created by the Capsule addon: rename or delete it";
    are(&errors, &[("clusters/one/foreign.yaml:7:", words)]);
    let json: Value = serde_json::from_str(&done.out).expect("JSON");
    assert_eq!(
        json["errors"][0]["object"],
        "ServiceAccount/oil-system/gitops-reconciler"
    );
    assert_eq!(json["errors"][0]["hubs"], serde_json::json!(["one"]));

    let (one, other) = (of_account("gas", "a-b"), of_account("gas-a", "b"));
    let clash = platform(&[("one.yaml", &one), ("other.yaml", &other)]);
    let (errors, _) = checked(clash.path(), &[]);
    let words = "gas/a-b and gas-a/b would share the object ClusterRole/gas-a-b-impersonator: rename one of the accounts";
    are(
        &errors,
        &[
            ("clusters/one/one.yaml:6:", words),
            ("clusters/one/other.yaml:6:", words),
        ],
    );

    // All accounts of the hub are concerned.
    let text = capsule_definition("Tenant", "tenants");
    let unserved = platform(&[("definitions.yaml", &text)]);
    let done = check(unserved.path(), &[]);
    assert_eq!(done.code, 1, "{}", done.err);
    let line = "error: one: capsule-addon-fluxcd: the cluster does not serve capsule.clastix.io/v1beta2 GlobalTenantResource: \
                install the definitions of Capsule";
    assert!(done.out.contains(line), "{}", done.out);
}

/// A chart of a repository that is replaced by a directory is rendered and applied: its errors are
/// reported.
#[test]
fn charts_of_directories_are_rendered() {
    let repository = |kind: &str, url: &str| {
        format!(
            "apiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmRepository\nmetadata:\n  name: charts\n  namespace: flux-system\nspec:\n  \
             interval: 1h\n  url: {url}\n{kind}"
        )
    };
    let release = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata:\n  name: web\n  namespace: flux-system\nspec:\n  \
                   interval: 1h\n  chart:\n    spec:\n      chart: web\n      version: 1.x\n      sourceRef:\n        kind: HelmRepository\n        \
                   name: charts\n";
    let charts = tempfile::tempdir().expect("a directory");
    let write = |path: &str, text: &str| {
        let file = charts.path().join(path);
        std::fs::create_dir_all(file.parent().expect("a directory")).expect("make a directory");
        std::fs::write(file, text).expect("write");
    };
    write(
        "web/Chart.yaml",
        "apiVersion: v2\nname: web\nversion: 1.2.0\n",
    );
    for (kind, url) in [
        ("", "https://charts.example"),
        ("", "https://example.github.io/charts"),
        ("  type: oci\n", "oci://registry.example/charts"),
    ] {
        let platform = fleet(&[
            ("clusters/one/charts.yaml", repository(kind, url)),
            ("clusters/one/web.yaml", release.to_owned()),
        ]);
        let source = format!("{url}={}", charts.path().display());
        let args = ["--strict", "--source", &source];
        write(
            "web/templates/a.yaml",
            &config_map("web").replace("a: b", "a: {{ .Chart.Version }}"),
        );
        check(platform.path(), &args).ok();
        write(
            "web/templates/a.yaml",
            &config_map("web").replace("\ndata:", "\ndate:"),
        );
        let done = check(platform.path(), &args);
        assert_eq!(done.code, 1, "{url}: {}", done.out);
        assert!(done.out.contains("date"), "{url}: {}", done.out);
    }
}

/// The OCI artifact that a FluxInstance follows has the files of the repository.
#[test]
fn an_artifact_of_a_flux_instance_is_the_repository() {
    let instance = "apiVersion: fluxcd.controlplane.io/v1\nkind: FluxInstance\nmetadata:\n  name: flux\n  namespace: flux-system\nspec:\n  \
                    distribution:\n    version: 2.x\n    registry: ghcr.io/fluxcd\n  sync:\n    kind: OCIRepository\n    url: \
                    oci://ghcr.io/acme/fleet\n    ref: latest\n    path: clusters/one\n";
    let apps = kustomization("apps", "").replace("GitRepository", "OCIRepository");
    let directory = tempfile::tempdir().expect("a directory");
    for (path, text) in [
        ("clusters/one/instance.yaml", instance.to_owned()),
        ("clusters/one/apps.yaml", apps),
        ("apps/a.yaml", config_map("a").replace("\ndata:", "\ndate:")),
    ] {
        let file = directory.path().join(path);
        std::fs::create_dir_all(file.parent().expect("a directory")).expect("make a directory");
        std::fs::write(file, text).expect("write");
    }
    let (errors, _) = checked(directory.path(), &[]);
    are(&errors, &[("apps/a.yaml:6", "date")]);
}

/// A directory of templates, whose objects have variables in their names or addresses, is not a
/// hub.
#[test]
fn templates_are_not_hubs() {
    let template = kustomization("cluster", "").replace("name: cluster", "name: ${CLUSTER}");
    let root = kustomization("flux-system", "");
    let root = root.replace("path: ./flux-system", "path: ./kubernetes/flux");
    let directory = tempfile::tempdir().expect("a directory");
    for (path, text) in [
        (
            "tmpl/cluster.yaml",
            template.replace("path: ./cluster", "path: ./kubernetes/apps"),
        ),
        ("kubernetes/flux/root.yaml", root),
        ("kubernetes/apps/a.yaml", config_map("a")),
    ] {
        let file = directory.path().join(path);
        std::fs::create_dir_all(file.parent().expect("a directory")).expect("make a directory");
        std::fs::write(file, text).expect("write");
    }
    let done = check(directory.path(), &["-o", "json"]);
    assert!(
        done.out.contains("kubernetes/flux") || done.code == 0,
        "{}{}",
        done.out,
        done.err
    );
}

/// A health check that fails is one error: other objects still get stand-ins for what they need.
#[test]
fn a_failed_health_check_fails_nothing_else() {
    let checks = "  timeout: 1m\n  healthChecks:\n  - apiVersion: apps/v1\n    kind: Deployment\n    name: absent\n    namespace: default\n";
    let login =
        "  postBuild:\n    substituteFrom:\n    - kind: ConfigMap\n      name: cluster-vars\n";
    let directory = fleet(&[
        ("clusters/one/apps.yaml", kustomization("apps", checks)),
        ("clusters/one/web.yaml", kustomization("web", login)),
        ("apps/a.yaml", config_map("a")),
        ("web/a.yaml", config_map("b")),
    ]);
    let (errors, _) = checked(directory.path(), &[]);
    are(
        &errors,
        &[(
            "clusters/one/apps.yaml:",
            "Deployment/default/absent status: 'NotFound'",
        )],
    );
}
