//! Signed charts and artifacts: cosign and notation themselves sign and judge each signature;
//! `spec.verify` must have the same result.

mod keyless;
mod notation;

use crate::charts::{Charts, SPACE, chart, source, text};
use driftless_harness::charts::{self, Fault, sign::Cosign, sign::Key};
use serde_json::{Value, json};

/// The repository of the chart in the registry.
const APP: &str = "team/app";

/// A world with a registry of charts, keys and the Secret `keys` that trusts one of them.
struct Signed {
    world: Charts,
}

impl Signed {
    fn start() -> Self {
        let world = Charts::start();
        world.site.move_to_today();
        Self { world }
    }

    /// Publishes a version of the chart whose files differ from those of all other versions.
    fn publish(&self, version: &str) {
        let values = format!("version: {version}\n");
        let (directory, host) = (self.world.directory.path(), &self.world.host);
        let packed = charts::package(directory, "app", version, &[("values.yaml", &values)]);
        charts::push(directory, &packed, host, "team");
    }

    fn key(&self, name: &str, kind: &str) -> Key {
        Key::new(self.world.directory.path(), name, kind)
    }

    fn trust(&self, secret: &str, keys: &[&Key]) {
        let entries = keys.iter().enumerate().map(|(number, key)| {
            let name = format!("{number}.pub");
            (name, Value::from(key.public()))
        });
        let entries: serde_json::Map<String, Value> = entries.collect();
        self.world
            .hub()
            .secret(SPACE, secret, &Value::from(entries));
    }

    /// Returns the registry as a HelmRepository.
    fn repository(&self) -> Value {
        let url = format!("oci://{}/team", self.world.host.name());
        let spec = json!({"type": "oci", "url": url, "insecure": true});
        source("v1", "HelmRepository", "team", spec)
    }

    /// Returns a HelmChart and an OCIRepository of a version that require a cosign signature by the
    /// keys of a Secret.
    fn sources(&self, name: &str, version: &str, secret: &str) -> [Value; 2] {
        self.sources_of("cosign", name, version, secret)
    }

    fn sources_of(&self, provider: &str, name: &str, version: &str, secret: &str) -> [Value; 2] {
        let verify = json!({"provider": provider, "secretRef": {"name": secret}});
        self.verified(name, version, &verify)
    }

    fn verified(&self, name: &str, version: &str, verify: &Value) -> [Value; 2] {
        let mut chart = chart(name, "app", version, ("HelmRepository", "team"));
        chart["spec"]["verify"] = verify.clone();
        let url = format!("oci://{}/{APP}", self.world.host.name());
        let spec = json!({"url": url, "insecure": true, "interval": "5m", "verify": verify,
            "ref": {"tag": version}, "layerSelector": {"operation": "copy"}});
        [chart, source("v1", "OCIRepository", name, spec)]
    }

    /// Returns status, reason and message of a condition.
    fn condition(&self, kind: &str, name: &str, condition: &str) -> (String, String, String) {
        let object = self.world.get(kind, name);
        let all = object["status"]["conditions"].as_array();
        let found = all.and_then(|all| all.iter().find(|one| one["type"] == condition));
        let word = |key: &str| found.map_or(String::new(), |found| text(&found[key]).to_owned());
        (word("status"), word("reason"), word("message"))
    }
}

fn expected_condition(status: &str, reason: &str, message: &str) -> (String, String, String) {
    (status.to_owned(), reason.to_owned(), message.to_owned())
}

