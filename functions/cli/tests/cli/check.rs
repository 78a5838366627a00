//! A fleet repository applied to API servers in the process: every error is reported with file and
//! line, everything unchecked in a note.

use driftless_harness::command::{Done, run_in};
use driftless_harness::skip::has_material;
use driftless_harness::tools;
use serde_json::Value;
use std::path::Path;
use std::time::Instant;

/// A hub that syncs the directory `clusters/one` of this repository.
pub const SYNC: &str = "apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata:
  name: flux-system
  namespace: flux-system
spec:
  interval: 1m
  url: https://github.com/acme/fleet
  ref:
    branch: main
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata:
  name: flux-system
  namespace: flux-system
spec:
  interval: 10m
  path: ./clusters/one
  prune: true
  sourceRef:
    kind: GitRepository
    name: flux-system
";

/// Returns a Kustomization of the directory with its name.
pub fn kustomization(name: &str, more: &str) -> String {
    format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata:\n  name: {name}\n  namespace: flux-system\n\
         spec:\n  interval: 10m\n  path: ./{name}\n  prune: true\n  sourceRef:\n    kind: GitRepository\n    name: flux-system\n{more}"
    )
}

pub fn config_map(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: default\ndata:\n  a: b\n"
    )
}

/// Creates a repository with one hub and these files.
pub fn fleet(files: &[(&str, String)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let root = ("clusters/one/flux-system/gotk-sync.yaml", SYNC.to_owned());
    for (path, text) in files.iter().chain([&root]) {
        let file = directory.path().join(path);
        std::fs::create_dir_all(file.parent().expect("a directory")).expect("make a directory");
        std::fs::write(file, text).expect("write a file");
    }
    directory
}

pub fn check(directory: &Path, more: &[&str]) -> Done {
    let args = [&["check", directory.to_str().expect("UTF-8")], more].concat();
    let home = tempfile::tempdir().expect("a home");
    run_in(home.path(), &args, &[])
}

/// Returns `FILE:LINE`, relative to the fleet, of the error with these words.
fn place(found: &Value, directory: &Path, words: &str) -> String {
    let errors = found["errors"].as_array().expect("errors");
    let error = errors.iter().find(|error| {
        error["message"]
            .as_str()
            .is_some_and(|text| text.contains(words))
    });
    let error = error.unwrap_or_else(|| panic!("no error with '{words}' in {found:#}"));
    let file = Path::new(error["file"].as_str().unwrap_or_default());
    let real = directory.canonicalize().expect("the directory");
    let file = file.strip_prefix(real).unwrap_or(file).display();
    format!("{file}:{}", error["line"])
}

#[test]
fn the_sample_is_sound() {
    let sample = tools::tests().join("fleet");
    let text = |directory: &str| sample.join(directory).display().to_string();
    let done = check(&sample.join("platform"), &["--verbose"]);
    for words in [
        "note: demo, production, staging: GitRepository/team-a/apps: not checked: ",
        "cluster demo.factory replaces that of Secret/flux-system/factory-kubeconfig",
    ] {
        assert!(
            done.out.contains(words),
            "'{words}' is not in:\n{}",
            done.out
        );
    }
    assert!(!done.out.contains("error"), "{}", done.out);
    assert!(done.err.contains("0 errors and"), "{}", done.err);
    done.ok();
    refuses(&check(&sample.join("platform"), &["--strict"]), "--source");

    let sources =
        ["team-a", "team-b"].map(|name| format!("https://github.com/acme/{name}={}", text(name)));
    let key = text("age.agekey");
    let mut args = vec!["--source", &sources[0], "--source", &sources[1]];
    let done = check(&sample.join("platform"), &args);
    assert!(
        done.out
            .contains("database.yaml: note: not checked: the file is encrypted"),
        "{}",
        done.out
    );
    done.ok();
    args.extend(["--sops-key", &key, "--strict"]);
    let done = check(&sample.join("platform"), &args);
    assert!(!done.out.contains("not checked"), "{}", done.out);
    done.ok();
}

/// Files of a directory are not signed, and no cloud is asked for a login: the content of such
/// sources is checked all the same.
#[test]
fn sources_with_signatures_and_logins_of_clouds_are_checked() {
    let source = |name: &str, url: &str, more: &str| {
        format!(
            "apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata:\n  name: {name}\n  namespace: flux-system\n\
             spec:\n  interval: 10m\n  url: {url}\n  ref:\n    branch: main\n{more}"
        )
    };
    let of =
        |name: &str| kustomization(name, "").replace("name: flux-system", &format!("name: {name}"));
    let verify = "  verify:\n    mode: HEAD\n    secretRef:\n      name: keys\n";
    let azure = "  provider: azure\n  serviceAccountName: reader\n";
    let url = "https://dev.azure.com/acme/project/_git/apps";
    let directory = fleet(&[
        (
            "clusters/one/signed.yaml",
            source("signed", "https://github.com/acme/fleet", verify),
        ),
        ("clusters/one/azure.yaml", source("azure", url, azure)),
        (
            "clusters/one/keys.yaml",
            "apiVersion: v1\nkind: Secret\nmetadata:\n  name: keys\n  namespace: flux-system\nstringData:\n  a.asc: none\n".to_owned(),
        ),
        (
            "clusters/one/reader.yaml",
            "apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: reader\n  namespace: flux-system\n  annotations:\n    \
             azure.workload.identity/client-id: reader\n    azure.workload.identity/tenant-id: acme.example\n"
                .to_owned(),
        ),
        ("clusters/one/apps-signed.yaml", of("signed")),
        ("clusters/one/apps-azure.yaml", of("azure")),
        ("signed/a.yaml", config_map("signed")),
        (
            "azure/a.yaml",
            config_map("azure").replace("kind: ConfigMap", "kind: Nothing"),
        ),
    ]);
    let replaced = format!("{url}={}", directory.path().display());
    let done = check(directory.path(), &["--source", &replaced]);
    let errors: Vec<&str> = done
        .out
        .lines()
        .filter(|line| line.contains("error"))
        .collect();
    // The one error is in the content.
    assert!(
        errors.iter().any(|line| line.contains("azure/a.yaml")),
        "{}",
        done.out
    );
    assert!(done.err.contains("1 error"), "{}{}", done.out, done.err);
}

/// Clusters that are opened with tokens, of any account, also get stand-ins; an invalid ConfigMap
/// is an error.
#[test]
fn clusters_of_config_maps_are_checked() {
    let opened = |name: &str, more: &str| {
        let kube_config = format!("  kubeConfig:\n    configMapRef:\n      name: {name}\n{more}");
        kustomization(name, &kube_config)
            .replace("flux-system\nspec", "apps\nspec")
            .replace(
                "kind: GitRepository\n",
                "kind: GitRepository\n    namespace: flux-system\n",
            )
    };
    let arn = "arn:aws:eks:eu-west-1:012345678901:cluster/prod";
    let map = |name: &str, data: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: apps}}\ndata: {data}\n"
        )
    };
    let provider = "projects/1/locations/global/workloadIdentityPools/a/providers/b";
    let account = format!(
        "apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: deployer\n  namespace: apps\n  annotations:\n    \
         azure.workload.identity/tenant-id: t\n    azure.workload.identity/client-id: c\n    \
         gcp.auth.fluxcd.io/workload-identity-provider: {provider}\n"
    );
    let aks = "/subscriptions/00000000-0000-0000-0000-000000000002/resourceGroups/apps/providers/Microsoft.ContainerService/managedClusters/prod";
    let gke = "projects/acme/locations/europe-west1/clusters/prod";
    let by = |provider: &str, cluster: &str| {
        format!("{{provider: {provider}, cluster: '{cluster}', serviceAccountName: deployer}}")
    };
    let files = [
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: apps}\n".to_owned(),
        account,
        map(
            "generic",
            "{provider: generic, address: 'https://k8s.example', serviceAccountName: deployer}",
        ),
        map("aws", &format!("{{provider: aws, cluster: '{arn}'}}")),
        map(
            "azure",
            "{provider: azure, cluster: x, address: 'https://azure.example'}",
        ),
        map("aks", &by("azure", aks)),
        map("gke", &by("gcp", gke)),
        opened("aks", ""),
        opened("gke", ""),
        opened("generic", "  serviceAccountName: tenant\n"),
        opened("aws", ""),
        opened("missing", ""),
        opened("azure", ""),
    ];
    let directory = fleet(&[
        ("clusters/one/all.yaml", files.join("---\n")),
        ("generic/a.yaml", config_map("a")),
        ("aws/a.yaml", config_map("a")),
        ("missing/a.yaml", config_map("a")),
        ("azure/a.yaml", config_map("a")),
        ("aks/a.yaml", config_map("a")),
        ("gke/a.yaml", config_map("a")),
    ]);
    let done = check(directory.path(), &["--verbose"]);
    for name in ["generic", "aws", "aks", "gke", "missing"] {
        let words = format!("cluster {name} replaces that of ConfigMap/apps/{name}");
        assert!(done.out.contains(&words), "{words}: {}", done.out);
    }
    assert!(
        done.out
            .contains("ConfigMap/apps/azure: serviceAccountName is required"),
        "{}",
        done.out
    );
    assert!(done.err.contains("1 error"), "{}{}", done.out, done.err);
}

