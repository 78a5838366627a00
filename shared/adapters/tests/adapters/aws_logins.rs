//! Tests of the requests to EKS, ECR and STS, of their number, and of failures of these services.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use driftless_adapters::aws::{self, AwsLogins};
use driftless_kernel::ports::{
    Aws, AwsIdentity, EcrRegistry, EksCluster, ErrorKind, Secret, Token,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const NOW: Duration = Duration::from_secs(1_700_000_000);
const MINUTE: Duration = Duration::from_secs(60);
const CLUSTER: &str = r#"{"cluster": {"endpoint": "https://a.eks.example", "certificateAuthority": {"data": "Y2E="}}}"#;
/// An hour from NOW.
const ROLE: &str = "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>\
    <AccessKeyId>ASIAROLE</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>session</SessionToken>\
    <Expiration>2023-11-14T23:13:20Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>";

pub type Asked = Arc<Mutex<Vec<String>>>;

/// Starts STS and another service with these answers, and records their requests.
pub async fn services(status: u16, other: &'static str, sts: &'static str) -> (AwsLogins, Asked) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let asked = Asked::default();
    let noted = asked.clone();
    let app = Router::new().fallback(move |request: Request| {
        let noted = noted.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = to_bytes(body, 1 << 20).await.unwrap();
            let login = head.headers.get("authorization");
            let login = login.map_or("", |login| login.to_str().unwrap());
            let scope = login.split(", Signature").next().unwrap_or_default();
            let target = head.headers.get("x-amz-target");
            let target = target.map_or("", |target| target.to_str().unwrap());
            let line = [
                head.method.as_str(),
                head.uri.path(),
                scope,
                target,
                std::str::from_utf8(&body).unwrap(),
            ];
            let parts: Vec<&str> = line.into_iter().filter(|part| !part.is_empty()).collect();
            noted.lock().unwrap().push(parts.join(" "));
            let is_sts = head.method == "POST" && target.is_empty();
            let text = if is_sts { sts } else { other };
            let response = Response::builder().status(status);
            response.body(Body::from(text)).unwrap()
        }
    });
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let settings = aws::settings_at(&endpoint, "us-east-1", "AKIDOWN", "key").await;
    (AwsLogins::with_role(&settings), asked)
}

pub fn take(asked: &Asked) -> Vec<String> {
    std::mem::take(&mut *asked.lock().unwrap())
}

fn cluster(name: &str) -> EksCluster {
    EksCluster {
        partition: "aws".to_owned(),
        region: "eu-west-1".to_owned(),
        name: name.to_owned(),
    }
}

fn role(token: &str) -> AwsIdentity {
    AwsIdentity::Role {
        arn: "arn:aws:iam::1:role/deployer".to_owned(),
        session: "deployer.apps".to_owned(),
        token: Token {
            secret: Secret::new(token.to_owned()),
            expires: NOW + MINUTE * 60,
        },
    }
}

/// Returns the URL in a token.
fn address(token: &Token) -> String {
    let text = token.secret.expose_str().unwrap();
    let encoded = text.strip_prefix("k8s-aws-v1.").unwrap();
    String::from_utf8(URL_SAFE_NO_PAD.decode(encoded).unwrap()).unwrap()
}

#[tokio::test]
async fn the_installations_own_role() {
    let (eks, asked) = services(200, CLUSTER, "").await;
    let identity = AwsIdentity::Installation;
    let place = eks
        .describe(&cluster("prod"), &identity, NOW)
        .await
        .unwrap();
    assert_eq!(place.address, "https://a.eks.example");
    assert_eq!(place.certificate_authority, b"ca");
    let prefix = "GET /clusters/prod AWS4-HMAC-SHA256 Credential=AKIDOWN/20231114/eu-west-1/eks/aws4_request, \
                SignedHeaders=host;x-amz-date";
    assert_eq!(take(&asked), [prefix]);
    eks.describe(&cluster("prod"), &identity, NOW + MINUTE * 11)
        .await
        .unwrap();
    assert_eq!(take(&asked), Vec::<String>::new());
    eks.describe(&cluster("prod"), &identity, NOW + MINUTE * 13)
        .await
        .unwrap();
    assert_eq!(take(&asked).len(), 1);

    // A token is signed here, without a request.
    let token = eks.token(&cluster("prod"), &identity, NOW).await.unwrap();
    assert_eq!(token.expires, NOW + MINUTE * 15);
    let first = address(&token);
    assert!(
        first.contains("Credential=AKIDOWN%2F20231114%2Feu-west-1%2Fsts%2Faws4_request"),
        "{first}"
    );
    let later = eks
        .token(&cluster("prod"), &identity, NOW + MINUTE * 11)
        .await
        .unwrap();
    assert_eq!(later, token);
    let later = eks
        .token(&cluster("prod"), &identity, NOW + MINUTE * 12)
        .await
        .unwrap();
    assert_ne!(later, token);
    let other = eks.token(&cluster("test"), &identity, NOW).await.unwrap();
    assert_ne!(other, token);
    assert_eq!(take(&asked), Vec::<String>::new());
}

