//! Create, update and patch.

use serde_json::{Value, json};

use crate::body::{body_object, check_twice, patch_kind};
use crate::codec::{self, Found};
use crate::error::{ApiError, Problem};
use crate::json::Document;
use crate::merge::managers;
use crate::options::{Options, PatchKind, Validation};
use crate::ownership::{decode_managers, writer};
use crate::registry::Resource;
use crate::request::Response;
use crate::server::{Call, Server};
use crate::table::Form;
use crate::{admission, convert, defaults, patch, strategy, validate};

pub(crate) fn take(object: &mut Value, path: &[&str]) -> Option<Value> {
    let (last, parents) = path.split_last()?;
    let mut at = object;
    for step in parents {
        at = at.get_mut(*step)?;
    }
    at.as_object_mut()?.remove(*last)
}

pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Puts a value, or takes the key away.
pub(crate) fn set(object: &mut Value, parent: &str, key: &str, value: Option<Value>) {
    let parent = if parent.is_empty() {
        Some(object)
    } else {
        if object.get(parent).is_none_or(Value::is_null) && value.is_some() {
            object[parent] = json!({});
        }
        object.get_mut(parent)
    };
    let Some(map) = parent.and_then(Value::as_object_mut) else {
        return;
    };
    match value {
        Some(value) => {
            map.insert(key.to_owned(), value);
        }
        None => {
            map.remove(key);
        }
    }
}

impl Server {
    /// Reads a document as an object of the resource: types, unknown fields, defaults.
    pub(crate) fn read_object(
        &self,
        resource: &Resource,
        document: &Value,
        validation: Validation,
        warnings: &mut Vec<String>,
    ) -> Result<Value, ApiError> {
        let cannot = |why: &str| {
            ApiError::bad_request(format!(
                "{kind} in version {:?} cannot be handled as a {kind}: {why}",
                resource.version,
                kind = resource.kind
            ))
        };
        let mut found = Found {
            merged: validation == Validation::Merged,
            ..Found::default()
        };
        let mut object = match &resource.custom {
            Some(custom) => custom
                .read(resource, document, &mut found)
                .map_err(|why| cannot(&why))?,
            None => {
                let mut object = codec::read(&resource.schema, resource.id, document, &mut found)
                    .map_err(|why| cannot(&why))?;
                defaults::fill(&resource.schema, resource.id, &resource.kind, &mut object);
                object
            }
        };
        let unknown: Vec<String> = found
            .unknown
            .iter()
            .map(|path| format!("unknown field {path:?}"))
            .collect();
        match validation {
            Validation::Strict if !unknown.is_empty() => {
                return Err(cannot(&format!(
                    "strict decoding error: {}",
                    unknown.join(", ")
                )));
            }
            Validation::Warn => warnings.extend(unknown),
            _ => {}
        }
        object["apiVersion"] = resource.api_version().into();
        object["kind"] = resource.kind.clone().into();
        Ok(object)
    }

    pub(crate) fn fresh(&self, resource: &Resource) -> Value {
        let mut object = match resource.custom {
            Some(_) => json!({}),
            None => codec::empty(&resource.schema, resource.id),
        };
        object["apiVersion"] = resource.api_version().into();
        object["kind"] = resource.kind.clone().into();
        object
    }

