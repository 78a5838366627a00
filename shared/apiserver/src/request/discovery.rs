//! Discovery: versions, groups and resources, aggregated and not.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::{Value, json};

use crate::error::ApiError;
use crate::request::message::{Body, Request, Response};
use crate::request::openapi;
use crate::resources::Resource;
use crate::store::state::State;
use crate::values::{join, text};

/// Answers a path outside of resources.
pub(crate) fn answer(state: &State, request: &Request, path: &str) -> Result<Response, ApiError> {
    if request.method != "GET" && request.method != "HEAD" {
        return Err(ApiError::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        ));
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let aggregated = request.header("accept").split(',').any(|part| {
        part.contains("g=apidiscovery.k8s.io") && part.contains("v=v2") && !part.contains("v2beta1")
    });
    match parts.as_slice() {
        ["version"] => Ok(Response::json(200, version(state.kubernetes))),
        ["healthz" | "livez" | "readyz", ..] => Ok(Response::text("ok")),
        [] => Ok(Response::json(200, json!({"paths": paths(state)}))),
        ["api"] if aggregated => Ok(aggregate(state, request, true)),
        ["apis"] if aggregated => Ok(aggregate(state, request, false)),
        ["api"] => Ok(Response::json(
            200,
            json!({
                "kind": "APIVersions", "versions": ["v1"],
                "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:6443"}],
            }),
        )),
        ["apis"] => {
            let groups: Vec<Value> = groups(state).iter().filter_map(group).collect();
            Ok(Response::json(
                200,
                json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}),
            ))
        }
        ["api", version] => resources(state, "", version),
        ["apis", name] => groups(state)
            .iter()
            .filter_map(group)
            .find(|group| group["name"] == **name)
            .map(|mut group| {
                group["kind"] = "APIGroup".into();
                group["apiVersion"] = "v1".into();
                Response::json(200, group)
            })
            .map_or_else(|| Ok(not_found()), Ok),
        ["apis", group, version] => resources(state, group, version),
        ["openapi", "v3"] => Ok(openapi::index(state)),
        ["openapi", "v3", rest @ ..] => openapi::document(state, &rest.join("/")),
        _ => Ok(not_found()),
    }
}

/// Returns the 404 answer in plain text.
pub(crate) fn not_found() -> Response {
    let mut response = Response::text("404 page not found\n");
    response.status = 404;
    response
}

fn version([major, minor, patch]: [u64; 3]) -> Value {
    let (major, before) = (major.to_string(), minor.saturating_sub(1).to_string());
    let minor = minor.to_string();
    json!({
        "major": major, "minor": minor,
        "emulationMajor": major, "emulationMinor": minor,
        "minCompatibilityMajor": major, "minCompatibilityMinor": before,
        "gitVersion": format!("v{major}.{minor}.{patch}"), "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "gc", "platform": "linux/amd64",
    })
}

fn paths(state: &State) -> Vec<String> {
    let mut out = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for group in groups(state) {
        let name = text(&group, "/metadata/name").to_owned();
        if name.is_empty() {
            continue;
        }
        out.push(format!("/apis/{name}"));
        for version in group["versions"].as_array().into_iter().flatten() {
            out.push(format!("/apis/{name}/{}", text(version, "/version")));
        }
    }
    out.extend(["/healthz", "/livez", "/openapi/v3", "/readyz", "/version"].map(str::to_owned));
    out
}

/// Returns all groups in the aggregated form, custom ones last.
pub(crate) fn groups(state: &State) -> Vec<Value> {
    let mut out = state.builtin.groups.clone();
    let mut custom: BTreeMap<&str, BTreeMap<Priority, Vec<&Resource>>> = BTreeMap::new();
    for resource in state.custom.values() {
        custom
            .entry(&resource.group)
            .or_default()
            .entry(Priority::of(&resource.version))
            .or_default()
            .push(resource);
    }
    for (group, versions) in custom {
        let versions: Vec<Value> = versions
            .into_iter()
            .map(|(version, resources)| {
                json!({
                    "version": version.name, "freshness": "Current",
                    "resources": resources.into_iter().map(entry).collect::<Vec<_>>(),
                })
            })
            .collect();
        out.push(
            json!({"metadata": {"name": group, "creationTimestamp": null}, "versions": versions}),
        );
    }
    for group in &mut out {
        if group["metadata"].get("creationTimestamp").is_some() {
            group["metadata"] = json!({"name": group["metadata"]["name"]});
        }
    }
    out
}

/// Versions in the order of Kubernetes: stable before beta before alpha, newest first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Priority {
    rank: (u8, std::cmp::Reverse<u32>, std::cmp::Reverse<u32>),
    name: String,
}

impl Priority {
    fn of(name: &str) -> Self {
        let digits = |text: &str| -> (u32, String) {
            let end = text
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(text.len());
            (
                text[..end].parse().unwrap_or_default(),
                text[end..].to_owned(),
            )
        };
        let (major, rest) = match name.strip_prefix('v') {
            Some(text) => digits(text),
            None => (0, "?".to_owned()),
        };
        let (stage, minor) = match rest.as_str() {
            "" => (0, 0),
            text => match (text.strip_prefix("beta"), text.strip_prefix("alpha")) {
                (Some(minor), _) => (1, digits(minor).0),
                (_, Some(minor)) => (2, digits(minor).0),
                _ => (3, 0),
            },
        };
        Self {
            rank: (stage, std::cmp::Reverse(major), std::cmp::Reverse(minor)),
            name: name.to_owned(),
        }
    }
}

