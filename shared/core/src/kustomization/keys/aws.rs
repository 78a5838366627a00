//! AWS Key Management Service.

use super::{Identity, Service, entry_problem, fields, invalid};
use async_trait::async_trait;
use driftless_flux::Invalid;
use driftless_kernel::cloud::{Exchange, aws};
use driftless_kernel::context::Context;
use driftless_kernel::failure::Failure;
use driftless_kernel::hub::Settings;
use driftless_kernel::ports::{AwsIdentity, AwsKey, KeyRequest, Secret};
use driftless_sops::{KeyService, MasterKey};

/// The entry of the Secret.
const ENTRY: &str = "sops.aws-kms";

/// Keys of AWS KMS. The entry `sops.aws-kms` of the Secret is YAML with an access key, as
/// kustomize-controller 1.9 reads it.
pub struct Kms;

#[async_trait]
impl Service for Kms {
    fn service(&self) -> KeyService {
        KeyService::AwsKms
    }

    fn entry(&self) -> &'static str {
        ENTRY
    }

    fn trusts_accounts(&self) -> bool {
        true
    }

    fn is_allowed(&self, settings: &Settings, namespace: &str) -> bool {
        allowed(settings, namespace).next().is_some()
    }

    async fn request(
        &self,
        context: &Context<'_>,
        namespace: &str,
        key: &MasterKey,
        identity: Identity<'_>,
    ) -> Result<KeyRequest, Failure> {
        let aws_key = aws_key(key).map_err(invalid)?;
        let identity = match identity {
            Identity::Secret(entry) => access_key(entry).map_err(invalid)?,
            Identity::Account(account) => {
                aws::identity(
                    &Exchange::new(context.ports, &context.hub),
                    account,
                    &aws_key.region,
                )
                .await?
            }
            Identity::Installation => installation(&context.hub.settings, namespace, &aws_key)?,
        };
        Ok(KeyRequest::Aws(aws_key, identity))
    }
}

/// Returns the keys that a namespace may use with the installation's own role.
fn allowed<'a>(settings: &'a Settings, namespace: &'a str) -> impl Iterator<Item = &'a str> {
    let all = settings.role_keys.iter();
    let all = all.filter_map(|one| one.split_once('/'));
    all.filter(move |(of, _)| *of == namespace)
        .map(|(_, arn)| arn)
}

/// Returns the installation's own identity, if the operator named the key for the namespace.
fn installation(
    settings: &Settings,
    namespace: &str,
    key: &AwsKey,
) -> Result<AwsIdentity, Failure> {
    let arn = &key.arn;
    if !allowed(settings, namespace).any(|one| one == arn) {
        return Err(invalid(format!(
            "the key '{arn}' is not allowed for the installation's own AWS role: register the hub with --allow-role-key {namespace}/{arn}, \
             or set spec.decryption.serviceAccountName"
        )));
    }
    if key.role.is_some() {
        // A role may trust the installation for other tenants.
        return Err(invalid(format!(
            "the file names a role for the key '{arn}', which the installation's own AWS role does not assume: \
             set spec.decryption.serviceAccountName"
        )));
    }
    Ok(AwsIdentity::Installation)
}

fn aws_key(key: &MasterKey) -> Result<AwsKey, Invalid> {
    let parsed = AwsKey::parse(&key.name).ok_or_else(|| {
        let name = key.name.escape_debug();
        Invalid::new(format!(
            "'{name}' is not the ARN of a key: expected arn:aws:kms:REGION:ACCOUNT:key/ID or alias/NAME"
        ))
    })?;
    if key.options.contains_key("aws_profile") {
        let message = "aws_profile of a key is not supported: profiles are files of a workstation";
        return Err(message.into());
    }
    Ok(AwsKey {
        context: key.context.clone(),
        role: key.options.get("role").cloned(),
        ..parsed
    })
}

/// Reads an access key.
fn access_key(entry: &Secret) -> Result<AwsIdentity, Invalid> {
    let text = fields(entry, ENTRY)?;
    match (
        text(&["aws_access_key_id"]),
        text(&["aws_secret_access_key"]),
    ) {
        (Some(id), Some(secret)) => Ok(AwsIdentity::AccessKey {
            id,
            secret: Secret::new(secret),
            session: text(&["aws_session_token"]).map(Secret::new),
        }),
        _ => Err(entry_problem(
            ENTRY,
            "needs the fields aws_access_key_id and aws_secret_access_key",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARN: &str = "arn:aws:kms:eu-west-1:1:key/a";

    #[test]
    fn access_keys() {
        let entry = |text: &str| access_key(&Secret::new(text.to_owned()));
        let expected = AwsIdentity::AccessKey {
            id: "AKIA".to_owned(),
            secret: Secret::new("s3cret"),
            session: None,
        };
        let text =
            "aws_access_key_id: AKIA\naws_secret_access_key: s3cret\naws_session_token: ''\n";
        assert_eq!(entry(text).unwrap(), expected);
        for text in ["", "aws_access_key_id: AKIA", "s3cret: [", "- s3cret"] {
            let message = entry(text).unwrap_err().to_string();
            assert!(message.starts_with("the entry 'sops.aws-kms'"), "{message}");
            assert!(!message.contains("s3cret"), "{message}");
        }
    }

    #[test]
    fn the_installation_decrypts_only_with_keys_that_the_operator_named() {
        let settings = Settings {
            role_keys: vec![format!("apps/{ARN}"), "ops".to_owned()],
            ..Settings::default()
        };
        let key = AwsKey::parse(ARN).unwrap();
        assert!(Kms.is_allowed(&settings, "apps") && !Kms.is_allowed(&settings, "ops"));
        assert!(installation(&settings, "apps", &key).is_ok());
        let refused = installation(&settings, "other", &key).unwrap_err();
        assert!(
            refused
                .message
                .contains("--allow-role-key other/arn:aws:kms:")
        );
        let role = AwsKey {
            role: Some("arn:aws:iam::1:role/a".to_owned()),
            ..key
        };
        let refused = installation(&settings, "apps", &role).unwrap_err();
        assert!(refused.message.contains("names a role"), "{refused}");
    }
}
