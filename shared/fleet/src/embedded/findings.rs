//! Errors of objects, with the file and line if they are known.

use super::{Row, World};
use crate::error::Error;
use crate::fleet::{Build, Files, Location, charts_in_place_of};
use crate::ready::shorten;
use driftless_flux::{FluxKind, GitReference, GitRepository, Kustomization, ObjectRef};
use driftless_kernel::hub::Hub;
use driftless_manifest::yaml::Node;
use driftless_manifest::{FileTree, ObjectId};
use regex::Regex;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, LazyLock, PoisonError};

/// An error of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file, and the line if it is known.
    pub place: Option<Location>,
    /// The error without the place.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{place}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl World {
    /// Splits the message of an object's `Ready` condition into findings, each with the place that
    /// it is about: the file that it mentions, else the file of the object that it mentions, else
    /// the file of the Flux object.
    ///
    /// # Errors
    /// A server refuses a request.
    pub async fn findings(&self, row: &Row) -> Result<Vec<Finding>, Error> {
        let hub = self.hub(&row.hub).await?;
        let own = self.files(&hub, &row.id).await?;
        let owner = match &row.owner {
            Some(owner) => self.files(&hub, owner).await?,
            None => None,
        };
        let itself = owner
            .as_ref()
            .and_then(|(files, near)| files.of_object(near, &id_of(&row.id), &row.message));
        let itself = owner.as_ref().zip(itself);
        // No object of the fleet applies a hub's root: search the repository for it.
        let root = match &row.owner {
            Some(_) => None,
            None => self.place_of(&id_of(&row.id), &row.message),
        };
        let itself = |line: &str| {
            let Some(((files, _), place)) = itself.as_ref() else {
                return root.clone();
            };
            let field = field_of(row).unwrap_or(line);
            Some(files.of_field(place.clone(), field))
        };
        let locate = |line: &str| {
            let own = own.as_ref();
            let of_file = own.and_then(|(files, _)| {
                let (place, text) = files.of_message(line)?;
                Some((place, text.to_owned() + &files.left_out(text)))
            });
            if let Some((place, text)) = of_file {
                return Finding::new(Some(place), &text);
            }
            let named = object_of(line).zip(own).and_then(|(id, (files, near))| {
                let place = files.of_object(near, &id, line)?;
                Some(files.of_field(place, line))
            });
            Finding::new(named.or_else(|| itself(line)), line)
        };
        let mut findings: Vec<Finding> = row
            .message
            .lines()
            .filter(|line| !line.trim().is_empty())
            .map(locate)
            .collect();
        if lacks_chart(&row.message)
            && let Some(charts) = self.charts_of(&hub, &row.id).await?
        {
            for finding in &mut findings {
                finding.message.push_str(&charts);
            }
        }
        Ok(findings)
    }

    /// Describes the charts of the directory that replaces the chart repository of an object;
    /// `None` without such a directory.
    async fn charts_of(&self, hub: &Hub, id: &ObjectRef) -> Result<Option<String>, Error> {
        let mut at = id.clone();
        // At most a release, its chart and the chart's repository.
        for _ in 0..3 {
            let Some(object) = hub.get(&at).await? else {
                return Ok(None);
            };
            if let Some(url) = object.pointer("/spec/url").and_then(Value::as_str) {
                let url = url.trim_end_matches('/');
                let charts = charts_in_place_of(&self.git, url).await?;
                return Ok(charts.map(|has| format!("; the directory in place of {url} has {has}")));
            }
            let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
            let created = text("/status/helmChart").and_then(|chart| chart.split_once('/'));
            let next = match at.kind {
                FluxKind::HelmRelease if created.is_some() => {
                    created.map(|(namespace, name)| (FluxKind::HelmChart, namespace, name))
                }
                kind => {
                    let field = match kind {
                        FluxKind::HelmRelease => "/spec/chartRef",
                        _ => "/spec/sourceRef",
                    };
                    let kind = text(&format!("{field}/kind")).and_then(FluxKind::parse);
                    let namespace = text(&format!("{field}/namespace"));
                    let name = text(&format!("{field}/name"));
                    kind.zip(name)
                        .map(|(kind, name)| (kind, namespace.unwrap_or(&at.namespace), name))
                }
            };
            let Some((kind, namespace, name)) = next else {
                return Ok(None);
            };
            at = ObjectRef::new(kind, namespace, name);
        }
        Ok(None)
    }

    /// Returns the files of a Kustomization's source, and the directory that it builds.
    pub(super) async fn files(
        &self,
        hub: &Hub,
        id: &ObjectRef,
    ) -> Result<Option<(Arc<Files>, Build)>, Error> {
        if id.kind != FluxKind::Kustomization {
            return Ok(None);
        }
        let one = hub.get(id).await?.map(Kustomization::from_object);
        let Some(Ok(one)) = one else {
            return Ok(None);
        };
        let Ok(source) = one.source() else {
            return Ok(None);
        };
        let Some(object) = hub.get(&source).await? else {
            return Ok(None);
        };
        let taken = match source.kind {
            FluxKind::GitRepository => GitRepository::from_object(object)
                .ok()
                .and_then(|source| self.git.last_read(&source.spec.url, &source.reference())),
            FluxKind::OCIRepository => {
                let url = object.pointer("/spec/url").and_then(Value::as_str);
                url.and_then(|url| self.git.last_read(url, &GitReference::default()))
            }
            _ => None,
        };
        let build = Build {
            components: one.spec.components.clone(),
            ..Build::of(&one.spec.path)
        };
        Ok(taken.map(|(root, tree)| (self.files_of(&root, tree), build)))
    }

    /// Returns the finding of a message about an object that no Flux object reports: at the file
    /// of the object that the message mentions if a file contains it, else at the object's own.
    pub(super) fn finding_of(&self, id: Option<&ObjectId>, message: &str) -> Finding {
        let named = object_of(message).filter(|id| self.is_in_files(id));
        let place = named
            .as_ref()
            .or(id)
            .and_then(|id| self.place_of(id, message));
        Finding::new(place, message)
    }

    /// Searches the files of all directories for an object.
    fn place_of(&self, id: &ObjectId, message: &str) -> Option<Location> {
        self.git.trees().into_iter().find_map(|(root, tree)| {
            let files = self.files_of(&root, tree);
            let place = files.of_object(&Build::of("."), id, message)?;
            Some(files.of_field(place, message))
        })
    }

    /// Returns the documents of every file that may contain a definition.
    pub fn definitions(&self) -> Vec<Arc<Vec<Node>>> {
        let mut all = Vec::new();
        for (root, tree) in self.git.trees() {
            let files = self.files_of(&root, tree.clone());
            let defines = tree.index().iter().filter(|(path, _)| {
                let content = tree
                    .content(path)
                    .map(|content| String::from_utf8_lossy(content));
                content.is_some_and(|content| content.contains("CustomResourceDefinition"))
            });
            all.extend(defines.map(|(path, _)| files.documents(path)));
        }
        all
    }

    /// Returns the names of the Kustomizations in the files of all directories.
    pub fn kustomizations(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for (root, tree) in self.git.trees() {
            names.extend(self.files_of(&root, tree).kustomizations());
        }
        names
    }

    /// Checks whether a file contains an object of this kind and name.
    pub fn has_object(&self, id: &ObjectRef) -> bool {
        self.is_in_files(&id_of(id))
    }

    fn is_in_files(&self, id: &ObjectId) -> bool {
        let mut trees = self.git.trees().into_iter();
        trees.any(|(root, tree)| self.files_of(&root, tree).has(id))
    }

    /// Returns the files of a tree, from the cache if the tree is unchanged.
    fn files_of(&self, root: &Path, tree: Arc<FileTree>) -> Arc<Files> {
        let mut known = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(files) = known.get(root).filter(|files| files.are_of(&tree)) {
            return files.clone();
        }
        let files = Arc::new(Files::new(root, tree));
        known.insert(root.to_owned(), files.clone());
        files
    }
}

