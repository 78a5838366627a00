//! Keyless signatures: a test Sigstore certifies identities, and cosign itself judges each
//! signature.

use super::{APP, Signed, expected_condition};
use crate::charts::SPACE;
use driftless_harness::charts::sign::{Cosign, Sigstore};
use serde_json::{Value, json};

const ISSUER: &str = "https://token.example.com";
const SUBJECT: &str =
    "https://git.example.com/acme/app/.github/workflows/release.yaml@refs/heads/main";
const MAIL: &str = "ann@example.com";
const FORMS: [&str; 3] = ["simple", "bundle", "bundle-v2"];

/// Returns the identities that may sign.
fn identities() -> Value {
    json!([{"issuer": "^https://token\\.example\\.com$", "subject": "^https://git\\.example\\.com/acme/app/.*@refs/heads/main$"}])
}

/// The faults of a signature of each form, with a part of their messages.
const FAULTS: [(&str, &[(&str, &str)]); 3] = [
    (
        "simple",
        &[
            ("expired", "certificate"),
            ("purpose", "certificate chain is invalid"),
            ("no-ctlog", "missing SCT extension"),
            ("other-ctlog", "invalid signed certificate timestamp"),
            ("other-authority", "certificate chain is invalid"),
            ("other-rekor", "No log key valid"),
            ("other-entry", "hash mismatch for hashedrekord entry"),
            ("time", "invalid inclusion promise"),
            (
                "no-entry",
                "the signature has no entry of a transparency log",
            ),
            ("edited", "invalid signature"),
        ],
    ),
    (
        "bundle",
        &[
            ("expired", "certificate"),
            ("purpose", "certificate chain is invalid"),
            ("no-ctlog", "missing SCT extension"),
            ("other-ctlog", "invalid signed certificate timestamp"),
            ("other-authority", "certificate chain is invalid"),
            ("other-rekor", "No log key valid"),
            ("other-entry", "log entry does not match the bundle"),
            ("time", "invalid inclusion promise"),
            ("no-entry", "Bundle error"),
            ("edited", "invalid signature"),
            ("proof", "invalid inclusion proof"),
            ("no-promise", "no verified timestamp"),
            ("no-proof", "Bundle error"),
        ],
    ),
    (
        "bundle-v2",
        &[
            ("expired", "certificate"),
            ("no-ctlog", "missing SCT extension"),
            ("other-authority", "certificate chain is invalid"),
            ("other-rekor", "invalid checkpoint"),
            ("other-stamps", "timestamp"),
            ("other-entry", "artifact mismatch"),
            ("no-stamp", "no verified timestamp"),
            ("no-entry", "Bundle error"),
            ("edited", "invalid signature"),
            ("proof", "invalid inclusion proof"),
        ],
    ),
];

/// A world, a Sigstore, the Secret `sigstore` with its trusted root, and the published objects.
struct Keyless {
    signed: Signed,
    sigstore: Sigstore,
    objects: Vec<Value>,
}

impl Keyless {
    fn start() -> Self {
        let signed = Signed::start();
        let sigstore = Sigstore::new(signed.world.directory.path(), "sigstore");
        let trusted = json!({"trusted_root.json": sigstore.trusted_root()});
        signed.world.hub().secret(SPACE, "sigstore", &trusted);
        Self {
            signed,
            sigstore,
            objects: Vec::new(),
        }
    }

    /// Publishes a version with one signature.
    fn publish(&self, version: &str, options: &Value) {
        self.signed.publish(version);
        let mut all = json!({"issuer": ISSUER, "subject": SUBJECT});
        for (key, value) in options.as_object().expect("an object") {
            all[key] = value.clone();
        }
        (self.sigstore).sign(&self.signed.world.host, APP, version, &all);
    }

    /// Returns cosign's own judgement of a version.
    fn judge(&self, version: &str, identities: &Value) -> Result<(), String> {
        let host = &self.signed.world.host;
        self.sigstore.judge(host, APP, version, identities)
    }

    /// Adds an OCIRepository of a version that one of these identities must have signed.
    fn add(&mut self, name: &str, version: &str, identities: &Value) {
        let verify = json!({"provider": "cosign", "matchOIDCIdentity": identities,
            "trustedRootSecretRef": {"name": "sigstore"}});
        let [_, repository] = self.signed.verified(name, version, &verify);
        self.objects.push(repository);
    }

    fn settle(&self) {
        self.signed.world.push(&self.objects);
    }