/// Asserts that the command ended with 1 and printed these words.
fn refuses(done: &Done, words: &str) {
    assert_eq!(done.code, 1, "{}{}", done.out, done.err);
    assert!(
        done.err.contains(words),
        "'{words}' is not in:\n{}",
        done.err
    );
}

#[test]
fn every_error_has_its_file_and_line() {
    let bad_deployment = "# A deployment without a selector.\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n  namespace: default\n\
                          spec:\n  template:\n    spec:\n      containers: []\n";
    let tenant =
        "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: tenant, namespace: flux-system}\n";
    let directory = fleet(&[
        ("clusters/one/good.yaml", kustomization("good", "")),
        ("good/config.yaml", config_map("good")),
        ("clusters/one/broken.yaml", kustomization("broken", "")),
        (
            "broken/config.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: broken\n  labels: {a: [1, 2\n"
                .to_owned(),
        ),
        ("clusters/one/missing.yaml", kustomization("missing", "")),
        (
            "missing/kustomization.yaml",
            "resources:\n- ../base/gone\n".to_owned(),
        ),
        ("clusters/one/invalid.yaml", kustomization("invalid", "")),
        ("invalid/web.yaml", bad_deployment.to_owned()),
        ("clusters/one/nowhere.yaml", kustomization("nowhere", "")),
        ("clusters/one/unknown.yaml", kustomization("unknown", "")),
        (
            "unknown/all.yaml",
            config_map("beside")
                + "---\napiVersion: acme.example/v1\nkind: Gadget\nmetadata:\n  name: g\n  namespace: default\n",
        ),
        (
            "clusters/one/tenant.yaml",
            kustomization("tenant", "  serviceAccountName: tenant\n") + "---\n" + tenant,
        ),
        ("tenant/config.yaml", config_map("stolen")),
        (
            "clusters/one/after.yaml",
            kustomization("after", "  dependsOn:\n  - name: broken\n"),
        ),
        ("after/config.yaml", config_map("after")),
    ]);
    let done = check(directory.path(), &["-o", "json"]);
    assert_eq!(done.code, 1, "{}", done.err);
    let found: Value = serde_json::from_str(&done.out).expect("JSON");
    for (words, want) in [
        ("not valid YAML", "broken/config.yaml:6"),
        ("base/gone", "missing/kustomization.yaml:2"),
        ("selector", "invalid/web.yaml:7"),
        ("no directory 'nowhere'", "clusters/one/nowhere.yaml:8"),
        ("forbidden", "tenant/config.yaml:1"),
    ] {
        assert_eq!(place(&found, directory.path(), words), want, "{found:#}");
    }
    assert_eq!(
        found["errors"].as_array().map(Vec::len),
        Some(5),
        "{found:#}"
    );
    let notes = found["notes"].to_string();
    for words in [
        "dependency 'flux-system/broken' is not ready",
        "acme.example/v1 Gadget",
    ] {
        assert!(notes.contains(words), "{words}: {notes}");
    }
    let objects = found["hubs"][0]["objects"].to_string();
    let good = r#"{"cluster":"one","object":"Kustomization/flux-system/good","state":"Ready"}"#;
    assert!(objects.contains(good), "{objects}");
    let text = check(directory.path(), &[]);
    for line in [
        "invalid/web.yaml:7: error: one: Kustomization/flux-system/invalid: Deployment",
        "note: one: acme.example/v1 Gadget: not checked: no applied object defines it",
        "concerns 1 object: Gadget/default/g",
    ] {
        assert!(text.out.contains(line), "{line}: {}", text.out);
    }
    refuses(&text, "5 errors");
}

