//! The source of a release's chart: the HelmChart that is created for it or the object of
//! `chartRef`, and that object's artifact.

use super::conditions::reasons;
use super::memory::ChartFacts;
use crate::error::ReleaseError;
use driftless_flux::{
    ArtifactStatus, ChartTemplate, ConditionStatus, Conditions, FluxKind, HELM_CONTROLLER,
    HelmRelease, ObjectRef, READY, STALLED, duration_text, parse_duration, reason,
};
use driftless_go::semver::Version;
use driftless_helm::{Chart, Compat, LoadLimits};
use driftless_kernel::applier::{Applier, Strategy};
use driftless_kernel::context::Context;
use driftless_kernel::failure::{Class, Failure};
use driftless_kernel::ports::ErrorKind;
use driftless_kernel::schedule;
use driftless_manifest::Object;
use driftless_plans::apply::change_detection::{Drift, compare};
use driftless_source::artifact;
use driftless_source::lookup::{artifact_of, find};
use serde_json::{Value, json};

/// The label with the name of the HelmRelease that an object was created for.
pub const ORIGIN_NAME: &str = "helm.toolkit.fluxcd.io/name";
/// The label with the namespace of the HelmRelease that an object was created for.
pub const ORIGIN_NAMESPACE: &str = "helm.toolkit.fluxcd.io/namespace";

/// Applies the HelmChart of `spec.chart`, deletes a previous HelmChart with another name, and notes
/// the new one in the status. Returns the HelmChart if it was changed, so that it is reconciled
/// next.
///
/// # Errors
/// The cluster's, or a cross-namespace reference that is blocked.
pub async fn reconcile(
    context: &Context<'_>,
    release: &mut HelmRelease,
) -> Result<Option<ObjectRef>, Failure> {
    let wanted = release.chart_object();
    let status_name = wanted.as_ref().map_or_else(String::new, status_name);
    if release.status.helm_chart != status_name {
        delete(context, release).await?;
        release.status.helm_chart = String::new();
    }
    let (Some(id), Some(template)) = (wanted, &release.spec.chart) else {
        return Ok(None);
    };
    check_reference(context, release, &id)?;
    let resource = context.hub.resource(FluxKind::HelmChart).await?;
    let desired = object(release, &id, template, &resource.gvk.api_version())?;
    release.status.helm_chart = status_name;
    let live = context.hub.get(&id).await?;
    let is_same = |live| compare(&desired, live, HELM_CONTROLLER) == Drift::Unchanged;
    if live.as_ref().is_some_and(is_same) {
        return Ok(None);
    }
    let applier = Applier::new(context.hub.cluster.as_ref(), Strategy::HELM);
    applier.apply(&resource, &desired).await?;
    let (verb, event_reason) = match live {
        None => ("Created", "HelmChartCreated"),
        Some(_) => ("Configured", "HelmChartConfigured"),
    };
    let source = &template.spec.source_ref;
    let message = format!(
        "{verb} {id} with SourceRef '{}/{}/{}'",
        source.kind, id.namespace, source.name
    );
    context.events.record_trace(event_reason, &message);
    Ok(Some(id))
}

/// Returns the name of a HelmChart in `status.helmChart`: `namespace/name`.
pub fn status_name(id: &ObjectRef) -> String {
    format!("{}/{}", id.namespace, id.name)
}

/// Returns whether the labels of an object say that it was created for a release.
pub fn is_made_for(object: &Object, release: &HelmRelease) -> bool {
    object.label(ORIGIN_NAME) == Some(&release.id.name)
        && object.label(ORIGIN_NAMESPACE) == Some(&release.id.namespace)
}

