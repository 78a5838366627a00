//! Release records compared with those of Helm 3.22, Helm 4.3 and Flux's helm-controller 1.6: see
//! `tests/oracle/helm-record` and `tests/oracle/helm-controller`.

use driftless_go::json;
use driftless_helm::record::{
    RecordLimits, Release, Stamp, Time, config_digest, observation_digest, same_values,
};
use driftless_manifest::Object;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

fn corpus(file: &str) -> String {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/helm-record");
    fs::read_to_string(directory.join(file)).unwrap()
}

fn lines(file: &str) -> Vec<Value> {
    let text = corpus(file);
    text.lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

fn secret(value: &Value) -> Object {
    let mut secret = value.clone();
    secret["apiVersion"] = json!("v1");
    secret["kind"] = json!("Secret");
    Object::new(secret).unwrap()
}

fn read(value: &Value) -> Release {
    Release::from_secret(&secret(value), &RecordLimits::default()).unwrap()
}

/// Removes the values that Helm writes for empty fields: null, empty strings, lists and maps, the
/// zero time.
fn bare(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(k, v)| (k.clone(), bare(v)))
                .filter(|(_, v)| !is_nothing(v))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(bare).collect()),
        other => other.clone(),
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(s) => s.is_empty() || s == "0001-01-01T00:00:00Z",
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

#[test]
fn records_of_both_helms_are_read() {
    for line in lines("helm.jsonl") {
        for version in ["helm3", "helm4"] {
            let release = read(&line[version]);
            let again = release.to_secret("apps", Stamp::Created(7)).unwrap();
            assert_eq!(
                again.name(),
                line[version]["metadata"]["name"],
                "{}",
                line["name"]
            );
            let reread = Release::from_secret(&again, &RecordLimits::default()).unwrap();
            assert_eq!(reread, release, "{} of {version}", line["name"]);
        }
    }
}

#[test]
fn labels_as_helm_4_writes_them() {
    for line in lines("helm.jsonl") {
        for (which, stamp, key) in [
            ("helm4", Stamp::Created(7), "createdAt"),
            ("modified", Stamp::Modified(7), "modifiedAt"),
        ] {
            let theirs = &line[which];
            let ours = read(theirs).to_secret("apps", stamp).unwrap();
            let mut labels = theirs["metadata"]["labels"].clone();
            assert!(labels[key].is_string());
            labels[key] = json!("7");
            assert_eq!(
                ours.to_value()["metadata"]["labels"],
                labels,
                "{}",
                line["name"]
            );
            assert_eq!(ours.to_value()["type"], theirs["type"]);
        }
    }
}

#[test]
fn digests_match_those_of_helm_controller() {
    let (releases, answers) = (lines("helm.jsonl"), lines("flux.jsonl"));
    assert_eq!(releases.len(), answers.len());
    for (line, answer) in releases.iter().zip(&answers) {
        assert_eq!(line["name"], answer["name"]);
        let oci = line["ociDigest"].as_str().unwrap_or_default();
        for version in ["helm3", "helm4"] {
            let release = read(&line[version]);
            let noted = &answer[version];
            let context = format!("{} of {version}", line["name"]);
            assert_eq!(
                observation_digest(&release, oci).unwrap(),
                noted["digest"],
                "{context}"
            );
            assert_eq!(
                config_digest(&release.config),
                noted["configDigest"],
                "{context}"
            );
            assert!(same_values(
                noted["configDigest"].as_str().unwrap(),
                &release.config
            ));
        }
    }
}

#[test]
fn helm_3_and_helm_4_read_our_records() {
    let cases: Vec<Value> = serde_json::from_str(&corpus("cases.json")).unwrap();
    let answers = lines("read.jsonl");
    assert_eq!(cases.len(), answers.len());
    for (case, answer) in cases.iter().zip(&answers) {
        let release = release_of(case);
        // The Secret that they have read is still the one that is written.
        let text = json::to_string(&release).unwrap();
        let written: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(written, answer["written"], "{}", case["name"]);
        let labels = json!(release.labels);
        for version in ["helm3", "helm4"] {
            let read = &answer[version];
            assert_eq!(bare(&read["labels"]), bare(&labels));
            let mut known = answer["written"].clone();
            forget(&mut known, version);
            assert_eq!(
                bare(&read["release"]),
                bare(&known),
                "{} by {version}",
                case["name"]
            );
        }
    }
}

