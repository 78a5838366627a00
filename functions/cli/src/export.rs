//! `driftless export`: objects as they would be in Git, as `flux export` prints them.

use crate::error::{EXIT_CODES, Error};
use crate::hub::{self, Scope};
use crate::kinds::{KindCommand, KindName, Verb, examples};
use crate::output;
use crate::ready::text;
use driftless_flux::FluxKind;
use driftless_kernel::hub::Hub;
use driftless_kernel::ports::ListRequest;
use driftless_manifest::{Gvk, Object};
use serde_json::{Map, Value, json};

const EXAMPLES: &str = "Examples:
  driftless export kustomization apps -n team-a >apps.yaml
  driftless export helmrelease --all -n team-a
  driftless export source git flux-system --with-credentials";

/// Print objects as YAML for a repository
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    #[command(subcommand)]
    command: KindCommand<Which>,
    #[command(flatten)]
    scope: Scope,
}

#[derive(clap::Args)]
struct Which {
    /// The object's name
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    name: Option<String>,
    /// All objects of the kind in the namespace
    #[arg(long)]
    all: bool,
    /// Also print the Secret of a source, with its content
    #[arg(long)]
    with_credentials: bool,
}

impl Verb for Which {
    fn help(name: &KindName) -> String {
        examples(&[
            format!("export {name} {}", name.example),
            format!("export {name} --all"),
        ])
    }
}

/// Reads and prints the objects.
///
/// # Errors
/// An object or its Secret does not exist.
pub async fn run(args: Args) -> Result<(), Error> {
    let KindCommand { kind, args: which } = args.command;
    if which.with_credentials && !has_credentials(kind) {
        return Err(Error::usage(format!(
            "--with-credentials: a {kind} names no Secret with credentials"
        ))
        .next("leave --with-credentials out"));
    }
    let hub = args.scope.connection.connect().await?;
    let namespace = &args.scope.namespace;
    let objects = match &which.name {
        Some(name) => vec![hub::object(&hub, kind, namespace, name).await?],
        None => all(&hub, kind, namespace).await?,
    };
    // Read everything first: a missing Secret leaves no half of a file.
    let mut documents = Vec::new();
    let mut exported = std::collections::BTreeSet::new();
    for object in &objects {
        documents.push(as_written(object));
        let name = text(object, "/spec/secretRef/name").filter(|_| which.with_credentials);
        if let Some(name) = name.filter(|name| exported.insert(name.clone())) {
            documents.push(secret(&hub, object, &name).await?);
        }
    }
    documents.iter().try_for_each(output::manifest)
}

fn has_credentials(kind: FluxKind) -> bool {
    use FluxKind::{Bucket, GitRepository, HelmRepository, OCIRepository};
    matches!(
        kind,
        GitRepository | OCIRepository | HelmRepository | Bucket
    )
}

async fn all(hub: &Hub, kind: FluxKind, namespace: &str) -> Result<Vec<Object>, Error> {
    let resource = hub.resource(kind).await?;
    let request = ListRequest {
        namespace,
        ..ListRequest::all(&resource)
    };
    let mut objects = hub.cluster.list(&request).await?;
    if objects.is_empty() {
        return Err(
            Error::new(format!("no {kind} objects found in {namespace} namespace")).next(format!(
                "driftless export {} --all -n NAMESPACE",
                KindName::of(kind)
            )),
        );
    }
    objects.sort_by(|a, b| a.name().cmp(b.name()));
    Ok(objects)
}

/// Returns an object without its state.
fn as_written(object: &Object) -> Value {
    let metadata = metadata(object, &["name", "namespace", "labels", "annotations"]);
    let mut written =
        json!({"apiVersion": object.api_version(), "kind": object.kind(), "metadata": metadata});
    written["spec"] = object
        .pointer("/spec")
        .cloned()
        .unwrap_or_else(|| json!({}));
    written
}

fn metadata(object: &Object, fields: &[&str]) -> Map<String, Value> {
    let metadata = object.pointer("/metadata").and_then(Value::as_object);
    let fields = fields.iter().filter_map(|field| {
        let value = metadata?.get(*field)?;
        let is_empty = value.as_object().is_some_and(Map::is_empty);
        (!is_empty).then(|| ((*field).to_owned(), value.clone()))
    });
    fields.collect()
}

/// Reads the Secret of a source.
async fn secret(hub: &Hub, source: &Object, name: &str) -> Result<Value, Error> {
    let resource = hub::resource(hub.cluster.as_ref(), &Gvk::new("v1", "Secret")).await?;
    let namespace = source.namespace();
    let of = format!(
        "{}/{namespace}/{}: spec.secretRef",
        source.kind(),
        source.name()
    );
    let found = hub.cluster.get(&resource, namespace, name).await;
    let found = found.map_err(|error| Error::from(error).at(&of))?;
    let secret = found.ok_or_else(|| {
        Error::new(format!(
            "{of}: failed to retrieve secret {name}: it does not exist"
        ))
        .next("create the Secret, or leave --with-credentials out")
    })?;
    let mut written = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": metadata(&secret, &["name", "namespace"])});
    for field in ["data", "type"] {
        if let Some(value) = secret.pointer(&format!("/{field}")) {
            written[field] = value.clone();
        }
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_file_has_is_exported() {
        let object = json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": {"name": "apps", "namespace": "team-a", "uid": "1", "resourceVersion": "2", "labels": {"a": "b"},
                "annotations": {}, "managedFields": [], "finalizers": ["f"]},
            "spec": {"prune": true}, "status": {"conditions": []}});
        let written = as_written(&Object::new(object).unwrap());
        assert_eq!(
            written,
            json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
                "metadata": {"name": "apps", "namespace": "team-a", "labels": {"a": "b"}}, "spec": {"prune": true}})
        );
    }
}
