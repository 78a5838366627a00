//! Logins to EKS and ECR, compared with botocore's signer, an STS that assumes roles and an ECR.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use driftless_adapters::aws::{AwsLogins, settings_at};
use driftless_harness::aws::presigned_identity;
use driftless_harness::http::Http;
use driftless_kernel::ports::{
    Aws, AwsIdentity, EcrRegistry, EksCluster, ErrorKind, Secret, Token,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const REGION: &str = "eu-west-1";

fn cluster() -> EksCluster {
    EksCluster {
        partition: "aws".to_owned(),
        region: REGION.to_owned(),
        name: "prod".to_owned(),
    }
}

/// Returns the presigned URL that a token contains.
fn address(token: &Token) -> String {
    let text = token.secret.expose_str().expect("text");
    let encoded = text.strip_prefix("k8s-aws-v1.").expect("a token of EKS");
    let address = URL_SAFE_NO_PAD.decode(encoded).expect("base64");
    String::from_utf8(address).expect("UTF-8")
}

fn parts(url: &str) -> BTreeSet<String> {
    url.split(['?', '&']).map(str::to_owned).collect()
}

#[tokio::test]
async fn a_token_is_what_botocore_signs() {
    let (theirs, now) = presigned_identity(REGION, "prod", "AKID", "secret");
    let sts = format!("https://sts.{REGION}.amazonaws.com");
    let settings = settings_at(&sts, REGION, "AKID", "secret").await;
    let eks = AwsLogins::with_role(&settings);
    let token = eks.token(&cluster(), &AwsIdentity::Installation, now).await;
    let ours = address(&token.expect("a token"));
    assert_eq!(parts(&ours), parts(&theirs));
}

/// Returns a service account's token with the claims that are read.
fn token_of(account: &str) -> String {
    let claims = json!({"iss": "https://hub.example", "aud": "sts.amazonaws.com",
        "sub": format!("system:serviceaccount:apps:{account}")});
    let part = |claims: &Value| URL_SAFE_NO_PAD.encode(claims.to_string());
    format!(
        "{}.{}.c2lnbmF0dXJl",
        part(&json!({"alg": "RS256"})),
        part(&claims)
    )
}

#[tokio::test]
async fn a_token_of_a_role_is_that_role_to_sts() {
    let trust = json!({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRoleWithWebIdentity",
        "Principal": {"Federated": "arn:aws:iam::000000000000:oidc-provider/hub.example"},
        "Condition": {"StringEquals": {"hub.example:sub": "system:serviceaccount:apps:deployer"}}}]});
    let role = json!({"RoleName": "deployer", "AssumeRolePolicyDocument": trust.to_string()});
    crate::ministack().aws().must("iam", "create_role", role);
    let eks = AwsLogins::with_role(&crate::settings().await);
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a time");
    let identity = |account: &str| AwsIdentity::Role {
        arn: "arn:aws:iam::000000000000:role/deployer".to_owned(),
        session: format!("{account}.apps"),
        token: Token {
            secret: Secret::new(token_of(account)),
            expires: now + Duration::from_secs(3600),
        },
    };
    let refused = eks.token(&cluster(), &identity("other"), now).await;
    assert_eq!(refused.expect_err("not trusted").kind, ErrorKind::Denied);
    let token = eks.token(&cluster(), &identity("deployer"), now).await;
    let url = address(&token.expect("a token"));
    let identity_for = |cluster: &str| {
        let headers = [("x-k8s-aws-id", cluster)];
        let answer = Http::plain().send("GET", &url, &headers, None);
        answer.expect("an answer").text()
    };
    let who = "<Arn>arn:aws:sts::000000000000:assumed-role/deployer/deployer.apps</Arn>";
    let answer = identity_for("prod");
    assert!(answer.contains(who), "{answer}");
    // The signature holds for that cluster only.
    let answer = identity_for("test");
    assert!(!answer.contains(who), "{answer}");
}

#[tokio::test]
async fn ecr_gives_a_login() {
    let aws = AwsLogins::with_role(&crate::settings().await);
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a time");
    let host = "000000000000.dkr.ecr.us-east-1.amazonaws.com";
    let registry = EcrRegistry::parse(host).expect("a registry");
    let identity = AwsIdentity::Installation;
    let login = aws.registry(&registry, &identity, now).await;
    let login = login.expect("a login");
    assert_eq!(login.user, "AWS");
    assert!(!login.password.expose().is_empty());
}
