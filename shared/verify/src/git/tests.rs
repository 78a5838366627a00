//! Commits and tags that git signed with gpg and ssh-keygen, as Flux judges them
//! (`tests/oracle/git-signatures`).

use super::*;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

/// A time after all keys and signatures were made.
const NOW: Duration = Duration::from_secs(1_780_000_000);

#[derive(Deserialize)]
struct Answer {
    object: String,
    key: String,
    #[serde(default)]
    signer: String,
    #[serde(default)]
    error: String,
}

#[expect(clippy::disallowed_methods, reason = "the tests read recorded objects")]
fn read(file: &str) -> Bytes {
    let path = format!(
        "{}/../../tests/corpus/git-signatures/{file}",
        env!("CARGO_MANIFEST_DIR")
    );
    std::fs::read(path).unwrap().into()
}

fn secret(entries: &[(&str, Bytes)]) -> GitKeys {
    let mut data = Value::Null;
    for (name, bytes) in entries {
        data[name] = STANDARD.encode(bytes).into();
    }
    let object =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "data": data});
    GitKeys::of(&Object::new(object).unwrap())
}

fn keys(files: &[&str]) -> GitKeys {
    let entries: Vec<_> = files.iter().map(|file| (*file, read(file))).collect();
    secret(&entries)
}

fn verify(mode: &str) -> GitVerification {
    GitVerification {
        mode: Some(mode.to_owned()),
        ..GitVerification::default()
    }
}

/// Returns the commit and the tag of a name, and what the port returns for them.
fn signed(name: &str, tag: &str) -> (Commit, SignedObjects) {
    let mut objects = SignedObjects {
        commit: read(&format!("{name}.commit")),
        tags: Vec::new(),
    };
    let mut commit = Commit {
        sha: object::id("commit", &objects.commit),
        name: tag.to_owned(),
        ..Commit::default()
    };
    if !tag.is_empty() {
        let bytes = read(&format!("{name}.tag"));
        commit.tag = Some(object::id("tag", &bytes));
        objects.tags.push(bytes);
    }
    (commit, objects)
}

#[test]
fn signatures_as_flux_judges_them() {
    let answers = read("answers.jsonl");
    let answers = std::str::from_utf8(&answers).unwrap().lines();
    let mut total = 0;
    for line in answers {
        let answer: Answer = serde_json::from_str(line).unwrap();
        let bytes = read(&answer.object);
        let (kind, parts) = match answer.object.ends_with(".tag") {
            true => ("tag", object::tag(&bytes)),
            false => ("commit", object::commit(&bytes).unwrap()),
        };
        let found = keys(&[&answer.key]).check(&parts, kind, NOW);
        let place = format!("{} by {}", answer.object, answer.key);
        match found {
            Ok(signer) => assert_eq!(signer, answer.signer, "{place}"),
            // The messages here go on with the reason.
            Err(error) => {
                assert!(!answer.error.is_empty(), "{place}: {error}");
                let error = error.to_string();
                assert!(error.starts_with(&answer.error), "{place}: {error}");
            }
        }
        total += 1;
    }
    assert_eq!(total, 123);
}

#[test]
fn the_reason_is_named() {
    for (name, key, reason) in [
        ("old", "old.asc", "is expired)"),
        ("rev", "rev.asc", "is revoked)"),
    ] {
        let (commit, objects) = signed(name, "");
        let error = check(&keys(&[key]), &verify("HEAD"), &commit, &objects, NOW).unwrap_err();
        assert!(error.message.ends_with(reason), "{error}");
    }
    // The key of Old was valid when it signed. It counts whether it is valid now.
    let (commit, objects) = signed("old", "");
    let then = Duration::from_secs(1_600_000_000);
    check(
        &keys(&["old.asc"]),
        &verify("HEAD"),
        &commit,
        &objects,
        then,
    )
    .unwrap();
    let (commit, objects) = signed("ann", "");
    let error = check(
        &keys(&["ann.asc"]),
        &verify("HEAD"),
        &commit,
        &objects,
        then,
    )
    .unwrap_err();
    assert!(error.message.contains("is expired"), "{error}");
}

#[test]
fn modes_and_messages() {
    let both = keys(&["ann.asc", "ssh-rsa.sshpub"]);
    let (commit, objects) = signed("ann", "ann-v1.0.0");
    let (sha, tag) = (&commit.sha, commit.tag.as_ref().unwrap());
    let answer = |mode| check(&both, &verify(mode), &commit, &objects, NOW).unwrap();
    let key = answer("HEAD")
        .rsplit_once("with key '")
        .map(|(_, key)| key.trim_end_matches('\'').to_owned())
        .unwrap();
    let by_tag = format!("\n\t- tag 'ann-v1.0.0@{tag}' with key '{key}'");
    let by_commit = format!("\n\t- commit '{sha}' with key '{key}'");
    assert_eq!(answer("head"), format!("verified signature of{by_commit}"));
    assert_eq!(answer("Tag"), format!("verified signature of{by_tag}"));
    assert_eq!(
        answer("TagAndHEAD"),
        format!("verified signature of{by_tag}{by_commit}")
    );
    let (commit, objects) = signed("ssh-rsa", "refs/tags/ssh-rsa-v1.0.0");
    let message = check(&both, &verify("TagAndHEAD"), &commit, &objects, NOW).unwrap();
    assert_eq!(message.matches("with key 'SHA256:").count(), 2, "{message}");
}

