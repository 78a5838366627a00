//! Trust policies and distinguished names: valid and refused ones, and the statement of a
//! repository.

use super::name::DistinguishedName;
use super::policy::{Action, Policy, Store};
use driftless_flux::Invalid;
use serde_json::{Value, json};

fn statement(name: &str, scope: &str) -> Value {
    json!({"name": name, "registryScopes": [scope], "signatureVerification": {"level": "strict"},
        "trustStores": ["ca:acme"], "trustedIdentities": ["*"]})
}

fn read(statements: &[Value]) -> Result<Policy, Invalid> {
    Policy::read(
        json!({"version": "1.0", "trustPolicies": statements})
            .to_string()
            .as_bytes(),
    )
}

/// Reads a document with one changed field of one statement.
fn with(path: &str, value: Value) -> Result<Policy, Invalid> {
    let mut changed = statement("one", "*");
    let (parent, key) = path.rsplit_once('/').unwrap();
    changed.pointer_mut(parent).unwrap()[key] = value;
    read(&[changed])
}

#[test]
fn the_statement_of_a_repository() {
    let mut own = statement("own", "registry.example.com:5000/acme/app");
    own["signatureVerification"] = json!({"level": "permissive", "override": {"expiry": "enforce", "revocation": "skip"},
        "verifyTimestamp": "afterCertExpiry"});
    own["trustStores"] = json!(["ca:acme", "tsa:acme"]);
    own["trustedIdentities"] = json!(["x509.subject: C=US, ST=WA, O=Acme", "plugin:anything"]);
    let policy = read(&[statement("all", "*"), own]).unwrap();
    let found = policy
        .applicable("registry.example.com:5000/acme/app")
        .unwrap();
    let level = found.level.unwrap();
    assert_eq!(
        (
            level.authenticity,
            level.timestamp,
            level.expiry,
            level.revocation
        ),
        (Action::Enforce, Action::Log, Action::Enforce, Action::Skip)
    );
    assert!(found.only_after_expiry && found.stores.contains(&Store::Timestamps));
    assert_eq!(found.identities.as_ref().map(Vec::len), Some(1));
    let found = policy
        .applicable("registry.example.com:5000/acme/other")
        .unwrap();
    assert!(found.identities.is_none() && !found.only_after_expiry);
    let policy = read(&[statement("own", "registry.example.com/acme")]).unwrap();
    assert!(policy.applicable("registry.example.com/acme/app").is_none());
    // Nothing is verified: stores and identities do not matter, as in source-controller.
    let policy = with("/signatureVerification/level", json!("skip")).unwrap();
    assert!(policy.applicable("a.b/c").unwrap().level.is_none());
}

