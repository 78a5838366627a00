//! `driftless build`, compared with the real `kustomize build`: charts, output directories, flags.

use driftless_harness::command::{Done, driftless, run};
use driftless_harness::tools;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

fn corpus(path: &str) -> PathBuf {
    tools::tests().join("corpus").join(path)
}

/// Runs both tools with the same arguments in the same directory.
fn both(directory: &Path, args: &[&str]) -> (Done, Done) {
    let home = tempfile::tempdir().expect("a home");
    let helm = tools::HELM.path();
    let mut theirs = Command::new(tools::KUSTOMIZE.path());
    theirs.env_clear().env("HOME", home.path());
    if args.contains(&"--enable-helm") {
        theirs.arg("--helm-command").arg(helm);
    }
    let run =
        |mut command: Command| Done::of(command.arg("build").args(args).current_dir(directory));
    (run(theirs), run(driftless(home.path())))
}

/// Checks that both tools print the same, or that both fail.
fn assert_alike(name: &str, (theirs, ours): &(Done, Done)) {
    assert_eq!(
        theirs.code == 0,
        ours.code == 0,
        "{name}: kustomize {}{}\ndriftless {}{}",
        theirs.code,
        theirs.err,
        ours.code,
        ours.err
    );
    if theirs.code == 0 {
        assert_eq!(theirs.out, ours.out, "{name}");
    }
}

/// Kubernetes' version is always given: a helm that Go builds from its module does not know its
/// default version.
#[test]
fn charts_are_rendered_as_by_kustomize_with_helm() {
    let cases = corpus("kustomize-charts");
    let mut rendered = 0;
    for entry in std::fs::read_dir(&cases).expect("list the cases") {
        let name = entry.expect("a case").file_name();
        let name = name.to_str().expect("a name in UTF-8");
        if name == "charts" {
            continue;
        }
        for flags in [
            &["--helm-kube-version", "1.37.0"][..],
            &[
                "--load-restrictor",
                "LoadRestrictionsNone",
                "--helm-kube-version",
                "1.37.0",
            ],
            &[
                "--helm-kube-version",
                "1.28.0",
                "--helm-api-versions",
                "example.com/v9",
            ],
        ] {
            let args: Vec<&str> = [name, "--enable-helm"]
                .iter()
                .chain(flags)
                .copied()
                .collect();
            let done = both(&cases, &args);
            assert_alike(&format!("{name} {flags:?}"), &done);
            rendered += usize::from(done.0.code == 0);
        }
    }
    assert!(rendered > 20, "most cases render");
}

#[test]
fn charts_are_refused_with_a_reason() {
    let case = |name: &str| corpus(&format!("kustomize-charts/{name}"));
    for (name, flags, words) in [
        ("plain", &[][..], &["helmCharts", "--enable-helm"][..]),
        ("absent", &["--enable-helm"], &["not found", "charts/web"]),
        ("values-outside", &["--enable-helm"], &["load restrictor"]),
        (
            "flag-as-name",
            &["--enable-helm"],
            &["releaseName", "begins with '-'"],
        ),
        ("bad-merge", &["--enable-helm"], &["valuesMerge is 'deep'"]),
    ] {
        let directory = case(name);
        let mut args = vec!["build", directory.to_str().expect("a path in UTF-8")];
        args.extend(flags);
        run(&args).refused(1, words);
    }
}

#[test]
fn a_directory_gets_the_files_that_kustomize_writes() {
    let fleet = tempfile::tempdir().expect("a directory");
    let many = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: other}\n---\n\
         apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: Web.x, namespace: other}\n---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: 'system:a'}\n---\n\
         apiVersion: v1\nkind: Namespace\nmetadata: {name: other}\n---\n\
         apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\n";
    for (name, text) in [
        ("many", many),
        (
            "one",
            "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: n}\n",
        ),
    ] {
        let directory = fleet.path().join(name);
        for out in ["theirs", "ours"] {
            std::fs::create_dir_all(directory.join(out)).expect("make a directory");
        }
        std::fs::write(
            directory.join("kustomization.yaml"),
            "resources: [r.yaml]\n",
        )
        .expect("write");
        std::fs::write(directory.join("r.yaml"), text).expect("write");
        let theirs = both(&directory, &[".", "-o", "theirs"]).0;
        let ours = both(&directory, &[".", "-o", "ours"]).1;
        assert_eq!(
            (theirs.code, ours.code),
            (0, 0),
            "{}{}",
            theirs.err,
            ours.err
        );
        assert_eq!(
            files(&directory.join("theirs")),
            files(&directory.join("ours"))
        );
    }
}