impl Finding {
    /// Shortens a message, and adds a hint to that of a variable without a value.
    fn new(place: Option<Location>, message: &str) -> Self {
        let hint = match message.contains("variable not set (strict mode)") {
            true => {
                "; give it a value or a default, ${NAME:=default}; Flux before 2.9 replaces it with an empty string, and so does the feature gate StrictPostBuildSubstitutions=false"
            }
            false => "",
        };
        Self {
            place,
            message: shorten(&without_wait(message)) + hint,
        }
    }
}

/// Removes the duration of a health check, because the clock is simulated.
pub fn without_wait(message: &str) -> String {
    static FORM: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"health check failed after [0-9hms.]+").ok());
    match FORM.as_ref() {
        Some(form) => form
            .replace_all(message, "health check failed")
            .into_owned(),
        None => message.to_owned(),
    }
}

/// The parts of messages about a chart or version that a repository does not have, without the
/// charts that it has.
const NO_CHART: &str = "no chart name found";
const NO_VERSION: &str = "chart with version matching";
const NO_TAG: &str = "no match found for semver";

fn lacks_chart(message: &str) -> bool {
    [NO_CHART, NO_VERSION, NO_TAG]
        .iter()
        .any(|part| message.contains(part))
}

/// Returns the field of a message that mentions none, for a directory, source or chart that does
/// not exist.
fn field_of(row: &Row) -> Option<&'static str> {
    let has = |part: &str| row.message.contains(part);
    let is_release = row.id.kind == FluxKind::HelmRelease;
    if is_release && (has(NO_VERSION) || has(NO_TAG)) {
        return Some("spec.chart.spec.version");
    }
    if is_release && (has(NO_CHART) || has("has no chart")) {
        return Some("spec.chart.spec.chart");
    }
    if row.message.contains("path not found") {
        return Some("spec.path");
    }
    let source = row.source.as_ref()?;
    if !row.message.ends_with("not found") || row.message.starts_with("spec.") {
        return None;
    }
    Some(match (row.id.kind, source.kind) {
        (FluxKind::HelmRelease, FluxKind::HelmChart) => "spec.chart.spec.sourceRef.name",
        (FluxKind::HelmRelease, FluxKind::HelmRepository) => "spec.chart.spec.sourceRef.name",
        (FluxKind::HelmRelease, _) => "spec.chartRef.name",
        _ => "spec.sourceRef.name",
    })
}