#[tokio::test]
async fn a_role_for_a_service_accounts_token() {
    let (eks, asked) = services(200, CLUSTER, ROLE).await;
    let token = eks
        .token(&cluster("prod"), &role("one"), NOW)
        .await
        .unwrap();
    let url = address(&token);
    assert!(
        url.contains("Credential=ASIAROLE") && url.contains("X-Amz-Security-Token=session"),
        "{url}"
    );
    // One role for all clusters of a region.
    eks.token(&cluster("test"), &role("one"), NOW)
        .await
        .unwrap();
    eks.describe(&cluster("test"), &role("one"), NOW)
        .await
        .unwrap();
    let lines = take(&asked);
    assert_eq!(lines.len(), 2, "{lines:#?}");
    assert!(lines[0].starts_with("POST / "), "{lines:#?}");
    for part in [
        "Action=AssumeRoleWithWebIdentity",
        "RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fdeployer",
        "RoleSessionName=deployer.apps",
        "WebIdentityToken=one",
    ] {
        assert!(lines[0].contains(part), "{part}: {}", lines[0]);
    }
    assert!(
        lines[1].contains("Credential=ASIAROLE/20231114/eu-west-1/eks/"),
        "{}",
        lines[1]
    );
    // Another token of the service account does not use the cached role.
    eks.token(&cluster("prod"), &role("two"), NOW)
        .await
        .unwrap();
    let lines = take(&asked);
    assert!(
        lines.len() == 1 && lines[0].contains("WebIdentityToken=two"),
        "{lines:#?}"
    );
    // A token does not outlive its role.
    let last = eks
        .token(&cluster("prod"), &role("one"), NOW + MINUTE * 47)
        .await
        .unwrap();
    assert_eq!(last.expires, NOW + MINUTE * 60);
    assert_eq!(take(&asked), Vec::<String>::new());
    eks.token(&cluster("prod"), &role("one"), NOW + MINUTE * 58)
        .await
        .unwrap();
    assert_eq!(take(&asked).len(), 1);
}

/// `AWS:pw`, for twelve hours.
const LOGIN: &str = r#"{"authorizationData": [{"authorizationToken": "QVdTOnB3", "expiresAt": 1.7000432E9,
    "proxyEndpoint": "https://012345678901.dkr.ecr.eu-west-1.amazonaws.com"}]}"#;
const PUBLIC_LOGIN: &str =
    r#"{"authorizationData": {"authorizationToken": "QVdTOnB3", "expiresAt": 1700043200}}"#;

fn registry() -> EcrRegistry {
    EcrRegistry::parse("012345678901.dkr.ecr.eu-west-1.amazonaws.com").unwrap()
}

