//! `sops_formats`: files of each format that the real sops encrypts with keys of age, AWS KMS and
//! Vault are decrypted with the adapters of the services. `shared/sops/tests` has the recorded
//! files of all other kinds of keys.

use crate::{ministack, settings};
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use driftless_adapters::aws::AwsLogins;
use driftless_adapters::clouds::{AzureLogins, GoogleLogins};
use driftless_adapters::key_services::HttpKeyServices;
use driftless_harness::tools;
use driftless_kernel::ports::{
    AwsIdentity, AwsKey, ErrorKind, KeyRequest, KeyServices, PortError, Secret, VaultKey,
};
use driftless_sops::{Format, KeyService, Keyring, MasterKey, SopsError, decrypt, master_keys};
use serde_json::{Value, json};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

const REGION: &str = "us-east-1";
const CANARY: &str = "canary-password";
const TOKEN: &str = "canary-token";

/// A name of a file, its format and its content.
type File = (&'static str, Format, &'static str);

const FILES: [File; 5] = [
    ("secret.yaml", Format::Yaml, "password: canary-password\n"),
    (
        "secret.json",
        Format::Json,
        "{\n\t\"password\": \"canary-password\"\n}\n",
    ),
    ("secret.env", Format::Dotenv, "password=canary-password\n"),
    (
        "secret.ini",
        Format::Ini,
        "[login]\npassword = canary-password\n",
    ),
    ("secret.bin", Format::Binary, "\u{1}canary-password\n"),
];

/// The transit engine of a stand-in of Vault. A ciphertext is the plaintext in another order.
#[derive(Default)]
struct Vault {
    is_down: AtomicBool,
}

/// Starts the stand-in. Returns its URL.
async fn vault(state: Arc<Vault>) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.expect("listen");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let routes = Router::new().route("/v1/sops/{action}/{key}", any(transit));
    let app = routes.with_state(state);
    tokio::spawn(async move { axum::serve(listener, app).await.expect("serve") });
    url
}

async fn transit(
    State(vault): State<Arc<Vault>>,
    Path((action, key)): Path<(String, String)>,
    headers: HeaderMap,
    body: String,
) -> Response {
    let token = headers.get("x-vault-token").map(|value| value.as_bytes());
    if vault.is_down.load(Ordering::Relaxed) {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    if token != Some(TOKEN.as_bytes()) {
        return StatusCode::FORBIDDEN.into_response();
    }
    let body: Value = serde_json::from_str(&body).unwrap_or_default();
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    let reversed = |text: &str| text.chars().rev().collect::<String>();
    let prefix = format!("vault:v1:{key}:");
    let data = match action.as_str() {
        "encrypt" => json!({"ciphertext": format!("{prefix}{}", reversed(&text("plaintext")))}),
        _ => match text("ciphertext").strip_prefix(&prefix) {
            Some(rest) => json!({"plaintext": reversed(rest)}),
            None => return StatusCode::BAD_REQUEST.into_response(),
        },
    };
    json!({ "data": data }).to_string().into_response()
}

/// Encrypts a file with the real sops.
fn encrypt(file: &File, args: &[&str]) -> Vec<u8> {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join(file.0);
    std::fs::write(&path, file.2).expect("write the file");
    let sops = Command::new(tools::SOPS.path())
        .arg("encrypt")
        .args(args)
        .arg(&path)
        .env("AWS_ENDPOINT_URL", ministack().url())
        .env("AWS_REGION", REGION)
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test")
        .env("VAULT_TOKEN", TOKEN)
        .output()
        .expect("run sops");
    let error = String::from_utf8_lossy(&sops.stderr);
    assert!(sops.status.success(), "{args:?} {}: {error}", file.0);
    assert!(!String::from_utf8_lossy(&sops.stdout).contains(CANARY));
    sops.stdout
}

struct Services {
    http: HttpKeyServices,
    token: &'static str,
}

impl Services {
    async fn new() -> Self {
        let aws = AwsLogins::with_role(&settings().await);
        Self {
            http: HttpKeyServices::new(aws, AzureLogins::default(), GoogleLogins::default()),
            token: TOKEN,
        }
    }

    async fn data_key(&self, key: &MasterKey) -> Result<Secret, PortError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.expect("a time");
        if key.service == KeyService::AwsKms {
            let aws = AwsKey {
                context: key.context.clone(),
                ..AwsKey::parse(&key.name).expect("the ARN of a key")
            };
            let identity = AwsIdentity::Installation;
            let request = KeyRequest::Aws(aws, identity);
            return self.http.decrypt(&request, &key.encrypted, now).await;
        }
        let [address, engine, name] = key.fields.as_slice() else {
            panic!("expected a key of Vault: {key:?}");
        };
        let vault = VaultKey {
            address: address.clone(),
            engine: engine.clone(),
            name: name.clone(),
        };
        let request = KeyRequest::Vault {
            key: vault,
            token: Secret::new(self.token.to_owned()),
            allow_local: true,
        };
        self.http.decrypt(&request, &key.encrypted, now).await
    }

    /// Adds the data key that a service decrypts to the keyring.
    async fn open(&self, file: &File, encrypted: &[u8], keyring: &mut Keyring) {
        let groups = master_keys(encrypted, file.1, file.0).expect("the keys of the file");
        for key in groups.concat() {
            if key.service != KeyService::Age {
                let data_key = self.data_key(&key).await.expect("a data key");
                keyring.add_opened(&key, data_key.expose());
            }
        }
    }
}

