//! GitRepositories whose commits and tags must be signed: objects that git signed with gpg and
//! ssh-keygen.

use driftless_harness::github::Change;
use driftless_tests::embedded::Embedded;
use driftless_tests::site::*;
use serde_json::{Value, json};
use sha1::{Digest, Sha1};
use std::time::Duration;

const FLEET: &str = "acme/fleet";
const APPS: &str = "acme/apps";
const HUB: [HubSpec<'static>; 1] = one_hub(FLEET);

fn read(file: &str) -> Vec<u8> {
    let path = format!(
        "{}/corpus/git-signatures/{file}",
        env!("CARGO_MANIFEST_DIR")
    );
    std::fs::read(path).expect("a recorded object")
}

fn id(kind: &str, bytes: &[u8]) -> String {
    let header = format!("{kind} {}\0", bytes.len());
    let digest = Sha1::digest([header.as_bytes(), bytes].concat());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Moves the branch to the commit that `name` signed, and returns its hash.
fn commit(world: &Embedded, name: &str) -> String {
    let bytes = read(&format!("{name}.commit"));
    let sha = id("commit", &bytes);
    world.commit_objects(APPS, (&sha, &bytes), None);
    sha
}

/// Does the same, with the tag that `name` signed, and returns the hashes of commit and tag.
fn release(world: &Embedded, name: &str, tag: &str) -> (String, String) {
    let (commit, bytes) = (
        read(&format!("{name}.commit")),
        read(&format!("{name}.tag")),
    );
    let (sha, object) = (id("commit", &commit), id("tag", &bytes));
    let tag = Some((tag, Some((&*object, &*bytes))));
    world.commit_objects(APPS, (&sha, &commit), tag);
    (sha, object)
}

fn keys(world: &Embedded, files: &[&str]) {
    let text = |file: &&str| String::from_utf8(read(file)).expect("an armored key");
    let data: serde_json::Map<String, Value> = files
        .iter()
        .map(|file| ((*file).to_owned(), text(file).into()))
        .collect();
    let hub = world.cluster("hub");
    let path = "/api/v1/namespaces/flux-system/secrets/keys";
    if hub.find(path).is_some() {
        hub.delete(path);
    }
    hub.secret("flux-system", "keys", &data.into());
}

fn world(mode: &str, reference: Value) -> Embedded {
    let world = Embedded::start(&HUB, &[]);
    world.advance(Duration::from_secs(1_780_000_000));
    world.commit(FLEET, &[Change::write("clusters/hub/none.txt", "none\n")]);
    world.commit(APPS, &[Change::write("a.yaml", "a: 1\n")]);
    world.sweep();
    world.settle();
    let apps = json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
        "metadata": {"name": "apps", "namespace": "flux-system"},
        "spec": {"interval": "1m", "url": format!("https://github.com/{APPS}"), "ref": reference,
            "verify": {"mode": mode, "secretRef": {"name": "keys"}}},
    });
    let path = path("GitRepository", "flux-system", "");
    world
        .cluster("hub")
        .create(path.trim_end_matches('/'), &apps);
    world
}

/// Runs a step, and returns the object, and the status, reason and message of `Ready`.
fn step(world: &Embedded) -> (Value, (String, String, String)) {
    world.request("hub", "GitRepository", "flux-system", "apps");
    world.settle();
    let hub = world.cluster("hub");
    let object = hub.get(&path("GitRepository", "flux-system", "apps"));
    (object, ready(hub, "GitRepository", "flux-system", "apps"))
}

fn condition(object: &Value, kind: &str) -> (String, String, String) {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions.and_then(|all| all.iter().find(|one| one["type"] == kind));
    let text = |key: &str| {
        found
            .and_then(|one| one[key].as_str())
            .unwrap_or("none")
            .to_owned()
    };
    (text("status"), text("reason"), text("message"))
}

fn revision(object: &Value) -> &str {
    let revision = &object["status"]["artifact"]["revision"];
    revision.as_str().unwrap_or("none")
}

