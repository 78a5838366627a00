//! The flag `--with`: objects that the clusters have and the repository does not.

use crate::embedded::World;
use crate::error::Error;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use driftless_manifest::yaml::{self, Dialect, Limits};
use driftless_manifest::{InvalidObject, Object, ObjectId};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The kinds that `--with` accepts.
const KINDS: [(&str, &str); 3] = [
    ("v1", "ConfigMap"),
    ("v1", "Secret"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
];
/// The namespace of objects without one.
const NAMESPACE: &str = "flux-system";

/// The objects of the files, and the clusters that already have them.
#[derive(Clone, Default)]
pub struct GivenObjects {
    objects: Vec<Object>,
    /// The objects of single hubs.
    of_hubs: BTreeMap<String, Vec<Object>>,
    has: BTreeSet<String>,
}

impl GivenObjects {
    /// Reads files, and the manifests of directories.
    ///
    /// # Errors
    /// A file cannot be read, or has an object of another kind.
    pub fn read(paths: &[PathBuf]) -> Result<Self, Error> {
        let mut objects = Vec::new();
        for path in paths {
            for file in manifests(path)? {
                let tried = || format!("--with: {}", file.display());
                let text = std::fs::read(&file)
                    .map_err(|error| Error::caused_by(error).context(tried()))?;
                let name = file.display().to_string();
                let documents = yaml::documents(&text, &name, Dialect::V2, &Limits::default());
                for document in
                    documents.map_err(|error| Error::caused_by(error).context("--with"))?
                {
                    take(document, &mut objects)
                        .map_err(|error| Error::caused_by(error).context(tried()))?;
                }
            }
        }
        Ok(Self {
            objects,
            ..Self::default()
        })
    }

    /// Creates a set of ConfigMaps and Secrets, each of one hub.
    ///
    /// # Errors
    /// An object is of another kind.
    pub fn of_hubs(objects: Vec<(String, Object)>) -> Result<Self, Error> {
        let mut of_hubs: BTreeMap<String, Vec<Object>> = BTreeMap::new();
        for (hub, object) in objects {
            let taken = of_hubs.entry(hub).or_default();
            take(object.into_value(), taken).map_err(Error::caused_by)?;
        }
        Ok(Self {
            of_hubs,
            ..Self::default()
        })
    }

    /// Returns the values of the Secrets, decoded, with the names of their entries.
    pub fn secret_values(&self) -> Vec<(String, String)> {
        let all = self.objects.iter().chain(self.of_hubs.values().flatten());
        let secrets = all.filter(|one| one.kind() == "Secret");
        secrets.flat_map(values_of_secret).collect()
    }

    /// Applies the objects to every cluster that does not have them yet: definitions everywhere,
    /// the others on hubs.
    ///
    /// # Errors
    /// A server refuses a request.
    pub async fn apply(&mut self, world: &World) -> Result<(), Error> {
        if self.objects.is_empty() && self.of_hubs.is_empty() {
            return Ok(());
        }
        let hubs = world.hubs.iter().map(|hub| (hub.name.clone(), true));
        let remotes = world.remotes().into_iter().map(|one| (one.name, false));
        for (cluster, is_hub) in hubs.chain(remotes).collect::<Vec<_>>() {
            if !self.has.insert(cluster.clone()) {
                continue;
            }
            let own = self.of_hubs.get(&cluster).filter(|_| is_hub);
            for object in self.objects.iter().chain(own.into_iter().flatten()) {
                let namespace = object.namespace();
                if namespace.is_empty() {
                    world.give(&cluster, object).await?;
                } else if is_hub {
                    world.ensure_namespace(&cluster, namespace).await?;
                    world.give(&cluster, object).await?;
                }
            }
        }
        Ok(())
    }
}

fn values_of_secret(secret: &Object) -> Vec<(String, String)> {
    let entries = |field: &str| {
        let entries = secret.as_map().get(field).and_then(Value::as_object);
        entries.cloned().unwrap_or_default()
    };
    let text = |(key, value): (String, Value)| Some((key, value.as_str()?.to_owned()));
    let decoded = |(key, value): (String, String)| {
        let bytes = STANDARD.decode(value.trim()).ok()?;
        Some((key, String::from_utf8_lossy(&bytes).into_owned()))
    };
    let data = entries("data").into_iter().filter_map(text);
    let data = data.filter_map(decoded);
    let plain = entries("stringData").into_iter().filter_map(text);
    data.chain(plain).collect()
}

/// Returns the file, or every manifest in the directory and its subdirectories.
fn manifests(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |error| Error::usage(format!("--with: {}: {error}", path.display()));
    if !path.metadata().map_err(failed)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in path.read_dir().map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_manifest = path
            .extension()
            .is_some_and(|end| end == "yaml" || end == "yml");
        if is_manifest || path.is_dir() {
            files.extend(manifests(&path)?);
        }
    }
    files.sort();
    Ok(files)
}

/// The reason that a document is not given to clusters.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error(transparent)]
    Invalid(#[from] InvalidObject),
    #[error("{0} is not a ConfigMap, Secret or CustomResourceDefinition")]
    Kind(ObjectId),
    #[error("{0} is encrypted: give it decrypted")]
    Encrypted(ObjectId),
}

fn take(document: Value, objects: &mut Vec<Object>) -> Result<(), Refused> {
    if let Some(items) = document.get("items").and_then(Value::as_array) {
        return items
            .iter()
            .try_for_each(|item| take(item.clone(), objects));
    }
    let object = Object::new(document)?;
    let id = object.id();
    let kind = KINDS
        .into_iter()
        .find(|kind| *kind == (object.api_version(), object.kind()));
    let Some((_, kind)) = kind else {
        return Err(Refused::Kind(id));
    };
    if object.as_map().contains_key("sops") {
        return Err(Refused::Encrypted(id));
    }
    objects.push(without_cluster_fields(
        object,
        kind != "CustomResourceDefinition",
    )?);
    Ok(())
}

/// Removes the fields that a cluster sets.
fn without_cluster_fields(object: Object, namespaced: bool) -> Result<Object, InvalidObject> {
    let namespace = match object.namespace() {
        "" => NAMESPACE,
        namespace => namespace,
    };
    let mut metadata = Map::from_iter([("name".to_owned(), json!(object.name()))]);
    if namespaced {
        metadata.insert("namespace".to_owned(), json!(namespace));
    }
    for field in ["labels", "annotations"] {
        if let Some(value) = object.pointer(&format!("/metadata/{field}")) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    let mut object = object.into_value();
    if let Value::Object(map) = &mut object {
        map.insert("metadata".to_owned(), Value::Object(metadata));
        map.remove("status");
    }
    Object::new(object)
}
