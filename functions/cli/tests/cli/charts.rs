//! Charts of a fleet in `check` and `demo`: directories of `--source`, and downloads.

use crate::check::{check, fleet};
use crate::demo::once;
use driftless_harness::charts::Host;
use driftless_harness::command::Done;
use driftless_harness::tools;
use driftless_manifest::FileTree;
use driftless_source::archive;
use serde_json::Value;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The version of cert-manager in Kamaji's guide.
const VERSION: &str = "v1.10.1";

/// Writes the chart `web` in a version as a directory.
fn unpacked(directory: &Path, version: &str, template: &str) {
    let templates = directory.join("templates");
    std::fs::create_dir_all(&templates).expect("make a directory");
    std::fs::write(directory.join("Chart.yaml"), chart_yaml(version)).expect("write");
    std::fs::write(templates.join("a.yaml"), template).expect("write");
}

/// Packs the chart `web` in a version.
fn packed(version: &str, template: &str) -> Vec<u8> {
    let chart = chart_yaml(version);
    let files = [
        ("web/Chart.yaml", chart.as_str()),
        ("web/templates/a.yaml", template),
    ];
    let tree = FileTree::from_files(files).expect("a chart");
    archive::pack(&tree).expect("an archive")
}

fn chart_yaml(version: &str) -> String {
    format!("apiVersion: v2\nname: web\nversion: {version}\n")
}

const TEMPLATE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\n";

/// Creates a fleet with a release of the chart `web` from this repository.
fn release(kind: &str, url: &str, version: &str) -> TempDir {
    let release = format!(
        "apiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmRepository\nmetadata:\n  name: charts\n  namespace: flux-system\n\
         spec:\n  interval: 1h\n  url: {url}\n{kind}---\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata:\n  \
         name: web\n  namespace: flux-system\nspec:\n  interval: 1h\n  chart:\n    spec:\n      chart: web\n      version: \
         '{version}'\n      sourceRef:\n        kind: HelmRepository\n        name: charts\n"
    );
    fleet(&[("clusters/one/web.yaml", release)])
}

/// Creates a fleet with a release of an OCIRepository.
fn artifact(url: &str, reference: &str) -> TempDir {
    let release = format!(
        "apiVersion: source.toolkit.fluxcd.io/v1\nkind: OCIRepository\nmetadata:\n  name: web\n  namespace: flux-system\n\
         spec:\n  interval: 1h\n  url: {url}\n  ref:\n    {reference}\n---\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: \
         HelmRelease\nmetadata:\n  name: web\n  namespace: flux-system\nspec:\n  interval: 1h\n  chartRef:\n    kind: \
         OCIRepository\n    name: web\n"
    );
    fleet(&[("clusters/one/web.yaml", release)])
}

fn source(url: &str, directory: &Path) -> String {
    format!("{url}={}", directory.display())
}

