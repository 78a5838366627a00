//! Tests of the S3 adapter with failures of S3.

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use driftless_adapters::aws::{self, S3Blobs};
use driftless_kernel::ports::{Blobs, ErrorKind, Precondition, PutOutcome, Version};
use std::sync::{Arc, Mutex};

type Asked = Arc<Mutex<Vec<String>>>;

/// Starts a bucket that answers every request with this status and error code.
async fn bucket(status: u16, code: &'static str) -> (S3Blobs, Asked) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let asked = Asked::default();
    let noted = asked.clone();
    let app = Router::new().fallback(move |request: Request| {
        let condition =
            ["if-match", "if-none-match"].map(|name| request.headers().get(name).cloned());
        noted
            .lock()
            .unwrap()
            .push(format!("{} {condition:?}", request.method()));
        let body = match code {
            "" => "<html>canary</html>".to_owned(),
            code => format!("<Error><Code>{code}</Code><Message>canary</Message></Error>"),
        };
        let response = Response::builder().status(status).header("etag", "\"e\"");
        async move { response.body(Body::from(body)).unwrap() }
    });
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let settings = aws::settings_at(&endpoint, "us-east-1", "id", "key").await;
    (S3Blobs::new(&settings, "bucket", true), asked)
}

fn is() -> Precondition {
    Precondition::Is(Version("\"e\"".into()))
}

/// A repeated conditional write would find its own first attempt and mistake it for another
/// writer's.
#[tokio::test]
async fn a_conditional_write_is_sent_once_and_an_unclear_outcome_is_an_error() {
    for (status, code, kind) in [
        (500, "InternalError", ErrorKind::Unavailable),
        (503, "SlowDown", ErrorKind::Unavailable),
        (409, "ConditionalRequestConflict", ErrorKind::Conflict),
        (403, "AccessDenied", ErrorKind::Denied),
        (404, "NoSuchBucket", ErrorKind::NotFound),
    ] {
        for (when, header) in [
            (Precondition::Absent, "Some(\"*\")"),
            (is(), "Some(\"\\\"e\\\"\")"),
        ] {
            let (blobs, asked) = bucket(status, code).await;
            let error = blobs.put("k", Bytes::from("x"), when).await.unwrap_err();
            assert_eq!(error.kind, kind, "{code}: {error}");
            assert!(error.message.contains("s3://bucket/k") && error.message.contains(code));
            assert!(!error.message.contains("canary"), "{error}");
            let asked = asked.lock().unwrap();
            assert_eq!(asked.len(), 1, "{asked:?}");
            assert!(asked[0].contains(header), "{asked:?}");
        }
    }
}

#[tokio::test]
async fn a_refusal_is_an_answer() {
    let (blobs, _) = bucket(412, "PreconditionFailed").await;
    for when in [Precondition::Absent, is()] {
        assert_eq!(
            blobs.put("k", Bytes::new(), when).await.unwrap(),
            PutOutcome::PreconditionFailed
        );
    }
    let (blobs, _) = bucket(404, "NoSuchKey").await;
    assert_eq!(
        blobs.put("k", Bytes::new(), is()).await.unwrap(),
        PutOutcome::PreconditionFailed
    );
    assert!(blobs.get("k").await.unwrap().is_none());
}

/// The size of a blob is read without its content, and only the given version of a blob is set
/// aside.
#[tokio::test]
async fn the_size_of_a_blob_and_a_damaged_blob() {
    let damaged = Version("\"e\"".into());
    for (status, code, found) in [
        (404, "NoSuchKey", Ok(None)),
        (403, "AccessDenied", Err(ErrorKind::Denied)),
        (503, "SlowDown", Err(ErrorKind::Unavailable)),
    ] {
        let (blobs, asked) = bucket(status, code).await;
        let size = blobs.size("k").await.map_err(|error| error.kind);
        assert_eq!(size, found, "{status}");
        assert!(asked.lock().unwrap()[0].starts_with("HEAD "));
        let set_aside = blobs.set_aside("k", &damaged).await;
        let set_aside = set_aside.map_err(|error| error.kind);
        assert_eq!(set_aside, found.map(|_| ()), "{status}");
        let asked = asked.lock().unwrap();
        let last = asked.last().unwrap();
        assert!(
            last.starts_with("DELETE ") && last.contains("\\\"e\\\""),
            "{last}"
        );
    }
    let (blobs, _) = bucket(412, "PreconditionFailed").await;
    blobs.set_aside("k", &damaged).await.unwrap();
}

#[tokio::test]
async fn only_an_answer_of_s3_makes_a_blob_absent() {
    for (status, code, kind) in [
        (404, "NoSuchBucket", ErrorKind::NotFound),
        (404, "", ErrorKind::NotFound),
        (403, "AccessDenied", ErrorKind::Denied),
        (400, "ExpiredToken", ErrorKind::Denied),
        (503, "SlowDown", ErrorKind::Unavailable),
    ] {
        let (blobs, asked) = bucket(status, code).await;
        let error = blobs.get("k").await.unwrap_err();
        assert_eq!(error.kind, kind, "{status} {code}: {error}");
        let tries = asked.lock().unwrap().len();
        // Reads are repeated after temporary failures.
        assert_eq!(tries > 1, status == 503, "{status} {code}: {tries} tries");
        assert!(blobs.list("k").await.is_err());
    }
}
