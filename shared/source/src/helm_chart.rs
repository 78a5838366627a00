//! The step of a HelmChart: a chart of a repository, a registry or a source's files becomes an
//! artifact.
//!
//! The artifact is a packed chart (`.tgz`, [`ArtifactKind::Chart`]). Its revision is the chart's
//! version; build metadata in it shows that values files were merged (`+GENERATION`) or that the
//! chart follows its source's revision. Reasons, messages and versions are those of
//! source-controller 1.9.

use super::chart_build::{self as build, Options, Plan};
use super::chart_dependencies as dependencies;
use super::chart_failure::{no_artifact, reference};
use super::chart_remote as remote;
use crate::artifact::{self, ArtifactKind};
use crate::files;
use crate::lookup::{artifact_of, find};
use crate::reconciler::{self, SourceReconciler, SourceReport};
use bytes::Bytes;
use driftless_flux::{
    ArtifactStatus, FluxKind, HelmChart, HelmChartSpec, HelmRepository, ObjectRef, SourceStatus,
    reason,
};
use driftless_kernel::context::Context;
use driftless_kernel::failure::Failure;
use driftless_verify::{Trust, Verdict};

/// The reconciler of HelmCharts.
pub struct Helm;

impl SourceReconciler for Helm {
    type Spec = HelmChartSpec;
    type Memory = ();

    async fn reconcile(
        context: &Context<'_>,
        source: &HelmChart,
        status: &mut SourceStatus,
        _: &mut (),
    ) -> Result<SourceReport, Failure> {
        if let Some(message) = source.unsupported() {
            return Err(Failure::terminal(reason::UNSUPPORTED, message));
        }
        if source.spec.verify.is_none() {
            status.conditions.remove(reconciler::VERIFIED);
        }
        let id = source.source().map_err(|error| {
            Failure::terminal(reason::UNSUPPORTED_SOURCE, &error)
                .caused_by(error)
                .context("failed to get source")
        })?;
        let Some(object) = find(context, &id).await? else {
            let message = format!("failed to get source: {}", id.not_cached());
            return Err(Failure::waiting(reason::SOURCE_UNAVAILABLE, message));
        };
        let files = artifact_of(&object);
        if let Some(files) = &files {
            status
                .observed_source_artifact_revision
                .clone_from(&files.revision);
        }
        let built = if id.kind == FluxKind::HelmRepository {
            let repository = HelmRepository::from_object(object)
                .map_err(|error| reference(&format!("{id}: {error}")))?;
            from_repository(context, source, &repository).await?
        } else {
            let files = files.ok_or_else(|| no_artifact(id.kind, &id.name))?;
            from_files(context, source, &id, &files).await?
        };
        finish(context, source, status, built).await
    }

    fn failed_condition(failure: &Failure) -> Option<&'static str> {
        match failure.reason {
            reason::VALUES_FILES
            | reason::CHART_PACKAGE
            | reason::CHART_VERIFICATION
            | reason::DEPENDENCY_BUILD
            | reason::METADATA_PATCH => Some("BuildFailed"),
            reason::STORAGE_FAILED => Some("StorageOperationFailed"),
            reason::VERIFICATION_ERROR => None,
            _ => Some("FetchFailed"),
        }
    }
}

/// A planned artifact, and its content unless the status already has it.
struct PlannedArtifact {
    plan: Plan,
    /// The values files for the message and the status.
    values_files: Vec<String>,
    /// The packed chart; `None` if the artifact in the status is current.
    content: Option<Bytes>,
    /// True if a trusted signature was found.
    verified: bool,
}

