//! Chart.yaml.

use crate::error::HelmError;
use crate::semver::Version;
use driftless_gotmpl::fmt::{format_float, is_print, quote};
use serde_json::{Map, Value as Json};
use std::collections::BTreeSet;

/// Chart.yaml's fields, in Helm's order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    /// `name`
    pub name: String,
    /// `home`
    pub home: String,
    /// `sources`
    pub sources: Vec<String>,
    /// `version`
    pub version: String,
    /// `description`
    pub description: String,
    /// `keywords`
    pub keywords: Vec<String>,
    /// `maintainers`
    pub maintainers: Vec<Maintainer>,
    /// `icon`
    pub icon: String,
    /// `apiVersion`; v1 if absent.
    pub api_version: String,
    /// `condition`
    pub condition: String,
    /// `tags`
    pub tags: String,
    /// `appVersion`
    pub app_version: String,
    /// `deprecated`
    pub deprecated: bool,
    /// `annotations`
    pub annotations: Option<Vec<(String, String)>>,
    /// `kubeVersion`
    pub kube_version: String,
    /// `dependencies`; `None` if the field is absent.
    pub dependencies: Option<Vec<Dependency>>,
    /// `type`
    pub kind: String,
}

/// An entry of `maintainers`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Maintainer {
    /// `name`
    pub name: String,
    /// `email`
    pub email: String,
    /// `url`
    pub url: String,
}

/// An entry of `dependencies`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dependency {
    /// `name`; the alias once dependencies are processed.
    pub name: String,
    /// `version`, a constraint.
    pub version: String,
    /// `repository`
    pub repository: String,
    /// `condition`: paths of values, with commas between.
    pub condition: String,
    /// `tags`
    pub tags: Vec<String>,
    /// `enabled`: set when dependencies are processed.
    pub enabled: bool,
    /// `import-values`
    pub import_values: Vec<Json>,
    /// `alias`
    pub alias: String,
}

/// A text as `sigs.k8s.io/yaml` makes it of a scalar when a string is wanted.
fn text(value: &Json, field: &str) -> Result<String, String> {
    Ok(match value {
        Json::Null => String::new(),
        Json::String(s) => s.clone(),
        Json::Bool(b) => b.to_string(),
        Json::Number(n) if n.is_i64() || n.is_u64() => n.to_string(),
        Json::Number(n) => {
            // It goes through 32 bits there.
            let short = format!("{}", n.as_f64().unwrap_or_default() as f32);
            format_float(short.parse().unwrap_or_default(), 'g', None)
        }
        _ => return Err(format!("field {field} is not a text")),
    })
}

fn list<T>(
    value: &Json,
    field: &str,
    item: impl Fn(&Json) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    match value {
        Json::Null => Ok(Vec::new()),
        Json::Array(items) => items.iter().map(item).collect(),
        _ => Err(format!("field {field} is not a list")),
    }
}

fn object<'a>(value: &'a Json, field: &str) -> Result<&'a Map<String, Json>, String> {
    match value {
        Json::Object(map) => Ok(map),
        Json::Null => Err(format!("{field} must not contain empty or null nodes")),
        _ => Err(format!("field {field} does not hold a mapping")),
    }
}

fn boolean(value: &Json, field: &str) -> Result<bool, String> {
    match value {
        Json::Null => Ok(false),
        Json::Bool(b) => Ok(*b),
        _ => Err(format!("field {field} is neither true nor false")),
    }
}