/// Deletes the HelmChart in the status, if it was created for this release. Returns it, so that it
/// is reconciled next: with a finalizer of Flux, it is gone only after its own step.
///
/// # Errors
/// The cluster's.
pub async fn delete(
    context: &Context<'_>,
    release: &HelmRelease,
) -> Result<Option<ObjectRef>, Failure> {
    let Some((namespace, name)) = release.status.helm_chart.split_once('/') else {
        return Ok(None);
    };
    let id = ObjectRef::new(FluxKind::HelmChart, namespace, name);
    let Some(live) = context.hub.get(&id).await? else {
        return Ok(None);
    };
    if !is_made_for(&live, release) {
        return Ok(None);
    }
    let resource = context.hub.resource(FluxKind::HelmChart).await?;
    let applier = Applier::new(context.hub.cluster.as_ref(), Strategy::HELM);
    let is_ours = |live: &Object| is_made_for(live, release);
    let deletion = applier.delete(&resource, &live, "Background", &is_ours);
    deletion.await?;
    let message = format!("deleted HelmChart '{namespace}/{name}'");
    context.events.record_trace("HelmChartDeleted", &message);
    Ok(Some(id))
}

fn object(
    release: &HelmRelease,
    id: &ObjectRef,
    template: &ChartTemplate,
    api_version: &str,
) -> Result<Object, Failure> {
    let spec = &template.spec;
    // In Go's format, so that a HelmChart that Flux wrote is not changed.
    let interval = spec.interval.as_ref().unwrap_or(&release.spec.interval);
    let interval = parse_duration(interval).map_or_else(|_| interval.clone(), duration_text);
    let mut chart = json!({
        "chart": spec.chart,
        "version": spec.version.as_deref().unwrap_or("*"),
        "sourceRef": {"kind": spec.source_ref.kind, "name": spec.source_ref.name},
        "interval": interval,
    });
    let mut set = |field: &str, value: Value| chart[field] = value;
    if let Some(strategy) = &spec.reconcile_strategy {
        set("reconcileStrategy", json!(strategy));
    }
    if !spec.values_files.is_empty() {
        set("valuesFiles", json!(spec.values_files));
    }
    if spec.ignore_missing_values_files {
        set("ignoreMissingValuesFiles", json!(true));
    }
    if let Some(verify) = &spec.verify {
        set("verify", json!(verify));
    }
    let metadata = template.metadata.clone().unwrap_or_default();
    let object = json!({"apiVersion": api_version, "kind": "HelmChart",
        "metadata": {"name": id.name, "namespace": id.namespace}, "spec": chart});
    let mut object = Object::new(object)
        .map_err(|error| Failure::terminal(reason::FAILED, &error).caused_by(error))?;
    let (labels, annotations) = (metadata.labels, metadata.annotations);
    labels
        .iter()
        .for_each(|(key, value)| object.set_label(key, value));
    annotations
        .iter()
        .for_each(|(key, value)| object.set_annotation(key, value));
    object.set_label(ORIGIN_NAME, &release.id.name);
    object.set_label(ORIGIN_NAMESPACE, &release.id.namespace);
    Ok(object)
}

fn check_reference(
    context: &Context<'_>,
    release: &HelmRelease,
    id: &ObjectRef,
) -> Result<(), Failure> {
    if context.hub.settings.no_cross_namespace_refs && id.namespace != release.id.namespace {
        let message = format!("can't access '{id}', cross-namespace references have been blocked");
        return Err(Failure::terminal(reason::ACCESS_DENIED, message));
    }
    Ok(())
}

/// Finds the source of the chart and its artifact, if the source is ready.
///
/// # Errors
/// `ArtifactFailed` or `SourceNotReady`: the release is requeued when the source has an artifact,
/// or fails.
pub async fn find_artifact(
    context: &Context<'_>,
    release: &HelmRelease,
) -> Result<(ObjectRef, ArtifactStatus), Failure> {
    let id = release
        .chart_source()
        .map_err(|message| Failure::terminal(reason::ARTIFACT_FAILED, message))?;
    check_reference(context, release, &id)?;
    match ready_artifact(context, &id).await {
        Err(failure) if failure.class == Class::Waiting => {
            schedule::register(context, &id).await?;
            // The step of the source may have ended before this release was registered as waiting.
            ready_artifact(context, &id).await
        }
        done => done,
    }
    .map(|artifact| (id, artifact))
}

