//! Checks that the GitHub stub answers as GitHub does.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use driftless_harness::github::{Change, Fault, GitHub, Repository, sign};
use driftless_harness::http::{Answer, Http};
use serde_json::{Value, json};

fn fleet(github: &GitHub) -> Arc<Repository> {
    let repository = github.repository("acme/fleet");
    let changes = [
        Change::write("clusters/hub/apps.yaml", "kind: Kustomization\n"),
        Change::executable("hack/check.sh", "#!/bin/sh\n"),
        Change::link("clusters/link", "hub"),
    ];
    repository.commit("main", &changes, "First");
    repository
}

fn get(github: &GitHub, path: &str, headers: &[(&str, &str)]) -> Answer {
    let url = format!("{}/{path}", github.url());
    Http::plain()
        .send("GET", &url, headers, None)
        .expect("an answer")
}

/// Lists a tar.gz with the real tar.
fn listing(tarball: &[u8]) -> String {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), tarball).expect("write");
    let mut tar = std::process::Command::new("tar");
    driftless_harness::process::run(tar.arg("-tzf").arg(file.path()))
}

#[test]
fn a_reference_is_resolved_and_cached() {
    let github = GitHub::start();
    let repository = fleet(&github);
    let sha = repository.resolve("main").expect("main");
    let media = ("accept", "application/vnd.github.sha");
    for reference in ["main", "heads/main", "refs/heads/main", &sha, &sha[..8]] {
        let answer = get(
            &github,
            &format!("repos/acme/fleet/commits/{reference}"),
            &[media],
        );
        assert_eq!(
            (answer.status, answer.text()),
            (200, sha.clone()),
            "{reference}"
        );
    }
    let path = "repos/ACME/Fleet/commits/main";
    let first = get(&github, path, &[media]);
    let tag = ("if-none-match", first.header("etag"));
    assert_eq!(get(&github, path, &[media, tag]).status, 304);
    repository.commit("main", &[Change::write("a", "a")], "Second");
    assert_eq!(get(&github, path, &[media, tag]).status, 200);
    assert_eq!(
        get(&github, "repos/acme/fleet/commits/none", &[]).status,
        422
    );
    assert_eq!(
        get(&github, "repos/acme/none/commits/main", &[]).status,
        404
    );
    assert_eq!(github.count("commits"), 10);
    assert_eq!(first.header("x-ratelimit-limit"), "60");
}