/// Returns a custom resource in the aggregated form.
fn entry(resource: &Resource) -> Value {
    let kind = |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let own = kind(&resource.group, &resource.version, &resource.kind);
    let scope = if resource.namespaced {
        "Namespaced"
    } else {
        "Cluster"
    };
    let mut out = json!({
        "resource": resource.plural, "responseKind": own, "scope": scope, "verbs": resource.verbs,
    });
    if let Some(custom) = &resource.custom {
        out["singularResource"] = custom.names["singular"].clone();
        for key in ["shortNames", "categories"] {
            if let Some(list) = custom.names.get(key).filter(|list| !list.is_null()) {
                out[key] = list.clone();
            }
        }
    }
    let subresources: Vec<Value> = resource
        .subresources
        .iter()
        .map(|(name, verbs)| {
            let kind = if name == "scale" {
                kind("autoscaling", "v1", "Scale")
            } else {
                own.clone()
            };
            json!({"subresource": name, "responseKind": kind, "verbs": verbs})
        })
        .collect();
    if !subresources.is_empty() {
        out["subresources"] = subresources.into();
    }
    out
}

fn aggregate(state: &State, request: &Request, core: bool) -> Response {
    let tag = tag(state, core);
    let headers = vec![
        ("Vary".into(), "Accept".into()),
        ("Etag".into(), tag.clone()),
    ];
    if request.header("if-none-match") == tag {
        return Response {
            status: 304,
            headers,
            ..Response::text("")
        };
    }
    let items: Vec<Value> = groups(state)
        .into_iter()
        .filter(|group| text(group, "/metadata/name").is_empty() == core)
        .map(|mut group| {
            if core {
                group["metadata"] = json!({});
            }
            group
        })
        .collect();
    Response {
        status: 200,
        headers,
        body: Body::Json(
            json!({
                "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
            }),
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList".to_owned(),
        ),
    }
}

/// Returns the ETag of one aggregated document. The built-in groups do not change while the process
/// runs.
fn tag(state: &State, core: bool) -> String {
    let mut hasher = DefaultHasher::new();
    core.hash(&mut hasher);
    if !core {
        for resource in state.custom.values() {
            (&resource.api_version, &resource.plural, &resource.kind).hash(&mut hasher);
            (resource.namespaced, &resource.verbs, &resource.subresources).hash(&mut hasher);
            let names = resource
                .custom
                .as_ref()
                .map(|custom| custom.names.to_string());
            names.hash(&mut hasher);
        }
    }
    format!("\"{:016X}\"", hasher.finish())
}

/// Returns a group in the old form; `None` for the core group.
fn group(group: &Value) -> Option<Value> {
    let name = group["metadata"]["name"].as_str()?;
    let versions: Vec<Value> = group["versions"]
        .as_array()?
        .iter()
        .map(|version| {
            let version = text(version, "/version");
            json!({"groupVersion": join(name, version), "version": version})
        })
        .collect();
    let preferred = versions.first().cloned()?;
    Some(json!({"name": name, "versions": versions, "preferredVersion": preferred}))
}

fn resources(state: &State, group: &str, version: &str) -> Result<Response, ApiError> {
    let groups = groups(state);
    let found = groups
        .iter()
        .filter(|known| text(known, "/metadata/name") == group)
        .flat_map(|known| known["versions"].as_array().into_iter().flatten())
        .find(|known| known["version"] == version)
        .ok_or_else(ApiError::no_such_path)?;
    let mut list = Vec::new();
    for entry in found["resources"].as_array().into_iter().flatten() {
        let namespaced = entry["scope"] == "Namespaced";
        let kind = entry["responseKind"]["kind"].clone();
        let plural = text(entry, "/resource");
        let mut own = json!({
            "name": plural, "singularName": entry["singularResource"], "namespaced": namespaced,
            "kind": kind, "verbs": entry["verbs"],
        });
        for key in ["shortNames", "categories"] {
            if let Some(value) = entry.get(key) {
                own[key] = value.clone();
            }
        }
        list.push(own);
        for sub in entry["subresources"].as_array().into_iter().flatten() {
            let response = &sub["responseKind"];
            let mut own = json!({
                "name": format!("{plural}/{}", text(sub, "/subresource")), "singularName": "",
                "namespaced": namespaced, "kind": response["kind"], "verbs": sub["verbs"],
            });
            let (of_group, of_version) = (text(response, "/group"), text(response, "/version"));
            if !of_version.is_empty() && (of_group != group || of_version != version) {
                own["group"] = of_group.into();
                own["version"] = of_version.into();
            }
            list.push(own);
        }
    }
    let mut out = json!({
        "kind": "APIResourceList", "groupVersion": join(group, version), "resources": list,
    });
    if !group.is_empty() {
        out["apiVersion"] = "v1".into();
    }
    Ok(Response::json(200, out))
}
