//! Input that is refused before the library checks it, and accepted identities. The checks
//! themselves are tested with cosign.

use super::*;
use driftless_flux::{Invalid, OidcIdentity};
use serde_json::{Value, json};
use sigstore_verify::trust_root::SIGSTORE_PRODUCTION_TRUSTED_ROOT;

fn identities(wanted: &[(&str, &str)]) -> Result<Identities, Invalid> {
    let wanted: Vec<OidcIdentity> = wanted
        .iter()
        .map(|(issuer, subject)| OidcIdentity {
            issuer: (*issuer).to_owned(),
            subject: (*subject).to_owned(),
        })
        .collect();
    Identities::compile(&wanted)
}

fn public(wanted: &[(&str, &str)]) -> Keyless {
    Keyless::new(Root::public().unwrap(), identities(wanted).unwrap())
}

#[test]
fn accepted_identities() {
    let have = |wanted: &[(&str, &str)], issuer: &str, subjects: &[&str]| {
        let subjects: Vec<String> = subjects.iter().map(|&one| one.to_owned()).collect();
        identities(wanted).unwrap().have(issuer, &subjects)
    };
    assert!(have(&[], "i", &["s"]));
    assert!(have(&[("^i$", "^s$")], "i", &["s"]));
    assert!(have(&[("^i$", "^s$")], "i", &["r", "s"]));
    assert!(!have(&[("^i$", "^s$")], "i", &[]));
    assert!(!have(&[("^i$", "^s$")], "ii", &["s"]));
    assert!(!have(&[("^i$", "^s$")], "i", &["ss"]));
    assert!(have(&[("^a$", "^b$"), ("^i$", "^s$")], "i", &["s"]));
    // The halves of two identities are not an identity.
    assert!(!have(&[("^i$", "^b$"), ("^a$", "^s$")], "i", &["s"]));
    assert!(have(&[("", "^s$")], "i", &["s"]));
    // Go's classes are ASCII.
    assert!(!have(&[("i", r"^\w$")], "i", &["ä"]));
    assert!(have(&[("i", r"^\Qa.b\E\z")], "i", &["a.b"]));
}

#[test]
fn invalid_expressions() {
    let error =
        |issuer: &str, subject: &str| identities(&[(issuer, subject)]).unwrap_err().to_string();
    assert_eq!(
        error("(", "s"),
        "malformed issuer in identity: missing closing ): `(`"
    );
    assert_eq!(
        error("i", &"a".repeat(5000)),
        "malformed subject in identity: the expression is too long"
    );
    assert_eq!(
        error("i", r"(\pL{1000})"),
        "malformed subject in identity: the expression is too large"
    );
    assert_eq!(
        identities(&[("i", "s"); 65]).unwrap_err().to_string(),
        "spec.verify.matchOIDCIdentity has more than 64 identities"
    );
}

#[test]
fn trusted_roots() {
    let root: Value = serde_json::from_str(SIGSTORE_PRODUCTION_TRUSTED_ROOT).unwrap();
    let read = |root: &Value| Root::read(root.to_string().as_bytes()).map(|_| ());
    assert_eq!(read(&root), Ok(()));
    // Protocol buffers omit empty fields.
    let mut short = root.clone();
    for (list, text) in [("ctlogs", "baseUrl"), ("certificateAuthorities", "uri")] {
        for member in short[list].as_array_mut().unwrap() {
            member.as_object_mut().unwrap().remove(text);
        }
    }
    assert_eq!(read(&short), Ok(()));
    let mut many = root.clone();
    many["tlogs"] = Value::from(vec![root["tlogs"][0].clone(); 33]);
    assert_eq!(
        read(&many).unwrap_err().to_string(),
        "has more than 32 tlogs"
    );
    let mut duplicate = root.clone();
    duplicate["tlogs"] = Value::from(vec![root["tlogs"][0].clone(); 2]);
    let error = read(&duplicate).unwrap_err().to_string();
    assert!(error.starts_with("cannot be used: "), "{error}");
    let mut broken = root;
    broken["tlogs"] = json!([7]);
    assert!(
        read(&broken)
            .unwrap_err()
            .to_string()
            .starts_with("cannot be used: ")
    );
    assert!(
        read(&json!([]))
            .unwrap_err()
            .to_string()
            .starts_with("is not a trusted root")
    );
}

