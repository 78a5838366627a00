//! Selectors of patches and replacements: anchored regular expressions and label selectors.

use crate::budget::Budget;
use crate::declare::declare;
use crate::error::{Error, ErrorKind};
use crate::node::Node;
use crate::options::Limits;
use crate::resid::{Gvk, Id};
use crate::resource::Resource;
use crate::schema::Schema;
use driftless_go::re2;
use driftless_manifest::Object;
use driftless_manifest::labels::LabelSelector;
use regex::{Regex, RegexBuilder};
use std::cell::RefCell;
use std::collections::HashMap;

declare! {
    /// The objects that a patch or replacement applies to. Group to namespace are regular
    /// expressions that must match completely.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) struct Selector {
        "group" pub group: String,
        "version" pub version: String,
        "kind" pub kind: String,
        "name" pub name: String,
        "namespace" pub namespace: String,
        "annotationSelector" pub annotation_selector: String,
        "labelSelector" pub label_selector: String,
    }
}

/// A selector, ready to match.
pub(crate) struct Matcher {
    group: Pattern,
    version: Pattern,
    kind: Pattern,
    name: Pattern,
    namespace: Pattern,
    pub labels: LabelSelector,
    pub annotations: LabelSelector,
    /// True if the selector does not restrict kind, name and namespace.
    pub no_id: bool,
    /// The steps that any object costs.
    steps: usize,
}

/// A pattern; most need no automaton, which costs more to build than a small kustomization.
enum Pattern {
    Any,
    /// Alternatives; each is a list of pieces with anything but line ends in between.
    Texts(Vec<Vec<String>>),
    Regex(Expression),
}

/// A compiled expression, and the steps that a byte of input costs.
#[derive(Clone)]
pub(crate) struct Expression {
    regex: Regex,
    steps: usize,
}

impl Expression {
    pub fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// Returns the steps of matching an input.
    pub fn steps(&self, text: &str) -> usize {
        self.steps.saturating_mul(1 + text.len())
    }
}

/// The cache of the expressions that a build has compiled.
#[derive(Default)]
pub(crate) struct Patterns(RefCell<Cache>);

#[derive(Default)]
struct Cache {
    expressions: HashMap<String, Expression>,
    /// The total size of the expressions, expanded.
    size: usize,
}

/// The maximal number of cached expressions: kustomizations use the same few.
const CACHE_ENTRIES: usize = 64;
/// The maximal total size of cached expressions, expanded. A large one takes 5 MiB when it is
/// compiled.
const CACHE_SIZE: usize = 2_000_000;
/// The maximal bytes of an expression. Names of objects have at most 253.
const MAX_BYTES: usize = 64 << 10;
/// The maximal Unicode classes of an expression: each has hundreds of ranges before anything is
/// compiled.
const MAX_CLASSES: usize = 1_000;
/// The maximal steps of compiling: a larger expression is refused.
const MAX_STEPS: u64 = 5_000_000;
/// The steps that one position of an expression costs when it is compiled.
const STEPS_PER_PLACE: u64 = 8;
/// The positions of an expression for which each byte of the input costs one more step.
const PLACES_PER_STEP: u64 = 128;
/// The bytes of the states that matching caches.
const MAX_STATE_BYTES: usize = 512 << 10;

impl Patterns {
    /// Compiles a user's expression in Go's syntax.
    ///
    /// # Errors
    /// The expression is invalid or too large, or costs more steps than are left.
    pub fn compile(&self, pattern: &str, budget: &Budget) -> Result<Expression, Error> {
        budget.spend_steps(1 + pattern.len() / 16)?;
        if let Some(known) = self.0.borrow().expressions.get(pattern) {
            return Ok(known.clone());
        }
        let places = re2::places(pattern);
        let size = re2::expansion(pattern).saturating_add(places.saturating_mul(STEPS_PER_PLACE));
        let size = size.min(MAX_STEPS);
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        budget.spend_steps(MIN_COMPILE_STEPS.saturating_add(size))?;
        let expression = Expression {
            regex: compile(pattern).map_err(|error| ErrorKind::Selector {
                selector: shortened(pattern),
                reason: error.to_string(),
            })?,
            steps: usize::try_from(1 + places / PLACES_PER_STEP).unwrap_or(usize::MAX),
        };
        let mut cache = self.0.borrow_mut();
        cache.size = cache.size.saturating_add(size);
        if cache.expressions.len() >= CACHE_ENTRIES || cache.size > CACHE_SIZE {
            *cache = Cache {
                size,
                ..Cache::default()
            };
        }
        let known = &mut cache.expressions;
        known.insert(pattern.to_owned(), expression.clone());
        Ok(expression)
    }
}

