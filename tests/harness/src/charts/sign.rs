//! Runs the libraries of cosign and notation: keys, certificates, and signatures of artifacts in a
//! [`Host`]'s registry.

use super::Host;
use crate::{process, tools};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A key pair; the path is the file of the private key.
pub struct Key(PathBuf);

/// The format of a cosign signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cosign {
    /// A signature of cosign 2.
    Simple,
    /// A bundle of cosign 3.
    Bundle,
}

impl Cosign {
    /// Both formats of cosign signatures.
    pub const ALL: [Self; 2] = [Self::Simple, Self::Bundle];
}

fn command(verb: &str) -> Command {
    let mut command = Command::new(tools::SIGN.path());
    command.env_clear().env("HOME", "/nowhere").arg(verb);
    command
}

/// Signs an artifact with the keys in a directory.
fn sign(verb: &str, reference: &str, keys: &Path, options: &Value) {
    let mut sign = command(verb);
    process::run(sign.arg(reference).arg(keys).arg(options.to_string()));
}

impl Key {
    /// Generates a key of a kind: `p256`, `p384`, `p521`, `ed25519` or `rsa`.
    pub fn new(directory: &Path, name: &str, kind: &str) -> Self {
        let file = directory.join(name);
        process::run(command("key").arg(kind).arg(&file));
        Self(file)
    }

    /// Returns the public key, PEM.
    pub fn public(&self) -> String {
        std::fs::read_to_string(self.public_file()).expect("read a key")
    }

    fn public_file(&self) -> PathBuf {
        self.0.with_extension("pub")
    }

    /// Signs `REPOSITORY:TAG` of the host.
    pub fn sign(&self, format: Cosign, host: &Host, repository: &str, tag: &str) {
        self.sign_as(format, host, repository, tag, &host.digest(repository, tag));
    }

    /// Attaches a signature of `digest`, which may be another one, to `REPOSITORY:TAG`.
    pub fn sign_as(&self, format: Cosign, host: &Host, repository: &str, tag: &str, digest: &str) {
        let verb = match format {
            Cosign::Simple => "cosign-simple",
            Cosign::Bundle => "cosign-bundle",
        };
        let reference = format!("{}/{repository}:{tag}", host.name());
        process::run(command(verb).arg(reference).arg(&self.0).arg(digest));
    }

    /// Returns whether cosign itself accepts `REPOSITORY:TAG` with this key.
    pub fn is_accepted_by_cosign(&self, host: &Host, repository: &str, tag: &str) -> bool {
        let reference = format!(
            "{}/{repository}@{}",
            host.name(),
            host.digest(repository, tag)
        );
        let mut verify = command("cosign-verify");
        let output = verify.arg(reference).arg(self.public_file()).output();
        let output = output.expect("start the signer");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success()
                || text.contains("no matching")
                || text.contains("no signatures"),
            "{text}"
        );
        output.status.success()
    }
}

/// A notation signer with a certificate chain; the path is its directory.
pub struct Signer(PathBuf);

impl Signer {
    /// Generates a key, its certificate and its authorities; `options` are those of the program
    /// `sign` (`kind`, `organization`, ...).
    pub fn new(directory: &Path, name: &str, options: &Value) -> Self {
        let directory = directory.join(name);
        process::run(
            command("certificates")
                .arg(&directory)
                .arg(options.to_string()),
        );
        Self(directory)
    }

    /// Returns the root certificate, PEM.
    pub fn root(&self) -> String {
        std::fs::read_to_string(self.0.join("root")).expect("read a certificate")
    }

    /// Signs `REPOSITORY:TAG` of the host; `options` are those of the program `sign` (`format`,
    /// `age`, ...).
    pub fn sign(&self, host: &Host, repository: &str, tag: &str, options: &Value) {
        let reference = format!("{}/{repository}:{tag}", host.name());
        sign("notation-sign", &reference, &self.0, options);
    }

    /// Returns the verdict of notation itself on `REPOSITORY:TAG` with this trust policy and this
    /// signer's root: `verified` or `ignored`, or notation's error.
    pub fn judge(
        &self,
        host: &Host,
        repository: &str,
        tag: &str,
        policy: &Value,
    ) -> Result<String, String> {
        let digest = host.digest(repository, tag);
        let reference = format!("{}/{repository}@{digest}", host.name());
        let file = self.0.join("policy");
        std::fs::write(&file, policy.to_string()).expect("write a policy");
        let mut verify = command("notation-verify");
        let verify = verify.arg(reference).arg(file).arg(self.0.join("root"));
        let output = verify.output().expect("start the signer");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(text(&output.stderr)),
        }
    }
}

/// A private Sigstore: a certificate authority, a log of its certificates, a transparency log and a
/// timestamp authority.
pub struct Sigstore(PathBuf);

impl Sigstore {
    /// Generates the keys and certificates of a private Sigstore.
    pub fn new(directory: &Path, name: &str) -> Self {
        let directory = directory.join(name);
        process::run(command("sigstore").arg(&directory));
        Self(directory)
    }

    /// Returns the content of its `trusted_root.json`.
    pub fn trusted_root(&self) -> String {
        std::fs::read_to_string(self.0.join("trusted_root.json")).expect("read a trusted root")
    }

    /// Signs `REPOSITORY:TAG` of the host without a key; `options` are those of the program `sign`
    /// (`form`, `issuer`, `subject`, `fault`, ...).
    pub fn sign(&self, host: &Host, repository: &str, tag: &str, options: &Value) {
        let reference = format!("{}/{repository}:{tag}", host.name());
        sign("keyless-sign", &reference, &self.0, options);
    }

    /// Verifies `REPOSITORY:TAG` with cosign itself, which trusts this Sigstore and these
    /// identities (`issuer`, `subject`). The error is cosign's.
    pub fn judge(
        &self,
        host: &Host,
        repository: &str,
        tag: &str,
        identities: &Value,
    ) -> Result<(), String> {
        let digest = host.digest(repository, tag);
        let reference = format!("{}/{repository}@{digest}", host.name());
        let mut verify = command("keyless-verify");
        let verify = verify
            .arg(reference)
            .arg(&self.0)
            .arg(identities.to_string());
        let output = verify.output().expect("start the signer");
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        }
    }
}