/// Returns a case as a release.
fn release_of(case: &Value) -> Release {
    let mut release: Release = serde_json::from_value(case["release"].clone()).unwrap();
    release.labels =
        serde_json::from_value(case.get("labels").cloned().unwrap_or(json!({}))).unwrap();
    release
}

/// Removes the fields that a version of Helm does not define.
fn forget(release: &mut Value, version: &str) {
    let fields = |value: &mut Value, names: &[&str]| {
        if let Some(map) = value.as_object_mut() {
            map.retain(|name, _| !names.contains(&name.as_str()));
        }
    };
    fields(release, &["future"]);
    fields(&mut release["info"], &["reason"]);
    if version == "helm4" {
        return;
    }
    fields(release, &["apply_method"]);
    fields(&mut release["info"], &["rollback_revision"]);
    fields(&mut release["chart"], &["modtime", "schemamodtime"]);
    for file in release["chart"]["files"]
        .as_array_mut()
        .into_iter()
        .flatten()
    {
        fields(file, &["modtime"]);
    }
}

#[test]
fn hostile_secrets() {
    let good = read(&lines("helm.jsonl")[0]["helm4"])
        .to_secret("apps", Stamp::Created(1))
        .unwrap();
    let limits = RecordLimits {
        packed: 8000,
        bytes: 1 << 20,
    };
    let with = |data: Value| {
        let mut value = good.to_value();
        value["data"] = json!({ "release": data });
        Release::from_secret(&Object::new(value).unwrap(), &limits)
            .unwrap_err()
            .to_string()
    };
    use base64::Engine as _;
    let b64 = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
    let encoded = |bytes: &[u8]| json!(b64(b64(bytes).as_bytes()));
    assert_eq!(
        with(json!(5)),
        "Secret apps/sh.helm.release.v1.web.v1 holds no Helm release: data.release is missing"
    );
    assert!(with(json!("*")).ends_with("data.release is not valid base64"));
    assert!(
        with(json!(b64(b"*"))).ends_with("data.release does not hold base64 within its base64")
    );
    assert!(with(encoded(&[0x1f, 0x8b, 8, 0])).ends_with("the packed record is damaged"));
    let other = with(encoded(br#"{"name":"s3cret-name","version":1}"#));
    assert!(
        other.contains("the name of the Secret is not that of revision 1"),
        "{other}"
    );
    let wrong = with(encoded(br#"{"name":{"a":"s3cret"}}"#));
    assert!(
        wrong.contains("the record is not the JSON of a release (Data error in line 1")
            && !wrong.contains("s3cret"),
        "{wrong}"
    );
    let bomb = {
        use std::io::Read as _;
        let mut packed = Vec::new();
        let blanks = vec![b' '; 2 << 20];
        flate2::read::GzEncoder::new(blanks.as_slice(), flate2::Compression::best())
            .read_to_end(&mut packed)
            .unwrap();
        packed
    };
    assert!(with(encoded(&bomb)).ends_with("holds a Helm release of more than 1048576 bytes"));
    assert!(with(json!("A".repeat(20_000))).ends_with("more than 8000 bytes"));
}

#[test]
fn oversized_records_are_not_written() {
    let mut release = read(&lines("helm.jsonl")[0]["helm4"]);
    let mut seed = 1_u32;
    release.manifest = (0..1_100_000)
        .map(|_| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            char::from(b' ' + (seed >> 25) as u8 % 90)
        })
        .collect();
    let error = release
        .to_secret("apps", Stamp::Created(1))
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("release web.v1 is ") && error.contains("make the chart smaller"),
        "{error}"
    );
}

#[test]
fn legacy_records_without_compression() {
    use base64::Engine as _;
    let b64 = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
    let inner = b64(br#"{"name":"web","version":2,"info":null,"chart":null,"hooks":null}"#);
    let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "sh.helm.release.v1.web.v2",
        "namespace": "apps"}, "data": {"release": b64(inner.as_bytes())}});
    let release =
        Release::from_secret(&Object::new(object).unwrap(), &RecordLimits::default()).unwrap();
    assert_eq!((release.name.as_str(), release.version), ("web", 2));
    assert_eq!(release.info.first_deployed, None::<Time>);
}