#[test]
fn the_built_in_root_is_of_the_public_date() {
    use sha2::{Digest as _, Sha256};
    let found = hex::encode(Sha256::digest(SIGSTORE_PRODUCTION_TRUSTED_ROOT));
    let known = "6494e21ea73fa7ee769f85f57d5a3e6a08725eae1e38c755fc3517c9e6bc0b66";
    assert_eq!(
        found, known,
        "the crate has another root: update its date in Root::PUBLIC_DATE and FLUX-API.md"
    );
}

#[test]
fn invalid_signatures_of_cosign_2() {
    let keyless = public(&[]);
    let entry = json!({"SignedEntryTimestamp": "MAA=", "Payload": {"body": "e30=", "integratedTime": 1, "logIndex": 1, "logID": "00"}});
    let certificate = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
    let check = |certificate: Option<&str>, entry: Option<&str>| {
        let annotations = [
            (CERTIFICATE, certificate),
            ("dev.sigstore.cosign/bundle", entry),
        ];
        let annotations = annotations
            .into_iter()
            .filter_map(|(name, text)| Some((name.to_owned(), text?.to_owned())));
        let layer = Layer {
            annotations: annotations.collect(),
            ..Layer::default()
        };
        let checked = keyless.check_simple(&layer, b"{}", b"signature");
        checked.unwrap_err().to_string().to_string()
    };
    let text = entry.to_string();
    let entry = Some(text.as_str());
    assert!(check(None, entry).starts_with("the signature has no certificate"));
    assert_eq!(check(Some("text"), entry), "the signature cannot be read");
    assert!(check(Some(certificate), None).starts_with("the signature has no entry"));
    assert_eq!(
        check(Some(certificate), Some("{}")),
        "the signature cannot be read"
    );
    let huge = " ".repeat(257 << 10);
    assert_eq!(
        check(Some(&huge), entry),
        "the signature has a certificate that is too large"
    );
    assert_eq!(
        check(Some(certificate), Some(&huge)),
        "the signature has a log entry that is too large"
    );
    let refused = check(Some(certificate), entry);
    assert!(refused.contains("ertificate"), "{refused}");
}

#[test]
fn invalid_bundles() {
    const DIGEST: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    let check = |keyless: &Keyless, bundle: &Value| {
        let checked = keyless.check_bundle(bundle.to_string().as_bytes(), DIGEST);
        checked.unwrap_err().to_string().to_string()
    };
    let unnamed = public(&[]);
    assert!(check(&unnamed, &json!({})).contains("spec.verify.matchOIDCIdentity"));
    let keyless = public(&[("i", "s")]);
    assert_eq!(check(&keyless, &json!({})), "the signature cannot be read");
    let bundle = |material: Value| {
        json!({"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json", "verificationMaterial": material,
            "dsseEnvelope": {"payload": "e30=", "payloadType": "application/vnd.in-toto+json", "signatures": [{"sig": "MAA="}]}})
    };
    let refused = check(&keyless, &bundle(json!({"publicKey": {"hint": "x"}})));
    assert!(
        refused.starts_with("the signature has no certificate"),
        "{refused}"
    );
    let stamps = vec![json!({"signedTimestamp": "MAA="}); 9];
    let material = json!({"certificate": {"rawBytes": "MAA="},
        "timestampVerificationData": {"rfc3161Timestamps": stamps}});
    assert_eq!(
        check(&keyless, &bundle(material)),
        "the signature has too many log entries or time stamps"
    );
    let refused = check(
        &keyless,
        &bundle(json!({"certificate": {"rawBytes": "MAA="}})),
    );
    assert!(!refused.is_empty());
}
