//! The port to key services: they decrypt data keys of SOPS files, and never give the key itself.

use super::clouds::{is_number, is_plain};
use super::{AwsIdentity, EntraIdentity, GoogleIdentity, Result, Secret};
use async_trait::async_trait;
use std::collections::BTreeMap;
use std::time::Duration;

/// A key of AWS KMS, from its ARN in a SOPS file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwsKey {
    /// The AWS partition: `aws`, `aws-cn`, `aws-us-gov` …
    pub partition: String,
    /// The AWS region, such as `eu-west-1`: only letters, digits and `-`.
    pub region: String,
    /// The whole ARN.
    pub arn: String,
    /// The encryption context: the service refuses another one than that of the encryption.
    pub context: BTreeMap<String, String>,
    /// The ARN of a role to assume first, if the file names one.
    pub role: Option<String>,
}

impl AwsKey {
    /// Parses the ARN of a key or of an alias; returns `None` for any other string.
    pub fn parse(arn: &str) -> Option<Self> {
        let parts: Vec<&str> = arn.splitn(6, ':').collect();
        let ["arn", partition, "kms", region, account, resource] = parts[..] else {
            return None;
        };
        let name = resource.strip_prefix("key/");
        let name = name.or_else(|| resource.strip_prefix("alias/"))?;
        let is_arn = partition.starts_with("aws") && is_plain(partition, b"-", 30);
        let is_account = is_plain(account, b"", 30) && is_number(account);
        let is_key = is_plain(name, b"-_/", 256);
        (is_arn && is_account && is_key && is_plain(region, b"-", 63)).then(|| Self {
            partition: partition.to_owned(),
            region: region.to_owned(),
            arn: arn.to_owned(),
            context: BTreeMap::new(),
            role: None,
        })
    }
}

/// The domains of Azure Key Vault and its managed HSMs, in all clouds.
const AZURE_VAULTS: [&str; 6] = [
    "vault.azure.net",
    "managedhsm.azure.net",
    "vault.azure.cn",
    "managedhsm.azure.cn",
    "vault.usgovcloudapi.net",
    "managedhsm.usgovcloudapi.net",
];

/// A key of Azure Key Vault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AzureKey {
    /// The host of the vault, such as `acme.vault.azure.net`.
    pub host: String,
    /// The domain of the vault's kind: `vault.azure.net`, `managedhsm.azure.net` …
    pub domain: &'static str,
    /// The name of the key.
    pub name: String,
    /// The version of the key; empty for the newest.
    pub version: String,
}

impl AzureKey {
    /// Parses the address of a vault, such as `https://acme.vault.azure.net`, and the name and the
    /// version of a key, which become parts of a path; returns `None` for any other strings. Other
    /// hosts would get a token that opens vaults.
    pub fn parse(vault: &str, name: &str, version: &str) -> Option<Self> {
        let host = vault.strip_prefix("https://")?;
        let host = host.trim_end_matches('/');
        let host = host.strip_suffix(":443").unwrap_or(host);
        let (vault_name, suffix) = host.split_once('.')?;
        let domain = AZURE_VAULTS.into_iter().find(|domain| *domain == suffix)?;
        let is_version = version.is_empty() || is_plain(version, b"", 64);
        let fits = is_plain(vault_name, b"-", 63) && is_plain(name, b"-", 127) && is_version;
        fits.then(|| Self {
            host: host.to_owned(),
            domain,
            name: name.to_owned(),
            version: version.to_owned(),
        })
    }
}

/// A key of Google Cloud KMS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoogleKey {
    /// The name `projects/…/locations/…/keyRings/…/cryptoKeys/…`, which becomes part of a path.
    pub name: String,
}

impl GoogleKey {
    /// Parses the resource name of a key, which may have a version; returns `None` for any other
    /// string.
    pub fn parse(name: &str) -> Option<Self> {
        let parts: Vec<&str> = name.split('/').collect();
        let (key, version) = parts.split_at_checked(8)?;
        let [
            "projects",
            project,
            "locations",
            location,
            "keyRings",
            ring,
            "cryptoKeys",
            key,
        ] = key[..]
        else {
            return None;
        };
        let is_version = match version {
            [] => true,
            ["cryptoKeyVersions", number] => is_number(number) && is_plain(number, b"", 20),
            _ => false,
        };
        // The id of an old project may have its organization's domain as a prefix.
        let is_project = is_plain(project, b"-.:", 200) && project.as_bytes()[0] != b'.';
        let is_key = [location, ring, key]
            .iter()
            .all(|part| is_plain(part, b"-_", 200));
        (is_project && is_key && is_version).then(|| Self {
            // Decryption names the key; the ciphertext has the version.
            name: parts[..8].join("/"),
        })
    }
}

/// The identity that requests to Google Cloud KMS are made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GoogleLogin {
    /// A principal of a workload identity pool.
    Principal(GoogleIdentity),
    /// A key of a Google service account.
    ServiceAccountKey {
        /// The e-mail address of the service account.
        email: String,
        /// The id of the key.
        id: String,
        /// The private key as PEM (PKCS #8).
        private_key: Secret,
    },
}

