//! The origin of an object, for `buildMetadata`.

use crate::budget::Budget;
use crate::error::Error;
use crate::node::Node;
use crate::remote_entry;
use crate::resource::{ORIGIN, Resource, TRANSFORMATIONS};
use driftless_manifest::yaml;
use serde_json::Value;
use std::fmt::Write as _;

/// The origin of an object, relative to the directory of the build. Written into objects by
/// `buildMetadata`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The path of the file, or of the directory until the file is known.
    pub path: String,
    /// The URL of the repository, for fetched files: the path is relative to its root.
    pub repository: String,
    pub reference: String,
    /// The file with the configuration, for objects that were generated and for transformations.
    pub configured_in: String,
    /// The plugin that generated or transformed the object.
    pub configured_by: Option<Plugin>,
}

/// A generator or transformer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plugin {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub namespace: String,
}

impl Origin {
    /// Returns the origin of what an entry names: below this one, or in a repository.
    pub fn join(&self, entry: &str) -> Self {
        match remote_entry::origin_of(entry) {
            Some((repository, path, reference)) => Self {
                path,
                repository,
                reference,
                ..self.clone()
            },
            None => Self {
                path: clean(&self.path, entry),
                ..self.clone()
            },
        }
    }

    /// Returns the origin of what a field of a kustomization generates or changes.
    pub fn builtin(&self, file_name: &str, kind: &str) -> Self {
        Self {
            path: String::new(),
            configured_in: clean(&self.path, file_name),
            configured_by: Some(Plugin {
                api_version: "builtin".to_owned(),
                kind: kind.to_owned(),
                ..Plugin::default()
            }),
            ..self.clone()
        }
    }

    /// Returns the origin of what a plugin's configuration generates or changes; the
    /// configuration's own origin names its file.
    pub fn of_plugin(config: &Resource) -> Option<Self> {
        let origin = config.annotation(ORIGIN)?;
        let field = |name: &str| {
            let mut lines = origin.lines();
            let value = lines.find_map(|line| line.strip_prefix(name));
            let value = value.unwrap_or_default().trim_matches(['"', '\'']);
            value.to_owned()
        };
        Some(Self {
            path: String::new(),
            repository: field("repo: "),
            reference: field("ref: "),
            configured_in: field("path: "),
            configured_by: Some(Plugin {
                api_version: config.api_version().to_owned(),
                kind: config.kind().to_owned(),
                name: config.name().to_owned(),
                namespace: config.namespace().to_owned(),
            }),
        })
    }

    /// Returns the value of the annotation.
    pub fn to_yaml(&self) -> String {
        let mut text = String::new();
        let mut line = |indent: &str, key: &str, value: &str| {
            if !value.is_empty() {
                let value = yaml::to_string(&Value::String(value.to_owned()));
                let _infallible = write!(text, "{indent}{key}: {value}");
            }
        };
        line("", "path", &self.path);
        line("", "repo", &self.repository);
        line("", "ref", &self.reference);
        line("", "configuredIn", &self.configured_in);
        if let Some(plugin) = &self.configured_by {
            text.push_str("configuredBy:\n");
            let mut line = |key: &str, value: &str| {
                if !value.is_empty() {
                    let value = yaml::to_string(&Value::String(value.to_owned()));
                    let _infallible = write!(text, "  {key}: {value}");
                }
            };
            line("apiVersion", &plugin.api_version);
            line("kind", &plugin.kind);
            line("name", &plugin.name);
            line("namespace", &plugin.namespace);
        }
        text
    }

    /// Writes the origin into an object that does not have one yet.
    pub fn annotate_new(&self, resource: &mut Resource, budget: &Budget) -> Result<(), Error> {
        match resource.annotation(ORIGIN) {
            Some(_) => Ok(()),
            None => annotate(resource, ORIGIN, &self.to_yaml(), budget),
        }
    }

    /// Records a transformation: an object without an origin was created by it.
    pub fn note(&self, resource: &mut Resource, budget: &Budget) -> Result<(), Error> {
        if resource.annotation(ORIGIN).is_none() {
            return annotate(resource, ORIGIN, &self.to_yaml(), budget);
        }
        let before = resource.annotation(TRANSFORMATIONS).unwrap_or_default();
        budget.spend_steps(before.len())?;
        let mut all = before.to_owned();
        for (at, line) in self.to_yaml().lines().enumerate() {
            all.push_str(if at == 0 { "- " } else { "  " });
            all.push_str(line);
            all.push('\n');
        }
        annotate(resource, TRANSFORMATIONS, &all, budget)
    }
}

/// Sets an annotation; all annotations of the object are rewritten.
pub(super) fn annotate(
    resource: &mut Resource,
    key: &str,
    text: &str,
    budget: &Budget,
) -> Result<(), Error> {
    let before = resource.annotation(key).map_or(0, str::len);
    budget.spend_text(text.len().saturating_sub(before))?;
    let annotations = resource
        .node
        .get("metadata")
        .and_then(|metadata| metadata.get("annotations"));
    budget.spend_steps(annotations.map_or(1, Node::size))?;
    resource.set_annotation(key, text);
    Ok(())
}

/// Cleans a path like Go's `filepath.Join`: `..` may lead above the start.
fn clean(base: &str, path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in base.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    if parts.is_empty() {
        ".".to_owned()
    } else {
        parts.join("/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_may_lead_above_the_start() {
        assert_eq!(clean("", "../base"), "../base");
        assert_eq!(clean("../base", "x.yaml"), "../base/x.yaml");
        assert_eq!(clean("a", "../../b"), "../b");
    }

    #[test]
    fn is_written_as_yaml() {
        let origin = Origin::default()
            .join("../base")
            .builtin("kustomization.yaml", "PatchTransformer");
        let want = "configuredIn: ../base/kustomization.yaml\nconfiguredBy:\n  apiVersion: builtin\n  kind: PatchTransformer\n";
        assert_eq!(origin.to_yaml(), want);
    }
}
