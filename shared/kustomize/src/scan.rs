//! The kustomization that `kustomize create --autodetect --recursive` would write for a directory,
//! as Flux creates it.

use crate::budget::Budget;
use crate::error::{Error, ErrorKind, InFile as _};
use crate::kustomization;
use crate::loader::kustomization_file;
use crate::node;
use crate::options::Limits;
use crate::remote::REMOTE_DIRECTORY;
use crate::resource;
use driftless_fuel::Span;
use driftless_manifest::yaml::{self, YamlError};
use driftless_manifest::{Kind, Reader, TreePath};
use serde_json::{Map, Value, json};

/// See [`crate::kustomization_of`].
pub(crate) fn kustomization_of(
    reader: &Reader<'_>,
    dir: &TreePath,
    limits: &Limits,
) -> Result<Value, Error> {
    let budget = Budget::new(limits.clone());
    if let Some(name) = kustomization_file(reader, dir)? {
        let path = join(dir, name)?;
        let text = text(reader, &path)?;
        let mut fields =
            kustomization::to_document(&text, path.as_str(), &budget).in_file(&path)?;
        with_kind(&mut fields);
        let resources = fields.get("resources").and_then(Value::as_array);
        if resources.is_none_or(Vec::is_empty) {
            fields.insert("buildMetadata".to_owned(), json!(["originAnnotations"]));
        }
        return Ok(Value::Object(fields));
    }
    let mut found = Vec::new();
    scan(reader, dir, dir, &budget, &mut found)?;
    let mut fields = Map::new();
    with_kind(&mut fields);
    if found.is_empty() {
        fields.insert("namespace".to_owned(), json!("_placeholder"));
    } else {
        fields.insert("resources".to_owned(), found.into());
    }
    Ok(Value::Object(fields))
}

/// Implements [`crate::is_resource_file`] on the stack of the caller.
pub(crate) fn is_resource_file(text: &str) -> bool {
    let budget = Budget::new(Limits::default());
    match resource::parse(text, "file", &budget) {
        Ok(_) => true,
        // A key that is duplicate, or not a string, is an error of the build, which names its line.
        Err(error) => {
            matches!(error.kind, ErrorKind::Yaml(_))
                && budget.reading(|fuel| node::has_only_named_objects(text, fuel))
        }
    }
}

fn with_kind(fields: &mut Map<String, Value>) {
    fields
        .entry("apiVersion")
        .or_insert_with(|| json!("kustomize.config.k8s.io/v1beta1"));
    fields
        .entry("kind")
        .or_insert_with(|| json!("Kustomization"));
}

fn join(dir: &TreePath, name: &str) -> Result<TreePath, Error> {
    Ok(dir
        .join(name)
        .map_err(driftless_manifest::ReadError::from)?)
}

fn text(reader: &Reader<'_>, path: &TreePath) -> Result<String, Error> {
    let bytes = reader.read(path)?;
    String::from_utf8(bytes.to_vec()).map_err(|_| {
        let place = Span::new(path.as_str(), 1, 1);
        YamlError::new(yaml::YamlErrorKind::NotUtf8, place).into()
    })
}

/// Walks a directory in the order of Go's `filepath.Walk`: names sorted, each directory entered in
/// its place.
fn scan(
    reader: &Reader<'_>,
    base: &TreePath,
    dir: &TreePath,
    budget: &Budget,
    found: &mut Vec<String>,
) -> Result<(), Error> {
    for (name, kind) in reader.list(dir)? {
        let path = join(dir, &name)?;
        // Go's walk does not follow links to directories.
        let linked = reader.real_path(&path)?.is_some_and(|real| real != path);
        match kind {
            Kind::Dir if linked => {}
            // Files that were fetched for an earlier attempt do not belong to the directory.
            Kind::Dir if path.as_str() == REMOTE_DIRECTORY => {}
            Kind::Dir if kustomization_file(reader, &path)?.is_some() => {
                found.push(relative(base, &path))
            }
            Kind::Dir => scan(reader, base, &path, budget, found)?,
            Kind::File if name.ends_with(".yaml") || name.ends_with(".yml") => {
                let text = text(reader, &path)?;
                budget.spend_bytes(text.len()).in_file(&path)?;
                resource::parse(&text, path.as_str(), budget).in_file(&path)?;
                found.push(relative(base, &path));
            }
            Kind::File => {}
        }
    }
    Ok(())
}

fn relative(base: &TreePath, path: &TreePath) -> String {
    let rest = path
        .as_str()
        .strip_prefix(base.as_str())
        .unwrap_or(path.as_str());
    format!("./{}", rest.trim_start_matches('/'))
}
