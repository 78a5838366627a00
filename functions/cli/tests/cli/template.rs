//! `driftless template`: its flags, with the output of Helm 3.22.

use driftless_harness::command::{Done, run_in};
use std::fs;
use std::path::Path;

const CHART: [(&str, &str); 9] = [
    ("Chart.yaml", "apiVersion: v2\nname: c\nversion: 0.1.0\n"),
    ("values.yaml", "a: 1\nb: {c: 2}\n"),
    (
        "templates/a.yaml",
        "a: {{ .Values.a }}\nb: {{ .Values.b | toJson }}\n",
    ),
    ("templates/sub/b.yaml", "a: sub\n"),
    (
        "templates/tests/t.yaml",
        "kind: Pod\nmetadata: {annotations: {helm.sh/hook: test}}\n",
    ),
    (
        "templates/hook.yaml",
        "kind: Job\nmetadata: {annotations: {helm.sh/hook: pre-install}}\nup: {{ .Release.IsUpgrade }}\n",
    ),
    ("crds/x.yaml", "kind: CustomResourceDefinition\n"),
    ("templates/NOTES.txt", "Thank you\n"),
    (
        "templates/sub/deep/asked.yaml",
        "{{ with .Values.asked }}release: {{ $.Release.Name }}/{{ $.Release.Namespace }} {{ $.Release.IsInstall }}\nkube: {{ $.Capabilities.KubeVersion.Version }} {{ $.Capabilities.KubeVersion.Minor }}\nhas: {{ $.Capabilities.APIVersions.Has \"example.com/v1\" }} {{ $.Capabilities.APIVersions.Has \"example.com/v1/Thing\" }}\n{{ end }}",
    ),
];

/// Runs with only the template that prints the release and the capabilities.
const ASKED: &str = "--set asked=1 -s templates/sub/deep/asked.yaml";

fn write(home: &Path, name: &str, text: &str) {
    let path = home.join(name);
    fs::create_dir_all(path.parent().expect("a directory")).expect("make the directory");
    fs::write(path, text).expect("write");
}

/// Runs `driftless template r chart FLAGS` in a home with the chart and two values files.
fn template(flags: &[&str]) -> (tempfile::TempDir, Done) {
    let home = tempfile::tempdir().expect("a home");
    for (name, text) in CHART {
        write(home.path(), &format!("chart/{name}"), text);
    }
    write(home.path(), "one.yaml", "b: {c: 3}\n");
    write(home.path(), "two.yaml", "b: {d: 4}\n");
    write(home.path(), "text.txt", "a, text=of \\ a file");
    let path = |flag: &str| flag.replace("HOME", home.path().to_str().expect("UTF-8"));
    let flags: Vec<String> = flags.iter().map(|flag| path(flag)).collect();
    let chart = path("HOME/chart");
    let mut args = vec!["template", "r", &chart];
    args.extend(flags.iter().map(String::as_str));
    let done = run_in(home.path(), &args, &[]);
    (home, done)
}

/// Checks that the command fails with these words.
fn fails(flags: &[&str], words: &str) {
    let (_home, done) = template(flags);
    assert_ne!(done.code, 0, "{flags:?}");
    assert!(done.err.contains(words), "{words} is not in:\n{}", done.err);
}

fn source(name: &str, text: &str) -> String {
    format!("---\n# Source: c/{name}\n{text}\n")
}

