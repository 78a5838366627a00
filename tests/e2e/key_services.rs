//! SOPS files whose data keys a key service decrypts. The real sops encrypted the files of
//! tests/corpus/sops/services with tests/oracle/sops/services.py.

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use driftless_harness::github::Change;
use driftless_harness::tools;
use driftless_kernel::ports::{
    AwsIdentity, AwsKey, AzureKey, EntraIdentity, EntraProof, ErrorKind, GoogleKey, GoogleLogin,
    KeyRequest, KeyServices, PortError, Result, Secret, VaultKey,
};
use driftless_tests::embedded::Embedded;
use driftless_tests::site::*;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const FLEET: &str = "acme/keys";
const HUB: [HubSpec<'static>; 1] = one_hub(FLEET);
const TOKEN: &str = "corpus";

/// The services of tests/oracle/sops/services.py, whose ciphertexts are backwards.
#[derive(Default)]
struct Services {
    is_down: AtomicBool,
    /// A line for each data key that was asked for: the key, and the identity that asked.
    asked: Mutex<Vec<String>>,
}

impl Services {
    /// Notes a request, and returns the data key of a reversed text.
    fn answer(&self, line: String, reversed: &str) -> Result<Secret> {
        if self.is_down.load(Ordering::Relaxed) {
            return Err(PortError::new(ErrorKind::Unavailable, "no answer in time"));
        }
        self.asked.lock().unwrap().push(line);
        let text: String = reversed.chars().rev().collect();
        Ok(Secret::new(STANDARD.decode(text).unwrap()))
    }

    fn take(&self) -> Vec<String> {
        let mut asked = std::mem::take(&mut *self.asked.lock().unwrap());
        asked.sort();
        // A retry and an interval may both build.
        asked.dedup();
        asked
    }
}

#[async_trait]
impl KeyServices for Services {
    async fn decrypt(&self, request: &KeyRequest, ciphertext: &str, _: Duration) -> Result<Secret> {
        if let KeyRequest::Aws(key, identity) = request {
            return self.aws(key, ciphertext, identity);
        }
        if let KeyRequest::Azure(key, identity) = request {
            return self.azure(key, ciphertext, identity);
        }
        if let KeyRequest::Google(key, login) = request {
            return self.google(key, ciphertext, login);
        }
        if let KeyRequest::Vault { key, token, .. } = request {
            return self.vault(key, ciphertext, token);
        }
        panic!("the corpus has no file for {}", request.place());
    }
}

impl Services {
    fn aws(&self, key: &AwsKey, ciphertext: &str, identity: &AwsIdentity) -> Result<Secret> {
        let identity = match identity {
            AwsIdentity::Installation => "the installation".to_owned(),
            AwsIdentity::Role { arn, .. } => arn.clone(),
            AwsIdentity::AccessKey { id, secret, .. } => {
                assert_eq!(secret.expose_str(), Some(TOKEN));
                id.clone()
            }
        };
        let sealed = String::from_utf8(STANDARD.decode(ciphertext).unwrap()).unwrap();
        let (context, text): (String, String) = serde_json::from_str(&sealed).unwrap();
        let context: Value = serde_json::from_str(&context).unwrap();
        if context != json!(key.context) {
            return Err(PortError::new(ErrorKind::Invalid, "another context"));
        }
        let role = key.role.as_deref().unwrap_or("no role");
        self.answer(format!("{} as {identity}, {role}", key.arn), &text)
    }

    fn azure(&self, key: &AzureKey, ciphertext: &str, identity: &EntraIdentity) -> Result<Secret> {
        let proof = match &identity.proof {
            EntraProof::Token(_) => "its token",
            EntraProof::ClientSecret(secret) => {
                assert_eq!(secret.expose_str(), Some(TOKEN));
                "its secret"
            }
        };
        let text = String::from_utf8(URL_SAFE_NO_PAD.decode(ciphertext).unwrap()).unwrap();
        let AzureKey {
            host,
            name,
            version,
            ..
        } = key;
        let client = &identity.client;
        self.answer(
            format!("{host}/{name}/{version} as {client} by {proof}"),
            &text,
        )
    }

    fn google(&self, key: &GoogleKey, ciphertext: &str, login: &GoogleLogin) -> Result<Secret> {
        let identity = match login {
            GoogleLogin::Principal(identity) => identity.account.clone().unwrap_or_default(),
            GoogleLogin::ServiceAccountKey { email, .. } => email.clone(),
        };
        let text = String::from_utf8(STANDARD.decode(ciphertext).unwrap()).unwrap();
        let (_, name) = key.name.rsplit_once('/').unwrap();
        self.answer(format!("{name} as {identity}"), &text)
    }

    fn vault(&self, key: &VaultKey, ciphertext: &str, token: &Secret) -> Result<Secret> {
        if token.expose_str() != Some(TOKEN) {
            let message = format!("'{}' answered 403 Forbidden", key.address);
            return Err(PortError::new(ErrorKind::Denied, message));
        }
        let text = ciphertext.strip_prefix("vault:v1:").unwrap();
        self.answer(format!("{} {} {}", key.address, key.engine, key.name), text)
    }
}

fn corpus(name: &str) -> String {
    std::fs::read_to_string(tools::tests().join("corpus/sops").join(name)).unwrap()
}

/// Returns a Kustomization of a directory, with keys of the Secret `keys`.
fn sync(name: &str) -> Change {
    let text = format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata:\n  name: {name}\n  namespace: flux-system\n\
         spec:\n  interval: 10m\n  path: ./{name}\n  prune: true\n  targetNamespace: default\n  sourceRef:\n    kind: GitRepository\n    \
         name: flux-system\n  decryption:\n    provider: sops\n    secretRef:\n      name: keys\n"
    );
    Change::write(&format!("clusters/hub/{name}.yaml"), text)
}