async fn ready_artifact(context: &Context<'_>, id: &ObjectRef) -> Result<ArtifactStatus, Failure> {
    let Some(object) = find(context, id).await? else {
        let message = format!("could not get Source object: {id} not found");
        return Err(Failure::waiting(reason::ARTIFACT_FAILED, message));
    };
    let artifact = artifact_of(&object);
    let not_ready = |cause: &str| {
        let message = format!(
            "{} '{}/{}' is not ready: {cause}",
            id.kind, id.namespace, id.name
        );
        Failure::waiting(reasons::SOURCE_NOT_READY, message)
    };
    if id.kind == FluxKind::ExternalArtifact {
        // As in Flux: other controllers need not set conditions.
        return artifact.ok_or_else(|| not_ready("does not have an artifact"));
    }
    let conditions = Conditions::of(&object);
    let condition = |kind: &str, status| {
        let found = conditions.get(kind).filter(|one| one.status == status);
        found.map(|one| one.message.clone())
    };
    let observed = object
        .pointer("/status/observedGeneration")
        .and_then(Value::as_i64);
    if observed.is_some_and(|seen| seen != driftless_flux::generation(&object)) {
        let cause = condition(READY, ConditionStatus::False)
            .unwrap_or_else(|| "latest generation of object has not been reconciled".to_owned());
        return Err(not_ready(&cause));
    }
    if let Some(cause) = condition(STALLED, ConditionStatus::True) {
        return Err(not_ready(&cause));
    }
    artifact.ok_or_else(|| not_ready("does not have an artifact"))
}

/// Loads a chart from its artifact. The version of a chart from an OCI artifact gets the start of
/// the artifact's digest as build metadata, so that a tag that moved gives another version.
///
/// # Errors
/// `ArtifactFailed`, or `ChartMutateError` for a version that does not match the artifact.
pub async fn load(
    context: &Context<'_>,
    id: &ObjectRef,
    status: &ArtifactStatus,
) -> Result<(Chart, ChartFacts), Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::retry(
            reason::ARTIFACT_FAILED,
            format!("Could not load chart: {error}"),
        )
    };
    let bytes = artifact::bytes_of(context, id, status).await;
    let bytes = bytes.map_err(|error| match error.kind {
        ErrorKind::NotFound => Failure::waiting(
            reason::ARTIFACT_FAILED,
            "Source not ready: artifact not found: the source must store it again",
        ),
        _ => Failure::port(reason::ARTIFACT_FAILED, &error),
    })?;
    let name = id.to_string();
    let mut chart = Chart::from_archive(
        &bytes,
        &name,
        Compat::Helm4,
        &LoadLimits::of_step(&context.fuel),
    )
    .map_err(|error| failed(&error))?;
    let mut facts = ChartFacts {
        artifact: status.digest.clone(),
        name: chart.metadata.name.clone(),
        app_version: chart.metadata.app_version.clone(),
        ..ChartFacts::default()
    };
    if id.kind != FluxKind::HelmChart {
        let (version, revision) = (&chart.metadata.version, &status.revision);
        let changed = match id.kind {
            FluxKind::ExternalArtifact => with_revision(version, revision),
            _ => with_digest(version, revision),
        };
        let (version, digest) = changed.map_err(|error| {
            Failure::retry(reasons::CHART_MUTATE_ERROR, &error).caused_by(error)
        })?;
        chart.metadata.version = version;
        facts.oci_digest = digest;
    }
    facts.version = chart.metadata.version.clone();
    Ok((chart, facts))
}