#[test]
fn objects_that_an_unchecked_chart_may_have_are_not_errors() {
    let release = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata:\n  name: gadgets\n  namespace: flux-system\nspec:\n\
                   \x20 interval: 1h\n  chart:\n    spec:\n      chart: gadgets\n      sourceRef:\n        kind: HelmRepository\n        name: acme\n";
    let repository = "apiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmRepository\nmetadata:\n  name: acme\n  namespace: flux-system\nspec:\n\
                      \x20 url: https://charts.acme.example\n";
    let healthy = "  dependsOn:\n  - name: charts\n  healthChecks:\n  - apiVersion: apps/v1\n    kind: Deployment\n    name: gadgets\n    namespace: default\n";
    let directory = fleet(&[
        (
            "clusters/one/charts.yaml",
            kustomization("charts", "  wait: true\n"),
        ),
        ("charts/all.yaml", format!("{release}---\n{repository}")),
        (
            "clusters/one/gadgets.yaml",
            kustomization("gadgets", healthy),
        ),
        (
            "gadgets/g.yaml",
            "apiVersion: acme.example/v1\nkind: Gadget\nmetadata:\n  name: g\n".to_owned(),
        ),
        (
            "clusters/one/last.yaml",
            kustomization("last", "  dependsOn:\n  - name: gadgets\n"),
        ),
        ("last/config.yaml", config_map("last")),
    ]);
    let done = check(directory.path(), &["-o", "json"]);
    let found = done.json();
    let notes = found["notes"].to_string();
    for words in [
        "HelmRelease/flux-system/gadgets",
        "HelmRepository/flux-system/acme",
        "acme.example/v1 Gadget",
    ] {
        assert!(notes.contains(words), "'{words}' is not in {notes}");
    }
    assert_last_is_ready(&found);
}

