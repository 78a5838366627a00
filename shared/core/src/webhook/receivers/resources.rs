//! The resources of a Receiver: finds the objects, filters them, and requests their
//! reconciliation.

use super::{Requests, Seen};
use crate::webhook::{Delivery, Refusal, read};
use driftless_flux::{
    FluxKind, NOTIFICATION_CONTROLLER, ObjectRef, REQUESTED_AT, Receiver, ReceiverResource,
};
use driftless_kernel::concurrent;
use driftless_kernel::context::step_fuel;
use driftless_kernel::hub::Hub;
use driftless_kernel::ports::{
    Cause, ListRequest, Patch, PatchRequest, PortError, Ports, Request, Resource,
};
use driftless_manifest::{Gvk, Object};
use driftless_plans::health::{ExprError, ResourceFilter};
use futures::FutureExt as _;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// The most objects of a delivery.
const MAX_OBJECTS: usize = 1000;
/// Objects that are patched concurrently.
const CONCURRENCY: usize = 16;
/// The most bytes of a body that filters see.
const MAX_FILTERED: usize = 2 << 20;

/// The reason why objects of a Receiver are not reconciled.
#[derive(Debug, thiserror::Error)]
enum ResourceError {
    #[error("cross-namespace references are not allowed")]
    OtherNamespace,
    #[error("apiVersion must be specified for kind {0:?}")]
    NoVersion(String),
    #[error("the API group '{0}' is not one of Flux: expected GROUP.fluxcd.io")]
    OtherGroup(String),
    #[error("the hub does not serve {version} {kind}")]
    NotServed { version: String, kind: String },
    #[error("unable to read {kind} \"{namespace}/{name}\" error: not found")]
    NotFound {
        kind: String,
        namespace: String,
        name: String,
    },
    #[error("matchLabels field not set when using wildcard '*' as name")]
    NoLabels,
    #[error("more than {MAX_OBJECTS} objects are selected: expected narrower labels")]
    TooMany,
    #[error("{object}: {filter}")]
    Filter { object: String, filter: FilterError },
    #[error("unable to annotate {object} error: {error}")]
    Annotate { object: String, error: PortError },
    #[error(transparent)]
    Cluster(#[from] PortError),
}

/// The reason why the filters of an object have no result.
#[derive(Debug, thiserror::Error)]
enum FilterError {
    #[error(transparent)]
    Evaluate(#[from] ExprError),
    #[error(transparent)]
    Compute(#[from] PortError),
}

/// The filters of a Receiver with the body of a delivery.
pub(super) struct Filters {
    shared: Option<Arc<ResourceFilter>>,
    /// The filter of each resource.
    own: Vec<Option<Arc<ResourceFilter>>>,
    body: Arc<Value>,
    claims: Arc<Value>,
}

impl Filters {
    /// Parses the filters of a Receiver, and the body if there are any.
    ///
    /// # Errors
    /// An expression is not valid, or the body is not a JSON object.
    pub fn new(receiver: &Receiver, delivery: &Delivery<'_>, seen: Seen) -> Result<Self, Refusal> {
        let spec = &receiver.spec;
        // All filters of a delivery together have what a step has.
        let fuel = step_fuel();
        let parse = |text: Option<&str>| {
            let parse = |text| ResourceFilter::parse(text, receiver.is_oidc(), &fuel);
            let parsed = text.map(parse).transpose();
            // The step reports it in the status.
            parsed
                .map(|one| one.map(Arc::new))
                .map_err(|_| Refusal::Failed)
        };
        let own = spec.resources.iter().map(|one| parse(one.filter()));
        let filters = Self {
            shared: parse(spec.filter())?,
            own: own.collect::<Result<_, _>>()?,
            body: Arc::new(json!({})),
            claims: Arc::new(seen.claims.unwrap_or_else(|| json!({}))),
        };
        let is_used = filters.shared.is_some() || filters.own.iter().any(Option::is_some);
        if !is_used || !is_json(delivery) {
            return Ok(filters);
        }
        let body = seen.body.as_deref().unwrap_or(delivery.body);
        if body.len() > MAX_FILTERED {
            return Err(Refusal::TooLarge(MAX_FILTERED));
        }
        let body: Value = read("JSON", body)?;
        match body.is_object() {
            true => Ok(Self {
                body: Arc::new(body),
                ..filters
            }),
            false => {
                let problem = "expected an object".to_owned();
                Err(Refusal::Malformed("JSON".to_owned(), problem))
            }
        }
    }

    /// Returns whether the delivery is for an object of the resource with this index.
    async fn accept(&self, ports: &Ports, at: usize, object: &Object) -> Result<bool, FilterError> {
        let own = self.own.get(at).cloned().flatten();
        let filters: Vec<_> = self.shared.clone().into_iter().chain(own).collect();
        if filters.is_empty() {
            return Ok(true);
        }
        let resource = json!({"apiVersion": object.api_version(), "kind": object.kind(),
            "metadata": object.pointer("/metadata").cloned().unwrap_or_default()});
        let (body, claims) = (self.body.clone(), self.claims.clone());
        let accepted = ports.compute(move || {
            for filter in filters {
                match filter.accepts(&resource, &body, &claims) {
                    Ok(true) => {}
                    other => return other,
                }
            }
            Ok(true)
        });
        Ok(accepted.await??)
    }
}

/// Returns whether the content type of a delivery is JSON.
fn is_json(delivery: &Delivery<'_>) -> bool {
    let full = (delivery.header)("content-type").unwrap_or_default();
    let mut kinds = full.split(',');
    kinds.any(|kind| {
        let kind = kind.split(';').next().unwrap_or_default().trim();
        kind.eq_ignore_ascii_case("application/json")
    })
}

/// Annotates every object that the Receiver lists and the filters accept. Returns the requests for
/// those that driftless reconciles, the number of annotated objects, and the problems.
pub(super) async fn request(
    ports: &Ports,
    hub: &Hub,
    receiver: &Receiver,
    filters: Filters,
) -> (Requests, usize, Vec<String>) {
    let (mut requests, mut count, mut problems) = (Requests::new(), 0, Vec::new());
    let received = ports.clock.now();
    for (at, wanted) in receiver.spec.resources.iter().enumerate() {
        let (resource, objects) = match find(hub, receiver, wanted).await {
            Ok(found) => found,
            Err(problem) => {
                problems.push(format!("resources[{at}]: {problem}"));
                continue;
            }
        };
        let room = MAX_OBJECTS.saturating_sub(count);
        if objects.len() > room {
            problems.push(format!("resources[{at}]: {}", ResourceError::TooMany));
        }
        let annotated = objects.into_iter().take(room).map(|object| {
            let (resource, filters) = (&resource, &filters);
            async move { annotate(ports, hub, resource, filters, at, object).await }.boxed()
        });
        for done in concurrent::run(CONCURRENCY, annotated.collect()).await {
            match done {
                Ok(None) => {}
                Ok(Some(object)) => {
                    count += 1;
                    let id = ObjectRef::of(&object).filter(|id| !id.kind.is_static());
                    let request = id.map(|id| {
                        let request = Request::new(&hub.settings.name, id, Cause::Changed);
                        request.received_at(received)
                    });
                    requests.extend(request.map(|one| (one, Duration::ZERO)));
                }
                Err(problem) => problems.push(format!("resources[{at}]: {problem}")),
            }
        }
    }
    (requests, count, problems)
}

/// Returns the API version of a kind that Flux's Receivers may name without one.
fn default_version(kind: &str) -> Option<&'static str> {
    match kind {
        "Bucket" | "HelmChart" | "HelmRepository" | "GitRepository" | "OCIRepository" => {
            Some("source.toolkit.fluxcd.io/v1")
        }
        "ImageRepository" => Some("image.toolkit.fluxcd.io/v1"),
        "ArtifactGenerator" => Some("source.extensions.fluxcd.io/v1beta1"),
        _ => None,
    }
}

/// Finds the objects of a resource of a Receiver.
async fn find(
    hub: &Hub,
    receiver: &Receiver,
    wanted: &ReceiverResource,
) -> Result<(Resource, Vec<Object>), ResourceError> {
    let selector = &wanted.selector;
    let own = receiver.id.namespace.as_str();
    let named = selector
        .namespace
        .as_deref()
        .filter(|name| !name.is_empty());
    let namespace = named.unwrap_or(own);
    if hub.settings.no_cross_namespace_refs && namespace != own {
        return Err(ResourceError::OtherNamespace);
    }
    let kind = &selector.kind;
    let version = selector
        .api_version
        .as_deref()
        .filter(|text| !text.is_empty());
    let version = version.or_else(|| default_version(kind));
    let version = version.ok_or_else(|| ResourceError::NoVersion(kind.clone()))?;
    let gvk = Gvk::new(version, kind);
    if !gvk.group.ends_with(".fluxcd.io") {
        return Err(ResourceError::OtherGroup(gvk.group));
    }
    let resource = match FluxKind::of(&gvk) {
        Some(kind) => hub.resource(kind).await?,
        None => {
            let found = hub.cluster.resource(&gvk).await?;
            found.ok_or_else(|| ResourceError::NotServed {
                version: version.to_owned(),
                kind: kind.clone(),
            })?
        }
    };
    if selector.name != "*" {
        let found = hub.cluster.get(&resource, namespace, &selector.name);
        let found = found.await?.ok_or_else(|| ResourceError::NotFound {
            kind: kind.clone(),
            namespace: namespace.to_owned(),
            name: selector.name.clone(),
        })?;
        return Ok((resource, vec![found]));
    }
    let labels = selector.match_labels.as_ref();
    let labels = labels.ok_or(ResourceError::NoLabels)?;
    let terms: Vec<String> = labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let request = ListRequest {
        resource: &resource,
        namespace,
        selector: &terms.join(","),
    };
    let listed = hub.cluster.list(&request).await?;
    Ok((resource, listed))
}

/// Annotates an object that the filters accept. Returns the annotated object.
async fn annotate(
    ports: &Ports,
    hub: &Hub,
    resource: &Resource,
    filters: &Filters,
    at: usize,
    object: Object,
) -> Result<Option<Object>, ResourceError> {
    let place = format!(
        "{} \"{}/{}\"",
        object.kind(),
        object.namespace(),
        object.name()
    );
    let accepted = filters.accept(ports, at, &object).await;
    match accepted {
        Ok(true) => {}
        Ok(false) => return Ok(None),
        Err(filter) => {
            return Err(ResourceError::Filter {
                object: place,
                filter,
            });
        }
    }
    let now = ports.clock.now();
    let time = jiff::Timestamp::from_nanosecond(i128::try_from(now.as_nanos()).unwrap_or_default());
    let time = time.unwrap_or(jiff::Timestamp::MAX).to_string();
    let patch = Patch::Merge(json!({"metadata": {"annotations": {REQUESTED_AT: time}}}));
    let request = PatchRequest {
        resource,
        namespace: object.namespace(),
        name: object.name(),
        subresource: None,
        patch: &patch,
        manager: NOTIFICATION_CONTROLLER,
    };
    match hub.cluster.patch(&request).await {
        Ok(patched) => Ok(Some(patched)),
        Err(error) => Err(ResourceError::Annotate {
            object: place,
            error,
        }),
    }
}
