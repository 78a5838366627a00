//! The plan of a HelmChart's artifact, and the build of it from a chart's files. Pure.

use super::chart_dependencies::{self as dependencies, RemoteSubchart};
use super::chart_failure::{pull, reference};
use bytes::Bytes;
use driftless_flux::{FluxKind, HelmChart, reason};
use driftless_fuel::Tank;
use driftless_go::semver::Version;
use driftless_helm::values::Table;
use driftless_helm::{LoadLimits, Metadata, Package};
use driftless_kernel::failure::Failure;
use driftless_manifest::{FileTree, Kind as Entry, Reader, TreePath};

/// The build options of a HelmChart.
pub(super) struct Options {
    /// The files whose values are merged; empty if that is only `values.yaml`, which is the chart's
    /// default.
    pub values_files: Vec<String>,
    skip_missing: bool,
    generation: i64,
    follows_revision: bool,
}

/// The name and version of the artifact to build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// The chart's name.
    pub name: String,
    /// The chart's version, with build metadata for merged values files and the source's revision.
    pub version: String,
    /// True if the chart must be packed.
    pub packaged: bool,
}

/// A chart in a source's files.
pub(super) struct Local {
    directory: TreePath,
    package: Package,
    metadata: Metadata,
    /// The bytes of the chart if it is a packed one.
    archive: Option<Bytes>,
}

impl Options {
    pub fn of(source: &HelmChart) -> Self {
        let mut values_files = source.values_files();
        if let [only] = values_files.as_slice()
            && clean(only) == "values.yaml"
        {
            values_files.clear();
        }
        Self {
            values_files,
            skip_missing: source.spec.ignore_missing_values_files,
            generation: source.generation(),
            follows_revision: source.spec.reconcile_strategy.as_deref() == Some("Revision"),
        }
    }

    /// Returns the plan for a chart of a repository.
    ///
    /// # Errors
    /// The version is not valid.
    pub fn remote(&self, name: &str, version: &str) -> Result<Plan, Failure> {
        let packaged = !self.values_files.is_empty();
        let version = match packaged {
            true => with_metadata(version, &self.generation.to_string())?,
            false => version.to_owned(),
        };
        Ok(Plan {
            name: name.to_owned(),
            version,
            packaged,
        })
    }

    /// Returns the plan for a chart in the files of a source that has this revision.
    ///
    /// # Errors
    /// The version is not valid.
    pub fn local(&self, local: &Local, kind: FluxKind, revision: &str) -> Result<Plan, Failure> {
        let mut parts = Vec::new();
        if self.follows_revision {
            parts.push(short_revision(kind, revision));
        }
        if !self.values_files.is_empty() {
            parts.push(self.generation.to_string());
        }
        let version = match parts.is_empty() {
            true => local.metadata.version.clone(),
            false => with_metadata(&local.metadata.version, &parts.join("."))?,
        };
        Ok(Plan {
            name: local.metadata.name.clone(),
            version,
            packaged: local.archive.is_none() || !parts.is_empty(),
        })
    }

    /// Builds the artifact from a downloaded chart; returns its bytes and the values files that
    /// exist.
    ///
    /// # Errors
    /// The content is not a chart, it is another chart, or values files cannot be merged.
    pub fn build_remote(
        &self,
        plan: &Plan,
        content: Bytes,
        step: &Tank,
    ) -> Result<(Bytes, Vec<String>), Failure> {
        let limits = LoadLimits::of_step(step);
        let mut package =
            Package::from_archive(&content, &plan.name, &limits).map_err(|error| pull(&error))?;
        let metadata = package.metadata().map_err(|error| pull(&error))?;
        let leaf = plan.name.rsplit('/').next().unwrap_or_default();
        if metadata.name != leaf {
            let message = format!(
                "the archive holds the chart '{}', expected '{leaf}'",
                metadata.name
            );
            return Err(pull(&message));
        }
        if !plan.packaged {
            return Ok((content, Vec::new()));
        }
        let read = |name: &str| {
            let place = clean(name);
            package.file(&place).map(<[u8]>::to_vec)
        };
        let missing = |name: &str| format!("no values file found at path '{name}'");
        let (values, used) = self.merge("failed to merge chart values: ", missing, read)?;
        package.set_values(&values);
        Ok((pack(package, plan)?, used))
    }

    /// Returns the chart with its values merged, the values files that exist, and the subcharts
    /// that must be fetched.
    ///
    /// # Errors
    /// Values files cannot be merged, or a local subchart is missing.
    pub fn build_local(
        &self,
        plan: &Plan,
        local: Local,
        tree: &FileTree,
    ) -> Result<(Package, Vec<String>, Vec<RemoteSubchart>), Failure> {
        let reader = Reader::new(tree);
        let Local {
            directory,
            mut package,
            metadata,
            archive,
        } = local;
        let mut used = Vec::new();
        if !self.values_files.is_empty() {
            let read = |name: &str| {
                let place = TreePath::secure_join(name).ok()?;
                Some(reader.read(&place).ok()?.to_vec())
            };
            let missing = |name: &str| {
                let place = TreePath::secure_join(name).unwrap_or_default();
                format!(
                    "no values file found at path '/{}' (reference '{name}')",
                    place.as_str()
                )
            };
            let (values, there) = self.merge("", missing, read)?;
            package.set_values(&values);
            used = there;
        }
        // A packed chart is used with the subcharts that it contains.
        let needs = match archive {
            Some(_) => Vec::new(),
            None => dependencies::local(&reader, &directory, &metadata, &mut package)?,
        };
        tracing::debug!(
            chart = plan.name,
            version = plan.version,
            needs = needs.len(),
            "packing"
        );
        Ok((package, used, needs))
    }

