//! The missing subcharts of a chart in a source's files: from the same files, or from repositories.
//! Repositories with an object in the chart's namespace are read with its credentials, others
//! anonymously.

use super::chart_remote as remote;
use crate::repository_url;
use driftless_flux::{FluxKind, HelmRepository, Invalid, reason};
use driftless_go::semver::{Constraint, Version};
use driftless_helm::{Dependency, LoadLimits, Metadata, Package};
use driftless_kernel::context::Context;
use driftless_kernel::failure::Failure;
use driftless_manifest::{Reader, TreePath};
use std::collections::BTreeSet;
use std::fmt::Display;

/// Maximum number of subcharts that are fetched for one chart.
const MAX_REMOTE: usize = 64;

/// A subchart of a repository.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RemoteSubchart {
    name: String,
    version: String,
    repository: String,
}

/// Adds the missing subcharts from the same files, and returns those that must be fetched. As in
/// Flux, Chart.lock takes precedence over Chart.yaml.
///
/// # Errors
/// A local subchart is missing or has another version, or too many must be fetched.
pub(super) fn local(
    reader: &Reader<'_>,
    directory: &TreePath,
    metadata: &Metadata,
    package: &mut Package,
) -> Result<Vec<RemoteSubchart>, Failure> {
    let mut needs = Vec::new();
    for dependency in missing(package, metadata)? {
        let Dependency {
            name,
            version,
            repository,
            ..
        } = dependency;
        if repository.is_empty() || repository.starts_with("file://") {
            let place = match repository.strip_prefix("file://") {
                Some(path) => path.to_owned(),
                None => format!("charts/{name}"),
            };
            let inner = from_tree(reader, directory, &place, &version, package.limits());
            let inner = inner.map_err(|error| {
                fail(&format!("failed to add local dependency '{name}': {error}"))
            })?;
            package.add_chart(&name, inner);
        } else {
            needs.push(RemoteSubchart {
                name,
                version,
                repository,
            });
        }
    }
    if needs.len() > MAX_REMOTE {
        let message = format!("more than {MAX_REMOTE} dependencies are not in charts/");
        return Err(fail(&message));
    }
    Ok(needs)
}

/// Returns the dependencies whose chart is not below `charts/`.
fn missing(package: &Package, metadata: &Metadata) -> Result<Vec<Dependency>, Failure> {
    let locked = package.locked().map_err(|error| fail(&error))?;
    let wanted = match locked {
        Some(locked) => locked,
        None => metadata.dependencies.iter().flatten().cloned().collect(),
    };
    let have = package.subchart_names();
    let mut seen = BTreeSet::new();
    Ok(wanted
        .into_iter()
        .filter(|one| !have.contains(&one.name) && !have.contains(&one.alias))
        // A chart under two aliases is needed only once.
        .filter(|one| seen.insert((one.name.clone(), one.version.clone())))
        .collect())
}

fn from_tree(
    reader: &Reader<'_>,
    directory: &TreePath,
    path: &str,
    range: &str,
    limits: &LoadLimits,
) -> Result<Package, Invalid> {
    let place = directory.join(path).map_err(Invalid::new)?;
    if reader.kind(&place).map_err(Invalid::new)?.is_none() {
        return Err(format!("no chart found at '{place}'").into());
    }
    let inner = Package::from_tree(reader, &place, limits);
    let inner = inner.map_err(Invalid::new)?;
    let metadata = inner.metadata().map_err(Invalid::new)?;
    let constraint = Constraint::parse(range).map_err(|error| {
        Invalid::from(format!(
            "invalid version/constraint format '{range}': {error}"
        ))
    })?;
    let version = Version::parse(&metadata.version).map_err(Invalid::new)?;
    if !constraint.check(&version) {
        return Err(format!(
            "can't get a valid version for constraint '{range}': '{place}' is {}",
            metadata.version
        )
        .into());
    }
    Ok(inner)
}

/// Fetches subcharts.
///
/// # Errors
/// A subchart cannot be downloaded.
pub(super) async fn add(
    context: &Context<'_>,
    needs: Vec<RemoteSubchart>,
    package: &mut Package,
) -> Result<(), Failure> {
    for needed in needs {
        let done = from_repository(context, &needed, package).await;
        done.map_err(|failure| Failure {
            message: format!(
                "dependency build error: failed to add remote dependency '{}': {}",
                needed.name, failure.message
            ),
            reason: match failure.reason {
                reason::UNSUPPORTED => reason::UNSUPPORTED,
                _ => reason::DEPENDENCY_BUILD,
            },
            ..failure
        })?;
    }
    Ok(())
}

async fn from_repository(
    context: &Context<'_>,
    needed: &RemoteSubchart,
    package: &mut Package,
) -> Result<(), Failure> {
    let RemoteSubchart {
        name,
        version,
        repository,
    } = needed;
    if repository.starts_with('@') || repository.starts_with("alias:") {
        let message = format!("aliased repository dependency is not supported: {repository}");
        return Err(Failure::retry(reason::DEPENDENCY_BUILD, message));
    }
    let object = repository_object(context, repository).await?;
    let found = remote::find_subchart(context, object.as_ref(), repository, name, version).await?;
    let data = remote::download(context, &found).await?;
    package.add_archive(&format!("{name}-{}.tgz", found.version), &data);
    Ok(())
}

/// Returns the HelmRepository of the namespace that has this address, and with it the credentials.
async fn repository_object(
    context: &Context<'_>,
    url: &str,
) -> Result<Option<HelmRepository>, Failure> {
    let wanted = normal(url);
    let objects = context.hub.list(FluxKind::HelmRepository).await?;
    let mine = objects
        .into_iter()
        .filter(|object| object.namespace() == context.id.namespace)
        .filter_map(|object| HelmRepository::from_object(object).ok())
        .find(|repository| normal(&repository.spec.url) == wanted);
    Ok(mine)
}

fn normal(url: &str) -> String {
    repository_url(url).map_or_else(|_| url.trim_end_matches('/').to_owned(), String::from)
}

fn fail(problem: &impl Display) -> Failure {
    Failure::retry(
        reason::DEPENDENCY_BUILD,
        format!("dependency build error: {problem}"),
    )
}