/// Returns the version of the chart that was rendered: in the error of its template.
fn version(done: &Done) -> String {
    let (_, rest) = done.out.split_once("the version is ").unwrap_or_default();
    rest.split_whitespace()
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// A directory may hold several versions, unpacked and packed: each object gets the one that its
/// range selects, as from an index or from the tags of a registry.
#[test]
fn versions_of_a_directory_are_selected() {
    let charts = tempfile::tempdir().expect("a directory");
    let template = "{{ fail (printf \"the version is %s !\" .Chart.Version) }}";
    unpacked(&charts.path().join("old/web"), "1.2.0", template);
    unpacked(&charts.path().join("new"), "2.0.1+build.4", template);
    std::fs::write(charts.path().join("web.tgz"), packed("1.10.0", template)).expect("write");
    let host = "https://charts.example";
    let registry = "oci://registry.example/charts";
    let repository = "oci://registry.example/charts/web";
    let oci = "  type: oci\n";
    for (fleet, url, expected) in [
        (release("", host, "1.x"), host, "1.10.0"),
        (release("", host, "1.2.0"), host, "1.2.0"),
        (release("", host, "*"), host, "2.0.1+build.4"),
        (release(oci, registry, "<1.10"), registry, "1.2.0"),
        (release(oci, registry, "*"), registry, "2.0.1+build.4"),
        (artifact(repository, "semver: 1.x"), registry, "1.10.0+"),
        (artifact(repository, "tag: 1.2.0"), repository, "1.2.0+"),
    ] {
        let args = ["--source", &source(url, charts.path())];
        let done = check(fleet.path(), &args);
        // The version of an artifact ends with its digest.
        let mut found = version(&done);
        if expected.ends_with('+') && found.starts_with(expected) {
            found.truncate(expected.len());
        }
        assert_eq!(found, expected, "{url}: {}{}", done.out, done.err);
    }
}

/// A chart or version that a directory does not have is an error at the field that selects it, with
/// what the directory has.
#[test]
fn charts_that_a_directory_lacks_are_errors() {
    let charts = tempfile::tempdir().expect("a directory");
    unpacked(&charts.path().join("a"), "1.2.0", TEMPLATE);
    std::fs::write(charts.path().join("web.tgz"), packed("1.10.0", TEMPLATE)).expect("write");
    let other = tempfile::tempdir().expect("a directory");
    unpacked(other.path(), "1.0.0", TEMPLATE);
    std::fs::write(
        other.path().join("Chart.yaml"),
        chart_yaml("1.0.0").replace("web", "api"),
    )
    .expect("write");
    let empty = tempfile::tempdir().expect("a directory");
    let broken = tempfile::tempdir().expect("a directory");
    std::fs::write(broken.path().join("web-1.tgz"), b"no archive").expect("write");
    let host = "https://charts.example";
    let registry = "oci://registry.example/charts";
    let repository = "oci://registry.example/charts/web";
    for (fleet, url, directory, words) in [
        (
            release("", host, "7.x"),
            host,
            &charts,
            [
                "web.yaml:20",
                "version matching '7.x'",
                "https://charts.example has web 1.2.0, 1.10.0",
            ],
        ),
        (
            release("", host, "7.x"),
            host,
            &other,
            [
                "web.yaml:19",
                "no chart name found",
                "https://charts.example has api 1.0.0",
            ],
        ),
        (
            release("", host, "7.x"),
            host,
            &empty,
            [
                "web.yaml:19",
                "HelmRelease/flux-system/web",
                "https://charts.example has no charts",
            ],
        ),
        (
            release("  type: oci\n", registry, "7.x"),
            registry,
            &other,
            ["web.yaml", "has no chart 'web'", "it has api 1.0.0"],
        ),
        (
            artifact(repository, "tag: 7.0.0"),
            registry,
            &charts,
            [
                "web.yaml",
                "1.2.0, 1.10.0, and not 7.0.0",
                "OCIRepository/flux-system/web",
            ],
        ),
        (
            artifact(repository, "semver: 7.x"),
            registry,
            &charts,
            [
                "web.yaml",
                "no match found for semver: 7.x",
                "charts/web has web 1.2.0, 1.10.0",
            ],
        ),
        (
            release("", host, "7.x"),
            host,
            &broken,
            ["web.yaml", "https://charts.example", "web-1.tgz"],
        ),
    ] {
        let done = check(fleet.path(), &["--source", &source(url, directory.path())]);
        assert_eq!(done.code, 1, "{words:?}: {}", done.out);
        let errors: Vec<&str> = done
            .out
            .lines()
            .filter(|line| line.contains("error:"))
            .collect();
        let has = |line: &&&str| words.iter().all(|word| line.contains(word));
        assert!(
            errors.iter().any(|line| has(&line)),
            "{words:?} in {errors:#?}"
        );
    }
}

#[test]
fn sources_that_are_not_directories_are_refused() {
    let fleet = release("", "https://charts.example", "*");
    let file = fleet.path().join("clusters/one/web.yaml");
    let file = file.display();
    for (source, words) in [
        ("https://charts.example".to_owned(), "URL=DIR"),
        ("https://charts.example=/no/such".to_owned(), "/no/such"),
        (
            format!("https://charts.example={file}"),
            "is not a directory",
        ),
        (
            format!("charts={}", fleet.path().display()),
            "'charts' is not the URL",
        ),
    ] {
        let done = check(fleet.path(), &["--source", &source]);
        assert!(done.code != 0, "{source}: {}", done.out);
        assert!(done.err.contains(words), "{source}: {}", done.err);
    }
    let done = check(fleet.path(), &["--allow-charts=some"]);
    done.refused(2, &["--allow-charts", "remote", "all"]);
}

/// Only `--allow-charts` downloads the index and the chart; hosts with loopback addresses need the
/// value `all`.
#[test]
fn charts_are_downloaded_when_that_is_allowed() {
    let host = Host::start();
    host.put(
        "/charts/index.yaml",
        "apiVersion: v1\nentries:\n  web:\n  - apiVersion: v2\n    name: web\n    version: 1.4.0\n    urls: [web-1.4.0.tgz]\n",
    );
    host.put("/charts/web-1.4.0.tgz", packed("1.4.0", TEMPLATE));
    let url = format!("{}/charts", host.url());
    let fleet = release("", &url, "1.x");

    let done = check(fleet.path(), &[]);
    assert_eq!(done.code, 0, "{}", done.out);
    assert!(
        done.out.contains("--source URL=DIR, or --allow-charts"),
        "{}",
        done.out
    );
    let refused = check(fleet.path(), &["--allow-charts"]);
    assert_eq!(refused.code, 1, "{}", refused.out);
    let words = "web.yaml:1: error: one: HelmRepository/flux-system/charts: ";
    assert!(refused.out.contains(words), "{}", refused.out);
    assert!(
        refused.out.contains("loopback or link-local"),
        "{}",
        refused.out
    );
    assert_eq!(host.take_calls(), []);

    let done = check(fleet.path(), &["--strict", "--allow-charts=all"]);
    assert_eq!(done.code, 0, "{}{}", done.out, done.err);
    let calls: Vec<String> = host
        .take_calls()
        .into_iter()
        .map(|call| call.path)
        .collect();
    assert_eq!(calls, ["/charts/index.yaml", "/charts/web-1.4.0.tgz"]);

    // A version that the host does not have is an error at the release.
    let fleet = release("", &url, "2.x");
    let done = check(fleet.path(), &["--allow-charts=all"]);
    assert_eq!(done.code, 1, "{}", done.out);
    let words = "web.yaml:20: error: one: HelmRelease/flux-system/web: ";
    assert!(done.out.contains(words), "{}", done.out);
}

/// A login that Git does not have is a note; `--with` supplies it.
#[test]
fn hosts_with_a_login_need_its_secret() {
    let host = Host::start();
    host.put(
        "/charts/index.yaml",
        "apiVersion: v1\nentries:\n  web:\n  - apiVersion: v2\n    name: web\n    version: 1.4.0\n    urls: [web-1.4.0.tgz]\n",
    );
    host.put("/charts/web-1.4.0.tgz", packed("1.4.0", TEMPLATE));
    host.require("ann", "secret");
    let secret = "  secretRef:\n    name: login\n";
    let fleet = release(secret, &format!("{}/charts", host.url()), "1.x");
    let args = ["--allow-charts=all", "--verbose"];
    let done = check(fleet.path(), &args);
    assert_eq!(done.code, 0, "{}{}", done.out, done.err);
    let words = "Secret/flux-system/login: no applied object creates it; a placeholder is used; concerns 2 objects: \
                 HelmRelease/flux-system/web, HelmRepository/flux-system/charts";
    assert!(done.out.contains(words), "{}", done.out);

    let given = fleet.path().join("login.yaml");
    let text = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: login\n  namespace: flux-system\nstringData:\n  username: ann\n  \
                password: secret\n";
    std::fs::write(&given, text).expect("write");
    let given = given.to_str().expect("UTF-8");
    let done = check(
        fleet.path(),
        &["--strict", "--allow-charts=all", "--with", given],
    );
    assert_eq!(done.code, 0, "{}{}", done.out, done.err);

    std::fs::write(given, text.replace("password: secret", "password: other")).expect("write");
    let done = check(fleet.path(), &["--allow-charts=all", "--with", given]);
    assert_eq!(done.code, 1, "{}", done.out);
    assert!(
        done.out.contains("web.yaml:1: error: one: HelmRepository/"),
        "{}",
        done.out
    );
    assert!(!done.out.contains("other"), "{}", done.out);
}

/// Returns a directory in place of `https://charts.jetstack.io` with cert-manager in two versions.
fn jetstack() -> TempDir {
    let charts = tempfile::tempdir().expect("a directory");
    for version in [VERSION, "v1.11.0"] {
        let to = charts.path().join(version);
        copy(&tools::tests().join("charts/cert-manager"), &to);
        let file = to.join("Chart.yaml");
        let text = std::fs::read_to_string(&file).expect("Chart.yaml");
        std::fs::write(file, text.replace("0.0.0", version)).expect("write");
    }
    charts
}

pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("make a directory");
    for entry in std::fs::read_dir(from).expect("a directory") {
        let from: PathBuf = entry.expect("an entry").path();
        let to = to.join(from.file_name().expect("a name"));
        match from.is_dir() {
            true => copy(&from, &to),
            false => {
                std::fs::copy(&from, &to).expect("copy a file");
            }
        }
    }
}

