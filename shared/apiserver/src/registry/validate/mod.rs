//! Validation of built-in objects: names, labels, required fields, immutable fields.

mod kinds;

use serde_json::Value;

use crate::error::FieldError;
use crate::objects::crd;
use crate::resources::Resource;
use crate::values::{is_zero, text};
use driftless_manifest::names;

/// Returns the rule of a resource's names.
fn name_rule(resource: &Resource) -> fn(&str) -> Vec<String> {
    if resource.custom.is_some() {
        return names::subdomain;
    }
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "namespaces") => names::label,
        ("", "services") => names::label,
        ("rbac.authorization.k8s.io", _) => names::path_segment,
        _ => names::subdomain,
    }
}

/// Returns the errors of a new object's metadata.
pub(crate) fn metadata(resource: &Resource, object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let name = text(object, "/metadata/name");
    let check = name_rule(resource);
    let generate = text(object, "/metadata/generateName");
    if !generate.is_empty() {
        let probe = generate.trim_end_matches('-').to_owned();
        for detail in check(if probe.is_empty() { generate } else { &probe }) {
            out.push(FieldError::invalid(
                "metadata.generateName",
                &generate.into(),
                &detail,
            ));
        }
    }
    if name.is_empty() {
        out.push(FieldError::required(
            "metadata.name",
            "name or generateName is required",
        ));
    } else {
        for detail in check(name) {
            out.push(FieldError::invalid("metadata.name", &name.into(), &detail));
        }
    }
    common(resource, object, &mut out);
    out
}

fn common(resource: &Resource, object: &Value, out: &mut Vec<FieldError>) {
    let metadata = &object["metadata"];
    for (key, value) in metadata["labels"].as_object().into_iter().flatten() {
        for detail in names::label_key(key) {
            out.push(FieldError::invalid(
                "metadata.labels",
                &key.as_str().into(),
                &detail,
            ));
        }
        let value = value.as_str().unwrap_or_default();
        for detail in names::label_value(value) {
            out.push(FieldError::invalid(
                "metadata.labels",
                &value.into(),
                &detail,
            ));
        }
    }
    let mut size = 0;
    for (key, value) in metadata["annotations"].as_object().into_iter().flatten() {
        size += key.len() + value.as_str().map_or(0, str::len);
        for detail in names::label_key(&key.to_lowercase()) {
            out.push(FieldError::invalid(
                "metadata.annotations",
                &key.as_str().into(),
                &detail,
            ));
        }
    }
    if size > 256 * 1024 {
        out.push(FieldError::too_long("metadata.annotations", 256 * 1024));
    }
    owners(metadata, out);
    // Only built-in kinds are limited to standard names without a prefix.
    let knows_names = resource.custom.is_none()
        && !matches!(
            resource.group.as_str(),
            "apiextensions.k8s.io" | "apiregistration.k8s.io"
        );
    let finalizers = metadata["finalizers"].as_array().into_iter().flatten();
    for (index, finalizer) in finalizers.enumerate() {
        let finalizer = finalizer.as_str().unwrap_or_default();
        let problems = names::label_key(finalizer);
        for detail in &problems {
            out.push(FieldError::invalid(
                "metadata.finalizers",
                &finalizer.into(),
                detail,
            ));
        }
        if problems.is_empty()
            && knows_names
            && !finalizer.contains('/')
            && !matches!(finalizer, "orphan" | "foregroundDeletion" | "kubernetes")
        {
            out.push(FieldError::invalid(
                &format!("metadata.finalizers[{index}]"),
                &finalizer.into(),
                "name is neither a standard finalizer name nor is it fully qualified",
            ));
        }
    }
}

fn owners(metadata: &Value, out: &mut Vec<FieldError>) {
    let mut controllers = Vec::new();
    let at = "metadata.ownerReferences";
    for owner in metadata["ownerReferences"].as_array().into_iter().flatten() {
        for (key, detail) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if is_zero(&owner[key]) {
                out.push(FieldError::invalid(
                    &format!("{at}.{key}"),
                    &"".into(),
                    detail,
                ));
            }
        }
        if owner["controller"] == true {
            controllers.push(format!("{}/{}", text(owner, "/kind"), text(owner, "/name")));
        }
    }
    if controllers.len() > 1 {
        out.push(FieldError::invalid_raw(
            "metadata.ownerReferences",
            &in_order(&metadata["ownerReferences"]),
            &format!(
                "Only one reference can have Controller set to true. Found \"true\" in references for {} and {}",
                controllers[0], controllers[1]
            ),
        ));
    }
}

/// Formats owner references as Go does.
fn in_order(list: &Value) -> String {
    const KEYS: [&str; 6] = [
        "apiVersion",
        "kind",
        "name",
        "uid",
        "controller",
        "blockOwnerDeletion",
    ];
    let each: Vec<String> = list
        .as_array()
        .into_iter()
        .flatten()
        .map(|owner| {
            let fields: Vec<String> = KEYS
                .iter()
                .filter_map(|key| Some(format!("{key:?}:{}", owner.get(*key)?)))
                .collect();
            format!("{{{}}}", fields.join(","))
        })
        .collect();
    format!("[{}]", each.join(","))
}

/// Returns the errors of a changed object's metadata.
pub(crate) fn metadata_update(resource: &Resource, live: &Value, new: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    common(resource, new, &mut out);
    let (old, uid) = (text(live, "/metadata/uid"), text(new, "/metadata/uid"));
    if !uid.is_empty() && uid != old {
        // The real server reports it two times: for the store, and for the object.
        out.push(FieldError::invalid(
            "metadata.uid",
            &uid.into(),
            "field is immutable",
        ));
        out.push(FieldError::invalid(
            "metadata.uid",
            &uid.into(),
            "field is immutable",
        ));
    }
    if live["metadata"].get("deletionTimestamp").is_some() {
        let old = crate::values::texts(&live["metadata"]["finalizers"]);
        let added: Vec<String> = crate::values::texts(&new["metadata"]["finalizers"])
            .into_iter()
            .filter(|finalizer| !old.contains(finalizer))
            .collect();
        if !added.is_empty() {
            let list: Vec<String> = added.iter().map(|f| format!("{f:?}")).collect();
            let problem = FieldError::forbidden(
                "metadata.finalizers",
                &format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                    list.join(", ")
                ),
            );
            out.push(problem.clone());
            if resource.custom.is_none() {
                out.push(problem);
            }
        }
    }
    out
}

/// Returns the errors of a new object by the rules of its kind.
pub(crate) fn create(resource: &Resource, object: &Value) -> Vec<FieldError> {
    if let Some(custom) = &resource.custom {
        return crd::problems(custom, &resource.version, object, None);
    }
    kinds::create(resource, object)
}

/// Returns the errors of a changed object by the rules of its kind.
pub(crate) fn update(
    resource: &Resource,
    subresource: &str,
    live: &Value,
    new: &Value,
) -> Vec<FieldError> {
    if let Some(custom) = &resource.custom {
        return crd::problems(custom, &resource.version, new, Some(live));
    }
    if resource.is("", "namespaces")
        && subresource == "status"
        && new["status"]["phase"] != "Active"
        && new["metadata"].get("deletionTimestamp").is_none()
    {
        return vec![FieldError::invalid(
            "status.Phase",
            &new["status"]["phase"],
            "may only be 'Active' if `deletionTimestamp` is empty",
        )];
    }
    if !subresource.is_empty() {
        return Vec::new();
    }
    let mut out = kinds::create(resource, new);
    out.extend(kinds::update(resource, live, new));
    out
}
