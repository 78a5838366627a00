//! `spec.pathPattern`: the artifacts that a generator makes for each directory of a source that
//! matches a pattern with captures.

use super::Source;
use driftless_flux::{CopyOperation, Invalid, OutputArtifact};
use driftless_manifest::names as kubernetes_names;
use regex::Regex;
use std::collections::BTreeMap;

/// The most artifacts of one generator.
pub const MAX_ARTIFACTS: usize = 1000;
/// The most characters of the name of a capture, which becomes a label.
const LABEL_LENGTH: usize = 63;

/// Captures by name.
type Captures = BTreeMap<String, String>;

/// An artifact of one directory.
#[derive(Debug, PartialEq, Eq)]
pub struct Expanded {
    /// The artifact, with values in place of the captures.
    pub artifact: OutputArtifact,
    /// The captures in lower case, which become labels.
    pub labels: Captures,
}

/// Returns the alias of the source of a pattern.
///
/// # Errors
/// The pattern is not `@alias/pattern`.
pub fn alias(pattern: &str) -> Result<&str, Invalid> {
    Ok(parts(pattern)?.0)
}

fn parts(pattern: &str) -> Result<(&str, &str), Invalid> {
    let parts = pattern
        .strip_prefix('@')
        .and_then(|rest| rest.split_once('/'));
    parts.ok_or_else(|| Invalid::from(format!("invalid pathPattern format: {pattern}")))
}

/// Returns the artifacts for each directory that matches, in the order of the directories.
///
/// # Errors
/// The pattern, a field or a captured value is not valid, or two directories give the same name.
pub fn expand(
    pattern: &str,
    source: &Source,
    artifacts: &[OutputArtifact],
) -> Result<Vec<Expanded>, Invalid> {
    let failed = |error: Invalid| Invalid::from(format!("pathPattern {pattern:?}: {error}"));
    let (_, path) = parts(pattern)?;
    let (matcher, names) = matcher(path).map_err(failed)?;
    let mut found = Vec::new();
    let mut seen: BTreeMap<(String, String), String> = BTreeMap::new();
    for directory in source.directories() {
        let Some(matched) = matcher.captures(directory) else {
            continue;
        };
        let raw = names.iter().filter_map(|name| {
            let value = matched.name(name)?.as_str().to_owned();
            Some((name.clone(), value))
        });
        let raw: Captures = raw.collect();
        let lower = raw
            .iter()
            .map(|(name, value)| (name.clone(), value.to_lowercase()));
        let lower: Captures = lower.collect();
        for (name, value) in &lower {
            if !kubernetes_names::label_value(value).is_empty() {
                return Err(failed(format!(
                    "captured value {value:?} for variable {name:?} is not a valid Kubernetes label value"
                ).into()));
            }
        }
        for artifact in artifacts {
            let rendered = render(artifact, &lower, &raw).map_err(|error| {
                let name = &artifact.name;
                failed(
                    format!("failed to render artifact {name} for match {directory}: {error}")
                        .into(),
                )
            })?;
            let (name, namespace) = (&rendered.name, rendered.namespace.clone());
            if !kubernetes_names::subdomain(name).is_empty() {
                return Err(failed(
                    format!(
                        "rendered artifact name {name:?} is not a valid Kubernetes object name"
                    )
                    .into(),
                ));
            }
            let key = (namespace.unwrap_or_default(), name.clone());
            if let Some(before) = seen.insert(key, directory.to_owned()) {
                return Err(failed(format!(
                    "directories {before:?} and {directory:?} both resolve to artifact name {name:?}"
                ).into()));
            }
            if found.len() >= MAX_ARTIFACTS {
                return Err(failed(
                    format!("more than {MAX_ARTIFACTS} artifacts").into(),
                ));
            }
            found.push(Expanded {
                artifact: rendered,
                labels: lower.clone(),
            });
        }
    }
    Ok(found)
}

