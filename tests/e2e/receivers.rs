//! Receivers of webhooks: the path of each in its status, and deliveries of each type that are
//! signed, forged, or replayed with another body.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use driftless_harness::charts::Host;
use driftless_harness::github::sign;
use driftless_tests::embedded::Embedded;
use driftless_tests::site::*;
use p256::ecdsa::signature::Signer as _;
use p256::ecdsa::{Signature, SigningKey};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::time::Duration;

const HUB: [HubSpec<'static>; 1] = one_hub("acme/receivers");
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

/// An issuer of tokens, with the address of a server in this process.
struct Issuer {
    host: Host,
    key: SigningKey,
}

impl Issuer {
    fn start() -> Self {
        let issuer = Self {
            host: Host::start(),
            key: SigningKey::from_slice(&[7; 32]).unwrap(),
        };
        let url = issuer.host.url();
        let document = json!({"issuer": url, "jwks_uri": format!("{url}/keys"),
            "id_token_signing_alg_values_supported": ["ES256", "HS256", "none"]});
        let place = "/.well-known/openid-configuration";
        issuer.host.put(place, document.to_string());
        issuer.publish("first");
        issuer
    }

    /// Publishes the key under an id.
    fn publish(&self, kid: &str) {
        let point = self.key.verifying_key().to_encoded_point(false);
        let number = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let point = point.as_bytes();
        let key = json!({"kty": "EC", "crv": "P-256", "use": "sig", "kid": kid,
            "x": number(&point[1..33]), "y": number(&point[33..])});
        let keys = json!({"keys": [{"kty": "oct", "kid": "other", "k": "c2VjcmV0"}, key]});
        self.host.put("/keys", keys.to_string());
    }

    /// Returns a token with these claims, signed for this header.
    fn token(&self, header: &Value, claims: &Value) -> String {
        let encode = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let signed = format!("{}.{}", encode(header), encode(claims));
        let signature: Signature = self.key.sign(signed.as_bytes());
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.to_bytes()))
    }

    fn receiver(&self, world: &Embedded, change: Value) -> String {
        let validations = json!([
            {"expression": "vars.owner == 'acme'", "message": "another owner"},
            {"expression": "claims.ref.startsWith('refs/heads/')", "message": "no branch"}]);
        let variables = json!([{"name": "owner", "expression": "claims.repository.split('/')[0]"}]);
        let mut spec = json!({"secretRef": null, "oidcProviders": [{"issuerURL": self.host.url(),
            "audience": "flux", "variables": variables, "validations": validations}]});
        for (field, value) in change.as_object().cloned().unwrap_or_default() {
            spec[field] = value;
        }
        receiver(world, "oidc", "generic-oidc", spec)
    }
}

fn oidc_world() -> Embedded {
    let world = world();
    world.allow_local("hub");
    world
}

#[test]
fn only_tokens_of_the_issuer_for_this_receiver_are_accepted() {
    let world = oidc_world();
    let issuer = Issuer::start();
    let path = issuer.receiver(&world, json!({}));
    let digest = Sha256::digest("oidcflux-system");
    assert_eq!(path, format!("/hook/{}", hex::encode(digest)));
    let now = world.now().as_secs();
    let claims = json!({"iss": issuer.host.url(), "aud": ["flux"], "exp": now + 3600,
        "repository": "acme/web", "ref": "refs/heads/main"});
    let header = json!({"alg": "ES256", "kid": "first"});
    let with = |field: &str, value: Value| {
        let mut claims = claims.clone();
        claims[field] = value;
        issuer.token(&header, &claims)
    };
    let send = |token: &str, body: &str| {
        let bearer = format!("Bearer {token}");
        deliver(&world, &path, &[("authorization", bearer.as_str())], body)
    };
    let valid = issuer.token(&header, &claims);
    assert_eq!(send(&valid, "one"), (200, true));
    // As in Flux, a token is not over the body.
    assert_eq!(send(&valid, "another"), (200, true));

    let (signed, _) = valid.rsplit_once('.').unwrap();
    let other = issuer.token(&header, &json!({"iss": issuer.host.url()}));
    let (_, signature) = other.rsplit_once('.').unwrap();
    let stranger = Issuer {
        host: Host::start(),
        key: SigningKey::from_slice(&[9; 32]).unwrap(),
    };
    for (case, token) in [
        ("no token", String::new()),
        ("no JWT", "a.b.c".to_owned()),
        (
            "the signature of another token",
            format!("{signed}.{signature}"),
        ),
        ("no signature", format!("{signed}.")),
        ("another key", stranger.token(&header, &claims)),
        (
            "no algorithm",
            issuer.token(&json!({"alg": "none", "kid": "first"}), &claims),
        ),
        (
            "a symmetric algorithm",
            issuer.token(&json!({"alg": "HS256", "kid": "other"}), &claims),
        ),
        (
            "an unknown key",
            issuer.token(&json!({"alg": "ES256", "kid": "second"}), &claims),
        ),
        ("another issuer", with("iss", stranger.host.url().into())),
        ("another audience", with("aud", "others".into())),
        ("expired", with("exp", (now - 1).into())),
        ("not valid yet", with("nbf", (now + 3600).into())),
        ("another owner", with("repository", "evil/web".into())),
        ("no branch", with("ref", "refs/tags/v1".into())),
        ("a missing claim", with("repository", Value::Null)),
    ] {
        assert_eq!(send(&token, "one"), (400, false), "{case}");
    }
    let bearer = format!("Bearer {}", with("ref", "refs/tags/v1".into()));
    let (_, error) = world.deliver_to(&path, &[("authorization", &bearer)], b"");
    assert!(
        error.ends_with("token validation failed: no branch"),
        "{error}"
    );

    // The issuer rotates its key: its new id is found, but it is not asked for each forged token.
    issuer.publish("second");
    world.advance(Duration::from_secs(20));
    issuer.host.take_calls();
    let rotated = issuer.token(&json!({"alg": "ES256", "kid": "second"}), &claims);
    assert_eq!(send(&rotated, ""), (200, true));
    for _ in 0..3 {
        let forged = issuer.token(&json!({"alg": "ES256", "kid": "third"}), &claims);
        let bearer = format!("Bearer {forged}");
        let sent = world.deliver_to(&path, &[("authorization", bearer.as_str())], b"");
        assert_eq!(sent.0, 400);
    }
    assert_eq!(issuer.host.take_calls().len(), 2);
}

