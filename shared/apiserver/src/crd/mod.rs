//! Custom resources: what their definitions say.

mod check;
mod rules;
mod types;

use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) use types::object_meta;

use serde_json::{Value, json};

use crate::codec::{self, Found};
use crate::error::Problem;
use crate::merge::managers::{self, Writer};
use crate::registry::{Resource, join, texts};
use crate::server::{Call, Server};
use crate::write::{set, take, text};

/// A definition, as its resources need it.
#[derive(Clone, Debug)]
pub struct Custom {
    /// The definition's names.
    pub names: Value,
    /// The kind of lists.
    pub list_kind: String,
    /// Paths that field selectors may name.
    pub selectable: Vec<String>,
    versions: Vec<Value>,
    group: String,
}

const VERBS: [&str; 8] = [
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];

impl Custom {
    fn version(&self, name: &str) -> Option<&Value> {
        self.versions.iter().find(|version| version["name"] == name)
    }

    fn schema(&self, version: &str) -> &Value {
        static NONE: Value = Value::Null;
        self.version(version)
            .and_then(|v| v.pointer("/schema/openAPIV3Schema"))
            .unwrap_or(&NONE)
    }

    /// `group/version` of the version that is stored.
    pub(crate) fn storage_version(&self) -> String {
        let stored = self.versions.iter().find(|v| v["storage"] == true);
        join(&self.group, stored.map_or("", |v| text(v, "/name")))
    }

    /// The printer columns of a version.
    pub(crate) fn columns(&self, version: &str) -> Vec<&Value> {
        self.version(version)
            .and_then(|v| v["additionalPrinterColumns"].as_array())
            .into_iter()
            .flatten()
            .collect()
    }

    /// The scale subresource of a version.
    pub(crate) fn scale(&self, version: &str) -> Option<&Value> {
        self.version(version)?.pointer("/subresources/scale")
    }

    /// The warning that use of a version brings.
    pub(crate) fn deprecation(&self, version: &str) -> Option<String> {
        let found = self.version(version).filter(|v| v["deprecated"] == true)?;
        Some(found["deprecationWarning"].as_str().map_or_else(
            || {
                format!(
                    "{}/{version} {} is deprecated",
                    self.group,
                    text(&self.names, "/kind")
                )
            },
            str::to_owned,
        ))
    }

    /// Reads a document: metadata by its types, the rest pruned and defaulted.
    pub(crate) fn read(
        &self,
        resource: &Resource,
        document: &Value,
        found: &mut Found,
    ) -> Result<Value, String> {
        let mut object = document.clone();
        let metadata = resource
            .schema
            .structure(resource.id)
            .and_then(|root| root.fields.get("metadata"))
            .map(|field| field.id);
        if let (Some(id), Some(own)) = (metadata, object.get("metadata")) {
            let mut inner = Found::default();
            let read = codec::read(&resource.schema, id, own, &mut inner)?;
            found
                .unknown
                .extend(inner.unknown.iter().map(|path| format!("metadata.{path}")));
            object["metadata"] = read;
        }
        let schema = self.schema(&resource.version);
        if let Some(map) = object.as_object_mut() {
            types::prune_root(schema, map, &mut found.unknown);
        }
        found.unknown.sort();
        types::default(schema, &mut object, found.merged);
        Ok(object)
    }

    /// Defaults of a version that the stored object may lack.
    pub(crate) fn default_version(&self, version: &str, object: &mut Value) {
        let schema = self.schema(version);
        if let Some(map) = object.as_object_mut() {
            types::prune_root(schema, map, &mut Vec::new());
        }
        types::default(schema, object, false);
    }

    /// The schema of a version, as it was written.
    pub(crate) fn openapi(&self, version: &str) -> &Value {
        self.schema(version)
    }

    /// What the schema refuses.
    pub(crate) fn problems(
        &self,
        version: &str,
        object: &Value,
        old: Option<&Value>,
    ) -> Vec<Problem> {
        let schema = self.schema(version);
        let mut out = Vec::new();
        check::root(schema, object, &mut out);
        if out.is_empty() {
            rules::root(schema, object, old, &mut out);
        }
        out
    }
}

