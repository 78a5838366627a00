//! Buckets that users name: one suite for those in memory and for S3, then hostile hosts.

use async_trait::async_trait;
use bytes::Bytes;
use driftless_adapters::aws::{S3Blobs, S3Buckets};
use driftless_harness::charts::{Fault, Host, Validators};
use driftless_kernel::ports::{
    AwsIdentity, Blobs as _, Bucket, BucketAddress, BucketEntry, BucketLogin, Buckets, Connection,
    ErrorKind, Precondition, Secret,
};
use driftless_memory::MemoryBuckets;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

const NAME: &str = "objects";
const LIMIT: u64 = 1 << 20;

/// Keys that a file system, a URL, a list or a signature could misinterpret.
const KEYS: [&str; 9] = [
    "plain",
    "A/plain",
    "a/b+c/d.json",
    "a/with space",
    "a/%2e%2e",
    "a/ü~!'()*&=@:,;$",
    "a//b",
    "/absolute",
    "directory/",
];

/// Write access to the bucket of a test.
#[async_trait]
trait Fill {
    async fn make(&self, bucket: &str);
    async fn put(&self, key: &str, content: &[u8]);
    async fn delete(&self, key: &str);
    /// Puts an empty object for each key; for a thousand objects and more.
    async fn many(&self, keys: &[String]);
}

#[async_trait]
impl Fill for MemoryBuckets {
    async fn make(&self, bucket: &str) {
        MemoryBuckets::create(self, bucket);
        self.require(bucket, "test", "test");
    }

    async fn put(&self, key: &str, content: &[u8]) {
        MemoryBuckets::put(self, NAME, key, content.to_vec());
    }

    async fn delete(&self, key: &str) {
        MemoryBuckets::delete(self, NAME, key);
    }

    async fn many(&self, keys: &[String]) {
        for key in keys {
            MemoryBuckets::put(self, NAME, key, "");
        }
    }
}

struct MiniStack;

#[async_trait]
impl Fill for MiniStack {
    async fn make(&self, bucket: &str) {
        let aws = crate::ministack().aws();
        aws.must("s3", "create_bucket", json!({"Bucket": bucket}));
    }

    async fn put(&self, key: &str, content: &[u8]) {
        crate::ministack().aws().put_object(NAME, key, content);
    }

    async fn delete(&self, key: &str) {
        let aws = crate::ministack().aws();
        aws.must("s3", "delete_object", json!({"Bucket": NAME, "Key": key}));
    }

    async fn many(&self, keys: &[String]) {
        let store = S3Blobs::new(&crate::settings().await, NAME, true);
        for some in keys.chunks(16) {
            let puts = some
                .iter()
                .map(|key| store.put(key, Bytes::new(), Precondition::None));
            for put in futures::future::join_all(puts).await {
                put.expect("written");
            }
        }
    }
}

fn address(endpoint: &str, name: &str, login: Option<(&str, &str)>) -> BucketAddress {
    let login = login.map(|(id, secret)| {
        let secret = Secret::new(secret.as_bytes().to_vec());
        (id.to_owned(), secret)
    });
    BucketAddress {
        endpoint: endpoint.to_owned(),
        name: name.to_owned(),
        connection: Connection {
            login,
            allow_local: true,
            timeout: Duration::from_secs(20),
            ..Connection::default()
        },
        ..BucketAddress::default()
    }
}

fn keys(listed: &[BucketEntry]) -> BTreeSet<&str> {
    listed.iter().map(|entry| &*entry.key).collect()
}

