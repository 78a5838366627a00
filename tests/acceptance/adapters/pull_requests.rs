//! Pull requests in memory and on the stub of GitHub: one suite for both.

use driftless_adapters::git::{GitHub as Adapter, Hosts};
use driftless_harness::github::{Change, GitHub};
use driftless_kernel::ports::{
    Annotation, AnnotationLevel, Check, Conclusion, PullRequest, PullRequests, Secret,
};
use driftless_memory::{MemoryPullRequests, MemorySecrets};
use serde_json::{Value, json};
use std::sync::Arc;

const URL: &str = "https://github.com/acme/fleet";

/// Runs the suite on a repository with the open pull request 1, whose head is `head`.
async fn suite(pulls: &dyn PullRequests, base: &str, head: &str) {
    let pull = pulls.pull_request(URL, 1).await.expect("an answer");
    let expected = PullRequest {
        is_open: true,
        head_sha: head.to_owned(),
        base_ref: "main".to_owned(),
        base_sha: base.to_owned(),
        is_fork: false,
        is_public: false,
    };
    assert_eq!(pull, Some(expected));
    assert_eq!(pulls.pull_request(URL, 99).await.expect("an answer"), None);
    let common = pulls.merge_base(URL, "main", head).await;
    assert_eq!(common.expect("a commit"), base);

    let id = pulls.create_comment(URL, 1, "first").await.expect("an id");
    assert!(pulls.edit_comment(URL, id, "second").await.expect("edited"));
    let other = pulls.create_comment(URL, 1, "other").await.expect("an id");
    let bodies = async || {
        let own = pulls.own_comments(URL, 1).await.expect("comments");
        own.into_iter()
            .map(|comment| comment.body)
            .collect::<Vec<_>>()
    };
    assert_eq!(bodies().await, ["second", "other"]);
    for _ in 0..2 {
        pulls.delete_comment(URL, other).await.expect("deleted");
    }
    assert_eq!(bodies().await, ["second"]);
    assert!(
        !pulls
            .edit_comment(URL, other, "x")
            .await
            .expect("an answer")
    );
    assert!(pulls.create_comment(URL, 99, "x").await.is_err());

    let open = Check {
        conclusion: None,
        title: "in progress".to_owned(),
        summary: "later".to_owned(),
        annotations: Vec::new(),
    };
    let id = pulls.create_check(URL, head, &open).await.expect("an id");
    let annotation = |line: usize| Annotation {
        file: "apps/a.yaml".into(),
        line,
        level: AnnotationLevel::Warning,
        message: format!("line {line}"),
    };
    let done = Check {
        conclusion: Some(Conclusion::Neutral),
        annotations: (1..=120).map(annotation).collect(),
        ..open
    };
    let id = id.expect("the login may create check runs");
    pulls.update_check(URL, id, &done).await.expect("updated");
}

#[tokio::test]
async fn pull_requests_in_memory() {
    let pulls = MemoryPullRequests::default();
    let pull = PullRequest {
        is_open: true,
        head_sha: "h".to_owned(),
        base_ref: "main".to_owned(),
        base_sha: "b".to_owned(),
        is_fork: false,
        is_public: false,
    };
    pulls.change(|state| drop(state.pulls.insert(1, pull)));
    suite(&pulls, "b", "h").await;
    let (commit, check) = pulls.state().checks.remove(0);
    assert_eq!((commit.as_str(), check.annotations.len()), ("h", 120));
}

#[test]
fn pull_requests_of_github() {
    let stub = GitHub::start();
    let fleet = stub.repository("acme/fleet");
    fleet.set_private(true);
    let base = fleet.commit("main", &[Change::write("apps/a.yaml", "a: 1\n")], "First");
    fleet.reset("change", &base);
    let head = fleet.commit(
        "change",
        &[Change::write("apps/a.yaml", "a: 2\n")],
        "Second",
    );
    let pull = stub.open_pull_request(&fleet, "change", "main");
    assert_eq!(pull.number, 1);
    let app = stub.add_app(7, 70, &["acme/fleet"]);
    let secret =
        json!({"appId": app.id, "privateKey": app.private_key, "installationId": 70}).to_string();
    let with = |name: &str, secret: String| {
        let keys = [(name.to_owned(), Secret::new(secret))];
        let hosts = Hosts::default().with("github.com", stub.url());
        Adapter::new(hosts, Arc::new(MemorySecrets(keys.into()))).expect("an adapter")
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(suite(&with("github/app", secret), &base, &head));
    let run = stub.check_runs("acme/fleet", &head).remove(0);
    let conclusion = (&run["status"], &run["conclusion"]);
    assert_eq!(conclusion, (&"completed".into(), &"neutral".into()));
    let annotations = run["annotations"].as_array().map(Vec::len);
    assert_eq!(annotations, Some(120), "in requests of 50");
    // A token sees the comments of the App as those of another user, and has no check runs.
    stub.add_token("a-token", &["acme/fleet"]);
    let token = with("github/token", "a-token".to_owned());
    runtime.block_on(async {
        let own = token.own_comments(URL, 1).await.expect("comments");
        assert!(own.is_empty(), "{own:?}");
        let open = Check {
            conclusion: None,
            title: "in progress".to_owned(),
            summary: "later".to_owned(),
            annotations: Vec::new(),
        };
        let check = token.create_check(URL, &head, &open).await;
        assert_eq!(check.expect("an answer"), None);
    });
    let comment: &Value = &stub.comments(&fleet, 1)[0];
    assert_eq!(comment["user"]["login"], "driftless[bot]");
}

#[test]
fn heads_of_forks_and_closed_pull_requests_are_distinguished() {
    let stub = GitHub::start();
    let fleet = stub.repository("acme/fleet");
    let base = fleet.commit("main", &[Change::write("a.yaml", "a: 1\n")], "First");
    fleet.reset("change", &base);
    let fork = stub.open_pull_request_of_fork(&fleet, "change", "main", "mallory/fleet");
    let hosts = Hosts::default().with("github.com", stub.url());
    let pulls = Adapter::new(hosts, Arc::new(MemorySecrets::default())).expect("an adapter");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let read = || runtime.block_on(pulls.pull_request(URL, fork.number));
    let pull = read().expect("an answer").expect("a pull request");
    assert!(pull.is_fork && pull.is_public && pull.is_open);
    stub.close_pull_request(&fleet, fork.number);
    assert!(!read().expect("an answer").expect("a pull request").is_open);
    let denied = runtime.block_on(pulls.create_comment(URL, fork.number, "x"));
    assert!(denied.is_err(), "without a login");
}
