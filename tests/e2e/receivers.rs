//! Receivers of webhooks: the path of each in its status, and deliveries of each type that are
//! signed, forged, or replayed with another body.

use driftless_harness::github::sign;
use driftless_tests::embedded::Embedded;
use driftless_tests::site::*;
use serde_json::{Value, json};
use std::time::Duration;

const HUB: [HubSpec<'static>; 1] = [HubSpec {
    name: "hub",
    repository: "acme/receivers",
    branch: "main",
    path: "./clusters/hub",
}];
const SPACE: &str = "flux-system";
const TOKEN: &str = "token-of-the-receiver";
const OTHER: &str = "token-of-someone-else";
const HANDLED: &str = "/status/lastHandledReconcileAt";

fn world() -> Embedded {
    let world = Embedded::start(&HUB, &[]);
    let hub = world.cluster("hub");
    hub.secret(SPACE, "token", &json!({"token": TOKEN}));
    world.commit("acme/receivers", &[]);
    world.settle();
    world
}

/// Creates or replaces a Receiver of the root GitRepository; returns the path of its webhook.
fn receiver(world: &Embedded, name: &str, kind: &str, change: Value) -> String {
    let mut spec = json!({"type": kind, "secretRef": {"name": "token"},
        "resources": [{"kind": "GitRepository", "name": SPACE}]});
    for (field, value) in change.as_object().cloned().unwrap_or_default() {
        spec[field] = value;
    }
    let object = json!({"apiVersion": "notification.toolkit.fluxcd.io/v1", "kind": "Receiver",
        "metadata": {"name": name, "namespace": SPACE}, "spec": spec});
    world
        .cluster("hub")
        .create(&path("Receiver", SPACE, ""), &object);
    reconcile(world, name)
}

fn reconcile(world: &Embedded, name: &str) -> String {
    world.request("hub", "Receiver", SPACE, name);
    world.settle();
    webhook_path(world, name)
}