#[test]
fn signatures_of_cosign_embedded() {
    let signed = Signed::start();
    let kinds = ["p256", "p384", "p521", "ed25519", "rsa"];
    let other = signed.key("other", "p256");
    let mut objects = vec![signed.repository()];
    let mut cases = Vec::new();
    for (at, kind) in kinds.into_iter().enumerate() {
        let key = signed.key(kind, kind);
        signed.trust(kind, &[&key, &other]);
        for (number, how) in Cosign::ALL.into_iter().enumerate() {
            let version = format!("1.{at}.{number}");
            signed.publish(&version);
            let host = &signed.world.host;
            // Another signer's additional signature has no influence.
            signed.key("strange", "p256").sign(how, host, APP, &version);
            key.sign(how, host, APP, &version);
            assert!(
                key.is_accepted_by_cosign(host, APP, &version),
                "{kind} {how:?}"
            );
            assert!(!other.is_accepted_by_cosign(host, APP, &version));
            let name = format!("{kind}-{number}");
            objects.extend(signed.sources(&name, &version, kind));
            cases.push((name, version));
        }
    }
    signed.world.push(&objects);
    for (name, version) in cases {
        let (status, message, revision) = signed.world.status("HelmChart", &name);
        assert_eq!((&*status, &revision), ("True", &version), "{message}");
        let verified = format!("verified signature of version {version}");
        assert_eq!(
            signed.condition("HelmChart", &name, "SourceVerified"),
            expected_condition("True", "Succeeded", &verified)
        );
        let (status, message, revision) = signed.world.status("OCIRepository", &name);
        assert_eq!(status, "True", "{message}");
        let digest = signed.world.host.digest(APP, &version);
        assert_eq!(revision, format!("{version}@{digest}"));
        let verified = format!("verified signature of revision {revision}");
        assert_eq!(
            signed.condition("OCIRepository", &name, "SourceVerified"),
            expected_condition("True", "Succeeded", &verified)
        );
    }
}

#[test]
fn untrusted_signatures_embedded() {
    let signed = Signed::start();
    signed.world.host.list_referrers();
    let (own, strange) = (signed.key("own", "p256"), signed.key("strange", "p256"));
    signed.trust("own", &[&own]);
    let versions = ["1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0"];
    for version in versions {
        signed.publish(version);
    }
    let host = &signed.world.host;
    let real = host.digest(APP, "1.0.0");
    strange.sign(Cosign::Simple, host, APP, "1.1.0");
    strange.sign(Cosign::Bundle, host, APP, "1.2.0");
    // Signatures of another version, attached to this one.
    own.sign_as(Cosign::Simple, host, APP, "1.3.0", &real);
    own.sign_as(Cosign::Bundle, host, APP, "1.4.0", &real);
    // source-controller lets cosign check only the key: the digest of a signature of cosign 2 is
    // not checked. driftless checks it.
    let accepted = versions.map(|version| own.is_accepted_by_cosign(host, APP, version));
    assert_eq!(accepted, [false, false, false, true, false]);

    let mut objects = vec![signed.repository()];
    for version in versions {
        objects.extend(signed.sources(&version.replace('.', "-"), version, "own"));
    }
    signed.world.push(&objects);
    let others = "none of the 1 signatures is for this digest and by a trusted key";
    for version in versions {
        let (name, digest) = (version.replace('.', "-"), host.digest(APP, version));
        let reason = match version {
            "1.0.0" => "the artifact has no cosign signature: sign it with 'cosign sign --key'",
            _ => others,
        };
        let reason = format!(
            "no matching signatures were found for '{}/{APP}@{digest}': {reason} (keys: secret '{SPACE}/own')",
            host.name()
        );
        let message = format!("failed to verify the signature using provider 'cosign': {reason}");
        let failed = expected_condition("False", "VerificationError", &message);
        for condition in ["Ready", "SourceVerified"] {
            assert_eq!(signed.condition("OCIRepository", &name, condition), failed);
        }
        let reference = format!("oci://{}/{APP}:{version}", host.name());
        let message = format!("chart verification error: failed to verify {reference}: {reason}");
        let failed = expected_condition("False", "VerificationError", &message);
        for condition in ["Ready", "SourceVerified"] {
            assert_eq!(signed.condition("HelmChart", &name, condition), failed);
        }
        let built = expected_condition("True", "ChartVerificationError", &message);
        assert_eq!(signed.condition("HelmChart", &name, "BuildFailed"), built);
        for kind in ["OCIRepository", "HelmChart"] {
            let object = signed.world.get(kind, &name);
            assert_eq!(object["status"]["artifact"], Value::Null, "{kind} {name}");
        }
    }
    // No archive was downloaded, only manifests and signatures.
    let calls = host.take_calls();
    let layers: Vec<&String> = calls
        .iter()
        .filter(|call| call.status == 200 && call.method == "GET")
        .map(|call| &call.path)
        .filter(|path| path.contains("/blobs/"))
        .collect();
    for version in versions {
        let archive = charts_layer(&signed, version);
        assert!(
            layers.iter().all(|path| !path.ends_with(&archive)),
            "{version}"
        );
    }

    // A later signature is found by the next reconciliation.
    own.sign(Cosign::Bundle, host, APP, "1.0.0");
    for kind in ["OCIRepository", "HelmChart"] {
        signed.world.reconcile(kind, "1-0-0");
        assert_eq!(signed.world.status(kind, "1-0-0").0, "True");
        assert_eq!(signed.condition(kind, "1-0-0", "SourceVerified").0, "True");
        assert_eq!(signed.condition(kind, "1-0-0", "BuildFailed").0, "");
    }
}

