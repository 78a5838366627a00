//! GitHub's adapter against the stub over real repositories, and against answers that the stub does
//! not give.

use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use driftless_adapters::git::{GitHub as Adapter, GitRouter, Hosts};
use driftless_flux::GitReference;
use driftless_harness::github::{App, Change, Fault, GitHub, Repository};
use driftless_kernel::ports::{Commit, ErrorKind, FetchLimits, Git, GitAuth, PortError, Secret};
use driftless_manifest::FileTree;
use driftless_memory::MemorySecrets;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const URL: &str = "https://github.com/acme/fleet";

struct World {
    stub: GitHub,
    fleet: Arc<Repository>,
    head: String,
}

fn world() -> World {
    let stub = GitHub::start();
    let fleet = stub.repository("acme/fleet");
    let head = fleet.commit(
        "main",
        &[
            Change::write("apps/a.yaml", "a: 1\n"),
            Change::executable("run.sh", "#!/bin/sh\n"),
            Change::link("apps/link.yaml", "a.yaml"),
        ],
        "First",
    );
    World { stub, fleet, head }
}

fn adapter(stub: &GitHub, secrets: &[(&str, String)]) -> GitRouter {
    at(stub.url(), secrets)
}

fn at(api: &str, secrets: &[(&str, String)]) -> GitRouter {
    let keys = secrets
        .iter()
        .map(|(name, value)| ((*name).to_owned(), Secret::new(value.clone())));
    let keys = Arc::new(MemorySecrets(keys.collect()));
    let hosts = Hosts::default()
        .with("github.com", api)
        .with("git.acme.example", api);
    GitRouter::new().with(Adapter::new(hosts, keys).expect("an adapter"))
}

fn branch(name: &str) -> GitReference {
    GitReference {
        branch: name.into(),
        ..GitReference::default()
    }
}

async fn resolve(git: &GitRouter, reference: &GitReference) -> Result<Commit, PortError> {
    git.resolve(URL, reference, &GitAuth::Installation, None)
        .await
}

async fn fetch(git: &GitRouter, sha: &str, limits: FetchLimits) -> Result<FileTree, PortError> {
    let commit = Commit {
        sha: sha.to_owned(),
        ..Commit::default()
    };
    git.fetch(URL, &commit, &GitAuth::Installation, limits)
        .await
}

fn paths(tree: &FileTree) -> Vec<String> {
    tree.index()
        .iter()
        .map(|(path, _)| path.to_string())
        .collect()
}

#[tokio::test]
async fn each_reference_resolves_as_in_flux() {
    let World { stub, fleet, head } = world();
    let next = fleet.commit("main", &[Change::write("b", "2")], "Second");
    fleet.tag("v1.0.0", &head);
    fleet.annotated_tag("v1.2.0", &next, "a release");
    fleet.tag("v2.0.0-rc.1", &next);
    fleet.tag("latest", &head);
    fleet.commit("feature/ü", &[Change::write("c", "3")], "Third");
    let git = adapter(&stub, &[]);
    let empty = GitReference::default;
    let tag = |tag: &str| GitReference {
        tag: tag.into(),
        ..empty()
    };
    let semver = |semver: &str| GitReference {
        semver: semver.into(),
        ..empty()
    };
    let name = |name: &str| GitReference {
        name: name.into(),
        ..empty()
    };
    for (reference, revision) in [
        (branch("main"), format!("main@sha1:{next}")),
        (tag("v1.0.0"), format!("v1.0.0@sha1:{head}")),
        (tag("v1.2.0"), format!("v1.2.0@sha1:{next}")),
        (semver("1.0.x"), format!("v1.0.0@sha1:{head}")),
        (semver(">=1.0.0"), format!("v1.2.0@sha1:{next}")),
        (semver(">=1.0.0-0"), format!("v2.0.0-rc.1@sha1:{next}")),
        (
            name("refs/heads/main"),
            format!("refs/heads/main@sha1:{next}"),
        ),
        (
            GitReference {
                commit: head.clone(),
                ..branch("main")
            },
            format!("main@sha1:{head}"),
        ),
    ] {
        let found = resolve(&git, &reference).await.expect("a commit");
        assert_eq!(found.revision(), revision, "{reference:?}");
    }
    let own = fleet.resolve("feature/ü").expect("a branch");
    assert_eq!(
        resolve(&git, &branch("feature/ü"))
            .await
            .expect("found")
            .sha,
        own
    );
    // A deleted branch is not found, and the error names it; `main` must not answer for `mai`.
    fleet.delete_branch("feature/ü");
    for (reference, named) in [
        (branch("feature/ü"), "refs/heads/feature/ü"),
        (branch("mai"), "refs/heads/mai"),
        (tag("main"), "refs/tags/main"),
        (semver("9.x"), "9.x"),
    ] {
        let error = resolve(&git, &reference).await.expect_err("nothing");
        assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
        assert!(error.message.contains(named), "{error}");
    }
}