async fn contract(fill: &dyn Fill, buckets: &dyn Buckets, endpoint: &str) {
    let open = |name: &'static str, login| async move {
        let opened = buckets.open(&address(endpoint, name, login)).await;
        opened.expect("opened")
    };
    let bucket = open(NAME, Some(("test", "test"))).await;
    assert_eq!(
        bucket.list("", 10).await.expect_err("no bucket").kind,
        ErrorKind::NotFound
    );
    fill.make(NAME).await;
    assert_eq!(bucket.list("", 10).await.expect("empty"), []);
    assert_eq!(bucket.get("none", LIMIT).await.expect("asked"), None);

    for key in KEYS {
        fill.put(key, key.as_bytes()).await;
    }
    let listed = bucket.list("", KEYS.len()).await.expect("listed");
    assert_eq!(keys(&listed), KEYS.into_iter().collect());
    for entry in &listed {
        let object = bucket.get(&entry.key, LIMIT).await.expect("asked");
        let object = object.unwrap_or_else(|| panic!("{} is not there", entry.key));
        assert_eq!(object.bytes, entry.key.as_bytes());
        assert_eq!(object.etag, entry.etag, "{}", entry.key);
        assert!(!entry.etag.is_empty() && !entry.etag.contains('"'));
        assert_eq!(entry.size, entry.key.len() as u64);
    }
    for prefix in ["a/", "a/with s", "a", "plain", "/", "nothing"] {
        let listed = bucket.list(prefix, 10).await.expect("listed");
        let expected = KEYS.into_iter().filter(|key| key.starts_with(prefix));
        assert_eq!(keys(&listed), expected.collect(), "{prefix}");
    }
    changes(fill, bucket.as_ref()).await;
    limits(fill, bucket.as_ref()).await;
    for login in [
        None,
        Some(("test-other", "test")),
        Some(("AKIAX", "hunter2")),
    ] {
        let stranger = open(NAME, login).await;
        for error in [
            stranger.list("", 10_000).await.expect_err("denied"),
            stranger.get("plain", LIMIT).await.expect_err("denied"),
        ] {
            assert_eq!(error.kind, ErrorKind::Denied, "{login:?}: {error}");
            assert!(!error.message.contains("hunter2"), "{error}");
        }
    }
}

/// Checks that the ETag changes with the content.
async fn changes(fill: &dyn Fill, bucket: &dyn Bucket) {
    let etag = || async {
        let listed = bucket.list("plain", 10).await.expect("listed");
        listed[0].etag.clone()
    };
    let before = etag().await;
    fill.put("plain", b"other").await;
    assert_ne!(etag().await, before);
    fill.put("plain", b"plain").await;
    assert_eq!(etag().await, before);
    fill.delete("plain").await;
    assert_eq!(bucket.list("plain", 10).await.expect("listed"), []);
    fill.put("plain", b"plain").await;
}

async fn limits(fill: &dyn Fill, bucket: &dyn Bucket) {
    assert!(bucket.get("plain", 5).await.is_ok());
    let larger = bucket.get("plain", 4).await.expect_err("too large");
    assert_eq!(larger.kind, ErrorKind::Invalid);
    assert!(larger.message.contains("larger than 4 bytes"), "{larger}");
    // More than one page of a list.
    let many: Vec<String> = (0..1005).map(|n| format!("many/{n:04}")).collect();
    fill.many(&many).await;
    let listed = bucket.list("many/", 1005).await.expect("listed");
    assert_eq!(keys(&listed), many.iter().map(String::as_str).collect());
    let more = bucket.list("many/", 1004).await.expect_err("too many");
    assert_eq!(more.kind, ErrorKind::Invalid);
    assert!(more.message.contains("more than 1004 objects"), "{more}");
}

