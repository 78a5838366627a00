//! The rules of names, labels and annotations, with the API server's messages: k8s.io/apimachinery
//! 0.36, pkg/util/validation/validation.go.

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const KEY: &str = "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

fn lower(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn is_label(text: &str) -> bool {
    text.starts_with(lower) && text.ends_with(lower) && text.chars().all(|c| lower(c) || c == '-')
}

/// Returns the problems of a name of most objects, a DNS subdomain; empty if it is valid.
pub fn subdomain(text: &str) -> Vec<String> {
    subdomain_in(text, "characters")
}

/// The real server has two versions of this check, whose messages differ in one word.
fn subdomain_in(text: &str, unit: &str) -> Vec<String> {
    let mut out = Vec::new();
    if text.len() > 253 {
        out.push(format!("must be no more than 253 {unit}"));
    }
    if !is_subdomain(text) {
        out.push(SUBDOMAIN.to_owned());
    }
    out
}

/// Returns the problems of a namespace's name, a DNS label; empty if it is valid.
pub fn label(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    if text.len() > 63 {
        out.push("must be no more than 63 bytes".to_owned());
    }
    if is_label(text) {
        return out;
    }
    out.push(if is_subdomain(text) {
        "must not contain dots".to_owned()
    } else {
        LABEL.to_owned()
    });
    out
}

/// Returns the problems of a name that must only be valid in a path, such as RBAC's; empty if it is
/// valid.
pub fn path_segment(text: &str) -> Vec<String> {
    if matches!(text, "." | "..") {
        return vec![format!("may not be '{text}'")];
    }
    ['/', '%']
        .iter()
        .filter(|c| text.contains(**c))
        .map(|c| format!("may not contain '{c}'"))
        .collect()
}

fn is_qualified(text: &str) -> bool {
    let ends = |c: char| c.is_ascii_alphanumeric();
    text.starts_with(ends)
        && text.ends_with(ends)
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

/// Returns the problems of the key of a label or annotation; empty if it is valid.
pub fn label_key(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                out.push("prefix part must be non-empty".to_owned());
            } else {
                let problems = subdomain_in(prefix, "bytes");
                out.extend(
                    problems
                        .iter()
                        .map(|problem| format!("prefix part {problem}")),
                );
            }
            *name
        }
        _ => return vec![KEY.to_owned()],
    };
    if name.is_empty() {
        out.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        out.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_qualified(name) {
        out.push(QUALIFIED.to_owned());
    }
    out
}

/// Returns the problems of the value of a label; empty if it is valid.
pub fn label_value(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    if text.len() > 63 {
        out.push("must be no more than 63 bytes".to_owned());
    }
    if !text.is_empty() && !is_qualified(text) {
        out.push(VALUE.to_owned());
    }
    out
}