#[tokio::test]
async fn a_forced_push_and_an_unchanged_branch() {
    let World { stub, fleet, head } = world();
    let git = adapter(&stub, &[]);
    let next = fleet.commit("main", &[Change::write("b", "2")], "Second");
    let known = resolve(&git, &branch("main")).await.expect("a commit");
    assert_eq!(known.sha, next);
    let ask = |reference: GitReference| {
        let (git, known) = (&git, &known);
        async move {
            git.resolve(URL, &reference, &GitAuth::Installation, Some(known))
                .await
                .expect("a commit")
        }
    };
    assert_eq!(ask(branch("main")).await, known);
    assert_eq!(stub.calls().last().expect("a call").status, 304);
    // The validator of one question answers no other: here the same commit under another name.
    fleet.reset("other", &next);
    assert_eq!(ask(branch("other")).await.name, "other");
    assert_eq!(stub.calls().last().expect("a call").status, 200);
    fleet.reset("main", &head);
    assert_eq!(ask(branch("main")).await.sha, head);
}

#[tokio::test]
async fn a_commit_by_its_hash_is_asked_for_with_the_callers_own_login() {
    let World { stub, fleet, head } = world();
    fleet.set_private(true);
    stub.add_token("ghp_good", &["acme/fleet"]);
    stub.add_token("ghp_elsewhere", &["acme/other"]);
    let git = adapter(&stub, &[("github/token", "ghp_good".into())]);
    let by_hash = GitReference {
        commit: head.clone(),
        ..GitReference::default()
    };
    let token = |token: &str| GitAuth::Bearer(Secret::new(token.to_owned()));
    for (auth, kind) in [
        (GitAuth::Anonymous, ErrorKind::NotFound),
        (token("ghp_elsewhere"), ErrorKind::NotFound),
        (token("ghp_wrong"), ErrorKind::Denied),
    ] {
        let error = git.resolve(URL, &by_hash, &auth, None).await;
        let error = error.expect_err("not readable");
        assert_eq!(error.kind, kind, "{auth:?}: {error}");
        assert!(!error.message.contains("ghp_"), "{error}");
    }
    let good = token("ghp_good");
    for auth in [&good, &GitAuth::Installation] {
        let calls = stub.calls().len();
        let found = git.resolve(URL, &by_hash, auth, None).await;
        assert_eq!(found.expect("a commit").sha, head);
        assert_eq!(stub.calls().len(), calls + 1, "one request");
    }
    // The next request costs nothing of the limit, and is still sent.
    let known = git.resolve(URL, &by_hash, &good, None).await;
    let known = known.expect("a commit");
    let again = git.resolve(URL, &by_hash, &good, Some(&known)).await;
    assert_eq!(again.expect("a commit"), known);
    assert_eq!(stub.calls().last().expect("a call").status, 304);
    let error = git
        .resolve(URL, &by_hash, &GitAuth::Anonymous, Some(&known))
        .await;
    assert_eq!(error.expect_err("private").kind, ErrorKind::NotFound);
    // A hash that is not a commit of this repository.
    let absent = GitReference {
        commit: "0".repeat(40),
        ..GitReference::default()
    };
    let error = git.resolve(URL, &absent, &good, None).await;
    let error = error.expect_err("no such commit");
    assert!(error.message.contains("commit 0000"), "{error}");
}

