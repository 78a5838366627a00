use driftless_adapters::aws::SecretsManager;
use driftless_adapters::local::LocalSecrets;
use driftless_kernel::ports::{ErrorKind, Secret, SecretStore};
use driftless_memory::MemorySecrets;
use std::collections::BTreeMap;

const SECRETS: [(&str, &str); 3] = [
    ("github/webhook", "It's a Secret to Everybody"),
    ("hubs/staging.eu-west_1", "apiVersion: v1\nkind: Config\n"),
    ("tenants/staging/apps", "ü"),
];

async fn contract(keys: &dyn SecretStore) {
    for (name, value) in SECRETS {
        let secret = keys.secret(name).await.expect("an answer").expect(name);
        assert_eq!(secret.expose(), value.as_bytes(), "{name}");
        // The second read may come from the cache.
        assert_eq!(
            keys.secret(name).await.expect("an answer"),
            Some(secret.clone())
        );
        assert_eq!(format!("{secret:?}"), "[redacted]");
    }
    // Neither a part of a name nor a directory of names is a secret.
    for name in ["github/token", "hubs/staging", "tenants/staging/apps2"] {
        assert_eq!(keys.secret(name).await.expect("an answer"), None, "{name}");
    }
}

#[tokio::test]
async fn in_memory() {
    let secrets = SECRETS.map(|(name, value)| (name.to_owned(), Secret::new(value)));
    contract(&MemorySecrets(BTreeMap::from(secrets))).await;
}

#[tokio::test]
async fn in_files() {
    let directory = tempfile::tempdir().expect("a directory");
    for (name, value) in SECRETS {
        let file = directory.path().join(name);
        std::fs::create_dir_all(file.parent().expect("a directory")).expect("a directory");
        std::fs::write(file, value).expect("a file");
    }
    contract(&LocalSecrets::new(
        BTreeMap::new(),
        Some(directory.path().to_owned()),
    ))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_secrets_manager() {
    let settings = crate::settings().await;
    let aws = crate::ministack().aws();
    for (name, value) in SECRETS {
        aws.put_secret(&format!("contract/{name}"), value);
    }
    aws.put_secret("other/github/token", "of another installation");
    let keys = SecretsManager::new(&settings, "contract/");
    contract(&keys).await;
    // Written by bootstrap, as a new secret and as a new value.
    let fresh = || SecretsManager::new(&settings, "contract/");
    for value in ["one", "two"] {
        keys.store("hubs/new", &Secret::new(value))
            .await
            .expect("written");
        assert_eq!(
            fresh().secret("hubs/new").await.expect("an answer"),
            Some(Secret::new(value))
        );
    }
    let bytes = Secret::new(vec![0xff, 0]);
    assert_eq!(
        keys.store("hubs/new", &bytes)
            .await
            .expect_err("not text")
            .kind,
        ErrorKind::Invalid
    );
}
