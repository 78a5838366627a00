//! Where a release's chart comes from: the HelmChart that is made for it or the object that it names, and that object's artifact.

use super::conditions::reasons;
use super::memory::ChartFacts;
use crate::apply::drift::{Drift, compare};
use crate::failure::{Class, Failure};
use crate::flux::{
    ArtifactStatus, ChartTemplate, ConditionStatus, Conditions, FluxKind, HELM_CONTROLLER,
    HelmRelease, ObjectRef, READY, STALLED, duration_text, parse_duration, reason,
};
use crate::kernel::Context;
use crate::ports::{Apply, Delete, ErrorKind};
use crate::schedule;
use crate::source::artifact;
use crate::source::lookup::{artifact_of, find};
use driftless_helm::semver::Version;
use driftless_helm::{Chart, Compat, LoadLimits};
use driftless_manifest::Object;
use serde_json::{Value, json};

/// The labels that say which HelmRelease an object was made for.
pub const ORIGIN_NAME: &str = "helm.toolkit.fluxcd.io/name";
/// See [`ORIGIN_NAME`].
pub const ORIGIN_NAMESPACE: &str = "helm.toolkit.fluxcd.io/namespace";

/// Brings the HelmChart of a release to what `spec.chart` says, deletes the one of before, and notes it in the status. Returns the
/// chart's object when it was changed: its own step is next.
///
/// # Errors
/// The cluster's, or a source that may not be named.
pub async fn reconcile(
    context: &Context<'_>,
    release: &mut HelmRelease,
) -> Result<Option<ObjectRef>, Failure> {
    let wanted = release.chart_object();
    let noted = wanted.as_ref().map_or_else(String::new, noted);
    if release.status.helm_chart != noted {
        delete(context, release).await?;
        release.status.helm_chart = String::new();
    }
    let (Some(id), Some(template)) = (wanted, &release.spec.chart) else {
        return Ok(None);
    };
    check_reference(context, release, &id)?;
    let resource = context.hub.resource(FluxKind::HelmChart).await?;
    let desired = object(release, &id, template, &resource.gvk.api_version())?;
    release.status.helm_chart = noted;
    let live = context.hub.get(&id).await?;
    let is_same = |live| compare(&desired, live, HELM_CONTROLLER) == Drift::Unchanged;
    if live.as_ref().is_some_and(is_same) {
        return Ok(None);
    }
    let how = Apply {
        manager: HELM_CONTROLLER,
        force: true,
        dry_run: false,
    };
    context.hub.cluster.apply(&resource, &desired, how).await?;
    let (did, why) = match live {
        None => ("Created", "HelmChartCreated"),
        Some(_) => ("Configured", "HelmChartConfigured"),
    };
    let source = &template.spec.source_ref;
    let message = format!(
        "{did} {id} with SourceRef '{}/{}/{}'",
        source.kind, id.namespace, source.name
    );
    context.events.tell(false, why, &message, "");
    Ok(Some(id))
}

/// A HelmChart as `status.helmChart` names it.
pub fn noted(id: &ObjectRef) -> String {
    format!("{}/{}", id.namespace, id.name)
}

/// Whether an object was made for a release.
pub fn is_made_for(object: &Object, release: &HelmRelease) -> bool {
    object.label(ORIGIN_NAME) == Some(&release.id.name)
        && object.label(ORIGIN_NAMESPACE) == Some(&release.id.namespace)
}

/// Deletes the HelmChart that the status names, if it was made for this release. Returns it: with a finalizer of
/// Flux's it goes when its own step lets it.
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
    let how = Delete {
        uid: Some(live.meta("uid").to_owned()),
        ..Delete::default()
    };
    context
        .hub
        .cluster
        .delete(&resource, namespace, name, &how)
        .await?;
    let message = format!("deleted HelmChart '{namespace}/{name}'");
    context.events.tell(false, "HelmChartDeleted", &message, "");
    Ok(Some(id))
}

fn object(
    release: &HelmRelease,
    id: &ObjectRef,
    template: &ChartTemplate,
    api_version: &str,
) -> Result<Object, Failure> {
    let spec = &template.spec;
    // As Go writes it, so that a chart of Flux's is not written anew.
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
    let mut object =
        Object::new(object).map_err(|error| Failure::terminal(reason::FAILED, error))?;
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
        let what = format!("can't access '{id}', cross-namespace references have been blocked");
        return Err(Failure::terminal(reason::ACCESS_DENIED, what));
    }
    Ok(())
}

