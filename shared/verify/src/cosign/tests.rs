//! Checks of signatures by the tests' own keys in an in-memory registry: accepted ones, and those
//! of a hostile registry.

use super::super::testing::{Registry, Signer, layer, p256, signers};
use super::*;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use driftless_kernel::ports::Manifest;
use futures::executor::block_on;
use serde_json::json;

/// The digest of the signed manifest.
const DIGEST: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const OTHER: &str = "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
const BUNDLE_TYPE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

fn key(signer: &Signer) -> PublicKey {
    PublicKey::from_pem(signer.public_pem().as_bytes()).unwrap()
}

fn check_by(registry: &Registry, keys: &[PublicKey]) -> Result<(), String> {
    let artifact = Artifact {
        repository: "registry.example.com/app",
        digest: DIGEST,
        connection: &driftless_kernel::ports::Connection::default(),
    };
    let by = Signers::Keys(keys.to_vec());
    block_on(check(registry, &artifact, &by)).map_err(|reason| reason.to_string())
}

fn statement(digest: &str) -> Vec<u8> {
    let image = json!({"docker-manifest-digest": digest});
    json!({"critical": {"identity": {"docker-reference": ""}, "image": image, "type": "cosign container image signature"}})
        .to_string()
        .into_bytes()
}

/// Adds a manifest of signatures of cosign 2, given as pairs of statement and signature.
fn simple(registry: &mut Registry, signatures: &[(Vec<u8>, Vec<u8>)]) {
    let layers = signatures.iter().map(|(statement, signature)| {
        let mut layer = registry.blob(
            "application/vnd.dev.cosign.simplesigning.v1+json",
            statement,
        );
        let signature = STANDARD.encode(signature);
        layer.annotations.insert(SIGNATURE.to_owned(), signature);
        layer
    });
    let layers = layers.collect();
    let tag = format!("{}.sig", DIGEST.replace(':', "-"));
    registry.tag(&tag, layers);
}

fn bundle_of(signer: &Signer, digest: &str) -> serde_json::Value {
    let payload = json!({"_type": "https://in-toto.io/Statement/v1", "subject": [{"digest": {"sha256": &digest[7..]}}],
        "predicateType": "https://sigstore.dev/cosign/sign/v1", "predicate": {}})
    .to_string();
    let kind = "application/vnd.in-toto+json";
    let message = format!("DSSEv1 {} {kind} {} {payload}", kind.len(), payload.len());
    json!({"mediaType": BUNDLE_TYPE, "verificationMaterial": {"publicKey": {"hint": "x"}},
        "dsseEnvelope": {"payload": STANDARD.encode(&payload), "payloadType": kind,
            "signatures": [{"sig": STANDARD.encode(signer.sign(message.as_bytes()))}]}})
}

fn refer(registry: &mut Registry, bundle: &serde_json::Value) {
    let layer = registry.blob(BUNDLE_TYPE, bundle.to_string().as_bytes());
    registry.refer(DIGEST, vec![layer]);
}

/// Asserts that one trusted key and one good signature of two are enough.
fn one_of_two_is_by(registry: &Registry, signer: &Signer, name: &str) {
    let (own, other) = (key(signer), key(&p256(8)));
    assert_eq!(check_by(registry, &[other.clone(), own]), Ok(()), "{name}");
    let refused = check_by(registry, &[other]).unwrap_err();
    assert_eq!(
        refused,
        "none of the 2 signatures is for this digest and by a trusted key"
    );
}

#[test]
fn signatures_of_cosign_2() {
    for (name, signer) in signers() {
        let mut registry = Registry::default();
        let signed = (statement(DIGEST), signer.sign(&statement(DIGEST)));
        let strange = (statement(DIGEST), p256(9).sign(&statement(DIGEST)));
        simple(&mut registry, &[strange, signed]);
        one_of_two_is_by(&registry, &signer, name);
    }
}