    /// Returns status and message of the condition `SourceVerified` of an OCIRepository.
    fn verified(&self, name: &str) -> (String, String) {
        let condition = self
            .signed
            .condition("OCIRepository", name, "SourceVerified");
        let ready = self.signed.condition("OCIRepository", name, "Ready");
        assert_eq!(condition.0, ready.0, "{name}: {condition:?} {ready:?}");
        (condition.0, condition.2)
    }
}

#[test]
fn keyless_signatures_embedded() {
    let mut keyless = Keyless::start();
    let signers = [
        (json!({}), identities()),
        (
            json!({"subject": MAIL}),
            json!([{"issuer": ISSUER, "subject": "^ann@example\\.com$"}]),
        ),
        (
            json!({"subject": "ann!example.com", "userName": true}),
            json!([{"issuer": ISSUER, "subject": "^ann!example\\.com$"}]),
        ),
    ];
    for (form, name) in FORMS.into_iter().enumerate() {
        for (number, (signer, identities)) in signers.iter().enumerate() {
            let version = format!("1.{form}.{number}");
            let mut options = signer.clone();
            options["form"] = json!(name);
            keyless.publish(&version, &options);
            assert_eq!(keyless.judge(&version, identities), Ok(()), "{options}");
            keyless.add(&format!("good-{form}-{number}"), &version, identities);
        }
    }
    // Other kinds of keys; and untrusted time stamps where the log has the time.
    let more = [
        json!({"form": "simple", "kind": "p384"}),
        json!({"form": "simple", "kind": "rsa"}),
        json!({"form": "bundle", "kind": "rsa"}),
        json!({"form": "bundle", "fault": "other-stamps"}),
        // A curve whose hash is not the log's: cosign tries both hashes, driftless that of the
        // curve.
        json!({"form": "bundle", "kind": "p384"}),
    ];
    let refused = format!("more-{}", more.len() - 1);
    for (number, options) in more.iter().enumerate() {
        let version = format!("2.0.{number}");
        keyless.publish(&version, options);
        assert_eq!(keyless.judge(&version, &identities()), Ok(()), "{options}");
        keyless.add(&format!("more-{number}"), &version, &identities());
    }
    keyless.settle();
    let good = (0..FORMS.len()).flat_map(|form| {
        let number = 0..signers.len();
        number.map(move |number| format!("good-{form}-{number}"))
    });
    for name in good.chain((0..more.len()).map(|number| format!("more-{number}"))) {
        let (status, message) = keyless.verified(&name);
        assert_eq!(status == "True", name != refused, "{name}: {message}");
    }
}

#[test]
fn keyless_signatures_without_proof_embedded() {
    let mut keyless = Keyless::start();
    let mut cases = Vec::new();
    for (form, (name, faults)) in FAULTS.into_iter().enumerate() {
        for (number, (fault, message_part)) in faults.iter().enumerate() {
            let version = format!("1.{form}.{number}");
            keyless.publish(&version, &json!({"form": name, "fault": fault}));
            let judged = keyless.judge(&version, &identities());
            assert!(judged.is_err(), "{name} {fault}");
            let object = format!("{name}-{fault}");
            keyless.add(&object, &version, &identities());
            cases.push((object, *message_part));
        }
    }
    keyless.settle();
    for (object, message_part) in cases {
        let (status, message) = keyless.verified(&object);
        assert_eq!(status, "False", "{object}");
        let prefix = "none of the 1 signatures is for this digest and by a trusted identity: ";
        assert!(
            message.contains(prefix) && message.contains(message_part),
            "{object}: {message}"
        );
        assert!(
            message.ends_with("(trusted root: secret 'flux-system/sigstore')"),
            "{message}"
        );
    }
}