/// Checks that the Kustomization `last` is ready in a report.
fn assert_last_is_ready(report: &Value) {
    let objects = report["hubs"][0]["objects"].to_string();
    let last = r#"{"cluster":"one","object":"Kustomization/flux-system/last","state":"Ready"}"#;
    assert!(objects.contains(last), "{objects}");
}

/// The content of a bucket is not known offline: it is reported as unchecked, and the rest is
/// checked.
#[test]
fn the_content_of_a_bucket_is_reported_as_unchecked() {
    let bucket = "apiVersion: source.toolkit.fluxcd.io/v1beta2\nkind: Bucket\nmetadata:\n  name: fleet\n  namespace: flux-system\nspec:\n\
                  \x20 interval: 1h\n  endpoint: s3.acme.example\n  bucketName: acme-fleet\n  secretRef:\n    name: keys\n";
    let apps = kustomization("apps", "").replace(
        "kind: GitRepository\n    name: flux-system",
        "kind: Bucket\n    name: fleet",
    );
    let directory = fleet(&[
        ("clusters/one/bucket.yaml", format!("{bucket}---\n{apps}")),
        (
            "clusters/one/last.yaml",
            kustomization("last", "  dependsOn:\n  - name: apps\n"),
        ),
        ("last/config.yaml", config_map("last")),
    ]);
    let done = check(directory.path(), &["-o", "json"]);
    assert_eq!(done.code, 0, "{} {}", done.out, done.err);
    let found = done.json();
    let notes = found["notes"].to_string();
    for note in [
        "not checked: the host is behind the network, which is not used here",
        r#""object":"https://s3.acme.example""#,
        r#""users":["Bucket/flux-system/fleet","Kustomization/flux-system/apps"]"#,
    ] {
        assert!(notes.contains(note), "{note}: {notes}");
    }
    assert_last_is_ready(&found);
}

#[test]
fn wrong_usage_is_an_error() {
    let empty = tempfile::tempdir().expect("a directory");
    check(empty.path(), &[]).refused(1, &["has no hub", "--path"]);
    check(&empty.path().join("gone"), &[]).refused(2, &["gone does not exist", "Next:"]);
    check(empty.path(), &["--path", "clusters/x"]).refused(2, &["no directory 'clusters/x'"]);
    check(empty.path(), &["--source", "nonsense"]).refused(2, &["URL=DIR"]);
}

