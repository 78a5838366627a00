//! `cargo lambda watch` and `invoke` run functions as the harness drives them.

use driftless_harness::aws::LocalFunctions;
use driftless_harness::http::Http;
use serde_json::json;

/// A function without a dependency, so that it compiles at once: it answers
/// with its greeting and the event. The event `"fail"` is an error.
const ECHO: &str = r##"
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

fn call(request: String) -> (String, String) {
    let api = std::env::var("AWS_LAMBDA_RUNTIME_API").unwrap();
    let api = api.trim_start_matches("http://").to_owned();
    let (host, base) = api.split_once('/').map_or((api.as_str(), String::new()), |(h, b)| (h, format!("/{b}")));
    let mut stream = TcpStream::connect(host).unwrap();
    stream.write_all(request.replace("BASE", &base).replace("HOST", host).as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    let (mut id, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let line = line.trim().to_lowercase();
        if line.is_empty() { break; }
        if let Some(value) = line.strip_prefix("lambda-runtime-aws-request-id: ") { id = value.to_owned(); }
        if let Some(value) = line.strip_prefix("content-length: ") { length = value.parse().unwrap(); }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    (id, String::from_utf8(body).unwrap())
}

fn main() {
    loop {
        let next = "GET BASE/2018-06-01/runtime/invocation/next HTTP/1.1\r\nhost: HOST\r\nconnection: close\r\n\r\n";
        let (id, event) = call(next.to_owned());
        let (path, answer) = if event.trim() == "\"fail\"" {
            ("error", r#"{"errorType":"Asked","errorMessage":"as asked"}"#.to_owned())
        } else {
            ("response", format!(r#"{{"statusCode":200,"headers":{{}},"multiValueHeaders":{{}},"cookies":[],"isBase64Encoded":false,"body":"{}","seen":{event}}}"#, std::env::var("GREETING").unwrap()))
        };
        call(format!("POST BASE/2018-06-01/runtime/invocation/{id}/{path} HTTP/1.1\r\nhost: HOST\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{answer}", answer.len()));
    }
}
"##;

#[test]
fn a_function_is_invoked_and_answers_http() {
    let directory = tempfile::tempdir().expect("a directory");
    let manifest = directory.path().join("Cargo.toml");
    let package =
        "[package]\nname = \"echo\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n";
    std::fs::write(&manifest, package).expect("write");
    std::fs::create_dir(directory.path().join("src")).expect("a directory");
    std::fs::write(directory.path().join("src/main.rs"), ECHO).expect("write");

    let functions = LocalFunctions::start_in(&manifest, &[("GREETING", "hello")]);
    let answer = functions
        .invoke("echo", &json!({"a": 1}))
        .expect("an answer");
    assert_eq!(
        (&answer["body"], &answer["seen"]),
        (&json!("hello"), &json!({"a": 1}))
    );
    let failure = functions
        .invoke("echo", &json!("fail"))
        .expect_err("a failure");
    assert!(failure.contains("as asked"), "{failure}");
    let unknown = functions
        .invoke("other", &json!({}))
        .expect_err("no such function");
    assert!(unknown.contains("echo"), "{unknown}");

    let answer = Http::plain().post(&functions.function_url("echo"), &json!({"b": 2}));
    assert_eq!((answer.status, answer.text()), (200, "hello".to_owned()));
}