/// Kamaji's guide as a fleet: the tenant's cluster ends with cert-manager's three Deployments.
#[test]
fn kamajis_guide_ends_with_three_deployments() {
    let (charts, guide) = (jetstack(), tools::tests().join("guides/kamaji"));
    let source = source("https://charts.jetstack.io", charts.path());
    let done = check(&guide, &["--strict", "-o", "json", "--source", &source]);
    assert_eq!(done.code, 0, "{}{}", done.out, done.err);
    done.ok();

    let home = tempfile::tempdir().expect("a home");
    let fleet = guide.to_str().expect("UTF-8");
    let done = once(
        home.path(),
        &["-o", "json", "--fleet", fleet, "--source", &source],
    );
    let report: Value = serde_json::from_str(&done.out).expect("JSON");
    assert_eq!(
        (&report["ready"], done.code),
        (&Value::Bool(true), 0),
        "{report:#}"
    );
    let objects = report["objects"].as_array().expect("objects");
    let deployments: Vec<_> = objects
        .iter()
        .filter(|one| {
            one["object"]
                .as_str()
                .is_some_and(|id| id.starts_with("Deployment/"))
        })
        .map(|one| ["cluster", "object", "revision", "state"].map(|field| one[field].clone()))
        .collect();
    let expected = ["", "-cainjector", "-webhook"].map(|suffix| {
        let object = format!("Deployment/default/default-tenant1-cert-manager{suffix}");
        ["tenant1-admin", &object, VERSION, "Current"].map(Value::from)
    });
    assert_eq!(deployments, expected);
}
