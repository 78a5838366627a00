//! Huawei Cloud KMS: decrypts data keys of SOPS files by one signed request ("DecryptData").

use crate::cloud_http;
use crate::clouds::CloudHosts;
use crate::tenant_http::Clients;
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use driftless_kernel::ports::{ErrorKind, HuaweiIdentity, HuaweiKey, PortError, Result, Secret};
use http::Request;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::time::Duration;

/// The algorithm of the signature ("API request signing").
const ALGORITHM: &str = "SDK-HMAC-SHA256";
/// The headers that are signed, in the order of the signature.
const SIGNED: &str = "content-type;host;x-sdk-date";

/// The API of the service, in the region that the SOPS file names.
#[derive(Default)]
pub(super) struct HuaweiKms {
    hosts: CloudHosts,
    clients: Clients,
}

/// The used part of an answer.
#[derive(Deserialize)]
struct Decrypted {
    /// The data key in base64, as sops encrypted it.
    plain_text: String,
}

impl HuaweiKms {
    pub(super) fn new(hosts: CloudHosts) -> Self {
        Self {
            hosts,
            ..Self::default()
        }
    }

    /// Decrypts a data key, as the port's method does.
    pub(super) async fn decrypt(
        &self,
        key: &HuaweiKey,
        ciphertext: &str,
        identity: &HuaweiIdentity,
        now: Duration,
    ) -> Result<Secret> {
        let host = key.host();
        let path = format!("/v1.0/{}/kms/decrypt-data", identity.project);
        let place = format!("{host}{path}");
        let invalid =
            |problem: &str| PortError::new(ErrorKind::Unreadable, format!("'{place}' {problem}"));
        let body = json!({"cipher_text": ciphertext, "encryption_algorithm": "SYMMETRIC_DEFAULT",
            "key_id": key.id});
        let body = body.to_string();
        let date = date(now).ok_or_else(|| invalid("was not asked: the clock is not valid"))?;
        let request = Request::post(self.hosts.url(&place))
            .header(CONTENT_TYPE, "application/json")
            .header("x-sdk-date", &date)
            .header(
                AUTHORIZATION,
                authorization(identity, &host, &path, &date, &body),
            )
            .body(body.into_bytes())
            .map_err(|_| invalid("was not asked: the access key is not valid in a header"))?;
        let allow_local = self.hosts.stand_in.is_some();
        let answer = cloud_http::ask(&self.clients, request, allow_local).await?;
        let answer = serde_json::from_slice::<Decrypted>(&answer).ok();
        let data_key = answer.and_then(|answer| STANDARD.decode(answer.plain_text).ok());
        data_key
            .map(Secret::new)
            .ok_or_else(|| invalid("did not answer with a plaintext in base64"))
    }
}

/// Returns a time in the form of the header `X-Sdk-Date`.
fn date(now: Duration) -> Option<String> {
    let time = jiff::Timestamp::from_second(i64::try_from(now.as_secs()).ok()?).ok()?;
    Some(time.strftime("%Y%m%dT%H%M%SZ").to_string())
}

/// Returns the signature of a POST request.
fn authorization(
    identity: &HuaweiIdentity,
    host: &str,
    path: &str,
    date: &str,
    body: &str,
) -> String {
    let hash = |text: &str| hex::encode(Sha256::digest(text));
    let headers = format!("content-type:application/json\nhost:{host}\nx-sdk-date:{date}\n");
    let request = format!("POST\n{path}/\n\n{headers}\n{SIGNED}\n{}", hash(body));
    let text = format!("{ALGORITHM}\n{date}\n{}", hash(&request));
    let key = hmac::Key::new(hmac::HMAC_SHA256, identity.secret.expose());
    let signature = hex::encode(hmac::sign(&key, text.as_bytes()));
    let access_key = &identity.access_key;
    format!("{ALGORITHM} Access={access_key}, SignedHeaders={SIGNED}, Signature={signature}")
}