#[test]
fn policies_that_are_refused() {
    for (path, value, problem) in [
        ("/name", json!(""), "expected a name"),
        ("/registryScopes", json!([]), "registryScopes is missing"),
        (
            "/registryScopes",
            json!(["*", "a.b/c"]),
            "the scope '*' cannot be combined with other scopes",
        ),
        (
            "/registryScopes",
            json!(["https://a.b/c"]),
            "is not a repository",
        ),
        ("/registryScopes", json!(["a.b/*"]), "is not a repository"),
        ("/trustStores", json!([]), "trustStores is missing"),
        (
            "/trustStores",
            json!(["ca:../x"]),
            "is not valid: expected ca:NAME",
        ),
        (
            "/trustStores",
            json!(["acme"]),
            "is not valid: expected ca:NAME",
        ),
        (
            "/trustedIdentities",
            json!([]),
            "trustedIdentities is missing",
        ),
        (
            "/trustedIdentities",
            json!(["*", "x509.subject:C=US,ST=WA,O=A"]),
            "the identity '*' cannot be combined with other identities",
        ),
        (
            "/trustedIdentities",
            json!(["C=US"]),
            "has no 'x509.subject:'",
        ),
        (
            "/trustedIdentities",
            json!(["x509.subject:C=US,O=A"]),
            "expected C, ST and O",
        ),
        (
            "/trustedIdentities",
            json!([
                "x509.subject:C=US,ST=WA,O=A",
                "x509.subject:C=US,ST=WA,O=A,CN=x"
            ]),
            "overlaps",
        ),
        (
            "/signatureVerification/level",
            json!("none"),
            "level 'none' is not valid",
        ),
        (
            "/signatureVerification/verifyTimestamp",
            json!("never"),
            "verifyTimestamp 'never'",
        ),
        (
            "/signatureVerification/override",
            json!({"integrity": "log"}),
            "'integrity' cannot be overridden",
        ),
        (
            "/signatureVerification/override",
            json!({"expiry": "skip"}),
            "'expiry' cannot be skipped",
        ),
        (
            "/signatureVerification/override",
            json!({"expiry": "never"}),
            "cannot be read",
        ),
    ] {
        let refused = with(path, value).unwrap_err().to_string();
        assert!(refused.contains(problem), "{path}: {refused}");
    }
    for (text, problem) in [
        ("{}", "expected \"version\": \"1.0\""),
        (r#"{"version": "1.0"}"#, "trustPolicies is missing"),
        ("[", "cannot be read"),
    ] {
        let refused = Policy::read(text.as_bytes()).unwrap_err().to_string();
        assert!(refused.contains(problem), "{refused}");
    }
    let refused = read(&[statement("one", "a.b/c"), statement("one", "*")])
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("a name that no other statement has"),
        "{refused}"
    );
    let refused = read(&[statement("one", "*"), statement("two", "*")])
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("the scope '*' is also in another statement"),
        "{refused}"
    );
}

#[test]
fn names() {
    let name = |text: &str| DistinguishedName::parse(text);
    let acme = name("C=US, ST=WA, O=Acme").unwrap();
    assert_eq!(name("O=Acme;S=WA , C=US").unwrap(), acme);
    assert!(acme.is_part_of(&name("CN=a,C=US,ST=WA,O=Acme").unwrap()));
    assert!(!name("CN=a,C=US,ST=WA,O=Acme").unwrap().is_part_of(&acme));
    assert!(!name("C=US,ST=WA,O=Acme Inc").unwrap().is_part_of(&acme));
    // An escaped character does not separate, and an escaped space is not trimmed.
    let escaped = name(r"C=US,ST=WA,O=Acme\, Inc\2E\ ").unwrap();
    assert_eq!(escaped, name(r"C=US,ST=WA,O=Acme\2C\20Inc.\20").unwrap());
    for (text, problem) in [
        ("", "expected C, ST and O"),
        ("C=US,ST=WA", "expected C, ST and O"),
        ("C=US,ST=,O=A", "expected C, ST and O"),
        ("C=US,ST=WA,S=WA,O=A", "ST is repeated"),
        ("C=US+ST=WA,O=A", "several values"),
        ("C=US,ST=WA,O=\"A\"", "quotes"),
        (r"C=US,ST=WA,O=A\", "a backslash"),
        (r"C=US,ST=WA,O=A\zz", "a backslash"),
        ("C=US,ST=WA,O=#04", "expected KEY=VALUE"),
        ("C=US,ST,O=A", "expected C, ST and O"),
        ("US", "expected KEY=VALUE"),
    ] {
        let refused = name(text).unwrap_err().to_string();
        assert!(refused.contains(problem), "{text}: {refused}");
    }
}

#[test]
fn invalid_envelopes() {
    let deep = [vec![0x81; 1 << 16], vec![0]].concat();
    let huge = vec![0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    for bytes in [&b""[..], b"{}", b"\xd2\x84", b"\xd2\x80", &deep, &huge] {
        for media_type in [super::jws::MEDIA_TYPE, super::cose::MEDIA_TYPE] {
            let refused = super::Envelope::read(media_type, bytes)
                .unwrap_err()
                .to_string();
            assert_eq!(refused, "the envelope cannot be read", "{media_type}");
        }
    }
    assert!(super::Envelope::read("text/plain", b"").is_err());
}
