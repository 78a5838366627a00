//! `driftless build --allow-remote`: bases of GitHub's repositories, and files by HTTP.

use driftless_harness::charts::Host;
use driftless_harness::command::run_in;
use driftless_harness::github::{Change, GitHub};
use driftless_harness::tools;
use std::path::Path;

const CONFIG: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: app\n";

#[test]
fn remote_bases_and_files_are_fetched_when_that_is_allowed() {
    if !tools::has("git") {
        return;
    }
    let github = GitHub::start();
    let base = github.repository("acme/base");
    let first = base.commit(
        "main",
        &[
            Change::write("config/kustomization.yaml", "resources: [app.yaml]\n"),
            Change::write("config/app.yaml", CONFIG),
            Change::write(
                "over/kustomization.yaml",
                "resources: [../config]\nnamePrefix: v1-\n",
            ),
        ],
        "first",
    );
    base.tag("v1", &first);
    let over = "resources: [../config]\nnamePrefix: v2-\n";
    base.commit(
        "main",
        &[Change::write("over/kustomization.yaml", over)],
        "second",
    );
    base.set_private(true);
    github.add_token("ghp_base", &["acme/base"]);

    let home = tempfile::tempdir().expect("a home");
    let top = home.path().join("top");
    std::fs::create_dir_all(&top).expect("a directory");
    let api = format!("github.com={}", github.url());
    let build = |entry: &str, allowed: bool, token: &str| {
        let text = format!("resources: ['{entry}']\n");
        std::fs::write(top.join("kustomization.yaml"), text).expect("a file");
        let directory = top.to_str().expect("UTF-8");
        let mut args = vec!["build", directory];
        if allowed {
            args.extend(["--allow-remote", "--github-api", &api]);
        }
        run_in(home.path(), &args, &[("GITHUB_TOKEN", token)])
    };
    let web = Host::start();
    web.put("/app.yaml", CONFIG);
    let named = |prefix: &str| CONFIG.replace("app\n", &format!("{prefix}app\n"));
    for (entry, expected) in [
        (
            "https://github.com/acme/base//over?ref=v1".to_owned(),
            named("v1-"),
        ),
        (
            "https://github.com/acme/base//over?ref=main".to_owned(),
            named("v2-"),
        ),
        ("github.com/acme/base/config?ref=v1".to_owned(), named("")),
        (
            format!("git@github.com:acme/base//over?ref={first}"),
            named("v1-"),
        ),
        (format!("{}/app.yaml", web.url()), named("")),
    ] {
        assert_eq!(build(&entry, true, "ghp_base").ok(), expected, "{entry}");
    }
    let over = "https://github.com/acme/base//over?ref=v1";
    build(over, false, "ghp_base").refused(
        1,
        &["top/kustomization.yaml", "remote", "allow remote bases"],
    );
    build(over, true, "").refused(1, &["https://github.com/acme/base", "v1"]);
    let unpinned = "https://github.com/acme/base//over";
    build(unpinned, true, "ghp_base").refused(1, &["?ref=TAG"]);
    let absent = "https://github.com/acme/base//over?ref=v9";
    build(absent, true, "ghp_base").refused(1, &["acme/base", "v9"]);
    let login = "https://me:secret@github.com/acme/base//over?ref=v1";
    let refused = build(login, true, "ghp_base");
    refused.refused(1, &["contains credentials"]);
    assert!(!refused.err.contains("me:secret"), "{}", refused.err);
    assert!(
        !Path::new(&top).join(".driftless-remote").exists(),
        "nothing is written to the disk"
    );
}
