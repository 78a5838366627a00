//! Sources: a reference is resolved to a commit, a chart or an OCI artifact, and its files become
//! an artifact in the bucket.

pub mod archive;
pub mod artifact;
pub mod artifact_generator;
pub mod bucket;
mod bucket_files;
mod bucket_login;
mod chart_build;
mod chart_dependencies;
mod chart_failure;
mod chart_remote;
mod cloud_login;
pub mod connection;
pub mod consumers;
mod external;
pub mod files;
mod generated;
pub mod git;
mod git_login;
pub mod helm_chart;
pub mod helm_repository;
mod ignore;
mod include;
pub mod index;
pub mod lookup;
pub mod oci;
pub mod reconciler;
pub mod secret;
pub mod touched;

use driftless_flux::{FluxKind, reason};
use driftless_helm::HelmError;
use driftless_kernel::context::Context;
use driftless_kernel::failure::Failure;
use std::fmt::Display;
use url::Url;

/// Removes the webhook notes of a source that is deleted, or about to be. Sources have no
/// finalizer, so a deletion is noticed when something queues the source, such as a push. Objects of
/// other kinds have no such notes.
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

/// Returns the address of a chart repository as source-controller uses it: its path ends with one
/// `/`.
///
/// # Errors
/// The scheme is neither `http` nor `https`.
fn repository_url(text: &str) -> Result<Url, Failure> {
    let mut url = Url::parse(text).map_err(|error| invalid_url(&error))?;
    match url.scheme() {
        "http" | "https" => {}
        "oci" => {
            let message = "'oci' URL scheme cannot be used with 'default' HelmRepository type";
            return Err(invalid_url(&message));
        }
        other => {
            let message = format!("scheme '{other}' is not supported, expected http or https");
            return Err(invalid_url(&message));
        }
    }
    let path = format!("{}/", url.path().trim_end_matches('/'));
    url.set_path(&path);
    Ok(url)
}

/// Returns the address of the index of a chart repository.
///
/// # Errors
/// The same as [`repository_url`].
fn index_url(text: &str) -> Result<String, Failure> {
    let mut url = repository_url(text)?;
    let path = format!("{}index.yaml", url.path());
    url.set_path(&path);
    Ok(url.into())
}

fn invalid_url(problem: &impl Display) -> Failure {
    let message = format!("invalid Helm repository URL: {problem}");
    Failure::terminal(reason::URL_INVALID, message)
}

/// Returns the message of a chart or index error without the name, for callers that name the object
/// themselves.
fn unnamed(error: HelmError) -> String {
    match error {
        HelmError::Chart { message, .. } => message,
        other => other.to_string(),
    }
}

/// Returns an address for messages, without user, password and query, which may hold tokens.
pub fn redact(url: &str) -> String {
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
        for (url, problem) in [
            ("oci://ghcr.io/a", "'oci' URL scheme cannot be used"),
            ("file:///etc", "scheme 'file' is not supported"),
            ("nonsense", "relative URL"),
        ] {
            let failure = index_url(url).unwrap_err();
            assert!(failure.message.contains(problem), "{}", failure.message);
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
            assert_eq!(redact(url), text);
        }
    }
}