    pub(crate) fn create(&mut self, call: &mut Call<'_>) -> Result<Response, ApiError> {
        let options = Options::read(call, "CreateOptions", None)?;
        let resource = std::sync::Arc::clone(&call.target.resource);
        if call.target.subresource.is_some() {
            return self.create_subresource(call);
        }
        let Document { value, twice } = body_object(call, &resource)?;
        check_twice(&twice, &resource, options.validation, &mut call.warnings)?;
        let mut object =
            self.read_object(&resource, &value, options.validation, &mut call.warnings)?;
        let now = call.moment.stamp();
        dedup_owners(&mut object, &mut call.warnings);
        call.warnings.extend(spread_warnings(&resource, &object));
        for key in [
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
            "uid",
            "creationTimestamp",
        ] {
            take(&mut object, &["metadata", key]);
        }
        let mut known = decode_managers(&object);
        take(&mut object, &["metadata", "managedFields"]);
        match_namespace(&call.target.namespace, &mut object)?;
        let writer = writer(&resource, "", &options.manager, &now);
        let fresh = self.fresh(&resource);
        known = managers::update(
            &self.versions(&resource, ""),
            &fresh,
            &object,
            known,
            &writer,
        );
        set(
            &mut object,
            "metadata",
            "managedFields",
            managers::encode(known),
        );
        let object = self.store_new(call, &resource, object, options.dry_run)?;
        let object = crate::read::in_version(&resource, &object);
        Form::of(call).object(&resource, 201, object)
    }