#[test]
fn flags_have_the_same_effect_as_in_helm() {
    let a = |text: &str| source("templates/a.yaml", text);
    let b = || source("templates/sub/b.yaml", "a: sub");
    let test = || source("templates/tests/t.yaml", CHART[4].1.trim());
    let hook = |up: &str| {
        let text = CHART[5].1.replace("{{ .Release.IsUpgrade }}", up);
        source("templates/hook.yaml", text.trim())
    };
    let crd = || source("crds/x.yaml", "kind: CustomResourceDefinition\n");
    let own = "a: 1\nb: {\"c\":2}";
    let cases: Vec<(&str, String)> = vec![
        ("", a(own) + &b() + &test() + &hook("false")),
        ("--skip-tests", a(own) + &b() + &hook("false")),
        ("--no-hooks", a(own) + &b()),
        ("--include-crds --no-hooks", crd() + &a(own) + &b()),
        (
            "-s crds/x.yaml --include-crds",
            source("crds/x.yaml", "kind: CustomResourceDefinition"),
        ),
        ("-s templates/sub/b.yaml -s templates/a.yaml", b() + &a(own)),
        ("-s templates/*.yaml", a(own) + &hook("false")),
        ("-s templates/*/*.yaml", b() + &test()),
        ("-s templates/hook.yaml --is-upgrade", hook("true")),
        (
            "-s templates/a.yaml -f HOME/one.yaml,HOME/two.yaml",
            a("a: 1\nb: {\"c\":3,\"d\":4}"),
        ),
        (
            "-s templates/a.yaml --set a=1 --set-string a=2 --set-json a=3",
            a("a: 2\nb: {\"c\":2}"),
        ),
        (
            "-s templates/a.yaml --set-literal a=x,y=z",
            a("a: x,y=z\nb: {\"c\":2}"),
        ),
        (
            "-s templates/a.yaml --set b=null --set a=",
            a("a: \nb: null"),
        ),
        (
            "-s templates/a.yaml --set b.c=null --set a={x,2}",
            a("a: [x 2]\nb: {}"),
        ),
        (
            "-s templates/a.yaml --set-file a=HOME/text.txt",
            a("a: a, text=of \\ a file\nb: {\"c\":2}"),
        ),
        (
            "-s templates/a.yaml --set-json b={\"x\":[1,null]} --set a=0x10",
            a("a: 0x10\nb: {\"c\":2,\"x\":[1,null]}"),
        ),
    ];
    for (flags, wanted) in cases {
        let flags: Vec<&str> = flags.split_whitespace().collect();
        let (_home, done) = template(&flags);
        assert_eq!(done.ok(), wanted, "{flags:?}");
    }
}

#[test]
fn flags_set_release_and_capabilities() {
    let asked = |release: &str, kube: &str, has: &str| {
        let text = format!("release: {release}\nkube: {kube}\nhas: {has}");
        source("templates/sub/deep/asked.yaml", &text)
    };
    for (flags, wanted) in [
        (
            "-n other --kube-version 1.30.2 --api-versions example.com/v1,example.com/v1/Thing",
            asked("r/other true", "v1.30.2 30", "true true"),
        ),
        (
            "--namespace x --kube-version v1.29 -a example.com/v1 --is-upgrade",
            asked("r/x false", "v1.29 29", "true false"),
        ),
        (
            "--kube-version 1.31 -a example.com/v1 -a example.com/v1/Thing",
            asked("r/default true", "v1.31 31", "true true"),
        ),
    ] {
        let flags: Vec<&str> = flags.split(' ').chain(ASKED.split(' ')).collect();
        let (_home, done) = template(&flags);
        assert_eq!(done.ok(), wanted, "{flags:?}");
    }
}

#[test]
fn helm_4_keeps_the_suffix_of_a_version_and_reads_json_as_values() {
    let flags = "--helm4 --kube-version v1.30.2-eks-1 -s templates/sub/deep/asked.yaml";
    let mut flags: Vec<&str> = flags.split(' ').collect();
    flags.extend(["--set-json", "{\"asked\": 1}"]);
    let (_home, done) = template(&flags);
    let text = "release: r/default true\nkube: v1.30.2-eks-1 30\nhas: false false\n";
    let text = done.ok().contains(text);
    assert!(text, "the whole version, and values that are JSON");
    // Helm 3 expects key=value.
    let words = "failed parsing --set-json data";
    fails(&["--set-json", "{\"asked\": 1}"], words);
}

