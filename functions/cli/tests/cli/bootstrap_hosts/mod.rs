//! `driftless bootstrap gitlab`, `gitea` and `git` set up a repository and a cluster that follows
//! it; a second run changes nothing.

mod stub;

use crate::create::{Server, SshServer};
use crate::help::is_snapshot;
use driftless_harness::command::{Done, run, run_in};
use driftless_harness::tools;
use std::fs;
use std::path::Path;
use std::process::Command;
use stub::{Stub, TOKEN};

const GITLAB: [(&str, &str); 1] = [("GITLAB_TOKEN", TOKEN)];
const GITEA: [(&str, &str); 1] = [("GITEA_TOKEN", TOKEN)];
const DIRECTORY: &str = "clusters/one/flux-system";

fn gitlab(stub: &Stub, more: &str) -> String {
    format!(
        "bootstrap gitlab --gitlab-api {}/gitlab --hostname git.test --repository fleet --path ./clusters/one{more}",
        stub.url()
    )
}

fn gitea(stub: &Stub, more: &str) -> String {
    format!(
        "bootstrap gitea --gitea-api {}/gitea --hostname git.test --repository fleet --path ./clusters/one{more}",
        stub.url()
    )
}

/// Checks that a command succeeded, reported all of these words, and no token.
fn says(done: Done, words: &[&str]) -> String {
    for word in words {
        assert!(done.err.contains(word), "'{word}' is not in:\n{}", done.err);
    }
    assert!(!done.err.contains(TOKEN), "{}", done.err);
    done.ok()
}

#[test]
fn a_new_project_of_gitlab_with_a_deploy_key() {
    let (stub, server, ssh) = (Stub::start(), Server::start(), SshServer::start());
    let host = &ssh.address;
    let line = gitlab(
        &stub,
        &format!(" --owner acme/platform --ssh-hostname {host}"),
    );
    let words = [
        "repository acme/platform/fleet created",
        "committed clusters/one/flux-system to main as commit1",
        "deploy key created",
        "created Kustomization/flux-system/flux-system",
        "`driftless serve` reconciles it",
    ];
    says(server.run_with(&line, &GITLAB), &words);
    let made = stub.repository();
    let (path, body) = made.created.expect("the project was created");
    assert_eq!(path, "gitlab/projects");
    assert_eq!(body["namespace_id"], 7, "{body}");
    assert_eq!(body["visibility"], "private", "{body}");
    let files = &made.branches["main"];
    let sync = &files[&format!("{DIRECTORY}/gotk-sync.yaml")];
    let url = format!("  url: ssh://git@{host}/acme/platform/fleet.git\n");
    assert!(sync.contains(&url), "{sync}");
    let list = &files[&format!("{DIRECTORY}/kustomization.yaml")];
    assert!(list.ends_with("resources:\n- gotk-sync.yaml\n"), "{list}");
    let [(title, key, write)] = &made.keys[..] else {
        panic!("expected one deploy key: {:?}", made.keys);
    };
    assert_eq!((title.as_str(), *write), ("driftless-clusters/one", false));
    let secret = server.secret("flux-system", "flux-system");
    assert!(secret.contains(key.trim()), "{secret}");
    assert!(secret.contains("ssh-ed25519 AAAA"), "{secret}");
    let version = "source.toolkit.fluxcd.io/v1";
    let source = server.get(version, "GitRepository", "flux-system", "flux-system");
    assert_eq!(source["spec"]["secretRef"]["name"], "flux-system");

    let words = ["fleet exists", "main is up to date", "deploy key exists"];
    says(server.run_with(&line, &GITLAB), &words);
    assert_eq!(stub.repository().commits, 1);
    assert_eq!(server.secret("flux-system", "flux-system"), secret);
    // The same key with other rights.
    let done = server.run_with(&format!("{line} --read-write-key"), &GITLAB);
    done.refused(1, &["the repository has this deploy key with other rights"]);
}

#[test]
fn a_project_of_a_user_that_exists() {
    let (stub, server) = (Stub::start(), Server::start());
    let kept = format!("{DIRECTORY}/kustomization.yml");
    let old = format!("{DIRECTORY}/gotk-sync.yaml");
    stub.create("trunk", &[(&kept, "resources: []\n"), (&old, "old\n")]);
    let more = " --owner me --personal --token-auth --branch staging";
    let words = ["repository me/fleet exists", "to staging as commit1"];
    let line = gitlab(&stub, more).replace("git.test", "git.test:8443");
    says(server.run_with(&line, &GITLAB), &words);
    let made = stub.repository();
    let staging = &made.branches["staging"];
    assert_eq!(staging[&kept], "resources: []\n");
    assert!(staging[&old].contains("url: https://git.test:8443/me/fleet.git\n"));
    assert_eq!(staging.len(), 2);
    assert_eq!(made.branches["trunk"][&old], "old\n");
    assert!(server.secret("flux-system", "flux-system").contains(TOKEN));
}

