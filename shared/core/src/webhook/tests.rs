//! Deliveries of every host: signed, forged, replayed with another body, and malformed.

use super::*;
use driftless_flux::GitReference;
use driftless_flux::{FluxKind, ObjectRef};
use driftless_kernel::ports::Secret;
use driftless_memory::{MemoryBlobs, MemoryQueue, MemorySecrets};
use futures::FutureExt as _;
use std::sync::Arc;

const SECRET: &[u8] = b"It's a Secret to Everybody";
const ENTRANCE: DeliveryLimits = DeliveryLimits {
    max_body: 1 << 20,
    secret: |name| format!("the vault under '{name}'"),
};

/// A delivery of GitHub.
struct SampleDelivery<'a> {
    event: &'a str,
    body: &'a str,
    signature: &'a str,
}

fn delivery<'a>(event: &'a str, body: &'a str, signature: &'a str) -> SampleDelivery<'a> {
    SampleDelivery {
        event,
        body,
        signature,
    }
}

fn sign(body: &str) -> String {
    format!("sha256={}", signature::sign(SECRET, body.as_bytes()))
}

const PUSH: &str = r#"{"ref": "refs/heads/main", "after": "a", "repository":
    {"full_name": "Acme/fleet", "html_url": "https://github.com/Acme/fleet"}}"#;

#[test]
fn a_push_queues_its_followers_and_nothing_else_does() {
    let (blobs, queue) = (
        Arc::new(MemoryBlobs::default()),
        Arc::new(MemoryQueue::default()),
    );
    let mut ports = driftless_memory::ports(blobs, queue.clone(), Arc::default());
    let receive = |ports: &Ports, one: SampleDelivery<'_>| {
        let header = |name: &str| match name {
            "x-github-event" => Some(one.event),
            "x-hub-signature-256" => Some(one.signature),
            _ => None,
        };
        let delivery = Delivery {
            header: &header,
            body: one.body.as_bytes(),
        };
        let received = receive(ports, &ENTRANCE, delivery);
        received.now_or_never().expect("nothing waits")
    };
    let signed = sign(PUSH);

    // No secret: fail closed.
    assert!(matches!(
        receive(&ports, delivery("push", PUSH, &signed)),
        Err(Refusal::Unavailable(_))
    ));
    ports.secrets = Arc::new(MemorySecrets(
        [(super::SECRET.to_owned(), Secret::new(SECRET))].into(),
    ));
    assert!(matches!(
        receive(&ports, delivery("push", PUSH, &signed)),
        Ok(DeliveryResult::Ignored(_))
    ));

    let object = ObjectRef::new(FluxKind::GitRepository, "flux-system", "fleet");
    for (branch, name) in [("main", "fleet"), ("dev", "fleet-dev")] {
        let reference = GitReference {
            branch: branch.into(),
            ..Default::default()
        };
        let object = ObjectRef {
            name: name.into(),
            ..object.clone()
        };
        let note = index::note(
            &ports,
            "staging",
            &object,
            "https://github.com/acme/fleet.git",
            &reference,
        );
        note.now_or_never().unwrap().unwrap();
    }
    let request = Request::new("staging", object, Cause::Push);
    let request = Request {
        commit: Some(PushedCommit::new("a", "", "")),
        ..request.received_at(ports.clock.now())
    };
    assert_eq!(
        receive(&ports, delivery("push", PUSH, &signed)).unwrap(),
        DeliveryResult::Queued(vec![request.clone()])
    );
    assert_eq!(queue.take(), [(request, Duration::ZERO)]);

    let strange = Delivery {
        header: &|_| None,
        body: PUSH.as_bytes(),
    };
    let strange = super::receive(&ports, &ENTRANCE, strange);
    let refusal = strange.now_or_never().unwrap().unwrap_err();
    assert_eq!(refusal.status(), 401, "an unknown host");
    let refusal = receive(&ports, delivery("push", PUSH, "sha256=00")).unwrap_err();
    assert_eq!(refusal.status(), 401);
    let place = "GitHub and in the vault under 'github/webhook'";
    assert!(refusal.to_string().ends_with(place), "{refusal}");
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(matches!(
        receive(&ports, delivery("push", &deep, &sign(&deep))),
        Err(Refusal::Malformed(..))
    ));
    assert_eq!(
        receive(&ports, delivery("ping", "{}", &sign("{}"))).unwrap(),
        DeliveryResult::Pong
    );
    let large = "x".repeat(ENTRANCE.max_body + 1);
    assert_eq!(
        receive(&ports, delivery("push", &large, ""))
            .unwrap_err()
            .status(),
        413
    );
    assert!(queue.take().is_empty());

    queue.set_broken(true);
    let refusal = receive(&ports, delivery("push", PUSH, &signed)).unwrap_err();
    assert_eq!(refusal.status(), 503, "no 2xx before the queue has it");
}