#[tokio::test]
async fn anonymous_is_never_the_installation() {
    let World { stub, fleet, .. } = world();
    let git = adapter(&stub, &[("github/token", "ghp_good".into())]);
    stub.add_token("ghp_good", &["acme/fleet"]);
    let main = branch("main");
    let ask = || git.resolve(URL, &main, &GitAuth::Anonymous, None);
    ask().await.expect("public");
    assert!(!stub.calls().last().expect("a call").authorized);
    fleet.set_private(true);
    assert_eq!(ask().await.expect_err("private").kind, ErrorKind::NotFound);
}

#[tokio::test]
async fn files_are_those_of_the_commit() {
    let World { stub, fleet, head } = world();
    let git = adapter(&stub, &[]);
    let tree = fetch(&git, &head, FetchLimits::default())
        .await
        .expect("files");
    assert_eq!(paths(&tree), ["apps/a.yaml", "apps/link.yaml", "run.sh"]);
    let endpoints: Vec<String> = stub.calls().into_iter().map(|c| c.endpoint).collect();
    assert_eq!(endpoints, ["git/commits", "tarball", "codeload"]);
    // `git archive` omits and rewrites files as .gitattributes demands; a checkout does not.
    let attributes = "hidden/** export-ignore\nversion.txt export-subst\n";
    let sha = fleet.commit(
        "main",
        &[
            Change::write(".gitattributes", attributes),
            Change::write("hidden/secret.yaml", "s: 1\n"),
            Change::write("version.txt", "$Format:%H$\n"),
        ],
        "Attributes",
    );
    let tree = fetch(&git, &sha, FetchLimits::default())
        .await
        .expect("files");
    assert!(paths(&tree).contains(&"hidden/secret.yaml".to_owned()));
    let version = tree
        .index()
        .iter()
        .find(|(path, _)| path.to_string() == "version.txt")
        .and_then(|(path, _)| tree.content(path).cloned());
    assert_eq!(version.as_deref(), Some(&b"$Format:%H$\n"[..]));
    // An empty commit is not an error, and differs from one that cannot be read.
    let remove = ["apps", "run.sh", ".gitattributes", "hidden", "version.txt"].map(Change::remove);
    let sha = fleet.commit("main", &remove, "Everything");
    let tree = fetch(&git, &sha, FetchLimits::default())
        .await
        .expect("no files");
    assert!(paths(&tree).is_empty(), "{:?}", paths(&tree));
}

#[tokio::test]
async fn a_repository_above_the_limits_is_refused() {
    let World { stub, fleet, .. } = world();
    let git = adapter(&stub, &[]);
    let sha = fleet.commit(
        "main",
        &[Change::write("big.yaml", vec![b'x'; 400_000])],
        "Big",
    );
    let all = FetchLimits::default();
    for limits in [
        FetchLimits {
            bytes: 300_000,
            ..all.clone()
        },
        FetchLimits {
            bytes: 100,
            ..all.clone()
        },
        FetchLimits {
            files: 2,
            ..all.clone()
        },
    ] {
        let error = fetch(&git, &sha, limits).await.expect_err("too large");
        assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
    }
    fetch(&git, &sha, all).await.expect("files");
}

#[tokio::test]
async fn an_unreadable_answer_is_an_error_and_not_empty() {
    let World { stub, head, .. } = world();
    let git = adapter(&stub, &[]);
    let all = FetchLimits::default();
    for (endpoint, fault, kind) in [
        ("git/commits", Fault::Html, ErrorKind::Unreadable),
        ("git/commits", Fault::Truncated, ErrorKind::Unavailable),
        ("git/commits", Fault::Error(502), ErrorKind::Unavailable),
        ("git/commits", Fault::NotFound, ErrorKind::NotFound),
        ("tarball", Fault::Error(500), ErrorKind::Unavailable),
        ("tarball", Fault::NotFound, ErrorKind::NotFound),
        ("tarball", Fault::Html, ErrorKind::Unreadable),
        ("codeload", Fault::Html, ErrorKind::Unreadable),
        ("codeload", Fault::Truncated, ErrorKind::Unavailable),
        ("codeload", Fault::Lost, ErrorKind::Unavailable),
        ("codeload", Fault::Error(503), ErrorKind::Unavailable),
    ] {
        stub.fail(endpoint, fault.clone(), 1);
        let error = fetch(&git, &head, all.clone()).await.expect_err(endpoint);
        assert_eq!(error.kind, kind, "{endpoint} {fault:?}: {error}");
        assert!(!error.message.contains("Unicorn"), "{error}");
    }
    for (fault, kind) in [
        (Fault::Html, ErrorKind::Unreadable),
        (Fault::Truncated, ErrorKind::Unavailable),
        (Fault::Lost, ErrorKind::Unavailable),
        (Fault::Error(500), ErrorKind::Unavailable),
    ] {
        stub.fail("git/ref", fault.clone(), 1);
        let error = resolve(&git, &branch("main"))
            .await
            .expect_err("unreadable");
        assert_eq!(error.kind, kind, "{fault:?}: {error}");
    }
    fetch(&git, &head, all.clone()).await.expect("files");
}