#[test]
fn filters_see_the_claims_of_a_token() {
    let world = oidc_world();
    let issuer = Issuer::start();
    let filter = json!({"resourceFilter": "claims.repository == 'acme/' + res.metadata.name"});
    let path = issuer.receiver(&world, filter);
    let send = |repository: &str| {
        let claims = json!({"iss": issuer.host.url(), "aud": "flux", "exp": world.now().as_secs() + 60,
            "repository": repository, "ref": "refs/heads/main"});
        let token = issuer.token(&json!({"alg": "ES256"}), &claims);
        let bearer = format!("Bearer {token}");
        deliver(&world, &path, &[("authorization", bearer.as_str())], "")
    };
    assert_eq!(send("acme/flux-system"), (200, true));
    assert_eq!(send("acme/web"), (200, false));
}

/// An issuer that does not answer is not a refusal: the sender tries again.
#[test]
fn an_issuer_that_does_not_answer_is_asked_again_later() {
    let world = oidc_world();
    let issuer = Issuer::start();
    let path = issuer.receiver(&world, json!({}));
    let claims = json!({"iss": issuer.host.url(), "aud": "flux", "exp": world.now().as_secs() + 3600,
        "repository": "acme/web", "ref": "refs/heads/main"});
    let bearer = format!("Bearer {}", issuer.token(&json!({"alg": "ES256"}), &claims));
    let send = || deliver(&world, &path, &[("authorization", bearer.as_str())], "");
    let document = "/.well-known/openid-configuration";
    let right = issuer.host.file(document);
    issuer.host.put(
        document,
        json!({"issuer": "https://other.example", "jwks_uri": "a"}).to_string(),
    );
    assert_eq!(send().0, 503);
    issuer.host.put(document, right);
    world.advance(Duration::from_secs(20));
    assert_eq!(send(), (200, true));
}

#[test]
fn issuers_that_cannot_work_stall_the_receiver() {
    let world = world();
    let provider = |url: &str, expression: &str| json!({"issuerURL": url, "validations": [{"expression": expression, "message": "m"}]});
    let prefix = "Reconciliation failed terminally due to configuration error: oidcProviders[0] (issuerURL=\"https://issuer.acme.example\"): ";
    for (provider, reason, message) in [
        (
            provider("http://issuer.acme.example", "true"),
            "NotSupported",
            "spec.oidcProviders[0].issuerURL: http:// is not supported".to_owned(),
        ),
        (
            provider("https://issuer.acme.example", "claims.sub =="),
            "InvalidCELExpression",
            format!("{prefix}invalid expression for validation \"m\": failed to parse"),
        ),
        (
            provider("https://issuer.acme.example", "req.a == 1"),
            "InvalidCELExpression",
            format!("{prefix}invalid expression for validation \"m\": failed to parse"),
        ),
    ] {
        let spec = json!({"secretRef": null, "oidcProviders": [provider]});
        receiver(&world, "oidc", "generic-oidc", spec);
        let (_, found, actual) = ready(world.cluster("hub"), "Receiver", SPACE, "oidc");
        assert_eq!(found, reason, "{actual}");
        assert!(actual.starts_with(&message), "{actual}");
        world
            .cluster("hub")
            .delete(&path("Receiver", SPACE, "oidc"));
        world.request("hub", "Receiver", SPACE, "oidc");
        world.settle();
    }
}
