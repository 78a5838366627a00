use crate::error::{Error, ErrorKind};
use crate::labels;
use crate::resid::{Gvk, Id};
use crate::resource::Resource;
use crate::schema::Schema;
use driftless_manifest::{Object, re2};
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

/// A pattern; most need no automaton, which costs more to make than a small build.
enum Pattern {
    Any,
    /// Texts, one of which it is: the pieces of each, with anything but line ends in between.
    Texts(Vec<Vec<String>>),
    Regex(Box<Regex>),
}

impl Pattern {
    fn new(text: &str) -> Result<Self, Error> {
        if text.is_empty() {
            return Ok(Self::Any);
        }
        let is_literal = |piece: &str| {
            piece
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_/:".contains(&byte))
        };
        let texts: Vec<Vec<String>> = text
            .split('|')
            .map(|text| text.split(".*").map(str::to_owned).collect())
            .collect();
        if texts.iter().flatten().all(|piece| is_literal(piece)) {
            return Ok(Self::Texts(texts));
        }
        compile(&format!("^(?:{text})$")).map(|regex| Self::Regex(Box::new(regex)))
    }

    fn matches(&self, text: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Texts(texts) => texts.iter().any(|pieces| fits(pieces, text)),
            Self::Regex(regex) => regex.is_match(text),
        }
    }
}

/// Whether the text is the pieces, one after the other, with anything in between.
fn fits(pieces: &[String], text: &str) -> bool {
    let [first, middle @ .., last] = pieces else {
        return pieces.first().is_some_and(|only| only == text);
    };
    let inner = text
        .strip_prefix(first.as_str())
        .and_then(|rest| rest.strip_suffix(last.as_str()));
    let Some(mut rest) = inner.filter(|_| !text.contains('\n')) else {
        return false;
    };
    middle.iter().all(|piece| match rest.find(piece.as_str()) {
        Some(at) => {
            rest = &rest[at + piece.len()..];
            true
        }
        None => false,
    })
}

/// Compiles an expression of the user, in Go's syntax.
pub(crate) fn compile(pattern: &str) -> Result<Regex, Error> {
    let compiled = re2::translate(pattern)
        .and_then(|pattern| Regex::new(&pattern).map_err(|_| "it is too large".to_owned()));
    compiled.map_err(|reason| {
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

/// Which objects a rule is for, with the fields of a patch's target: group to namespace are regular expressions that must match
/// as a whole, annotations and labels are label selectors.
pub struct ObjectSelector(Matcher);

impl std::fmt::Debug for ObjectSelector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ObjectSelector")
    }
}

impl ObjectSelector {
    /// Reads a `target`.
    ///
    /// # Errors
    /// A field that is no text, an expression or selector that cannot be read.
    pub fn new(target: &serde_json::Value) -> Result<Self, String> {
        let selector = Selector::deserialize(target).map_err(|error| error.to_string())?;
        selector
            .compile()
            .map(Self)
            .map_err(|error| error.to_string())
    }

    /// Whether the rule is for this object.
    pub fn matches(&self, object: &Object) -> bool {
        let texts = |field: &str| {
            let pairs = object.meta_map(field).into_iter().flatten();
            pairs
                .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
                .collect()
        };
        let Self(matcher) = self;
        matcher.gvk(Gvk::new(object.api_version(), object.kind()))
            && matcher.name.matches(object.name())
            && matcher.namespace.matches(object.namespace())
            && (matcher.labels.is_empty() || matcher.labels.matches(&texts("labels")))
            && (matcher.annotations.is_empty()
                || matcher.annotations.matches(&texts("annotations")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_gos_do() {
        for (pattern, text, matches) in [
            ("", "anything", true),
            ("web", "web", true),
            ("web", "webs", false),
            ("a|b", "b", true),
            ("a|b", "a|b", false),
            ("|b", "", true),
            (".*", "", true),
            (".*", "a\nb", false),
            ("x.*", "x", true),
            ("x.*", "ax", false),
            ("a.*a", "a", false),
            ("a.*b.*c", "a-b-b-c", true),
            ("a.*b.*c", "a-c-b", false),
            ("x.*|y.*", "yes", true),
            (r"v\d", "v1", true),
            // Go's classes are of ASCII.
            (r"v\d", "v\u{661}", false),
            (r"\w+", "\u{e9}", false),
            ("[a[]", "[", true),
        ] {
            let Ok(compiled) = Pattern::new(pattern) else {
                panic!("{pattern} is read");
            };
            assert_eq!(compiled.matches(text), matches, "{pattern:?} on {text:?}");
        }
        assert!(Pattern::new("(?=a)").is_err(), "Go has no look-ahead");
    }
}
