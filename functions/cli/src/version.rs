//! `driftless version`: the versions of this command, of the hub and its definitions, of Flux's own
//! controllers on it, and of an installation's functions.

use crate::concurrent;
use crate::error::{EXIT_CODES, Error};
use crate::hub::Scope;
use crate::output::{self, Output};
use crate::{installation, term};
use clap::ValueEnum;
use driftless_flux::FluxKind;
use driftless_kernel::functions;
use driftless_kernel::hub::Hub;
use driftless_kernel::ports::{ErrorKind, ListRequest};
use driftless_manifest::{Gvk, Object, yaml};
use serde_json::{Map, Value, json};

const EXAMPLES: &str = "Examples:
  driftless version
  driftless version --client
  driftless version --installation -o json

definitions are the versions of Flux's kinds that the hub serves, the preferred one first. controllers are the images of Flux's \
own controllers in the namespace, where they run. --installation reads the versions of the functions that the environment of \
`driftless doctor --installation` configures.";

/// The label of the Deployments that `flux install` creates.
const CONTROLLERS: &str = "app.kubernetes.io/part-of=flux";
/// Print the versions of this command, of the hub, and of an installation
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    /// Only the version of this command
    #[arg(long, conflicts_with = "installation")]
    client: bool,
    /// Also the versions of the functions of the installation on AWS that the environment
    /// configures
    #[arg(long)]
    installation: bool,
    #[command(flatten)]
    output: Output<Format>,
    #[command(flatten)]
    scope: Scope,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Yaml,
    Json,
}

impl output::Format for Format {
    const DEFAULT: &'static str = "yaml";
}

/// Reads and prints the versions.
///
/// # Errors
/// The hub or the installation cannot be read.
pub async fn run(args: Args) -> Result<(), Error> {
    let mut versions = Map::new();
    versions.insert("driftless".to_owned(), functions::VERSION.into());
    if !args.client {
        let hub = args
            .scope
            .connection
            .connect()
            .await
            .map_err(|error| match &error.next {
                Some(next) => {
                    let next =
                        format!("{next}; or give --client for the version of this command alone");
                    error.next(next)
                }
                None => error.next("give --client for the version of this command alone"),
            })?;
        let server = hub.cluster.abilities().await?;
        versions.insert("kubernetes".to_owned(), server.version.into());
        let controllers = controllers(&hub, &args.scope.namespace).await?;
        if !controllers.is_empty() {
            versions.insert("controllers".to_owned(), controllers.into());
        }
        versions.insert("definitions".to_owned(), definitions(&hub).await?.into());
    }
    if args.installation {
        let ports = installation::ports().await?;
        let found = functions::versions(ports.blobs.as_ref()).await?;
        versions.insert("functions".to_owned(), json!(found));
    }
    let versions = Value::Object(versions);
    match args.output.format {
        Format::Json => output::print_json(&versions),
        Format::Yaml => term::result(&lines(&versions)),
    }
}

/// Returns the versions as YAML. The version of this command comes first, as in `flux version`.
fn lines(versions: &Value) -> String {
    let entries = versions.as_object().into_iter().flatten();
    let parts = entries.map(|(name, value)| yaml::to_string(&json!({name: value})));
    let (own, others): (Vec<String>, Vec<String>) =
        parts.partition(|part| part.starts_with("driftless:"));
    own.into_iter().chain(others).collect()
}

/// Returns the served versions of each kind of Flux.
async fn definitions(hub: &Hub) -> Result<Map<String, Value>, Error> {
    let reads = FluxKind::ALL.into_iter().map(|kind| async move {
        let served = hub.cluster.versions(kind.group(), kind.as_str()).await;
        (kind, served)
    });
    let mut definitions = Map::new();
    for (kind, served) in concurrent::run(reads).await {
        let served = served?;
        let versions: Vec<&str> = served.iter().map(|one| one.gvk.version.as_str()).collect();
        let text = match versions.is_empty() {
            true => "not installed".to_owned(),
            false => versions.join(", "),
        };
        definitions.insert(kind.as_str().to_owned(), text.into());
    }
    Ok(definitions)
}

/// Returns the versions of Flux's controllers in a namespace, from the tags of their images.
async fn controllers(hub: &Hub, namespace: &str) -> Result<Map<String, Value>, Error> {
    let Some(resource) = hub
        .cluster
        .resource(&Gvk::new("apps/v1", "Deployment"))
        .await?
    else {
        return Ok(Map::new());
    };
    let request = ListRequest {
        resource: &resource,
        namespace,
        selector: CONTROLLERS,
    };
    let deployments = match hub.cluster.list(&request).await {
        Ok(deployments) => deployments,
        // A tenant does not see the controllers.
        Err(error) if error.kind == ErrorKind::Denied => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    Ok(deployments.iter().flat_map(images).collect())
}

/// Returns the names and tags of the images of a Deployment.
fn images(deployment: &Object) -> Vec<(String, Value)> {
    let containers = deployment.pointer("/spec/template/spec/containers");
    let containers = containers.and_then(Value::as_array).into_iter().flatten();
    let images = containers.filter_map(|container| container["image"].as_str());
    images.filter_map(image).collect()
}

fn image(image: &str) -> Option<(String, Value)> {
    let name = image.rsplit('/').next()?;
    let name = name.split('@').next()?;
    let (name, tag) = name.split_once(':').unwrap_or((name, "unknown"));
    Some((name.to_owned(), tag.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_have_their_tag() {
        for (text, want) in [
            (
                "ghcr.io/fluxcd/source-controller:v1.9.1",
                ("source-controller", "v1.9.1"),
            ),
            (
                "localhost:5000/a/helm-controller:v1.6.3@sha256:00",
                ("helm-controller", "v1.6.3"),
            ),
            ("helm-controller", ("helm-controller", "unknown")),
        ] {
            assert_eq!(image(text), Some((want.0.to_owned(), want.1.into())));
        }
    }

    #[test]
    fn the_own_version_comes_first() {
        let versions = json!({"definitions": {"Bucket": "v1"}, "driftless": "1.2.3"});
        assert_eq!(
            lines(&versions),
            "driftless: 1.2.3\ndefinitions:\n  Bucket: v1\n"
        );
    }
}