fn start(keys: &Value) -> (Embedded, Arc<Services>) {
    let services = Arc::<Services>::default();
    let world = Embedded::start(&HUB, &[]).with_key_services(services.clone());
    world.cluster("hub").secret("flux-system", "keys", keys);
    (world, services)
}

/// Builds a directory with a file of the corpus. Returns reason and message of the Kustomization.
fn build(world: &Embedded, kustomization: Change, name: &str) -> (String, String) {
    let file = Change::write(
        "app/secret.yaml",
        corpus(&format!("services/{name}.enc.yaml")),
    );
    world.commit(FLEET, &[kustomization, file]);
    world.sweep();
    world.settle();
    let (_, reason, message) = ready(world.cluster("hub"), "Kustomization", "flux-system", "app");
    (reason, message)
}

const SUCCEEDED: &str = "ReconciliationSucceeded";
const FIRST_KEY: &str =
    "arn:aws:kms:eu-west-1:012345678901:key/1234abcd-12ab-34cd-56ef-1234567890ab";

/// Returns the password in the Secret of the corpus, decoded.
fn password(world: &Embedded) -> Option<String> {
    let path = "/api/v1/namespaces/default/secrets/database";
    let found = world.cluster("hub").send("GET", path, "", None).ok()?;
    let encoded = found["data"]["password"].as_str()?;
    String::from_utf8(STANDARD.decode(encoded).ok()?).ok()
}

/// The password in tests/corpus/sops/plain/secret.yaml.
const PASSWORD: &str = "p@ss: word #1";

#[test]
fn vault_decrypts_the_data_keys_of_a_build() {
    let (world, vault) = start(&json!({"sops.vault-token": TOKEN}));
    let files = [
        sync("app"),
        Change::write("app/secret.yaml", corpus("services/vault.enc.yaml")),
        // The same file as an input of a generator: its data key is asked for only once.
        Change::write("app/copy/secret.yaml", corpus("services/vault.enc.yaml")),
        Change::write(
            "app/kustomization.yaml",
            "resources: [secret.yaml]\nsecretGenerator:\n- name: copy\n  files: [copy/secret.yaml]\n",
        ),
    ];
    world.commit(FLEET, &files);
    world.sweep();
    world.settle();
    let hub = world.cluster("hub");
    let (status, _, message) = ready(hub, "Kustomization", "flux-system", "app");
    assert_eq!(status, "True", "{message}");
    assert_eq!(password(&world).as_deref(), Some(PASSWORD));
    let asked = vault.asked.lock().unwrap().clone();
    assert_eq!(asked, ["http://127.0.0.1:18200 sops/transit first"]);
}