/// Returns the regular expression of a path, and the names of its captures.
fn matcher(path: &str) -> Result<(Regex, Vec<String>), Invalid> {
    let (mut expression, mut names) = ("^".to_owned(), Vec::<String>::new());
    for part in split(path)? {
        match part {
            Part::Text(text) => expression.push_str(&regex::escape(text)),
            Part::Capture(name) => {
                if names.iter().any(|known| known == name) {
                    return Err(format!("duplicate capture variable {name:?}").into());
                }
                // A capture becomes the key of a label.
                if !name.ends_with(|one: char| one.is_ascii_alphanumeric())
                    || name.starts_with('_')
                    || name.len() > LABEL_LENGTH
                {
                    return Err(format!(
                        "capture variable {name:?} is not a valid Kubernetes label key"
                    )
                    .into());
                }
                expression.push_str(&format!("(?P<{name}>[^/]+)"));
                names.push(name.to_owned());
            }
        }
    }
    expression.push('$');
    let matcher = Regex::new(&expression);
    let matcher = matcher.map_err(|_| Invalid::from("the path pattern is too large"))?;
    Ok((matcher, names))
}

/// A part of a string with captures.
enum Part<'a> {
    Text(&'a str),
    Capture(&'a str),
}

/// Splits a string at its captures `{name}`.
///
/// # Errors
/// A brace has no counterpart, or a name is not valid.
fn split(text: &str) -> Result<Vec<Part<'_>>, Invalid> {
    let mut parts = Vec::new();
    let mut rest = text;
    let offset = |rest: &str| text.len() - rest.len();
    while let Some(at) = rest.find(['{', '}']) {
        let (before, brace) = rest.split_at(at);
        parts.push(Part::Text(before));
        let Some(inner) = brace.strip_prefix('{') else {
            let at = offset(brace);
            return Err(format!("capture ending at offset {at} is missing opening brace").into());
        };
        let Some((name, after)) = inner.split_once('}') else {
            let at = offset(brace);
            return Err(format!("capture starting at offset {at} is missing closing brace").into());
        };
        if name.is_empty() {
            return Err("empty capture variable".into());
        }
        let is_word = |one: char| one.is_ascii_alphanumeric() || one == '_';
        if !name.chars().all(is_word) || name.starts_with(|one: char| one.is_ascii_digit()) {
            return Err(format!(
                "capture variable {name:?} must be a valid capture name matching [A-Za-z_][A-Za-z0-9_]*"
            ).into());
        }
        parts.push(Part::Capture(name));
        rest = after;
    }
    parts.push(Part::Text(rest));
    Ok(parts)
}

/// Replaces the captures of a string.
///
/// # Errors
/// A capture is not valid, or is not one of the pattern's.
pub fn render_text(text: &str, captures: &Captures) -> Result<String, Invalid> {
    let failed = |error: Invalid| Invalid::from(format!("invalid template {text:?}: {error}"));
    let mut rendered = String::new();
    for part in split(text).map_err(failed)? {
        match part {
            Part::Text(text) => rendered.push_str(text),
            Part::Capture(name) => rendered.push_str(captures.get(name).ok_or_else(|| {
                failed(format!("capture variable {name:?} is not defined by pathPattern").into())
            })?),
        }
    }
    Ok(rendered)
}

/// Replaces the captures of an artifact: in lower case in names, unchanged in paths.
fn render(
    artifact: &OutputArtifact,
    lower: &Captures,
    raw: &Captures,
) -> Result<OutputArtifact, Invalid> {
    let optional = |text: &Option<String>, captures| {
        text.as_deref()
            .map(|text| render_text(text, captures))
            .transpose()
    };
    let copy = artifact.copy.iter().map(|operation| {
        Ok(CopyOperation {
            from: render_text(&operation.from, raw)?,
            to: render_text(&operation.to, raw)?,
            ..operation.clone()
        })
    });
    Ok(OutputArtifact {
        name: render_text(&artifact.name, lower)?,
        namespace: optional(&artifact.namespace, lower)?,
        inputs_from: optional(&artifact.inputs_from, raw)?,
        copy: copy.collect::<Result<_, Invalid>>()?,
        ..artifact.clone()
    })
}