#[tokio::test]
async fn a_limit_is_obeyed_without_asking_again() {
    let World { stub, head, .. } = world();
    let git = adapter(&stub, &[]);
    for status in [403, 429] {
        let git = adapter(&stub, &[]);
        let limited = Fault::Limited {
            status,
            retry_after: 77,
        };
        stub.fail("git/ref", limited, 1);
        let error = resolve(&git, &branch("main")).await.expect_err("limited");
        let wait = Some(Duration::from_secs(77));
        assert_eq!(
            (error.kind, error.retry_after),
            (ErrorKind::RateLimited, wait)
        );
        // With this login, no request is sent until then.
        let sent = stub.calls().len();
        let again = fetch(&git, &head, FetchLimits::default())
            .await
            .expect_err("still");
        assert_eq!(again.kind, ErrorKind::RateLimited);
        assert!(
            again
                .retry_after
                .is_some_and(|left| left > Duration::from_secs(70))
        );
        assert_eq!(stub.calls().len(), sent);
        // Another login has its own limit.
        stub.add_token("ghp_other", &["acme/fleet"]);
        let token = GitAuth::Bearer(Secret::new("ghp_other"));
        git.resolve(URL, &branch("main"), &token, None)
            .await
            .expect("a commit");
    }
    resolve(&git, &branch("main")).await.expect("a commit");
}

#[tokio::test]
async fn tokens_of_the_installation_and_of_the_object() {
    let World { stub, fleet, head } = world();
    fleet.set_private(true);
    stub.add_token("ghp_good", &["acme/fleet"]);
    stub.add_token("ghp_elsewhere", &["acme/other"]);
    let none = adapter(&stub, &[]);
    let error = resolve(&none, &branch("main")).await.expect_err("private");
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert!(
        error.message.contains("these credentials may not see it"),
        "{error}"
    );

    let own = adapter(&stub, &[("github/token", "ghp_good\n".into())]);
    assert_eq!(
        resolve(&own, &branch("main")).await.expect("found").sha,
        head
    );
    fetch(&own, &head, FetchLimits::default())
        .await
        .expect("files, without the token at the download host");
    let codeload = stub.calls().pop().expect("a call");
    assert!(codeload.endpoint == "codeload" && !codeload.authorized);

    let token = |token: &str| GitAuth::Bearer(Secret::new(token.to_owned()));
    let basic = |password: &str| GitAuth::Basic {
        username: "git".into(),
        password: Secret::new(password.to_owned()),
    };
    for (auth, kind) in [
        (token("ghp_good"), None),
        (basic("ghp_good"), None),
        (token("ghp_elsewhere"), Some(ErrorKind::NotFound)),
        (token("ghp_wrong-canary"), Some(ErrorKind::Denied)),
        (token(""), Some(ErrorKind::Invalid)),
        (token("a\nb-canary"), Some(ErrorKind::Invalid)),
    ] {
        let found = none.resolve(URL, &branch("main"), &auth, None).await;
        assert_eq!(found.as_ref().err().map(|e| e.kind), kind, "{found:?}");
        assert!(!format!("{found:?}").contains("canary"));
    }
    // Another host has its own credentials: those of github.com are not sent there.
    let elsewhere = "https://git.acme.example/acme/fleet";
    let ask = |git: GitRouter| async move {
        git.resolve(elsewhere, &branch("main"), &GitAuth::Installation, None)
            .await
    };
    assert!(ask(own).await.is_err());
    let enterprise = [("github/git.acme.example/token", "ghp_good".into())];
    assert_eq!(
        ask(adapter(&stub, &enterprise)).await.expect("found").sha,
        head
    );
    // No request is sent to a host that is not configured.
    let calls = stub.calls().len();
    let unknown = none
        .resolve(
            "https://evil.example/acme/fleet",
            &branch("main"),
            &GitAuth::Installation,
            None,
        )
        .await;
    assert_eq!(unknown.expect_err("unknown").kind, ErrorKind::Unsupported);
    assert_eq!(stub.calls().len(), calls);
}