/// Returns the id of a Flux object.
pub(super) fn id_of(id: &ObjectRef) -> ObjectId {
    ObjectId {
        kind: id.kind.as_str().to_owned(),
        group: id.kind.group().to_owned(),
        namespace: id.namespace.clone(),
        name: id.name.clone(),
    }
}

/// Returns the object that a message begins with: `Kind/namespace/name MESSAGE`.
pub fn object_of(message: &str) -> Option<ObjectId> {
    static FORM: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"^([A-Z][A-Za-z0-9]*)/(?:([a-z0-9.-]+)/)?([^\s/]+?):? ").ok());
    let found = FORM.as_ref()?.captures(message)?;
    let part = |at| found.get(at).map_or("", |part| part.as_str()).to_owned();
    Some(ObjectId {
        kind: part(1),
        group: String::new(),
        namespace: part(2),
        name: part(3),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_messages() {
        let name = |message| {
            object_of(message).map(|id| format!("{} {} {}", id.kind, id.namespace, id.name))
        };
        assert_eq!(
            name("ConfigMap/apps/a dry-run failed: x").unwrap(),
            "ConfigMap apps a"
        );
        assert_eq!(
            name("ClusterRole/a:b dry-run failed").unwrap(),
            "ClusterRole  a:b"
        );
        assert_eq!(
            name("Secret/apps/db: it is encrypted").unwrap(),
            "Secret apps db"
        );
        assert!(name("dependency 'a/b' is not ready").is_none());
    }
}
