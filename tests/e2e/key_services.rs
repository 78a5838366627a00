//! SOPS files whose data keys a key service decrypts. The real sops encrypted the files of
//! tests/corpus/sops/services.

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use driftless_core::ports::{ErrorKind, PortError, Result, Secret, Vault, VaultKey};
use driftless_harness::github::Change;
use driftless_harness::tools;
use driftless_tests::embedded::Embedded;
use driftless_tests::site::*;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const FLEET: &str = "acme/keys";
const HUB: [HubSpec<'static>; 1] = [HubSpec {
    name: "hub",
    repository: FLEET,
    branch: "main",
    path: "./clusters/hub",
}];
const TOKEN: &str = "corpus";

/// The transit engine of tests/oracle/sops/vault.py, whose ciphertexts are backwards.
#[derive(Default)]
struct Transit {
    is_down: AtomicBool,
    /// The keys that were asked for.
    asked: Mutex<Vec<VaultKey>>,
}

#[async_trait]
impl Vault for Transit {
    async fn decrypt(
        &self,
        key: &VaultKey,
        ciphertext: &str,
        token: &Secret,
        _: bool,
    ) -> Result<Secret> {
        if self.is_down.load(Ordering::Relaxed) {
            let message = format!("'{}': no answer in time", key.address);
            return Err(PortError::new(ErrorKind::Unavailable, message));
        }
        if token.expose_str() != Some(TOKEN) {
            let message = format!("'{}' answered 403 Forbidden", key.address);
            return Err(PortError::new(ErrorKind::Denied, message));
        }
        self.asked.lock().unwrap().push(key.clone());
        let text = ciphertext.strip_prefix("vault:v1:").unwrap();
        let text: String = text.chars().rev().collect();
        Ok(Secret::new(STANDARD.decode(text).unwrap()))
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

fn start(keys: &Value) -> (Embedded, Arc<Transit>) {
    let vault = Arc::<Transit>::default();
    let world = Embedded::start(&HUB, &[]).with_vault(vault.clone());
    world.cluster("hub").secret("flux-system", "keys", keys);
    (world, vault)
}

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
    let asked = std::mem::take(&mut *vault.asked.lock().unwrap());
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!(asked[0].address, "http://127.0.0.1:18200");
    assert_eq!(
        (&*asked[0].engine, &*asked[0].name),
        ("sops/transit", "first")
    );
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
            world.advance(Duration::from_secs(900));
            world.sweep();
            world.settle();
            let (status, _, message) = ready(hub, "Kustomization", "flux-system", "app");
            assert_eq!(status, "True", "{message}");
        }
    }
}
