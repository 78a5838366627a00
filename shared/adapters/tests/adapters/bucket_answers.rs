//! Tests of buckets of Google, of containers of Azure, and of the temporary access keys of MinIO,
//! with servers of the documented shape in their place.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::response::Response;
use driftless_adapters::aws::{AwsLogins, S3Buckets};
use driftless_adapters::buckets::HttpBuckets;
use driftless_adapters::clouds::{AzureLogins, CloudHosts, GoogleLogins};
use driftless_kernel::ports::{
    AzureBucketLogin, Bucket, BucketAddress, BucketLogin, Buckets, Connection, EntraIdentity,
    EntraProof, ErrorKind, GoogleIdentity, GoogleLogin, LdapLogin, Secret, Token,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Asked = Arc<Mutex<Vec<String>>>;

/// An answer: status, headers, body.
type Answer = (u16, Vec<(&'static str, &'static str)>, String);

fn ok(body: &str) -> Answer {
    (200, Vec::new(), body.to_owned())
}

/// Starts a server; it records the path, the login and the body of each request.
async fn serve(answer: impl Fn(&str) -> Answer + Clone + Send + Sync + 'static) -> (String, Asked) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Asked::default();
    let noted = asked.clone();
    let app = Router::new().fallback(move |request: Request| {
        let (answer, noted) = (answer.clone(), noted.clone());
        async move {
            let (head, content) = request.into_parts();
            let content = to_bytes(content, 1 << 20).await.unwrap();
            let login = head.headers.get("authorization");
            let login = login.map_or("", |login| login.to_str().unwrap());
            let login = login.split(':').next().unwrap().to_owned();
            let path = head.uri.to_string();
            let content = String::from_utf8_lossy(&content).into_owned();
            let line = [path.as_str(), &login, &content];
            let line: Vec<&str> = line.into_iter().filter(|part| !part.is_empty()).collect();
            noted.lock().unwrap().push(line.join(" "));
            let (status, headers, body) = answer(&path);
            let mut response = Response::builder().status(status);
            for (name, value) in headers {
                response = response.header(name, value);
            }
            response.body(Body::from(body)).unwrap()
        }
    });
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    (url, asked)
}

fn buckets(stand_in: &str) -> HttpBuckets {
    let hosts = CloudHosts {
        stand_in: Some(stand_in.to_owned()),
        ..CloudHosts::default()
    };
    let azure = AzureLogins::new(hosts.clone());
    HttpBuckets::new(AwsLogins::new(), azure, GoogleLogins::new(hosts))
}

async fn open(buckets: &HttpBuckets, endpoint: &str, login: BucketLogin) -> Arc<dyn Bucket> {
    let address = BucketAddress {
        endpoint: endpoint.to_owned(),
        name: "fleet".to_owned(),
        connection: Connection {
            timeout: Duration::from_secs(20),
            ..Connection::default()
        },
        login,
        ..BucketAddress::default()
    };
    buckets.open(&address).await.unwrap()
}

fn take(asked: &Asked) -> Vec<String> {
    std::mem::take(&mut *asked.lock().unwrap())
}

fn token() -> Token {
    Token {
        secret: Secret::new("of-account"),
        expires: Duration::MAX,
    }
}

const GIVEN: &str = r#"{"access_token": "given", "expires_in": 3600}"#;

fn google() -> BucketLogin {
    BucketLogin::Google(GoogleLogin::Principal(GoogleIdentity {
        provider: "//iam.googleapis.com/projects/1".to_owned(),
        account: None,
        token: token(),
    }))
}

fn google_answer(path: &str) -> Answer {
    let objects = "/storage.googleapis.com/storage/v1/b/fleet/o";
    let first = r#"{"kind": "storage#objects", "nextPageToken": "p/2",
        "items": [{"name": "apps/a.yaml", "etag": "CAE=", "size": "3"}]}"#;
    let second = r#"{"kind": "storage#objects", "items": [{"name": "apps/b c.yaml", "etag": "CAI=", "size": "4"}]}"#;
    let Some(rest) = path.strip_prefix(objects) else {
        return ok(GIVEN);
    };
    match rest {
        _ if rest.ends_with("pageToken=") => ok(first),
        _ if rest.ends_with("pageToken=p%2F2") => ok(second),
        "/apps%2Fb%20c.yaml?fields=etag%2Cgeneration" => {
            ok(r#"{"etag": "CAM=", "generation": "17"}"#)
        }
        "/apps%2Fb%20c.yaml?alt=media&ifGenerationMatch=17" => ok("b: 1"),
        _ => (
            404,
            Vec::new(),
            r#"{"error": {"code": 404, "message": "canary"}}"#.to_owned(),
        ),
    }
}

#[tokio::test]
async fn objects_of_google() {
    let (url, asked) = serve(google_answer).await;
    let bucket = open(&buckets(&url), "https://storage.googleapis.com", google()).await;
    let listed = bucket.list("apps/", 10).await.unwrap();
    let listed: Vec<_> = listed
        .iter()
        .map(|one| (&*one.key, &*one.etag, one.size))
        .collect();
    assert_eq!(
        listed,
        [("apps/a.yaml", "CAE=", 3), ("apps/b c.yaml", "CAI=", 4)]
    );
    let requests = take(&asked);
    assert!(
        requests[0].starts_with("/sts.googleapis.com/v1/token "),
        "{requests:?}"
    );
    assert_eq!(
        requests[1],
        "/storage.googleapis.com/storage/v1/b/fleet/o?fields=kind%2CnextPageToken%2Citems%28name%2Cetag%2Csize%29\
         &prefix=apps%2F&pageToken= Bearer given"
    );
    let object = bucket.get("apps/b c.yaml", 4).await.unwrap().unwrap();
    assert_eq!(
        (&*object.etag, &*object.bytes),
        ("CAM=", b"b: 1".as_slice())
    );
    assert_eq!(bucket.get("apps/gone.yaml", 4).await.unwrap(), None);
    let larger = bucket.get("apps/b c.yaml", 3).await.unwrap_err();
    assert_eq!(larger.kind, ErrorKind::Invalid, "{larger}");
    let more = bucket.list("apps/", 1).await.unwrap_err();
    assert!(more.message.contains("more than 1 objects"), "{more}");
    // The token is requested once.
    assert!(
        take(&asked)
            .iter()
            .all(|line| !line.contains("sts.googleapis.com"))
    );
}

#[tokio::test]
async fn lists_of_google_that_are_not_lists() {
    for (status, body, kind) in [
        (404, "{}", ErrorKind::NotFound),
        (
            403,
            r#"{"error": {"code": 403, "message": "canary"}}"#,
            ErrorKind::Denied,
        ),
        (503, "canary", ErrorKind::Unavailable),
        (200, "<html>canary</html>", ErrorKind::Unreadable),
        (200, "{}", ErrorKind::Unreadable),
        (
            200,
            r#"{"kind": "storage#objects", "items": [{"name": "a"}]}"#,
            ErrorKind::Unreadable,
        ),
        (302, "", ErrorKind::Unavailable),
    ] {
        let answer = move |path: &str| match path.contains("/storage/v1/") {
            true => (
                status,
                vec![("location", "http://127.0.0.1/canary")],
                body.to_owned(),
            ),
            false => ok(GIVEN),
        };
        let (url, _) = serve(answer).await;
        let bucket = open(&buckets(&url), "https://storage.googleapis.com", google()).await;
        let error = bucket.list("", 10).await.unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(!error.message.contains("canary"), "{error}");
    }
}

/// A service that is not available once is asked again.
#[tokio::test]
async fn a_short_outage_is_no_failure() {
    let count = Arc::new(Mutex::new(0));
    let answer = move |path: &str| {
        let mut count = count.lock().unwrap();
        *count += usize::from(path.contains("/storage/v1/"));
        match path.contains("/storage/v1/") && *count == 1 {
            true => (503, Vec::new(), String::new()),
            false => google_answer(path),
        }
    };
    let (url, _) = serve(answer).await;
    let bucket = open(&buckets(&url), "https://storage.googleapis.com", google()).await;
    assert_eq!(bucket.list("", 10).await.unwrap().len(), 2);
}

const AZURE: &str = "https://acme.blob.core.windows.net";

fn azure_answer(path: &str) -> Answer {
    let page = |key: &str, etag: &str, next: &str| {
        ok(&format!(
            "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults ContainerName=\"fleet\"><Blobs><Blob><Name>{key}</Name>\
             <Properties><Etag>{etag}</Etag><Content-Length>4</Content-Length></Properties></Blob></Blobs>\
             <NextMarker>{next}</NextMarker></EnumerationResults>"
        ))
    };
    match path.strip_prefix("/acme.blob.core.windows.net/fleet") {
        Some(rest) if rest.contains("marker=2%21") => page("apps/b c.yaml", "0x8D2", ""),
        Some(rest) if rest.contains("comp=list") => page("apps/a.yaml", "0x8D1", "2!"),
        Some(rest) if rest.starts_with("/apps/b%20c.yaml") => {
            (200, vec![("etag", "\"0x8D2\"")], "b: 1".to_owned())
        }
        Some(_) => (
            404,
            vec![("x-ms-error-code", "BlobNotFound")],
            "canary".to_owned(),
        ),
        None => ok(GIVEN),
    }
}

#[tokio::test]
async fn blobs_of_azure() {
    let entra = AzureBucketLogin::Entra(EntraIdentity {
        tenant: "acme.example".to_owned(),
        client: "client".to_owned(),
        proof: EntraProof::ClientSecret(Secret::new("s3cret")),
    });
    let key = AzureBucketLogin::AccountKey {
        account: "acme".to_owned(),
        key: Secret::new("czNjcmV0"),
    };
    let sas = AzureBucketLogin::Sas(Secret::new("?sv=2021&sig=a%2Bb%3D"));
    for (login, start, end) in [
        (entra, "", " Bearer given"),
        (key, "", " SharedKey acme"),
        (sas, "", "&sig=a%2Bb%3D&sv=2021"),
    ] {
        let (url, asked) = serve(azure_answer).await;
        let bucket = open(&buckets(&url), AZURE, BucketLogin::Azure(login.clone())).await;
        let listed = bucket.list("apps/", 10).await.unwrap();
        let found: Vec<_> = listed
            .iter()
            .map(|one| (&*one.key, &*one.etag, one.size))
            .collect();
        assert_eq!(
            found,
            [
                ("apps/a.yaml", "\"0x8D1\"", 4),
                ("apps/b c.yaml", "\"0x8D2\"", 4)
            ]
        );
        let object = bucket.get("apps/b c.yaml", 4).await.unwrap().unwrap();
        assert_eq!(
            (&*object.etag, &*object.bytes),
            ("\"0x8D2\"", b"b: 1".as_slice())
        );
        assert_eq!(bucket.get("gone", 4).await.unwrap(), None);
        assert!(bucket.get("apps/b c.yaml", 3).await.is_err());
        let requests = take(&asked);
        let to_storage: Vec<&String> = requests
            .iter()
            .filter(|line| line.starts_with("/acme.blob.core.windows.net/"))
            .collect();
        let list = "/acme.blob.core.windows.net/fleet?comp=list&maxresults=5000&prefix=apps%2F&restype=container";
        assert_eq!(*to_storage[0], format!("{list}{start}{end}"));
        assert!(
            to_storage
                .iter()
                .all(|line| line.ends_with(end) || line.contains("sig="))
        );
    }
}

/// Neither a token nor a signature leaves for a host that must not have it, and no message repeats
/// an answer.
#[tokio::test]
async fn containers_that_are_refused() {
    let (url, asked) = serve(|_| {
        (
            403,
            vec![("x-ms-error-code", "AuthenticationFailed")],
            "canary".to_owned(),
        )
    })
    .await;
    let all = buckets(&url);
    let entra = || {
        BucketLogin::Azure(AzureBucketLogin::Entra(EntraIdentity {
            tenant: "acme.example".to_owned(),
            client: "client".to_owned(),
            proof: EntraProof::Token(token()),
        }))
    };
    let sas = || BucketLogin::Azure(AzureBucketLogin::Sas(Secret::new("sig=canary")));
    let other = open(&all, "https://acme.blob.evil.example", entra()).await;
    let error = other.list("", 10).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported, "{error}");
    let local = open(&all, "http://127.0.0.1:10000/acme", sas()).await;
    let error = local.list("", 10).await.unwrap_err();
    assert!(
        error.message.contains("leads back into this installation"),
        "{error}"
    );
    assert_eq!(take(&asked), Vec::<String>::new());
    let address = BucketAddress {
        endpoint: "http://acme.blob.core.windows.net".to_owned(),
        login: entra(),
        ..BucketAddress::default()
    };
    let error = all.open(&address).await.map(|_| ()).unwrap_err();
    assert!(error.message.contains("only sent over TLS"), "{error}");
    let bucket = open(&all, AZURE, sas()).await;
    let error = bucket.list("", 10).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Denied);
    assert!(
        error
            .message
            .contains("the specified bucket name may be incorrect"),
        "{error}"
    );
    assert!(!error.message.contains("canary"), "{error}");
}