#[test]
fn hostile_signatures_of_cosign_2() {
    let signer = p256(1);
    let keys = [key(&signer)];
    let refused = |signatures: &[(Vec<u8>, Vec<u8>)]| {
        let mut registry = Registry::default();
        simple(&mut registry, signatures);
        check_by(&registry, &keys).unwrap_err()
    };
    let others = "none of the 1 signatures is for this digest and by a trusted key";
    // The copied signature of another artifact.
    assert_eq!(
        refused(&[(statement(OTHER), signer.sign(&statement(OTHER)))]),
        others
    );
    // A statement that was edited after it was signed.
    assert_eq!(
        refused(&[(statement(DIGEST), signer.sign(&statement(OTHER)))]),
        others
    );
    // Invalid signatures.
    assert_eq!(refused(&[(statement(DIGEST), Vec::new())]), others);
    assert_eq!(refused(&[(b"{".to_vec(), signer.sign(b"{"))]), others);
    assert!(refused(&[]).starts_with("the artifact has no cosign signature"));
    let many = vec![(statement(OTHER), Vec::new()); MAX_SIGNATURES + 1];
    assert_eq!(
        refused(&many),
        "the artifact has 101 signatures: at most 100 are checked"
    );
    // A statement that is too large is never read, whatever the size in its layer is.
    let huge = [statement(DIGEST), vec![b' '; MAX_STATEMENT_BYTES as usize]].concat();
    let signature = signer.sign(&huge);
    assert_eq!(refused(&[(huge, signature)]), others);
    // A layer without annotations.
    let mut registry = Registry::default();
    let bare = registry.blob("x", &statement(DIGEST));
    registry.tag(&format!("{}.sig", DIGEST.replace(':', "-")), vec![bare]);
    assert_eq!(check_by(&registry, &keys).unwrap_err(), others);
    // Without any key, no signer is trusted.
    let mut registry = Registry::default();
    simple(
        &mut registry,
        &[(statement(DIGEST), signer.sign(&statement(DIGEST)))],
    );
    assert_eq!(check_by(&registry, &[]).unwrap_err(), others);
}

#[test]
fn bundles_of_cosign_3() {
    for (name, signer) in signers() {
        let mut registry = Registry::default();
        registry.refer(DIGEST, vec![layer("application/spdx+json")]);
        refer(&mut registry, &bundle_of(&p256(9), DIGEST));
        refer(&mut registry, &bundle_of(&signer, DIGEST));
        one_of_two_is_by(&registry, &signer, name);
    }
}

#[test]
fn hostile_bundles() {
    let signer = p256(1);
    let keys = [key(&signer)];
    let others = "none of the 1 signatures is for this digest and by a trusted key";
    let good = bundle_of(&signer, DIGEST);
    let edited = |path: &str, value: serde_json::Value| {
        let mut bundle = good.clone();
        *bundle.pointer_mut(path).unwrap() = value;
        bundle
    };
    let payload = |bundle: &serde_json::Value| bundle["dsseEnvelope"]["payload"].clone();
    let two = json!([{"sig": good["dsseEnvelope"]["signatures"][0]["sig"]}, {"sig": ""}]);
    for (name, bundle) in [
        ("another artifact's", bundle_of(&signer, OTHER)),
        (
            "an edited payload",
            edited("/dsseEnvelope/payload", payload(&bundle_of(&signer, OTHER))),
        ),
        (
            "another type",
            edited("/dsseEnvelope/payloadType", json!("text/plain")),
        ),
        ("two signatures", edited("/dsseEnvelope/signatures", two)),
        ("none", edited("/dsseEnvelope/signatures", json!([]))),
        (
            "a certificate",
            edited(
                "/verificationMaterial",
                json!({"certificate": {"rawBytes": ""}}),
            ),
        ),
        ("no envelope", edited("/dsseEnvelope", json!(null))),
    ] {
        let mut registry = Registry::default();
        refer(&mut registry, &bundle);
        // As in Flux, older signatures are not read if there is a bundle.
        simple(
            &mut registry,
            &[(statement(DIGEST), signer.sign(&statement(DIGEST)))],
        );
        assert_eq!(check_by(&registry, &keys).unwrap_err(), others, "{name}");
    }
    let mut registry = Registry::default();
    refer(&mut registry, &good);
    assert_eq!(check_by(&registry, &keys), Ok(()));
    for _ in 0..MAX_SIGNATURES {
        refer(&mut registry, &good);
    }
    let many = check_by(&registry, &keys).unwrap_err();
    assert!(many.starts_with("the artifact has 101 referrers"), "{many}");
}

#[test]
fn invalid_bundles_leave_the_check_to_older_signatures() {
    let signer = p256(1);
    let keys = [key(&signer)];
    let old = json!("application/vnd.dev.sigstore.bundle+json;version=0.2");
    let mut outdated = bundle_of(&signer, DIGEST);
    outdated["mediaType"] = old;
    let mut registry = Registry::default();
    refer(&mut registry, &outdated);
    refer(&mut registry, &json!("text"));
    assert!(check_by(&registry, &keys).is_err());
    simple(
        &mut registry,
        &[(statement(DIGEST), signer.sign(&statement(DIGEST)))],
    );
    assert_eq!(check_by(&registry, &keys), Ok(()));
    // A registry that refuses to list referrers may still have signatures; without one, the refusal
    // is reported.
    registry.deny_referrers = true;
    assert_eq!(check_by(&registry, &keys), Ok(()));
    registry.manifests = std::collections::BTreeMap::<String, Manifest>::new();
    assert_eq!(check_by(&registry, &keys).unwrap_err(), "denied");
}
