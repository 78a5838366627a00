//! Delete, and what it leaves: finalizers, terminating objects.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::codec::is_zero;
use crate::error::{ApiError, Problem};
use crate::registry::Resource;
use crate::request::Response;
use crate::selector::Selector;
use crate::server::{Call, Server};
use crate::store::Name;
use crate::table::Form;
use crate::write::{set, text};

/// What a delete asks for.
#[derive(Clone, Debug, Default)]
struct DeleteOptions {
    dry_run: bool,
    uid: Option<String>,
    version: Option<String>,
    /// `Foreground`, `Background`, `Orphan`, or empty.
    propagation: String,
    grace: Option<i64>,
}

fn read_options(call: &Call<'_>) -> Result<DeleteOptions, ApiError> {
    let body: Value = if call.request.body.is_empty() {
        Value::Null
    } else {
        serde_json::from_slice(&call.request.body).map_err(|error| {
            ApiError::bad_request(format!("error decoding delete options: {error}"))
        })?
    };
    let query = &call.query;
    let or = |key: &str| {
        body.get(key)
            .and_then(Value::as_str)
            .map_or_else(|| query.get(key).to_owned(), str::to_owned)
    };
    let mut dry: Vec<String> = crate::registry::texts(&body["dryRun"]);
    dry.extend(query.all("dryRun").map(str::to_owned));
    let mut problems = Vec::new();
    if let Some(other) = dry.iter().find(|value| *value != "All") {
        problems.push(Problem::unsupported("dryRun", &json!([other]), &["All"]));
    }
    let mut propagation = or("propagationPolicy");
    if !matches!(
        propagation.as_str(),
        "" | "Foreground" | "Background" | "Orphan"
    ) {
        problems.push(Problem::unsupported(
            "propagationPolicy",
            &propagation.as_str().into(),
            &["Foreground", "Background", "Orphan", "nil"],
        ));
    }
    if propagation.is_empty() && body["orphanDependents"] == true {
        propagation = "Orphan".to_owned();
    }
    if !problems.is_empty() {
        return Err(ApiError::invalid(
            "meta.k8s.io",
            "DeleteOptions",
            "",
            &problems,
        ));
    }
    let precondition = |key: &str| {
        body["preconditions"]
            .get(key)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let grace = body["gracePeriodSeconds"]
        .as_i64()
        .or_else(|| query.get("gracePeriodSeconds").parse().ok());
    Ok(DeleteOptions {
        dry_run: !dry.is_empty(),
        uid: precondition("uid"),
        version: precondition("resourceVersion"),
        propagation,
        grace,
    })
}

fn check_preconditions(
    resource: &Resource,
    name: &str,
    live: &Value,
    options: &DeleteOptions,
) -> Result<(), ApiError> {
    let refused = |why: String| {
        let of = if resource.group.is_empty() {
            resource.kind.clone()
        } else {
            format!("{}.{}", resource.kind, resource.group)
        };
        let message = format!("Operation cannot be fulfilled on {of} {name:?}: {why}");
        let mut error = ApiError::new(409, "Conflict", message);
        error.details.insert("name".into(), name.into());
        if !resource.group.is_empty() {
            error
                .details
                .insert("group".into(), resource.group.clone().into());
        }
        error
            .details
            .insert("kind".into(), resource.kind.clone().into());
        error
    };
    let uid = text(live, "/metadata/uid");
    if let Some(wanted) = options.uid.as_deref().filter(|wanted| *wanted != uid) {
        return Err(refused(format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
        )));
    }
    let version = text(live, "/metadata/resourceVersion");
    if let Some(wanted) = options
        .version
        .as_deref()
        .filter(|wanted| *wanted != version)
    {
        return Err(refused(format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({version}). The object might have been modified"
        )));
    }
    Ok(())
}

/// Kinds whose deletion answers with the object instead of a Status.
fn answers_object(resource: &Resource) -> bool {
    matches!(
        (resource.group.as_str(), resource.plural.as_str()),
        (
            "",
            "pods"
                | "services"
                | "serviceaccounts"
                | "persistentvolumeclaims"
                | "persistentvolumes"
                | "podtemplates"
                | "replicationcontrollers"
                | "resourcequotas"
        ) | (
            "storage.k8s.io",
            "storageclasses" | "volumeattachments" | "csidrivers" | "csinodes"
        ) | ("policy", "podsecuritypolicies")
    ) && resource.custom.is_none()
}

/// What came of a deletion.
enum Outcome {
    Gone(Arc<Value>),
    Kept(Value),
}