#[test]
fn trees_blobs_contents_and_comparisons_are_git_s() {
    let github = GitHub::start();
    let repository = fleet(&github);
    let first = repository.resolve("main").expect("main");
    let tree = get(&github, "repos/acme/fleet/git/trees/main?recursive=1", &[]).json();
    let entries: Vec<(&str, &str)> = tree["tree"]
        .as_array()
        .expect("entries")
        .iter()
        .map(|e| (e["path"].as_str().unwrap(), e["mode"].as_str().unwrap()))
        .collect();
    let expected = [
        ("clusters", "040000"),
        ("clusters/hub", "040000"),
        ("clusters/hub/apps.yaml", "100644"),
        ("clusters/link", "120000"),
        ("hack", "040000"),
        ("hack/check.sh", "100755"),
    ];
    assert_eq!(entries, expected);
    let blob = tree["tree"][2]["sha"].as_str().expect("a hash");
    let blob = get(&github, &format!("repos/acme/fleet/git/blobs/{blob}"), &[]).json();
    assert_eq!(
        (&blob["encoding"], &blob["size"]),
        (&json!("base64"), &json!(20))
    );

    let raw = ("accept", "application/vnd.github.raw+json");
    let file = "repos/acme/fleet/contents/clusters/hub/apps.yaml";
    assert_eq!(get(&github, file, &[raw]).text(), "kind: Kustomization\n");
    assert_eq!(get(&github, file, &[]).json()["type"], "file");
    let directory = get(&github, "repos/acme/fleet/contents/clusters?ref=main", &[]).json();
    assert_eq!(
        (&directory[0]["type"], &directory[1]["type"]),
        (&json!("dir"), &json!("symlink"))
    );

    repository.commit("topic", &[Change::write("b", "b")], "Another root");
    let second = repository.commit(
        "main",
        &[Change::remove("hack"), Change::write("c", "c")],
        "Second",
    );
    let compare = format!("repos/acme/fleet/compare/{first}...{second}");
    let comparison = get(&github, &compare, &[]).json();
    assert_eq!(
        (&comparison["status"], &comparison["ahead_by"]),
        (&json!("ahead"), &json!(1))
    );
    let changed: Vec<&Value> = comparison["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| &f["status"])
        .collect();
    assert_eq!(changed, ["added", "removed"]);
    assert_eq!(
        get(&github, "repos/acme/fleet/compare/main...topic", &[]).status,
        404
    );
}

#[test]
fn tags_and_references_are_listed() {
    let github = GitHub::start();
    let repository = fleet(&github);
    let sha = repository.resolve("main").expect("main");
    repository.tag("v1.2.0", &sha);
    repository.annotated_tag("v1.10.0", &sha, "Ten");
    let tags = get(&github, "repos/acme/fleet/tags", &[]).json();
    let names: Vec<&Value> = tags
        .as_array()
        .unwrap()
        .iter()
        .map(|t| &t["name"])
        .collect();
    assert_eq!(names, ["v1.10.0", "v1.2.0"]);
    assert_eq!(tags[0]["commit"]["sha"], sha.as_str());
    let first = get(&github, "repos/acme/fleet/tags?per_page=1", &[]);
    let next = first
        .header("link")
        .split(['<', '>'])
        .nth(1)
        .expect("a next page");
    assert_eq!(Http::plain().get(next).json()[0]["name"], "v1.2.0");
    let refs = get(&github, "repos/acme/fleet/git/matching-refs/tags/v1.1", &[]).json();
    assert_eq!(
        (refs.as_array().unwrap().len(), &refs[0]["object"]["type"]),
        (1, &json!("tag"))
    );
    let one = get(&github, "repos/acme/fleet/git/ref/heads/main", &[]).json();
    assert_eq!(one["object"]["sha"], sha.as_str());
    assert_eq!(
        get(&github, "repos/acme/fleet/git/ref/heads/none", &[]).status,
        404
    );
    let annotated = refs[0]["object"]["sha"].as_str().unwrap();
    let tag = get(
        &github,
        &format!("repos/acme/fleet/git/tags/{annotated}"),
        &[],
    )
    .json();
    assert_eq!(
        (&tag["tag"], &tag["object"]["sha"]),
        (&json!("v1.10.0"), &json!(sha))
    );
}

#[test]
fn a_tarball_comes_from_another_host_that_refuses_credentials() {
    let github = GitHub::start();
    let repository = fleet(&github);
    repository.set_private(true);
    github.add_token("ghp_reader", &["acme/fleet"]);
    let path = "repos/acme/fleet/tarball/main";
    assert_eq!(get(&github, path, &[]).status, 404);
    assert_eq!(
        get(&github, path, &[("authorization", "Bearer wrong")]).status,
        401
    );
    let credentials = ("authorization", "Bearer ghp_reader");
    let redirect = get(&github, path, &[credentials]);
    assert_eq!(redirect.status, 302);
    let target = redirect.header("location");
    assert!(target.starts_with("http://127.0.0.2:"), "{target}");

    let http = Http::plain();
    let refused = http
        .send("GET", target, &[credentials], None)
        .expect("an answer");
    assert_eq!(refused.status, 400);
    let without_token = target.split('?').next().expect("a path");
    assert_eq!(http.get(without_token).status, 404);
    let archive = http.get(target);
    assert_eq!(archive.status, 200);
    let sha = repository.resolve("main").expect("main");
    let listing = listing(&archive.body);
    let file = format!("acme-fleet-{}/clusters/hub/apps.yaml", &sha[..7]);
    assert!(listing.lines().any(|line| line == file), "{listing}");
    assert_eq!((github.count("tarball"), github.count("codeload")), (3, 3));
}

#[test]
fn every_failure_can_be_requested() {
    let github = GitHub::start();
    fleet(&github);
    let path = "repos/acme/fleet/commits/main";
    github.fail(
        "commits",
        Fault::Limited {
            status: 429,
            retry_after: 7,
        },
        1,
    );
    let limited = get(&github, path, &[]);
    assert_eq!((limited.status, limited.header("retry-after")), (429, "7"));
    github.fail("commits", Fault::Error(502), 1);
    assert_eq!(get(&github, path, &[]).status, 502);
    github.fail("commits", Fault::Html, 1);
    assert!(
        get(&github, path, &[])
            .text()
            .starts_with("<!DOCTYPE html>")
    );
    github.fail("*", Fault::NotFound, 1);
    assert_eq!(get(&github, path, &[]).status, 404);
    github.fail("commits", Fault::Slow(Duration::from_millis(200)), 1);
    let start = Instant::now();
    assert_eq!(get(&github, path, &[]).status, 200);
    assert!(start.elapsed() >= Duration::from_millis(200));
    for fault in [Fault::Truncated, Fault::Lost] {
        github.fail("commits", fault, 1);
        let url = format!("{}/{path}", github.url());
        assert!(Http::plain().send("GET", &url, &[], None).is_err());
    }
    assert_eq!(get(&github, path, &[]).status, 200);
}

#[test]
fn an_app_exchanges_its_signed_claim_for_a_token() {
    let github = GitHub::start();
    let repository = fleet(&github);
    repository.set_private(true);
    let app = github.add_app(7, 70, &["acme/fleet"]);
    let url = format!("{}/app/installations/70/access_tokens", github.url());
    let ask = |jwt: &str| {
        let bearer = format!("Bearer {jwt}");
        Http::plain()
            .send("POST", &url, &[("authorization", &bearer)], Some(b"{}"))
            .expect("an answer")
    };
    assert_eq!(ask(&jwt(&app.private_key, 8)).status, 401);
    let issued = ask(&jwt(&app.private_key, 7));
    assert_eq!(issued.status, 201, "{}", issued.text());
    let issued = issued.json();
    let bearer = format!("token {}", issued["token"].as_str().expect("a token"));
    let credentials = ("authorization", bearer.as_str());
    let path = "repos/acme/fleet/commits/main";
    assert_eq!(get(&github, path, &[credentials]).status, 200);
    github.expire_tokens();
    assert_eq!(get(&github, path, &[credentials]).status, 401);
}

/// Returns an App's claim, signed with RS256.
fn jwt(private_key: &str, issuer: u64) -> String {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use rcgen::SigningKey;
    let now = std::time::SystemTime::now();
    let now = now
        .duration_since(std::time::UNIX_EPOCH)
        .expect("a time")
        .as_secs();
    let claims = json!({"iat": now - 60, "exp": now + 540, "iss": issuer.to_string()});
    let encode = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!(
        "{}.{}",
        encode(json!({"alg": "RS256", "typ": "JWT"})),
        encode(claims)
    );
    let key = rcgen::KeyPair::from_pem(private_key).expect("a key");
    let signature = key.sign(signed.as_bytes()).expect("a signature");
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

#[test]
fn statuses_are_kept_by_commit() {
    let github = GitHub::start();
    let sha = fleet(&github).resolve("main").expect("main");
    github.add_token("ghp_writer", &["acme/fleet"]);
    let http = Http::plain().with_header("authorization", "Bearer ghp_writer");
    let url = format!("{}/repos/acme/fleet/statuses/{sha}", github.url());
    let post = |state: &str| {
        http.post(&url, &json!({"state": state, "context": "driftless/hub"}))
            .status
    };
    assert_eq!(
        (post("pending"), post("success"), post("fine")),
        (201, 201, 422)
    );
    let combined = get(&github, "repos/acme/fleet/commits/main/status", &[]).json();
    assert_eq!(
        (&combined["state"], &combined["total_count"]),
        (&json!("success"), &json!(1))
    );
    assert_eq!(github.statuses("acme/fleet", &sha).len(), 2);
    let anonymous = Http::plain().post(&url, &json!({"state": "success"}));
    assert_eq!(anonymous.status, 403);
}

#[test]
fn a_push_sends_a_signed_webhook() {
    let github = GitHub::start();
    let repository = fleet(&github);
    let (url, received) = receiver();
    github.add_webhook(&url, "It's a Secret to Everybody");
    let push = github.push(&repository, "main", &[Change::write("d", "d")]);
    assert_eq!(
        push.deliveries[0].status,
        Some(202),
        "{:?}",
        push.deliveries
    );

    let (headers, body) = received.lock().expect("received").remove(0);
    assert_eq!(
        headers["x-hub-signature-256"],
        sign("It's a Secret to Everybody", body.as_bytes())
    );
    assert_eq!(headers["x-github-event"], "push");
    assert_eq!(headers["x-github-delivery"], push.deliveries[0].id);
    let payload: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(payload["ref"], "refs/heads/main");
    assert_eq!(
        payload["before"],
        push.before.as_deref().expect("a commit before")
    );
    assert_eq!(payload["after"], push.sha.as_str());
    assert_eq!(payload["repository"]["full_name"], "acme/fleet");
    assert_eq!(payload["head_commit"]["added"], json!(["d"]));

    let again = github.redeliver(&push.deliveries[0]);
    assert_eq!(again[0].id, push.deliveries[0].id);
}

#[test]
fn a_pull_request_has_files_and_one_comment_that_is_kept_up_to_date() {
    let github = GitHub::start();
    let repository = fleet(&github);
    github.add_token("ghp_writer", &["acme/fleet"]);
    let main = repository.resolve("main").expect("main");
    repository.reset("topic", &main);
    let head = repository.commit("topic", &[Change::write("new.yaml", "a: 1")], "Topic");
    let (url, received) = receiver();
    github.add_webhook(&url, "secret");
    let pull = github.open_pull_request(&repository, "topic", "main");
    let (headers, body) = received.lock().expect("received").remove(0);
    assert_eq!(headers["x-github-event"], "pull_request");
    let payload: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(payload["pull_request"]["head"]["sha"], head.as_str());
    assert_eq!(repository.resolve("refs/pull/1/head"), Some(head));

    let files = get(&github, "repos/acme/fleet/pulls/1/files", &[]).json();
    assert_eq!(files[0]["filename"], "new.yaml");
    let http = Http::plain().with_header("authorization", "Bearer ghp_writer");
    let comments = format!("{}/repos/acme/fleet/issues/1/comments", github.url());
    let comment = http.post(&comments, &json!({"body": "first"})).json();
    let edited = comment["url"].as_str().expect("an address");
    let edit = json!({"body": "second"}).to_string();
    let answer = http
        .send("PATCH", edited, &[], Some(edit.as_bytes()))
        .expect("an answer");
    assert_eq!(answer.status, 200);
    let kept = github.comments(&repository, pull.number);
    assert_eq!((kept.len(), &kept[0]["body"]), (1, &json!("second")));
    assert_eq!(
        Http::plain().post(&comments, &json!({"body": "x"})).status,
        403
    );
}

/// Checks the signature against GitHub's own example.
#[test]
fn the_signature_is_github_s() {
    let expected = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    assert_eq!(
        sign("It's a Secret to Everybody", b"Hello, World!"),
        expected
    );
}

type Received = Arc<Mutex<Vec<(axum::http::HeaderMap, String)>>>;

/// Starts a server that accepts every POST.
fn receiver() -> (String, Received) {
    let received = Received::default();
    let kept = Arc::clone(&received);
    let (send, address) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async move {
            let app = axum::Router::new().fallback(
                move |headers: axum::http::HeaderMap, body: String| {
                    kept.lock().expect("received").push((headers, body));
                    std::future::ready(axum::http::StatusCode::ACCEPTED)
                },
            );
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
                .await
                .expect("a port");
            send.send(listener.local_addr().expect("an address"))
                .expect("the test waits");
            axum::serve(listener, app).await.expect("serve");
        });
    });
    (
        format!("http://{}/hook", address.recv().expect("an address")),
        received,
    )
}
