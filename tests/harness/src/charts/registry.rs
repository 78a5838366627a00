//! An OCI registry with the parts of the distribution specification that push and pull need.

use super::State;
use super::server::{Incoming, is_let_in, plain, with};
use axum::body::Body;
use axum::http::{Response, header};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// The number of tags in one page.
const PAGE: usize = 2;
const TOKEN: &str = "bought-with-the-login";

#[derive(Default)]
pub(super) struct Registry {
    blobs: BTreeMap<String, Vec<u8>>,
    /// The received bytes of each upload.
    uploads: Vec<Vec<u8>>,
    /// True if the registry serves the referrers API; otherwise the client that pushes writes an
    /// index of referrers below a tag.
    pub lists_referrers: bool,
    /// Media type and bytes by repository and tag or digest.
    manifests: BTreeMap<(String, String), (String, Vec<u8>)>,
}

impl Registry {
    pub fn spoil(&mut self) {
        for bytes in self.blobs.values_mut() {
            *bytes = b"something else".to_vec();
        }
    }

    pub fn digest(&self, name: &str, tag: &str) -> Option<String> {
        let (_, bytes) = self.manifests.get(&(name.to_owned(), tag.to_owned()))?;
        Some(digest(bytes))
    }

    pub fn retag(&mut self, name: &str, from: &str, to: &str) {
        let found = self.manifests.get(&(name.to_owned(), from.to_owned()));
        let manifest = found.cloned().expect("a manifest");
        let place = (name.to_owned(), to.to_owned());
        self.manifests.insert(place, manifest);
    }

    /// Returns the descriptors of a repository's manifests whose subject has this digest.
    fn referrers(&self, name: &str, digest: &str) -> Vec<Value> {
        let by_digest = self
            .manifests
            .iter()
            .filter(|((repository, reference), _)| repository == name && reference.contains(':'));
        by_digest
            .filter_map(|((_, own), (kind, bytes))| {
                let manifest: Value = serde_json::from_slice(bytes).ok()?;
                (subject(&manifest) == Some(digest)).then(|| {
                    json!({"mediaType": kind, "digest": own, "size": bytes.len(),
                        "artifactType": manifest.get("artifactType").or(manifest.pointer("/config/mediaType"))})
                })
            })
            .collect()
    }

    /// Returns the tags of a repository that sort after `last`.
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
    if let Some((name, digest)) = path.split_once("/referrers/") {
        return referrers(registry, name, digest);
    }
    match path.strip_suffix("/tags/list") {
        Some(name) => tags(registry, incoming, name),
        None => plain(404),
    }
}

fn blob(registry: &mut Registry, incoming: &Incoming, name: &str, rest: &str) -> Response<Body> {
    match (incoming.method.as_str(), rest) {
        ("POST", "uploads/") => {
            let place = format!("/v2/{name}/blobs/uploads/{}", registry.uploads.len());
            registry.uploads.push(Vec::new());
            with(202, &[("location", &place)], Body::empty())
        }
        (method @ ("PATCH" | "PUT"), rest) => {
            let number = rest.strip_prefix("uploads/").and_then(|n| n.parse().ok());
            let upload = number.and_then(|number: usize| registry.uploads.get_mut(number));
            let Some(upload) = upload else {
                return plain(404);
            };
            upload.extend_from_slice(&incoming.body);
            if method == "PATCH" {
                return with(202, &[("location", &incoming.path)], Body::empty());
            }
            let bytes = std::mem::take(upload);
            let digest = digest(&bytes);
            registry.blobs.insert(digest.clone(), bytes);
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
            let mut headers = vec![("docker-content-digest", digest.as_str())];
            let manifest = serde_json::from_slice(&incoming.body).unwrap_or_default();
            let subject = subject(&manifest).filter(|_| registry.lists_referrers);
            headers.extend(subject.map(|subject| ("oci-subject", subject)));
            with(201, &headers, Body::empty())
        }
        "DELETE" => {
            let place = (name.to_owned(), reference.to_owned());
            plain(registry.manifests.remove(&place).map_or(404, |_| 202))
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

fn subject(manifest: &Value) -> Option<&str> {
    manifest.pointer("/subject/digest")?.as_str()
}

fn referrers(registry: &Registry, name: &str, digest: &str) -> Response<Body> {
    if !registry.lists_referrers {
        return plain(404);
    }
    let kind = "application/vnd.oci.image.index.v1+json";
    let list = registry.referrers(name, digest);
    let index = json!({"schemaVersion": 2, "mediaType": kind, "manifests": list});
    with(
        200,
        &[("content-type", kind)],
        Body::from(index.to_string()),
    )
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
