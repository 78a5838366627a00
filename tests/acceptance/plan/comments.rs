//! The comment and the check run.

use crate::site::{Login, PASSWORDS, Site, deployment, sealed};
use driftless_core::webhook::DeliveryResult;

#[test]
fn plan_comment_is_created_then_edited_and_never_doubled() {
    let site = Site::new(Login::App);
    site.commit("change", &[("apps/web.yaml", &deployment(3))]);
    let pull = site.open("change");
    site.plan(&pull);
    let first = site.comments(pull.number);
    assert_eq!(first.len(), 1, "{}", crate::site::log());
    let text = &first[0];
    assert!(
        text.contains("0 to create, 1 to change, 0 to delete in 1 cluster"),
        "{text}"
    );
    assert!(
        text.contains("-  replicas: 1") && text.contains("+  replicas: 3"),
        "{text}"
    );
    assert!(
        text.contains("hub staging") && text.contains("<details>"),
        "{text}"
    );

    // A second push edits the comment, also if both messages are delivered at the same time.
    site.commit("change", &[("apps/web.yaml", &deployment(5))]);
    let pushed = site
        .github
        .announce_pull_request(&site.repository, pull.number, "synchronize");
    assert!(matches!(site.deliver(&pushed), DeliveryResult::Planned(_)));
    let request = site.requests().remove(0);
    let failed = site.run_twice(&request);
    assert!(failed < 2, "one of both works: {}", crate::site::log());
    assert_eq!(site.run(&request, 2), 0);
    let edited = site.comments(pull.number);
    assert_eq!(edited.len(), 1, "{edited:?}");
    assert!(edited[0].contains("+  replicas: 5") && !edited[0].contains("replicas: 3"));

    // The record is lost, as after a crash: the comment is found by its marker.
    site.forget_plans();
    assert_eq!(site.run(&request, 1), 0);
    assert_eq!(site.comments(pull.number).len(), 1);

    let runs = site.github.check_runs("acme/fleet", &pushed.head_sha);
    let newest = runs.last().expect("a check run");
    assert_eq!(newest["name"], "driftless plan");
    assert_eq!(
        (&newest["status"], &newest["conclusion"]),
        (&"completed".into(), &"success".into())
    );
}

#[test]
fn requests_that_are_no_longer_wanted_are_dropped() {
    let site = Site::new(Login::App);
    site.commit("change", &[("apps/web.yaml", &deployment(3))]);
    let pull = site.open("change");
    site.deliver(&pull);
    let stale = site.requests().remove(0);
    site.commit("change", &[("apps/web.yaml", &deployment(4))]);
    assert_eq!(site.run(&stale, 1), 0);
    assert_eq!(site.comments(pull.number), [""; 0], "a stale head");

    let pushed = site
        .github
        .announce_pull_request(&site.repository, pull.number, "synchronize");
    site.github
        .close_pull_request(&site.repository, pull.number);
    site.plan(&pushed);
    assert_eq!(site.comments(pull.number), [""; 0], "a closed pull request");

    // Other actions and branches request nothing.
    let labeled = site
        .github
        .announce_pull_request(&site.repository, pull.number, "labeled");
    assert!(matches!(site.deliver(&labeled), DeliveryResult::Ignored(_)));
    site.commit("release", &[("apps/web.yaml", &deployment(2))]);
    let other = site
        .github
        .open_pull_request(&site.repository, "change", "release");
    let ignored = site.deliver(&other);
    let DeliveryResult::Ignored(reason) = ignored else {
        panic!("{ignored:?}");
    };
    assert_eq!(
        reason,
        "no root of a hub follows refs/heads/release of github.com/acme/fleet"
    );
}

