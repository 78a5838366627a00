//! Create, update and patch.

use serde_json::{Map, Value, json};

use crate::codec::{self, Found};
use crate::error::{ApiError, Problem};
use crate::merge::managers::{self, Refusal, Versions, Writer};
use crate::merge::set::Set;
use crate::merge::typed::TypeRef;
use crate::options::{Options, PatchKind, Validation};
use crate::registry::Resource;
use crate::request::Response;
use crate::server::{Call, Server};
use crate::table::Form;
use crate::{admission, defaults, patch, strategy, validate};

/// The types of a resource's versions, for ownership.
pub(crate) struct OwnVersions<'a> {
    resource: &'a Resource,
    others: Vec<(String, std::sync::Arc<Resource>)>,
    subresource: &'a str,
}

impl Versions for OwnVersions<'_> {
    fn at(&self, api_version: &str) -> Option<TypeRef<'_>> {
        let own = self.resource.api_version() == api_version;
        let resource = if own {
            self.resource
        } else {
            &self.others.iter().find(|(v, _)| v == api_version)?.1
        };
        Some(TypeRef {
            schema: &resource.schema,
            id: resource.id,
        })
    }

    fn reset(&self, _: &str) -> Set {
        strategy::reset_fields(self.resource, self.subresource)
    }
}

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
    pub(crate) fn versions<'a>(
        &self,
        resource: &'a Resource,
        subresource: &'a str,
    ) -> OwnVersions<'a> {
        let others = self
            .resources()
            .filter(|r| r.group == resource.group && r.plural == resource.plural)
            .map(|r| (r.api_version(), std::sync::Arc::clone(r)))
            .collect();
        OwnVersions {
            resource,
            others,
            subresource,
        }
    }

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
            return self.create_subresource(call, &options);
        }
        let document = body_object(call, &resource)?;
        let mut object =
            self.read_object(&resource, &document, options.validation, &mut call.warnings)?;
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
    fn store_new(
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
                &resource.group,
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
        if let Some(custom) = &resource.custom {
            object["apiVersion"] = custom.storage_version().into();
        }
        if resource.custom.is_none() {
            codec::from_store(&resource.schema, resource.id, &mut object);
        }
        let stored = self.store.put(&resource.key(), &key, object);
        self.after_write(resource, &stored, call);
        Ok(Value::clone(&stored))
    }

    pub(crate) fn update(&mut self, call: &mut Call<'_>) -> Result<Response, ApiError> {
        let options = Options::read(call, "UpdateOptions", None)?;
        let resource = std::sync::Arc::clone(&call.target.resource);
        if call.target.sub() == "scale" {
            return self.update_scale(call, &options);
        }
        let document = body_object(call, &resource)?;
        let mut new =
            self.read_object(&resource, &document, options.validation, &mut call.warnings)?;
        match_namespace(&call.target.namespace, &mut new)?;
        let name = name_of_url(&call.target.name, &new)?;
        let live = self.live(call)?;
        let given = text(&new, "/metadata/resourceVersion").to_owned();
        keep_reset(&document, &mut new);
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

    /// Ownership after an update or a patch.
    pub(crate) fn own_update(
        &self,
        call: &Call<'_>,
        resource: &Resource,
        live: &Value,
        new: &mut Value,
        options: &Options,
    ) {
        let sub = call.target.sub();
        let before = decode_managers(live);
        let given = take(new, &["metadata", "managedFields"]);
        let reset = given
            .as_ref()
            .and_then(Value::as_array)
            .is_some_and(|list| {
                list.is_empty()
                    || (list.len() == 1 && list[0].as_object().is_some_and(Map::is_empty))
            });
        let known = if !sub.is_empty() {
            before
        } else if reset {
            Vec::new()
        } else {
            managers::decode(given.as_ref())
                .filter(|known| !known.is_empty())
                .unwrap_or(before)
        };
        // An object without any owner stays so until the next apply.
        if known.is_empty() {
            return;
        }
        let mut old = live.clone();
        take(&mut old, &["metadata", "managedFields"]);
        let now = call.moment.stamp();
        let writer = writer(resource, sub, &options.manager, &now);
        let known = managers::update(&self.versions(resource, sub), &old, new, known, &writer);
        set(new, "metadata", "managedFields", managers::encode(known));
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
        if let Some(custom) = &resource.custom {
            new["apiVersion"] = custom.storage_version().into();
        }
        if gone {
            self.remove(resource, &key);
            return Ok(crate::read::in_version(resource, &new));
        }
        let stored = self.store.put(&resource.key(), &key, new);
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

    fn apply(
        &mut self,
        call: &mut Call<'_>,
        resource: &Resource,
        options: &Options,
    ) -> Result<Response, ApiError> {
        let mut config = apply_document(&call.request.body)?;
        let (api_version, kind) = (text(&config, "/apiVersion"), text(&config, "/kind"));
        if api_version != resource.api_version() || kind != resource.kind {
            return Err(ApiError::bad_request(format!(
                "invalid object type: {}, Kind={kind}",
                go_version(api_version)
            )));
        }
        if config["metadata"]
            .get("managedFields")
            .is_some_and(|list| !list.is_null())
        {
            return Err(ApiError::bad_request("metadata.managedFields must be nil"));
        }
        let key = call.target.key();
        let stored = self.store.get(&resource.key(), &key).cloned();
        let fresh = self.fresh(resource);
        let live = stored
            .as_ref()
            .map(|stored| crate::read::in_version(resource, stored));
        if live.is_none() && call.target.subresource.is_some() {
            return Err(ApiError::not_found(resource, &call.target.name));
        }
        let known = live.as_ref().map(decode_managers).unwrap_or_default();
        let mut base = live.clone().unwrap_or_else(|| fresh.clone());
        take(&mut base, &["metadata", "managedFields"]);
        if resource.custom.is_some() {
            crate::crd::drop_nulls(&mut config);
        }
        let now = call.moment.stamp();
        let writer = writer(resource, call.target.sub(), &options.manager, &now);
        let versions = self.versions(resource, call.target.sub());
        let run = |force: bool| {
            managers::apply(
                &versions,
                &base,
                &config,
                known.clone(),
                &writer,
                force,
                &fresh,
            )
        };
        let mut applied = run(options.force);
        if options.manager == "kubectl"
            && let Err(Refusal::Conflicts(conflicts)) = &applied
            && last_applied_allows(&versions, resource, &base, conflicts)
        {
            applied = run(true);
        }
        let mut applied = applied.map_err(|refusal| refused(resource, &config, refusal))?;
        if options.manager == "kubectl"
            && let Some(object) = &mut applied.object
        {
            renew_last_applied(object, &config);
        }
        let mut new = match &applied.object {
            Some(object) => {
                let mut ignored = Vec::new();
                self.read_object(resource, object, Validation::Merged, &mut ignored)?
            }
            None => base,
        };
        set(
            &mut new,
            "metadata",
            "managedFields",
            managers::encode(applied.managers),
        );
        name_of_url(&call.target.name, &new)?;
        new["metadata"]["name"] = call.target.name.clone().into();
        match_namespace(&call.target.namespace, &mut new)?;
        let Some(live) = live else {
            if !text(&new, "/metadata/uid").is_empty() {
                let why = format!(
                    "uid mismatch: the provided object specified uid {}, and no existing object was found",
                    text(&new, "/metadata/uid")
                );
                return Err(ApiError::conflict(resource, &call.target.name, &why));
            }
            crate::rbac::authorize_create(self, call)?;
            take(&mut new, &["metadata", "resourceVersion"]);
            call.warnings.extend(spread_warnings(resource, &new));
            let object = self.store_new(call, resource, new, options.dry_run)?;
            let object = crate::read::in_version(resource, &object);
            return Form::of(call).object(resource, 201, object);
        };
        let object = self.store_changed(call, resource, &live, new, options)?;
        Form::of(call).object(resource, 200, object)
    }
}

pub(crate) fn writer<'a>(
    resource: &'a Resource,
    subresource: &'a str,
    name: &'a str,
    now: &'a str,
) -> Writer<'a> {
    Writer {
        name,
        api_version: resource.api_version_ref(),
        subresource,
        now,
    }
}