/// Checks that a message has no byte of the secrets.
fn is_clean(message: &str) {
    for secret in [CANARY, TOKEN, "AGE-SECRET-KEY", "vault:v1"] {
        assert!(!message.contains(secret), "{message}");
    }
}

fn own_age_key() -> (Keyring, String) {
    let path = tools::tests().join("corpus/sops/one.agekey");
    let text = std::fs::read_to_string(path).expect("read the key");
    let recipient = text
        .lines()
        .find_map(|line| line.split("public key: ").nth(1));
    let mut keyring = Keyring::default();
    keyring.add_age(&text, "one.agekey").expect("a key");
    (keyring, recipient.expect("a recipient").to_owned())
}

#[tokio::test]
async fn sops_formats() {
    let created = ministack().aws().must("kms", "create_key", json!({}));
    let arn = created["KeyMetadata"]["Arn"].as_str().expect("an ARN");
    let state = Arc::new(Vault::default());
    let transit = format!("{}/v1/sops/keys/first", vault(state.clone()).await);
    let (_, recipient) = own_age_key();
    let services = Services::new().await;
    let kinds: [&[&str]; 3] = [
        &["--age", &recipient],
        &["--kms", arn, "--encryption-context", "team:apps"],
        &["--hc-vault-transit", &transit],
    ];
    for args in kinds {
        for file in &FILES {
            let (name, format, plain) = *file;
            // sops needs a thread: the stand-in answers on this runtime.
            let encrypted = blocking(file, args).await;
            let mut keyring = match args[0] {
                "--age" => own_age_key().0,
                _ => Keyring::default(),
            };
            services.open(file, &encrypted, &mut keyring).await;
            let decrypted = decrypt(&encrypted, format, &keyring, name);
            let decrypted = decrypted.unwrap_or_else(|error| panic!("{args:?} {name}: {error}"));
            let decrypted = String::from_utf8(decrypted).expect("UTF-8");
            assert_eq!(decrypted, plain, "{args:?}");
            a_changed_value_has_a_wrong_mac(file, &encrypted, &keyring);
            let stranger = decrypt(&encrypted, format, &Keyring::default(), name);
            let stranger = stranger.expect_err("a foreign key");
            assert!(matches!(stranger, SopsError::NoKey { .. }), "{stranger}");
            is_clean(&stranger.to_string());
        }
    }
    refusals_of_the_services(arn, &transit, &state, services).await;
}

async fn blocking(file: &File, args: &[&str]) -> Vec<u8> {
    let (file, args) = (*file, args.iter().map(|one| (*one).to_owned()));
    let args: Vec<String> = args.collect();
    let work = move || {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        encrypt(&file, &args)
    };
    tokio::task::spawn_blocking(work).await.expect("run sops")
}

/// Checks that a file whose value or MAC was changed is refused.
fn a_changed_value_has_a_wrong_mac(file: &File, encrypted: &[u8], keyring: &Keyring) {
    let text = String::from_utf8(encrypted.to_vec()).expect("UTF-8");
    let changed = match file.1 {
        // The time of the last change is a part of the MAC's encryption.
        Format::Binary => text.replacen("lastmodified\": \"20", "lastmodified\": \"19", 1),
        _ => text.replacen("password", "passport", 1),
    };
    assert_ne!(changed, text);
    let error = decrypt(changed.as_bytes(), file.1, keyring, file.0);
    let error = error.expect_err("a changed file").to_string();
    is_clean(&error);
    assert!(error.contains(file.0), "{error}");
}

/// Checks the errors of services: a foreign ciphertext, a foreign token, no answer.
async fn refusals_of_the_services(arn: &str, transit: &str, vault: &Vault, own: Services) {
    let file = &FILES[0];
    let kms = blocking(file, &["--kms", arn]).await;
    let vaulted = blocking(file, &["--hc-vault-transit", transit]).await;
    let key = |encrypted: &[u8]| {
        let groups = master_keys(encrypted, file.1, file.0).expect("the keys of the file");
        groups.concat().into_iter().next().expect("a key")
    };
    let foreign = MasterKey {
        encrypted: STANDARD.encode("canary"),
        ..key(&kms)
    };
    let expect = |answer: Result<Secret, PortError>, kind: ErrorKind| {
        let error = answer.expect_err("a refusal");
        assert_eq!(error.kind, kind, "{error}");
        is_clean(&error.message);
        assert!(!error.message.contains(&foreign.encrypted), "{error}");
    };
    expect(own.data_key(&foreign).await, ErrorKind::Invalid);
    let vaulted = key(&vaulted);
    let stranger = Services {
        token: "another-token",
        ..Services::new().await
    };
    expect(stranger.data_key(&vaulted).await, ErrorKind::Denied);
    vault.is_down.store(true, Ordering::Relaxed);
    expect(own.data_key(&vaulted).await, ErrorKind::Unavailable);
}
