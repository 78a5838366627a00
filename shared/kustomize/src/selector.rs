use crate::error::{Error, ErrorKind};
use crate::labels;
use crate::resid::{Gvk, Id};
use crate::resource::Resource;
use crate::schema::Schema;
use regex::Regex;
use serde::Deserialize;

/// Which objects a patch or replacement is for. Group to namespace are regular expressions that must match as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Selector {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub name: String,
    pub namespace: String,
    pub annotation_selector: String,
    pub label_selector: String,
}

/// A selector, ready to match.
pub(crate) struct Matcher {
    group: Pattern,
    version: Pattern,
    kind: Pattern,
    name: Pattern,
    namespace: Pattern,
    pub labels: labels::Selector,
    pub annotations: labels::Selector,
    /// Whether it says nothing of kind, name and namespace.
    pub no_id: bool,
}

/// A pattern; most are plain texts, which need no automaton.
enum Pattern {
    Any,
    Text(String),
    Regex(Box<Regex>),
}

impl Pattern {
    fn new(text: &str) -> Result<Self, Error> {
        if text.is_empty() {
            return Ok(Self::Any);
        }
        if text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_/:".contains(&byte))
        {
            return Ok(Self::Text(text.to_owned()));
        }
        compile(&format!("^(?:{text})$")).map(|regex| Self::Regex(Box::new(regex)))
    }

    fn matches(&self, text: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Text(wanted) => wanted == text,
            Self::Regex(regex) => regex.is_match(text),
        }
    }
}

/// Compiles an expression of the user.
pub(crate) fn compile(pattern: &str) -> Result<Regex, Error> {
    Regex::new(pattern).map_err(|error| {
        let reason = error
            .to_string()
            .lines()
            .last()
            .unwrap_or_default()
            .to_owned();
        ErrorKind::Selector {
            selector: pattern.to_owned(),
            reason,
        }
        .into()
    })
}

impl Selector {
    /// # Errors
    /// An expression that cannot be read.
    pub fn compile(&self) -> Result<Matcher, Error> {
        Ok(Matcher {
            group: Pattern::new(&self.group)?,
            version: Pattern::new(&self.version)?,
            kind: Pattern::new(&self.kind)?,
            name: Pattern::new(&self.name)?,
            namespace: Pattern::new(&self.namespace)?,
            labels: labels::Selector::parse(&self.label_selector)?,
            annotations: labels::Selector::parse(&self.annotation_selector)?,
            no_id: [
                &self.group,
                &self.version,
                &self.kind,
                &self.name,
                &self.namespace,
            ]
            .iter()
            .all(|text| text.is_empty()),
        })
    }
}

impl Matcher {
    fn gvk(&self, gvk: Gvk<'_>) -> bool {
        self.group.matches(gvk.group)
            && self.version.matches(gvk.version)
            && self.kind.matches(gvk.kind)
    }

    /// Kind, name and namespace as they stand in one id.
    pub fn id(&self, id: &Id<'_>) -> bool {
        self.gvk(id.gvk) && self.name.matches(id.name) && self.namespace.matches(id.namespace)
    }

    /// Labels and annotations.
    pub fn marks(&self, resource: &Resource) -> bool {
        (self.labels.is_empty() || self.labels.matches(&resource.texts("labels")))
            && (self.annotations.is_empty()
                || self.annotations.matches(&resource.texts("annotations")))
    }

    /// Whether a patch is for this object: by its first or its present name and namespace, and its present kind.
    pub fn matches(&self, resource: &Resource, schema: &Schema) -> bool {
        let (now, first) = (resource.id(schema), resource.original_id(schema));
        (self.namespace.matches(first.effective_namespace())
            || self.namespace.matches(now.effective_namespace()))
            && (self.name.matches(first.name) || self.name.matches(now.name))
            && self.gvk(resource.gvk())
            && self.marks(resource)
    }
}
