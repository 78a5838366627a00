//! Regular expressions of users, with limits.

use driftless_flux::Invalid;
use driftless_go::re2;
use regex::{Regex, RegexBuilder};

/// Maximum bytes of a user's regular expression.
const MAX_PATTERN_BYTES: usize = 4 << 10;
/// Maximum bytes of a compiled regular expression.
const MAX_COMPILED_BYTES: usize = 1 << 20;

/// Compiles a regular expression as Go's `regexp` does.
///
/// # Errors
/// Go's message for an invalid expression, or a message about the limits.
pub fn pattern(text: &str) -> Result<Regex, Invalid> {
    if text.len() > MAX_PATTERN_BYTES {
        return Err("the expression is too long".into());
    }
    let translated = re2::translate(text).map_err(Invalid::new)?;
    let compiled = RegexBuilder::new(&translated)
        .size_limit(MAX_COMPILED_BYTES)
        .build();
    compiled.map_err(|_| Invalid::from("the expression is too large"))
}
