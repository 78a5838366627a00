//! Names of a release's files agree in the workflows, the script, the manifests and the documents;
//! actions are pinned by commit.

use std::collections::BTreeSet;
use std::process::Command;

use crate::text::read;
use driftless_harness::tools;
use driftless_manifest::yaml::{Dialect, Limits, documents};
use regex::Regex;
use serde_json::Value;

const NIGHTLY: &str = ".github/workflows/nightly.yml";
const WORKFLOWS: [&str; 3] = [
    ".github/workflows/ci.yml",
    ".github/workflows/release.yml",
    NIGHTLY,
];

fn yaml(path: &str) -> Value {
    let read = documents(read(path).as_bytes(), path, Dialect::V3, &Limits::default());
    let mut documents = read.expect("YAML");
    assert_eq!(documents.len(), 1, "{path}");
    documents.remove(0)
}

fn captures(text: &str, pattern: &str) -> BTreeSet<String> {
    let pattern = Regex::new(pattern).expect("a regular expression");
    let all = pattern.captures_iter(text);
    all.map(|capture| capture[1].to_owned()).collect()
}

fn strings(list: &Value) -> BTreeSet<String> {
    let list = list.as_array().into_iter().flatten();
    list.map(|item| item.as_str().expect("a string").to_owned())
        .collect()
}

/// Returns the value of a list in `infra/release`.
fn listed(name: &str) -> BTreeSet<String> {
    let lists = captures(&read("infra/release"), &format!("(?m)^{name}=\"(.*)\"$"));
    let list = lists.first().expect("a list of infra/release");
    list.split(' ').map(str::to_owned).collect()
}

#[test]
fn actions_are_pinned_by_commit_and_named_by_version() {
    let pinned = Regex::new(r"^[\w-]+/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$").expect("a pattern");
    for path in WORKFLOWS {
        for action in captures(&read(path), r"(?m)^\s*(?:- )?uses: (.+)$") {
            let is_local = action == "./.github/workflows/ci.yml";
            assert!(is_local || pinned.is_match(&action), "{path}: {action}");
        }
    }
}

/// Jobs get rights only where they need them, end by themselves, and run no code of a pull request
/// with rights.
#[test]
fn workflows_have_few_rights() {
    for path in WORKFLOWS {
        let workflow = yaml(path);
        assert_eq!(
            workflow["permissions"],
            serde_json::json!({"contents": "read"}),
            "{path}"
        );
        assert!(workflow["concurrency"]["group"].is_string(), "{path}");
        assert!(!read(path).contains("pull_request_target"), "{path}");
        for (name, job) in workflow["jobs"].as_object().expect("jobs") {
            let is_called = job["uses"].is_string();
            assert!(
                is_called || job["timeout-minutes"].is_u64(),
                "{path}: {name}"
            );
            let writes = ["image", "publish"].contains(&name.as_str());
            assert_eq!(job["permissions"].is_object(), writes, "{path}: {name}");
        }
    }
    // A cache of a pull request's run must not reach a release.
    assert!(!read(WORKFLOWS[1]).contains("actions/cache"));
}

/// The nightly workflow compares each engine with its tool; the variables that it sets are those
/// that the comparisons read.
#[test]
fn the_nightly_workflow_runs_every_oracle() {
    let workflow = yaml(NIGHTLY);
    let matrix = &workflow["jobs"]["oracles"]["strategy"]["matrix"]["include"];
    let rows = matrix.as_array().into_iter().flatten();
    let named: BTreeSet<String> = rows
        .map(|row| row["oracle"].as_str().expect("an oracle").to_owned())
        .collect();
    let tests = captures(
        &read("tests/oracle/Cargo.toml"),
        r#"(?m)^\[\[test\]\]\nname = "(.+)"$"#,
    );
    assert_eq!(named, tests);
    for oracle in named {
        let source = read(&format!("tests/oracle/{oracle}/main.rs"));
        for variable in ["SEED", "CASES"] {
            let name = format!("DRIFTLESS_{}_{variable}", oracle.to_uppercase());
            assert!(source.contains(&format!("\"{name}\"")), "{name}");
        }
        // The filter of the workflow's command.
        let tests = captures(&source, r"(?m)^fn (\w*(?:random|generated)\w*)\(");
        assert!(!tests.is_empty(), "{oracle}: no test of random inputs");
    }
}