    /// The second half of a create, shared with the apply of a new object.
    pub(crate) fn store_new(
        &mut self,
        call: &mut Call<'_>,
        resource: &Resource,
        mut object: Value,
        dry_run: bool,
    ) -> Result<Value, ApiError> {
        let namespace = call.target.namespace.clone();
        if !text(&object, "/metadata/resourceVersion").is_empty() {
            return Err(ApiError::unknown(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        let generate = text(&object, "/metadata/generateName").to_owned();
        if text(&object, "/metadata/name").is_empty() && !generate.is_empty() {
            let base: String = generate.chars().take(58).collect();
            object["metadata"]["name"] = format!("{base}{}", call.moment.suffix()).into();
        }
        let name = text(&object, "/metadata/name").to_owned();
        admission::create(self, resource, &namespace, &name, &mut object)?;
        crate::escalation::check(self, &call.user, resource, &object, None)?;
        object["metadata"]["uid"] = call.moment.uid().into();
        object["metadata"]["creationTimestamp"] = call.moment.stamp().into();
        strategy::prepare_create(self, resource, &mut object, &mut call.moment)?;
        let mut problems = validate::metadata(resource, &object);
        problems.extend(validate::create(self, resource, &object));
        if !problems.is_empty() {
            return Err(ApiError::invalid(
                convert::home_group(resource),
                &resource.kind,
                &name,
                &problems,
            ));
        }
        let key = (namespace, name.clone());
        if self.store.get(&resource.key(), &key).is_some() {
            return Err(ApiError::already_exists(resource, &name));
        }
        if dry_run {
            take(&mut object, &["metadata", "resourceVersion"]);
            return Ok(object);
        }
        if resource.custom.is_none() {
            codec::from_store(&resource.schema, resource.id, &mut object);
        }
        let stored = self
            .store
            .put(&resource.key(), &key, kept(resource, object));
        self.after_write(resource, &stored, call);
        Ok(Value::clone(&stored))
    }

    pub(crate) fn update(&mut self, call: &mut Call<'_>) -> Result<Response, ApiError> {
        let options = Options::read(call, "UpdateOptions", None)?;
        let resource = std::sync::Arc::clone(&call.target.resource);
        if call.target.sub() == "scale" {
            return self.update_scale(call, &options);
        }
        let Document { value, twice } = body_object(call, &resource)?;
        check_twice(&twice, &resource, options.validation, &mut call.warnings)?;
        let mut new =
            self.read_object(&resource, &value, options.validation, &mut call.warnings)?;
        match_namespace(&call.target.namespace, &mut new)?;
        let name = name_of_url(&call.target.name, &new)?;
        let live = self.live(call)?;
        let given = text(&new, "/metadata/resourceVersion").to_owned();
        keep_reset(&value, &mut new);
        self.own_update(call, &resource, &live, &mut new, &options);
        let uid = text(&new, "/metadata/uid");
        if !uid.is_empty() && uid != text(&live, "/metadata/uid") {
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: /registry/{}/{}/{name}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                resource.plural,
                call.target.namespace,
                text(&live, "/metadata/uid")
            );
            return Err(ApiError::conflict(&resource, &name, &why));
        }
        if given.is_empty() && resource.custom.is_some() {
            return Err(ApiError::invalid(
                &resource.group,
                &resource.plural,
                &name,
                &[Problem::invalid_raw(
                    "metadata.resourceVersion",
                    "0",
                    "must be specified for an update",
                )],
            ));
        }
        let object = self.store_changed(call, &resource, &live, new, &options)?;
        Form::of(call).object(&resource, 200, object)
    }

    pub(crate) fn live(&self, call: &Call<'_>) -> Result<Value, ApiError> {
        let target = &call.target;
        let live = self
            .store
            .get(&target.resource.key(), &target.key())
            .ok_or_else(|| ApiError::not_found(&target.resource, &target.name))?;
        Ok(crate::read::in_version(&target.resource, live))
    }

    /// The second half of updates and patches.
    pub(crate) fn store_changed(
        &mut self,
        call: &mut Call<'_>,
        resource: &Resource,
        live: &Value,
        mut new: Value,
        options: &Options,
    ) -> Result<Value, ApiError> {
        let name = call.target.name.clone();
        let given = text(&new, "/metadata/resourceVersion").to_owned();
        let current = text(live, "/metadata/resourceVersion").to_owned();
        if !given.is_empty() && given != current {
            return Err(ApiError::conflict(
                resource,
                &name,
                "the object has been modified; please apply your changes to the latest version and try again",
            ));
        }
        strategy::prepare_update(self, resource, call.target.sub(), live, &mut new);
        crate::escalation::check(self, &call.user, resource, &new, Some(live))?;
        let mut problems = validate::metadata_update(resource, live, &new);
        problems.extend(validate::update(
            self,
            resource,
            call.target.sub(),
            live,
            &new,
        ));
        if !problems.is_empty() {
            return Err(ApiError::invalid(
                &resource.group,
                &resource.kind,
                &name,
                &problems,
            ));
        }
        set(
            &mut new,
            "metadata",
            "resourceVersion",
            Some(current.into()),
        );
        if resource.custom.is_none() {
            codec::from_store(&resource.schema, resource.id, &mut new);
        }
        let gone = new["metadata"].get("deletionTimestamp").is_some()
            && codec::is_zero(&new["metadata"]["finalizers"])
            && !strategy::holds_finalizers(resource, &new);
        if options.dry_run || (new == *live && !gone) {
            return Ok(new);
        }
        let key = call.target.key();
        if gone {
            self.remove(resource, &key);
            return Ok(new);
        }
        if let Some(stored) = self.store.get(&resource.key(), &key) {
            convert::check(resource, stored)?;
        }
        let stored = self.store.put(&resource.key(), &key, kept(resource, new));
        self.after_write(resource, &stored, call);
        Ok(crate::read::in_version(resource, &stored))
    }

    pub(crate) fn patch(&mut self, call: &mut Call<'_>) -> Result<Response, ApiError> {
        let resource = std::sync::Arc::clone(&call.target.resource);
        let kind = patch_kind(call.request.header("content-type"), &resource)?;
        let options = Options::read(call, "PatchOptions", Some(kind))?;
        if call.target.sub() == "scale" {
            return self.patch_scale(call, kind, &options);
        }
        if kind == PatchKind::Apply {
            return self.apply(call, &resource, &options);
        }
        let live = self.live(call)?;
        let patched = patch::patched(kind, &resource, &live, &call.request.body)?;
        let mut warnings = Vec::new();
        let mut new = self
            .read_object(&resource, &patched, options.validation, &mut warnings)
            .map_err(|error| patch_misfit(kind, &call.request.body, &patched, &error))?;
        call.warnings.append(&mut warnings);
        if patched
            .get("apiVersion")
            .is_some_and(|v| *v != live["apiVersion"])
            || patched.get("kind").is_some_and(|v| *v != live["kind"])
        {
            return Err(ApiError::bad_request(
                "the API version in the data does not match the expected API version",
            ));
        }
        if text(&new, "/metadata/name") != call.target.name {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({}) does not match the name on the URL ({})",
                text(&new, "/metadata/name"),
                call.target.name
            )));
        }
        keep_reset(&patched, &mut new);
        self.own_update(call, &resource, &live, &mut new, &options);
        let object = self.store_changed(call, &resource, &live, new, &options)?;
        Form::of(call).object(&resource, 200, object)
    }
}

