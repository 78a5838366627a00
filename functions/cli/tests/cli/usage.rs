//! The command line itself: options before the command, the errors of wrong command lines, help
//! pages.

use crate::demo::Demo;
use driftless_harness::command::{Done, driftless, run};
use std::path::Path;

fn line(home: &Path, line: &str, environment: &[(&str, &str)]) -> Done {
    let mut command = driftless(home);
    command.current_dir(home).args(line.split(' '));
    command.envs(environment.iter().copied());
    Done::of(&mut command)
}

#[test]
fn global_flags_come_anywhere() {
    let home = tempfile::tempdir().expect("a home");
    let demo = Demo::start(home.path(), &[]);
    demo.says("synced in");
    let kubeconfig = home.path().join("demo/kubeconfig");
    let kubeconfig = kubeconfig.to_str().expect("UTF-8");
    let file = format!("--kubeconfig {kubeconfig}");
    let run = |text: &str| line(home.path(), &text.replace("FILE", &file), &[]);
    let want = run("get kustomizations apps FILE -n team-a -o name").ok();
    assert!(want.contains("/apps"), "{want}");
    for text in [
        "FILE -n team-a -o name get kustomizations apps",
        "-n team-a -o name get FILE kustomizations apps",
        "-nteam-a --output=name get kustomizations FILE apps",
    ] {
        assert_eq!(run(text).ok(), want, "{text}");
    }
    let named = |text: &str| run(text).json()["metadata"]["namespace"].clone();
    for text in [
        "FILE -n team-a -o json --timeout 3m reconcile kustomization apps",
        "FILE -n team-a -o json suspend kustomization apps",
        "FILE -n team-a -o json resume kustomization apps",
    ] {
        assert_eq!(named(text), "team-a", "{text}");
    }
    let made = run("-n team-b create kustomization more --source fleet --export").ok();
    assert!(made.contains("namespace: team-b"), "{made}");
    let secret = "create secret git login --url https://github.com/acme/fleet --username me --password p --export";
    for before in ["-n team-b", "--namespace=team-b --context c FILE"] {
        let made = run(&format!("{before} {secret}")).ok();
        assert!(made.contains("namespace: team-b"), "{made}");
    }
    // The command itself still refuses options that it does not have.
    for (text, words) in [
        ("-n team-a check .", "unexpected argument '-n'"),
        ("--context c build .", "unexpected argument '--context'"),
        ("-n team-a doctor", "unexpected argument '-n'"),
        ("-A get all", "unexpected argument '-A'"),
        ("-n team-a", "requires a subcommand"),
    ] {
        run(text).refused(2, &[words]);
    }
}

/// Command lines with their error and exit code.
#[test]
fn a_wrong_line_is_answered_with_the_next_step() {
    let home = tempfile::tempdir().expect("a home");
    let write = |name: &str, text: &str| {
        let file = home.path().join(name);
        std::fs::create_dir_all(file.parent().expect("a directory")).expect("make the directory");
        std::fs::write(file, text).expect("write");
    };
    write(
        "remote/kustomization.yaml",
        "resources: ['https://github.com/acme/fleet//apps?ref=v1&token=canary']\n",
    );
    std::fs::create_dir(home.path().join("empty")).expect("make a directory");
    for (code, text, words) in [
        (
            1,
            "build empty",
            &["empty: the directory has no kustomization.yaml"][..],
        ),
        (1, "build remote", &["apps?ref=v1'", "--allow-remote"]),
        (
            1,
            "template x oci://foo/bar",
            &["only local charts can be rendered", "helm pull"],
        ),
        (
            1,
            "template x https://foo/bar",
            &["only local charts", "helm pull"],
        ),
        (
            2,
            "get all --kubeconfig nofile",
            &["--kubeconfig: nofile does not exist", "Next:"],
        ),
        (
            2,
            "check nodir",
            &["the directory nodir does not exist", "Next:"],
        ),
        (2, "check . --path nodir", &["nodir"]),
        (2, "check empty --with nofile", &["nofile"]),
        (
            2,
            "get foo",
            &[
                "'foo'",
                "one of: all, kustomizations, helmreleases, sources, alerts, alert-providers, receivers, artifact\n",
            ],
        ),
        (
            2,
            "get sources foo",
            &["one of: all, git, oci, helm, chart, bucket, external\n"],
        ),
        (2, "create foo", &["one of: tenant, source, kustomization"]),
        (2, "check --pre", &["driftless doctor"]),
        (
            2,
            "bootstrap github --owner a --repository b --team c",
            &["--team is not supported", "leave --team out"],
        ),
        (2, "uninstall", &["infra/README.md"]),
        (2, "bootstrap --name a", &["DRIFTLESS_BUCKET", "Next:"]),
        (
            2,
            "create kustomization apps",
            &["source is required", "--source GitRepository/fleet"],
        ),
        (
            2,
            "create helmrelease apps",
            &["chart or chart-ref is required", "--chart-ref KIND/NAME"],
        ),
        (
            2,
            "create source helm apps",
            &["url is required", "--url https://"],
        ),
        (
            2,
            "create source git apps --url foo",
            &["'' not supported", "https://HOST/OWNER/NAME"],
        ),
        (
            2,
            "create source git apps --url git@github.com:o/x.git",
            &["ssh://git@HOST/OWNER/NAME"],
        ),
        (2, "create kustomization -a --source x", &["-a"]),
        (
            2,
            "create kustomization a_b --source x",
            &["'a_b' is invalid", "letters, digits and '-'"],
        ),
        (
            2,
            "create secret git x --url ssh://git@h/a/b --private-key-file nofile",
            &["--private-key-file: nofile does not exist", "Next:"],
        ),
    ] {
        let done = line(home.path(), text, &[]);
        done.refused(code, words);
        assert!(!done.err.contains("canary"), "{text}: {}", done.err);
    }
    let missing = line(home.path(), "get all", &[("KUBECONFIG", "/missing")]);
    missing.refused(
        1,
        &["KUBECONFIG names /missing", "Next: give --kubeconfig FILE"],
    );
    // A name of one letter is valid.
    line(
        home.path(),
        "create kustomization a --source x --export",
        &[],
    )
    .ok();
}