#[test]
fn identities_of_keyless_signatures_embedded() {
    let mut keyless = Keyless::start();
    let other = "https://other.example.com";
    // The name, the identities, and the results of cosign and of driftless: for a signature of
    // cosign 2, for a bundle.
    let wanted = [
        ("theirs", identities(), [true, true], [true, true]),
        (
            "part",
            json!([{"issuer": "example", "subject": "acme/app"}]),
            [true, true],
            [true, true],
        ),
        (
            "issuer",
            json!([{"issuer": other, "subject": ".*"}]),
            [false, false],
            [false, false],
        ),
        (
            "subject",
            json!([{"issuer": ISSUER, "subject": "^https://git\\.example\\.com/acme/other/"}]),
            [false, false],
            [false, false],
        ),
        (
            "letters",
            json!([{"issuer": ISSUER, "subject": "^HTTPS://"}]),
            [false, false],
            [false, false],
        ),
        (
            "any",
            json!([{"issuer": ".*", "subject": ".*"}]),
            [true, true],
            [true, true],
        ),
        // Without an expected identity, a bundle is refused.
        ("unnamed", json!([]), [true, false], [true, false]),
        (
            "half",
            json!([{"issuer": ISSUER, "subject": ""}]),
            [true, false],
            [true, false],
        ),
        // cosign accepts one identity for a bundle; by Flux's field, any may match.
        (
            "either",
            json!([{"issuer": other, "subject": ".*"}, {"issuer": ISSUER, "subject": ".*"}]),
            [true, false],
            [true, true],
        ),
    ];
    for (form, version) in [("simple", "1.0.0"), ("bundle", "1.1.0")] {
        keyless.publish(version, &json!({"form": form}));
    }
    let versions = ["1.0.0", "1.1.0"];
    // An additional signature with a key has no influence.
    let strange = keyless.signed.key("strange", "p256");
    for (form, version) in Cosign::ALL.into_iter().zip(versions) {
        strange.sign(form, &keyless.signed.world.host, APP, version);
    }
    for (name, identities, judged, _) in &wanted {
        for (version, judged) in versions.iter().zip(judged) {
            let judgement = keyless.judge(version, identities);
            assert_eq!(
                judgement.is_ok(),
                *judged,
                "{name} {version}: {judgement:?}"
            );
            let object = format!("{name}-{}", version.replace('.', "-"));
            keyless.add(&object, version, identities);
        }
    }
    keyless.settle();
    for (name, _, _, accepted) in &wanted {
        for (version, accepted) in versions.iter().zip(accepted) {
            let object = format!("{name}-{}", version.replace('.', "-"));
            let (status, message) = keyless.verified(&object);
            assert_eq!(status == "True", *accepted, "{object}: {message}");
        }
    }
    let stranger = format!("the signature is by '{SUBJECT}' of the issuer '{ISSUER}'");
    for name in ["subject-1-0-0", "subject-1-1-0"] {
        let (_, message) = keyless.verified(name);
        assert!(message.contains(&stranger), "{name}: {message}");
    }
    let (_, message) = keyless.verified("unnamed-1-1-0");
    assert!(
        message.contains("spec.verify.matchOIDCIdentity"),
        "{message}"
    );
}

#[test]
fn keyless_signatures_of_another_digest_embedded() {
    let mut keyless = Keyless::start();
    keyless.signed.publish("1.0.0");
    let real = keyless.signed.world.host.digest(APP, "1.0.0");
    for (number, form) in FORMS.into_iter().enumerate() {
        let version = format!("1.1.{number}");
        keyless.publish(&version, &json!({"form": form, "digest": real}));
        // As source-controller calls it, cosign does not check the digest of a signature of
        // cosign 2; driftless does.
        let judged = keyless.judge(&version, &identities());
        assert_eq!(judged.is_ok(), form == "simple", "{form}: {judged:?}");
        keyless.add(form, &version, &identities());
    }
    keyless.add("unsigned", "1.0.0", &identities());
    keyless.settle();
    for form in FORMS {
        let (status, message) = keyless.verified(form);
        assert_eq!(status, "False", "{form}: {message}");
    }
    let (_, message) = keyless.verified("simple");
    assert!(
        message.contains("the signature is for another digest"),
        "{message}"
    );
    let (_, message) = keyless.verified("unsigned");
    assert!(message.contains("sign it with 'cosign sign'"), "{message}");
}

#[test]
fn the_hub_s_own_sigstore_embedded() {
    let keyless = Keyless::start();
    let signed = &keyless.signed;
    keyless.publish("1.0.0", &json!({"form": "bundle"}));
    keyless.publish("1.1.0", &json!({"form": "simple"}));
    let verify = json!({"provider": "cosign", "matchOIDCIdentity": identities()});
    let mut objects = vec![signed.repository()];
    for (name, version) in [("bundled", "1.0.0"), ("simple", "1.1.0")] {
        objects.push(release(name, version));
    }
    objects.extend(signed.verified("app", "1.0.0", &verify));
    let mut rooted = verify.clone();
    rooted["trustedRootSecretRef"] = json!({"name": "sigstore"});
    let [rooted, _] = signed.verified("rooted", "1.0.0", &rooted);
    let refusal = signed.world.refusal(&rooted);
    assert!(refusal.contains("trustedRootSecretRef"), "{refusal}");
    signed.world.push(&objects);
    // The public Sigstore does not trust this one's certificates.
    for kind in ["OCIRepository", "HelmChart"] {
        let (status, _, message) = signed.condition(kind, "app", "SourceVerified");
        assert_eq!(status, "False", "{kind}");
        assert!(
            message.contains("(trusted root: that of the public Sigstore of 20"),
            "{message}"
        );
    }
    signed.world.site.change("hub", |settings| {
        settings.allow_local_clusters = true;
        settings.sigstore_root = Some(keyless.sigstore.trusted_root());
    });
    for kind in ["OCIRepository", "HelmChart"] {
        signed.world.reconcile(kind, "app");
        let (status, _, message) = signed.condition(kind, "app", "SourceVerified");
        assert_eq!(status, "True", "{kind}: {message}");
    }
    // A HelmRelease cannot name the identity that must have signed.
    for (name, status) in [("bundled", "False"), ("simple", "True")] {
        signed
            .world
            .reconcile("HelmChart", &format!("{SPACE}-{name}"));
        let ready = signed.condition("HelmRelease", name, "Ready");
        assert_eq!(ready.0, status, "{name}: {}", ready.2);
    }
}

