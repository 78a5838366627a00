//! Discovers and caches the resources of an API server.
//!
//! Aggregated discovery (Kubernetes 1.26) returns everything in two requests, with validators for
//! later requests. Older servers need a request for each version, which is sent when the version is
//! needed.

use super::requests::Caller;
use driftless_kernel::ports::{ErrorKind, PortError, Resource, Result};
use driftless_manifest::Gvk;
use http::{HeaderValue, StatusCode, header};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::OnceCell;

const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

/// The cached resources of a server, with the core group and the other groups in separate halves.
#[derive(Default)]
pub struct Discovery {
    core: CachedDiscovery,
    groups: CachedDiscovery,
}

#[derive(Default)]
struct CachedDiscovery {
    known: Mutex<Option<Arc<DiscoveryDocument>>>,
    /// Locked during a request, so that concurrent callers share one request.
    asking: tokio::sync::Mutex<()>,
}

struct DiscoveryDocument {
    at: Instant,
    etag: Option<HeaderValue>,
    groups: Arc<BTreeMap<String, Vec<Version>>>,
}

struct Version {
    name: String,
    /// True if the server marked the version as stale, because it cannot reach the aggregated API
    /// server.
    stale: bool,
    kinds: OnceCell<BTreeMap<String, Resource>>,
}

impl Discovery {
    /// Returns the resource of a kind.
    pub async fn resource(&self, caller: &Caller<'_>, gvk: &Gvk) -> Result<Option<Resource>> {
        let half = self.half(&gvk.group);
        let requested = Instant::now();
        if let Some(known) = half.cached()
            && let Ok(Some(resource)) = known.find(caller, gvk).await
        {
            return Ok(Some(resource));
        }
        half.refresh(caller, &gvk.group, requested)
            .await?
            .find(caller, gvk)
            .await
    }

    /// Returns the resources of a group and kind in every version.
    pub async fn versions(
        &self,
        caller: &Caller<'_>,
        group: &str,
        kind: &str,
    ) -> Result<Vec<Resource>> {
        let half = self.half(group);
        let requested = Instant::now();
        if let Some(known) = half.cached()
            && let Ok(found) = known.versions(caller, group, kind).await
            && !found.is_empty()
        {
            return Ok(found);
        }
        half.refresh(caller, group, requested)
            .await?
            .versions(caller, group, kind)
            .await
    }

    /// Lists every version and kind that the server serves now, as Helm does.
    pub async fn api_versions(&self, caller: &Caller<'_>) -> Result<Vec<String>> {
        let mut all = Vec::new();
        // `*` stands for any group outside the core: each half is requested as a whole.
        for group in ["", "*"] {
            let known = self.half(group).refresh(caller, group, Instant::now());
            all.extend(known.await?.api_versions(caller).await?);
        }
        Ok(all)
    }

    /// Drops the cached half of a group, which the server no longer serves.
    pub fn forget(&self, group: &str) {
        *self.half(group).lock() = None;
    }

    fn half(&self, group: &str) -> &CachedDiscovery {
        if group.is_empty() {
            &self.core
        } else {
            &self.groups
        }
    }
}

impl CachedDiscovery {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Arc<DiscoveryDocument>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cached(&self) -> Option<Arc<DiscoveryDocument>> {
        self.lock().clone()
    }

    /// Requests a half from the server, unless another caller has done so since `requested`.
    async fn refresh(
        &self,
        caller: &Caller<'_>,
        group: &str,
        requested: Instant,
    ) -> Result<Arc<DiscoveryDocument>> {
        let _one = self.asking.lock().await;
        let before = self.cached();
        if let Some(known) = before.clone().filter(|known| known.at >= requested) {
            return Ok(known);
        }
        let known = Arc::new(request(caller, group.is_empty(), before.as_deref()).await?);
        *self.lock() = Some(known.clone());
        Ok(known)
    }
}

impl DiscoveryDocument {
    async fn find(&self, caller: &Caller<'_>, gvk: &Gvk) -> Result<Option<Resource>> {
        let versions = self
            .groups
            .get(&gvk.group)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let Some(version) = versions.iter().find(|version| version.name == gvk.version) else {
            return Ok(None);
        };
        version.find(caller, &gvk.group, &gvk.kind).await
    }

    async fn api_versions(&self, caller: &Caller<'_>) -> Result<Vec<String>> {
        let mut all = Vec::new();
        for (group, versions) in self.groups.as_ref() {
            for version in versions {
                let name = match group.as_str() {
                    "" => version.name.clone(),
                    group => format!("{group}/{}", version.name),
                };
                let kinds = version.kinds(caller, group).await?;
                all.extend(kinds.keys().map(|kind| format!("{name}/{kind}")));
                all.push(name);
            }
        }
        Ok(all)
    }

    async fn versions(
        &self,
        caller: &Caller<'_>,
        group: &str,
        kind: &str,
    ) -> Result<Vec<Resource>> {
        let mut found = Vec::new();
        for version in self
            .groups
            .get(group)
            .map(Vec::as_slice)
            .unwrap_or_default()
        {
            found.extend(version.find(caller, group, kind).await?);
        }
        Ok(found)
    }
}

impl Version {
    fn new(name: String) -> Self {
        Self {
            name,
            stale: false,
            kinds: OnceCell::new(),
        }
    }

    async fn kinds(&self, caller: &Caller<'_>, group: &str) -> Result<&BTreeMap<String, Resource>> {
        let request = || one_version(caller, group, &self.name);
        self.kinds.get_or_try_init(request).await
    }