/// Nothing else runs these.
#[test]
fn the_nightly_workflow_runs_what_takes_too_long_for_each_change() {
    let workflow = read(NIGHTLY);
    let tests = read("tests/acceptance/Cargo.toml");
    let apart = captures(
        &tests,
        r#"(?m)^\[\[test\]\]\nname = "(.+)"\npath = ".+"\ntest = false$"#,
    );
    assert!(apart.contains("terraform"), "{apart:?}");
    for name in apart {
        let command = format!("cargo test --package driftless-acceptance --test {name}");
        assert!(workflow.contains(&command), "{command}");
    }
    assert!(workflow.contains("cargo check --locked --package driftless\n"));
}

#[test]
fn the_workflow_builds_what_the_release_lists() {
    let (text, workflow) = (read(WORKFLOWS[1]), yaml(WORKFLOWS[1]));
    let jobs = &workflow["jobs"];
    let linux = jobs["linux"]["strategy"]["matrix"]["include"].as_array();
    let linux = linux.into_iter().flatten().map(|one| &one["target"]);
    let mut targets: BTreeSet<String> = linux
        .map(|target| target.as_str().expect("a target").to_owned())
        .collect();
    targets.extend(strings(&jobs["macos"]["strategy"]["matrix"]["target"]));
    assert_eq!(targets, listed("targets"));
    let architectures = &jobs["functions"]["strategy"]["matrix"]["architecture"];
    assert_eq!(strings(architectures), listed("architectures"));
    let functions = listed("functions");
    assert_eq!(
        captures(
            &text,
            r"--bin ((?:webhook|reconcile|drift|capsule|dashboard|plan)\b)"
        ),
        functions
    );
    let template = yaml("infra/template.yaml").to_string();
    assert_eq!(
        captures(&template, r"\.\./target/lambda/([a-z]+)/"),
        functions
    );
    let loops = captures(&text, r"for name in ([a-z ]+); do");
    let named: BTreeSet<String> = loops
        .first()
        .expect("a loop")
        .split(' ')
        .map(str::to_owned)
        .collect();
    assert_eq!(named, functions);
    for step in ["check", "notes", "archive", "template", "checksums"] {
        assert!(text.contains(&format!("infra/release {step} ")), "{step}");
    }
}

/// The repository's name is in one place; the others follow it.
#[test]
fn names_follow_the_manifest() {
    let manifest = read("Cargo.toml");
    let one = |pattern: &str| captures(&manifest, pattern).first().expect(pattern).clone();
    let repository = one("(?m)^repository = \"https://github.com/(.+)\"$");
    let version = one("(?m)^version = \"(.+)\"$");
    let owner = repository.split('/').next().expect("an owner");
    for path in [
        "README.md",
        "infra/README.md",
        "infra/chart/README.md",
        "infra/chart/Chart.yaml",
        "infra/chart/values.yaml",
    ] {
        let text = read(path);
        for name in captures(&text, r"github\.com/([\w.-]+/driftless)\b") {
            assert_eq!(name, repository, "{path}");
        }
        for name in captures(&text, r"ghcr\.io/([\w.-]+/[\w/.-]*driftless)\b") {
            let is_known = name == repository || name == format!("{owner}/charts/driftless");
            assert!(is_known, "{path}: {name}");
        }
    }
    let chart = yaml("infra/chart/Chart.yaml");
    assert_eq!(
        (&chart["version"], &chart["appVersion"]),
        (&version.as_str().into(), &version.as_str().into())
    );

    let command = read("functions/cli/Cargo.toml");
    let url = "pkg-url = \"{ repo }/releases/download/v{ version }/{ name }-v{ version }-{ target }.tar.gz\"";
    assert!(command.contains(url) && command.contains("repository.workspace = true"));
    let output = Command::new(tools::workspace().join("infra/release"))
        .args(["files", &format!("v{version}")])
        .output()
        .expect("run infra/release");
    let files = String::from_utf8(output.stdout).expect("UTF-8");
    for target in listed("targets") {
        let file = format!("driftless-v{version}-{target}.tar.gz");
        assert!(files.lines().any(|name| name == file), "{file}");
        assert!(
            read("README.md").contains(&target),
            "README.md lacks {target}"
        );
    }
}