/// Removes nulls from maps: apply takes them as absent.
pub(crate) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// The resources of a definition, one a served version.
fn resources(definition: &Value) -> Vec<Resource> {
    let spec = &definition["spec"];
    let group = text(spec, "/group").to_owned();
    let versions = spec["versions"].as_array().cloned().unwrap_or_default();
    let selectable = versions
        .iter()
        .flat_map(|v| {
            v["selectableFields"]
                .as_array()
                .cloned()
                .unwrap_or_default()
        })
        .map(|field| text(&field, "/jsonPath").trim_start_matches('.').to_owned())
        .collect();
    let names = spec["names"].clone();
    let custom = Arc::new(Custom {
        list_kind: text(&names, "/listKind").to_owned(),
        selectable,
        versions: versions.clone(),
        group: group.clone(),
        names: names.clone(),
    });
    versions
        .iter()
        .filter(|version| version["served"] == true)
        .map(|version| {
            let name = text(version, "/name").to_owned();
            let kind = text(&names, "/kind").to_owned();
            let (schema, id) = types::convert(
                &version["schema"]["openAPIV3Schema"],
                version.pointer("/subresources/status").is_some(),
            );
            let mut subresources = BTreeMap::new();
            let verbs = || vec!["get".to_owned(), "patch".to_owned(), "update".to_owned()];
            for sub in ["status", "scale"] {
                if version["subresources"].get(sub).is_some() {
                    subresources.insert(sub.to_owned(), verbs());
                }
            }
            Resource {
                api_version: join(&group, &name),
                group: group.clone(),
                version: name,
                plural: text(&names, "/plural").to_owned(),
                kind,
                namespaced: spec["scope"] == "Namespaced",
                verbs: VERBS.map(str::to_owned).to_vec(),
                subresources,
                schema: Arc::new(schema),
                id,
                custom: Some(Arc::clone(&custom)),
            }
        })
        .collect()
}

/// Serves what a definition says, in place of what it said before.
pub(crate) fn register(server: &mut Server, definition: &Value) {
    unregister(server, definition);
    for resource in resources(definition) {
        let key = (resource.api_version(), resource.plural.clone());
        server.custom.insert(key, Arc::new(resource));
    }
}

fn unregister(server: &mut Server, definition: &Value) {
    let group = text(definition, "/spec/group").to_owned();
    let plural = text(definition, "/spec/names/plural").to_owned();
    server
        .custom
        .retain(|_, resource| resource.group != group || resource.plural != plural);
}

/// A deleted definition takes its objects along.
pub(crate) fn forget(server: &mut Server, definition: &Value) {
    unregister(server, definition);
    let key = (
        text(definition, "/spec/group").to_owned(),
        text(definition, "/spec/names/plural").to_owned(),
    );
    let names: Vec<_> = server
        .store
        .list(&key, "", None)
        .map(|(name, _)| name.clone())
        .collect();
    for name in names {
        server.store.delete(&key, &name);
    }
}

impl Server {
    /// What the control plane does after a write: definitions are established.
    pub(crate) fn after_write(&mut self, resource: &Resource, stored: &Value, call: &Call<'_>) {
        if !resource.is("apiextensions.k8s.io", "customresourcedefinitions") {
            return;
        }
        register(self, stored);
        let mut new = stored.clone();
        let stamp = call.moment.stamp();
        establish(&mut new, &stamp);
        if new == *stored {
            return;
        }
        let known = managers::decode(stored["metadata"].get("managedFields")).unwrap_or_default();
        let mut old = stored.clone();
        take(&mut old, &["metadata", "managedFields"]);
        take(&mut new, &["metadata", "managedFields"]);
        let writer = Writer {
            name: "kube-apiserver",
            api_version: resource.api_version_ref(),
            subresource: "status",
            now: &stamp,
        };
        let known = managers::update(
            &self.versions(resource, "status"),
            &old,
            &new,
            known,
            &writer,
        );
        set(
            &mut new,
            "metadata",
            "managedFields",
            managers::encode(known),
        );
        let name = text(stored, "/metadata/name").to_owned();
        self.store.put(&resource.key(), &(String::new(), name), new);
    }
}

fn establish(definition: &mut Value, stamp: &str) {
    let mut names = definition["spec"]["names"].clone();
    if let Some(map) = names.as_object_mut() {
        map.retain(|_, value| !value.is_null());
    }
    definition["status"]["acceptedNames"] = names;
    let mut stored = texts(&definition["status"]["storedVersions"]);
    for version in definition["spec"]["versions"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let name = text(version, "/name").to_owned();
        if version["storage"] == true && !stored.contains(&name) {
            stored.push(name);
        }
    }
    definition["status"]["storedVersions"] = json!(stored);
    let has = definition["status"]["conditions"]
        .as_array()
        .is_some_and(|list| !list.is_empty());
    if !has {
        let condition = |kind: &str, reason: &str, message: &str| {
            json!({
                "type": kind, "status": "True", "reason": reason, "message": message,
                "lastTransitionTime": stamp,
            })
        };
        let conditions = json!([
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition(
                "Established",
                "InitialNamesAccepted",
                "the initial names have been accepted"
            ),
        ]);
        definition["status"]["conditions"] = conditions;
    }
}