/// Returns a HelmRelease of a version that must be signed.
fn release(name: &str, version: &str) -> Value {
    let chart = json!({"chart": "app", "version": version, "sourceRef": {"kind": "HelmRepository", "name": "team"},
        "verify": {"provider": "cosign"}});
    json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
        "metadata": {"name": name, "namespace": SPACE}, "spec": {"interval": "10m", "chart": {"spec": chart}}})
}

#[test]
fn invalid_trusted_roots_embedded() {
    let mut keyless = Keyless::start();
    keyless.publish("1.0.0", &json!({"form": "bundle"}));
    let hub = keyless.signed.world.hub();
    hub.secret(SPACE, "empty", &json!({"other": "x"}));
    let broken = [
        ("text", "canary".to_owned(), "is not JSON"),
        (
            "another",
            "{}".to_owned(),
            "is not a trusted root: expected the mediaType",
        ),
        (
            "keyless",
            keyless
                .sigstore
                .trusted_root()
                .replace("\"rawBytes\":\"M", "\"rawBytes\":\"A"),
            "cannot be used: ",
        ),
        (
            "large",
            format!("\"{}\"", "x".repeat(256 << 10)),
            "has more than 256 KiB",
        ),
    ];
    for (name, text, _) in &broken {
        hub.secret(SPACE, name, &json!({"trusted_root.json": text}));
    }
    let names = ["absent", "empty", "text", "another", "keyless", "large"];
    for name in names {
        let verify =
            json!({"matchOIDCIdentity": identities(), "trustedRootSecretRef": {"name": name}});
        let [_, repository] = keyless.signed.verified(name, "1.0.0", &verify);
        keyless.objects.push(repository);
    }
    for (name, pattern) in [
        ("open", "("),
        ("long", &"x".repeat(5000)),
        ("deep", "(\\pL{1000})"),
    ] {
        keyless.add(
            name,
            "1.0.0",
            &json!([{"issuer": ISSUER, "subject": pattern}]),
        );
    }
    keyless.settle();
    let prefix = "failed to verify the signature using provider 'cosign keyless'";
    let unread = |name: &str, reason: &str| {
        let subject = format!("failed to read trusted root from secret 'flux-system/{name}'");
        expected_condition(
            "False",
            "VerificationError",
            &format!("{prefix}: {subject}: {reason}"),
        )
    };
    let ready = |name: &str| keyless.signed.condition("OCIRepository", name, "Ready");
    assert_eq!(
        ready("absent"),
        unread("absent", "secrets \"absent\" not found")
    );
    assert_eq!(
        ready("empty"),
        unread(
            "empty",
            "'trusted_root.json' not found in secret 'flux-system/empty'"
        )
    );
    for (name, _, message_part) in &broken {
        let (_, reason, message) = ready(name);
        assert_eq!(reason, "VerificationError");
        let subject = format!("'trusted_root.json' of secret 'flux-system/{name}' {message_part}");
        let start = format!("{prefix}: unable to parse trusted root: {subject}");
        assert!(message.starts_with(&start), "{message}");
        assert!(!message.contains("canary"), "{message}");
    }
    for (name, message_part) in [
        ("open", "missing closing )"),
        ("long", "the expression is too long"),
        ("deep", "the expression is too large"),
    ] {
        let (_, reason, message) = ready(name);
        assert_eq!(reason, "VerificationError");
        let start = format!("{prefix}: malformed subject in identity: ");
        assert!(
            message.starts_with(&start) && message.contains(message_part),
            "{message}"
        );
    }
}