#[test]
fn only_signed_commits_become_artifacts() {
    let world = world("HEAD", json!({"branch": "main"}));
    commit(&world, "ann");
    let (object, (status, reason, message)) = step(&world);
    assert_eq!((&*status, &*reason), ("False", "VerificationError"));
    assert_eq!(
        message,
        "public keys secret error: secrets \"keys\" not found"
    );
    assert_eq!(revision(&object), "none");

    keys(&world, &["ann.asc", "ssh-rsa.sshpub"]);
    let sha = commit(&world, "ann");
    let (object, (status, _, message)) = step(&world);
    let stored = format!("main@sha1:{sha}");
    assert_eq!(status, "True", "{message}");
    assert_eq!(revision(&object), stored);
    let (status, reason, message) = condition(&object, "SourceVerified");
    assert_eq!((&*status, &*reason), ("True", "Succeeded"));
    let expected = format!("verified signature of\n\t- commit '{sha}' with key '");
    assert!(message.starts_with(&expected), "{message}");
    assert_eq!(object["status"]["sourceVerificationMode"], "HEAD");

    // Another signer, no signature, a key that is not trusted: the old artifact stays.
    for (name, problem) in [
        ("eve", "no matching key"),
        ("unsigned", "unsupported signature type: empty"),
        ("ssh-ed25519", "public key does not match"),
    ] {
        let sha = commit(&world, name);
        let (object, (status, reason, message)) = step(&world);
        let expected = ("False", "InvalidCommitSignature");
        assert_eq!((&*status, &*reason), expected, "{name}");
        let prefix = format!("signature verification of commit '{sha}' failed: ");
        assert!(
            message.starts_with(&prefix) && message.ends_with(problem),
            "{message}"
        );
        let (verified, reason, text) = condition(&object, "SourceVerified");
        assert_eq!(
            (&*verified, &*reason, text),
            ("False", "InvalidCommitSignature", message)
        );
        assert_eq!(condition(&object, "FetchFailed").0, "none");
        assert_eq!(revision(&object), stored, "{name}");
    }

    // A key for SSH, and the end of the trust in it.
    let sha = commit(&world, "ssh-rsa");
    let (object, (status, _, message)) = step(&world);
    assert_eq!(status, "True", "{message}");
    assert_eq!(revision(&object), format!("main@sha1:{sha}"));
    keys(&world, &["ann.asc"]);
    let (object, (status, reason, _)) = step(&world);
    assert_eq!((&*status, &*reason), ("False", "InvalidCommitSignature"));
    assert_eq!(revision(&object), format!("main@sha1:{sha}"));

    // Without the field, nothing is verified.
    let patch = json!({"spec": {"verify": null}});
    let path = path("GitRepository", "flux-system", "apps");
    world.cluster("hub").patch(&path, &patch);
    let (object, (status, _, message)) = step(&world);
    assert_eq!(status, "True", "{message}");
    assert_eq!(condition(&object, "SourceVerified").0, "none");
    assert_eq!(object["status"]["sourceVerificationMode"], Value::Null);
}

#[test]
fn signed_tags() {
    let world = world("TagAndHEAD", json!({"branch": "main"}));
    keys(&world, &["bob.asc"]);
    let (sha, tag) = release(&world, "bob", "bob-v1.0.0");
    let (object, (status, reason, message)) = step(&world);
    assert_eq!(
        (&*status, &*reason),
        ("False", "InvalidVerificationMode"),
        "{message}"
    );
    assert_eq!(condition(&object, "Stalled").0, "True");

    let patch = json!({"spec": {"ref": {"branch": null, "tag": "bob-v1.0.0"}}});
    let path = path("GitRepository", "flux-system", "apps");
    world.cluster("hub").patch(&path, &patch);
    let (object, (status, _, message)) = step(&world);
    assert_eq!(status, "True", "{message}");
    assert_eq!(revision(&object), format!("bob-v1.0.0@sha1:{sha}"));
    let (_, _, message) = condition(&object, "SourceVerified");
    let tagged = format!("\n\t- tag 'bob-v1.0.0@{tag}' with key '");
    assert!(
        message.contains(&tagged) && message.contains(&format!("commit '{sha}'")),
        "{message}"
    );
    assert_eq!(object["status"]["sourceVerificationMode"], "TagAndHEAD");

    // The tag is moved to a commit that someone else signed.
    release(&world, "eve", "bob-v1.0.0");
    let (object, (status, reason, _)) = step(&world);
    assert_eq!((&*status, &*reason), ("False", "InvalidTagSignature"));
    assert_eq!(revision(&object), format!("bob-v1.0.0@sha1:{sha}"));
    // A light tag has no signature.
    let bytes = read("bob.commit");
    let tag = Some(("bob-v1.0.0", None));
    world.commit_objects(APPS, (&id("commit", &bytes), &bytes), tag);
    let (_, (status, reason, message)) = step(&world);
    assert_eq!((&*status, &*reason), ("False", "InvalidGitObject"));
    let expected = "cannot verify signature of tag 'bob-v1.0.0' since it is not signed";
    assert_eq!(message, expected);
}