/// A group and version as Go prints them: the core group is an empty text.
fn go_version(api_version: &str) -> String {
    if api_version.contains('/') {
        api_version.to_owned()
    } else {
        format!("/{api_version}")
    }
}

/// The name of an object, which must be the one on the URL.
fn name_of_url(url: &str, object: &Value) -> Result<String, ApiError> {
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

/// The package of a group in the API server's own code, as its messages name it.
fn package(group: &str) -> &str {
    match group {
        "" => "core",
        other => other.split('.').next().unwrap_or_default(),
    }
}

pub(crate) fn decode_managers(object: &Value) -> Vec<managers::Manager> {
    managers::decode(object["metadata"].get("managedFields")).unwrap_or_default()
}

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Fields that `kubectl apply` set on the client side belong to `kubectl` on the server side too.
fn last_applied_allows(
    versions: &OwnVersions<'_>,
    resource: &Resource,
    live: &Value,
    conflicts: &[managers::Conflict],
) -> bool {
    let annotation = live["metadata"]["annotations"][LAST_APPLIED]
        .as_str()
        .unwrap_or_default();
    let Ok(last) = serde_json::from_str::<Value>(annotation) else {
        return false;
    };
    if last["apiVersion"] != resource.api_version_ref() {
        return false;
    }
    let Some(of) = versions.at(resource.api_version_ref()) else {
        return false;
    };
    let owned = crate::merge::typed::field_set(of, &last).paths();
    conflicts.iter().all(|conflict| {
        owned
            .iter()
            .any(|path| crate::merge::set::display(path) == conflict.field)
    })
}

/// The annotation of the client side follows what the server side applied.
fn renew_last_applied(object: &mut Value, config: &Value) {
    let place = object
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut)
        .and_then(|annotations| annotations.get_mut(LAST_APPLIED));
    if let Some(place) = place {
        let mut config = config.clone();
        if let Some(annotations) = config
            .pointer_mut("/metadata/annotations")
            .and_then(Value::as_object_mut)
        {
            annotations.remove(LAST_APPLIED);
        }
        *place = format!("{config}\n").into();
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
fn spread_warnings(resource: &Resource, object: &Value) -> Vec<String> {
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

fn match_namespace(namespace: &str, object: &mut Value) -> Result<(), ApiError> {
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

/// The body as JSON with the kind that the path demands.
pub(crate) fn body_object(call: &Call<'_>, resource: &Resource) -> Result<Value, ApiError> {
    let body = &call.request.body;
    let content = call.request.header("content-type");
    let media = content.split(';').next().unwrap_or_default().trim();
    if !matches!(
        media,
        "" | "application/json" | "*/*" | crate::protobuf::MEDIA
    ) {
        return Err(unsupported_media(&[
            "application/json",
            "application/yaml",
            "application/vnd.kubernetes.protobuf",
        ]));
    }
    let document = if media == crate::protobuf::MEDIA {
        crate::protobuf::read(&crate::schema::builtin(), body).map_err(ApiError::bad_request)?
    } else {
        from_json(body, resource)?
    };
    let shown = || {
        let text = String::from_utf8_lossy(body);
        text.into_owned()
    };
    if !document.is_object() {
        return Err(ApiError::bad_request(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            match &document {
                Value::Array(_) => "array",
                Value::String(_) => "string",
                Value::Number(_) => "number",
                Value::Bool(_) => "bool",
                _ => "object",
            }
        )));
    }
    let (api_version, kind) = (text(&document, "/apiVersion"), text(&document, "/kind"));
    let defaulted_kind = if kind.is_empty() {
        resource.kind.as_str()
    } else {
        kind
    };
    let own = resource.api_version();
    let defaulted_version = if api_version.is_empty() {
        own.as_str()
    } else {
        api_version
    };
    if resource.custom.is_some() {
        if kind.is_empty() {
            return Err(ApiError::bad_request(format!(
                "Object 'Kind' is missing in '{}'",
                shown()
            )));
        }
        if api_version.is_empty() {
            return Err(ApiError::bad_request(format!(
                "Object 'apiVersion' is missing in '{}'",
                shown()
            )));
        }
    }
    if defaulted_version != own || defaulted_kind != resource.kind {
        let version = version_of(defaulted_version);
        if resource.custom.is_some() {
            return Err(ApiError::bad_request(format!(
                "the API version in the data ({defaulted_version}) does not match the expected API version ({own})"
            )));
        }
        let known = resource
            .schema
            .kinds
            .contains_key(&format!("{defaulted_version}/{defaulted_kind}"));
        let why = if known {
            let (of, own) = (defaulted_kind, package(&resource.group));
            format!(
                "converting ({version}.{of}) to ({own}.{}): unknown conversion",
                resource.kind
            )
        } else {
            format!(
                "no kind {defaulted_kind:?} is registered for version {defaulted_version:?} in scheme \"pkg/runtime/scheme.go:111\""
            )
        };
        return Err(ApiError::bad_request(format!(
            "{defaulted_kind} in version {version:?} cannot be handled as a {}: {why}",
            resource.kind
        )));
    }
    Ok(document)
}

fn from_json(body: &[u8], resource: &Resource) -> Result<Value, ApiError> {
    serde_json::from_slice(body).map_err(|error| {
        let why = if error.is_eof() {
            "unexpected end of JSON input".to_owned()
        } else {
            error.to_string()
        };
        ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error: {why} ({})",
            resource.kind,
            String::from_utf8_lossy(body)
        ))
    })
}

fn version_of(api_version: &str) -> &str {
    api_version.rsplit('/').next().unwrap_or_default()
}

fn unsupported_media(known: &[&str]) -> ApiError {
    ApiError::new(
        415,
        "UnsupportedMediaType",
        format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            known.join(", ")
        ),
    )
}

