//! `driftless plan`: what a change of a fleet repository would do, without a cluster.

use crate::check::{fleet, kustomization};
use driftless_harness::command::{Done, run_in};
use driftless_harness::skip::has_material;
use driftless_harness::{process, tools};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// The decrypted values of the corpus' Secret: no output may contain one of them.
const SECRETS: [&str; 5] = [
    "p@ss: word #1",
    "cEBzczogd29yZCAjMQ==",
    "admin",
    "line two",
    "AGE-SECRET-KEY",
];

fn git(directory: &Path, args: &[&str]) -> String {
    let mut git = Command::new("git");
    git.current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .args(["-c", "user.name=a", "-c", "user.email=a@example.com"])
        .args(["-c", "init.defaultBranch=main"])
        .args(args);
    process::run(&mut git)
}

fn commit(directory: &Path) {
    git(directory, &["add", "--all"]);
    git(directory, &["commit", "--quiet", "--message", "a change"]);
}

fn write(directory: &Path, path: &str, text: &str) {
    let file = directory.join(path);
    std::fs::create_dir_all(file.parent().expect("a directory")).expect("make a directory");
    std::fs::write(file, text).expect("write a file");
}

fn plan(directory: &Path, more: &[&str]) -> Done {
    let home = tempfile::tempdir().expect("a home");
    let args = [&["plan", directory.to_str().expect("UTF-8")], more].concat();
    run_in(home.path(), &args, &[])
}

fn config_map(name: &str, data: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: default\ndata:\n{data}"
    )
}

fn deployment(app: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n  namespace: default\nspec:\n  replicas: 0\n  selector:\n    \
         matchLabels: {{app: {app}}}\n  template:\n    metadata:\n      labels: {{app: {app}}}\n    spec:\n      containers:\n      \
         - name: web\n        image: example.com/web\n"
    )
}

/// Returns a repository with a commit, and its age key.
fn repository() -> (tempfile::TempDir, String) {
    let corpus = tools::tests().join("corpus/sops");
    let read = |path: &str| std::fs::read_to_string(corpus.join(path)).expect("the corpus");
    let secrets = "  targetNamespace: flux-system\n  decryption:\n    provider: sops\n    secretRef:\n      name: sops-age\n";
    let from = "  dependsOn:\n  - name: secrets\n  postBuild:\n    substituteFrom:\n    - kind: Secret\n      name: database\n";
    let many: String = (0..12)
        .map(|number| config_map(&format!("many-{number}"), "  a: b\n") + "---\n")
        .collect();
    let directory = fleet(&[
        (
            "clusters/one/secrets.yaml",
            kustomization("secrets", secrets),
        ),
        (
            "secrets/database.yaml",
            read("cases/encrypted-regex.enc.yaml"),
        ),
        ("clusters/one/apps.yaml", kustomization("apps", from)),
        ("apps/a.yaml", config_map("a", "  user: ${user}\n")),
        ("apps/gone.yaml", config_map("gone", "  a: b\n")),
        ("apps/web.yaml", deployment("web")),
        ("clusters/one/many.yaml", kustomization("many", "")),
        ("many/many.yaml", many),
    ]);
    git(directory.path(), &["init", "--quiet"]);
    commit(directory.path());
    let key = corpus.join("one.agekey").display().to_string();
    (directory, key)
}

/// Changes the working tree: one object is created, three are changed, thirteen are deleted.
fn change(directory: &Path) {
    let values = "  user: ${user}\n  copy: p${port}\n  url: db://${user}@host\n";
    write(directory, "apps/a.yaml", &config_map("a", values));
    write(directory, "apps/new.yaml", &config_map("new", "  a: b\n"));
    write(directory, "apps/web.yaml", &deployment("site"));
    write(
        directory,
        "many/many.yaml",
        &config_map("many-0", "  a: c\n"),
    );
    std::fs::remove_file(directory.join("apps/gone.yaml")).expect("remove a file");
}

fn find<'a>(plan: &'a Value, object: &str) -> &'a Value {
    let changes = plan["clusters"][0]["changes"].as_array().expect("changes");
    let found = changes.iter().find(|one| one["object"] == object);
    found.unwrap_or_else(|| panic!("no {object} in {plan:#}"))
}

#[test]
fn a_change_is_planned_without_its_secrets() {
    if !tools::has("git") {
        return;
    }
    let (directory, key) = repository();
    let root = directory.path();
    let keys = ["--sops-key", &key];
    let nothing = plan(root, &[&keys[..], &["--detailed-exitcode"]].concat());
    assert_eq!(
        (nothing.code, nothing.out.as_str()),
        (0, ""),
        "{}",
        nothing.err
    );
    assert!(nothing.err.contains("no object changes"), "{}", nothing.err);

    change(root);
    let done = plan(root, &[&keys[..], &["-o", "json"]].concat());
    assert_eq!(done.code, 0, "{}{}", done.out, done.err);
    let found: Value = serde_json::from_str(&done.out).expect("JSON");
    let summary = &found["summary"];
    assert_eq!(
        (&summary["create"], &summary["change"], &summary["delete"]),
        (&1.into(), &3.into(), &12.into()),
        "{found:#}"
    );
    let new = find(&found, "ConfigMap/default/new");
    assert_eq!(new["action"], "create");
    assert!(
        new["file"]
            .as_str()
            .is_some_and(|file| file.ends_with("apps/new.yaml")),
        "{new}"
    );
    assert_eq!(new["line"], 1);
    let web = find(&found, "Deployment/default/web");
    assert!(
        web["warnings"]
            .to_string()
            .contains("spec.selector is immutable"),
        "{web:#}"
    );
    assert_eq!(find(&found, "ConfigMap/default/gone")["action"], "delete");
    let shown = find(&found, "ConfigMap/default/a")["diff"].to_string();
    assert!(
        shown.contains("+  copy: p***") && shown.contains("db://***@host"),
        "{shown}"
    );
    let held = found["warnings"].to_string();
    assert!(
        held.contains("prune held: 11 of 12 objects would be deleted"),
        "{held}"
    );

    for format in ["text", "json", "markdown"] {
        let done = plan(
            root,
            &[&keys[..], &["-o", format, "--detailed-exitcode"]].concat(),
        );
        assert_eq!(done.code, 2, "{}", done.err);
        for secret in SECRETS {
            let all = format!("{}{}", done.out, done.err);
            assert!(
                !all.contains(secret),
                "{format} contains '{secret}':\n{all}"
            );
        }
    }
    // Without keys the values are placeholders.
    let done = plan(root, &["--base", "HEAD"]);
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(
        done.out
            .contains("hub one: 1 to create, 3 to change, 12 to delete"),
        "{}",
        done.out
    );
}

