//! Tests of the requests to the key services of clouds, and of their refusals.

use super::aws_logins::{services, take};
use super::cloud_answers::{NOW, hosts_that};
use aws_lc_rs::signature::{
    KeyPair as _, RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use driftless_adapters::aws::AwsLogins;
use driftless_adapters::clouds::{AzureLogins, GoogleLogins};
use driftless_adapters::key_services::HttpKeyServices;
use driftless_kernel::ports::{
    AwsIdentity, AwsKey, AzureKey, EntraIdentity, EntraProof, ErrorKind, GoogleKey, GoogleLogin,
    KeyRequest, KeyServices, Secret,
};
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::{Value, json};

/// `data key`, as AWS and Google answer it.
const PLAIN: &str = r#"{"Plaintext": "ZGF0YSBrZXk=", "plaintext": "ZGF0YSBrZXk="}"#;
const DATA_KEY: &[u8] = b"data key";
/// A private key of RSA that protects nothing.
const KEY: &str = include_str!("service_account.pem");

const ROLE: &str = "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ASIAROLE</AccessKeyId>\
    <SecretAccessKey>s</SecretAccessKey><SessionToken>session</SessionToken><Expiration>2023-11-14T23:13:20Z</Expiration>\
    </Credentials></AssumeRoleResult></AssumeRoleResponse>";

fn of_aws(aws: AwsLogins) -> HttpKeyServices {
    HttpKeyServices::new(aws, AzureLogins::default(), GoogleLogins::default())
}

fn access_key() -> AwsIdentity {
    AwsIdentity::AccessKey {
        id: "AKIATENANT".to_owned(),
        secret: Secret::new("canary"),
        session: None,
    }
}

fn aws_key(role: Option<&str>) -> AwsKey {
    let key = AwsKey::parse("arn:aws:kms:eu-west-1:1:key/a").unwrap();
    AwsKey {
        context: [("team".to_owned(), "apps".to_owned())].into(),
        role: role.map(str::to_owned),
        ..key
    }
}

#[tokio::test]
async fn a_key_of_aws_decrypts_with_the_identity_of_the_tenant() {
    let (aws, asked) = services(200, PLAIN, "").await;
    let service = of_aws(aws);
    let key = aws_key(None);
    let request = KeyRequest::Aws(key.clone(), access_key());
    let data_key = service.decrypt(&request, "c2VhbGVk", NOW).await.unwrap();
    assert_eq!(data_key.expose(), DATA_KEY);
    let body = json!({"CiphertextBlob": "c2VhbGVk", "EncryptionContext": {"team": "apps"}, "KeyId": key.arn});
    let request = format!(
        "POST / AWS4-HMAC-SHA256 Credential=AKIATENANT/20231114/eu-west-1/kms/aws4_request, \
         SignedHeaders=content-type;host;x-amz-date;x-amz-target TrentService.Decrypt {body}"
    );
    assert_eq!(take(&asked), [request]);
}

#[tokio::test]
async fn a_role_of_the_file_is_assumed_first_and_kept() {
    let (aws, asked) = services(200, PLAIN, ROLE).await;
    let service = of_aws(aws);
    let request = KeyRequest::Aws(aws_key(Some("arn:aws:iam::1:role/sops")), access_key());
    for _ in 0..2 {
        let data_key = service.decrypt(&request, "c2VhbGVk", NOW).await.unwrap();
        assert_eq!(data_key.expose(), DATA_KEY);
    }
    let requests = take(&asked);
    assert_eq!(requests.len(), 3, "{requests:?}");
    assert!(
        requests[0].contains("Credential=AKIATENANT/"),
        "{requests:?}"
    );
    assert!(requests[0].contains("Action=AssumeRole"), "{requests:?}");
    assert!(requests[0].contains("role%2Fsops"), "{requests:?}");
    for request in &requests[1..] {
        assert!(request.contains("Credential=ASIAROLE/"), "{request}");
    }
}

#[tokio::test]
async fn a_refusal_of_aws_shows_its_code_alone() {
    let answer = r#"{"__type": "InvalidCiphertextException", "message": "canary"}"#;
    let (aws, _) = services(400, answer, "").await;
    let request = KeyRequest::Aws(aws_key(None), access_key());
    let error = of_aws(aws).decrypt(&request, "canary", NOW).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
    assert!(
        error.message.contains("(InvalidCiphertextException)"),
        "{error}"
    );
    assert!(!error.message.contains("canary"), "{error}");
    let (aws, _) = services(200, r#"{"Plaintext": "?canary"}"#, "").await;
    let error = of_aws(aws).decrypt(&request, "c2VhbGVk", NOW).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unreadable, "{error}");
    assert!(!error.message.contains("canary"), "{error}");
}

#[tokio::test]
async fn a_key_of_azure_decrypts_as_an_application() {
    let answer = r#"{"access_token": "token", "expires_in": 3600, "value": "ZGF0YSBrZXk"}"#;
    let (hosts, asked) = hosts_that(200, answer).await;
    let azure = AzureLogins::new(hosts);
    let service = HttpKeyServices::new(AwsLogins::default(), azure, GoogleLogins::default());
    let key = AzureKey::parse("https://acme.vault.usgovcloudapi.net", "sops", "0a").unwrap();
    let identity = EntraIdentity {
        tenant: "acme".to_owned(),
        client: "app".to_owned(),
        proof: EntraProof::ClientSecret(Secret::new("canary")),
    };
    let request = KeyRequest::Azure(key, identity);
    let data_key = service.decrypt(&request, "c2VhbGVk", NOW).await;
    assert_eq!(data_key.unwrap().expose(), DATA_KEY);
    let requests = take(&asked);
    let expected = [
        "/login.microsoftonline.us/acme/oauth2/v2.0/token grant_type=client_credentials&client_id=app\
         &scope=https%3A%2F%2Fvault.usgovcloudapi.net%2F.default&client_secret=canary",
        r#"/acme.vault.usgovcloudapi.net/keys/sops/0a/decrypt?api-version=7.4 Bearer token {"alg":"RSA-OAEP-256","value":"c2VhbGVk"}"#,
    ];
    assert_eq!(requests, expected);
}

/// Returns the claims of an assertion, whose signature is that of [`KEY`].
fn claims(assertion: &str) -> Value {
    let (signed, signature) = assertion.rsplit_once('.').unwrap();
    let key = PrivatePkcs8KeyDer::from_pem_slice(KEY.as_bytes()).unwrap();
    let key = RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()).unwrap();
    let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.public_key().as_ref());
    let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
    public.verify(signed.as_bytes(), &signature).unwrap();
    let (head, claims) = signed.split_once('.').unwrap();
    let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).unwrap();
    let head: Value = serde_json::from_slice(&decode(head)).unwrap();
    assert_eq!(head, json!({"alg": "RS256", "typ": "JWT", "kid": "first"}));
    serde_json::from_slice(&decode(claims)).unwrap()
}

