//! The split of rendered texts into documents and hooks, and their order.

use crate::compat::Compat;
use crate::error::HelmError;
use crate::manifest_head::Head;
use driftless_fuel::{FuelLimits, Span, Tank};

use std::collections::BTreeMap;
use std::ops::Range;

/// A rendered document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The full name of the template.
    pub source: String,
    /// The `kind`; empty if missing.
    pub kind: String,
    /// The `metadata.name` of the document.
    pub name: String,
    /// The YAML, trimmed like in Helm.
    pub content: String,
}

impl Manifest {
    /// Writes it with its `# Source:` comment.
    pub(crate) fn write(&self, out: &mut String) {
        for part in ["---\n# Source: ", &self.source, "\n", &self.content, "\n"] {
            out.push_str(part);
        }
    }
}

/// A rendered document with a `helm.sh/hook` annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// The document with the annotation.
    pub manifest: Manifest,
    /// `pre-install`, `test`, …; `test-success` is `test`.
    pub events: Vec<String>,
    /// The weight, from `helm.sh/hook-weight`.
    pub weight: i64,
    /// The deletion policies, from `helm.sh/hook-delete-policy`.
    pub delete_policies: Vec<String>,
    /// The log policies, from `helm.sh/hook-output-log-policy`.
    pub log_policies: Vec<String>,
}

impl Hook {
    /// Checks whether it is a test.
    pub fn is_test(&self) -> bool {
        self.events.iter().any(|e| e == "test")
    }
}

const EVENTS: &[&str] = &[
    "pre-install",
    "post-install",
    "pre-delete",
    "post-delete",
    "pre-upgrade",
    "post-upgrade",
    "pre-rollback",
    "post-rollback",
    "test",
];

const INSTALL_ORDER: &[&str] = &[
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodSecurityPolicy",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "SecretList",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleList",
    "ClusterRoleBinding",
    "ClusterRoleBindingList",
    "Role",
    "RoleList",
    "RoleBinding",
    "RoleBindingList",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
];

const HELM4_LAST: &[&str] = &[
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];

/// The total limits of reading the documents of a release. A document is freed when its head is
/// known; with a post-renderer they are in memory together.
pub(crate) const RENDERED: FuelLimits = FuelLimits {
    steps: 25_000_000,
    nodes: 5_000_000,
    ..FuelLimits::NONE
};

/// Returns the position of a kind in the order of installation; unknown ones come last, by name.
fn rank(kind: &str, compat: Compat) -> (usize, &str) {
    let extra: &[&str] = match compat {
        Compat::Helm3 => &[],
        Compat::Helm4 => HELM4_LAST,
    };
    match INSTALL_ORDER.iter().chain(extra).position(|k| *k == kind) {
        Some(at) => (at, ""),
        None => (usize::MAX, kind),
    }
}

/// Returns the range of the next line of dashes, with the white space that belongs to it: in Helm 3
/// all surrounding white space, in Helm 4 the rest of the line after the dashes.
fn separator(text: &str, from: usize, compat: Compat) -> Option<Range<usize>> {
    const DASHES: &str = "---";
    const SPACE: [char; 5] = [' ', '\t', '\n', '\x0C', '\r'];
    let starts_line = |at: usize| at == 0 || at > from && text.as_bytes()[at - 1] == b'\n';
    let found = text.get(from..)?.match_indices(DASHES);
    let start = found.map(|(at, _)| from + at).find(|at| starts_line(*at))?;
    let behind = &text[start + DASHES.len()..];
    let (head, tail) = match compat {
        Compat::Helm3 => (
            text[from..start].trim_end_matches(SPACE),
            behind.trim_start_matches(SPACE),
        ),
        Compat::Helm4 => (&text[from..start], behind.trim_start_matches([' ', '\t'])),
    };
    Some(from + head.len()..text.len() - tail.len())
}

/// Iterates over the pieces between separators.
fn pieces(text: &str, compat: Compat) -> impl Iterator<Item = &str> {
    let mut left = Some(0);
    std::iter::from_fn(move || {
        let from = left?;
        let next = separator(text, from, compat);
        left = next.as_ref().map(|range| range.end);
        Some(&text[from..next.map_or(text.len(), |range| range.start)])
    })
}

/// Splits rendered output into documents; empty ones are left out.
pub(crate) fn split(text: &str, compat: Compat) -> Vec<String> {
    documents(text, compat).map(str::to_owned).collect()
}

/// Iterates over the documents of rendered output; empty ones are left out.
fn documents(text: &str, compat: Compat) -> impl Iterator<Item = &str> {
    let text = match compat {
        Compat::Helm3 => text.trim(),
        Compat::Helm4 => text.trim_start(),
    };
    pieces(text, compat).filter_map(move |document| match compat {
        Compat::Helm3 => (!document.is_empty()).then(|| document.trim()),
        Compat::Helm4 => (!document.trim().is_empty()).then(|| document.trim_start()),
    })
}

/// The maximal documents of one release: one that can be stored, in a Secret of 1 MiB, has far
/// fewer.
const MAX_DOCUMENTS: usize = 20_000;

