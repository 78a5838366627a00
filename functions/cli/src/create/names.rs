//! The checks of names and labels, equal to those of Kubernetes' API machinery.

use crate::error::Error;
use driftless_flux::Invalid;
use serde_json::{Map, Value};

use super::flags::{List, items};

/// The maximum length of a name and of a label's value, in bytes.
const MAX_LABEL_LENGTH: usize = 63;
/// The maximum length of the prefix of a label's key, in bytes.
const LONGEST_PREFIX: usize = 253;

/// Checks the name of a new object, a label of RFC 1123. Flux 2.9 refuses a name of one character,
/// which Kubernetes accepts.
pub fn object_name(name: &str) -> Result<String, Invalid> {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    let valid = (1..=MAX_LABEL_LENGTH).contains(&bytes.len())
        && bytes.iter().all(|byte| inner(*byte) || *byte == b'-')
        && bytes.first().is_some_and(|byte| inner(*byte))
        && bytes.last().is_some_and(|byte| inner(*byte));
    match valid {
        true => Ok(name.to_owned()),
        false => Err(format!(
            "name '{name}' is invalid, it should adhere to standard defined in RFC 1123: at most {MAX_LABEL_LENGTH} lower-case letters, \
             digits and '-', with a letter or digit at both ends"
        )
        .into()),
    }
}

/// Parses labels from `key=value` pairs; of two pairs with the same key the later wins.
pub fn labels(lists: &[List]) -> Result<Map<String, Value>, Error> {
    let mut labels = Map::new();
    for pair in items(lists) {
        let [key, value] = pair.split('=').collect::<Vec<_>>()[..] else {
            let message = format!("invalid label format '{pair}', must be key=value");
            return Err(Error::usage(message));
        };
        qualified(key)
            .map_err(|reason| Error::usage(format!("invalid label '{key}': {reason}")))?;
        if !value.is_empty() {
            let invalid = |reason| Error::usage(format!("invalid label value '{value}': {reason}"));
            part(value).map_err(invalid)?;
        }
        labels.insert(key.to_owned(), value.into());
    }
    Ok(labels)
}

/// Checks that a string is a qualified name: `[prefix/]name`.
///
/// # Errors
/// The requirement that the string does not meet.
pub fn qualified(text: &str) -> Result<(), Invalid> {
    match text.split('/').collect::<Vec<_>>()[..] {
        [name] => part(name),
        [prefix, name] => {
            subdomain(prefix)?;
            part(name)
        }
        _ => Err("a name may have at most one '/', after a DNS subdomain".into()),
    }
}

fn part(text: &str) -> Result<(), Invalid> {
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    match edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(inner) {
        true if bytes.len() <= MAX_LABEL_LENGTH => Ok(()),
        true => Err(format!("must be no more than {MAX_LABEL_LENGTH} characters").into()),
        false => Err(
            "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
             character"
                .into(),
        ),
    }
}

fn subdomain(text: &str) -> Result<(), Invalid> {
    let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let label = |label: &str| {
        let bytes = label.as_bytes();
        bytes.first().copied().is_some_and(alphanumeric)
            && bytes.last().copied().is_some_and(alphanumeric)
            && bytes
                .iter()
                .all(|byte| alphanumeric(*byte) || *byte == b'-')
    };
    match text.len() <= LONGEST_PREFIX && text.split('.').all(label) {
        true => Ok(()),
        false => Err(format!("its prefix '{text}' is not a valid DNS subdomain").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["a", "ab", "a-b", "0a", &"a".repeat(63)] {
            object_name(good).unwrap();
        }
        for bad in ["", "-", "-ab", "ab-", "aB", "a.b", &"a".repeat(64)] {
            object_name(bad).unwrap_err();
        }
    }

    #[test]
    fn label_pairs() {
        let read = |text: &str| labels(&[text.parse::<List>().unwrap()]);
        let found = read("app.io/team=a,empty=,team=b,team=c").unwrap();
        assert_eq!(
            Value::from(found).to_string(),
            r#"{"app.io/team":"a","empty":"","team":"c"}"#
        );
        for (bad, word) in [
            ("team", "must be key=value"),
            ("a=b=c", "must be key=value"),
            ("=b", "invalid label ''"),
            ("a b=c", "invalid label 'a b'"),
            ("A.io/x=c", "'A.io' is not a valid DNS subdomain"),
            ("a/b/c=d", "at most one '/'"),
            ("a=-b", "invalid label value '-b'"),
        ] {
            let error = read(bad).unwrap_err();
            assert!(error.message.contains(word), "{bad}: {}", error.message);
        }
    }
}
