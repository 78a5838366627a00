//! Maps blob keys to file names and back.
//!
//! Different keys get different files, also on a file system that ignores case; a key can be a
//! parent of another one (`a` and `a/b`); and no key leads out of the directory.

use driftless_kernel::ports::{Result, blob_key};
use std::path::{Path, PathBuf};

/// The extension of the files of blobs; no directory has it.
const ENDING: &str = ".blob";
/// The limit of the name of a directory or file in bytes, well below the limit of file systems of
/// 255.
const NAME_LENGTH: usize = 200;

/// Returns the file of a key, relative to the directory of blobs.
///
/// # Errors
/// Fails if the key or a part of it is empty, or if it is longer than 1,024 bytes.
pub fn file_of(key: &str) -> Result<PathBuf> {
    blob_key::check(key)?;
    let mut file = PathBuf::new();
    let mut parts = key.split('/').peekable();
    while let Some(part) = parts.next() {
        let mut rest = encode(part).into_bytes();
        while rest.len() > NAME_LENGTH {
            let tail = rest.split_off(NAME_LENGTH);
            // A single `%` at the end marks that the next name continues the same part.
            file.push(format!("{}%", String::from_utf8_lossy(&rest)));
            rest = tail;
        }
        let ending = if parts.peek().is_none() { ENDING } else { "" };
        file.push(format!("{}{ending}", String::from_utf8_lossy(&rest)));
    }
    Ok(file)
}

/// Returns the key of a file; `None` if it is not the file of a key.
pub fn key_of(file: &Path) -> Option<String> {
    let mut key = String::new();
    let text = file.to_str()?.strip_suffix(ENDING)?;
    for name in text.split('/') {
        match name.strip_suffix('%') {
            Some(part) => key.push_str(part),
            None => {
                key.push_str(name);
                key.push('/');
            }
        }
    }
    let key = decode(key.strip_suffix('/')?)?;
    (file_of(&key).ok()? == file).then_some(key)
}

fn encode(part: &str) -> String {
    let guarded = part
        .len()
        .checked_sub(ENDING.len())
        .filter(|_| part.ends_with(ENDING));
    let mut name = String::with_capacity(part.len());
    for (at, byte) in part.bytes().enumerate() {
        let plain = match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'=' | b'@' => true,
            b'.' => at > 0 && Some(at) != guarded,
            _ => false,
        };
        if plain {
            name.push(char::from(byte));
        } else {
            name.push_str(&format!("%{byte:02x}"));
        }
    }
    name
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        if *first == b'%' {
            let mut byte = [0];
            hex::decode_to_slice(tail.get(..2)?, &mut byte).ok()?;
            bytes.push(byte[0]);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_kernel::ports::ErrorKind;
    use std::collections::HashSet;

    #[test]
    fn keys_map_to_distinct_files_and_back() {
        let long = format!("state/{}/x", "n".repeat(253));
        let split = format!("{}.blob", "n".repeat(NAME_LENGTH - 3));
        let keys = [
            "a",
            "A",
            "a/b",
            "a.blob",
            "a.blob/b",
            ".",
            "..",
            "a/../b",
            "a/..",
            "%61",
            "a%",
            "a b",
            "é/ü",
            "a\\b",
            "a\0b",
            ".git/config",
            "x.tar.gz",
            &long,
            &split,
        ];
        let mut files = HashSet::new();
        for key in keys {
            let file = file_of(key).unwrap();
            assert_eq!(key_of(&file).as_deref(), Some(key));
            assert!(
                file.components()
                    .all(|part| matches!(part, std::path::Component::Normal(_))),
                "{file:?}"
            );
            assert!(file.iter().all(|name| name.len() <= 255));
            assert!(
                files.insert(file.to_str().unwrap().to_lowercase()),
                "{key} shares its file"
            );
        }
        // No blob's file is another blob's directory.
        for file in &files {
            assert!(
                files
                    .iter()
                    .all(|other| !other.starts_with(&format!("{file}/")))
            );
        }
    }

    #[test]
    fn invalid_keys_and_files_are_refused() {
        for key in ["", "/", "/a", "a/", "a//b", &"x".repeat(1025)] {
            assert_eq!(file_of(key).unwrap_err().kind, ErrorKind::Invalid, "{key}");
        }
        assert_eq!(key_of(Path::new("stray")), None);
        assert_eq!(key_of(Path::new("Upper.blob")), None);
    }
}