fn webhook_path(world: &Embedded, name: &str) -> String {
    let object = world.cluster("hub").get(&path("Receiver", SPACE, name));
    object["status"]["webhookPath"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

fn expect(world: &Embedded, name: &str, expected: (&str, &str, &str)) {
    let (status, reason, message) = ready(world.cluster("hub"), "Receiver", SPACE, name);
    assert_eq!((&*status, &*reason, &*message), expected, "{name}");
}

/// Returns the request that the GitRepository has handled last.
fn handled(world: &Embedded) -> Value {
    let source = world
        .cluster("hub")
        .get(&path("GitRepository", SPACE, SPACE));
    let requested = &source["metadata"]["annotations"]["reconcile.fluxcd.io/requestedAt"];
    let handled = source.pointer(HANDLED).cloned().unwrap_or_default();
    assert_eq!(requested, &handled, "every request is handled");
    handled
}

/// Sends a delivery, and returns its status and whether it has reconciled the GitRepository.
fn deliver(world: &Embedded, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, bool) {
    let before = handled(world);
    world.advance(Duration::from_secs(1));
    let (status, error) = world.deliver_to(path, headers, body.as_bytes());
    for secret in [TOKEN, OTHER] {
        assert!(!error.contains(secret), "{error}");
    }
    world.settle();
    (status, handled(world) != before)
}

/// A type of Receiver: how its senders prove themselves.
struct Sender {
    kind: &'static str,
    /// Returns the headers for a token and a body.
    headers: fn(&str, &str) -> Vec<(&'static str, String)>,
    body: &'static str,
    /// True if the proof is over the body.
    signs: bool,
}

fn json_type() -> (&'static str, String) {
    ("content-type", "application/json; charset=utf-8".to_owned())
}

const SENDERS: [Sender; 5] = [
    Sender {
        kind: "generic-hmac",
        headers: |token, body| vec![("x-signature", sign(token, body.as_bytes()))],
        body: "any body",
        signs: true,
    },
    Sender {
        kind: "github",
        headers: |token, body| {
            let signature = sign(token, body.as_bytes());
            vec![
                json_type(),
                ("x-github-event", "push".to_owned()),
                ("x-hub-signature-256", signature),
            ]
        },
        body: r#"{"ref": "refs/heads/main"}"#,
        signs: true,
    },
    Sender {
        kind: "bitbucket",
        headers: |token, body| {
            let signature = sign(token, body.as_bytes());
            vec![
                json_type(),
                ("x-event-key", "repo:refs_changed".to_owned()),
                ("x-hub-signature", signature),
            ]
        },
        body: r#"{"eventKey": "repo:refs_changed"}"#,
        signs: true,
    },
    Sender {
        kind: "gitlab",
        headers: |token, _| {
            vec![
                ("x-gitlab-event", "Push Hook".to_owned()),
                ("x-gitlab-token", token.to_owned()),
            ]
        },
        body: r#"{"object_kind": "push"}"#,
        signs: false,
    },
    Sender {
        kind: "harbor",
        headers: |token, _| vec![("authorization", token.to_owned())],
        body: r#"{"type": "PUSH_ARTIFACT"}"#,
        signs: false,
    },
];

fn borrowed<'h>(headers: &'h [(&'static str, String)]) -> Vec<(&'static str, &'h str)> {
    let headers = headers.iter();
    headers
        .map(|(name, value)| (*name, value.as_str()))
        .collect()
}

#[test]
fn signed_deliveries_of_each_type_reconcile_and_forged_ones_do_not() {
    let world = world();
    for sender in &SENDERS {
        let kind = sender.kind;
        let path = receiver(&world, kind, kind, json!({}));
        let send = |token: &str, body: &str| {
            let headers = (sender.headers)(token, sender.body);
            deliver(&world, &path, &borrowed(&headers), body)
        };
        assert_eq!(send(TOKEN, sender.body), (200, true), "{kind}: signed");
        assert_eq!(send(OTHER, sender.body), (400, false), "{kind}: forged");
        let other = r#"{"ref": "refs/heads/other"}"#;
        // A token is not over the body, and a request to reconcile is the same for each body.
        let replayed = if sender.signs {
            (400, false)
        } else {
            (200, true)
        };
        assert_eq!(send(TOKEN, other), replayed, "{kind}: another body");
        assert_eq!(
            deliver(&world, &path, &[], sender.body),
            (400, false),
            "{kind}: no headers"
        );
    }
}

/// The signature of Nexus is HMAC-SHA-1.
#[test]
fn nexus_signs_with_sha1() {
    let world = world();
    let path = receiver(&world, "nexus", "nexus", json!({}));
    let body = r#"{"action":"CREATED","repositoryName":"maven"}"#;
    let signature = "31941c001396e43d2931bd07efb1c51c73cac53d";
    let send = |signature: &str, body: &str| {
        deliver(
            &world,
            &path,
            &[("x-nexus-webhook-signature", signature)],
            body,
        )
    };
    assert_eq!(send(signature, body), (200, true));
    assert_eq!(send(&signature.replace('a', "b"), body), (400, false));
    assert_eq!(
        send(signature, &body.replace("maven", "other")),
        (400, false)
    );
}

/// Senders of these types prove only that they know the path; Flux checks the form of the body.
#[test]
fn the_path_is_the_proof_of_some_types() {
    let world = world();
    let event = r#"{"context": {"version": "0.4.1", "id": "1", "source": "/ci", "type": "dev.cdevents.artifact.published.0.2.0",
        "timestamp": "2026-03-01T12:00:00Z"}, "subject": {"id": "image"}}"#;
    for (kind, body, malformed) in [
        ("generic", "anything", None),
        (
            "quay",
            r#"{"docker_url": "quay.io/acme/web", "updated_tags": ["v1"]}"#,
            Some(r#"{"updated_tags": "v1"}"#),
        ),
        (
            "dockerhub",
            r#"{"push_data": {"tag": "v1"}, "repository": {"repo_url": "a"}}"#,
            Some("["),
        ),
        (
            "acr",
            r#"{"action": "push", "target": {"repository": "web", "tag": "v1"}}"#,
            Some(r#"{"action": 1}"#),
        ),
        ("cdevents", event, Some(r#"{"context": {"id": "1"}}"#)),
    ] {
        let path = receiver(&world, kind, kind, json!({}));
        assert_eq!(deliver(&world, &path, &[], body), (200, true), "{kind}");
        let forged = format!("/hook/{}", "0".repeat(64));
        assert_eq!(deliver(&world, &forged, &[], body), (404, false), "{kind}");
        if let Some(malformed) = malformed {
            assert_eq!(
                deliver(&world, &path, &[], malformed),
                (400, false),
                "{kind}"
            );
        }
    }
}

#[test]
fn only_listed_events_are_handled() {
    let world = world();
    let path = receiver(
        &world,
        "hook",
        "github",
        json!({"events": ["ping", "Push"]}),
    );
    let body = "{}";
    let signature = sign(TOKEN, body.as_bytes());
    let send = |event: &str| {
        let headers = [
            ("content-type", "application/json"),
            ("x-github-event", event),
            ("x-hub-signature-256", signature.as_str()),
        ];
        deliver(&world, &path, &headers, body)
    };
    assert_eq!(send("push"), (200, true));
    assert_eq!(send("issues"), (400, false));
}

#[test]
fn a_receiver_has_a_path_while_it_has_a_token() {
    let world = world();
    let hub = world.cluster("hub");
    let path_of = |name: &str| path("Receiver", SPACE, name);
    let old = receiver(&world, "hook", "generic", json!({"interval": "5m"}));
    expect(
        &world,
        "hook",
        (
            "True",
            "Succeeded",
            &format!("Receiver initialized for path: {old}"),
        ),
    );
    let object = hub.get(&path_of("hook"));
    assert_eq!(
        object["metadata"]["finalizers"],
        json!(["finalizers.fluxcd.io"])
    );
    assert_eq!(
        object["status"]["observedGeneration"],
        object["metadata"]["generation"]
    );
    assert_eq!(world.stored("receivers/").len(), 1);

    // Another token is another path.
    hub.patch(
        &path("Secret", SPACE, "token"),
        &json!({"stringData": {"token": OTHER}}),
    );
    assert_eq!(deliver(&world, &old, &[], ""), (404, false));
    let new = reconcile(&world, "hook");
    assert_ne!(old, new);
    assert_eq!(world.stored("receivers/").len(), 1);
    assert_eq!(deliver(&world, &new, &[], ""), (200, true));
    assert_eq!(deliver(&world, &old, &[], ""), (404, false));

    hub.patch(&path_of("hook"), &json!({"spec": {"suspend": true}}));
    assert_eq!(deliver(&world, &new, &[], ""), (503, false));
    hub.patch(&path_of("hook"), &json!({"spec": {"suspend": false}}));

    // Without a token there is not a path; an empty token is not one.
    hub.patch(
        &path("Secret", SPACE, "token"),
        &json!({"stringData": {"token": ""}}),
    );
    assert_eq!(reconcile(&world, "hook"), "");
    let invalid = "invalid 'flux-system/token' secret data: required fields 'token'";
    expect(&world, "hook", ("False", "TokenNotFound", invalid));
    hub.delete(&path("Secret", SPACE, "token"));
    reconcile(&world, "hook");
    let missing =
        "unable to read token from secret 'flux-system/token' error: secrets \"token\" not found";
    expect(&world, "hook", ("False", "TokenNotFound", missing));
    assert_eq!(world.stored("receivers/"), [""; 0]);
    assert_eq!(deliver(&world, &new, &[], ""), (404, false));

    hub.secret(SPACE, "token", &json!({"token": TOKEN}));
    assert_eq!(reconcile(&world, "hook"), old);
    hub.delete(&path_of("hook"));
    world.request("hub", "Receiver", SPACE, "hook");
    world.settle();
    assert!(hub.find(&path_of("hook")).is_none());
    assert_eq!(world.stored("receivers/"), [""; 0]);
}

#[test]
fn fields_that_cannot_work_stall_the_receiver() {
    let world = world();
    let prefix = "Reconciliation failed terminally due to configuration error";
    receiver(
        &world,
        "filter",
        "generic",
        json!({"resourceFilter": "res.metadata.name =="}),
    );
    let (status, reason, message) = ready(world.cluster("hub"), "Receiver", SPACE, "filter");
    assert_eq!((&*status, &*reason), ("False", "InvalidCELExpression"));
    let expected = format!("{prefix}: invalid resourceFilter expression: failed to parse");
    assert!(message.starts_with(&expected), "{message}");
    let resources = json!([{"kind": "Bucket", "name": "b", "filter": "other"}]);
    receiver(&world, "own", "generic", json!({"resources": resources}));
    let (_, _, message) = ready(world.cluster("hub"), "Receiver", SPACE, "own");
    let expected = "invalid filter expression for resources[0] (kind=\"Bucket\", name=\"b\")";
    assert!(message.contains(expected), "{message}");
    let providers = json!([{"issuerURL": "https://issuer.acme.example",
        "validations": [{"expression": "true", "message": "-"}]}]);
    receiver(
        &world,
        "oidc",
        "generic-oidc",
        json!({"secretRef": null, "oidcProviders": providers}),
    );
    let (_, reason, message) = ready(world.cluster("hub"), "Receiver", SPACE, "oidc");
    assert_eq!(reason, "NotSupported", "{message}");
}

#[test]
fn filters_see_the_object_and_the_body() {
    let world = world();
    let filter = "res.metadata.name == req.repository && res.kind == 'GitRepository'";
    let path = receiver(&world, "hook", "generic", json!({"resourceFilter": filter}));
    let json = [("content-type", "application/json")];
    let send = |body: &str| deliver(&world, &path, &json, body);
    assert_eq!(send(r#"{"repository": "flux-system"}"#), (200, true));
    assert_eq!(send(r#"{"repository": "other"}"#), (200, false));
    assert_eq!(send("{}"), (500, false), "a field is missing");
    assert_eq!(send("["), (400, false));
    // As in Flux, another content type is an empty body.
    assert_eq!(deliver(&world, &path, &[], "{}"), (500, false));
}

#[test]
fn resources_are_selected_by_name_and_labels() {
    let world = world();
    let hub = world.cluster("hub");
    hub.namespace("apps");
    let source = |namespace: &str, name: &str, team: &str| {
        let object = json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
            "metadata": {"name": name, "namespace": namespace, "labels": {"team": team}},
            "spec": {"interval": "1h", "url": "https://github.com/acme/receivers"}});
        hub.create(&path("GitRepository", namespace, ""), &object);
    };
    for (namespace, name, team) in [
        (SPACE, "a", "x"),
        (SPACE, "b", "x"),
        (SPACE, "c", "y"),
        ("apps", "d", "x"),
    ] {
        source(namespace, name, team);
    }
    let requested = || {
        let of = |namespace: &str, name: &str| {
            let object = hub.get(&path("GitRepository", namespace, name));
            object["metadata"]["annotations"]["reconcile.fluxcd.io/requestedAt"].is_string()
        };
        [
            of(SPACE, "a"),
            of(SPACE, "b"),
            of(SPACE, "c"),
            of("apps", "d"),
        ]
    };
    let labels = json!({"team": "x"});
    let all = json!([{"kind": "GitRepository", "name": "*", "matchLabels": labels}]);
    let path_of = receiver(&world, "labels", "generic", json!({"resources": all}));
    assert_eq!(world.deliver_to(&path_of, &[], b"").0, 200);
    assert_eq!(requested(), [true, true, false, false]);

    let other = json!([{"kind": "GitRepository", "name": "d", "namespace": "apps"}]);
    let path_of = receiver(&world, "other", "generic", json!({"resources": other}));
    world.change("hub", |settings| settings.no_cross_namespace_refs = true);
    assert_eq!(world.deliver_to(&path_of, &[], b"").0, 500);
    assert_eq!(requested(), [true, true, false, false]);
    world.change("hub", |settings| settings.no_cross_namespace_refs = false);
    assert_eq!(world.deliver_to(&path_of, &[], b"").0, 200);
    assert_eq!(requested(), [true, true, false, true]);

    // What can be requested is requested, also if another resource fails.
    for failing in [
        json!({"kind": "GitRepository", "name": "missing"}),
        json!({"kind": "GitRepository", "name": "*"}),
        json!({"kind": "Kustomization", "name": SPACE}),
        json!({"kind": "Bucket", "name": "a", "apiVersion": "s3.acme.example/v1"}),
    ] {
        let resources = json!([failing, {"kind": "GitRepository", "name": "c"}]);
        let path_of = receiver(
            &world,
            "failing",
            "generic",
            json!({"resources": resources}),
        );
        hub.patch(
            &path("GitRepository", SPACE, "c"),
            &json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": null}}}),
        );
        assert_eq!(world.deliver_to(&path_of, &[], b"").0, 500, "{resources}");
        assert!(requested()[2], "{resources}");
        hub.delete(&path("Receiver", SPACE, "failing"));
        world.request("hub", "Receiver", SPACE, "failing");
        world.settle();
    }
}

/// Hubs of one fleet often have the same Receiver with the same token.
#[test]
fn a_path_of_two_hubs_is_for_both() {
    let spec = |name| HubSpec { name, ..HUB[0] };
    let world = Embedded::start(&[spec("hub"), spec("other")], &[]);
    world.commit("acme/receivers", &[]);
    let object = json!({"apiVersion": "notification.toolkit.fluxcd.io/v1", "kind": "Receiver",
        "metadata": {"name": "hook", "namespace": SPACE},
        "spec": {"type": "generic-hmac", "secretRef": {"name": "token"},
            "resources": [{"kind": "GitRepository", "name": SPACE}]}});
    for name in ["hub", "other"] {
        let hub = world.cluster(name);
        hub.secret(SPACE, "token", &json!({"token": TOKEN}));
        hub.create(&path("Receiver", SPACE, ""), &object);
        world.request(name, "Receiver", SPACE, "hook");
    }
    world.settle();
    assert_eq!(world.stored("receivers/").len(), 2);
    let path_of = webhook_path(&world, "hook");
    let signature = sign(TOKEN, b"{}");
    let deliver = || {
        world
            .deliver_to(&path_of, &[("x-signature", &signature)], b"{}")
            .0
    };
    let requested = |name: &str| {
        let source = world
            .cluster(name)
            .get(&path("GitRepository", SPACE, SPACE));
        source["metadata"]["annotations"]["reconcile.fluxcd.io/requestedAt"].clone()
    };
    assert_eq!(deliver(), 200);
    assert!(requested("hub").is_string() && requested("other").is_string());
    // One hub that does not answer does not keep the delivery from the other one.
    let before = requested("hub");
    world.cluster("other").stop();
    world.advance(Duration::from_secs(1));
    assert_eq!(deliver(), 503);
    assert_ne!(requested("hub"), before);
}
