//! The line of a file that an error is about, with a caret below the place.
//!
//! An excerpt repeats content, so it is shown only from a file that has no secret values as its
//! text shows. That is decided by the whole file and not by the line, and also for files that
//! cannot be parsed:
//!
//! - Each document names its `apiVersion` and `kind` at the beginning of a line, or the file is a
//!   kustomization. So values files of charts, and files from which generators read, have no
//!   excerpts: they may become values of Secrets.
//! - Nothing in it is a Secret, also no patch for one, and no `secretGenerator` and no
//!   `stringData`.
//! - Nothing in it is encrypted by SOPS, and it has no PEM block. The content is that of the
//!   repository: this module never has what a build has decrypted.

use driftless_fuel::Span;
use driftless_kustomize::FILE_NAMES;
use regex::Regex;
use std::sync::LazyLock;

/// The marks of files that may have secret values.
static SECRET: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r#"(?mi)\bkind["']?\s*:\s*["']?Secret|stringData|secretGenerator|\bENC\[|\bsops["']?\s*:|-----BEGIN"#,
    )
    .ok()
});

/// Returns the line of a file at a place, as [`driftless_fuel::excerpt`] does; `None` without a
/// column, and for a file that may have secret values.
pub fn excerpt(content: &[u8], place: &Span) -> Option<String> {
    let text = std::str::from_utf8(content).ok()?;
    if place.column == 0 || may_have_secrets(text, &place.file) {
        return None;
    }
    Some(driftless_fuel::excerpt(text, place)).filter(|excerpt| !excerpt.is_empty())
}

fn may_have_secrets(text: &str, file: &str) -> bool {
    let is_kustomization = FILE_NAMES
        .iter()
        .any(|name| file.rsplit(['/', '\\']).next() == Some(name));
    let is_named = is_kustomization || documents(text).iter().all(|one| is_object(one));
    !is_named || SECRET.as_ref().is_none_or(|secret| secret.is_match(text))
}

/// Splits a file at the lines between its documents. Comments alone are not a document.
fn documents(text: &str) -> Vec<Vec<&str>> {
    let lines: Vec<&str> = text.lines().collect();
    let documents = lines.split(|line| line.starts_with("---"));
    let has_content = |line: &&str| !line.trim().is_empty() && !line.starts_with('#');
    documents
        .map(|lines| lines.iter().copied().filter(has_content).collect())
        .filter(|lines: &Vec<&str>| !lines.is_empty())
        .collect()
}

fn is_object(lines: &[&str]) -> bool {
    let has = |field: &str| lines.iter().any(|line| line.starts_with(field));
    has("apiVersion:") && has("kind:")
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECT: &str =
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  a: b\n  a: hunter2\n";

    fn excerpt_at_value(file: &str, text: &str) -> Option<String> {
        let line = text.lines().position(|line| line.contains("hunter2"));
        let line = line.map_or(0, |line| line + 1);
        excerpt(text.as_bytes(), &Span::new(file, line, 3))
    }

    #[test]
    fn an_object_is_shown_with_a_caret() {
        let expected = " --> app.yaml:7:3\n  |\n7 |   a: hunter2\n  |   ^\n";
        assert_eq!(
            excerpt_at_value("app.yaml", OBJECT).as_deref(),
            Some(expected)
        );
        let two = format!("# a comment\n---\n{OBJECT}---\n{OBJECT}");
        assert!(excerpt_at_value("app.yaml", &two).is_some());
        let list = "resources:\n- a.yaml\n- {hunter2: a\n";
        assert!(excerpt_at_value("apps/kustomization.yaml", list).is_some());
        assert!(excerpt(OBJECT.as_bytes(), &Span::new("app.yaml", 7, 0)).is_none());
        assert!(excerpt(OBJECT.as_bytes(), &Span::new("app.yaml", 99, 1)).is_none());
    }

    #[test]
    fn a_file_that_may_have_secret_values_is_not_shown() {
        let secret = OBJECT.replace("ConfigMap", "Secret");
        let generated = "secretGenerator:\n- name: a\n  literals: [a=hunter2]\n";
        let patch = "patches:\n- target: {kind: Secret}\n  patch: hunter2\n";
        for (file, text) in [
            ("secret.yaml", secret.as_str()),
            ("secret.yaml", &secret.replace("Secret", "\"Secret\"")),
            ("secret.yaml", &secret.replace("kind: ", "kind:   ")),
            ("both.yaml", &format!("{OBJECT}---\n{secret}")),
            ("sops.yaml", &format!("{OBJECT}sops:\n  mac: x\n")),
            (
                "sops.yaml",
                &OBJECT.replace("a: b", "a: ENC[AES256_GCM,data:x]"),
            ),
            ("string.yaml", &OBJECT.replace("data:", "stringData:")),
            (
                "pem.yaml",
                &format!("{OBJECT}# -----BEGIN PRIVATE KEY-----\n"),
            ),
            ("values.yaml", "database:\n  password: hunter2\n"),
            ("kustomization.yaml", generated),
            ("kustomization.yaml", patch),
            ("second.yaml", &format!("{OBJECT}---\nvalues: hunter2\n")),
            (
                "secret.json",
                r#"{"kind": "Secret", "data": {"a": "hunter2"}}"#,
            ),
            (
                "list.yaml",
                &format!("{OBJECT}items:\n- {{kind: Secret, a: b}}\n"),
            ),
        ] {
            assert_eq!(excerpt_at_value(file, text), None, "{file}: {text}");
        }
    }
}
