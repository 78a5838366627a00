//! Watches without an end, with answers that a real API server gives only when it fails.

use super::api_answers::{Script, answer, event, events, pods, raw, status};
use driftless_kernel::ports::{Change, Cluster, FollowEvent, FollowRequest};
use futures::StreamExt as _;
use serde_json::{Value, json};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

fn request(is_metadata: bool) -> FollowRequest {
    FollowRequest {
        labels: "owner".to_owned(),
        is_metadata,
        ..FollowRequest::metadata(pods())
    }
}

fn list(names: &[&str], version: &str) -> Value {
    let item = |name: &&str| {
        let annotations = json!({LAST_APPLIED: "canary"});
        json!({"metadata": {"name": name, "namespace": "a", "annotations": annotations}})
    };
    let items: Vec<Value> = names.iter().map(item).collect();
    json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": version}, "items": items})
}

/// Returns the next events of a watch, up to `count`.
async fn next(script: &Script, request: &FollowRequest, count: usize) -> Vec<String> {
    let events = script.cluster().follow(request).take(count);
    let text = |event| match event {
        Ok(FollowEvent::Restarted) => "restarted".to_owned(),
        Ok(FollowEvent::Listed(object)) => format!("listed {}", object.id()),
        Ok(FollowEvent::Synced) => "synced".to_owned(),
        Ok(FollowEvent::Changed(Change::Written(object))) => format!("written {}", object.id()),
        Ok(FollowEvent::Changed(Change::Deleted(object))) => format!("deleted {}", object.id()),
        Err(error) => {
            let error: driftless_kernel::ports::PortError = error;
            assert!(!error.message.contains("canary"), "{error}");
            format!("{:?} {}", error.kind, error.is_expired())
        }
    };
    events.map(text).collect().await
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_continues_and_lists_again_if_changes_are_lost() {
    let gone = json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"});
    let script = Script::new([
        answer(200, &list(&["a"], "5")),
        // The connection is closed after each of these.
        events(&[event("MODIFIED", "a", "6"), event("DELETED", "a", "7")]),
        events(&[json!({"type": "ERROR", "object": gone})]),
        answer(200, &list(&["b"], "9")),
        status(403, "Forbidden", "cannot watch"),
    ]);
    let seen = next(&script, &request(false), 9).await;
    assert_eq!(
        seen,
        [
            "restarted",
            "listed Pod/a/a",
            "synced",
            "written Pod/a/a",
            "deleted Pod/a/a",
            "Invalid true",
            "restarted",
            "listed Pod/a/b",
            "synced",
        ]
    );
    let asked = script.take_requests();
    let versions = asked.iter().filter_map(|line| {
        let (_, rest) = line.split_once("resourceVersion=")?;
        rest.split('&').next()
    });
    assert_eq!(versions.collect::<Vec<_>>(), ["5", "7"], "{asked:?}");
    assert!(
        asked
            .iter()
            .all(|line| line.contains("labelSelector=owner"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_names_the_reason_of_its_failure() {
    for (answer, reason) in [
        (status(403, "Forbidden", "cannot list"), "Denied false"),
        (raw(404, "404 page not found"), "NotFound false"),
        (
            status(503, "ServiceUnavailable", "starting"),
            "Unavailable false",
        ),
        (
            raw(200, r#"{"kind": "canary", "items": "canary"}"#),
            "Unreadable false",
        ),
    ] {
        let script = Script::new([answer]);
        let seen = next(&script, &request(true), 2).await;
        assert_eq!(seen, ["restarted", reason]);
    }
    let seen = next(&Script::default(), &request(true), 2).await;
    assert_eq!(seen, ["restarted", "Unavailable false"], "no connection");
}

#[tokio::test(start_paused = true)]
async fn metadata_has_no_copy_of_the_object() {
    let script = Script::new([answer(200, &list(&["a"], "5"))]);
    let mut events = script.cluster().follow(&request(true));
    events.next().await.unwrap().unwrap();
    let FollowEvent::Listed(object) = events.next().await.unwrap().unwrap() else {
        panic!("not an object")
    };
    assert_eq!(object.gvk().kind, "Pod");
    assert_eq!(object.annotation(LAST_APPLIED), None);
}
