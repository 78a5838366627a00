//! Errors of templates, with Helm's messages.

use crate::compat::Compat;
use crate::error::HelmError;
use driftless_gotmpl::{Error, ErrorKind};

const WARN_START: &str = "HELM_ERR_START";
const WARN_END: &str = "HELM_ERR_END";

/// Marks the message of `fail` and `required`, to distinguish it from their call site.
pub(crate) fn warn_wrap(message: &str) -> String {
    format!("{WARN_START}{message}{WARN_END}")
}

/// Creates the error of a template, with the place and the kind of its cause.
fn render_error(message: String, cause: &Error) -> HelmError {
    HelmError::Render {
        message,
        span: (cause.span.line > 0).then(|| cause.span.clone()),
        budget: cause.kind == ErrorKind::Budget,
        cause: Some(Box::new(cause.clone())),
    }
}

/// Creates the error of a template that cannot be parsed.
pub(crate) fn parsing(file: &str, error: &Error) -> HelmError {
    let parts: Vec<&str> = error.message.split(": ").collect();
    let message = match parts.as_slice() {
        [only] => format!("parse error in ({file}): {only}"),
        [_, place, .., last] => format!("parse error at ({place}): {last}"),
        [_, place] => format!("parse error at ({place}): {place}"),
        [] => format!("parse error in ({file})"),
    };
    render_error(message, error)
}

/// Creates the error of a template that failed.
pub(crate) fn execution(file: &str, error: &Error, compat: Compat) -> HelmError {
    let message = match error.kind {
        ErrorKind::NoTemplate => error.message.clone(),
        _ => located(file, &error.message, compat),
    };
    render_error(message, error)
}

fn located(file: &str, message: &str, compat: Compat) -> String {
    let parts: Vec<&str> = message.splitn(3, ": ").collect();
    let [_, place, rest] = parts.as_slice() else {
        return format!("execution error in ({file}): {message}");
    };
    let traced = || match compat {
        Compat::Helm3 => None,
        Compat::Helm4 => trace(message),
    };
    match rest.find(WARN_START).zip(rest.rfind(WARN_END)) {
        Some((from, to)) if from + WARN_START.len() <= to => format!(
            "execution error at ({place}): {}",
            &rest[from + WARN_START.len()..to]
        ),
        _ => traced().unwrap_or_else(|| message.to_owned()),
    }
}

/// Returns Helm 4's form of a message: a paragraph for each template that called the next. `None`
/// if a cause in the chain is not a template's error, because Helm leaves those messages unchanged.
fn trace(message: &str) -> Option<String> {
    let mut paragraphs: Vec<String> = Vec::new();
    let mut current = Some(message);
    while let Some(text) = current {
        let (paragraph, cause) = step(text)?;
        if paragraphs.last() != Some(&paragraph) {
            paragraphs.push(paragraph);
        }
        current = cause;
    }
    Some(paragraphs.concat().trim().to_owned())
}

/// Returns one template of the chain, and the message of the function's error that stopped it.
fn step(message: &str) -> Option<(String, Option<&str>)> {
    let rest = message.strip_prefix("template: ")?;
    if rest.starts_with("no template ") {
        return Some((format!("{message}\n"), None));
    }
    let own = |text: &str| match text.find(" template:") {
        Some(at) => text[..at].to_owned(),
        None => text.to_owned(),
    };
    if let Some((place, after)) = rest.split_once(": executing \"")
        && let Some((name, after)) = after.split_once('"')
        && let Some(after) = after.strip_prefix(" at <")
        && let Some((node, reason)) = after.split_once(">: ")
    {
        let cause = reason
            .strip_prefix("error calling ")
            .and_then(|called| called.split_once(": "))
            .map(|(_, cause)| cause);
        let paragraph = format!(
            "{place}\n  executing \"{name}\" at <{node}>:\n    {}\n",
            own(reason)
        );
        return Some((paragraph, cause));
    }
    let (place, reason) = rest.rsplit_once(": ")?;
    Some((format!("{place}\n  {}\n", own(reason)), None))
}