#[test]
fn errors_and_warnings_are_annotations_at_their_lines() {
    let site = Site::new(Login::App);
    let other = deployment(1).replace("app: web", "app: shop");
    let broken = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: Not_A_Name\n";
    site.commit("change", &[("apps/web.yaml", &other)]);
    let pull = site.open("change");
    site.plan(&pull);
    let run = |sha: &str| {
        site.github
            .check_runs("acme/fleet", sha)
            .pop()
            .expect("a check run")
    };
    let warned = run(&pull.head_sha);
    assert_eq!(warned["conclusion"], "neutral", "{warned}");
    let annotation = &warned["annotations"][0];
    assert_eq!(annotation["path"], "apps/web.yaml", "{warned}");
    assert_eq!(
        (&annotation["start_line"], &annotation["annotation_level"]),
        (&1.into(), &"warning".into())
    );
    assert!(
        annotation["message"]
            .as_str()
            .is_some_and(|text| text.contains("immutable")),
        "{warned}"
    );

    site.commit("change", &[("apps/broken.yaml", broken)]);
    let pushed = site
        .github
        .announce_pull_request(&site.repository, pull.number, "synchronize");
    site.plan(&pushed);
    let failed = run(&pushed.head_sha);
    assert_eq!(failed["conclusion"], "failure", "{failed}");
    let annotation = &failed["annotations"][0];
    assert_eq!(annotation["path"], "apps/broken.yaml", "{failed}");
    assert_eq!(annotation["annotation_level"], "failure");
}

#[test]
fn a_token_writes_the_comment_without_a_check_run() {
    let site = Site::new(Login::Token);
    let name = "@everyone <img src=x>";
    let object = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  annotations:\n    about: \"{name}\"\ndata:\n  a: |\n    ```\n    {name}\n"
    );
    site.commit("change", &[("apps/a.yaml", &object)]);
    let pull = site.open("change");
    site.plan(&pull);
    let comments = site.comments(pull.number);
    assert_eq!(comments.len(), 1);
    // The text is in a fence that is longer than its own one.
    let fence = comments[0].find("````diff").expect("a fence");
    let named = comments[0].find("@everyone").expect("the name");
    assert!(fence < named, "{}", comments[0]);
    assert!(
        site.github
            .check_runs("acme/fleet", &pull.head_sha)
            .is_empty()
    );
    assert!(crate::site::log().contains("no check run"));
}

#[test]
fn a_repository_that_cannot_be_planned_says_why_and_an_internal_failure_does_not() {
    let site = Site::new(Login::App);
    site.repository
        .git(["symbolic-ref", "HEAD", "refs/heads/main"]);
    site.commit("change", &[("apps/web.yaml", &deployment(2))]);
    let changes = [
        driftless_harness::github::Change::remove("clusters/staging/apps.yaml"),
        driftless_harness::github::Change::remove("clusters/staging/flux-system/gotk-sync.yaml"),
    ];
    site.repository.commit("change", &changes, "Remove the hub");
    let text = site.comment_on("change");
    assert!(
        text.contains("after the change: ") && text.contains("clusters/staging"),
        "{text}"
    );

    site.commit("other", &[("apps/web.yaml", &deployment(2))]);
    let other = site.open("other");
    site.deliver(&other);
    let request = site.requests().remove(0);
    let fault = driftless_harness::github::Fault::Error(500);
    site.github.fail("compare", fault, 2);
    assert_eq!(site.run(&request, 1), 1, "the message returns to the queue");
    assert!(site.comments(other.number).is_empty());
    assert_eq!(site.run(&request, plan::MAX_RECEIVES), 0);
    let text = site.comments(other.number).remove(0);
    assert!(
        text.contains("internal failure") && !text.contains("500"),
        "{text}"
    );
    let run = site.github.check_runs("acme/fleet", &other.head_sha).pop();
    assert_eq!(run.expect("a check run")["conclusion"], "failure");
    // The next request repairs it.
    site.github.heal();
    assert_eq!(site.run(&request, 1), 0);
    assert!(site.comments(other.number)[0].contains("1 to change"));
}

#[test]
fn a_long_plan_is_cut_and_the_whole_one_is_in_the_bucket() {
    let site = Site::new(Login::App);
    let line = "    a line of a long text\n".repeat(400);
    let objects: String = (0..20)
        .map(|at| {
            format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: long-{at}\ndata:\n  a: |\n{line}")
        })
        .collect();
    site.commit(
        "change",
        &[
            ("apps/long.yaml", &objects),
            ("apps/secret.yaml", &sealed(&site.recipient, PASSWORDS[1])),
        ],
    );
    let pull = site.open("change");
    site.plan(&pull);
    let text = site.comments(pull.number).remove(0);
    assert!(text.len() <= 65_536, "{}", text.len());
    assert!(text.contains("have no room here"), "{text}");
    let all = site.everything();
    let key = format!("-{}.md\n", pull.head_sha);
    assert!(all.contains(&key), "the whole plan is in the bucket");
}