impl Server {
    pub(crate) fn delete(&mut self, call: &mut Call<'_>) -> Result<Response, ApiError> {
        let options = read_options(call)?;
        let resource = Arc::clone(&call.target.resource);
        let key = call.target.key();
        let name = call.target.name.clone();
        let live = self
            .store
            .get(&resource.key(), &key)
            .cloned()
            .ok_or_else(|| ApiError::not_found(&resource, &name))?;
        if resource.is("", "namespaces") && crate::admission::IMMORTAL.contains(&name.as_str()) {
            return Err(ApiError::forbidden(
                &resource,
                &name,
                "this namespace may not be deleted",
            ));
        }
        check_preconditions(&resource, &name, &live, &options)?;
        let outcome = self.delete_one(&resource, &key, &live, &options, call)?;
        let form = Form::of(call);
        match outcome {
            Outcome::Kept(object) => {
                form.object(&resource, 200, crate::read::in_version(&resource, &object))
            }
            Outcome::Gone(last) if answers_object(&resource) => {
                form.object(&resource, 200, crate::read::in_version(&resource, &last))
            }
            Outcome::Gone(last) => {
                let mut details =
                    json!({"name": name, "kind": resource.plural, "uid": last["metadata"]["uid"]});
                if !resource.group.is_empty() {
                    details["group"] = resource.group.clone().into();
                }
                Ok(Response::json(
                    200,
                    json!({
                        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
                    }),
                ))
            }
        }
    }

    fn delete_one(
        &mut self,
        resource: &Resource,
        key: &Name,
        live: &Value,
        options: &DeleteOptions,
        call: &mut Call<'_>,
    ) -> Result<Outcome, ApiError> {
        let mut object = live.clone();
        let already = object["metadata"].get("deletionTimestamp").is_some();
        let mut finalizers: Vec<Value> = object["metadata"]["finalizers"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let policy = match options.propagation.as_str() {
            "Foreground" => Some("foregroundDeletion"),
            "Orphan" => Some("orphan"),
            _ => None,
        };
        if !options.propagation.is_empty() {
            finalizers.retain(|f| f != "foregroundDeletion" && f != "orphan");
            finalizers.extend(policy.map(Value::from));
        }
        let held = !finalizers.is_empty() || crate::strategy::holds_finalizers(resource, &object);
        if !held {
            if options.dry_run {
                return Ok(Outcome::Gone(Arc::new(object)));
            }
            if object["metadata"].get("finalizers").is_some() && policy.is_none() && !already {
                set(&mut object, "metadata", "finalizers", None);
            }
            self.remove(resource, key);
            if resource.is("", "pods") {
                object["metadata"]["deletionTimestamp"] = call.moment.stamp().into();
                object["metadata"]["deletionGracePeriodSeconds"] = 0.into();
                let generation = object["metadata"]["generation"]
                    .as_i64()
                    .unwrap_or_default();
                object["metadata"]["generation"] = (generation + 1).into();
            }
            if answers_object(resource) {
                object["metadata"]["resourceVersion"] = self.store.version().to_string().into();
            }
            return Ok(Outcome::Gone(Arc::new(object)));
        }
        if !finalizers.is_empty() {
            set(
                &mut object,
                "metadata",
                "finalizers",
                Some(Value::Array(finalizers)),
            );
        }
        if !already {
            object["metadata"]["deletionTimestamp"] = call.moment.stamp().into();
            if !resource.is("", "namespaces") {
                object["metadata"]["deletionGracePeriodSeconds"] =
                    options.grace.unwrap_or(0).min(0).into();
            }
            if let Some(generation) = object["metadata"]["generation"].as_i64() {
                object["metadata"]["generation"] = (generation + 1).into();
            }
            if resource.is("", "namespaces") {
                object["status"]["phase"] = "Terminating".into();
            }
        }
        if options.dry_run || object == *live {
            return Ok(Outcome::Kept(object));
        }
        let stored = self.store.put(&resource.key(), key, object);
        Ok(Outcome::Kept(Value::clone(&stored)))
    }

    /// Takes an object out; a definition takes its objects along.
    pub(crate) fn remove(&mut self, resource: &Resource, key: &Name) -> Option<Arc<Value>> {
        let last = self.store.delete(&resource.key(), key)?;
        if resource.is("apiextensions.k8s.io", "customresourcedefinitions") {
            crate::crd::forget(self, &last);
        }
        Some(last)
    }

    pub(crate) fn delete_collection(&mut self, call: &mut Call<'_>) -> Result<Response, ApiError> {
        let options = read_options(call)?;
        let resource = Arc::clone(&call.target.resource);
        let query = &call.query;
        let selector = Selector::parse(query.get("labelSelector"), query.get("fieldSelector"))?
            .of(&resource, "")?;
        let namespace = call.target.namespace.clone();
        let chosen: Vec<(Name, Arc<Value>)> = self
            .store
            .list(&resource.key(), &namespace, None)
            .filter(|(_, object)| selector.matches(object))
            .map(|(name, object)| (name.clone(), Arc::clone(object)))
            .collect();
        let at = self.store.version();
        let mut items = Vec::new();
        for (name, live) in chosen {
            let object = match self.delete_one(&resource, &name, &live, &options, call)? {
                Outcome::Gone(_) => Value::clone(&live),
                Outcome::Kept(object) => object,
            };
            items.push(crate::read::in_version(&resource, &object));
        }
        for object in &items {
            debug_assert!(!is_zero(&object["metadata"]["name"]));
        }
        Form::of(call).list(&resource, json!({"resourceVersion": at.to_string()}), items)
    }
}