/// Sorts rendered texts into manifests and hooks, in the order of installation.
///
/// # Errors
/// [`HelmError::Manifest`] for a document that is not a mapping, and for too many documents.
pub(crate) fn sort(
    files: &BTreeMap<String, Vec<u8>>,
    compat: Compat,
    step: &Tank,
) -> Result<(Vec<Manifest>, Vec<Hook>), HelmError> {
    let (mut manifests, mut hooks) = (Vec::new(), Vec::new());
    let fuel = step.part(RENDERED);
    for (source, text) in files {
        let fail = |message, span| HelmError::Manifest {
            file: source.clone(),
            message,
            span,
        };
        let text = std::str::from_utf8(text).map_err(|error| fail(no_utf8(text, error), None))?;
        for content in documents(text, compat) {
            if manifests.len() + hooks.len() >= MAX_DOCUMENTS {
                return Err(fail(format!("more than {MAX_DOCUMENTS} documents"), None));
            }
            let head = Head::read(content, compat, &fuel).map_err(|refused| {
                let span = refused
                    .span
                    .map(|span| in_file(source, text, content, &span));
                fail(refused.message, span)
            })?;
            let manifest = Manifest {
                source: source.clone(),
                kind: head.kind.clone(),
                name: head.name.clone(),
                content: content.to_owned(),
            };
            match head.annotation("helm.sh/hook") {
                None => manifests.push(manifest),
                Some(events) => hooks.extend(hook(manifest, events, &head)),
            }
        }
    }
    manifests.sort_by(|a, b| rank(&a.kind, compat).cmp(&rank(&b.kind, compat)));
    hooks.sort_by(|a, b| rank(&a.manifest.kind, compat).cmp(&rank(&b.manifest.kind, compat)));
    Ok((manifests, hooks))
}

/// Converts a place in a document to the place in the rendered template `text`, of which the
/// document is a slice.
fn in_file(source: &str, text: &str, document: &str, span: &Span) -> Span {
    let start = document
        .as_ptr()
        .addr()
        .saturating_sub(text.as_ptr().addr());
    let start = Span::at_byte(source, text, start);
    let column = match span.line {
        1 => start.column - 1 + span.column,
        _ => span.column,
    };
    Span::new(source, start.line - 1 + span.line, column)
}

/// Returns the message of Go's YAML reader for invalid UTF-8.
fn no_utf8(text: &[u8], error: std::str::Utf8Error) -> String {
    let first = text.get(error.valid_up_to()).copied().unwrap_or_default();
    let reason = match error.error_len() {
        None => "incomplete UTF-8 octet sequence",
        Some(_) if !matches!(first, 0xc0..=0xf7) => "invalid leading UTF-8 octet",
        Some(_) => "invalid trailing UTF-8 octet",
    };
    format!("error converting YAML to JSON: yaml: {reason}")
}

/// Creates the hook; returns `None` if an event is unknown.
fn hook(manifest: Manifest, events: &str, head: &Head) -> Option<Hook> {
    let events = events
        .split(',')
        .map(|event| match event.trim().to_lowercase().as_str() {
            "test-success" => Some("test".to_owned()),
            event => EVENTS.contains(&event).then(|| event.to_owned()),
        })
        .collect::<Option<Vec<_>>>()?;
    let weight = head.annotation("helm.sh/hook-weight").unwrap_or_default();
    Some(Hook {
        manifest,
        events,
        weight: weight.parse().unwrap_or(0),
        delete_policies: head.list("helm.sh/hook-delete-policy"),
        log_policies: head.list("helm.sh/hook-output-log-policy"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use regex::Regex;

    /// A place in a document is shown as the place in the whole text.
    #[test]
    fn names_the_line_of_the_rendered_text() {
        let text = "---\nkind: A\n---\nkind: B\nmetadata: {a: b\n";
        let files = BTreeMap::from([("web/templates/a.yaml".to_owned(), text.into())]);
        let error = sort(&files, Compat::Helm3, &Tank::default()).unwrap_err();
        let place = error.span().map(ToString::to_string);
        assert_eq!(place.as_deref(), Some("web/templates/a.yaml:6:1"));
        let last = Span::new("yaml", 1, 3);
        let place = in_file("a", "--- x: y", &"--- x: y"[4..], &last);
        assert_eq!(place.to_string(), "a:1:7");
    }

    /// The separators are those of Helm's expressions.
    #[test]
    fn cuts_where_helm_cuts() {
        let helm3 = Regex::new(r"(?:^|[\t\n\x0C\r ]*\n)---[\t\n\x0C\r ]*").unwrap();
        let helm4 = Regex::new(r"(?m)^---[ \t]*").unwrap();
        for text in [
            "",
            "---",
            "a",
            "a\n---\nb",
            "---\na",
            "a\n---",
            "a \n \n---  \n\n b",
            "a\n---\n---\nb",
            "a\n------\nb",
            "a---\nb",
            "a\n ---\nb",
            "a\n--- # c\nb",
            "a\n---b",
            "---\n---",
            "a\r\n---\r\nb",
            "a\n---\t---\nb",
            "\n---\n\n---\n",
            "é\n---\né",
        ] {
            for (compat, expression) in [(Compat::Helm3, &helm3), (Compat::Helm4, &helm4)] {
                let expected: Vec<&str> = expression.split(text).collect();
                let cut: Vec<&str> = pieces(text, compat).collect();
                assert_eq!(cut, expected, "{text:?} {compat:?}");
            }
        }
    }
}