#[tokio::test(flavor = "multi_thread")]
async fn in_memory() {
    let buckets = MemoryBuckets::default();
    contract(&buckets, &buckets, "http://s3.acme.example").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_s3() {
    let endpoint = crate::ministack().url();
    contract(&MiniStack, &S3Buckets::new(), &endpoint).await;
    // The installation's own role is used only if the address asks for it, not in place of a
    // missing login.
    let buckets = S3Buckets::with_role(&crate::settings().await);
    let mut address = address(&endpoint, NAME, None);
    let anonymous = buckets.open(&address).await.expect("opened");
    let denied = anonymous.list("plain", 10).await.expect_err("no login");
    assert_eq!(denied.kind, ErrorKind::Denied);
    address.login = BucketLogin::Aws {
        identity: AwsIdentity::Installation,
        sts: None,
    };
    let installation = buckets.open(&address).await.expect("opened");
    let listed = installation.list("plain", 10).await.expect("listed");
    assert_eq!(keys(&listed), ["plain"].into());
}

async fn hostile(host: &Host) -> Arc<dyn Bucket> {
    let address = address(&host.url(), NAME, Some(("canary-id", "canary-secret")));
    S3Buckets::new().open(&address).await.expect("opened")
}

/// Serves a fault as the bucket's list, under both spellings of its path.
fn lists(host: &Host, fault: &Fault) {
    for path in [format!("/{NAME}"), format!("/{NAME}/")] {
        host.fault(&path, fault.clone());
    }
}

fn page(inside: &str) -> Fault {
    let start = "<?xml version=\"1.0\" encoding=\"UTF-8\"?><ListBucketResult>";
    Fault::Bytes(format!("{start}{inside}</ListBucketResult>").into_bytes())
}

/// An invalid list is never read as an empty one.
#[tokio::test(flavor = "multi_thread")]
async fn invalid_lists_are_errors() {
    let host = Host::start();
    let bucket = hostile(&host).await;
    let there = "<Name>objects</Name><IsTruncated>false</IsTruncated>";
    lists(&host, &page(there));
    assert_eq!(bucket.list("", 10).await.expect("empty"), []);
    let truncated = "<Name>objects</Name><IsTruncated>true</IsTruncated>";
    let next = format!("{truncated}<NextContinuationToken>again</NextContinuationToken>");
    let html = Fault::Bytes(b"<html><body>welcome</body></html>".to_vec());
    let half = Fault::Bytes(b"<ListBucketResult><Name>objects</Name>".to_vec());
    let entry = |inside: &str| page(&format!("{there}<Contents>{inside}</Contents>"));
    for (case, fault) in [
        ("HTML", html),
        ("an empty body", Fault::Bytes(Vec::new())),
        ("half a page", half),
        (
            "fewer keys than KeyCount",
            page(&format!("{there}<KeyCount>1</KeyCount>")),
        ),
        ("no next page", page(truncated)),
        ("pages without end", page(&next)),
        ("no key", entry("<ETag>x</ETag><Size>1</Size>")),
        ("no ETag", entry("<Key>a</Key><Size>1</Size>")),
        ("bytes without end", Fault::Endless),
        (
            "a redirect",
            Fault::Redirect("http://127.0.0.1:1/".to_owned()),
        ),
        ("broken", Fault::Status(500)),
    ] {
        lists(&host, &fault);
        let error = match bucket.list("", 10).await {
            Err(error) => error,
            Ok(listed) => panic!("{case}: {listed:?}"),
        };
        assert_ne!(error.kind, ErrorKind::NotFound, "{case}: {error}");
        assert!(!error.message.contains("canary"), "{case}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_answers_are_not_missing_objects() {
    let host = Host::start();
    let bucket = hostile(&host).await;
    let at = |key: &str| format!("/{NAME}/{key}");
    host.put(&at("unnamed"), "content");
    host.fault(&at("endless"), Fault::Endless);
    host.fault(&at("broken"), Fault::Status(503));
    host.fault(&at("away"), Fault::Redirect("http://127.0.0.1:1/".into()));
    for key in ["unnamed", "endless", "broken", "away", "a/../../b", "./a"] {
        let answer = bucket.get(key, LIMIT).await;
        let error = answer.expect_err(key);
        assert_ne!(error.kind, ErrorKind::NotFound, "{key}: {error}");
    }
    // A 404 without S3's error code may come from any server.
    assert!(bucket.get("absent", LIMIT).await.is_err());
    host.take_calls();
    host.set_validators(Validators::Etag);
    let object = bucket.get("unnamed", LIMIT).await.expect("read");
    assert_eq!(object.expect("there").bytes, "content");
    let calls = host.take_calls();
    assert!(calls[0].authorization.contains("Credential=canary-id/"));
    assert!(!calls[0].authorization.contains("canary-secret"));
}

/// Loopback is refused in every spelling unless the operator allowed it; no request is sent.
#[tokio::test(flavor = "multi_thread")]
async fn this_machine_is_not_reached() {
    let host = Host::start();
    let port = host.name().rsplit(':').next().expect("a port").to_owned();
    for name in [
        "127.0.0.1",
        "localhost",
        "a.localhost",
        "[::ffff:127.0.0.1]",
        "2130706433",
    ] {
        let mut address = address(&format!("http://{name}:{port}"), NAME, None);
        address.connection.allow_local = false;
        let bucket = S3Buckets::new().open(&address).await.expect("opened");
        for error in [
            bucket.list("", 10).await.expect_err(name),
            bucket.get("a", LIMIT).await.expect_err(name),
        ] {
            let message = "loopback or link-local";
            assert!(error.message.contains(message), "{name}: {error}");
        }
    }
    assert_eq!(host.take_calls(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_from_a_secret() {
    let host = Host::start_tls();
    lists(
        &host,
        &page("<Name>objects</Name><IsTruncated>false</IsTruncated>"),
    );
    let mut address = address(&host.url(), NAME, None);
    let buckets = S3Buckets::new();
    let stranger = buckets.open(&address).await.expect("opened");
    assert_eq!(
        stranger.list("", 10).await.expect_err("unknown").kind,
        ErrorKind::Unavailable
    );
    assert_eq!(host.take_calls(), []);
    address.connection.certificate_authority = Some(host.authority().as_bytes().to_vec());
    let known = buckets.open(&address).await.expect("opened");
    assert_eq!(known.list("", 10).await.expect("listed"), []);
    assert_eq!(host.take_calls()[0].authorization, "", "no login is sent");
}
