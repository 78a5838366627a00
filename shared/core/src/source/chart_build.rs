//! What a HelmChart's artifact is to be, and how it is made of a chart's files. Pure.

use super::chart_dependencies::{self as dependencies, Needed};
use crate::failure::Failure;
use crate::flux::{FluxKind, HelmChart, reason};
use bytes::Bytes;
use driftless_helm::semver::Version;
use driftless_helm::values::Table;
use driftless_helm::{HelmError, LoadLimits, Metadata, Package};
use driftless_manifest::{FileTree, Kind as Entry, Reader, TreePath};
use std::fmt::Display;

/// What a HelmChart asks for beside the chart itself.
pub(super) struct Wish {
    /// The files whose values are merged; none when that is `values.yaml` alone, as it is the chart's already.
    pub values_files: Vec<String>,
    skip_missing: bool,
    generation: i64,
    follows_revision: bool,
}

/// What the artifact is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// The chart's name.
    pub name: String,
    /// Its version, with the build metadata that tells what was done to it.
    pub version: String,
    /// Whether it is packed anew.
    pub packaged: bool,
}

/// A chart in a source's files.
pub(super) struct Local {
    directory: TreePath,
    package: Package,
    metadata: Metadata,
    /// It is a packed chart, and these are its bytes.
    archive: Option<Bytes>,
}

impl Wish {
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

    /// The plan for a chart of a repository.
    ///
    /// # Errors
    /// A version that is none.
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

    /// The plan for a chart in the files of a source that has this revision.
    ///
    /// # Errors
    /// A version that is none.
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

    /// The artifact's bytes from a downloaded chart, and the values files that were there.
    ///
    /// # Errors
    /// No chart, another chart than the one that was asked for, values files that cannot be merged.
    pub fn build_remote(
        &self,
        plan: &Plan,
        content: Bytes,
    ) -> Result<(Bytes, Vec<String>), Failure> {
        let mut package = open(&content, &plan.name).map_err(|error| pull(&error))?;
        let metadata = package.metadata().map_err(|error| pull(&error))?;
        let leaf = plan.name.rsplit('/').next().unwrap_or_default();
        if metadata.name != leaf {
            let what = format!(
                "the archive holds the chart '{}', and '{leaf}' was asked for",
                metadata.name
            );
            return Err(pull(&what));
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

    /// The chart with its values merged, the values files that were there, and the subcharts that must be fetched.
    ///
    /// # Errors
    /// Values files that cannot be merged, subcharts that are not where they are said to be.
    pub fn build_local(
        &self,
        plan: &Plan,
        local: Local,
        tree: &FileTree,
    ) -> Result<(Package, Vec<String>, Vec<Needed>), Failure> {
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
        // A packed chart has its subcharts, or goes without.
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

    /// The values of the values files, and which of them were there.
    fn merge(
        &self,
        lead: &str,
        missing: impl Fn(&str) -> String,
        read: impl Fn(&str) -> Option<Vec<u8>>,
    ) -> Result<(Table, Vec<String>), Failure> {
        let fail = |what: String| {
            let what = format!("values files merge error: {lead}{what}");
            Failure::terminal(reason::VALUES_FILES, what)
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
    /// Finds a chart in files: a directory, or a packed one.
    ///
    /// # Errors
    /// There is none.
    pub fn read(tree: &FileTree, path: &str) -> Result<Self, Failure> {
        let reader = Reader::new(tree);
        let directory = TreePath::secure_join(path).map_err(|error| reference(&error))?;
        let limits = LoadLimits::default();
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
                let package = open(&content, path).map_err(|error| reference(&error))?;
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

    /// The bytes of a packed chart.
    pub fn into_archive(self) -> Option<Bytes> {
        self.archive
    }
}

/// The bytes of a chart under the plan's version.
///
/// # Errors
/// It cannot be packed.
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

fn open(content: &[u8], name: &str) -> Result<Package, HelmError> {
    Package::from_archive(content, name, &LoadLimits::default())
}

/// `./a/values.yaml` is `a/values.yaml`.
fn clean(path: &str) -> String {
    TreePath::root()
        .join(path)
        .map_or_else(|_| path.to_owned(), |path| path.to_string())
}

/// `1.2.3` and `5` are `1.2.3+5`: a consumer notices that the chart is another one.
fn with_metadata(version: &str, metadata: &str) -> Result<String, Failure> {
    let fail = |what: String| {
        Failure::terminal(
            reason::METADATA_PATCH,
            format!(
                "chart metadata patch error: failed to parse version from chart metadata as SemVer: {what}"
            ),
        )
    };
    let mut version = Version::parse(version).map_err(fail)?;
    metadata.clone_into(&mut version.metadata);
    Ok(version.to_string())
}

/// The part of a source's revision that goes into a chart's version: 12 characters of the hash.
fn short_revision(kind: FluxKind, revision: &str) -> String {
    match kind {
        FluxKind::GitRepository | FluxKind::Bucket => {
            let hash = revision.rsplit([':', '/']).next().unwrap_or_default();
            hash.chars().take(12).collect()
        }
        _ => revision.to_owned(),
    }
}

/// The chart that was asked for is none, or is not there: only a change helps.
pub(super) fn reference(what: &impl Display) -> Failure {
    Failure::terminal(
        reason::INVALID_CHART_REFERENCE,
        format!("invalid chart reference: {what}"),
    )
}

/// The chart could not be had.
pub(super) fn pull(what: &impl Display) -> Failure {
    Failure::retry(reason::CHART_PULL, format!("chart pull error: {what}"))
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
