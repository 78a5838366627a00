//! Watches: a position in the history that [`crate::Server::poll`] advances.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::error::ApiError;
use crate::objects;
use crate::objects::codec::empty;
use crate::objects::selector::Selector;
use crate::objects::table::Representation;
use crate::request::query::Query;
use crate::request::target::Target;
use crate::resources::Resource;
use crate::store::state::State;
use crate::store::{Change, Event};

/// A running watch: a position in the history of a server, which [`crate::Server::poll`] advances.
/// It holds no reference to the server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Watch {
    resource: Arc<Resource>,
    namespace: String,
    selector: Selector,
    version: u64,
    /// Events to send before those of the history.
    start: Vec<Value>,
    bookmarks: bool,
    initial: bool,
    ended: bool,
    form: Representation,
    /// The timeout that the client requested, if any.
    pub timeout_seconds: Option<u64>,
}

/// Begins a watch.
///
/// # Errors
/// Selectors and versions that are not valid.
pub(crate) fn open(
    state: &State,
    target: &Target,
    query: &Query,
    form: Representation,
) -> Result<Watch, ApiError> {
    let selector = Selector::parse(query.get("labelSelector"), query.get("fieldSelector"))?
        .of(&target.resource, &target.name)?;
    let initial = query.flag("sendInitialEvents");
    let given = query.get("resourceVersion");
    let from: u64 = match given {
        "" | "0" => 0,
        text => text
            .parse()
            .map_err(|_| ApiError::unknown(&bad_version(text)))?,
    };
    let mut watch = Watch {
        resource: Arc::clone(&target.resource),
        namespace: target.namespace.clone(),
        selector,
        version: state.store.version(),
        start: Vec::new(),
        bookmarks: query.flag("allowWatchBookmarks"),
        initial,
        ended: false,
        form,
        timeout_seconds: query.get("timeoutSeconds").parse().ok(),
    };
    if initial || from == 0 {
        watch.start = matching(state, &watch);
    } else if from < state.store.compacted_version() {
        watch.ended = true;
        watch.start = vec![
            json!({"type": "ERROR", "object": too_old(from, state.store.compacted_version()).to_status()}),
        ];
    } else {
        watch.version = from;
    }
    Ok(watch)
}

fn matching(state: &State, watch: &Watch) -> Vec<Value> {
    state
        .store
        .list(&watch.resource.key(), &watch.namespace, None)
        .filter(|(_, object)| watch.selector.matches(object))
        .map(|(_, object)| {
            let object = objects::in_version(&watch.resource, object);
            json!({"type": "ADDED", "object": watch.form.event(&watch.resource, object)})
        })
        .collect()
}

/// Returns the events of a watch since the last call.
pub(crate) fn poll(state: &State, watch: &mut Watch) -> Vec<Value> {
    let mut out = std::mem::take(&mut watch.start);
    if watch.ended {
        return out;
    }
    if watch.initial {
        watch.initial = false;
        if watch.bookmarks {
            out.push(watch.bookmark(true));
        }
    }
    if watch.version < state.store.compacted_version() {
        watch.ended = true;
        let error = too_old(watch.version, state.store.compacted_version());
        out.push(json!({"type": "ERROR", "object": error.to_status()}));
        return out;
    }
    let key = watch.resource.key();
    for event in state.store.since(watch.version) {
        if event.key == key
            && (watch.namespace.is_empty() || event.name.0 == watch.namespace)
            && let Some(line) = watch.line(event)
        {
            out.push(line);
        }
    }
    watch.version = state.store.version();
    out
}

impl Watch {
    /// Returns whether the watch has sent its last event: nothing follows an `ERROR` event, such as
    /// 410 Gone.
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// Returns the bookmark that a server sends periodically; `None` if the client did not request
    /// bookmarks, or the watch has ended.
    pub fn heartbeat(&self) -> Option<Value> {
        (self.bookmarks && !self.ended).then(|| self.bookmark(false))
    }

    fn bookmark(&self, initial: bool) -> Value {
        let mut metadata = json!({"resourceVersion": self.version.to_string()});
        if initial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let mut object = empty(&self.resource.schema, self.resource.id);
        if self.resource.custom.is_some() || !object.is_object() {
            object = json!({});
        }
        object["kind"] = self.resource.kind.clone().into();
        object["apiVersion"] = self.resource.api_version().into();
        object["metadata"] = metadata;
        json!({"type": "BOOKMARK", "object": object})
    }

    /// Converts an event for this watch: an object that leaves the selection is deleted, one that
    /// enters it is added.
    fn line(&self, event: &Event) -> Option<Value> {
        let now = event.change != Change::Deleted && self.selector.matches(&event.object);
        let was = event
            .before
            .as_ref()
            .is_some_and(|before| self.selector.matches(before));
        let (kind, object) = match (was, now) {
            (false, true) => ("ADDED", Value::clone(&event.object)),
            (true, true) => ("MODIFIED", Value::clone(&event.object)),
            (true, false) => {
                let before = event.before.as_ref()?;
                let mut object = Value::clone(before);
                object["metadata"]["resourceVersion"] = event.version.to_string().into();
                ("DELETED", object)
            }
            (false, false) => return None,
        };
        let object = objects::in_version(&self.resource, &object);
        Some(json!({"type": kind, "object": self.form.event(&self.resource, object)}))
    }
}

pub(crate) fn too_old(from: u64, oldest: u64) -> ApiError {
    ApiError::new(
        410,
        "Expired",
        format!("too old resource version: {from} ({oldest})"),
    )
}

pub(crate) fn bad_version(text: &str) -> String {
    format!(
        "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
    )
}