fn files(directory: &Path) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(directory).expect("list a directory");
    let file = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.expect("an entry");
        let text = std::fs::read_to_string(entry.path()).expect("a file");
        (entry.file_name().to_string_lossy().into_owned(), text)
    };
    entries.map(file).collect()
}

#[test]
fn flags_for_programs_and_plugins_are_refused() {
    for (flags, words) in [
        (&["--enable-alpha-plugins"][..], "runs no plugins"),
        (&["--enable-exec"], "runs no plugins"),
        (&["--as-current-user"], "runs no function containers"),
        (&["--env", "A=B"], "runs no function containers"),
        (&["--mount", "type=bind"], "runs no function containers"),
        (&["--network"], "runs no function containers"),
        (&["--network-name", "host"], "runs no function containers"),
        (
            &["--helm-command", "/opt/helm4"],
            "renders charts itself, as Helm 3 does",
        ),
        (&["--helm-debug=maybe"], "--helm-debug"),
    ] {
        let mut args = vec!["build", "."];
        args.extend(flags);
        let done = run(&args);
        assert_eq!(done.out, "", "{flags:?}");
        assert!(
            done.code != 0 && done.err.contains(words),
            "{flags:?}: {}",
            done.err
        );
    }
}

/// This test needs no other tool.
#[test]
fn flags_that_repeat_the_default_are_accepted() {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text);
    write("kustomization.yaml", "resources: [r.yaml]\n").expect("write");
    write(
        "r.yaml",
        "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: n\n",
    )
    .expect("write");
    let dir = directory.path().to_str().expect("UTF-8");
    let plain = run(&["build", dir]).ok();
    for flags in [
        &["--helm-debug", "--stack-trace"][..],
        &[
            "--helm-debug=true",
            "--stack-trace=false",
            "--network=false",
        ],
        &["--enable-helm", "--helm-command", "helm"],
        &["--enable-helm", "--helm-command=/opt/helm-3.22/helm"],
    ] {
        let args = [&["build", dir], flags].concat();
        assert_eq!(run(&args).ok(), plain, "{flags:?}");
    }
}

/// This test needs no other tool.
#[test]
fn a_directory_without_a_kustomization_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let dir = directory.path().canonicalize().expect("its path");
    std::fs::create_dir(dir.join(".git")).expect("make the directory of a work tree");
    let dir = dir.to_str().expect("UTF-8");
    let done = run(&["build", dir]);
    let words = format!("Error: {dir}: the directory has no kustomization.yaml");
    done.refused(1, &[&words]);
}

#[test]
fn orders_and_restrictors_are_those_of_kustomize() {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |path: &str, text: &str| {
        let path = directory.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("make a directory");
        std::fs::write(path, text).expect("write");
    };
    write("k/kustomization.yaml", "resources: [../r.yaml]\n");
    write("in/kustomization.yaml", "resources: [r.yaml]\n");
    let objects = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n---\n\
         apiVersion: v1\nkind: Namespace\nmetadata: {name: n}\n";
    write("r.yaml", objects);
    write("in/r.yaml", objects);
    for args in [
        &["k"][..],
        &["k", "--load-restrictor", "LoadRestrictionsNone"],
        &["k", "--load-restrictor", "LoadRestrictionsRootOnly"],
        &["in", "--reorder", "legacy"],
        &["in", "--reorder", "none"],
        &["in", "--enable-managedby-label"],
        &["in", "--enable-alpha-plugins=false"],
        &["nowhere"],
    ] {
        assert_alike(&format!("{args:?}"), &both(directory.path(), args));
    }
}
