//! A file that the real sops encrypted with a key of AWS KMS, decrypted by the adapter.

use crate::{ministack, settings};
use driftless_adapters::aws::AwsLogins;
use driftless_adapters::clouds::{AzureLogins, GoogleLogins};
use driftless_adapters::key_services::HttpKeyServices;
use driftless_core::ports::{AwsIdentity, AwsKey, ErrorKind, KeyServices};
use driftless_harness::tools;
use driftless_sops::{Format, Keyring, decrypt, master_keys};
use serde_json::json;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

const REGION: &str = "us-east-1";
const PLAIN: &str = "password: p@ss\n";

#[tokio::test]
async fn a_file_of_sops_with_a_key_of_kms() {
    let created = ministack().aws().must("kms", "create_key", json!({}));
    let arn = created["KeyMetadata"]["Arn"].as_str().expect("an ARN");
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("secret.yaml");
    std::fs::write(&file, PLAIN).expect("write the file");
    let sops = Command::new(tools::SOPS.path())
        .args(["encrypt", "--kms", arn, "--encryption-context", "team:apps"])
        .arg(&file)
        .env("AWS_ENDPOINT_URL", ministack().url())
        .env("AWS_REGION", REGION)
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test")
        .output()
        .expect("run sops");
    assert!(
        sops.status.success(),
        "{}",
        String::from_utf8_lossy(&sops.stderr)
    );
    let groups = master_keys(&sops.stdout, Format::Yaml, "secret.yaml").expect("keys");
    let [found] = groups.concat().try_into().expect("one key");
    let aws = AwsLogins::with_role(&settings().await);
    let services = HttpKeyServices::new(aws, AzureLogins::default(), GoogleLogins::default());
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a time");
    let key = AwsKey {
        context: found.context.clone(),
        ..AwsKey::parse(&found.name).expect("the ARN of a key")
    };
    let identity = AwsIdentity::Installation;
    let data_key = services.aws(&key, &found.encrypted, &identity, now).await;
    let mut keyring = Keyring::default();
    keyring.add_opened(&found, data_key.expect("a data key").expose());
    let plain = decrypt(&sops.stdout, Format::Yaml, &keyring, "secret.yaml").expect("plaintext");
    assert_eq!(String::from_utf8(plain).expect("UTF-8"), PLAIN);
    // Another ciphertext is refused without a word of it.
    let error = services.aws(&key, "Y2FuYXJ5", &identity, now).await;
    let error = error.expect_err("not a ciphertext of the key");
    assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
    assert!(!error.message.contains("Y2FuYXJ5"), "{error}");
}