/// The steps of compiling the smallest expression.
const MIN_COMPILE_STEPS: usize = 500;

/// The error of an expression that cannot be compiled.
#[derive(Debug, thiserror::Error)]
enum PatternError {
    #[error("more than {MAX_BYTES} bytes")]
    Bytes,
    #[error("more than {MAX_CLASSES} Unicode classes")]
    Classes,
    #[error(transparent)]
    Syntax(#[from] driftless_go::Error),
    #[error("the expression is too large")]
    TooLarge,
}

fn compile(pattern: &str) -> Result<Regex, PatternError> {
    if pattern.len() > MAX_BYTES {
        return Err(PatternError::Bytes);
    }
    if re2::classes(pattern) > MAX_CLASSES {
        return Err(PatternError::Classes);
    }
    let translated = re2::translate(pattern)?;
    let built = RegexBuilder::new(&translated)
        .dfa_size_limit(MAX_STATE_BYTES)
        .build();
    built.map_err(|_| PatternError::TooLarge)
}

/// Parses a label selector; errors show the beginning of a long one.
fn label_selector(text: &str) -> Result<LabelSelector, Error> {
    LabelSelector::parse(text).map_err(|reason| {
        let selector = shortened(text);
        let reason = shortened(reason.as_str());
        ErrorKind::Selector { selector, reason }.into()
    })
}

pub(crate) fn shortened(text: &str) -> String {
    const SHOWN: usize = 200;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

impl Pattern {
    fn new(text: &str, patterns: &Patterns, budget: &Budget) -> Result<Self, Error> {
        if text.is_empty() {
            return Ok(Self::Any);
        }
        budget.spend_steps(1 + text.len() / 16)?;
        let is_literal = |piece: &str| {
            piece
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_/:".contains(&byte))
        };
        if text
            .split('|')
            .flat_map(|text| text.split(".*"))
            .all(is_literal)
        {
            let pieces = |text: &str| text.split(".*").map(str::to_owned).collect();
            return Ok(Self::Texts(text.split('|').map(pieces).collect()));
        }
        patterns
            .compile(&format!("^(?:{text})$"), budget)
            .map(Self::Regex)
    }

    fn matches(&self, text: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Texts(texts) => texts.iter().any(|pieces| fits(pieces, text)),
            Self::Regex(regex) => regex.is_match(text),
        }
    }

    /// Returns the steps of matching an input.
    fn steps(&self, text: &str) -> usize {
        match self {
            Self::Any => 0,
            Self::Texts(texts) => texts.len() + text.len() / 32,
            Self::Regex(regex) => regex.steps(text),
        }
    }
}

/// Checks whether the input consists of the pieces in this order, with anything in between.
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

impl Selector {
    /// # Errors
    /// An invalid expression, or one that costs more than is left.
    pub fn compile(&self, patterns: &Patterns, budget: &Budget) -> Result<Matcher, Error> {
        let pattern = |text: &str| Pattern::new(text, patterns, budget);
        let marks = self.label_selector.len() + self.annotation_selector.len();
        budget.spend_steps(marks)?;
        Ok(Matcher {
            group: pattern(&self.group)?,
            version: pattern(&self.version)?,
            kind: pattern(&self.kind)?,
            name: pattern(&self.name)?,
            namespace: pattern(&self.namespace)?,
            labels: label_selector(&self.label_selector)?,
            annotations: label_selector(&self.annotation_selector)?,
            steps: 2 + marks / 8,
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

    /// Matches the kind, name and namespace of one id.
    pub fn id(&self, id: &Id<'_>) -> bool {
        self.gvk(id.gvk) && self.name.matches(id.name) && self.namespace.matches(id.namespace)
    }

    /// Matches labels and annotations.
    pub fn matches_metadata(&self, resource: &Resource) -> bool {
        let metadata = resource.node.get("metadata");
        let fits = |selector: &LabelSelector, field: &str| {
            let map = metadata.and_then(|metadata| metadata.get(field));
            selector.matches(|key| map?.get(key).map(Node::text))
        };
        fits(&self.labels, "labels") && fits(&self.annotations, "annotations")
    }

    /// Counts the cost of comparing an object.
    pub fn spend(&self, resource: &Resource, budget: &Budget) -> Result<(), Error> {
        let gvk = resource.gvk();
        let previous = resource.previous.iter().map(|id| {
            let steps = self.name.steps(&id.name) + self.namespace.steps(&id.namespace);
            steps + self.kind.steps(&id.kind)
        });
        let patterns = self.group.steps(gvk.group)
            + self.version.steps(gvk.version)
            + self.kind.steps(gvk.kind)
            + self.name.steps(resource.name())
            + self.namespace.steps(resource.namespace());
        budget.spend_steps(self.steps + patterns + previous.sum::<usize>())
    }

    /// Checks whether a patch applies to this object: by its first or its present name and
    /// namespace, and its present kind.
    pub fn matches(&self, resource: &Resource, schema: &Schema) -> bool {
        let (now, first) = (resource.id(schema), resource.original_id(schema));
        (self.namespace.matches(first.effective_namespace())
            || self.namespace.matches(now.effective_namespace()))
            && (self.name.matches(first.name) || self.name.matches(now.name))
            && self.gvk(resource.gvk())
            && self.matches_metadata(resource)
    }
}

/// The budget for reading several selectors: as much as one build.
pub struct SelectorBudget {
    budget: Budget,
    patterns: Patterns,
}

impl Default for SelectorBudget {
    fn default() -> Self {
        Self {
            budget: Budget::new(Limits::default()),
            patterns: Patterns::default(),
        }
    }
}

impl std::fmt::Debug for SelectorBudget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SelectorBudget")
    }
}

/// The objects that a rule applies to, with the fields of a patch's target: group to namespace are
/// regular expressions that must match completely, annotations and labels are label selectors.
pub struct ObjectSelector(Matcher);

impl std::fmt::Debug for ObjectSelector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ObjectSelector")
    }
}

