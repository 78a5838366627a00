//! The events that an Alert selects, as notification-controller 1.9 does. Pure.

use crate::flux::{Alert, FluxEvent, ObjectSelector, Severity};
use driftless_go::re2;
use driftless_manifest::Object;
use regex::{Regex, RegexBuilder};

/// The most bytes of a regular expression.
const MAX_PATTERN: usize = 4 << 10;
/// The most bytes of a compiled regular expression.
const MAX_COMPILED: usize = 1 << 20;
/// The most regular expressions of a list that are used.
pub const MAX_PATTERNS: usize = 64;

/// Compiles a regular expression as Go's `regexp` does.
///
/// # Errors
/// Go's message for an invalid expression, or a message about the limits.
pub fn pattern(text: &str) -> Result<Regex, String> {
    if text.len() > MAX_PATTERN {
        return Err(format!("the expression has more than {MAX_PATTERN} bytes"));
    }
    let translated = re2::translate(text)?;
    let mut builder = RegexBuilder::new(&translated);
    let compiled = builder.size_limit(MAX_COMPILED).build();
    compiled.map_err(|_| "the expression is too large".to_owned())
}

/// Returns whether a source is in another namespace than its Alert.
pub fn is_foreign(alert: &Alert, source: &ObjectSelector) -> bool {
    namespace(alert, source) != alert.id.namespace
}

/// Returns whether an Alert selects an event about an object. Objects of other namespaces are left
/// out if `no_cross_namespace_refs` is true.
pub fn selects(
    alert: &Alert,
    event: &FluxEvent,
    object: &Object,
    no_cross_namespace_refs: bool,
) -> bool {
    let spec = &alert.spec;
    let is_denied =
        no_cross_namespace_refs && event.involved_object.namespace != alert.id.namespace;
    let is_source = |source| is_of_source(alert, source, event, object);
    if alert.spec.suspend == Some(true) || is_denied || !spec.event_sources.iter().any(is_source) {
        return false;
    }
    let list = |list: &Option<Vec<String>>| list.clone().unwrap_or_default();
    let (included, excluded) = (list(&spec.inclusion_list), list(&spec.exclusion_list));
    (included.is_empty() || matches(&included, &event.message))
        && !matches(&excluded, &event.message)
}

/// Returns whether one of the expressions matches. One that is not valid never does, as in Flux;
/// the status of the Alert names it.
fn matches(patterns: &[String], message: &str) -> bool {
    let mut valid = patterns.iter().take(MAX_PATTERNS);
    valid.any(|text| pattern(text).is_ok_and(|pattern| pattern.is_match(message)))
}

fn namespace<'a>(alert: &'a Alert, source: &'a ObjectSelector) -> &'a str {
    match source.namespace.as_deref() {
        None | Some("") => &alert.id.namespace,
        Some(namespace) => namespace,
    }
}

fn is_of_source(
    alert: &Alert,
    source: &ObjectSelector,
    event: &FluxEvent,
    object: &Object,
) -> bool {
    let involved = &event.involved_object;
    let severity = alert.spec.event_severity.as_deref();
    let severity = severity.unwrap_or(Severity::Info.as_str());
    let labels = source.match_labels.iter().flatten();
    let has = |(key, value): (&String, &String)| object.label(key) == Some(value);
    involved.namespace == namespace(alert, source)
        && involved.kind == source.kind
        && (severity == event.severity.as_str() || severity == Severity::Info.as_str())
        && (source.is_every_name() || source.name == involved.name)
        && labels.into_iter().all(has)
}