/// The STS gets the password, and the bucket only requests that the temporary key signed.
#[tokio::test]
async fn a_user_of_ldap_gets_a_temporary_key() {
    let answer = |path: &str| match path {
        "/sts" => ok(
            "<AssumeRoleWithLDAPIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\
             <AssumeRoleWithLDAPIdentityResult><Credentials><AccessKeyId>TEMPORARY</AccessKeyId>\
             <SecretAccessKey>key</SecretAccessKey><SessionToken>session</SessionToken></Credentials>\
             </AssumeRoleWithLDAPIdentityResult></AssumeRoleWithLDAPIdentityResponse>",
        ),
        _ => ok(
            "<ListBucketResult><Name>fleet</Name><KeyCount>0</KeyCount><IsTruncated>false</IsTruncated></ListBucketResult>",
        ),
    };
    let (url, asked) = serve(answer).await;
    let connection = Connection {
        allow_local: true,
        timeout: Duration::from_secs(20),
        ..Connection::default()
    };
    let address = |sts: &str, connection: &Connection| BucketAddress {
        endpoint: url.clone(),
        name: "fleet".to_owned(),
        connection: connection.clone(),
        login: BucketLogin::Ldap(Box::new(LdapLogin {
            endpoint: format!("{url}{sts}"),
            user: "ann".to_owned(),
            password: Secret::new("p&w"),
            connection: connection.clone(),
        })),
        ..BucketAddress::default()
    };
    let bucket = S3Buckets::new()
        .open(&address("/sts", &connection))
        .await
        .unwrap();
    assert_eq!(bucket.list("", 10).await.unwrap(), []);
    let requests = take(&asked);
    assert_eq!(
        requests[0],
        "/sts Action=AssumeRoleWithLDAPIdentity&Version=2011-06-15&LDAPUsername=ann&LDAPPassword=p%26w"
    );
    assert!(
        requests[1].contains("AWS4-HMAC-SHA256 Credential=TEMPORARY/"),
        "{requests:?}"
    );
    let html = S3Buckets::new().open(&address("/", &connection)).await;
    assert_eq!(html.map(|_| ()).unwrap_err().kind, ErrorKind::Unreadable);
    let outside = Connection {
        allow_local: false,
        ..connection
    };
    take(&asked);
    let error = S3Buckets::new().open(&address("/sts", &outside)).await;
    assert_eq!(error.map(|_| ()).unwrap_err().kind, ErrorKind::Invalid);
    assert_eq!(take(&asked), Vec::<String>::new());
}