/// Real fleets: each check ends in under two seconds, with the errors of kustomize itself.
#[test]
fn real_fleets() {
    let fleets = tools::workspace().join("../shared/fleets");
    if !has_material(&fleets) {
        return;
    }
    let tenant = fleets
        .join("flux2-multi-tenancy/dev-team")
        .display()
        .to_string();
    let tenant = format!("https://github.com/fluxcd/flux2-multi-tenancy@dev-team={tenant}");
    for (fleet, args, errors) in [
        (
            "flux2-multi-tenancy/main",
            vec!["--source", &tenant],
            vec![],
        ),
        ("multicluster-gitops/main", vec![], vec![]),
        (
            "multicluster-gitops/dev",
            vec![],
            vec![
                "kaizentm/kustomization.yaml:3: error: k3d-america: Kustomization/dev-flux-system/tenants: namespace: two objects would become",
            ],
        ),
    ] {
        let start = Instant::now();
        let done = check(&fleets.join(fleet), &args);
        eprintln!(
            "{fleet}: {:.2} s: {}",
            start.elapsed().as_secs_f64(),
            done.err.trim()
        );
        assert_eq!(
            done.code,
            i32::from(!errors.is_empty()),
            "{fleet}: {}{}",
            done.out,
            done.err
        );
        for words in &errors {
            assert!(
                done.out.contains(words),
                "{fleet}: '{words}' is not in:\n{}",
                done.out
            );
        }
        assert_eq!(
            done.out.contains("error: "),
            !errors.is_empty(),
            "{fleet}: {}",
            done.out
        );
    }
}

/// A Secret that sops encrypted for OpenPGP is decrypted with the key that gpg exported.
#[test]
fn files_for_openpgp_keys_are_decrypted() {
    let corpus = tools::tests().join("corpus/sops");
    let read = |name: &str| std::fs::read_to_string(corpus.join(name)).expect("the corpus");
    let decryption = "  targetNamespace: default\n  decryption:\n    provider: sops\n    secretRef:\n      name: sops-gpg\n";
    let directory = fleet(&[
        ("clusters/one/apps.yaml", kustomization("apps", decryption)),
        ("apps/secret.yaml", read("cases/pgp-rsa.enc.yaml")),
    ]);
    let key = corpus.join("pgp-rsa.asc");
    let done = check(
        directory.path(),
        &["--sops-key", key.to_str().expect("UTF-8")],
    );
    assert!(!done.out.contains("encrypted"), "{}", done.out);
    done.ok();
    let other = corpus.join("pgp-ed25519.asc");
    let done = check(
        directory.path(),
        &["--age-key", other.to_str().expect("UTF-8")],
    );
    assert!(
        done.out
            .contains("no key opens the file; encrypted for PGP "),
        "{}",
        done.out
    );
    refuses(&done, "1 error and");
}

/// Creates a fleet with two errors, whose files and messages have characters that the formats must
/// escape.
fn broken() -> tempfile::TempDir {
    fleet(&[
        ("clusters/one/apps.yaml", kustomization("apps", "")),
        ("apps/config.yaml", config_map("Not_<Valid>")),
        ("clusters/one/more.yaml", kustomization("more", "")),
        (
            "more/kustomization.yaml",
            "resources:\n- a,b%.yaml\n".to_owned(),
        ),
        ("more/a,b%.yaml", "kind: ConfigMap\ndata: [\n".to_owned()),
    ])
}

#[test]
fn annotations_of_github_actions() {
    let directory = broken();
    let done = check(directory.path(), &["-o", "github"]);
    let errors = done
        .out
        .lines()
        .filter(|line| line.starts_with("::error file="));
    let errors: Vec<&str> = errors.collect();
    assert_eq!(errors.len(), 2, "{}", done.out);
    for words in [
        "more/a%2Cb%25.yaml,line=",
        ",title=driftless check::one: Kustomization/flux-system/more: ",
    ] {
        let has = |line: &&str| line.contains(words);
        assert!(errors.iter().any(has), "'{words}' is not in:\n{}", done.out);
    }
    refuses(&done, "2 errors and");
}

#[test]
fn test_cases_of_junit() {
    let directory = broken();
    let done = check(directory.path(), &["-o", "junit"]);
    for words in [
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"driftless check\" tests=\"4\" failures=\"2\" skipped=\"0\"",
        "<testcase name=\"Kustomization/flux-system/flux-system\" classname=\"one\"/>",
        "<testcase name=\"Kustomization/flux-system/apps\" classname=\"one\">\n      <failure message=\"",
        "Not_&lt;Valid&gt;",
    ] {
        assert!(
            done.out.contains(words),
            "'{words}' is not in:\n{}",
            done.out
        );
    }
    refuses(&done, "2 errors and");
}