#[test]
fn a_hub_without_live_is_wrong_usage() {
    let done = plan(Path::new("."), &["--context", "production"]);
    done.refused(2, &["--kubeconfig and --context need --live", "add --live"]);
}

/// Returns a fleet with one ConfigMap in a Git repository with one commit; `None` without Git.
fn committed_fleet() -> Option<tempfile::TempDir> {
    let directory = tools::has("git").then(|| {
        fleet(&[
            ("clusters/one/apps.yaml", kustomization("apps", "")),
            ("apps/a.yaml", config_map("a", "  a: b\n")),
        ])
    })?;
    git(directory.path(), &["init", "--quiet"]);
    commit(directory.path());
    Some(directory)
}

#[test]
fn a_new_error_is_shown_with_its_line_in_text_alone() {
    let Some(directory) = committed_fleet() else {
        return;
    };
    let at = directory.path();
    write(at, "apps/a.yaml", &config_map("a", "  a: b\n  a: again\n"));
    let done = plan(at, &[]);
    assert_eq!(done.code, 1, "{}{}", done.out, done.err);
    let shown = "apps/a.yaml:8:3\n  |\n8 |   a: again\n  |   ^\n";
    assert!(done.out.contains(shown), "{}", done.out);
    for format in ["json", "markdown"] {
        let done = plan(at, &["-o", format]);
        assert!(!done.out.contains("again"), "{}", done.out);
    }
}

#[test]
fn a_plan_compares_revisions() {
    let Some(directory) = committed_fleet() else {
        return;
    };
    let root = directory.path();
    git(root, &["update-ref", "refs/remotes/origin/main", "HEAD"]);
    write(root, "apps/a.yaml", &config_map("a", "  a: c\n"));
    commit(root);
    write(root, "apps/b.yaml", &config_map("b", "  a: b\n"));
    let both = plan(root, &[]);
    assert!(
        both.out.contains("1 to create, 1 to change"),
        "{}{}",
        both.out,
        both.err
    );
    let last = plan(root, &["--base", "HEAD~1", "--head", "main"]);
    assert!(
        last.out.contains("0 to create, 1 to change"),
        "{}{}",
        last.out,
        last.err
    );
    assert!(
        last.out.contains("-  a: b\n") && last.out.contains("+  a: c\n"),
        "{}",
        last.out
    );

    // An error of the change fails the plan; the objects that it hides are not deletions.
    write(
        root,
        "apps/b.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n",
    );
    let broken = plan(root, &["--base", "HEAD"]);
    assert_eq!(broken.code, 1, "{}{}", broken.out, broken.err);
    assert!(
        broken.out.contains("b.yaml") && broken.out.contains("error: "),
        "{}",
        broken.out
    );
    assert!(
        !broken.out.contains("to delete (") && !broken.out.contains("  - ConfigMap"),
        "{}",
        broken.out
    );

    // So do the objects of a Kustomization that the failed one applies.
    write(root, "clusters/one/broken.yaml", "kind: [\n");
    let broken = plan(root, &["--base", "HEAD"]);
    assert_eq!(broken.code, 1, "{}{}", broken.out, broken.err);
    assert!(!broken.out.contains("  - ConfigMap"), "{}", broken.out);

    plan(root, &["--base", "nowhere"]).refused(2, &["--base", "no revision 'nowhere'"]);
    let plain = tempfile::tempdir().expect("a directory");
    plan(plain.path(), &[]).refused(2, &["is not in a Git checkout"]);
}

/// Real fleets: without a change nothing changes, and the time is printed.
#[test]
fn public_fleets_are_planned() {
    let shared = tools::workspace().join("../shared/fleets");
    if !tools::has("git") || !has_material(&shared) {
        return;
    }
    for name in ["flux2-multi-tenancy", "multicluster-gitops"] {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path();
        let mut copy = Command::new("cp");
        process::run(
            copy.arg("-r")
                .arg(shared.join(name).join("main"))
                .arg(root.join("fleet")),
        );
        let root = root.join("fleet");
        git(&root, &["init", "--quiet"]);
        commit(&root);
        let start = Instant::now();
        let done = plan(&root, &["--detailed-exitcode"]);
        eprintln!(
            "plan of {name} without a change: {:.2} s",
            start.elapsed().as_secs_f64()
        );
        assert_eq!(done.code, 0, "{name}: {}{}", done.out, done.err);
    }
}
