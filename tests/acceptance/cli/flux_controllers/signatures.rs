//! Signed and unsigned charts: `spec.verify` by source-controller and by driftless.

use super::compare::Comparison;
use super::intended_differences;
use super::site::{Side, Sources};
use super::snapshot::{Snapshot, is_trying, ready};
use driftless_harness::charts::sign::{Cosign, Key, Signer, Sigstore};
use driftless_harness::cluster::Cluster;
use serde_json::{Value, json};

const WEB: &str = "charts/web";
const ACTS: &str = "charts/acts";

/// The name, chart, version, provider and Secret of a HelmChart and an OCIRepository.
const OBJECTS: [[&str; 5]; 7] = [
    ["signed", "web", "1.0.0", "cosign", "keys"],
    ["unsigned", "web", "1.1.0", "cosign", "keys"],
    ["strange", "acts", "1.0.0", "cosign", "keys"],
    ["no-secret", "web", "1.0.0", "cosign", "absent"],
    ["noted", "web", "1.1.0", "notation", "policy"],
    ["unnoted", "acts", "1.0.0", "notation", "policy"],
    ["passed", "acts", "1.0.0", "notation", "skips"],
];

const ISSUER: &str = "https://token.example.com";
const SUBJECT: &str = "https://git.example.com/acme/web/release.yaml@refs/heads/main";

/// The name, chart, version, issuer and Secret of an OCIRepository that an identity of a Sigstore
/// must have signed.
const KEYLESS: [[&str; 5]; 6] = [
    ["keyless", "web", "1.0.0", "^https://token", "sigstore"],
    ["keyless-2", "acts", "1.0.0", "^https://token", "sigstore"],
    ["stranger", "web", "1.0.0", "^https://other", "sigstore"],
    ["stranger-2", "acts", "1.0.0", "^https://other", "sigstore"],
    ["no-root", "web", "1.0.0", "^https://token", "absent"],
    ["other-root", "web", "1.0.0", "^https://token", "strange"],
];

#[test]
fn flux_controllers_and_driftless_verify_the_same() {
    let sources = Sources::new();
    let (host, directory) = (&sources.charts, sources.directory.path());
    let key = Key::new(directory, "own", "p256");
    key.sign(Cosign::Bundle, host, WEB, "1.0.0");
    Key::new(directory, "strange", "p256").sign(Cosign::Simple, host, ACTS, "1.0.0");
    let options = json!({"kind": "p256", "organization": "Acme", "intermediate": true});
    let signer = Signer::new(directory, "signer", &options);
    signer.sign(host, WEB, "1.1.0", &json!({}));

    let [own, strange] =
        ["sigstore", "strange-sigstore"].map(|name| Sigstore::new(directory, name));
    for [form, chart] in [["bundle", WEB], ["simple", ACTS]] {
        let options = json!({"form": form, "issuer": ISSUER, "subject": SUBJECT});
        own.sign(host, chart, "1.0.0", &options);
    }

    let policy = |level: &str| {
        let mut statement = json!({"name": "all", "registryScopes": ["*"], "signatureVerification": {"level": level}});
        if level != "skip" {
            statement["trustStores"] = json!(["ca:acme"]);
            statement["trustedIdentities"] = json!(["x509.subject: C=US, ST=WA, O=Acme"]);
        }
        json!({"version": "1.0", "trustPolicies": [statement]}).to_string()
    };
    let root = signer.root();
    let mut objects = vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "apps"}}),
        secret("keys", &json!({"own.pub": key.public()})),
        secret(
            "policy",
            &json!({"trustpolicy.json": policy("strict"), "root.crt": root}),
        ),
        secret(
            "skips",
            &json!({"trustpolicy.json": policy("skip"), "root.crt": root}),
        ),
        secret(
            "sigstore",
            &json!({"trusted_root.json": own.trusted_root()}),
        ),
        secret(
            "strange",
            &json!({"trusted_root.json": strange.trusted_root()}),
        ),
        source(
            "HelmRepository",
            "charts",
            json!({"type": "oci", "url": "oci://REGISTRY/charts", "insecure": true, "interval": "1h"}),
        ),
    ];
    for [name, chart, version, provider, secret] in OBJECTS {
        let verify = json!({"provider": provider, "secretRef": {"name": secret}});
        let from = json!({"kind": "HelmRepository", "name": "charts"});
        objects.push(source(
            "HelmChart",
            name,
            json!({"chart": chart, "version": version, "interval": "1h",
            "sourceRef": from, "verify": verify}),
        ));
        objects.push(repository(name, chart, version, &verify));
    }
    for [name, chart, version, issuer, secret] in KEYLESS {
        let identity =
            json!({"issuer": issuer, "subject": "^https://git\\.example\\.com/acme/web/"});
        let verify = json!({"provider": "cosign", "matchOIDCIdentity": [identity], "trustedRootSecretRef": {"name": secret}});
        objects.push(repository(name, chart, version, &verify));
    }
    let manifests: Vec<String> = objects.iter().map(Value::to_string).collect();
    let manifests = sources.fill(&manifests.join("\n"));

    let [flux, driftless] = Cluster::start_all(["flux", "driftless"]);
    let flux = Side::flux(flux, &sources);
    let driftless = Side::driftless(driftless, &sources);
    for side in [&flux, &driftless] {
        side.apply(&manifests);
    }
    let mut comparison = Comparison::new(&flux, &driftless, intended_differences::SIGNATURES);
    comparison.eventually_the_same(|snapshots, _| snapshots.into_iter().all(is_settled));
    comparison.finish();
}

fn secret(name: &str, entries: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "apps"}, "stringData": entries})
}

fn source(kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": kind, "metadata": {"name": name, "namespace": "apps"}, "spec": spec})
}

fn repository(name: &str, chart: &str, version: &str, verify: &Value) -> Value {
    source(
        "OCIRepository",
        name,
        json!({"url": format!("oci://REGISTRY/charts/{chart}"), "insecure": true,
            "interval": "1h", "ref": {"tag": version}, "layerSelector": {"operation": "copy"}, "verify": verify}),
    )
}

/// Returns whether every object has a final condition Ready.
fn is_settled(side: &Snapshot) -> bool {
    let objects = ["helmcharts", "ocirepositories"].into_iter();
    let objects = objects.flat_map(|kind| OBJECTS.map(|[name, ..]| format!("{kind} {name}")));
    let keyless = KEYLESS.map(|[name, ..]| format!("ocirepositories {name}"));
    let mut objects = objects.chain(keyless);
    objects.all(|object| {
        let object = side.get(&object).filter(|object| !is_trying(object));
        let ready = object.and_then(ready);
        ready.is_some_and(|ready| ready["status"] != "Unknown")
    })
}