#[test]
fn a_key_group_of_vault_and_one_of_age() {
    let (world, _) = start(&json!({"sops.vault-token": TOKEN, "one.agekey": corpus("one.agekey")}));
    let secret = Change::write("app/secret.yaml", corpus("services/vault-and-age.enc.yaml"));
    world.commit(FLEET, &[sync("app"), secret]);
    world.sweep();
    world.settle();
    let (status, _, message) = ready(world.cluster("hub"), "Kustomization", "flux-system", "app");
    assert_eq!(status, "True", "{message}");
    assert_eq!(password(&world).as_deref(), Some(PASSWORD));
}

/// The account is read only for a file that a service decrypts.
#[test]
fn keys_of_the_secret_need_no_service_account() {
    let (world, _) = start(&json!({"one.agekey": corpus("one.agekey")}));
    world.change("hub", |settings| {
        settings.default_decryption_service_account = Some("absent".to_owned());
    });
    let secret = Change::write("app/secret.yaml", corpus("cases/both-recipients.enc.yaml"));
    world.commit(FLEET, &[sync("app"), secret]);
    world.sweep();
    world.settle();
    let (status, _, message) = ready(world.cluster("hub"), "Kustomization", "flux-system", "app");
    assert_eq!(status, "True", "{message}");
}

#[test]
fn a_service_that_does_not_decrypt_is_named() {
    let cases = [
        (
            json!({"one.agekey": corpus("stranger.agekey")}),
            false,
            "has no entry 'sops.vault-token'",
        ),
        (
            json!({"sops.vault-token": "other"}),
            false,
            "answered 403 Forbidden",
        ),
        (
            json!({"sops.vault-token": TOKEN}),
            true,
            "no answer in time",
        ),
    ];
    for (keys, is_down, expected) in cases {
        let (world, vault) = start(&keys);
        vault.is_down.store(is_down, Ordering::Relaxed);
        let secret = Change::write("app/secret.yaml", corpus("services/vault.enc.yaml"));
        world.commit(FLEET, &[sync("app"), secret]);
        world.sweep();
        world.settle();
        let hub = world.cluster("hub");
        let (status, reason, message) = ready(hub, "Kustomization", "flux-system", "app");
        assert_eq!((&*status, &*reason), ("False", "BuildFailed"), "{message}");
        assert!(message.contains(expected), "{message}");
        assert!(message.contains("app/secret.yaml"), "{message}");
        assert!(
            !message.contains(TOKEN) && !message.contains("vault:v1"),
            "{message}"
        );
        if is_down {
            vault.is_down.store(false, Ordering::Relaxed);
            world.sweep_after(Duration::from_secs(900));
            let (status, _, message) = ready(hub, "Kustomization", "flux-system", "app");
            assert_eq!(status, "True", "{message}");
        }
    }
}

/// Each service with the credentials of the Secret, which count before an account.
#[test]
fn entries_of_the_secret_ask_the_services_of_clouds() {
    let aws = format!("aws_access_key_id: AKIA\naws_secret_access_key: {TOKEN}\n");
    let azure = format!("tenantId: acme\nclientId: app\nclientSecret: {TOKEN}\n");
    let google =
        json!({"type": "service_account", "client_email": "sops@acme", "private_key": TOKEN});
    let keys =
        json!({"sops.aws-kms": aws, "sops.azure-kv": azure, "sops.gcp-kms": google.to_string()});
    let role = "arn:aws:iam::012345678901:role/sops";
    let cases = [
        ("aws", vec![format!("{FIRST_KEY} as AKIA, no role")]),
        (
            "aws-role",
            vec![format!(
                "arn:aws:kms:eu-west-1:012345678901:alias/sops as AKIA, {role}"
            )],
        ),
        (
            "azure",
            vec!["acme.vault.azure.net/sops/0a1b2c as app by its secret".to_owned()],
        ),
        ("google", vec!["first as sops@acme".to_owned()]),
        (
            "aws-and-google",
            vec![
                "arn:aws:kms:eu-west-1:012345678901:key/1 as AKIA, no role".to_owned(),
                "second as sops@acme".to_owned(),
            ],
        ),
    ];
    for (name, expected) in cases {
        let (world, services) = start(&keys);
        let (reason, message) = build(&world, sync("app"), name);
        assert_eq!(reason, SUCCEEDED, "{name}: {message}");
        assert_eq!(password(&world).as_deref(), Some(PASSWORD), "{name}");
        assert_eq!(services.take(), expected, "{name}");
    }
}

