//! The Flux object that applied an object, and its source.

use super::objects;
use super::report::Report;
use crate::error::Error;
use crate::hub;
use driftless_flux::FluxKind;
use driftless_kernel::hub::Hub;
use driftless_manifest::{Gvk, Object};
use serde_json::Value;

/// The most owners between an object and the one with Flux's labels, such as Pod, ReplicaSet,
/// Deployment.
const MAX_OWNERS: usize = 10;
/// The width of the labels in the part of a Kustomization, and of its sources.
const WIDE: usize = 17;
/// The width of the labels in the parts of Helm's objects.
const HELM: usize = 16;
/// The width of the labels of a GitRepository with a chart.
const NARROW: usize = 15;
/// The annotations of an artifact with its origin, with their labels in the order of Flux.
const ORIGINS: [(&str, &str); 2] = [
    ("Origin Revision", "org.opencontainers.image.revision"),
    ("Origin Source", "org.opencontainers.image.source"),
];

/// Returns the report of an object.
///
/// # Errors
/// Flux does not manage the object, or an object on the way to its source cannot be read.
pub async fn trace(hub: &Hub, object: &Object) -> Result<String, Error> {
    let mut owners = vec![object.clone()];
    while owners.len() <= MAX_OWNERS && labels(&owners).is_none() {
        let above = match owners.last() {
            Some(last) => owner(hub, last).await?,
            None => None,
        };
        match above {
            Some(above) => owners.push(above),
            None => break,
        }
    }
    match labels(&owners) {
        Some((FluxKind::HelmRelease, namespace, name)) => {
            let release = hub::object(hub, FluxKind::HelmRelease, &namespace, &name).await?;
            helm(hub, object, &release).await
        }
        Some((kind, namespace, name)) => {
            let applied_by = hub::object(hub, kind, &namespace, &name).await?;
            kustomization(hub, object, &applied_by).await
        }
        None => Err(objects::unmanaged(object)),
    }
}

/// Returns the kind, namespace and name in Flux's labels of the first object that has them. The
/// labels of a Kustomization come first, as with Flux.
fn labels(owners: &[Object]) -> Option<(FluxKind, String, String)> {
    let kinds = [FluxKind::Kustomization, FluxKind::HelmRelease];
    kinds.into_iter().find_map(|kind| {
        let label = |object: &Object, part: &str| {
            let text = object.label(&format!("{}/{part}", kind.group()));
            text.map(str::to_owned).filter(|text| !text.is_empty())
        };
        owners.iter().find_map(|object| {
            let name = label(object, "name")?;
            Some((kind, label(object, "namespace").unwrap_or_default(), name))
        })
    })
}