#[tokio::test]
async fn a_key_of_google_decrypts_as_a_service_account() {
    let answer = r#"{"access_token": "token", "expires_in": 3600, "plaintext": "ZGF0YSBrZXk="}"#;
    let (hosts, asked) = hosts_that(200, answer).await;
    let google = GoogleLogins::new(hosts);
    let service = HttpKeyServices::new(AwsLogins::default(), AzureLogins::default(), google);
    let name = "projects/acme/locations/global/keyRings/sops/cryptoKeys/a";
    let key = GoogleKey::parse(name).unwrap();
    let request = |private_key: &'static str| {
        let login = GoogleLogin::ServiceAccountKey {
            email: "sops@acme".to_owned(),
            id: "first".to_owned(),
            private_key: Secret::new(private_key),
        };
        KeyRequest::Google(key.clone(), login)
    };
    for _ in 0..2 {
        let data_key = service.decrypt(&request(KEY), "c2VhbGVk", NOW).await;
        assert_eq!(data_key.unwrap().expose(), DATA_KEY);
    }
    let requests = take(&asked);
    let assertion = requests[0].split("&assertion=").nth(1).unwrap();
    let expected = json!({"iss": "sops@acme", "scope": "https://www.googleapis.com/auth/cloud-platform",
        "aud": "https://oauth2.googleapis.com/token", "iat": NOW.as_secs(), "exp": NOW.as_secs() + 3600});
    assert_eq!(claims(assertion), expected);
    let decrypt = format!(
        r#"/cloudkms.googleapis.com/v1/{name}:decrypt Bearer token {{"ciphertext":"c2VhbGVk"}}"#
    );
    assert_eq!(requests[1..], [decrypt.clone(), decrypt]);
    let broken = service.decrypt(&request("canary"), "c2VhbGVk", NOW).await;
    let error = broken.unwrap_err();
    assert!(error.message.contains("expected PEM of PKCS #8"), "{error}");
    assert!(!error.message.contains("canary"), "{error}");
}
