//! An OCI registry: what the distribution specification asks of one that is pushed to and pulled from.

use super::State;
use super::server::{Incoming, is_let_in, plain, with};
use axum::body::Body;
use axum::http::{Response, header};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Tags of one page.
const PAGE: usize = 2;
const TOKEN: &str = "bought-with-the-login";

#[derive(Default)]
pub(super) struct Registry {
    blobs: BTreeMap<String, Vec<u8>>,
    /// Media type and bytes by repository and tag or digest.
    manifests: BTreeMap<(String, String), (String, Vec<u8>)>,
}

impl Registry {
    pub fn spoil(&mut self) {
        for bytes in self.blobs.values_mut() {
            *bytes = b"something else".to_vec();
        }
    }

    /// Tags of a repository behind `last`, in order.
    fn tags(&self, name: &str, last: &str) -> Vec<&str> {
        let tags = self.manifests.keys();
        let tags = tags.filter(|(repository, tag)| {
            repository == name && !tag.contains(':') && tag.as_str() > last
        });
        tags.map(|(_, tag)| tag.as_str()).collect()
    }
}

pub(super) fn answer(state: &mut State, incoming: &Incoming) -> Response<Body> {
    if incoming.path == "/token" {
        return match is_let_in(state, incoming) {
            true => json_body(&json!({ "token": TOKEN })),
            false => plain(401),
        };
    }
    let bearer = format!("Bearer {TOKEN}");
    if state.login.is_some() && incoming.header(header::AUTHORIZATION) != bearer {
        let challenge = format!(
            "Bearer realm=\"http://{}/token\",service=\"harness\",scope=\"repository:any:pull\"",
            incoming.host
        );
        return with(401, &[("www-authenticate", &challenge)], Body::empty());
    }
    let path = incoming.path.trim_start_matches("/v2/");
    let registry = &mut state.registry;
    if path.is_empty() {
        return plain(200);
    }
    if let Some((name, rest)) = path.split_once("/blobs/") {
        return blob(registry, incoming, name, rest);
    }
    if let Some((name, reference)) = path.split_once("/manifests/") {
        return manifest(registry, incoming, name, reference);
    }
    match path.strip_suffix("/tags/list") {
        Some(name) => tags(registry, incoming, name),
        None => plain(404),
    }
}

fn blob(registry: &mut Registry, incoming: &Incoming, name: &str, rest: &str) -> Response<Body> {
    match (incoming.method.as_str(), rest) {
        ("POST", "uploads/") => {
            let place = format!("/v2/{name}/blobs/uploads/one");
            with(202, &[("location", &place)], Body::empty())
        }
        ("PUT", "uploads/one") => {
            let digest = digest(&incoming.body);
            registry.blobs.insert(digest.clone(), incoming.body.clone());
            with(201, &[("docker-content-digest", &digest)], Body::empty())
        }
        ("GET" | "HEAD", digest) => match registry.blobs.get(digest) {
            Some(bytes) => with(200, &[], Body::from(bytes.clone())),
            None => plain(404),
        },
        _ => plain(405),
    }
}

fn manifest(
    registry: &mut Registry,
    incoming: &Incoming,
    name: &str,
    reference: &str,
) -> Response<Body> {
    let digest = digest(&incoming.body);
    match incoming.method.as_str() {
        "PUT" => {
            let kind = incoming.header(header::CONTENT_TYPE).to_owned();
            for reference in [reference, digest.as_str()] {
                let place = (name.to_owned(), reference.to_owned());
                let stored = (kind.clone(), incoming.body.clone());
                registry.manifests.insert(place, stored);
            }
            with(201, &[("docker-content-digest", &digest)], Body::empty())
        }
        _ => {
            let place = (name.to_owned(), reference.to_owned());
            match registry.manifests.get(&place) {
                Some((kind, bytes)) => {
                    let digest = self::digest(bytes);
                    let headers = [
                        ("content-type", kind.as_str()),
                        ("docker-content-digest", digest.as_str()),
                    ];
                    with(200, &headers, Body::from(bytes.clone()))
                }
                None => plain(404),
            }
        }
    }
}

fn tags(registry: &Registry, incoming: &Incoming, name: &str) -> Response<Body> {
    let last = incoming
        .query
        .split('&')
        .find_map(|pair| pair.strip_prefix("last="));
    let tags = registry.tags(name, last.unwrap_or_default());
    let page = &tags[..tags.len().min(PAGE)];
    let answer = json_body(&json!({"name": name, "tags": page}));
    let Some(last) = page.last().filter(|_| tags.len() > PAGE) else {
        return answer;
    };
    let next = format!("</v2/{name}/tags/list?last={last}&n={PAGE}>; rel=\"next\"");
    let (mut parts, body) = answer.into_parts();
    parts
        .headers
        .insert(header::LINK, next.parse().expect("a header"));
    Response::from_parts(parts, body)
}

fn json_body(value: &serde_json::Value) -> Response<Body> {
    let headers = [("content-type", "application/json")];
    with(200, &headers, Body::from(value.to_string()))
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}
