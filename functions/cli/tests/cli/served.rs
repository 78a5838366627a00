//! `driftless serve` with an API server in the process of the test, which needs only Rust.

use crate::create::{Server, text};
use driftless_harness::github::sign;
use driftless_harness::http::Answer;
use driftless_harness::serve::Serve;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const SECRET: &str = "It's a Secret to Everybody";
/// The number of connections with an endless body.
const SLOW: usize = 500;
/// The time after which a good delivery counts as never answered.
const HANG: Duration = Duration::from_secs(30);

fn state(hub: &Server) -> PathBuf {
    hub.home().join("state")
}

fn serve(hub: &Server) -> Serve {
    let state = state(hub);
    let args = [
        "--kubeconfig",
        text(hub.kubeconfig()),
        "--data",
        text(&state),
    ];
    Serve::start(hub.home(), &args, &[("DRIFTLESS_WEBHOOK_SECRET", SECRET)])
}

/// Returns the first delivery of GitHub, the ping.
fn ping(serve: &Serve) -> Answer {
    let signature = sign(SECRET, b"{}");
    let headers = [
        ("content-type", "application/json"),
        ("x-github-event", "ping"),
        ("x-hub-signature-256", signature.as_str()),
    ];
    serve.post_within(HANG, "/webhook", &headers, b"{}")
}

/// Sends these bytes, and returns the bytes of the answer.
fn raw(serve: &Serve, request: &str) -> String {
    let mut stream = TcpStream::connect(serve.address()).expect("connect");
    stream.set_read_timeout(Some(HANG)).expect("a timeout");
    stream.write_all(request.as_bytes()).expect("send");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn slow_bodies_keep_no_delivery_waiting() {
    let hub = Server::start();
    let serve = serve(&hub);
    assert_eq!(ping(&serve).status, 200);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut slow = Vec::new();
        for count in 0..SLOW {
            let mut stream = TcpStream::connect(serve.address()).expect("connect");
            let head = "POST /webhook HTTP/1.1\r\nHost: hooks\r\nX-Hub-Signature-256: sha256=00\r\nContent-Length: 100000\r\n\r\n{";
            stream.write_all(head.as_bytes()).expect("send a head");
            slow.push(stream);
            if count % 50 == 0 {
                assert_eq!(ping(&serve).status, 200, "with {count} slow bodies");
            }
        }
        // Send a byte of each body from time to time, so that none of them is idle.
        let mut dripping: Vec<TcpStream> = slow
            .iter()
            .map(|stream| stream.try_clone().expect("a handle"))
            .collect();
        let over = &over;
        scope.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                dripping.retain_mut(|stream| stream.write_all(b" ").is_ok());
                std::thread::sleep(Duration::from_millis(200));
            }
        });
        for _ in 0..20 {
            assert_eq!(ping(&serve).status, 200, "with {SLOW} slow bodies");
        }
        // Each connection is closed in the end.
        for mut stream in slow {
            stream.set_read_timeout(Some(HANG)).expect("a timeout");
            let mut answer = Vec::new();
            match stream.read_to_end(&mut answer) {
                Ok(0) => {}
                Ok(_) => assert!(answer.starts_with(b"HTTP/1.1 408 "), "{answer:?}"),
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(ping(&serve).status, 200);
    let metrics = serve.get("/metrics").text();
    let crowded = "driftless_http_crowded_connections_total{result=\"replaced\"}";
    assert!(metrics.contains(crowded), "{metrics}");
}

#[test]
fn requests_from_elsewhere_are_refused_with_the_reason() {
    let hub = Server::start();
    let serve = serve(&hub);
    let host = serve.address();
    let get =
        |headers: &str| format!("GET /api/objects HTTP/1.1\r\nConnection: close\r\n{headers}\r\n");
    let plain = raw(&serve, &get(&format!("Host: {host}\r\n")));
    assert!(plain.starts_with("HTTP/1.1 200 "), "{plain}");
    for (headers, why) in [
        (
            format!("Host: {host}\r\nX-Client-IP: 192.0.2.1\r\n"),
            "x-client-ip",
        ),
        (
            format!("Host: {host}\r\nX-Forwarded-Host: a\r\n"),
            "x-forwarded-host",
        ),
        (
            format!("Host: {host}\r\nOrigin: https://evil.example\r\n"),
            "Origin",
        ),
        ("Host: evil.example:9292\r\n".to_owned(), "Host"),
    ] {
        let answer = raw(&serve, &get(&headers));
        assert!(answer.starts_with("HTTP/1.1 403 "), "{headers}: {answer}");
        assert!(answer.contains(why), "{headers}: {answer}");
    }
    let sweep = format!(
        "POST /sweep HTTP/1.1\r\nHost: {host}\r\nCF-Connecting-IP: 192.0.2.1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    );
    assert!(raw(&serve, &sweep).starts_with("HTTP/1.1 403 "));
    // These paths are for all clients.
    let health = "GET /healthz HTTP/1.1\r\nHost: evil.example\r\nVia: 1.1 proxy\r\nConnection: close\r\n\r\n";
    assert!(raw(&serve, health).starts_with("HTTP/1.1 200 "));

    let forged = [("x-hub-signature-256", "sha256=00")];
    let answer = serve.post_within(HANG, "/webhook", &forged, b"{}");
    assert_eq!(answer.status, 401);
    let message = answer.text();
    assert!(message.contains("DRIFTLESS_WEBHOOK_SECRET"), "{message}");
    assert!(!message.contains("secret manager"), "{message}");
    let gitlab = [("x-gitlab-event", "Push Hook")];
    let answer = serve.post_within(HANG, "/webhook", &gitlab, b"{}");
    assert_eq!(answer.status, 401);
    let message = answer.text();
    assert!(
        message.contains("DRIFTLESS_WEBHOOK_SECRET_GITLAB"),
        "{message}"
    );
    let hook = format!("/hook/{}", "0".repeat(64));
    assert_eq!(serve.post_within(HANG, &hook, &[], b"{}").status, 404);
}

mod damaged_state_starts {
    use super::{ping, serve, state};
    use crate::create::{Server, text};
    use std::fs;

    #[test]
    fn the_program_with_a_damaged_registration() {
        let hub = Server::start();
        drop(serve(&hub));
        let file = state(&hub).join("blobs/hubs/default.json.blob");
        let good = fs::read(&file).expect("a registration");
        for damaged in [&b""[..], &good[..good.len() / 2], b"\0garbage"] {
            fs::write(&file, damaged).expect("damage it");
            // The server answers only after its start.
            let serve = serve(&hub);
            assert_eq!(ping(&serve).status, 200);
            drop(serve);
            assert_eq!(fs::read(&file).expect("a registration"), good);
        }
        let kept = state(&hub).join("damaged/3/blobs/hubs/default.json.blob");
        assert_eq!(
            fs::read(&kept).unwrap_or_else(|error| panic!("{}: {error}", text(&kept))),
            b"\0garbage"
        );
    }
}
