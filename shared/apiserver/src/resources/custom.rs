//! CustomResourceDefinitions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use crate::expressions::Expression;
use crate::values::{join, text};

/// The parts of a CustomResourceDefinition that its resources need.
#[derive(Debug)]
pub struct Custom {
    /// The definition's names.
    pub names: Value,
    /// `spec.names.listKind`, or the kind with the suffix `List`.
    pub list_kind: String,
    /// Paths that field selectors may name.
    pub selectable: Vec<String>,
    /// The entries of `spec.versions`.
    pub(crate) versions: Vec<Value>,
    pub(crate) group: String,
    /// The patterns and rules of the schemas that were needed.
    pub(crate) compiled: Compiled,
}

/// The compiled patterns and CEL rules of one definition. Each is compiled once, when the first
/// object needs it; `None` if it does not compile.
#[derive(Debug, Default)]
pub(crate) struct Compiled {
    patterns: Mutex<HashMap<String, Option<regex::Regex>>>,
    rules: Mutex<HashMap<String, Option<Arc<Expression>>>>,
}

impl Compiled {
    /// Returns the regular expression of a pattern.
    pub(crate) fn pattern(&self, text: &str) -> Option<regex::Regex> {
        once(&self.patterns, text, |text| regex::Regex::new(text).ok())
    }

    /// Returns the expression of a rule.
    pub(crate) fn rule(&self, text: &str) -> Option<Arc<Expression>> {
        let compile = |text: &str| Expression::compile(text, &["self", "oldSelf"]).ok();
        once(&self.rules, text, |text| compile(text).map(Arc::new))
    }
}

fn once<T: Clone>(
    known: &Mutex<HashMap<String, Option<T>>>,
    text: &str,
    compile: impl FnOnce(&str) -> Option<T>,
) -> Option<T> {
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = known.get(text) {
        return found.clone();
    }
    let made = compile(text);
    known.insert(text.to_owned(), made.clone());
    made
}

impl Custom {
    /// Returns the entry of a version.
    fn version(&self, name: &str) -> Option<&Value> {
        self.versions.iter().find(|version| version["name"] == name)
    }

    /// Returns the schema of a version, unchanged; null if it has none.
    pub(crate) fn schema(&self, version: &str) -> &Value {
        static NONE: Value = Value::Null;
        self.version(version)
            .and_then(|v| v.pointer("/schema/openAPIV3Schema"))
            .unwrap_or(&NONE)
    }

    /// Returns `group/version` of the version that is stored.
    pub(crate) fn storage_version(&self) -> String {
        let stored = self.versions.iter().find(|v| v["storage"] == true);
        join(&self.group, stored.map_or("", |v| text(v, "/name")))
    }

    /// Returns the printer columns of a version.
    pub(crate) fn columns(&self, version: &str) -> Vec<&Value> {
        self.version(version)
            .and_then(|v| v["additionalPrinterColumns"].as_array())
            .into_iter()
            .flatten()
            .collect()
    }

    /// Returns the scale subresource of a version.
    pub(crate) fn scale(&self, version: &str) -> Option<&Value> {
        self.version(version)?.pointer("/subresources/scale")
    }

    /// Returns the deprecation warning of a version; `None` when it is not deprecated.
    pub(crate) fn deprecation(&self, version: &str) -> Option<String> {
        let found = self.version(version).filter(|v| v["deprecated"] == true)?;
        Some(found["deprecationWarning"].as_str().map_or_else(
            || {
                format!(
                    "{}/{version} {} is deprecated",
                    self.group,
                    text(&self.names, "/kind")
                )
            },
            str::to_owned,
        ))
    }
}