impl Metadata {
    /// Reads a document over what is there: Chart.yaml, and then requirements.yaml.
    pub(super) fn read(&mut self, document: &Json) -> Result<(), String> {
        let map = match document {
            Json::Null => return Ok(()),
            other => object(other, "of the chart")?,
        };
        for (key, value) in map {
            match key.to_ascii_lowercase().as_str() {
                "name" => self.name = text(value, key)?,
                "home" => self.home = text(value, key)?,
                "sources" => self.sources = list(value, key, |v| text(v, key))?,
                "version" => self.version = text(value, key)?,
                "description" => self.description = text(value, key)?,
                "keywords" => self.keywords = list(value, key, |v| text(v, key))?,
                "maintainers" => {
                    self.maintainers = list(value, key, |v| Maintainer::read(object(v, key)?))?;
                }
                "icon" => self.icon = text(value, key)?,
                "apiversion" => self.api_version = text(value, key)?,
                "condition" => self.condition = text(value, key)?,
                "tags" => self.tags = text(value, key)?,
                "appversion" => self.app_version = text(value, key)?,
                "deprecated" => self.deprecated = boolean(value, key)?,
                "annotations" => self.annotations = annotations(value)?,
                "kubeversion" => self.kube_version = text(value, key)?,
                "dependencies" if value.is_null() => self.dependencies = None,
                "dependencies" => {
                    self.dependencies =
                        Some(list(value, key, |v| Dependency::read(object(v, key)?))?);
                }
                "type" => self.kind = text(value, key)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Helm's checks of a chart's metadata.
    pub(super) fn validate(&mut self) -> Result<(), HelmError> {
        for field in [
            &mut self.name,
            &mut self.description,
            &mut self.home,
            &mut self.icon,
            &mut self.condition,
            &mut self.tags,
            &mut self.app_version,
            &mut self.kube_version,
        ] {
            sanitize(field);
        }
        self.sources.iter_mut().for_each(sanitize);
        self.keywords.iter_mut().for_each(sanitize);
        let name = self.name.clone();
        let fail = |message: String| Err(HelmError::chart(name.clone(), message));
        if self.api_version.is_empty() {
            return fail("chart.metadata.apiVersion is required".to_owned());
        }
        if self.name.is_empty() {
            return fail("chart.metadata.name is required".to_owned());
        }
        if self.name == "." || self.name == ".." {
            return fail(format!(
                "chart.metadata.name {} is not allowed",
                quote(self.name.as_bytes())
            ));
        }
        if self.name.contains('/') {
            return fail(format!(
                "chart.metadata.name {} is invalid",
                quote(self.name.as_bytes())
            ));
        }
        if self.version.is_empty() {
            return fail("chart.metadata.version is required".to_owned());
        }
        if Version::parse(&self.version).is_err() {
            return fail(format!(
                "chart.metadata.version {} is invalid",
                quote(self.version.as_bytes())
            ));
        }
        if !["", "application", "library"].contains(&self.kind.as_str()) {
            return fail("chart.metadata.type must be application or library".to_owned());
        }
        for person in &mut self.maintainers {
            for field in [&mut person.name, &mut person.email, &mut person.url] {
                sanitize(field);
            }
        }
        let mut seen = BTreeSet::new();
        for dependency in self.dependencies.iter_mut().flatten() {
            dependency.validate().or_else(&fail)?;
            let key = if dependency.alias.is_empty() {
                &dependency.name
            } else {
                &dependency.alias
            };
            if !seen.insert(key.clone()) {
                return fail(format!(
                    "more than one dependency with name or alias {}",
                    quote(key.as_bytes())
                ));
            }
        }
        Ok(())
    }
}

fn annotations(value: &Json) -> Result<Option<Vec<(String, String)>>, String> {
    match value {
        Json::Null => Ok(None),
        Json::Object(map) => map
            .iter()
            .map(|(k, v)| Ok((k.clone(), text(v, "annotations")?)))
            .collect::<Result<_, String>>()
            .map(Some),
        _ => Err("field annotations is not a mapping".to_owned()),
    }
}

impl Maintainer {
    fn read(map: &Map<String, Json>) -> Result<Self, String> {
        let mut out = Maintainer::default();
        for (key, value) in map {
            match key.to_ascii_lowercase().as_str() {
                "name" => out.name = text(value, key)?,
                "email" => out.email = text(value, key)?,
                "url" => out.url = text(value, key)?,
                _ => {}
            }
        }
        Ok(out)
    }
}

impl Dependency {
    fn read(map: &Map<String, Json>) -> Result<Self, String> {
        let mut out = Dependency::default();
        for (key, value) in map {
            match key.to_ascii_lowercase().as_str() {
                "name" => out.name = text(value, key)?,
                "version" => out.version = text(value, key)?,
                "repository" => out.repository = text(value, key)?,
                "condition" => out.condition = text(value, key)?,
                "tags" => out.tags = list(value, key, |v| text(v, key))?,
                "enabled" => out.enabled = boolean(value, key)?,
                "import-values" => {
                    out.import_values =
                        list(value, key, |v| Ok(crate::convert::floats(v.clone())))?;
                }
                "alias" => out.alias = text(value, key)?,
                _ => {}
            }
        }
        Ok(out)
    }

    fn validate(&mut self) -> Result<(), String> {
        for field in [
            &mut self.name,
            &mut self.version,
            &mut self.repository,
            &mut self.condition,
        ] {
            sanitize(field);
        }
        self.tags.iter_mut().for_each(sanitize);
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if !self.alias.chars().all(plain) {
            return Err(format!(
                "dependency {} has disallowed characters in the alias",
                quote(self.name.as_bytes())
            ));
        }
        Ok(())
    }
}

/// White space becomes a space, what cannot be printed goes.
fn sanitize(text: &mut String) {
    if text.bytes().all(|b| b == b' ' || b.is_ascii_graphic()) {
        return;
    }
    *text = text
        .chars()
        .filter_map(|c| match c {
            c if c.is_whitespace() => Some(' '),
            c if is_print(c) => Some(c),
            _ => None,
        })
        .collect();
}