/// Adds the digest of an artifact revision to a version, and returns the new version and the
/// digest: `1.2.3` with the revision `1.2.3@sha256:0123456789abcdef…` gives `1.2.3+0123456789ab`.
fn with_digest(version: &str, revision: &str) -> Result<(String, String), ReleaseError> {
    let digest = match revision.split_once('@') {
        Some((tag, _)) if tag != version => {
            return Err(ReleaseError::Version(format!(
                "artifact revision {tag} does not match chart version {version}"
            )));
        }
        Some((_, digest)) => digest,
        None => revision,
    };
    let sum = digest.split_once(':').map_or(digest, |(_, sum)| sum);
    let mut parsed =
        Version::parse(version).map_err(|error| ReleaseError::Version(error.to_string()))?;
    parsed.metadata = sum.chars().take(12).collect();
    Ok((parsed.to_string(), digest.to_owned()))
}

/// Adds the digest of the revision of an ExternalArtifact to a version, as helm-controller 1.6
/// does. A revision without a digest changes nothing; `1.2.3@sha256:…` must be of the same version;
/// of any other, such as `latest@sha256:…`, the digest counts.
fn with_revision(version: &str, revision: &str) -> Result<(String, String), ReleaseError> {
    if !revision.contains(':') {
        return Ok((version.to_owned(), String::new()));
    }
    let mut parsed = Version::parse(version)
        .map_err(|_| ReleaseError::Version(format!("invalid chart version {version}")))?;
    let (tag, digest) = revision.split_once('@').unwrap_or(("", revision));
    let number = |version: &Version| {
        let Version {
            major,
            minor,
            patch,
            pre,
            ..
        } = version;
        (*major, *minor, *patch, pre.clone())
    };
    let digest = match Version::parse(tag) {
        Ok(tag_version) if number(&tag_version) == number(&parsed) => digest,
        Ok(_) => {
            return Err(ReleaseError::Version(format!(
                "artifact revision {tag} does not match chart version {version}"
            )));
        }
        Err(_) => revision,
    };
    match digest.split(':').collect::<Vec<_>>().as_slice() {
        [_, sum] if sum.len() >= 12 && sum.is_char_boundary(12) => {
            sum[..12].clone_into(&mut parsed.metadata);
        }
        _ => {
            return Err(ReleaseError::Version(format!(
                "invalid artifact revision {digest}"
            )));
        }
    }
    Ok((parsed.to_string(), digest.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::{with_digest, with_revision};

    #[test]
    fn revisions_of_external_artifacts() {
        let found = |revision: &str| with_revision("6.5.0", revision);
        let is = |version: &str, digest: &str| Ok((version.to_owned(), digest.to_owned()));
        assert_eq!(found("6.5.0"), is("6.5.0", ""));
        assert_eq!(found("any"), is("6.5.0", ""));
        let sum = "sha256:0123456789abcdef";
        assert_eq!(found(sum), is("6.5.0+0123456789ab", sum));
        assert_eq!(
            found(&format!("6.5.0@{sum}")),
            is("6.5.0+0123456789ab", sum)
        );
        let latest = format!("latest@{sum}");
        assert_eq!(found(&latest), is("6.5.0+0123456789ab", &latest));
        assert!(found(&format!("6.5.1@{sum}")).is_err());
        assert!(found("latest@sha256:0123").is_err());
        assert!(with_revision("six", sum).is_err());
    }

    #[test]
    fn a_moved_tag_is_another_version() {
        let revision = "6.5.0@sha256:0123456789abcdef";
        let (version, digest) = with_digest("6.5.0", revision).unwrap();
        assert_eq!(
            (&*version, &*digest),
            ("6.5.0+0123456789ab", "sha256:0123456789abcdef")
        );
        assert!(with_digest("6.4.0", revision).is_err());
        let (version, _) = with_digest("6.5.0", "sha256:fedcba9876543210").unwrap();
        assert_eq!(version, "6.5.0+fedcba987654");
    }
}