/// Creates the service account `sops` with an identity in each cloud.
fn account(world: &Embedded) {
    let provider = "projects/1/locations/global/workloadIdentityPools/pool/providers/hub";
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "sops",
        "annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/tenant",
            "azure.workload.identity/client-id": "tenant", "azure.workload.identity/tenant-id": "acme",
            "gcp.auth.fluxcd.io/workload-identity-provider": provider,
            "iam.gke.io/gcp-service-account": "tenant@acme.iam.gserviceaccount.com"}}});
    let path = "/api/v1/namespaces/flux-system/serviceaccounts";
    let hub = world.cluster("hub");
    hub.send("POST", path, "application/json", Some(&account))
        .unwrap();
}

#[test]
fn a_service_account_asks_the_services_of_clouds() {
    let with_account = || {
        let text = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata:\n  name: app\n  namespace: flux-system\n\
             spec:\n  interval: 10m\n  path: ./app\n  prune: true\n  targetNamespace: default\n  sourceRef:\n    kind: GitRepository\n    \
             name: flux-system\n  decryption:\n    provider: sops\n    serviceAccountName: sops\n";
        Change::write("clusters/hub/app.yaml", text)
    };
    let cases = [
        (
            "aws",
            format!("{FIRST_KEY} as arn:aws:iam::1:role/tenant, no role"),
        ),
        (
            "azure",
            "acme.vault.azure.net/sops/0a1b2c as tenant by its token".to_owned(),
        ),
        (
            "google",
            "first as tenant@acme.iam.gserviceaccount.com".to_owned(),
        ),
    ];
    for (name, expected) in cases {
        let (world, services) = start(&json!({}));
        let (reason, message) = build(&world, with_account(), name);
        assert_eq!(reason, "BuildFailed", "{name}: {message}");
        assert!(
            message.contains("ServiceAccount \"sops\" not found"),
            "{message}"
        );
        account(&world);
        world.sweep_after(Duration::from_secs(900));
        let (_, reason, message) =
            ready(world.cluster("hub"), "Kustomization", "flux-system", "app");
        assert_eq!(reason, SUCCEEDED, "{name}: {message}");
        assert_eq!(services.take(), [expected], "{name}");
    }
}

/// The installation's own role decrypts only with the keys that the operator named.
#[test]
fn the_installation_asks_only_for_keys_that_the_operator_named() {
    let (world, services) = start(&json!({"unused": ""}));
    let (reason, message) = build(&world, sync("app"), "aws");
    assert_eq!(reason, "BuildFailed", "{message}");
    assert!(
        message.contains("AWS KMS: the Secret of spec.decryption.secretRef has no entry 'sops.aws-kms', and spec.decryption.serviceAccountName is not set"),
        "{message}"
    );
    let named = |arn: &str| {
        world.change("hub", |settings| {
            settings.role_keys = vec![format!("flux-system/{arn}"), format!("other/{FIRST_KEY}")];
        });
        world.sweep_after(Duration::from_secs(900));
        let (_, reason, message) =
            ready(world.cluster("hub"), "Kustomization", "flux-system", "app");
        (reason, message)
    };
    let (reason, message) = named("arn:aws:kms:eu-west-1:012345678901:key/other");
    assert_eq!(reason, "BuildFailed", "{message}");
    let flag = format!("--allow-role-key flux-system/{FIRST_KEY}");
    assert!(message.contains(&flag), "{message}");
    assert_eq!(services.take(), [""; 0]);
    let (reason, message) = named(FIRST_KEY);
    assert_eq!(reason, SUCCEEDED, "{message}");
    let expected = format!("{FIRST_KEY} as the installation, no role");
    assert_eq!(services.take(), [expected]);
}