/// The chart's artifact, when its object is ready.
///
/// # Errors
/// `ArtifactFailed` or `SourceNotReady`: the object wakes the release when it has one, and when it cannot have one.
pub async fn find_artifact(
    context: &Context<'_>,
    release: &HelmRelease,
) -> Result<(ObjectRef, ArtifactStatus), Failure> {
    let id = release
        .chart_source()
        .map_err(|what| Failure::terminal(reason::ARTIFACT_FAILED, what))?;
    check_reference(context, release, &id)?;
    match look(context, &id).await {
        Err(failure) if failure.class == Class::Waiting => {
            schedule::register(context, &id).await?;
            // Its step may have ended before it was known that somebody waits.
            look(context, &id).await
        }
        done => done,
    }
    .map(|artifact| (id, artifact))
}

async fn look(context: &Context<'_>, id: &ObjectRef) -> Result<ArtifactStatus, Failure> {
    let Some(object) = find(context, id).await? else {
        let what = format!("could not get Source object: {id} not found");
        return Err(Failure::waiting(reason::ARTIFACT_FAILED, what));
    };
    let not_ready = |why: &str| {
        let what = format!(
            "{} '{}/{}' is not ready: {why}",
            id.kind, id.namespace, id.name
        );
        Failure::waiting(reasons::SOURCE_NOT_READY, what)
    };
    let conditions = Conditions::of(&object);
    let condition = |kind: &str, status| {
        let found = conditions.get(kind).filter(|one| one.status == status);
        found.map(|one| one.message.clone())
    };
    let observed = object
        .pointer("/status/observedGeneration")
        .and_then(Value::as_i64);
    if observed.is_some_and(|seen| seen != crate::flux::generation(&object)) {
        let why = condition(READY, ConditionStatus::False);
        let why =
            why.unwrap_or_else(|| "latest generation of object has not been reconciled".to_owned());
        return Err(not_ready(&why));
    }
    if let Some(why) = condition(STALLED, ConditionStatus::True) {
        return Err(not_ready(&why));
    }
    match artifact_of(&object) {
        Some(artifact) => Ok(artifact),
        None => Err(not_ready("does not have an artifact")),
    }
}

/// Loads a chart from its artifact. The version of one from an OCI artifact carries the start of its digest, so that a tag that
/// moved is another version.
///
/// # Errors
/// `ArtifactFailed`.
pub async fn load(
    context: &Context<'_>,
    id: &ObjectRef,
    status: &ArtifactStatus,
) -> Result<(Chart, ChartFacts), Failure> {
    let failed = |what: &dyn std::fmt::Display| {
        Failure::retry(
            reason::ARTIFACT_FAILED,
            format!("Could not load chart: {what}"),
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
    let mut chart = Chart::from_archive(&bytes, &name, Compat::Helm4, &LoadLimits::default())
        .map_err(|error| failed(&error))?;
    let mut facts = ChartFacts {
        artifact: status.digest.clone(),
        name: chart.metadata.name.clone(),
        app_version: chart.metadata.app_version.clone(),
        ..ChartFacts::default()
    };
    if id.kind != FluxKind::HelmChart {
        let (version, digest) = with_digest(&chart.metadata.version, &status.revision)
            .map_err(|what| Failure::retry(reasons::CHART_MUTATE_ERROR, what))?;
        chart.metadata.version = version;
        facts.oci_digest = digest;
    }
    facts.version = chart.metadata.version.clone();
    Ok((chart, facts))
}

/// `1.2.3` of `1.2.3@sha256:0123456789abcdef…` is `1.2.3+0123456789ab`; and the digest.
fn with_digest(version: &str, revision: &str) -> Result<(String, String), String> {
    let digest = match revision.split_once('@') {
        Some((tag, _)) if tag != version => {
            return Err(format!(
                "artifact revision {tag} does not match chart version {version}"
            ));
        }
        Some((_, digest)) => digest,
        None => revision,
    };
    let sum = digest.split_once(':').map_or(digest, |(_, sum)| sum);
    let mut parsed = Version::parse(version).map_err(|what| what.to_string())?;
    parsed.metadata = sum.chars().take(12).collect();
    Ok((parsed.to_string(), digest.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::with_digest;

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