/// Reads the first owner of an object that exists.
async fn owner(hub: &Hub, object: &Object) -> Result<Option<Object>, Error> {
    let references = object.pointer("/metadata/ownerReferences");
    let references = references.and_then(Value::as_array);
    for reference in references.into_iter().flatten() {
        let text = |field: &str| reference[field].as_str().unwrap_or_default();
        let gvk = Gvk::new(text("apiVersion"), text("kind"));
        let Some(resource) = hub.cluster.resource(&gvk).await? else {
            continue;
        };
        let namespace = if resource.namespaced {
            object.namespace()
        } else {
            ""
        };
        let found = hub.cluster.get(&resource, namespace, text("name")).await?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

async fn kustomization(hub: &Hub, object: &Object, applied_by: &Object) -> Result<String, Error> {
    let mut report = Report::new(object, WIDE);
    report.part(applied_by, WIDE);
    report.some("Target", text(applied_by, "/spec/targetNamespace"));
    report.line("Path", text(applied_by, "/spec/path").unwrap_or_default());
    report.line(
        "Revision",
        text(applied_by, "/status/lastAppliedRevision").unwrap_or_default(),
    );
    report.ready(applied_by, false);
    if let Some(source) = referenced(hub, applied_by, "/spec/sourceRef").await? {
        add_source(&mut report, &source, WIDE, true)?;
    }
    Ok(report.finish())
}

async fn helm(hub: &Hub, object: &Object, release: &Object) -> Result<String, Error> {
    let mut report = Report::new(object, HELM);
    report.part(release, HELM);
    report.some("Target", text(release, "/spec/targetNamespace"));
    report.line(
        "Revision",
        text(release, "/status/lastAttemptedRevision").unwrap_or_default(),
    );
    report.ready(release, false);
    let chart = text(release, "/status/helmChart").and_then(|chart| chart.split_once('/'));
    if let Some((namespace, name)) = chart {
        let chart = hub::object(hub, FluxKind::HelmChart, namespace, name).await?;
        report.part(&chart, HELM);
        for (label, field) in [("Chart", "/spec/chart"), ("Version", "/spec/version")] {
            report.line(label, text(&chart, field).unwrap_or_default());
        }
        report.some("Revision", text(&chart, "/status/artifact/revision"));
        report.ready(&chart, false);
    }
    let reference = match release.pointer("/spec/chart") {
        Some(_) => "/spec/chart/spec/sourceRef",
        None => "/spec/chartRef",
    };
    let source = referenced(hub, release, reference).await?;
    // The HelmChart of a chartRef is the one above.
    let source = source.filter(|source| source.kind() != FluxKind::HelmChart.as_str());
    if let Some(source) = source {
        let width = match FluxKind::parse(source.kind()) {
            Some(FluxKind::GitRepository) => NARROW,
            Some(FluxKind::HelmRepository) => HELM,
            _ => WIDE,
        };
        add_source(&mut report, &source, width, false)?;
    }
    Ok(report.finish())
}

/// Reads the Flux object of a reference, if the field is set.
async fn referenced(hub: &Hub, from: &Object, pointer: &str) -> Result<Option<Object>, Error> {
    let Some(reference) = from.pointer(pointer) else {
        return Ok(None);
    };
    let text = |field: &str| reference[field].as_str().filter(|text| !text.is_empty());
    let kind = text("kind").unwrap_or_default();
    let Some(kind) = FluxKind::parse(kind) else {
        return Err(Error::new(format!(
            "{}: {}: '{kind}' is not a kind of source",
            objects::name_of(from),
            pointer.trim_start_matches('/').replace('/', ".")
        ))
        .next("correct the reference in the repository that the object comes from"));
    };
    let namespace = text("namespace").unwrap_or_else(|| from.namespace());
    let name = text("name").unwrap_or_default();
    hub::object(hub, kind, namespace, name).await.map(Some)
}

/// Adds the part of a source.
fn add_source(
    report: &mut Report,
    source: &Object,
    width: usize,
    with_origin: bool,
) -> Result<(), Error> {
    report.part(source, width);
    let field = |pointer: &str| text(source, pointer);
    let mut names_failures = true;
    match FluxKind::parse(source.kind()) {
        Some(FluxKind::GitRepository) => {
            report.line("URL", field("/spec/url").unwrap_or_default());
            let refs = ["tag", "semver", "branch"];
            let found = refs.iter().find_map(|name| {
                let value = field(&format!("/spec/ref/{name}"))?;
                Some((*name, value))
            });
            if let Some((name, value)) = found {
                let label = if name == "branch" { "Branch" } else { "Tag" };
                report.line(label, value);
            }
        }
        Some(FluxKind::OCIRepository) => {
            report.line("URL", field("/spec/url").unwrap_or_default());
            let refs = [("tag", "Tag"), ("semver", "Tag"), ("digest", "Digest")];
            let found = refs.iter().find_map(|(name, label)| {
                let value = field(&format!("/spec/ref/{name}"))?;
                Some((*label, value))
            });
            if let Some((label, value)) = found {
                report.line(label, value);
            }
        }
        Some(FluxKind::HelmRepository) => {
            names_failures = false;
            report.line("URL", field("/spec/url").unwrap_or_default());
        }
        Some(FluxKind::Bucket) => {
            let part = |name: &str| field(&format!("/spec/{name}")).unwrap_or_default();
            report.line(
                "URL",
                &format!("{}/{}", part("endpoint"), part("bucketName")),
            );
        }
        Some(FluxKind::ExternalArtifact) => {
            let Some(from) = source.pointer("/spec/sourceRef") else {
                return Err(Error::new(format!(
                    "ExternalArtifact {}/{} is missing spec.sourceRef",
                    source.namespace(),
                    source.name()
                ))
                .next("the controller that creates the ExternalArtifact must set it"));
            };
            let part = |name: &str| from[name].as_str().unwrap_or_default();
            let value = format!("{}/{}/{}", part("kind"), part("namespace"), part("name"));
            report.line("Source", &value);
        }
        _ => {}
    }
    report.some("Revision", field("/status/artifact/revision"));
    if with_origin && let Some(metadata) = metadata(source) {
        for (label, annotation) in ORIGINS {
            match metadata.get(annotation).and_then(Value::as_str) {
                Some(value) if !value.is_empty() => report.line(label, value),
                _ => report.blank(),
            }
        }
    }
    report.ready(source, names_failures);
    Ok(())
}

/// Returns the annotations of an artifact of a registry.
fn metadata(source: &Object) -> Option<&serde_json::Map<String, Value>> {
    let kind = FluxKind::parse(source.kind())?;
    let has = matches!(kind, FluxKind::OCIRepository | FluxKind::ExternalArtifact);
    let metadata = source.pointer("/status/artifact/metadata")?.as_object()?;
    (has && !metadata.is_empty()).then_some(metadata)
}

fn text<'o>(object: &'o Object, pointer: &str) -> Option<&'o str> {
    let text = object.pointer(pointer)?.as_str()?;
    (!text.is_empty()).then_some(text)
}
