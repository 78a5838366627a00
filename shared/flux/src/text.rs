//! Strings as Flux's command line prints them.

use regex::{Captures, Regex};
use std::sync::LazyLock;

/// Shortens every hash of 40 to 128 digits in a string to 8, as Flux's command line does.
pub fn short_hashes(text: &str) -> String {
    static HASH: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"\b[a-f0-9]{40,128}\b").ok());
    match HASH.as_ref() {
        Some(hash) => hash
            .replace_all(text, |found: &Captures<'_>| found[0][..8].to_owned())
            .into_owned(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_shortened() {
        let sha = "6f2c1a9e0b3d4c5f6a7b8c9d0e1f2a3b4c5d6e7f";
        assert_eq!(
            short_hashes(&format!("main@sha1:{sha}")),
            "main@sha1:6f2c1a9e"
        );
        assert_eq!(
            short_hashes(&format!("stored {sha} and sha256:{sha}{}", &sha[..24])),
            "stored 6f2c1a9e and sha256:6f2c1a9e"
        );
        assert_eq!(short_hashes("6f2c1a9e0b"), "6f2c1a9e0b");
    }
}
