//! The transform of SAM templates, which CloudFormation runs on AWS and MiniStack does not have.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::body::{Bytes, to_bytes};
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::json;

use super::stack::{adapted, upload_template};
use super::{Aws, MiniStack};
use crate::http::{Answer, Http};
use crate::runtime::Listening;

/// The longest request; a template is an object of S3.
const LIMIT: usize = 1 << 20;

/// An endpoint of CloudFormation: it translates the template of a stack that is created or updated,
/// with the SAM translator that AWS runs, and passes everything on to MiniStack.
pub struct Transform {
    listening: Listening,
}

struct Inner {
    aws: Aws,
    url: String,
}

impl Transform {
    /// Starts the endpoint of a MiniStack.
    pub fn start(ministack: &MiniStack) -> Self {
        let inner = Arc::new(Inner {
            aws: Aws::new(&ministack.environment()),
            url: ministack.url(),
        });
        let app = Router::new().fallback(move |request: Request| {
            let inner = inner.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = to_bytes(body, LIMIT).await.expect("a body");
                // The translator is a process, and the client blocks.
                let work = move || inner.pass_on(&head, body);
                tokio::task::spawn_blocking(work).await.expect("an answer")
            }
        });
        let listening = Listening::start(app, None);
        Self { listening }
    }

    /// Returns the endpoint's URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.listening.address())
    }
}

impl Inner {
    fn pass_on(&self, head: &Parts, body: Bytes) -> (StatusCode, HeaderMap, Vec<u8>) {
        let body = match std::str::from_utf8(&body) {
            Ok(text) => self.translated(text).into_bytes(),
            Err(_) => body.to_vec(),
        };
        let headers: Vec<(&str, &str)> = head
            .headers
            .iter()
            .filter(|(name, _)| !["host", "content-length"].contains(&name.as_str()))
            .filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)))
            .collect();
        let url = format!("{}{}", self.url, head.uri);
        let answer = Http::plain().send(head.method.as_str(), &url, &headers, Some(&body));
        let Answer {
            status,
            mut headers,
            body,
        } = answer.expect("an answer of MiniStack");
        headers.remove("content-length");
        headers.remove("transfer-encoding");
        let status = StatusCode::from_u16(status).expect("a status");
        (status, headers, body)
    }

    /// Replaces the template of a request that has one.
    fn translated(&self, request: &str) -> String {
        let mut fields = pairs(request);
        let field = |name: &str| {
            let found = fields.iter().find(|(key, _)| key == name);
            found.map(|(_, value)| value.clone())
        };
        let Some(template) = field("TemplateURL") else {
            return request.to_owned();
        };
        let values: Vec<(String, String)> = (1..)
            .map_while(|number| {
                let part = |name: &str| field(&format!("Parameters.member.{number}.{name}"));
                Some((part("ParameterKey")?, part("ParameterValue")?))
            })
            .collect();
        let values: Vec<(&str, &str)> = values
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), self.object(&template)).expect("write the template");
        let template = adapted(file.path(), &BTreeMap::new(), &values);
        let name = field("StackName").expect("the name of a stack");
        let url = upload_template(&self.aws, &self.url, &name, &template);
        for (key, value) in &mut fields {
            if key == "TemplateURL" {
                value.clone_from(&url);
            }
        }
        let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let fields = fields.iter();
        let fields = fields.map(|(key, value)| format!("{}={}", encode(key), encode(value)));
        fields.collect::<Vec<_>>().join("&")
    }

    /// Reads an object by its URL of the form `https://BUCKET.s3.REGION.amazonaws.com/KEY`.
    fn object(&self, url: &str) -> Vec<u8> {
        let place = url.trim_start_matches("https://").split_once('/');
        let (host, key) = place.expect("a URL with a key");
        let (bucket, _) = host.split_once(".s3.").expect("the URL of a bucket");
        let object = json!({"Bucket": bucket, "Key": key});
        let answer = self.aws.must("s3", "get_object", object);
        let text = answer["Body"]["$base64"].as_str().expect("a body");
        STANDARD.decode(text).expect("Base64")
    }
}

fn pairs(form: &str) -> Vec<(String, String)> {
    let decode = |text: &str| {
        let text = text.replace('+', " ");
        percent_decode_str(&text).decode_utf8_lossy().into_owned()
    };
    let pairs = form.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(key, value)| (decode(key), decode(value)))
        .collect()
}