/// A key of HashiCorp Vault's transit engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VaultKey {
    /// The address of the server, such as `https://vault.example.com:8200`. A tenant names it.
    pub address: String,
    /// The path of the engine, such as `transit` or `sops/transit`.
    pub engine: String,
    /// The name of the key.
    pub name: String,
}

/// The key of a service, with the identity that the service is asked with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyRequest {
    /// AWS KMS ("Decrypt"), with a ciphertext in base64.
    Aws(AwsKey, AwsIdentity),
    /// Azure Key Vault (RSA-OAEP-256), with a ciphertext in base64url.
    Azure(AzureKey, EntraIdentity),
    /// Google Cloud KMS (`cryptoKeys.decrypt`), with a ciphertext in base64.
    Google(GoogleKey, GoogleLogin),
    /// HashiCorp Vault ("Decrypt data" of the transit API), with a ciphertext `vault:v1:...`.
    Vault {
        /// The key of the transit engine.
        key: VaultKey,
        /// The token of the one who asks.
        token: Secret,
        /// Permits addresses of the installation itself, and HTTP. An address that may not be
        /// reached is `Invalid`.
        allow_local: bool,
    },
}

impl KeyRequest {
    /// Returns the place of the key for messages. An address of Vault is as the file has it.
    pub fn place(&self) -> String {
        match self {
            Self::Aws(key, _) => key.arn.clone(),
            Self::Azure(key, _) => format!("https://{}", key.host),
            Self::Google(key, _) => format!("cloudkms://{}", key.name),
            Self::Vault { key, .. } => key.address.clone(),
        }
    }
}

/// The services that decrypt data keys of SOPS files.
#[async_trait]
pub trait KeyServices: Send + Sync {
    /// Decrypts `ciphertext`, in the form in which a SOPS file has it, with a key.
    ///
    /// # Errors
    /// `Denied` if the identity has no access, and `Invalid` if the service cannot decrypt the
    /// ciphertext. No message contains credentials, an answer, or a data key.
    async fn decrypt(
        &self,
        request: &KeyRequest,
        ciphertext: &str,
        now: Duration,
    ) -> Result<Secret>;
}

#[cfg(test)]
mod tests {
    use super::{AwsKey, AzureKey, GoogleKey};

    #[test]
    fn arns_of_keys() {
        for arn in [
            "arn:aws:kms:eu-west-1:012345678901:key/1234abcd-12ab-34cd-56ef-1234567890ab",
            "arn:aws-cn:kms:cn-north-1:1:alias/team/sops",
        ] {
            let key = AwsKey::parse(arn).unwrap();
            assert_eq!(key.arn, arn);
        }
        for arn in [
            "",
            "arn:aws:kms:eu-west-1:1:key/",
            "arn:aws:kms:eu-west-1/:1:key/a",
            "arn:aws:s3:eu-west-1:1:key/a",
            "arn:other:kms:eu-west-1:1:key/a",
            "arn:aws:kms:eu-west-1:x:key/a",
            "arn:aws:kms:eu-west-1:1:key/a b",
        ] {
            assert_eq!(AwsKey::parse(arn), None, "{arn}");
        }
    }

    #[test]
    fn vaults_of_azure() {
        let key = AzureKey::parse("https://acme.vault.azure.net/", "sops", "0a1b").unwrap();
        assert_eq!(
            (&*key.host, key.domain),
            ("acme.vault.azure.net", "vault.azure.net")
        );
        for (vault, name, version) in [
            ("http://acme.vault.azure.net", "sops", ""),
            ("https://acme.vault.azure.net.example.com", "sops", ""),
            ("https://user@acme.vault.azure.net", "sops", ""),
            ("https://a.b.vault.azure.net", "sops", ""),
            ("https://acme.vault.azure.net/x", "sops", ""),
            ("https://acme.vault.azure.net", "../secrets", ""),
            ("https://acme.vault.azure.net", "sops", "a/b"),
            ("https://vault.azure.net", "sops", ""),
        ] {
            assert_eq!(
                AzureKey::parse(vault, name, version),
                None,
                "{vault} {name}"
            );
        }
    }

    #[test]
    fn names_of_googles_keys() {
        let name = "projects/acme-1/locations/global/keyRings/sops/cryptoKeys/team_a";
        assert_eq!(GoogleKey::parse(name).unwrap().name, name);
        let version = format!("{name}/cryptoKeyVersions/3");
        assert_eq!(GoogleKey::parse(&version).unwrap().name, name);
        for other in [
            "",
            "projects/acme/locations/global/keyRings/sops",
            "projects/acme/locations/global/keyRings/sops/cryptoKeys/..",
            "projects/acme/locations/global/keyRings/sops/cryptoKeys/a:encrypt",
            &format!("{name}/cryptoKeyVersions/x"),
        ] {
            assert_eq!(GoogleKey::parse(other), None, "{other}");
        }
    }
}