fn own_app(app: &App, installation: Option<u64>) -> String {
    json!({"appId": app.id, "installationId": installation, "privateKey": app.private_key})
        .to_string()
}

#[tokio::test]
async fn an_app_gets_one_token_and_a_new_one_when_it_ends() {
    let World { stub, fleet, head } = world();
    fleet.set_private(true);
    let app = stub.add_app(7, 70, &["acme/fleet"]);
    for installation in [Some(70), None] {
        // With an App's own key, the stub returns nothing about a private repository.
        fleet.set_private(installation.is_some());
        let before = stub.count("access_tokens");
        let git = adapter(&stub, &[("github/app", own_app(&app, installation))]);
        for _ in 0..3 {
            assert_eq!(
                resolve(&git, &branch("main")).await.expect("found").sha,
                head
            );
        }
        fetch(&git, &head, FetchLimits::default())
            .await
            .expect("files");
        assert_eq!(stub.count("access_tokens"), before + 1);
        // Revoked before its time: one new token, then the answer.
        stub.expire_tokens();
        resolve(&git, &branch("main")).await.expect("found");
        assert_eq!(stub.count("access_tokens"), before + 2);
    }
    // An App that the object itself names.
    fleet.set_private(true);
    let git = adapter(&stub, &[]);
    let of_object = |key: &str, base_url: Option<String>| GitAuth::App {
        app_id: "7".into(),
        installation_id: "70".into(),
        private_key: Secret::new(key.to_owned()),
        base_url,
    };
    let ask = async |auth: GitAuth| git.resolve(URL, &branch("main"), &auth, None).await;
    ask(of_object(&app.private_key, None)).await.expect("found");
    ask(of_object(
        &app.private_key,
        Some(format!("{}/", stub.url())),
    ))
    .await
    .expect("found");
    // The object may not choose where requests go.
    let elsewhere = of_object(&app.private_key, Some("https://evil.example".into()));
    let error = ask(elsewhere).await.expect_err("refused");
    assert_eq!(error.kind, ErrorKind::Unsupported);
    // A known App's id with another key gets nothing of what the first one got.
    let other = stub.add_app(8, 80, &["acme/other"]);
    let error = ask(of_object(&other.private_key, None))
        .await
        .expect_err("refused");
    assert_eq!(error.kind, ErrorKind::Denied);
    let error = ask(of_object("canary", None)).await.expect_err("no key");
    assert!(error.kind == ErrorKind::Invalid && !error.message.contains("canary"));
}

type Seen = Arc<Mutex<Vec<(String, bool)>>>;

/// Starts a server that answers every request in one way. Returns its URL and a log of each
/// request's path and whether it had a login.
async fn server(
    answer: impl Fn(&Request) -> Response + Clone + Send + Sync + 'static,
) -> (String, Seen) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let seen = Seen::default();
    let noted = seen.clone();
    let app = Router::new().fallback(move |request: Request| {
        let login = request.headers().contains_key("authorization");
        let path = request.uri().path().to_owned();
        noted.lock().expect("not poisoned").push((path, login));
        let response = answer(&request);
        async move { response }
    });
    tokio::spawn(async move { axum::serve(listener, app).await.expect("serve") });
    (url, seen)
}