/// A delivery of a host, with the addresses and refs of followers that it queues.
struct Host {
    name: &'static str,
    secret: &'static str,
    /// The header with the event.
    event: (&'static str, &'static str),
    /// Returns the header with the proof.
    proof: fn(&str) -> (&'static str, String),
    /// True if the proof is over the body.
    signs: bool,
    body: &'static str,
    /// The addresses that followers may have.
    urls: &'static [&'static str],
    /// The refs that changed.
    references: &'static [&'static str],
}

fn hex(body: &str) -> String {
    signature::sign(SECRET, body.as_bytes())
}

fn basic(password: &[u8]) -> String {
    use base64::Engine as _;
    let login = [b"driftless:", password].concat();
    format!(
        "Basic {}",
        base64::engine::general_purpose::STANDARD.encode(login)
    )
}

const HOSTS: [Host; 8] = [
    Host {
        name: "GitHub",
        secret: "github/webhook",
        event: ("x-github-event", "push"),
        proof: |body| ("x-hub-signature-256", sign(body)),
        signs: true,
        body: PUSH,
        urls: &[
            "https://github.com/acme/fleet",
            "ssh://git@github.com/acme/fleet.git",
        ],
        references: &["refs/heads/main"],
    },
    Host {
        name: "GitLab",
        secret: "gitlab/webhook",
        event: ("x-gitlab-event", "Push Hook"),
        proof: |_| {
            (
                "x-gitlab-token",
                String::from_utf8(SECRET.to_vec()).unwrap(),
            )
        },
        signs: false,
        body: r#"{"object_kind": "push", "ref": "refs/heads/main", "project": {
            "git_http_url": "https://gitlab.acme.example/platform/eu/fleet.git",
            "git_ssh_url": "git@ssh.acme.example:platform/eu/fleet.git"}}"#,
        urls: &[
            "https://gitlab.acme.example/platform/eu/fleet",
            "ssh://git@ssh.acme.example/platform/eu/fleet",
        ],
        references: &["refs/heads/main"],
    },
    Host {
        name: "GitLab",
        secret: "gitlab/webhook",
        event: ("x-gitlab-event", "System Hook"),
        proof: |_| {
            (
                "x-gitlab-token",
                String::from_utf8(SECRET.to_vec()).unwrap(),
            )
        },
        signs: false,
        body: r#"{"event_name": "tag_push", "ref": "refs/tags/v1", "project": {
            "git_http_url": "https://gitlab.acme.example/platform/fleet.git"}}"#,
        urls: &["https://gitlab.acme.example/platform/fleet.git"],
        references: &["refs/tags/v1"],
    },
    Host {
        name: "Gitea",
        secret: "gitea/webhook",
        event: ("x-gitea-event", "push"),
        proof: |body| ("x-gitea-signature", hex(body)),
        signs: true,
        body: r#"{"ref": "refs/heads/main", "repository": {"full_name": "acme/fleet",
            "clone_url": "https://git.acme.example/acme/fleet.git",
            "ssh_url": "git@git.acme.example:acme/fleet.git"}}"#,
        urls: &[
            "https://git.acme.example/acme/fleet",
            "ssh://git@git.acme.example:2222/acme/fleet",
        ],
        references: &["refs/heads/main"],
    },
    Host {
        name: "Bitbucket",
        secret: "bitbucket/webhook",
        event: ("x-event-key", "repo:push"),
        proof: |body| ("x-hub-signature", sign(body)),
        signs: true,
        body: r#"{"push": {"changes": [
            {"new": {"type": "branch", "name": "main"}, "old": null},
            {"new": {"type": "tag", "name": "v1"}, "old": null},
            {"new": null, "old": {"type": "branch", "name": "gone"}}]},
            "repository": {"full_name": "acme/fleet"}}"#,
        urls: &[
            "https://bitbucket.org/acme/fleet.git",
            "ssh://git@bitbucket.org/acme/fleet",
        ],
        references: &["refs/heads/main", "refs/tags/v1", "refs/heads/gone"],
    },
    Host {
        name: "Bitbucket Server",
        secret: "bitbucket/webhook",
        event: ("x-event-key", "repo:refs_changed"),
        proof: |body| ("x-hub-signature", sign(body)),
        signs: true,
        body: r#"{"eventKey": "repo:refs_changed", "repository": {"slug": "fleet",
            "project": {"key": "ACME"}, "links": {"clone": [
                {"href": "https://bitbucket.acme.example/scm/acme/fleet.git", "name": "http"},
                {"href": "ssh://git@bitbucket.acme.example:7999/acme/fleet.git", "name": "ssh"}]}},
            "changes": [{"ref": {"id": "refs/heads/main", "type": "BRANCH"}, "type": "UPDATE"},
                {"ref": {"id": "refs/tags/v1", "type": "TAG"}, "type": "ADD"}]}"#,
        urls: &[
            "https://bitbucket.acme.example/scm/acme/fleet.git",
            "ssh://git@bitbucket.acme.example:7999/acme/fleet.git",
        ],
        references: &["refs/heads/main", "refs/tags/v1"],
    },
    Host {
        name: "Bitbucket Server",
        secret: "bitbucket/webhook",
        event: ("x-event-key", "repo:refs_changed"),
        proof: |body| ("x-hub-signature", sign(body)),
        signs: true,
        body: r#"{"repository": {"slug": "fleet", "project": {"key": "ACME"}},
            "changes": [{"ref": {"id": "refs/heads/main"}}]}"#,
        urls: &[
            "https://git.acme.example/scm/acme/fleet",
            "ssh://git@git.acme.example:7999/acme/fleet.git",
        ],
        references: &["refs/heads/main"],
    },
    Host {
        name: "Azure DevOps",
        secret: "azuredevops/webhook",
        event: ("content-type", "application/json"),
        proof: |_| ("authorization", basic(SECRET)),
        signs: false,
        body: r#"{"eventType": "git.push", "resource": {"refUpdates": [
            {"name": "refs/heads/main"}, {"name": "refs/heads/dev"}],
            "repository": {"name": "fleet",
                "remoteUrl": "https://acme@dev.azure.com/acme/platform/_git/fleet"}}}"#,
        urls: &[
            "https://dev.azure.com/acme/platform/_git/fleet",
            "ssh://git@ssh.dev.azure.com/v3/acme/platform/fleet",
            "https://acme.visualstudio.com/platform/_git/fleet",
        ],
        references: &["refs/heads/main", "refs/heads/dev"],
    },
];

