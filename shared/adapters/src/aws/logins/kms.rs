//! AWS KMS: decrypts data keys of SOPS files (Decrypt).

use super::sign::SigningRequest;
use super::{AwsLogins, Shared, granted, host};
use crate::aws::error::to_error;
use aws_config::Region;
use aws_sdk_s3::config::Credentials;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use driftless_kernel::ports::{AwsIdentity, AwsKey, ErrorKind, PortError, Result, Secret};
use http::Method;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

const JSON: &str = "application/x-amz-json-1.1";
/// The name of the session of a role that a file names, in AWS's logs.
const SESSION: &str = "driftless-sops";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Decrypted {
    plaintext: String,
}

impl AwsLogins {
    /// Decrypts a data key, as the port's method does.
    pub(crate) async fn decrypt(
        &self,
        key: &AwsKey,
        ciphertext: &str,
        identity: &AwsIdentity,
        now: Duration,
    ) -> Result<Secret> {
        self.0.decrypt(key, ciphertext, identity, now).await
    }
}

impl Shared {
    async fn decrypt(
        self: &Arc<Self>,
        key: &AwsKey,
        ciphertext: &str,
        identity: &AwsIdentity,
        now: Duration,
    ) -> Result<Secret> {
        let host = host("kms", &key.region, &key.partition)?;
        let url = format!("{}/", self.endpoint(host).await);
        let mut body = json!({"CiphertextBlob": ciphertext, "KeyId": key.arn});
        if !key.context.is_empty() {
            body["EncryptionContext"] = json!(key.context);
        }
        let body = body.to_string();
        let credentials = match &key.role {
            None => self.credentials(&key.region, identity, now).await?,
            Some(role) => self.assumed(&key.region, role, identity, now).await?,
        };
        let request = SigningRequest {
            method: Method::POST,
            headers: &[
                ("content-type", JSON),
                ("x-amz-target", "TrentService.Decrypt"),
            ],
            body: &body,
            ..SigningRequest::get("kms", &key.region, &url, now)
        };
        let answer = self.ask(request.signed(credentials)?).await?;
        let answer = serde_json::from_slice::<Decrypted>(&answer).ok();
        let plaintext = answer.and_then(|answer| STANDARD.decode(answer.plaintext).ok());
        plaintext.map(Secret::new).ok_or_else(|| {
            let message = format!("'{url}': the answer has no plaintext in base64");
            PortError::new(ErrorKind::Unreadable, message)
        })
    }

    /// Returns the credentials of a role that the identity assumes.
    async fn assumed(
        self: &Arc<Self>,
        region: &str,
        role: &str,
        identity: &AwsIdentity,
        now: Duration,
    ) -> Result<Credentials> {
        let shared = self.clone();
        let make = |(region, role, identity): (String, String, AwsIdentity)| async move {
            let credentials = shared.credentials(&region, &identity, now).await?;
            let sts = aws_sdk_sts::config::Builder::from(shared.installation.settings().await);
            let sts = sts
                .region(Region::new(region))
                .credentials_provider(credentials);
            let request = aws_sdk_sts::Client::from_conf(sts.build()).assume_role();
            let request = request.role_arn(&role).role_session_name(SESSION);
            let operation = format!("assume the role '{}'", role.escape_debug());
            let given = request.send().await;
            let given = given.map_err(|error| to_error(&operation, &error))?;
            granted(given.credentials, "AssumeRole")
        };
        let key = (region.to_owned(), role.to_owned(), identity.clone());
        self.assumed.get(key, now, make).await
    }
}
