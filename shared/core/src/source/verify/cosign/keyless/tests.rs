//! What is refused before anything is proven, and whose a signature may be. What is proven is tested with cosign itself.

use super::*;
use crate::flux::OidcIdentity;
use serde_json::{Value, json};
use sigstore_verify::trust_root::SIGSTORE_PRODUCTION_TRUSTED_ROOT;

fn identities(wanted: &[(&str, &str)]) -> Result<Identities, String> {
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
fn whose_it_may_be() {
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
    // The halves of two identities are none.
    assert!(!have(&[("^i$", "^b$"), ("^a$", "^s$")], "i", &["s"]));
    assert!(have(&[("", "^s$")], "i", &["s"]));
    // Go's classes are ASCII.
    assert!(!have(&[("i", r"^\w$")], "i", &["ä"]));
    assert!(have(&[("i", r"^\Qa.b\E\z")], "i", &["a.b"]));
}

#[test]
fn expressions_that_cannot_be() {
    let why = |issuer: &str, subject: &str| identities(&[(issuer, subject)]).unwrap_err();
    assert_eq!(
        why("(", "s"),
        "malformed issuer in identity: missing closing ): `(`"
    );
    assert_eq!(
        why("i", &"a".repeat(5000)),
        "malformed subject in identity: it is too long"
    );
    assert_eq!(
        why("i", r"(\pL{1000})"),
        "malformed subject in identity: it is too large"
    );
    assert_eq!(
        identities(&[("i", "s"); 65]).unwrap_err(),
        "spec.verify.matchOIDCIdentity has more than 64 identities"
    );
}

#[test]
fn trusted_roots() {
    let root: Value = serde_json::from_str(SIGSTORE_PRODUCTION_TRUSTED_ROOT).unwrap();
    let read = |root: &Value| Root::read(root.to_string().as_bytes()).map(|_| ());
    assert_eq!(read(&root), Ok(()));
    // What protocol buffers leave out when it is empty.
    let mut short = root.clone();
    for (list, text) in [("ctlogs", "baseUrl"), ("certificateAuthorities", "uri")] {
        for member in short[list].as_array_mut().unwrap() {
            member.as_object_mut().unwrap().remove(text);
        }
    }
    assert_eq!(read(&short), Ok(()));
    let mut many = root.clone();
    many["tlogs"] = Value::from(vec![root["tlogs"][0].clone(); 33]);
    assert_eq!(read(&many).unwrap_err(), "has more than 32 tlogs");
    let mut twice = root.clone();
    twice["tlogs"] = Value::from(vec![root["tlogs"][0].clone(); 2]);
    let why = read(&twice).unwrap_err();
    assert!(why.starts_with("cannot be used: "), "{why}");
    let mut broken = root;
    broken["tlogs"] = json!([7]);
    assert!(read(&broken).unwrap_err().starts_with("cannot be used: "));
    assert!(
        read(&json!([]))
            .unwrap_err()
            .starts_with("is not a trusted root")
    );
}

#[test]
fn the_built_in_root_is_of_the_day_that_is_told() {
    use sha2::{Digest as _, Sha256};
    let found = hex::encode(Sha256::digest(SIGSTORE_PRODUCTION_TRUSTED_ROOT));
    let known = "6494e21ea73fa7ee769f85f57d5a3e6a08725eae1e38c755fc3517c9e6bc0b66";
    assert_eq!(
        found, known,
        "the crate brings another root: say of when it is in Root::PUBLIC_DATE and FLUX-API.md"
    );
}

#[test]
fn what_is_no_signature_of_cosign_2() {
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
        let told = keyless.check_simple(&layer, b"{}", b"signature");
        told.unwrap_err().to_string()
    };
    let text = entry.to_string();
    let entry = Some(text.as_str());
    assert!(check(None, entry).starts_with("it has no certificate"));
    assert_eq!(check(Some("text"), entry), "it cannot be read");
    assert!(check(Some(certificate), None).starts_with("it has no entry"));
    assert_eq!(check(Some(certificate), Some("{}")), "it cannot be read");
    let huge = " ".repeat(257 << 10);
    assert_eq!(
        check(Some(&huge), entry),
        "it has a certificate that is too large"
    );
    assert_eq!(
        check(Some(certificate), Some(&huge)),
        "it has an entry of a log that is too large"
    );
    let told = check(Some(certificate), entry);
    assert!(told.contains("ertificate"), "{told}");
}

#[test]
fn what_is_no_bundle() {
    const DIGEST: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    let check = |keyless: &Keyless, bundle: &Value| {
        let told = keyless.check_bundle(bundle.to_string().as_bytes(), DIGEST);
        told.unwrap_err().to_string()
    };
    let anybody = public(&[]);
    assert!(check(&anybody, &json!({})).contains("spec.verify.matchOIDCIdentity"));
    let keyless = public(&[("i", "s")]);
    assert_eq!(check(&keyless, &json!({})), "it cannot be read");
    let bundle = |material: Value| {
        json!({"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json", "verificationMaterial": material,
            "dsseEnvelope": {"payload": "e30=", "payloadType": "application/vnd.in-toto+json", "signatures": [{"sig": "MAA="}]}})
    };
    let told = check(&keyless, &bundle(json!({"publicKey": {"hint": "x"}})));
    assert!(told.starts_with("it has no certificate"), "{told}");
    let stamps = vec![json!({"signedTimestamp": "MAA="}); 9];
    let material = json!({"certificate": {"rawBytes": "MAA="},
        "timestampVerificationData": {"rfc3161Timestamps": stamps}});
    assert_eq!(
        check(&keyless, &bundle(material)),
        "it has too many entries of logs or time stamps"
    );
    let told = check(
        &keyless,
        &bundle(json!({"certificate": {"rawBytes": "MAA="}})),
    );
    assert!(!told.is_empty());
}
