//! The real signers: keys, certificates, and signatures of artifacts in a [`Host`]'s registry.

use super::Host;
use crate::{process, tools};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A key of the real signers: a file with the private half.
pub struct Key(PathBuf);

/// What signs an artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cosign {
    /// A signature of cosign 2.
    Simple,
    /// A bundle of cosign 3.
    Bundle,
}

impl Cosign {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Simple, Self::Bundle];
}

fn command(verb: &str) -> Command {
    let mut command = Command::new(tools::SIGN.path());
    command.env_clear().env("HOME", "/nowhere").arg(verb);
    command
}

impl Key {
    /// A new key: `p256`, `p384`, `p521`, `ed25519` or `rsa`.
    pub fn new(directory: &Path, name: &str, kind: &str) -> Self {
        let file = directory.join(name);
        process::run(command("key").arg(kind).arg(&file));
        Self(file)
    }

    /// The public half, PEM.
    pub fn public(&self) -> String {
        std::fs::read_to_string(self.public_file()).expect("read a key")
    }

    fn public_file(&self) -> PathBuf {
        self.0.with_extension("pub")
    }

    /// Signs `REPOSITORY:TAG` of the host.
    pub fn sign(&self, how: Cosign, host: &Host, repository: &str, tag: &str) {
        self.sign_as(how, host, repository, tag, &host.digest(repository, tag));
    }

    /// Puts a signature beside `REPOSITORY:TAG` that speaks of another digest.
    pub fn sign_as(&self, how: Cosign, host: &Host, repository: &str, tag: &str, digest: &str) {
        let verb = match how {
            Cosign::Simple => "cosign-simple",
            Cosign::Bundle => "cosign-bundle",
        };
        let reference = format!("{}/{repository}:{tag}", host.name());
        process::run(command(verb).arg(reference).arg(&self.0).arg(digest));
    }

    /// What cosign itself says of `REPOSITORY:TAG` when it trusts this key.
    pub fn is_accepted_by_cosign(&self, host: &Host, repository: &str, tag: &str) -> bool {
        let reference = format!(
            "{}/{repository}@{}",
            host.name(),
            host.digest(repository, tag)
        );
        let mut verify = command("cosign-verify");
        let told = verify.arg(reference).arg(self.public_file()).output();
        let told = told.expect("start the signer");
        let text = String::from_utf8_lossy(&told.stderr);
        assert!(
            told.status.success() || text.contains("no matching") || text.contains("no signatures"),
            "{text}"
        );
        told.status.success()
    }
}

/// A signer with certificates.
pub struct Signer(PathBuf);

impl Signer {
    /// A new key, its certificate and those who vouch for it; `how` as the program `sign` reads it (`kind`, `organization`, ...).
    pub fn new(directory: &Path, name: &str, how: &Value) -> Self {
        let directory = directory.join(name);
        process::run(command("certificates").arg(&directory).arg(how.to_string()));
        Self(directory)
    }

    /// The certificate of the last authority, PEM.
    pub fn root(&self) -> String {
        std::fs::read_to_string(self.0.join("root")).expect("read a certificate")
    }

    /// Signs `REPOSITORY:TAG` of the host; `how` as the program `sign` reads it (`format`, `age`, ...).
    pub fn sign(&self, host: &Host, repository: &str, tag: &str, how: &Value) {
        let reference = format!("{}/{repository}:{tag}", host.name());
        let mut sign = command("notation-sign");
        process::run(sign.arg(reference).arg(&self.0).arg(how.to_string()));
    }

    /// What notation itself says of `REPOSITORY:TAG` under a trust policy when it trusts this signer's root: `verified`, `ignored`,
    /// or why not.
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
        let told = verify.arg(reference).arg(file).arg(self.0.join("root"));
        let told = told.output().expect("start the signer");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        match told.status.success() {
            true => Ok(text(&told.stdout)),
            false => Err(text(&told.stderr)),
        }
    }
}

/// A Sigstore of one's own: an authority, a log of its certificates, a transparency log and an authority of time stamps.
pub struct Sigstore(PathBuf);

impl Sigstore {
    /// A new one.
    pub fn new(directory: &Path, name: &str) -> Self {
        let directory = directory.join(name);
        process::run(command("sigstore").arg(&directory));
        Self(directory)
    }

    /// Its `trusted_root.json`.
    pub fn trusted_root(&self) -> String {
        std::fs::read_to_string(self.0.join("trusted_root.json")).expect("read a trusted root")
    }

    /// Signs `REPOSITORY:TAG` of the host without a key; `how` as the program `sign` reads it (`form`, `issuer`, `subject`, `fault`,
    /// ...).
    pub fn sign(&self, host: &Host, repository: &str, tag: &str, how: &Value) {
        let reference = format!("{}/{repository}:{tag}", host.name());
        let mut sign = command("keyless-sign");
        process::run(sign.arg(reference).arg(&self.0).arg(how.to_string()));
    }

    /// What cosign itself says of `REPOSITORY:TAG` when it trusts this Sigstore and these identities (`issuer`, `subject`): nothing, or
    /// why not.
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
        let told = verify
            .arg(reference)
            .arg(&self.0)
            .arg(identities.to_string());
        let told = told.output().expect("start the signer");
        match told.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&told.stderr).trim().to_owned()),
        }
    }
}
