//! Watches without an end, by the watcher of `kube-runtime`: it lists, continues from each
//! resourceVersion, and lists again if the API server no longer has the changes since.

use super::connect::WATCH_SECONDS;
use super::requests::unreadable;
use super::response::{ApiResponse, RequestContext};
use driftless_kernel::ports::{
    Change, ErrorKind, FollowEvent, FollowRequest, Following, PortError, Resource, Result,
};
use driftless_manifest::Object;
use futures::StreamExt as _;
use http::HeaderValue;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::client::Body;
use kube::runtime::watcher::{self, Event, watcher};
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// The annotation in which kubectl keeps the whole object, also that of a Secret.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The place of a watch, for messages.
struct Place {
    resource: Resource,
    operation: String,
}

/// Returns the events of a watch as a user, whose name is a header.
pub fn follow(
    client: kube::Client,
    user: Option<HeaderValue>,
    server: &str,
    request: &FollowRequest,
) -> Following {
    let gvk = &request.resource.gvk;
    let resource = ApiResource {
        group: gvk.group.clone(),
        version: gvk.version.clone(),
        api_version: gvk.api_version(),
        kind: gvk.kind.clone(),
        plural: request.resource.plural.clone(),
    };
    let place = Arc::new(Place {
        operation: format!("watch {} on {server}", request.resource.plural),
        resource: request.resource.clone(),
    });
    let config = watcher::Config {
        label_selector: Some(request.labels.clone()).filter(|text| !text.is_empty()),
        field_selector: Some(request.fields.clone()).filter(|text| !text.is_empty()),
        ..watcher::Config::default().timeout(WATCH_SECONDS)
    };
    let client = as_user(client, user);
    if request.is_metadata {
        let api: Api<PartialObjectMeta<DynamicObject>> = Api::all_with(client, &resource);
        return watcher(api, config)
            .map(move |event| place.event(event, |object| json!({"metadata": metadata(&object)})))
            .boxed();
    }
    let api: Api<DynamicObject> = Api::all_with(client, &resource);
    watcher(api, config)
        .map(move |event| place.event(event, |object| value(&object)))
        .boxed()
}

/// Returns a client that sends its requests as a user.
fn as_user(client: kube::Client, user: Option<HeaderValue>) -> kube::Client {
    let Some(user) = user else { return client };
    let service = tower::service_fn(move |mut request: http::Request<Body>| {
        let (client, user) = (client.clone(), user.clone());
        async move {
            request.headers_mut().insert("impersonate-user", user);
            client.send(request).await
        }
    });
    kube::Client::new(service, "default")
}

/// Returns the metadata of an object, without the copy of the whole object that kubectl keeps.
fn metadata(object: &PartialObjectMeta<DynamicObject>) -> Value {
    let mut metadata = value(&object.metadata);
    if let Some(annotations) = metadata
        .get_mut("annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.remove(LAST_APPLIED);
    }
    metadata
}

/// Converts what was parsed from JSON back to JSON.
fn value(parsed: &impl Serialize) -> Value {
    serde_json::to_value(parsed).unwrap_or_default()
}

impl Place {
    fn event<K>(
        &self,
        event: watcher::Result<Event<K>>,
        value: impl Fn(K) -> Value,
    ) -> Result<FollowEvent> {
        let object = |object: K| self.object(value(object));
        Ok(match event.map_err(|error| self.error(error))? {
            Event::Init => FollowEvent::Restarted,
            Event::InitApply(listed) => FollowEvent::Listed(object(listed)?),
            Event::InitDone => FollowEvent::Synced,
            Event::Apply(written) => FollowEvent::Changed(Change::Written(object(written)?)),
            Event::Delete(deleted) => FollowEvent::Changed(Change::Deleted(object(deleted)?)),
        })
    }

    /// Returns an object with its type, which items of lists and metadata lack.
    fn object(&self, mut value: Value) -> Result<Object> {
        let gvk = &self.resource.gvk;
        if let Some(map) = value.as_object_mut() {
            map.insert("apiVersion".to_owned(), gvk.api_version().into());
            map.insert("kind".to_owned(), gvk.kind.clone().into());
        }
        Object::new(value).map_err(|error| {
            let message = format!("{}: {error}", self.operation);
            PortError::new(ErrorKind::Unreadable, message)
        })
    }

    fn error(&self, error: watcher::Error) -> PortError {
        let error = match error {
            watcher::Error::InitialListFailed(error)
            | watcher::Error::WatchStartFailed(error)
            | watcher::Error::WatchFailed(error) => error,
            watcher::Error::WatchError(status) => kube::Error::Api(status),
            watcher::Error::NoResourceVersion => {
                let message = format!("{}: an answer has no resourceVersion", self.operation);
                return PortError::new(ErrorKind::Unreadable, message);
            }
        };
        match error {
            kube::Error::Api(status) => {
                let mut status = value(&status);
                status["kind"] = "Status".into();
                let Value::Object(status) = status else {
                    return PortError::new(ErrorKind::Unreadable, self.operation.clone());
                };
                ApiResponse::of_status(status).to_error(&RequestContext {
                    operation: &self.operation,
                    resource: Some(&self.resource),
                })
            }
            // Its own message can quote a value.
            kube::Error::SerdeError(error) => unreadable(&self.operation, &error),
            error => {
                let mut cause: &dyn std::error::Error = &error;
                while let Some(source) = cause.source() {
                    cause = source;
                }
                let message = format!("{}: {cause}", self.operation);
                PortError::new(ErrorKind::Unavailable, message)
            }
        }
    }
}