/// The error of a `target` that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SelectorError {
    /// A field is not a string.
    #[error(transparent)]
    Field(#[from] serde_json::Error),
    /// An expression or selector is not valid, or costs more than the budget has left.
    #[error(transparent)]
    Expression(#[from] Error),
}

impl ObjectSelector {
    /// Reads a `target`.
    ///
    /// # Errors
    /// A field that is not a string, an invalid expression or selector, or expressions that cost
    /// more than the budget has left.
    pub fn new(target: &serde_json::Value, budget: &SelectorBudget) -> Result<Self, SelectorError> {
        let selector = <Selector as serde::Deserialize>::deserialize(target)?;
        Ok(Self(selector.compile(&budget.patterns, &budget.budget)?))
    }

    /// Checks whether the rule applies to this object.
    pub fn matches(&self, object: &Object) -> bool {
        let Self(matcher) = self;
        let fits = |selector: &LabelSelector, field: &str| {
            let map = object.meta_map(field);
            selector.matches(|key| map?.get(key)?.as_str())
        };
        matcher.gvk(Gvk::new(object.api_version(), object.kind()))
            && matcher.name.matches(object.name())
            && matcher.namespace.matches(object.namespace())
            && fits(&matcher.labels, "labels")
            && fits(&matcher.annotations, "annotations")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(pattern: &str) -> Result<Pattern, Error> {
        Pattern::new(
            pattern,
            &Patterns::default(),
            &Budget::new(Limits::default()),
        )
    }

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
            // Go's classes are ASCII only.
            (r"v\d", "v\u{661}", false),
            (r"\w+", "\u{e9}", false),
            ("[a[]", "[", true),
        ] {
            let Ok(compiled) = new(pattern) else {
                panic!("{pattern} is read");
            };
            assert_eq!(compiled.matches(text), matches, "{pattern:?} on {text:?}");
        }
        assert!(new("(?=a)").is_err(), "Go has no look-ahead");
    }
}
