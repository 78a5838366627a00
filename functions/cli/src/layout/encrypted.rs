//! The kubeconfigs of a remote cluster in Git, encrypted with SOPS, and the Kustomization that
//! decrypts them on the hub.

use super::checkout::Checkout;
use super::manifests::Api;
use super::resources::{self, EntryPosition, kustomization};
use crate::error::Error;
use crate::term;
use age::armor::{ArmoredWriter, Format};
use driftless_flux::Invalid;
use jiff::Timestamp;
use serde_json::Value;
use std::io::Write as _;
use std::iter;

/// The directory with the Secrets, in that of the remote cluster.
const DIRECTORY: &str = "kubeconfigs";
/// The file with the Kustomization, next to the directory.
const SYNC: &str = "kubeconfigs-sync.yaml";
/// The keys of a Secret whose values are encrypted, as in Flux's guide.
const ENCRYPTED: &str = "^(data|stringData)$";

/// A remote cluster in the checkout.
#[derive(Clone, Copy)]
pub struct Remote<'a> {
    /// The name of its hub.
    pub hub: &'a str,
    /// The name of the remote cluster.
    pub name: &'a str,
    /// The directory with its Kustomizations.
    pub directory: &'a str,
}

/// An age recipient.
#[derive(Clone)]
pub struct Recipient {
    text: String,
    key: age::x25519::Recipient,
}

/// The keys that open the kubeconfigs.
pub struct Keys<'a> {
    /// The recipients of the data key.
    pub recipients: &'a [Recipient],
    /// The Secret with the age key on the hub.
    pub secret: &'a str,
    /// The namespace of the Secret and of the Kustomization.
    pub namespace: &'a str,
}

/// Parses an age recipient.
pub fn recipient(text: &str) -> Result<Recipient, Invalid> {
    let key = text
        .parse::<age::x25519::Recipient>()
        .map_err(|_| "expected an age recipient, age1..., as age-keygen prints it")?;
    Ok(Recipient {
        text: text.to_owned(),
        key,
    })
}

/// Returns whether the checkout has encrypted kubeconfigs of a remote cluster.
pub fn exists(checkout: &Checkout, directory: &str) -> bool {
    checkout.has(&format!("{directory}/{SYNC}"))
}

/// Writes the Secrets, encrypted, and the Kustomization that decrypts them. Every call encrypts
/// with a new data key.
///
/// # Errors
/// Fails for files that cannot be edited, and if the system gives no random bytes.
pub fn write(
    checkout: &mut Checkout,
    api: Api,
    remote: Remote<'_>,
    keys: &Keys<'_>,
    secrets: &[Value],
) -> Result<(), Error> {
    let directory = format!("{}/{DIRECTORY}", remote.directory);
    let mut files = Vec::new();
    for secret in secrets {
        let namespace = secret["metadata"]["namespace"].as_str().unwrap_or_default();
        let file = format!("{namespace}.yaml");
        let path = format!("{directory}/{file}");
        let text = encrypt(secret, keys.recipients, &path)?;
        checkout.put(path, text);
        files.push(file);
    }
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    resources::create(checkout, &directory, kustomization(&files))?;
    for file in files {
        resources::add(checkout, &directory, &[], file, EntryPosition::End)?;
    }
    let path = format!("./{directory}");
    let sync = api.kubeconfigs(remote.name, keys.namespace, &path, keys.secret);
    checkout.put(format!("{}/{SYNC}", remote.directory), sync);
    resources::add(checkout, remote.directory, &[], SYNC, EntryPosition::End)?;
    term::action(&format!(
        "the hub opens the kubeconfigs with the Secret {secret} of {namespace}:\n    driftless create secret sops {secret} -n {namespace} --age-key-file FILE",
        secret = keys.secret,
        namespace = keys.namespace
    ));
    Ok(())
}

/// Encrypts a Secret for the recipients.
fn encrypt(secret: &Value, recipients: &[Recipient], path: &str) -> Result<String, Error> {
    let data_key = random().map_err(Error::caused_by)?;
    let mut sealed = Vec::new();
    for recipient in recipients {
        let text = seal(&data_key, recipient).map_err(|error| {
            Error::caused_by(error).context(format!("encrypt for {}", recipient.text))
        })?;
        sealed.push((recipient.text.clone(), text));
    }
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let new = driftless_sops::NewFile {
        data_key: &data_key,
        age: &sealed,
        nonce: &mut random,
        last_modified: &now,
        encrypted_regex: ENCRYPTED,
    };
    driftless_sops::encrypt(secret, new, path).map_err(Error::caused_by)
}

fn random() -> Result<[u8; 32], &'static str> {
    let mut bytes = [0; 32];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(_) => Err("the system gives no random bytes"),
    }
}

/// Encrypts the data key for a recipient.
fn seal(data_key: &[u8], recipient: &Recipient) -> Result<String, Error> {
    let recipients = iter::once(&recipient.key as &dyn age::Recipient);
    let encryptor = age::Encryptor::with_recipients(recipients).map_err(Error::caused_by)?;
    let armor =
        ArmoredWriter::wrap_output(Vec::new(), Format::AsciiArmor).map_err(Error::caused_by)?;
    let mut writer = encryptor.wrap_output(armor).map_err(Error::caused_by)?;
    writer.write_all(data_key).map_err(Error::caused_by)?;
    let armor = writer.finish().map_err(Error::caused_by)?;
    let text = armor.finish().map_err(Error::caused_by)?;
    String::from_utf8(text).map_err(Error::caused_by)
}