    async fn find(&self, caller: &Caller<'_>, group: &str, kind: &str) -> Result<Option<Resource>> {
        let kinds = self.kinds(caller, group).await?;
        let found = kinds.get(kind).cloned();
        if found.is_none() && self.stale {
            return Err(PortError::new(
                ErrorKind::Unavailable,
                format!(
                    "the API server {} cannot reach the aggregated API server of {group}/{}",
                    caller.server, self.name
                ),
            ));
        }
        Ok(found)
    }
}

/// Requests all groups of one half.
async fn request(
    caller: &Caller<'_>,
    core: bool,
    before: Option<&DiscoveryDocument>,
) -> Result<DiscoveryDocument> {
    let path = if core { "/api" } else { "/apis" };
    let mut headers = vec![(header::ACCEPT, HeaderValue::from_static(ACCEPT))];
    let validator = before.and_then(|known| known.etag.clone());
    headers.extend(validator.map(|etag| (header::IF_NONE_MATCH, etag)));
    let at = Instant::now();
    let answer = caller.read(path, headers, None).await?;
    if let (StatusCode::NOT_MODIFIED, Some(before)) = (answer.status, before) {
        return Ok(DiscoveryDocument {
            at,
            etag: before.etag.clone(),
            groups: before.groups.clone(),
        });
    }
    let list: AnyList = caller.decode(path, &answer, None)?;
    let etag = answer.headers.get(header::ETAG).cloned();
    let groups = match list.kind.as_str() {
        "APIGroupDiscoveryList" => list.items.into_iter().map(aggregated).collect(),
        "APIGroupList" => list.groups.into_iter().map(Group::plain).collect(),
        "APIVersions" if core => [(
            String::new(),
            list.versions.into_iter().map(Version::new).collect(),
        )]
        .into(),
        kind => {
            let message = format!(
                "GET {path} on {}: '{kind}' is not a list of API groups",
                caller.server
            );
            return Err(PortError::new(ErrorKind::Unreadable, message));
        }
    };
    Ok(DiscoveryDocument {
        at,
        etag,
        groups: Arc::new(groups),
    })
}

/// Requests one group and version, for servers before 1.26.
async fn one_version(
    caller: &Caller<'_>,
    group: &str,
    version: &str,
) -> Result<BTreeMap<String, Resource>> {
    let path = if group.is_empty() {
        format!("/api/{version}")
    } else {
        format!("/apis/{group}/{version}")
    };
    let answer = caller.read(&path, Vec::new(), None).await?;
    let list: ResourceList = caller.decode(&path, &answer, None)?;
    if list.kind != "APIResourceList" {
        let message = format!(
            "GET {path} on {}: '{}' is not a list of resources",
            caller.server, list.kind
        );
        return Err(PortError::new(ErrorKind::Unreadable, message));
    }
    let mut kinds = BTreeMap::new();
    for plain in list
        .resources
        .into_iter()
        .filter(|resource| !resource.name.contains('/'))
    {
        let gvk = Gvk {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: plain.kind,
        };
        let resource = Resource {
            plural: plain.name,
            namespaced: plain.namespaced,
            gvk,
        };
        kinds.entry(resource.gvk.kind.clone()).or_insert(resource);
    }
    Ok(kinds)
}

fn aggregated(item: Item) -> (String, Vec<Version>) {
    let group = item.metadata.name;
    let versions = item.versions.into_iter().map(|version| {
        let mut kinds = BTreeMap::new();
        for listed in version.resources {
            // A resource without a kind has only subresources.
            let Some(kind) = listed
                .response_kind
                .map(|kind| kind.kind)
                .filter(|kind| !kind.is_empty())
            else {
                continue;
            };
            let gvk = Gvk {
                group: group.clone(),
                version: version.version.clone(),
                kind: kind.clone(),
            };
            let resource = Resource {
                gvk,
                plural: listed.resource,
                namespaced: listed.scope == "Namespaced",
            };
            kinds.entry(kind).or_insert(resource);
        }
        Version {
            name: version.version,
            stale: version.freshness == "Stale",
            kinds: OnceCell::new_with(Some(kinds)),
        }
    });
    let versions = versions.collect();
    (group, versions)
}

/// The fields of the three forms of the answer to `/api` and `/apis`.
#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct AnyList {
    kind: String,
    items: Vec<Item>,
    groups: Vec<Group>,
    versions: Vec<String>,
}

#[derive(Deserialize)]
struct Item {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    versions: Vec<ItemVersion>,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct ItemVersion {
    version: String,
    #[serde(default)]
    freshness: String,
    #[serde(default)]
    resources: Vec<ItemResource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ItemResource {
    resource: String,
    #[serde(default)]
    scope: String,
    response_kind: Option<ResponseKind>,
}

#[derive(Deserialize)]
struct ResponseKind {
    #[serde(default)]
    kind: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    name: String,
    versions: Vec<GroupVersion>,
    #[serde(default)]
    preferred_version: Option<GroupVersion>,
}

#[derive(Deserialize)]
struct GroupVersion {
    version: String,
}

impl Group {
    fn plain(self) -> (String, Vec<Version>) {
        let mut names: Vec<String> = self
            .versions
            .into_iter()
            .map(|version| version.version)
            .collect();
        if let Some(preferred) = self.preferred_version {
            names.sort_by_key(|name| *name != preferred.version);
        }
        (self.name, names.into_iter().map(Version::new).collect())
    }
}

#[derive(Deserialize)]
struct ResourceList {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    resources: Vec<PlainResource>,
}

#[derive(Deserialize)]
struct PlainResource {
    name: String,
    kind: String,
    #[serde(default)]
    namespaced: bool,
}
