//! Signatures of notation.

use super::{APP, Signed, expected_condition};
use crate::charts::{SPACE, text};
use driftless_harness::charts::sign::Signer;
use serde_json::{Value, json};

/// One artifact, its signatures, and the policy by which they are judged.
struct Case {
    name: &'static str,
    /// The signatures: the signer of each, and the options of signing.
    signatures: Vec<(By, Value)>,
    policy: Value,
    /// The expected result: verified, ignored, or refused with this part of a message.
    expected: Expected,
}

#[derive(Clone, Copy, PartialEq)]
enum By {
    /// The signer whose root is trusted.
    Own,
    /// An untrusted signer with the same names.
    Stranger,
    /// A signer of the trusted root with an expired certificate.
    Expired,
}

enum Expected {
    Verified,
    Ignored,
    Refused(&'static str),
    /// notation-go accepts it; driftless does not.
    RefusedHere(&'static str),
}

fn policy(level: Value) -> Value {
    json!({"version": "1.0", "trustPolicies": [{"name": "all", "registryScopes": ["*"], "signatureVerification": level,
        "trustStores": ["ca:acme"], "trustedIdentities": ["x509.subject: C=US, ST=WA, O=Acme"]}]})
}

fn strict() -> Value {
    policy(json!({"level": "strict"}))
}

fn case(name: &'static str, signature: Value, policy: Value, expected: Expected) -> Case {
    Case {
        name,
        signatures: vec![(By::Own, signature)],
        policy,
        expected,
    }
}

/// Returns a policy with another list in its statement.
fn policy_with(key: &str, value: Value) -> Value {
    let mut policy = strict();
    policy["trustPolicies"][0][key] = value;
    policy
}

fn cases(host: &str) -> Vec<Case> {
    use Expected::{Ignored, Refused, RefusedHere, Verified};
    let plain = || json!({});
    let permissive = || policy(json!({"level": "permissive"}));
    let audit = || policy(json!({"level": "audit"}));
    let over = || json!({"age": "2h", "lifetime": "1h"});
    let other = format!("sha256:{}", "a".repeat(64));
    let own_scope = format!("{host}/{APP}");
    let elsewhere = format!("{host}/team/other");
    let authority = json!({"scheme": "notary.x509.signingAuthority"});
    let by = |name, by, policy, expected| Case {
        name,
        signatures: vec![(by, json!({}))],
        policy,
        expected,
    };
    let aged = |policy, expected, name| Case {
        name,
        signatures: vec![(By::Expired, json!({"age": "3h"}))],
        policy,
        expected,
    };
    let untrusted = "the signer's certificate was not issued by a trusted authority";
    vec![
        case("plain", plain(), strict(), Verified),
        case("lasting", json!({"lifetime": "87600h"}), strict(), Verified),
        case(
            "scoped",
            plain(),
            policy_with("registryScopes", json!([own_scope])),
            Verified,
        ),
        case(
            "any-identity",
            plain(),
            policy_with("trustedIdentities", json!(["*"])),
            Verified,
        ),
        case(
            "countersigned-later",
            plain(),
            {
                let mut policy = policy_with("trustStores", json!(["ca:acme", "tsa:acme"]));
                policy["trustPolicies"][0]["signatureVerification"]["verifyTimestamp"] =
                    json!("afterCertExpiry");
                policy
            },
            Verified,
        ),
        case(
            "elsewhere",
            plain(),
            policy_with("registryScopes", json!([elsewhere])),
            Refused("has no statement whose registryScopes"),
        ),
        case(
            "another",
            plain(),
            policy_with(
                "trustedIdentities",
                json!(["x509.subject:C=US,ST=WA,O=Other"]),
            ),
            Refused("the signer is not one of the trustedIdentities"),
        ),
        case(
            "another-audit",
            plain(),
            {
                let mut policy = audit();
                policy["trustPolicies"][0]["trustedIdentities"] =
                    json!(["x509.subject:C=US,ST=WA,O=Other"]);
                policy
            },
            Ignored,
        ),
        case(
            "no-store",
            plain(),
            policy_with("trustStores", json!(["signingAuthority:acme"])),
            Refused(untrusted),
        ),
        case(
            "countersigned",
            plain(),
            policy_with("trustStores", json!(["ca:acme", "tsa:acme"])),
            Refused("the policy requires the countersignature"),
        ),
        by("stranger", By::Stranger, strict(), Refused(untrusted)),
        by(
            "stranger-permissive",
            By::Stranger,
            permissive(),
            Refused(untrusted),
        ),
        by("stranger-audit", By::Stranger, audit(), Ignored),
        case(
            "over",
            over(),
            strict(),
            Refused("the signature has expired"),
        ),
        case("over-permissive", over(), permissive(), Verified),
        case(
            "over-enforced",
            over(),
            policy(json!({"level": "permissive", "override": {"expiry": "enforce"}})),
            Refused("the signature has expired"),
        ),
        aged(
            strict(),
            Refused("a certificate of the signer's chain is valid from"),
            "expired",
        ),
        aged(permissive(), Verified, "expired-permissive"),
        case(
            "copied",
            json!({"digest": other}),
            strict(),
            Refused("the signature is for another artifact"),
        ),
        case(
            "copied-audit",
            json!({"digest": other}),
            audit(),
            Refused("the signature is for another artifact"),
        ),
        case(
            "authority",
            authority.clone(),
            policy_with("trustStores", json!(["signingAuthority:acme"])),
            Verified,
        ),
        case("authority-ca", authority, strict(), Refused(untrusted)),
        case("cose", json!({"format": "cose"}), strict(), Verified),
        case(
            "cose-lasting",
            json!({"format": "cose", "lifetime": "87600h"}),
            strict(),
            Verified,
        ),
        case(
            "cose-over",
            json!({"format": "cose", "age": "2h", "lifetime": "1h"}),
            strict(),
            Refused("the signature has expired"),
        ),
        case(
            "cose-copied",
            json!({"format": "cose", "digest": other}),
            strict(),
            Refused("the signature is for another artifact"),
        ),
        case(
            "cose-authority",
            json!({"format": "cose", "scheme": "notary.x509.signingAuthority"}),
            policy_with("trustStores", json!(["signingAuthority:acme"])),
            Verified,
        ),
        case(
            "cose-attribute",
            json!({"format": "cose", "attribute": "example.com/x"}),
            strict(),
            RefusedHere("critical attribute 'example.com/x' is not supported"),
        ),
        case(
            "attribute",
            json!({"attribute": "example.com/x"}),
            strict(),
            RefusedHere("critical attribute 'example.com/x' is not supported"),
        ),
        Case {
            name: "second",
            signatures: vec![(By::Stranger, plain()), (By::Own, plain())],
            policy: strict(),
            expected: Verified,
        },
        Case {
            name: "fourth",
            signatures: vec![
                (By::Stranger, plain()),
                (By::Stranger, plain()),
                (By::Stranger, plain()),
                (By::Own, plain()),
            ],
            policy: strict(),
            expected: Refused("none of the first 3 signatures"),
        },
        Case {
            name: "unsigned",
            signatures: Vec::new(),
            policy: strict(),
            expected: Refused("the artifact has no notation signature"),
        },
        Case {
            name: "unsigned-audit",
            signatures: Vec::new(),
            policy: audit(),
            expected: Refused("the artifact has no notation signature"),
        },
        Case {
            name: "skipped",
            signatures: Vec::new(),
            policy: json!({"version": "1.0", "trustPolicies": [{"name": "all",
            "registryScopes": ["*"], "signatureVerification": {"level": "skip"}}]}),
            expected: Ignored,
        },
    ]
}

#[test]
fn signatures_of_notation_embedded() {
    let signed = Signed::start();
    let host = &signed.world.host;
    // The registry decides the order of signatures; with lists under a tag it is that of the
    // pushes.
    let directory = signed.world.directory.path();
    let options = json!({"kind": "p256", "organization": "Acme", "intermediate": true});
    let own = Signer::new(directory, "own-signer", &options);
    let stranger = Signer::new(directory, "stranger", &options);
    let expired = json!({"kind": "p256", "organization": "Acme", "alone": true, "expired": "1h"});
    let expired = Signer::new(directory, "expired-signer", &expired);

    let mut objects = vec![signed.repository()];
    let cases = cases(&host.name());
    for (number, case) in cases.iter().enumerate() {
        let version = format!("1.{number}.0");
        signed.publish(&version);
        let mut root = &own;
        for (by, options) in &case.signatures {
            let signer = match by {
                By::Own => &own,
                By::Stranger => &stranger,
                By::Expired => &expired,
            };
            if *by == By::Expired {
                root = &expired;
            }
            signer.sign(host, APP, &version, options);
        }
        let judged = root.judge(host, APP, &version, &case.policy);
        let expected = match case.expected {
            Expected::Verified | Expected::RefusedHere(_) => Some("verified"),
            Expected::Ignored => Some("ignored"),
            Expected::Refused(_) => None,
        };
        assert_eq!(
            judged.as_deref().ok(),
            expected,
            "{}: {judged:?}",
            case.name
        );
        let policy = case.policy.to_string();
        let secret = json!({"trustpolicy.json": policy, "root.crt": root.root()});
        signed.world.hub().secret(SPACE, case.name, &secret);
        objects.extend(signed.sources_of("notation", case.name, &version, case.name));
    }
    signed.world.push(&objects);
    for (number, case) in cases.iter().enumerate() {
        for kind in ["OCIRepository", "HelmChart"] {
            check(&signed, kind, case, &format!("1.{number}.0"));
        }
    }
}

/// Checks the status of a case's object.
fn check(signed: &Signed, kind: &str, case: &Case, version: &str) {
    let name = case.name;
    let (ready, reason, message) = signed.condition(kind, name, "Ready");
    let verified = signed.condition(kind, name, "SourceVerified");
    let artifact = &signed.world.get(kind, name)["status"]["artifact"];
    match case.expected {
        Expected::Verified | Expected::Ignored => {
            assert_eq!(ready, "True", "{kind} {name}: {message}");
            assert!(
                text(&artifact["revision"]).starts_with(version),
                "{kind} {name}"
            );
        }
        Expected::Refused(message_part) | Expected::RefusedHere(message_part) => {
            assert_eq!(
                (&*ready, &*reason),
                ("False", "VerificationError"),
                "{kind} {name}"
            );
            assert!(message.contains(message_part), "{kind} {name}: {message}");
            assert_eq!(artifact, &Value::Null, "{kind} {name}");
            assert_eq!(
                verified,
                expected_condition("False", "VerificationError", &message)
            );
        }
    }
    match case.expected {
        Expected::Verified => assert_eq!(
            (&*verified.0, &*verified.1),
            ("True", "Succeeded"),
            "{kind} {name}"
        ),
        // As in Flux, an artifact without verification has no condition SourceVerified.
        Expected::Ignored => assert_eq!(verified.0, "", "{kind} {name}"),
        _ => {}
    }
}

#[test]
fn certificates_of_notation_embedded() {
    let signed = Signed::start();
    let (host, directory) = (&signed.world.host, signed.world.directory.path());
    let mut objects = vec![signed.repository()];
    let kinds = ["p256", "p384", "p521", "rsa", "rsa3072", "rsa4096"];
    let formats = ["jws", "cose"].into_iter().cycle();
    let mut cases = Vec::new();
    for kind in kinds {
        cases.push((
            kind.to_owned(),
            json!({"kind": kind, "organization": "Acme"}),
            "strict",
        ));
    }
    let of = |key: &str, value: Value| {
        let mut options = json!({"kind": "p256", "organization": "Acme"});
        options[key] = value;
        options
    };
    cases.push(("alone".to_owned(), of("alone", json!(true)), "strict"));
    cases.push((
        "revocable".to_owned(),
        of("revocation", json!("http://127.0.0.1:9/crl")),
        "strict",
    ));
    cases.push((
        "revocable-logged".to_owned(),
        of("revocation", json!("http://127.0.0.1:9/crl")),
        "permissive",
    ));
    for ((number, (name, options, level)), format) in cases.iter().enumerate().zip(formats) {
        let version = format!("1.{number}.0");
        signed.publish(&version);
        let signer = Signer::new(directory, name, options);
        signer.sign(host, APP, &version, &json!({"format": format}));
        let policy = policy(json!({"level": level}));
        let judged = signer.judge(host, APP, &version, &policy);
        assert_eq!(judged.is_ok(), name != "revocable", "{name}: {judged:?}");
        let secret = json!({"trustpolicy.json": policy.to_string(), "root.pem": signer.root()});
        signed.world.hub().secret(SPACE, name, &secret);
        objects.extend(signed.sources_of("notation", name, &version, name));
    }
    // Secrets with missing or invalid entries.
    let root = Signer::new(directory, "root", &cases[0].1).root();
    let hub = signed.world.hub();
    for (name, entries) in [
        ("no-policy", json!({"root.crt": root})),
        (
            "no-certificate",
            json!({"trustpolicy.json": strict().to_string()}),
        ),
        (
            "no-such-policy",
            json!({"trustpolicy.json": "{}", "root.crt": root}),
        ),
        (
            "no-such-certificate",
            json!({"trustpolicy.json": strict().to_string(), "root.crt": "canary"}),
        ),
    ] {
        hub.secret(SPACE, name, &entries);
        objects.extend(signed.sources_of("notation", name, "1.0.0", name));
    }
    signed.world.push(&objects);
    for (name, _, _) in &cases {
        for kind in ["OCIRepository", "HelmChart"] {
            let (ready, _, message) = signed.condition(kind, name, "Ready");
            let expected = if name == "revocable" { "False" } else { "True" };
            assert_eq!(ready, expected, "{kind} {name}: {message}");
            assert_eq!(
                message.contains("override revocation"),
                name == "revocable",
                "{message}"
            );
        }
    }
    let prefix = "failed to verify the signature using provider 'notation'";
    for (name, reason) in [
        (
            "no-policy",
            "'trustpolicy.json' not found in secret 'flux-system/no-policy'",
        ),
        (
            "no-certificate",
            "no certificates found in secret 'flux-system/no-certificate': expected entries whose names end in .crt or .pem",
        ),
        (
            "no-such-policy",
            "secret 'flux-system/no-such-policy': trustpolicy.json: expected \"version\": \"1.0\"",
        ),
        (
            "no-such-certificate",
            "secret 'flux-system/no-such-certificate': 'root.crt' is not a certificate: expected PEM (CERTIFICATE) or DER",
        ),
    ] {
        let failed =
            expected_condition("False", "VerificationError", &format!("{prefix}: {reason}"));
        for kind in ["OCIRepository", "HelmChart"] {
            assert_eq!(signed.condition(kind, name, "Ready"), failed);
        }
    }
}