#[test]
fn errors_of_helm_are_errors() {
    for (flags, words) in [
        (
            &["-s", "nope.yaml"][..],
            "could not find template nope.yaml in chart",
        ),
        (
            &["-s", "templates/hook.yaml", "--no-hooks"],
            "could not find template",
        ),
        (&["--kube-version", "x"], "invalid kube version 'x'"),
        (&["--set", "a[999999999]=1"], "maximum supported index"),
        (&["-f", "HOME/none.yaml"], "none.yaml"),
        (&["--set-file", "a=HOME/none.yaml"], "none.yaml"),
        (&["--set", "b=text", "--set", "b.c=1"], "--set"),
    ] {
        fails(flags, words);
    }
}

#[test]
fn flags_of_an_installation_change_nothing() {
    let (_home, plain) = template(&[]);
    let plain = plain.ok();
    for flags in [
        "--debug",
        "--debug=false --dry-run",
        "--dry-run=client --skip-crds",
        "--dry-run=none --create-namespace --replace --force --devel",
        "--wait --wait-for-jobs --timeout 5m0s --atomic",
        "--wait=watcher --rollback-on-failure --take-ownership",
        "--hide-notes --render-subchart-notes --disable-openapi-validation",
        "--description text --labels a=b,c=d -l e=f --kube-context here --kubeconfig missing.yaml",
        "--version 9.9.9",
    ] {
        let flags: Vec<&str> = flags.split(' ').collect();
        let (_home, done) = template(&flags);
        assert_eq!(done.ok(), plain, "{flags:?}");
    }
    for (flag, words) in [
        (
            "--dry-run=server",
            "driftless template connects to no cluster",
        ),
        ("--dry-run=later", "expected client, none, true or false"),
        (
            "--wait=ordered",
            "the order of resource groups is not supported",
        ),
        ("--timeout=5", "--timeout"),
        ("--debug=maybe", "--debug"),
    ] {
        template(&[flag]).1.refused(2, &[words]);
    }
}

#[test]
fn a_generated_name_is_the_default_name_of_helm_template() {
    template(&["--generate-name"])
        .1
        .refused(2, &["cannot set --generate-name and also specify a name"]);
    let (home, _done) = template(&[]);
    let chart = home.path().join("chart");
    let chart = chart.to_str().expect("UTF-8");
    for flags in [&["--generate-name"][..], &["-g"], &[]] {
        let mut args = vec!["template", chart];
        args.extend(ASKED.split(' '));
        args.extend(flags);
        let text = run_in(home.path(), &args, &[]).ok();
        assert!(
            text.contains("release: release-name/default true"),
            "{text}"
        );
    }
}

#[test]
fn unsupported_flags_are_refused_with_the_reason() {
    for (flags, words) in [
        (&["--repo", "https://x"][..], "connects to no repository"),
        (&["--validate"], "connects to no cluster"),
        (&["--enable-dns"], "no network"),
        (&["--post-renderer", "cat"], "--post-renderer"),
        (&["-f", "https://x/values.yaml"], "is remote"),
    ] {
        fails(flags, words);
    }
}

#[test]
fn files_are_written_below_the_directory() {
    let (home, done) = template(&["--output-dir", "HOME/out", "--release-name", "--skip-tests"]);
    let output = done.ok();
    let written = |name: &str| fs::read_to_string(home.path().join("out/r/c").join(name));
    assert!(output.contains("out/r/c/templates/a.yaml"), "{output}");
    let text = written("templates/a.yaml").expect("the file");
    assert_eq!(text, source("templates/a.yaml", "a: 1\nb: {\"c\":2}"));
    assert!(written("templates/hook.yaml").is_ok());
    assert!(written("templates/tests/t.yaml").is_err());
    assert!(written("templates/NOTES.txt").is_err());
}