#[test]
fn a_new_repository_of_gitea() {
    let (stub, server, ssh) = (Stub::start(), Server::start(), SshServer::start());
    let host = &ssh.address;
    let more = format!(" --owner acme --ssh-hostname {host} --read-write-key --interval 1m");
    let line = gitea(&stub, &more);
    let words = [
        "repository acme/fleet created",
        "to main as commit1",
        "deploy key created",
    ];
    says(server.run_with(&line, &GITEA), &words);
    let made = stub.repository();
    let (path, body) = made.created.expect("the repository was created");
    assert_eq!(path, "gitea/orgs/acme/repos");
    assert_eq!(body["private"], true, "{body}");
    let sync = &made.branches["main"][&format!("{DIRECTORY}/gotk-sync.yaml")];
    assert!(sync.contains("/acme/fleet.git\n"), "{sync}");
    assert!(made.keys[0].2, "the key may write");
    let words = ["fleet exists", "main is up to date", "deploy key exists"];
    says(server.run_with(&line, &GITEA), &words);
    assert_eq!(stub.repository().commits, 1);
}

#[test]
fn a_repository_of_gitea_that_exists() {
    let (stub, server) = (Stub::start(), Server::start());
    let old = format!("{DIRECTORY}/gotk-sync.yaml");
    stub.create("main", &[(&old, "old\n")]);
    let more = " --owner me --personal --token-auth";
    let words = ["repository me/fleet exists", "to main as commit1"];
    says(server.run_with(&gitea(&stub, more), &GITEA), &words);
    let sync = stub.repository().branches["main"][&old].clone();
    assert!(
        sync.contains("url: https://git.test/me/fleet.git\n"),
        "{sync}"
    );
    // Another branch begins at the default branch, which has the files.
    let server = Server::start();
    let more = format!("{more} --branch other/one");
    let words = ["to other/one as commit2"];
    says(server.run_with(&gitea(&stub, &more), &GITEA), &words);
    assert_eq!(stub.repository().branches["other/one"].len(), 2);
}

#[test]
fn errors_of_hosts_are_reported_before_anything_is_changed() {
    let (stub, server) = (Stub::start(), Server::start());
    let run = |line: String, variables: &[(&str, &str)]| server.run_with(&line, variables);
    let owner = " --owner acme/platform";
    run(gitlab(&stub, owner), &[]).refused(2, &["GITLAB_TOKEN is not set", "Next:"]);
    run(gitea(&stub, " --owner acme"), &[]).refused(2, &["GITEA_TOKEN is not set"]);
    for (flag, words) in [
        (
            "--team a",
            &["--team is not supported", "Next: leave --team out"][..],
        ),
        ("--interval 5m", &["--interval is not supported"]),
        ("--reconcile", &["change the settings at the host"]),
        ("--components-extra a", &["driftless runs no controllers"]),
        ("--deploy-token-auth", &["--token-auth"]),
        (
            "--webhook-url https://a.test",
            &["webhooks of GitLab are not created"],
        ),
        ("--known-hosts-file absent", &["absent does not exist"]),
        ("--branch ../main", &["--branch"]),
        ("--token-auth --read-write-key", &["cannot be used with"]),
    ] {
        run(gitlab(&stub, &format!("{owner} {flag}")), &GITLAB).refused(2, words);
    }
    run(gitlab(&stub, " --owner absent --token-auth"), &GITLAB)
        .refused(1, &["GitLab has no group absent", "--personal"]);
    run(gitlab(&stub, owner), &[("GITLAB_TOKEN", "wrong")])
        .refused(1, &["401", "these credentials are not valid"]);
    run(gitea(&stub, " --owner acme"), &[("GITEA_TOKEN", "wrong")]).refused(1, &["401"]);
    assert!(!stub.repository().exists);
}

/// Runs the script of `bootstrap git` with Git, whose configuration replaces the URL by a
/// directory.
fn commit(home: &Path, script: &str) {
    let file = home.join("commit.sh");
    fs::write(&file, script).expect("write the script");
    let output = Command::new("sh")
        .arg(&file)
        .current_dir(home)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home)
        .output()
        .expect("run sh");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
}