/// Returns the digest of a version's archive, which is the layer of its manifest.
fn charts_layer(signed: &Signed, version: &str) -> String {
    use sha2::{Digest as _, Sha256};
    let archive = format!("packed/app-{version}.tgz");
    let archive = std::fs::read(signed.world.directory.path().join(archive)).expect("an archive");
    hex::encode(Sha256::digest(archive))
}

#[test]
fn a_tag_that_moves_embedded() {
    let signed = Signed::start();
    let own = signed.key("own", "p256");
    signed.trust("own", &[&own]);
    for version in ["1.0.0", "1.1.0"] {
        signed.publish(version);
    }
    let host = &signed.world.host;
    own.sign(Cosign::Bundle, host, APP, "1.0.0");
    let mut objects = vec![signed.repository()];
    objects.extend(signed.sources("app", "1.0.0", "own"));
    signed.world.push(&objects);
    let kinds = ["OCIRepository", "HelmChart"];
    let artifacts = kinds.map(|kind| signed.world.get(kind, "app")["status"]["artifact"].clone());
    assert!(
        artifacts
            .iter()
            .all(|artifact| artifact["digest"].is_string())
    );

    // Nothing changed: the chart's signature is requested again, and nothing is written.
    let writes = signed.world.hub().writes();
    for kind in kinds {
        signed.world.reconcile(kind, "app");
    }
    assert_eq!(signed.world.hub().writes(), writes);

    // The tag now has an unsigned artifact: the verified one stays, and the conditions report it.
    host.retag(APP, "1.1.0", "1.0.0");
    for (kind, artifact) in kinds.iter().zip(&artifacts) {
        signed.world.reconcile(kind, "app");
        let verified = signed.condition(kind, "app", "SourceVerified");
        assert_eq!((&*verified.0, &*verified.1), ("False", "VerificationError"));
        assert_eq!(
            &signed.world.get(kind, "app")["status"]["artifact"],
            artifact
        );
    }
    // Without spec.verify, the condition is removed.
    let mut objects = signed.sources("app", "1.0.0", "own");
    for object in &mut objects {
        object["spec"]
            .as_object_mut()
            .expect("a spec")
            .remove("verify");
    }
    signed.world.push(&objects);
    for kind in kinds {
        assert_eq!(signed.condition(kind, "app", "SourceVerified").0, "");
        assert_eq!(signed.world.status(kind, "app").0, "True");
    }
}

#[test]
fn invalid_verification_settings_embedded() {
    let signed = Signed::start();
    signed.publish("1.0.0");
    signed.world.publish("1.0.0");
    let hub = signed.world.hub();
    hub.secret(SPACE, "empty", &json!({"other": "x"}));
    hub.secret(SPACE, "broken", &json!({"a.pub": "canary-of-a-key"}));
    let url = format!("{}/stable", signed.world.host.url());
    let mut objects = vec![
        signed.repository(),
        source("v1", "HelmRepository", "stable", json!({"url": url})),
    ];
    for secret in ["absent", "empty", "broken"] {
        objects.extend(signed.sources(secret, "1.0.0", secret));
    }
    let mut indexed = chart("indexed", "app", "1.0.0", ("HelmRepository", "stable"));
    let mut tree = chart(
        "tree",
        "./charts/app",
        "*",
        ("GitRepository", "flux-system"),
    );
    let own = signed.key("own", "p256");
    signed.trust("own", &[&own]);
    for chart in [&mut indexed, &mut tree] {
        chart["spec"]["verify"] = json!({"secretRef": {"name": "own"}});
    }
    objects.push(indexed);
    let refusal = signed.world.refusal(&tree);
    assert!(
        refusal.contains("spec.verify is only supported"),
        "{refusal}"
    );
    signed.world.push(&objects);

    let prefix = "failed to verify the signature using provider 'cosign'";
    for (name, reason) in [
        ("absent", "secrets \"absent\" not found"),
        (
            "empty",
            "no public keys found in secret 'flux-system/empty': expected entries whose names end in .pub",
        ),
        (
            "broken",
            "'a.pub' of secret 'flux-system/broken' is not PEM",
        ),
    ] {
        let failed =
            expected_condition("False", "VerificationError", &format!("{prefix}: {reason}"));
        for kind in ["OCIRepository", "HelmChart"] {
            assert_eq!(signed.condition(kind, name, "Ready"), failed);
            assert_eq!(signed.condition(kind, name, "SourceVerified"), failed);
            assert_eq!(signed.condition(kind, name, "FetchFailed").0, "");
        }
    }
    let refused = signed.condition("HelmChart", "indexed", "Ready");
    assert_eq!(refused.1, "VerificationError");
    assert!(
        refused.2.contains("use a HelmRepository of type oci"),
        "{}",
        refused.2
    );
    let nothing = &signed.world.get("HelmChart", "indexed")["status"]["artifact"];
    assert_eq!(nothing, &Value::Null);
}