#[test]
fn the_image_is_built_by_the_projects_rust_and_runs_serve() {
    let dockerfile = read("infra/container/Dockerfile");
    let channels = captures(&read("rust-toolchain.toml"), "channel = \"(.+)\"");
    let channel = channels.first().expect("a channel");
    assert!(dockerfile.contains(&format!("FROM rust:{channel}-alpine AS build")));
    assert!(read(WORKFLOWS[0]).contains(&format!("container: rust:{channel}-")));
    assert!(dockerfile.contains("cargo build --locked --release"));
    let last = dockerfile.rsplit("\nFROM ").next().expect("a stage");
    assert!(last.starts_with("scratch\n") && last.contains("USER 65532:65532"));
    // The stage that a release replaces by its own programs.
    assert!(dockerfile.contains("FROM scratch AS program"));
    let release = read(WORKFLOWS[1]);
    assert!(
        release.contains("--target program ")
            && release.contains("--build-context program=program ")
    );
    for argument in [
        "--platform linux/amd64,linux/arm64",
        "program/amd64/driftless",
        "program/arm64/driftless",
    ] {
        assert!(release.contains(argument), "{argument}");
    }
}

/// The image's build gets every member of the workspace, whole: modules are named `target` too.
#[test]
fn the_build_of_the_image_has_the_workspace() {
    let (ignored, manifest) = (read(".dockerignore"), read("Cargo.toml"));
    let lines = ignored.lines().filter(|line| !line.starts_with('#'));
    let (kept, left_out): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.starts_with('!'));
    assert_eq!(left_out, ["*", "tests/fuzz/target"]);
    let members = manifest.lines().find(|line| line.starts_with("members = "));
    let members = captures(members.expect("the members"), r#""([a-z]+)[/"]"#);
    for name in
        members
            .iter()
            .map(String::as_str)
            .chain(["Cargo.toml", "Cargo.lock", "infra", "events"])
    {
        assert!(kept.contains(&format!("!{name}").as_str()), "{name}");
    }
}

/// Each flag of the chart and of the image is one that `serve` has.
#[test]
fn the_chart_gives_flags_of_serve() {
    let reference = read("functions/cli/REFERENCE.md");
    let serve = reference
        .split("\n## ")
        .find(|part| part.starts_with("driftless serve"));
    let known = captures(serve.expect("the section of serve"), r"(--[a-z][a-z-]+)");
    let deployment = read("infra/chart/templates/deployment.yaml");
    let container = &deployment[deployment.find("args:").expect("args")..];
    let given = captures(container, r"(?m)(?:^\s*- |printf )\W?(--[a-z][a-z-]+)");
    assert!(given.len() > 10, "{given:?}");
    let image = captures(&read("infra/container/Dockerfile"), "\"(--[a-z]+)=");
    let wrong: Vec<&String> = given
        .union(&image)
        .filter(|flag| !known.contains(*flag))
        .collect();
    assert!(wrong.is_empty(), "serve has no {wrong:?}");
}

/// The chart's README has every value, and the schema no other ones.
#[test]
fn every_value_of_the_chart_is_documented() {
    let (values, guide) = (
        yaml("infra/chart/values.yaml"),
        read("infra/chart/README.md"),
    );
    let schema: Value =
        serde_json::from_str(&read("infra/chart/values.schema.json")).expect("JSON");
    for (name, value) in values.as_object().expect("values") {
        assert!(
            guide.contains(&format!("`{name}")),
            "README.md lacks {name}"
        );
        // Resources are those of Kubernetes, which the schema does not describe.
        let described = &schema["properties"][name]["properties"];
        let inner = value.as_object().filter(|_| name != "resources");
        for inner in inner.into_iter().flat_map(|value| value.keys()) {
            let full = format!("{name}.{inner}");
            assert!(described[inner].is_object(), "the schema lacks {full}");
            assert!(guide.contains(&full), "README.md lacks {full}");
        }
    }
}