fn git(directory: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .arg("-C")
        .arg(directory)
        .args(args)
        .output()
        .expect("run git");
    assert!(output.status.success(), "{args:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn the_commands_for_any_server_commit_the_manifests() {
    if !tools::has("git") {
        return;
    }
    let (server, ssh) = (Server::start(), SshServer::start());
    let home = tempfile::tempdir().expect("a home");
    let bare = home.path().join("fleet.git");
    fs::create_dir(&bare).expect("make a directory");
    git(&bare, &["init", "-q", "--bare", "-b", "main"]);
    let url = format!("ssh://git@{}/fleet", ssh.address);
    let configuration = format!(
        "[user]\n\tname = me\n\temail = me@example.com\n[url \"{}\"]\n\tinsteadOf = {url}\n",
        bare.display()
    );
    fs::write(home.path().join(".gitconfig"), configuration).expect("write");

    let line = format!("bootstrap git --url {url} --path clusters/one");
    let words = [
        "deploy key: ecdsa-sha2-nistp384 ",
        "applied Secret/flux-system/flux-system",
        "created GitRepository/flux-system/flux-system",
        "run the commands on stdout",
    ];
    let script = says(server.run(&line), &words);
    let secret = server.secret("flux-system", "flux-system");
    assert!(secret.contains("ssh-ed25519 AAAA"), "{secret}");
    commit(home.path(), &script);
    let sync = git(
        &bare,
        &["show", &format!("main:{DIRECTORY}/gotk-sync.yaml")],
    );
    assert!(sync.contains(&format!("url: {url}")), "{sync}");
    let files = git(&bare, &["ls-tree", "--name-only", "-r", "main"]);
    assert_eq!(
        files,
        format!("{DIRECTORY}/gotk-sync.yaml\n{DIRECTORY}/kustomization.yaml")
    );

    // Again: the key stays, and there is nothing to commit.
    let words = ["deploy key: ecdsa-sha2-nistp384 ", "run the commands"];
    assert_eq!(says(server.run(&line), &words), script);
    assert_eq!(server.secret("flux-system", "flux-system"), secret);
    commit(home.path(), &script);
    assert_eq!(git(&bare, &["rev-list", "--count", "main"]), "1");
    // Another branch begins at the default branch.
    let other = server
        .run(&format!("{line} --branch staging --export"))
        .ok();
    for _ in 0..2 {
        commit(home.path(), &other);
        assert_eq!(git(&bare, &["rev-list", "--count", "staging"]), "2");
    }
}

#[test]
fn the_login_of_any_server_is_that_of_the_flags() {
    let home = tempfile::tempdir().expect("a home");
    let line = |text: &str, variables: &[(&str, &str)]| {
        let args: Vec<&str> = text.split(' ').collect();
        run_in(
            home.path(),
            &[&["bootstrap", "git"], args.as_slice()].concat(),
            variables,
        )
    };
    let url = "--url https://git.test/fleet.git";
    let open = line(&format!("{url} --export"), &[]).ok();
    assert!(!open.contains("secretRef"), "{open}");
    assert!(open.contains("mkdir -p 'flux-system'"), "{open}");
    let login = line(&format!("{url} --export"), &[("GIT_PASSWORD", "canary")]).ok();
    assert!(login.contains("secretRef"), "{login}");
    assert!(!login.contains("canary"), "{login}");
    for (text, words) in [
        ("--export", "--url"),
        ("--url ftp://git.test/fleet --export", "not supported"),
        (
            "--url http://git.test/fleet --export",
            "--allow-insecure-http",
        ),
        (
            "--url https://me:canary@git.test/fleet --export",
            "--username",
        ),
        ("--url https://git.test/fl'eet --export", "characters"),
        ("--url https://git.test/fleet --export --team a", "--team"),
        (
            "--url https://git.test/fleet --with-bearer-token",
            "GIT_PASSWORD",
        ),
        (
            "--url https://git.test/fleet --export --branch a..b/..",
            "--branch",
        ),
    ] {
        line(text, &[]).refused(2, &[words]);
    }

    let server = Server::start();
    let run = |more: &str| server.run_with(&format!("bootstrap git {url}{more}"), &[]);
    run(" --username me").refused(2, &["--username and --password"]);
    run(" --private-key-file absent").refused(2, &["not supported for Git over HTTP/S"]);
    run(" --password secret").ok();
    assert_eq!(
        server.secret("flux-system", "flux-system"),
        r#"{"password":"secret","username":"git"}"#
    );
    run(" --password secret --with-bearer-token").ok();
    assert_eq!(
        server.secret("flux-system", "flux-system"),
        r#"{"bearerToken":"secret"}"#
    );
}

#[test]
fn help_of_the_hosts() {
    for host in ["git", "gitea", "gitlab"] {
        let help = run(&["bootstrap", host, "--help"]).ok();
        is_snapshot(&format!("bootstrap-{host}.txt"), &help);
    }
}
