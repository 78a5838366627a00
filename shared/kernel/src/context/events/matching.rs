//! The events that an Alert selects, as notification-controller 1.9 does. Pure.

use driftless_flux::{Alert, FluxEvent, Invalid, ObjectSelector, Severity};
use driftless_manifest::Object;
use regex::Regex;

/// The most bytes of a regular expression.
const MAX_PATTERN: usize = 4 << 10;
/// The most regular expressions of a list that are used.
pub const MAX_PATTERNS: usize = 64;

/// Compiles a regular expression as Go's `regexp` does.
///
/// # Errors
/// Go's message for an invalid expression, or a message about the limits.
pub fn pattern(text: &str) -> Result<Regex, Invalid> {
    if text.len() > MAX_PATTERN {
        return Err(format!("the expression has more than {MAX_PATTERN} bytes").into());
    }
    crate::pattern(text)
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
    let severity = spec.event_severity.as_deref();
    let severity = severity.unwrap_or(Severity::Info.as_str());
    let is_severe = severity == event.severity.as_str() || severity == Severity::Info.as_str();
    if !is_severe || !is_source(alert, object, no_cross_namespace_refs) {
        return false;
    }
    let list = |list: &Option<Vec<String>>| list.clone().unwrap_or_default();
    let (included, excluded) = (list(&spec.inclusion_list), list(&spec.exclusion_list));
    (included.is_empty() || matches(&included, &event.message))
        && !matches(&excluded, &event.message)
}

/// Returns whether an Alert that is not suspended names an object as a source of events, whatever
/// the events are. Objects of other namespaces are left out if `no_cross_namespace_refs` is true.
pub fn is_source(alert: &Alert, object: &Object, no_cross_namespace_refs: bool) -> bool {
    let is_denied = no_cross_namespace_refs && object.namespace() != alert.id.namespace;
    let is_source = |source| is_of_source(alert, source, object);
    let mut sources = alert.spec.event_sources.iter();
    alert.spec.suspend != Some(true) && !is_denied && sources.any(is_source)
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

fn is_of_source(alert: &Alert, source: &ObjectSelector, object: &Object) -> bool {
    let labels = source.match_labels.iter().flatten();
    let has = |(key, value): (&String, &String)| object.label(key) == Some(value);
    object.namespace() == namespace(alert, source)
        && object.kind() == source.kind
        && (source.is_every_name() || source.name == object.name())
        && labels.into_iter().all(has)
}