/// An object as the store keeps it.
fn kept(resource: &Resource, mut object: Value) -> Value {
    if let Some(custom) = &resource.custom {
        object["apiVersion"] = custom.storage_version().into();
    }
    convert::kept(resource, object)
}

/// The name of an object, which must be the one on the URL.
pub(crate) fn name_of_url(url: &str, object: &Value) -> Result<String, ApiError> {
    match text(object, "/metadata/name") {
        "" => Err(ApiError::bad_request(format!(
            "the name of the object ({url} based on URL) was undeterminable: name must be provided"
        ))),
        name if name != url => Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({url})"
        ))),
        name => Ok(name.to_owned()),
    }
}

/// An empty list of managers means: forget them. Reading drops empty lists.
fn keep_reset(document: &Value, new: &mut Value) {
    let given = document["metadata"]
        .get("managedFields")
        .and_then(Value::as_array);
    if given.is_some_and(Vec::is_empty) {
        new["metadata"]["managedFields"] = json!([]);
    }
}

/// Spread constraints that select nothing.
pub(crate) fn spread_warnings(resource: &Resource, object: &Value) -> Vec<String> {
    let path = match resource.plural.as_str() {
        "pods" => "spec",
        "deployments" | "statefulsets" | "daemonsets" | "replicasets" | "jobs" => {
            "spec.template.spec"
        }
        _ => return Vec::new(),
    };
    let pointer = format!("/{}/topologySpreadConstraints", path.replace('.', "/"));
    let list = object.pointer(&pointer).and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .enumerate()
        .filter(|(_, constraint)| resource.custom.is_none() && constraint.get("labelSelector").is_none())
        .map(|(index, _)| {
            format!(
                "{path}.topologySpreadConstraints[{index}].labelSelector: a null labelSelector results in matching no pod"
            )
        })
        .collect()
}

/// Owners by uid, each once.
fn dedup_owners(object: &mut Value, warnings: &mut Vec<String>) {
    let Some(list) = object["metadata"]
        .get_mut("ownerReferences")
        .and_then(Value::as_array_mut)
    else {
        return;
    };
    let mut kept: Vec<Value> = Vec::new();
    let mut twice = Vec::new();
    for owner in std::mem::take(list) {
        if kept.contains(&owner) {
            twice.push(text(&owner, "/uid").to_owned());
        } else {
            kept.push(owner);
        }
    }
    *list = kept;
    if !twice.is_empty() {
        warnings.push(format!(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            twice.join(", ")
        ));
    }
}

pub(crate) fn match_namespace(namespace: &str, object: &mut Value) -> Result<(), ApiError> {
    let given = text(object, "/metadata/namespace");
    if given.is_empty() && !namespace.is_empty() {
        object["metadata"]["namespace"] = namespace.into();
    } else if given != namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

fn patch_misfit(kind: PatchKind, body: &[u8], patched: &Value, error: &ApiError) -> ApiError {
    let why = error.message.clone();
    let strict = why
        .find("strict decoding error")
        .map(|at| why[at..].to_owned());
    let why = strict.unwrap_or_else(|| {
        let at = why.find("cannot be handled as a ").unwrap_or_default();
        why[at..]
            .split_once(": ")
            .map_or(why.clone(), |(_, rest)| rest.to_owned())
    });
    let shown = match kind {
        PatchKind::Strategic => {
            let patch: Value = serde_json::from_slice(body).unwrap_or_default();
            patch::go_map(&patch)
        }
        _ => patched.to_string(),
    };
    ApiError::invalid(
        "",
        "",
        "",
        &[Problem::invalid("patch", &Value::String(shown), &why)],
    )
}