fn refusal(status: u16, message: &str, headers: &[(&'static str, String)]) -> Response {
    let mut response = axum::Json(json!({"message": message})).into_response();
    *response.status_mut() = status.try_into().expect("a status");
    for (name, value) in headers {
        response
            .headers_mut()
            .insert(*name, value.parse().expect("a value"));
    }
    response
}

#[tokio::test]
async fn each_refusal_of_github_is_reported() {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("now")
        .as_secs();
    let used_up = |reset: u64| {
        vec![
            ("x-ratelimit-remaining", "0".to_owned()),
            ("x-ratelimit-reset", reset.to_string()),
        ]
    };
    let secondary = "You have exceeded a secondary rate limit.";
    let cases = [
        (
            403,
            "API rate limit exceeded",
            used_up(now + 90),
            ErrorKind::RateLimited,
            85..=92,
        ),
        // A skewed clock: never a retry at once.
        (
            403,
            "API rate limit exceeded",
            used_up(now - 90),
            ErrorKind::RateLimited,
            60..=60,
        ),
        (403, secondary, vec![], ErrorKind::RateLimited, 60..=60),
        (429, "", vec![], ErrorKind::RateLimited, 60..=60),
        (
            429,
            "",
            vec![("retry-after", "999999".to_owned())],
            ErrorKind::RateLimited,
            7200..=7200,
        ),
        (
            403,
            "Resource not accessible",
            vec![],
            ErrorKind::Denied,
            0..=0,
        ),
        (401, "Bad credentials", vec![], ErrorKind::Denied, 0..=0),
        (404, "Not Found", vec![], ErrorKind::NotFound, 0..=0),
        (422, "Validation Failed", vec![], ErrorKind::Invalid, 0..=0),
        (
            503,
            "",
            vec![("retry-after", "30".to_owned())],
            ErrorKind::Unavailable,
            30..=30,
        ),
    ];
    let mut messages = BTreeMap::new();
    for (status, message, headers, kind, wait) in cases {
        let (url, seen) = server(move |_| refusal(status, message, &headers)).await;
        let git = at(&url, &[("github/token", "t".into())]);
        let error = resolve(&git, &branch("main")).await.expect_err("refused");
        let seconds = error.retry_after.unwrap_or_default().as_secs();
        assert!(
            error.kind == kind && wait.contains(&seconds),
            "{status} {message}: {error:?}"
        );
        assert!(error.message.contains(&status.to_string()) && error.message.contains(message));
        assert_eq!(seen.lock().expect("calls").len(), 1, "asked once");
        messages.insert(status, error.message);
    }
    assert!(messages[&401].contains("these credentials are not valid"));
    assert!(messages[&403].contains("these credentials are not enough"));
    assert!(
        messages[&404].contains("the resource does not exist, or these credentials may not see it")
    );
}

#[tokio::test]
async fn redirects_stay_bounded_and_take_no_login_elsewhere() {
    let head = "0".repeat(40);
    let found = json!({"ref": "refs/heads/main", "object": {"type": "commit", "sha": head}});
    let (other, seen_there) = server(move |_| axum::Json(found.clone()).into_response()).await;
    let to = move |location: String| refusal(301, "Moved Permanently", &[("location", location)]);
    let target = other.clone();
    let (url, _) = server(move |_| to(format!("{target}/repositories/1/git/ref/heads/main"))).await;
    let git = at(&url, &[("github/token", "t".into())]);
    assert_eq!(
        resolve(&git, &branch("main")).await.expect("found").sha,
        head
    );
    let expected = [("/repositories/1/git/ref/heads/main".to_owned(), false)];
    assert_eq!(*seen_there.lock().expect("calls"), expected);

    // A renamed repository is on the same host: there the login goes along.
    let (url, seen) = server(move |_| to("/round".into())).await;
    let git = at(&url, &[("github/token", "t".into())]);
    let error = resolve(&git, &branch("main"))
        .await
        .expect_err("round and round");
    assert_eq!(error.kind, ErrorKind::Unreadable);
    let seen = seen.lock().expect("calls").clone();
    assert!(
        seen.len() <= 6 && seen.iter().all(|(_, login)| *login),
        "{seen:?}"
    );
    for location in ["ftp://x/", "file:///etc/passwd", "//x", ""] {
        let (url, _) = server(move |_| to(location.into())).await;
        let error = resolve(&at(&url, &[]), &branch("main"))
            .await
            .expect_err("refused");
        assert_eq!(error.kind, ErrorKind::Unreadable, "{location}: {error}");
    }
}

#[tokio::test]
async fn a_closed_port_is_unavailable() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    let error = resolve(&at(&url, &[]), &branch("main"))
        .await
        .expect_err("no listener");
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
}