fn send(ports: &Ports, headers: &[(&str, &str)], body: &str) -> Result<DeliveryResult, Refusal> {
    let header = |name: &str| {
        let mut headers = headers.iter();
        headers
            .find(|(key, _)| *key == name)
            .map(|(_, value)| *value)
    };
    let delivery = Delivery {
        header: &header,
        body: body.as_bytes(),
    };
    let received = receive(ports, &ENTRANCE, delivery);
    received.now_or_never().expect("nothing waits")
}

fn follow(ports: &Ports, name: &str, url: &str, reference: &str) {
    let object = ObjectRef::new(FluxKind::GitRepository, "flux-system", name);
    let reference = GitReference {
        name: reference.into(),
        ..Default::default()
    };
    let note = index::note(ports, "staging", &object, url, &reference);
    note.now_or_never().unwrap().unwrap();
}

fn names(result: &DeliveryResult) -> Vec<String> {
    match result {
        DeliveryResult::Queued(requests) => {
            requests.iter().map(|one| one.object.name.clone()).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn pushes_of_every_host_queue_the_followers_of_each_address_and_ref() {
    for host in &HOSTS {
        let mut ports = driftless_memory::ports(Arc::default(), Arc::default(), Arc::default());
        let (name, value) = (host.proof)(host.body);
        let headers = [host.event, (name, value.as_str())];
        let refusal = send(&ports, &headers, host.body).unwrap_err();
        assert_eq!(refusal.status(), 503, "no secret: fail closed");
        let message = format!("has no '{}'", host.secret);
        assert!(refusal.to_string().contains(&message), "{refusal}");

        let secrets = [(host.secret.to_owned(), Secret::new(SECRET))];
        ports.secrets = Arc::new(MemorySecrets(secrets.into()));
        follow(&ports, "other-ref", host.urls[0], "refs/heads/unrelated");
        follow(
            &ports,
            "other-repository",
            "https://acme.example/other",
            host.references[0],
        );
        let ignored = send(&ports, &headers, host.body).unwrap();
        assert!(
            matches!(ignored, DeliveryResult::Ignored(_)),
            "{}: {ignored:?}",
            host.name
        );
        let mut expected = Vec::new();
        for (at, url) in host.urls.iter().enumerate() {
            for (of, reference) in host.references.iter().enumerate() {
                let name = format!("follower-{at}-{of}");
                follow(&ports, &name, url, reference);
                expected.push(name);
            }
        }
        let queued = send(&ports, &headers, host.body).unwrap();
        assert_eq!(names(&queued), expected, "{}", host.name);

        // The proof of another body.
        let other = host.body.replacen('{', "{\"replayed\": true, ", 1);
        let replayed = send(&ports, &headers, &other);
        match host.signs {
            true => assert_eq!(replayed.unwrap_err().status(), 401, "{}", host.name),
            false => assert_eq!(names(&replayed.unwrap()), expected, "{}", host.name),
        }
    }
}

#[test]
fn forged_and_malformed_deliveries_of_every_host_are_refused() {
    for host in &HOSTS {
        let mut ports = driftless_memory::ports(Arc::default(), Arc::default(), Arc::default());
        let secrets = [(host.secret.to_owned(), Secret::new("another secret"))];
        ports.secrets = Arc::new(MemorySecrets(secrets.into()));
        let (name, value) = (host.proof)(host.body);
        let headers = [host.event, (name, value.as_str())];
        let refusal = send(&ports, &headers, host.body).unwrap_err();
        let expected = format!(
            "set the same secret in the webhook of {} and in the vault under '{}'",
            host.name, host.secret
        );
        assert_eq!(refusal.status(), 401, "{}", host.name);
        assert!(refusal.to_string().ends_with(&expected), "{refusal}");
        let unsigned = send(&ports, &headers[..1], host.body).unwrap_err();
        assert_eq!(unsigned.status(), 401, "{}: without a proof", host.name);
        let empty = [(host.secret.to_owned(), Secret::default())];
        ports.secrets = Arc::new(MemorySecrets(empty.into()));
        let refusal = send(&ports, &headers, host.body).unwrap_err();
        assert_eq!(refusal.status(), 401, "{}: an empty secret", host.name);

        let secrets = [(host.secret.to_owned(), Secret::new(SECRET))];
        ports.secrets = Arc::new(MemorySecrets(secrets.into()));
        for body in ["", "[", "{}", "null", "{\"ref\": 1}"] {
            let (name, value) = (host.proof)(body);
            let sent = send(&ports, &[host.event, (name, &value)], body);
            let is_other = matches!(sent, Ok(DeliveryResult::Ignored(_)));
            // A system hook of GitLab has its event in the body.
            assert!(
                is_other && host.event.1 == "System Hook"
                    || matches!(sent, Err(Refusal::Malformed(..))),
                "{} {body}: {sent:?}",
                host.name
            );
        }
    }
}

/// Gitea and Forgejo also send GitHub's headers.
#[test]
fn gitea_is_not_github() {
    let mut ports = driftless_memory::ports(Arc::default(), Arc::default(), Arc::default());
    let secrets = [("gitea/webhook".to_owned(), Secret::new(SECRET))];
    ports.secrets = Arc::new(MemorySecrets(secrets.into()));
    let body = HOSTS[3].body;
    let (github, gitea) = (sign(body), hex(body));
    follow(&ports, "fleet", HOSTS[3].urls[0], "refs/heads/main");
    for host in ["gitea", "forgejo"] {
        let (event, signature) = (format!("x-{host}-event"), format!("x-{host}-signature"));
        let headers = [
            ("x-github-event", "push"),
            ("x-hub-signature-256", github.as_str()),
            (&event, "push"),
            (&signature, &gitea),
        ];
        assert_eq!(
            names(&send(&ports, &headers, body).unwrap()),
            ["fleet"],
            "{host}"
        );
    }
}

#[test]
fn other_events_are_answered_with_the_expected_one() {
    let mut ports = driftless_memory::ports(Arc::default(), Arc::default(), Arc::default());
    let secrets = HOSTS
        .iter()
        .map(|host| (host.secret.to_owned(), Secret::new(SECRET)));
    ports.secrets = Arc::new(MemorySecrets(secrets.collect()));
    for (at, event, expected) in [
        (0, "issues", "expected push or pull_request"),
        (1, "Issue Hook", "expected Push Hook or Tag Push Hook"),
        (3, "issues", "expected push"),
        (4, "repo:fork", "expected repo:push"),
        (5, "pr:opened", "expected repo:refs_changed"),
    ] {
        let host = &HOSTS[at];
        let (name, value) = (host.proof)("{}");
        let sent = send(&ports, &[(host.event.0, event), (name, &value)], "{}");
        let Ok(DeliveryResult::Ignored(reason)) = &sent else {
            panic!("{}: {sent:?}", host.name);
        };
        assert!(reason.ends_with(expected), "{reason}");
    }
    let body = r#"{"eventType": "build.complete"}"#;
    let sent = send(&ports, &[("authorization", &basic(SECRET))], body);
    let reason = "events of type 'build.complete' are not used: expected git.push".to_owned();
    assert_eq!(sent.unwrap(), DeliveryResult::Ignored(reason));
    let (name, value) = (HOSTS[5].proof)("{}");
    let ping = send(
        &ports,
        &[("x-event-key", "diagnostics:ping"), (name, &value)],
        "{}",
    );
    assert_eq!(ping.unwrap(), DeliveryResult::Pong);
}

#[test]
fn a_push_of_many_refs_is_bounded() {
    let mut ports = driftless_memory::ports(Arc::default(), Arc::default(), Arc::default());
    let secrets = [("azuredevops/webhook".to_owned(), Secret::new(SECRET))];
    ports.secrets = Arc::new(MemorySecrets(secrets.into()));
    let url = "https://git.acme.example/acme/fleet";
    let updates: Vec<String> = (0..1000)
        .map(|at| {
            follow(
                &ports,
                &format!("f{at:04}"),
                url,
                &format!("refs/heads/b{at:04}"),
            );
            format!(r#"{{"name": "refs/heads/b{at:04}"}}"#)
        })
        .collect();
    let body = format!(
        r#"{{"eventType": "git.push", "resource": {{"refUpdates": [{}], "repository": {{"remoteUrl": "{url}"}}}}}}"#,
        updates.join(",")
    );
    let sent = send(&ports, &[("authorization", &basic(SECRET))], &body);
    assert_eq!(names(&sent.unwrap()).len(), MAX_REFERENCES);
}

/// Only actions that change what would be merged are used, and a head in another repository, or in
/// none, is that of a fork.
#[test]
fn the_actions_of_pull_requests_are_distinguished() {
    let body = |action: &str, changes: &str, head: &str| {
        format!(
            r#"{{"action": "{action}", "number": 3, "changes": {changes}, "pull_request": {{
                "head": {{"ref": "x", "sha": "{one}", "repo": {head}}}, "base": {{"ref": "main", "sha": "{two}", "repo": null}}}},
                "repository": {{"full_name": "Acme/fleet", "html_url": "https://github.com/Acme/fleet"}}}}"#,
            one = "1".repeat(40),
            two = "2".repeat(40),
        )
    };
    let read = |body: &str| {
        let header = |name: &str| (name == "x-github-event").then_some("pull_request");
        let delivery = Delivery {
            header: &header,
            body: body.as_bytes(),
        };
        github::GitHub.read(&delivery)
    };
    let own = r#"{"full_name": "acme/Fleet"}"#;
    for action in ["opened", "synchronize", "reopened"] {
        let Ok(Event::PullRequest(event)) = read(&body(action, "{}", own)) else {
            panic!("{action} is used");
        };
        assert_eq!(
            (event.number, &*event.base_ref, event.is_fork),
            (3, "main", false)
        );
    }
    let base = r#"{"base": {"ref": {"from": "dev"}}}"#;
    for (action, changes, is_used) in [
        ("edited", base, true),
        ("edited", r#"{"title": {"from": "a"}}"#, false),
        ("closed", "{}", false),
        ("labeled", "{}", false),
    ] {
        let event = read(&body(action, changes, own)).unwrap();
        assert_eq!(matches!(event, Event::PullRequest(_)), is_used, "{action}");
    }
    for head in ["null", r#"{"full_name": "mallory/fleet"}"#] {
        let event = read(&body("opened", "{}", head)).unwrap();
        assert!(
            matches!(event, Event::PullRequest(event) if event.is_fork),
            "{head}"
        );
    }
    let refusal = read("{\"action\": 1}").unwrap_err();
    assert_eq!(refusal.status(), 400);
}