/// A kind or field that driftless refuses is not created on a cluster; `--export` writes it with a
/// warning.
#[test]
fn unserved_objects_are_not_created() {
    let text = "create source git a --url https://github.com/acme --branch main";
    let words = "GitRepository/flux-system/a: the repository's URL is not https://HOST/OWNER/NAME";
    let args: Vec<&str> = text.split(' ').collect();
    // The refusal needs no kubeconfig, and the test has none.
    run(&args).refused(2, &[words, "--export"]);
    let exported = run(&[args.as_slice(), &["--export"]].concat());
    assert!(exported.err.contains(words), "{}", exported.err);
    let written = exported.ok();
    assert!(written.starts_with("---\napiVersion: "), "{written}");
}

/// Returns the names of the commands on a page.
fn below(page: &str) -> Vec<String> {
    let listed = page
        .split_once("\nCommands:\n")
        .map_or("", |(_, rest)| rest);
    let listed = listed.split("\n\n").next().unwrap_or_default();
    let names = listed.lines().filter_map(|line| line.strip_prefix("  "));
    let names = names.filter_map(|line| line.split(' ').next());
    let names = names.filter(|name| !name.is_empty() && *name != "help");
    names.map(str::to_owned).collect()
}

#[test]
fn each_help_page_has_an_example_and_fits_the_terminal() {
    let home = tempfile::tempdir().expect("a home");
    let mut pages = vec![Vec::<String>::new()];
    let (mut seen, mut wrong) = (0, Vec::new());
    while let Some(command) = pages.pop() {
        let output = driftless(home.path())
            .args(&command)
            .arg("--help")
            .env("COLUMNS", "100")
            .output()
            .expect("run driftless");
        let page = String::from_utf8(output.stdout).expect("UTF-8");
        let name = format!("driftless {}", command.join(" "));
        seen += 1;
        let examples = page
            .split_once("\nExamples:\n")
            .map_or("", |(_, rest)| rest);
        let examples = examples.split("\n\n").next().unwrap_or_default();
        let own = examples
            .lines()
            .filter(|line| line.contains(name.trim_end()));
        if own.count() == 0 {
            wrong.push(format!("{name}: no example of it"));
        }
        // The rest of a wrapped line begins with another word.
        let starts = ["  driftless ", "  git ", "  export ", "    --"];
        let whole = |line: &&str| starts.iter().any(|start| line.starts_with(start));
        if let Some(line) = examples.lines().find(|line| !whole(line)) {
            wrong.push(format!("{name}: an example is too long at: {line}"));
        }
        if let Some(line) = page.lines().find(|line| line.chars().count() > 100) {
            wrong.push(format!("{name}: too long: {line}"));
        }
        let commands = below(&page).into_iter();
        pages.extend(commands.map(|last| [command.as_slice(), &[last]].concat()));
    }
    assert!(seen > 80, "{seen} pages");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A patch that still has the API version before an upgrade of Flux.
#[test]
fn a_patch_of_another_api_version_is_answered_with_both_versions() {
    let home = tempfile::tempdir().expect("a home");
    let write =
        |name: &str, text: &str| std::fs::write(home.path().join(name), text).expect("write");
    let object = |version: &str, name: &str| {
        format!(
            "apiVersion: kustomize.toolkit.fluxcd.io/{version}\nkind: Kustomization\n\
             metadata: {{name: {name}, namespace: flux-system}}\nspec: {{suspend: true}}\n"
        )
    };
    let list = "resources: [apps.yaml]\npatches: [{path: patch.yaml}]\n";
    write("kustomization.yaml", list);
    write("apps.yaml", &object("v1", "apps"));
    write("patch.yaml", &object("v1beta2", "apps"));
    let message = "patch.yaml: no object Kustomization.v1beta2.kustomize.toolkit.fluxcd.io/apps.flux-system exists to patch, \
                   but one of apiVersion kustomize.toolkit.fluxcd.io/v1: \
                   change apiVersion kustomize.toolkit.fluxcd.io/v1beta2 of the patch to kustomize.toolkit.fluxcd.io/v1";
    line(home.path(), "build .", &[]).refused(1, &[message]);
    let list = "namePrefix: a-\nresources: [apps.yaml]\npatchesStrategicMerge: [patch.yaml]\n";
    write("kustomization.yaml", list);
    line(home.path(), "build .", &[]).refused(1, &[message]);
    // An object of another name is not meant.
    write("patch.yaml", &object("v1beta2", "other"));
    let done = line(home.path(), "build .", &[]);
    done.refused(1, &["other.flux-system exists to patch\n"]);
    write("patch.yaml", &object("v1", "apps"));
    line(home.path(), "build .", &[]).ok();
}