    /// Merges the values files; returns the values and the files that exist.
    fn merge(
        &self,
        prefix: &str,
        missing: impl Fn(&str) -> String,
        read: impl Fn(&str) -> Option<Vec<u8>>,
    ) -> Result<(Table, Vec<String>), Failure> {
        let fail = |problem: String| {
            let message = format!("values files merge error: {prefix}{problem}");
            Failure::terminal(reason::VALUES_FILES, message)
        };
        let (used, gone): (Vec<String>, Vec<String>) = self
            .values_files
            .iter()
            .cloned()
            .partition(|file| read(file).is_some());
        if let (Some(gone), false) = (gone.first(), self.skip_missing) {
            return Err(fail(missing(gone)));
        }
        let values = Package::merge_values(used.iter().map(String::as_str), read);
        let values = values.map_err(|error| fail(error.to_string()))?;
        Ok((values, used))
    }
}

impl Local {
    /// Reads a chart in files: a directory, or a packed one.
    ///
    /// # Errors
    /// `path` does not exist, or holds no valid chart.
    pub fn read(tree: &FileTree, path: &str, step: &Tank) -> Result<Self, Failure> {
        let reader = Reader::new(tree);
        let directory = TreePath::secure_join(path).map_err(|error| reference(&error))?;
        let limits = LoadLimits::of_step(step);
        let kind = reader.kind(&directory).map_err(|error| reference(&error))?;
        let (package, archive) = match kind {
            None => {
                return Err(reference(&format!("no chart found at path '{path}'")));
            }
            Some(Entry::Dir) => {
                let package = Package::from_tree(&reader, &directory, &limits);
                (package.map_err(|error| reference(&error))?, None)
            }
            Some(_) => {
                let content = reader.read(&directory).map_err(|error| reference(&error))?;
                let package = Package::from_archive(&content, path, &limits);
                let package = package.map_err(|error| reference(&error))?;
                (package, Some(content))
            }
        };
        let metadata = package.metadata().map_err(|error| reference(&error))?;
        Ok(Self {
            directory,
            package,
            metadata,
            archive,
        })
    }

    /// Returns the bytes of the chart if it is a packed one.
    pub fn into_archive(self) -> Option<Bytes> {
        self.archive
    }
}

/// Packs a chart under the plan's version.
///
/// # Errors
/// The chart cannot be packed.
pub(super) fn pack(mut package: Package, plan: &Plan) -> Result<Bytes, Failure> {
    let packed = package
        .set_version(&plan.version)
        .and_then(|()| package.pack(&plan.name));
    let packed = packed.map_err(|error| {
        Failure::retry(
            reason::CHART_PACKAGE,
            format!("chart package error: {error}"),
        )
    })?;
    Ok(Bytes::from(packed))
}

/// Normalizes a path: `./a/values.yaml` becomes `a/values.yaml`.
fn clean(path: &str) -> String {
    TreePath::root()
        .join(path)
        .map_or_else(|_| path.to_owned(), |path| path.to_string())
}

/// Sets the build metadata of a version, so that consumers notice another chart: `1.2.3` and `5`
/// become `1.2.3+5`.
fn with_metadata(version: &str, metadata: &str) -> Result<String, Failure> {
    let fail = |error: String| {
        Failure::terminal(
            reason::METADATA_PATCH,
            format!(
                "chart metadata patch error: failed to parse version from chart metadata as SemVer: {error}"
            ),
        )
    };
    let mut version = Version::parse(version).map_err(|error| fail(error.into()))?;
    metadata.clone_into(&mut version.metadata);
    Ok(version.to_string())
}

/// Returns the part of a source's revision for a chart's version: 12 characters of the hash.
fn short_revision(kind: FluxKind, revision: &str) -> String {
    match kind {
        FluxKind::GitRepository | FluxKind::Bucket => {
            let hash = revision.rsplit([':', '/']).next().unwrap_or_default();
            hash.chars().take(12).collect()
        }
        _ => revision.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(with_metadata("6.5.0", "3").unwrap(), "6.5.0+3");
        assert_eq!(
            with_metadata("6.5.0-rc.1+old", "3").unwrap(),
            "6.5.0-rc.1+3"
        );
        assert!(
            with_metadata("nonsense", "3")
                .unwrap_err()
                .message
                .contains("SemVer")
        );
        let git = "main@sha1:6f2d1c8a9b3e4f5061728394a5b6c7d8e9f00112";
        assert_eq!(short_revision(FluxKind::GitRepository, git), "6f2d1c8a9b3e");
        assert_eq!(
            short_revision(FluxKind::Bucket, "sha256:0123456789abcdef"),
            "0123456789ab"
        );
    }
}
