//! The keys and contents of generated ConfigMaps and Secrets.

use crate::error::{Error, ErrorKind};
use crate::kustomization::Generator;
use crate::loader::Loader;
use std::collections::BTreeMap;

/// Returns the keys and contents of an entry's env files, literals and files.
///
/// # Errors
/// A source that cannot be read, or a duplicate key.
pub(super) fn load(
    args: &Generator,
    loader: &Loader<'_>,
) -> Result<BTreeMap<String, Vec<u8>>, Error> {
    let fault = |reason: String| ErrorKind::Generator {
        name: args.name.clone(),
        reason,
    };
    let mut all = Vec::new();
    let old_env = (!args.env.is_empty()).then_some(&args.env);
    for path in args.envs.iter().chain(old_env) {
        let (file, bytes) = loader.load(path, "envs")?;
        all.extend(env_lines(&bytes).map_err(|error| fault(format!("'{file}': {error}")))?);
    }
    for literal in &args.literals {
        all.push(
            key_value(literal)
                .ok_or_else(|| fault("a literal is not of the form key=value".to_owned()))?,
        );
    }
    for source in &args.files {
        let (key, path) = file_source(source).map_err(|error| fault(error.to_string()))?;
        let (_, bytes) = loader.load(path, "files")?;
        all.push((key.to_owned(), bytes));
    }
    let mut pairs = BTreeMap::new();
    for (key, value) in all {
        if pairs.insert(key.clone(), value).is_some() {
            return Err(fault(format!("duplicate key '{key}'")).into());
        }
    }
    Ok(pairs)
}

type Pair = (String, Vec<u8>);

/// The error of a source of pairs.
#[derive(Debug, thiserror::Error)]
enum SourceError {
    #[error("line {0} is not UTF-8")]
    NotUtf8(usize),
    #[error("the file source '{0}' has more than one '='")]
    ManySigns(String),
    #[error("the file source '{0}' has no key before '='")]
    NoKey(String),
    #[error("the file source '{0}' has no path after '='")]
    NoPath(String),
}

/// Parses lines of `key=value`; blank lines and comments are left out, a line without `=` is a key
/// without a value.
fn env_lines(bytes: &[u8]) -> Result<Vec<Pair>, SourceError> {
    /// The longest line in bytes: Go's scanner stops without an error at a longer one.
    const MAX_LINE: usize = 64 * 1024;
    let mut pairs = Vec::new();
    let mut rest = bytes;
    let mut number = 0;
    while !rest.is_empty() {
        number += 1;
        let (line, more) = match rest.iter().position(|byte| *byte == b'\n') {
            Some(end) => (&rest[..end], &rest[end + 1..]),
            None => (rest, &rest[rest.len()..]),
        };
        if line.len() >= MAX_LINE {
            break;
        }
        rest = more;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let text = std::str::from_utf8(line).map_err(|_| SourceError::NotUtf8(number))?;
        let text = if number == 1 {
            text.strip_prefix('\u{feff}').unwrap_or(text)
        } else {
            text
        };
        let text = text.trim_start();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let (key, value) = text.split_once('=').unwrap_or((text, ""));
        if !key.is_empty() {
            pairs.push((key.to_owned(), value.as_bytes().to_vec()));
        }
    }
    Ok(pairs)
}

/// Splits `key=value`; one pair of quotes around the value is dropped.
fn key_value(literal: &str) -> Option<Pair> {
    let (key, value) = literal.split_once('=').filter(|(key, _)| !key.is_empty())?;
    let quoted = |mark: char| {
        value
            .strip_prefix(mark)
            .and_then(|rest| rest.strip_suffix(mark))
    };
    let value = quoted('"').or_else(|| quoted('\'')).unwrap_or(value);
    Some((key.to_owned(), value.as_bytes().to_vec()))
}

/// Splits `path` or `key=path`.
fn file_source(source: &str) -> Result<(&str, &str), SourceError> {
    match source.split_once('=') {
        None => Ok((
            source
                .trim_end_matches('/')
                .rsplit('/')
                .next()
                .unwrap_or(source),
            source,
        )),
        Some((_, path)) if path.contains('=') => Err(SourceError::ManySigns(source.to_owned())),
        Some(("", _)) => Err(SourceError::NoKey(source.to_owned())),
        Some((_, "")) => Err(SourceError::NoPath(source.to_owned())),
        Some(pair) => Ok(pair),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_sources() {
        let pairs = env_lines(b"\xef\xbb\xbfA=1\r\n# no\n\n  B = x=y \nC\n").unwrap();
        let text: Vec<_> = pairs
            .iter()
            .map(|(key, value)| format!("{key}|{}", String::from_utf8_lossy(value)))
            .collect();
        assert_eq!(text, ["A|1", "B | x=y ", "C|"]);
        assert_eq!(key_value("a='b'").unwrap().1, b"b");
        assert_eq!(key_value("a='b").unwrap().1, b"'b");
        assert_eq!(key_value("a='").unwrap().1, b"'");
        assert!(key_value("=b").is_none());
        assert_eq!(file_source("dir/x.txt").unwrap(), ("x.txt", "dir/x.txt"));
        assert!(file_source("a=b=c").is_err());
    }
}