#[test]
fn invalid_signatures_and_foreign_keys_are_refused() {
    let ann = keys(&["ann.asc"]);
    let (commit, objects) = signed("ann", "ann-v1.0.0");
    let refused = |keys: &GitKeys, mode: &str, commit: &Commit, objects: &SignedObjects| {
        let failure = check(keys, &verify(mode), commit, objects, NOW).unwrap_err();
        (failure.reason, failure.message)
    };
    // A changed byte of a commit or tag has another id; the port is not trusted.
    for mode in ["HEAD", "Tag"] {
        let mut changed = objects.clone();
        let bytes = match mode {
            "HEAD" => &mut changed.commit,
            _ => &mut changed.tags[0],
        };
        let text = std::str::from_utf8(bytes).unwrap();
        *bytes = text
            .replace("ed by", "ed not by")
            .replace("Release by", "Release for")
            .into();
        let (reason, message) = refused(&ann, mode, &commit, &changed);
        assert!(message.contains("the host returned another"), "{message}");
        let expected = match mode {
            "HEAD" => reason::INVALID_COMMIT_SIGNATURE,
            _ => reason::INVALID_TAG_SIGNATURE,
        };
        assert_eq!(reason, expected);
        // With the id of the changed object, the signature does not fit.
        let mut moved = commit.clone();
        moved.tag = Some(object::id("tag", &changed.tags[0]));
        if mode == "HEAD" {
            moved.sha = object::id("commit", &changed.commit);
        }
        let (_, message) = refused(&ann, mode, &moved, &changed);
        assert!(message.contains("no matching key"), "{message}");
    }
    // A tag of another commit, a tag by another name, a light tag, and tags without signatures.
    let other = signed("bob", "").0;
    let moved = Commit {
        sha: other.sha,
        ..commit.clone()
    };
    let (reason, message) = refused(&ann, "Tag", &moved, &objects);
    assert_eq!(reason, reason::INVALID_TAG_SIGNATURE);
    assert!(message.contains("does not lead to commit"), "{message}");
    let renamed = Commit {
        name: "v2.0.0".to_owned(),
        ..commit.clone()
    };
    let (_, message) = refused(&ann, "Tag", &renamed, &objects);
    assert!(
        message.ends_with("the tag was signed for another name than 'v2.0.0'"),
        "{message}"
    );
    let light = Commit {
        tag: None,
        ..commit.clone()
    };
    let (reason, message) = refused(&ann, "TagAndHEAD", &light, &objects);
    assert_eq!(reason, reason::INVALID_GIT_OBJECT);
    let expected = "cannot verify signature of tag 'ann-v1.0.0' since it is not signed";
    assert_eq!(message, expected);
    let (unsigned, objects) = signed("unsigned", "");
    let (_, message) = refused(&ann, "HEAD", &unsigned, &objects);
    assert!(
        message.ends_with("unsupported signature type: empty"),
        "{message}"
    );
}

#[test]
fn entries_of_the_secret() {
    let (commit, objects) = signed("ann", "");
    let check = |keys: &GitKeys, objects: &SignedObjects, commit: &Commit| {
        check(keys, &verify("HEAD"), commit, objects, NOW).map_err(|failure| failure.message)
    };
    // Any name but one of an SSH key is a key ring, and those that cannot be read are passed over.
    let odd = secret(&[
        ("a", Bytes::from_static(b"\xff")),
        ("author", read("ann.asc")),
    ]);
    check(&odd, &objects, &commit).unwrap();
    let unread = secret(&[("a.asc", Bytes::from_static(b"none"))]);
    let error = check(&unread, &objects, &commit).unwrap_err().to_string();
    assert!(error.contains("unable to read armored key ring"), "{error}");
    let error = check(&keys(&["ssh-rsa.sshpub"]), &objects, &commit)
        .unwrap_err()
        .to_string();
    assert!(
        error.ends_with(
            "PGP signature detected but no PGP public keys found in secret (keys with .asc suffix)"
        ),
        "{error}"
    );
    let (commit, objects) = signed("ssh-ed25519", "");
    let error = check(&keys(&["ann.asc"]), &objects, &commit)
        .unwrap_err()
        .to_string();
    assert!(
        error.ends_with("SSH signature detected but no SSH public keys found in secret (keys with .sshpub suffix)"),
        "{error}"
    );
    let list = format!(
        "# the team\n\n{}",
        String::from_utf8_lossy(&read("ssh-ed25519.sshpub"))
    );
    check(
        &secret(&[("team.sshpub", list.clone().into())]),
        &objects,
        &commit,
    )
    .unwrap();
    let broken = secret(&[("team.sshpub", format!("{list}ssh-rsa x\n").into())]);
    let error = check(&broken, &objects, &commit).unwrap_err().to_string();
    assert!(error.contains("line 4 is not a public SSH key"), "{error}");
}

#[test]
fn a_digest_is_about_keys_mode_and_objects() {
    let (commit, _) = signed("ann", "ann-v1.0.0");
    let one = keys(&["ann.asc"]);
    let digest = one.digest(&verify("Tag"), &commit);
    assert_eq!(keys(&["ann.asc"]).digest(&verify("Tag"), &commit), digest);
    assert_ne!(keys(&["bob.asc"]).digest(&verify("Tag"), &commit), digest);
    assert_ne!(one.digest(&verify("HEAD"), &commit), digest);
    assert_ne!(one.digest(&verify("Tag"), &signed("bob", "").0), digest);
}