#[tokio::test]
async fn a_registrys_login() {
    let (aws, asked) = services(200, LOGIN, ROLE).await;
    let own = AwsIdentity::Installation;
    let login = aws.registry(&registry(), &own, NOW).await.unwrap();
    assert_eq!(
        (login.user.as_str(), login.password.expose_str()),
        ("AWS", Some("pw"))
    );
    let prefix = |key: &str, headers: &str, region: &str, service: &str| {
        format!(
            "POST / AWS4-HMAC-SHA256 Credential={key}/20231114/{region}/{service}/aws4_request, SignedHeaders={headers}"
        )
    };
    let headers = "content-type;host;x-amz-date;x-amz-target";
    let tail = "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken {}";
    let expected = format!("{} {tail}", prefix("AKIDOWN", headers, "eu-west-1", "ecr"));
    assert_eq!(take(&asked), [expected]);
    // Cached until a fifth of its twelve hours is left.
    let later = NOW + MINUTE * 60 * 9;
    assert_eq!(aws.registry(&registry(), &own, later).await.unwrap(), login);
    assert_eq!(take(&asked), Vec::<String>::new());
    let later = NOW + MINUTE * 60 * 10;
    aws.registry(&registry(), &own, later).await.unwrap();
    assert_eq!(take(&asked).len(), 1);
    // Another identity does not use the cached login.
    for token in ["one", "two"] {
        aws.registry(&registry(), &role(token), NOW).await.unwrap();
        let lines = take(&asked);
        let web = format!("WebIdentityToken={token}");
        assert!(lines.len() == 2 && lines[0].contains(&web), "{lines:#?}");
        let headers = "content-type;host;x-amz-date;x-amz-security-token;x-amz-target";
        let expected = format!("{} {tail}", prefix("ASIAROLE", headers, "eu-west-1", "ecr"));
        assert_eq!(lines[1], expected);
    }

    let (aws, asked) = services(200, PUBLIC_LOGIN, "").await;
    let login = aws.registry(&EcrRegistry::Public, &own, NOW).await.unwrap();
    assert_eq!(login.password.expose_str(), Some("pw"));
    let tail = "SpencerFrontendService.GetAuthorizationToken {}";
    let expected = format!(
        "{} {tail}",
        prefix("AKIDOWN", headers, "us-east-1", "ecr-public")
    );
    assert_eq!(take(&asked), [expected]);
}

#[tokio::test]
async fn refused_logins_are_reported_without_their_text() {
    for (status, body, kind, part) in [
        (
            400,
            r#"{"__type": "AccessDeniedException", "message": "canary"}"#,
            ErrorKind::Denied,
            "(AccessDeniedException)",
        ),
        (
            400,
            r#"{"__type": "InvalidParameterException", "message": "canary"}"#,
            ErrorKind::Invalid,
            "(InvalidParameterException)",
        ),
        (500, "canary", ErrorKind::Unavailable, "answered 500"),
        (
            200,
            "canary",
            ErrorKind::Unreadable,
            "has no registry login",
        ),
        (
            200,
            r#"{"authorizationData": [{"authorizationToken": "canary", "expiresAt": 1}]}"#,
            ErrorKind::Unreadable,
            "has no registry login",
        ),
    ] {
        let (aws, _) = services(status, body, "").await;
        let (registry, identity) = (registry(), AwsIdentity::Installation);
        let error = aws.registry(&registry, &identity, NOW).await.unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains(part), "{error}");
        assert!(!error.message.contains("canary"), "{error}");
    }
}

#[tokio::test]
async fn refusals_are_reported_without_their_text() {
    let identity = AwsIdentity::Installation;
    for (status, body, kind) in [
        (403, r#"{"message": "canary"}"#, ErrorKind::Denied),
        (404, r#"{"message": "canary"}"#, ErrorKind::NotFound),
        (500, "canary", ErrorKind::Unavailable),
        (200, "<html>canary", ErrorKind::Unreadable),
        (
            200,
            r#"{"cluster": {"endpoint": "https://a", "certificateAuthority": {"data": "canary!"}}}"#,
            ErrorKind::Unreadable,
        ),
        (
            200,
            r#"{"cluster": {"name": "canary", "status": "CREATING"}}"#,
            ErrorKind::Unavailable,
        ),
    ] {
        let (eks, _) = services(status, body, "").await;
        let error = eks
            .describe(&cluster("prod"), &identity, NOW)
            .await
            .unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(!error.message.contains("canary"), "{error}");
    }
    let denied = "<ErrorResponse><Error><Code>AccessDenied</Code><Message>canary</Message></Error></ErrorResponse>";
    let (eks, _) = services(403, "", denied).await;
    let error = eks
        .token(&cluster("prod"), &role("canary"), NOW)
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Denied, "{error}");
    assert!(
        error.message.contains("role/deployer") && !error.message.contains("canary"),
        "{error}"
    );
    let elsewhere = EksCluster {
        partition: "aws-moon".to_owned(),
        ..cluster("prod")
    };
    let error = AwsLogins::new()
        .describe(&elsewhere, &role("one"), NOW)
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported, "{error}");
}