#[test]
fn hostile_registries_embedded() {
    let signed = Signed::start();
    let own = signed.key("own", "p256");
    signed.trust("own", &[&own]);
    let (index, endless, gone) = ("1.0.0", "1.1.0", "1.2.0");
    let versions = [index, endless, gone];
    let host = &signed.world.host;
    let mut objects = vec![signed.repository()];
    for version in versions {
        signed.publish(version);
        own.sign(Cosign::Simple, host, APP, version);
        assert!(own.is_accepted_by_cosign(host, APP, version));
        objects.extend(signed.sources(&version.replace('.', "-"), version, "own"));
    }
    let signature_path = |version: &str| {
        let tag = host.digest(APP, version).replace(':', "-");
        format!("/v2/{APP}/manifests/{tag}.sig")
    };
    // The signature's tag is an index; its layer never ends; the registry fails.
    let list = json!({"schemaVersion": 2, "manifests": []}).to_string();
    host.fault(&signature_path(index), Fault::Bytes(list.into_bytes()));
    let layer = json!({"mediaType": "x", "size": 1, "digest": format!("sha256:{}", "c".repeat(64)),
        "annotations": {"dev.cosignproject.cosign/signature": "MAA="}});
    let manifest = json!({"schemaVersion": 2, "layers": [layer]}).to_string();
    host.fault(
        &signature_path(endless),
        Fault::Bytes(manifest.into_bytes()),
    );
    let blob = format!("/v2/{APP}/blobs/sha256:{}", "c".repeat(64));
    host.fault(&blob, Fault::Endless);
    host.fault(&signature_path(gone), Fault::Status(500));
    signed.world.push(&objects);
    for (version, message_part) in [
        (index, "is an index of several artifacts"),
        (endless, "none of the 1 signatures"),
        (gone, "failed to look for signatures"),
    ] {
        for kind in ["OCIRepository", "HelmChart"] {
            let name = version.replace('.', "-");
            let (status, reason, message) = signed.condition(kind, &name, "Ready");
            assert_eq!((&*status, &*reason), ("False", "VerificationError"));
            assert!(
                message.contains(message_part),
                "{kind} {version}: {message}"
            );
            let artifact = &signed.world.get(kind, &name)["status"]["artifact"];
            assert_eq!(artifact, &Value::Null);
        }
    }
}

#[test]
fn releases_of_signed_charts_embedded() {
    let signed = Signed::start();
    let own = signed.key("own", "p256");
    signed.trust("own", &[&own]);
    let mut objects = vec![signed.repository()];
    for (name, version) in [("good", "1.0.0"), ("bad", "1.1.0")] {
        signed.publish(version);
        let chart = json!({"chart": "app", "version": version, "sourceRef": {"kind": "HelmRepository", "name": "team"},
            "verify": {"provider": "cosign", "secretRef": {"name": "own"}}});
        objects.push(json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
            "metadata": {"name": name, "namespace": SPACE}, "spec": {"interval": "10m", "chart": {"spec": chart}}}));
    }
    own.sign(Cosign::Bundle, &signed.world.host, APP, "1.0.0");
    signed.world.push(&objects);
    let ready = |name: &str| signed.condition("HelmRelease", name, "Ready").0;
    let verified = |name: &str| {
        let chart = format!("{SPACE}-{name}");
        signed.condition("HelmChart", &chart, "SourceVerified").0
    };
    assert_eq!(
        (ready("good"), verified("good")),
        ("True".to_owned(), "True".to_owned())
    );
    assert_eq!(
        (ready("bad"), verified("bad")),
        ("False".to_owned(), "False".to_owned())
    );
}