pub(crate) fn patch_kind(content_type: &str, resource: &Resource) -> Result<PatchKind, ApiError> {
    let media = content_type.split(';').next().unwrap_or_default().trim();
    match media {
        "application/json-patch+json" => Ok(PatchKind::Json),
        "application/merge-patch+json" => Ok(PatchKind::Merge),
        "application/strategic-merge-patch+json" if resource.custom.is_none() => {
            Ok(PatchKind::Strategic)
        }
        "application/apply-patch+yaml" => Ok(PatchKind::Apply),
        _ => {
            if resource.custom.is_some() {
                return Err(unsupported_media(&[
                    "application/json-patch+json",
                    "application/merge-patch+json",
                    "application/apply-patch+yaml",
                ]));
            }
            Err(
                ApiError::new(415, "UnsupportedMediaType", "415: Unsupported Media Type")
                    .with_details(),
            )
        }
    }
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

fn apply_document(body: &[u8]) -> Result<Value, ApiError> {
    let config: Value = serde_json::from_slice(body).map_err(|_| {
        ApiError::bad_request("error decoding YAML: this server reads the JSON subset of YAML only")
    })?;
    if !config.is_object() {
        return Err(ApiError::bad_request(
            "error decoding YAML: the document is no map",
        ));
    }
    Ok(config)
}

fn refused(resource: &Resource, config: &Value, refusal: Refusal) -> ApiError {
    match refusal {
        Refusal::Version(why) => ApiError::unknown(&why),
        Refusal::Misfit(why) => {
            let or = |text: &str| text.to_owned();
            ApiError::unknown(&format!(
                "failed to create typed patch object ({}/{}; {}, Kind={}): {why}",
                or(text(config, "/metadata/namespace")),
                or(text(config, "/metadata/name")),
                go_version(resource.api_version_ref()),
                resource.kind
            ))
        }
        Refusal::Conflicts(conflicts) => {
            let message = match conflicts.as_slice() {
                [one] => format!(
                    "Apply failed with 1 conflict: conflict with {}: {}",
                    one.manager, one.field
                ),
                many => {
                    let mut lines = Vec::new();
                    let mut names: Vec<&String> = many.iter().map(|c| &c.manager).collect();
                    names.sort();
                    names.dedup();
                    for name in names {
                        lines.push(format!("conflicts with {name}:"));
                        lines.extend(
                            many.iter()
                                .filter(|c| c.manager == *name)
                                .map(|c| format!("- {}", c.field)),
                        );
                    }
                    format!(
                        "Apply failed with {} conflicts: {}",
                        many.len(),
                        lines.join("\n")
                    )
                }
            };
            let mut error = ApiError::new(409, "Conflict", message);
            let causes: Vec<Value> = conflicts
                .iter()
                .map(|c| {
                    json!({
                        "reason": "FieldManagerConflict",
                        "message": format!("conflict with {}", c.manager),
                        "field": c.field,
                    })
                })
                .collect();
            error.details.insert("causes".into(), Value::Array(causes));
            error
        }
    }
}