#[test]
fn results_of_sarif() {
    let directory = broken();
    let done = check(directory.path(), &["-o", "sarif"]);
    assert_eq!(done.code, 1, "{}", done.err);
    let found: Value = serde_json::from_str(&done.out).expect("JSON");
    assert_eq!(found["version"], "2.1.0");
    let run = &found["runs"][0];
    assert_eq!(run["tool"]["driver"]["name"], "driftless");
    let results = run["results"].as_array().expect("results");
    let errors = results.iter().filter(|result| result["level"] == "error");
    let errors: Vec<&Value> = errors.collect();
    assert_eq!(errors.len(), 2, "{found:#}");
    let location = |error: &Value| error["locations"][0]["physicalLocation"].clone();
    let ends = |error: &&&Value| {
        let uri = location(error)["artifactLocation"]["uri"].clone();
        uri.as_str()
            .is_some_and(|uri| uri.ends_with("more/a,b%25.yaml"))
    };
    let error = errors.iter().find(ends).expect("an error of the file");
    assert_eq!(error["ruleId"], "reconciliation-failed");
    let location = location(error);
    assert!(location["region"]["startLine"].is_u64(), "{location}");
    let rules = run["tool"]["driver"]["rules"].as_array().expect("rules");
    let known = |id: &Value| rules.iter().any(|rule| rule["id"] == *id);
    assert!(
        results.iter().all(|result| known(&result["ruleId"])),
        "{found:#}"
    );
}

#[test]
fn admission_policies_are_evaluated() {
    let rule = "apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: tenants-name-an-account
spec:
  matchConstraints:
    namespaceSelector:
      matchLabels: {tenant: dev-team}
    resourceRules:
    - apiGroups: [kustomize.toolkit.fluxcd.io]
      apiVersions: [v1]
      operations: [CREATE, UPDATE]
      resources: [kustomizations]
  validations:
  - expression: has(object.spec.serviceAccountName)
    message: .spec.serviceAccountName is required
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: tenants-name-an-account
spec:
  policyName: tenants-name-an-account
  validationActions: [Deny]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: every-object-has-a-team
spec:
  matchConstraints:
    resourceRules:
    - apiGroups: [kustomize.toolkit.fluxcd.io]
      apiVersions: [v1]
      operations: [CREATE]
      resources: [kustomizations]
  matchConditions:
  - name: tenants
    expression: request.namespace == 'apps'
  validations:
  - expression: object.metadata.?labels.team.hasValue()
    message: it has no team
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: every-object-has-a-team
spec:
  policyName: every-object-has-a-team
  validationActions: [Warn, Audit]
";
    let policy = "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata:\n  name: flux-multi-tenancy\nspec: {}\n";
    let namespace =
        "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: apps\n  labels: {tenant: dev-team}\n";
    let object = |name: &str, more: &str| {
        "# Of the tenant.\n".to_owned()
            + &kustomization(name, more).replace("namespace: flux-system", "namespace: apps")
    };
    let after = "  dependsOn:\n  - name: policies\n";
    let directory = fleet(&[
        ("clusters/one/policies.yaml", kustomization("policies", "")),
        ("policies/rule.yaml", rule.to_owned()),
        ("policies/kyverno.yaml", policy.to_owned()),
        ("policies/namespace.yaml", namespace.to_owned()),
        ("clusters/one/bad.yaml", kustomization("bad", after)),
        ("bad/sync.yaml", object("unnamed", "  suspend: true\n")),
        ("clusters/one/good.yaml", kustomization("good", after)),
        (
            "good/sync.yaml",
            object("named", "  suspend: true\n  serviceAccountName: dev-team\n"),
        ),
    ]);
    let done = check(directory.path(), &["-o", "json"]);
    assert_eq!(done.code, 1, "{}", done.err);
    let found: Value = serde_json::from_str(&done.out).expect("JSON");
    let denied = "ValidatingAdmissionPolicy 'tenants-name-an-account' with binding 'tenants-name-an-account' denied request: .spec.serviceAccountName is required";
    assert_eq!(
        place(&found, directory.path(), denied),
        "bad/sync.yaml:7",
        "{found:#}"
    );
    assert_eq!(
        found["errors"].as_array().map(Vec::len),
        Some(1),
        "{found:#}"
    );
    let notes = found["notes"].to_string();
    assert!(
        notes.contains("policies of Kyverno") && notes.contains("Kyverno is not evaluated"),
        "{found:#}"
    );
    let warned = "Validation failed for ValidatingAdmissionPolicy 'every-object-has-a-team' with binding 'every-object-has-a-team': it has no team";
    assert!(
        notes.contains(warned) && notes.contains("Kustomization/apps/named"),
        "{found:#}"
    );
}
