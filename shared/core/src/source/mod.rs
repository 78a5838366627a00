//! Sources: a reference is followed to a commit, a chart or an artifact; its files become an artifact in the bucket.

pub mod archive;
pub mod artifact;
pub mod bucket;
mod bucket_files;
mod chart_build;
mod chart_dependencies;
mod chart_remote;
mod cloud_login;
pub mod connection;
pub mod consumers;
pub mod git;
pub mod helm_chart;
pub mod helm_repository;
pub mod ignore;
pub mod index;
pub mod lookup;
pub mod oci;
pub(crate) mod reconciler;
mod secret;
pub mod verify;

use crate::failure::Failure;
use crate::flux::{FluxKind, reason};
use crate::kernel::Context;
use driftless_go::re2;
use driftless_helm::HelmError;
use regex::{Regex, RegexBuilder};
use std::fmt::Display;
use url::Url;

/// Forgets a source that is gone from its hub, or will be. Sources carry no finalizer: that one is gone is learned when
/// something, such as a push, asks for a look at it. An object of another kind has none of this.
///
/// # Errors
/// The bucket's.
pub async fn forget(context: &Context<'_>) -> Result<(), Failure> {
    if context.id.kind == FluxKind::GitRepository {
        let hub = &context.hub.settings.name;
        index::forget_others(context.ports, hub, &context.id, None).await?;
    }
    Ok(())
}

/// The address of a repository of charts as source-controller uses it: its path ends with one `/`.
///
/// # Errors
/// It is neither `http` nor `https`.
fn repository_url(text: &str) -> Result<Url, Failure> {
    let mut url = Url::parse(text).map_err(|error| invalid_url(&error))?;
    match url.scheme() {
        "http" | "https" => {}
        "oci" => {
            let what = "'oci' URL scheme cannot be used with 'default' HelmRepository type";
            return Err(invalid_url(&what));
        }
        other => {
            let what = format!("scheme '{other}' is not supported, expected http or https");
            return Err(invalid_url(&what));
        }
    }
    let path = format!("{}/", url.path().trim_end_matches('/'));
    url.set_path(&path);
    Ok(url)
}

/// Where the index of a repository is.
///
/// # Errors
/// As [`repository_url`].
fn index_url(text: &str) -> Result<String, Failure> {
    let mut url = repository_url(text)?;
    let path = format!("{}index.yaml", url.path());
    url.set_path(&path);
    Ok(url.into())
}

fn invalid_url(what: &impl Display) -> Failure {
    let what = format!("invalid Helm repository URL: {what}");
    Failure::terminal(reason::URL_INVALID, what)
}

/// Bytes of a regular expression that a user wrote, and of what it is compiled to.
const PATTERN: usize = 4 << 10;
const COMPILED: usize = 1 << 20;

/// Compiles a regular expression as Go's `regexp` does.
///
/// # Errors
/// Go's message; more than the limits.
fn pattern(text: &str) -> Result<Regex, String> {
    if text.len() > PATTERN {
        return Err("the expression is too long".to_owned());
    }
    let translated = re2::translate(text)?;
    let compiled = RegexBuilder::new(&translated).size_limit(COMPILED).build();
    compiled.map_err(|_| "the expression is too large".to_owned())
}

/// What is wrong with a chart or an index, for messages of objects that name it themselves.
fn unnamed(error: HelmError) -> String {
    match error {
        HelmError::Chart { message, .. } => message,
        other => other.to_string(),
    }
}

/// An address for messages: without user, password and query, where tokens stand.
pub fn shown(url: &str) -> String {
    let bare = url.split(['?', '#']).next().unwrap_or_default();
    match bare.split_once("://") {
        Some((scheme, rest)) => {
            let host = rest.split('/').next().unwrap_or_default();
            let start = host.rfind('@').map_or(0, |at| at + 1);
            format!("{scheme}://{}", &rest[start..])
        }
        None => bare.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes() {
        for (url, index) in [
            (
                "https://charts.example.com",
                "https://charts.example.com/index.yaml",
            ),
            (
                "https://charts.example.com/a//",
                "https://charts.example.com/a/index.yaml",
            ),
            (
                "https://charts.example.com/a?token=x",
                "https://charts.example.com/a/index.yaml?token=x",
            ),
        ] {
            assert_eq!(index_url(url).unwrap(), index);
        }
        for (url, what) in [
            ("oci://ghcr.io/a", "'oci' URL scheme cannot be used"),
            ("file:///etc", "scheme 'file' is not supported"),
            ("nonsense", "relative URL"),
        ] {
            let failure = index_url(url).unwrap_err();
            assert!(failure.message.contains(what), "{}", failure.message);
            assert_eq!(failure.reason, reason::URL_INVALID);
        }
    }

    #[test]
    fn messages_have_no_secrets() {
        for (url, text) in [
            (
                "https://ann:pw@charts.example.com/a@b?token=x#y",
                "https://charts.example.com/a@b",
            ),
            ("https://charts.example.com", "https://charts.example.com"),
            ("nonsense?a", "nonsense"),
        ] {
            assert_eq!(shown(url), text);
        }
    }
}
