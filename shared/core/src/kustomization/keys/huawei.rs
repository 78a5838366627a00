//! Huawei Cloud Key Management Service.

use super::{Identity, Service, entry_problem, fields, invalid};
use async_trait::async_trait;
use driftless_flux::Invalid;
use driftless_kernel::context::Context;
use driftless_kernel::failure::Failure;
use driftless_kernel::ports::{HuaweiIdentity, HuaweiKey, KeyRequest, Secret};
use driftless_sops::{KeyService, MasterKey};

/// The entry of the Secret.
const ENTRY: &str = "sops.huawei-kms";

/// Keys of Huawei Cloud KMS. The entry `sops.huawei-kms` of the Secret is YAML with an access key
/// and the project of the key's region.
pub struct Kms;

#[async_trait]
impl Service for Kms {
    fn service(&self) -> KeyService {
        KeyService::HuaweiKms
    }

    fn entry(&self) -> &'static str {
        ENTRY
    }

    fn trusts_accounts(&self) -> bool {
        false
    }

    async fn request(
        &self,
        _context: &Context<'_>,
        _namespace: &str,
        key: &MasterKey,
        identity: Identity<'_>,
    ) -> Result<KeyRequest, Failure> {
        let huawei_key = HuaweiKey::parse(&key.name).ok_or_else(|| {
            let name = key.name.escape_debug();
            invalid(format!(
                "'{name}' is not a key of Huawei Cloud: expected REGION:ID"
            ))
        })?;
        let Identity::Secret(entry) = identity else {
            return Err(invalid("an access key is missing"));
        };
        let identity = access_key(entry).map_err(invalid)?;
        Ok(KeyRequest::Huawei(huawei_key, identity))
    }
}

/// Reads an access key.
fn access_key(entry: &Secret) -> Result<HuaweiIdentity, Invalid> {
    let text = fields(entry, ENTRY)?;
    let part = |name: &'static str| text(&[name]);
    match (
        part("access_key_id"),
        part("secret_access_key"),
        part("project_id"),
    ) {
        (Some(id), Some(secret), Some(project)) => {
            HuaweiIdentity::new(&id, Secret::new(secret), &project)
                .ok_or_else(|| entry_problem(ENTRY, "has an invalid access_key_id or project_id"))
        }
        _ => Err(entry_problem(
            ENTRY,
            "needs the fields access_key_id, secret_access_key and project_id",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_key_needs_its_project() {
        let entry = |text: &str| access_key(&Secret::new(text.to_owned()));
        let found = entry("access_key_id: AK\nsecret_access_key: s3cret\nproject_id: 0a1b\n");
        let expected = HuaweiIdentity::new("AK", Secret::new("s3cret"), "0a1b");
        assert_eq!(found.unwrap(), expected.unwrap());
        for text in [
            "",
            "access_key_id: AK\nsecret_access_key: s3cret\n",
            "access_key_id: AK\nsecret_access_key: s3cret\nproject_id: ../a\n",
            "s3cret: [",
        ] {
            let message = entry(text).unwrap_err().to_string();
            assert!(
                message.starts_with("the entry 'sops.huawei-kms'"),
                "{message}"
            );
            assert!(!message.contains("s3cret"), "{message}");
        }
    }
}
