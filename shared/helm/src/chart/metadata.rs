//! Chart.yaml.

use crate::convert;
use crate::error::HelmError;
use driftless_go::Error as GoError;
use driftless_go::print::is_print;
use driftless_go::quote::quote;
use driftless_go::semver::Version;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value as Json};
use std::collections::{BTreeMap, BTreeSet};

/// Chart.yaml's fields, in Helm's order.
/// In JSON like Go's: empty fields are left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// `name`
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// `home`
    #[serde(skip_serializing_if = "String::is_empty")]
    pub home: String,
    /// `sources`
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    /// `version`
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// `description`
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// `keywords`
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keywords: Vec<String>,
    /// `maintainers`
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub maintainers: Vec<Maintainer>,
    /// `icon`
    #[serde(skip_serializing_if = "String::is_empty")]
    pub icon: String,
    /// `apiVersion`; v1 if absent.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// `condition`
    #[serde(skip_serializing_if = "String::is_empty")]
    pub condition: String,
    /// `tags`
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tags: String,
    /// `appVersion`
    #[serde(skip_serializing_if = "String::is_empty")]
    pub app_version: String,
    /// `deprecated`
    #[serde(skip_serializing_if = "is_false")]
    pub deprecated: bool,
    /// `annotations`
    #[serde(serialize_with = "pairs", skip_serializing_if = "is_none")]
    pub annotations: Option<Vec<(String, String)>>,
    /// `kubeVersion`
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kube_version: String,
    /// `dependencies`; `None` if the field is absent.
    #[serde(skip_serializing_if = "is_none")]
    pub dependencies: Option<Vec<Dependency>>,
    /// `type`
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub kind: String,
}

/// An entry of `maintainers`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Maintainer {
    /// `name`
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// `email`
    #[serde(skip_serializing_if = "String::is_empty")]
    pub email: String,
    /// `url`
    #[serde(skip_serializing_if = "String::is_empty")]
    pub url: String,
}

/// An entry of `dependencies`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Dependency {
    /// `name`; the alias once dependencies are processed.
    pub name: String,
    /// `version`, a constraint.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// `repository`
    pub repository: String,
    /// `condition`: paths of values, separated by commas.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub condition: String,
    /// `tags`
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// `enabled`: set when dependencies are processed.
    #[serde(skip_serializing_if = "is_false")]
    pub enabled: bool,
    /// `import-values`
    #[serde(rename = "import-values", skip_serializing_if = "Vec::is_empty")]
    pub import_values: Vec<Json>,
    /// `alias`
    #[serde(skip_serializing_if = "String::is_empty")]
    pub alias: String,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde's skip_serializing_if passes a reference"
)]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[expect(
    clippy::ref_option,
    reason = "serde's skip_serializing_if passes a reference"
)]
fn is_none<T>(items: &Option<Vec<T>>) -> bool {
    items.as_ref().is_none_or(Vec::is_empty)
}

/// Serializes annotations as a map, sorted by key.
#[expect(
    clippy::ref_option,
    reason = "serde's serialize_with passes a reference"
)]
fn pairs<S: Serializer>(
    pairs: &Option<Vec<(String, String)>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let sorted: BTreeMap<&str, &str> = pairs
        .iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    serializer.collect_map(sorted)
}

fn text(value: &Json, field: &str) -> Result<String, GoError> {
    convert::text_of(value).ok_or_else(|| format!("field {field} is not a string").into())
}

fn list<T>(
    value: &Json,
    field: &str,
    item: impl Fn(&Json) -> Result<T, GoError>,
) -> Result<Vec<T>, GoError> {
    match value {
        Json::Null => Ok(Vec::new()),
        Json::Array(items) => items.iter().map(item).collect(),
        _ => Err(format!("field {field} is not a list").into()),
    }
}

fn object<'a>(value: &'a Json, field: &str) -> Result<&'a Map<String, Json>, GoError> {
    match value {
        Json::Object(map) => Ok(map),
        Json::Null => Err(format!("{field} must not contain empty or null nodes").into()),
        _ => Err(format!("field {field} does not hold a mapping").into()),
    }
}

fn boolean(value: &Json, field: &str) -> Result<bool, GoError> {
    match value {
        Json::Null => Ok(false),
        Json::Bool(b) => Ok(*b),
        _ => Err(format!("field {field} is neither true nor false").into()),
    }
}

impl Metadata {
    /// The names of the fields in JSON, in the order of the struct.
    pub(crate) const FIELDS: [&'static str; 17] = [
        "name",
        "home",
        "sources",
        "version",
        "description",
        "keywords",
        "maintainers",
        "icon",
        "apiVersion",
        "condition",
        "tags",
        "appVersion",
        "deprecated",
        "annotations",
        "kubeVersion",
        "dependencies",
        "type",
    ];

    /// Reads the JSON form in a record.
    pub(crate) fn from_json(map: &Map<String, Json>) -> Result<Self, GoError> {
        let mut metadata = Metadata::default();
        metadata.read_map(map)?;
        Ok(metadata)
    }

    /// Reads a document over the existing fields: Chart.yaml, and then requirements.yaml.
    pub(super) fn read(&mut self, document: &Json) -> Result<(), GoError> {
        match document {
            Json::Null => Ok(()),
            other => self.read_map(object(other, "of the chart")?),
        }
    }

    fn read_map(&mut self, map: &Map<String, Json>) -> Result<(), GoError> {
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

    /// Runs Helm's checks of a chart's metadata.
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
            dependency.validate().or_else(|error| fail(error.into()))?;
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

fn annotations(value: &Json) -> Result<Option<Vec<(String, String)>>, GoError> {
    match value {
        Json::Null => Ok(None),
        Json::Object(map) => map
            .iter()
            .map(|(k, v)| Ok((k.clone(), text(v, "annotations")?)))
            .collect::<Result<_, GoError>>()
            .map(Some),
        _ => Err("field annotations is not a mapping".into()),
    }
}

impl Maintainer {
    fn read(map: &Map<String, Json>) -> Result<Self, GoError> {
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
    fn read(map: &Map<String, Json>) -> Result<Self, GoError> {
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

    fn validate(&mut self) -> Result<(), GoError> {
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
            )
            .into());
        }
        Ok(())
    }
}

/// Replaces white space by spaces and removes unprintable characters.
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
