//! A transport that records requests and answers in order.

use async_trait::async_trait;
use driftless_notify::{NatsLogin, Transport, TransportError};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// A request without its connection.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    pub method: String,
    pub url: String,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

/// A transport that answers in order; the last answer is repeated.
#[derive(Default)]
pub struct Recorder {
    pub answers: Mutex<Vec<Value>>,
    pub requests: Mutex<Vec<Recorded>>,
}

impl Recorder {
    pub fn new(answers: &Value) -> Self {
        let answers = answers.as_array().cloned().unwrap_or_default();
        Self {
            answers: Mutex::new(answers),
            ..Self::default()
        }
    }

    fn record(&self, request: Recorded) {
        self.requests.lock().unwrap().push(request);
    }
}

#[async_trait]
impl Transport for Recorder {
    async fn http(
        &self,
        request: http::Request<Vec<u8>>,
    ) -> Result<http::Response<Vec<u8>>, TransportError> {
        let headers = request.headers().iter();
        let text =
            |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = headers.map(|(name, value)| (name.to_string(), text(value)));
        self.record(Recorded {
            method: request.method().to_string(),
            url: request.uri().to_string(),
            headers: headers.collect(),
            body: request.body().clone(),
        });
        let mut answers = self.answers.lock().unwrap();
        let answer = match answers.len() {
            0 => serde_json::json!({"status": 200, "body": "{}"}),
            1 => answers[0].clone(),
            _ => answers.remove(0),
        };
        let status = answer["status"].as_u64().unwrap();
        let body = answer["body"].as_str().unwrap_or_default();
        let response = http::Response::builder().status(u16::try_from(status).unwrap());
        Ok(response.body(body.as_bytes().to_vec()).unwrap())
    }

    async fn sign_rs256(&self, _key: &[u8], message: &[u8]) -> Result<Vec<u8>, TransportError> {
        Ok(message.to_vec())
    }

    async fn nats_publish(
        &self,
        server: &str,
        subject: &str,
        login: &NatsLogin,
        payload: &[u8],
    ) -> Result<(), TransportError> {
        assert!(server.starts_with("nats://"), "{server}");
        self.record(Recorded {
            method: "CONNECT".to_owned(),
            url: "nats".to_owned(),
            headers: BTreeMap::new(),
            body: format!("{login:?}").into_bytes(),
        });
        self.record(Recorded {
            method: "PUB".to_owned(),
            url: subject.to_owned(),
            headers: BTreeMap::new(),
            body: payload.to_vec(),
        });
        Ok(())
    }
}