async fn finish(
    context: &Context<'_>,
    source: &HelmChart,
    status: &mut SourceStatus,
    built: PlannedArtifact,
) -> Result<SourceReport, Failure> {
    let PlannedArtifact {
        plan,
        values_files,
        content,
        verified,
    } = built;
    if let Some(content) = content {
        let stored =
            artifact::store_file(context.ports, content, ArtifactKind::Chart, &plan.version).await;
        let stored = stored.map_err(|error| {
            Failure::port(reason::STORAGE_FAILED, &error)
                .context("unable to copy Helm chart to storage")
        })?;
        status.url.clone_from(&stored.url);
        status.artifact = Some(stored);
        status.observed_values_files = match source.spec.ignore_missing_values_files {
            true => values_files.clone(),
            false => Vec::new(),
        };
    }
    if verified {
        let message = format!("verified signature of version {}", plan.version);
        reconciler::set_verified(context, source, status, &message);
    }
    let (action, reason) = match plan.packaged {
        true => ("packaged", reason::CHART_PACKAGE_SUCCEEDED),
        false => ("pulled", reason::CHART_PULL_SUCCEEDED),
    };
    let mut message = format!(
        "{action} '{}' chart with version '{}'",
        plan.name, plan.version
    );
    if !values_files.is_empty() {
        message.push_str(&format!(
            " and merged values files [{}]",
            values_files.join(" ")
        ));
    }
    status.observed_chart_name = plan.name;
    Ok(SourceReport {
        news: (reason, message.clone()),
        ..SourceReport::new(reason, message)
    })
}

/// Returns the build if the artifact in the status is current for this generation and exists.
async fn find_current(
    context: &Context<'_>,
    source: &HelmChart,
    plan: &Plan,
) -> Result<Option<PlannedArtifact>, Failure> {
    let status = &source.status;
    let Some(artifact) = &status.artifact else {
        return Ok(None);
    };
    let same = status.observed_generation == Some(source.generation())
        && status.observed_chart_name == plan.name
        && artifact.revision == plan.version;
    if !same || !artifact::exists(context, artifact).await? {
        return Ok(None);
    }
    let values_files = match status.observed_values_files.is_empty() {
        true => Options::of(source).values_files,
        false => status.observed_values_files.clone(),
    };
    Ok(Some(PlannedArtifact {
        plan: plan.clone(),
        values_files,
        content: None,
        verified: false,
    }))
}

async fn from_repository(
    context: &Context<'_>,
    source: &HelmChart,
    repository: &HelmRepository,
) -> Result<PlannedArtifact, Failure> {
    let trust = match &source.spec.verify {
        Some(verify) if repository.is_oci() => {
            Some(Trust::read(context, &source.id.namespace, verify).await?)
        }
        Some(_) => return Err(remote::unverifiable()),
        None => None,
    };
    let mut found = remote::find(context, repository, &source.spec.chart, source.version()).await?;
    let verified = match &trust {
        // In each step, even if the artifact exists: a key may have been removed since.
        Some(trust) => remote::verify(context, &mut found, trust).await? == Verdict::Verified,
        None => false,
    };
    let options = Options::of(source);
    let plan = options.remote(&found.name, &found.version)?;
    if let Some(built) = find_current(context, source, &plan).await? {
        return Ok(PlannedArtifact { verified, ..built });
    }
    let content = remote::download(context, &found).await?;
    let (content, values_files) = options.build_remote(&plan, content, &context.fuel)?;
    Ok(PlannedArtifact {
        plan,
        values_files,
        content: Some(content),
        verified,
    })
}

async fn from_files(
    context: &Context<'_>,
    source: &HelmChart,
    id: &ObjectRef,
    files: &ArtifactStatus,
) -> Result<PlannedArtifact, Failure> {
    let tree = files::load_of(context, id, files).await?;
    let options = Options::of(source);
    let local = build::Local::read(&tree, &source.spec.chart, &context.fuel)?;
    let plan = options.local(&local, id.kind, &files.revision)?;
    if let Some(built) = find_current(context, source, &plan).await? {
        return Ok(built);
    }
    if !plan.packaged {
        return Ok(PlannedArtifact {
            plan,
            values_files: Vec::new(),
            content: local.into_archive(),
            verified: false,
        });
    }
    let (mut package, values_files, needs) = options.build_local(&plan, local, &tree)?;
    dependencies::add(context, needs, &mut package).await?;
    let content = Some(build::pack(package, &plan)?);
    Ok(PlannedArtifact {
        plan,
        values_files,
        content,
        verified: false,
    })
}
