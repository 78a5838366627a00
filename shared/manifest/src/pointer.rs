//! Keys in JSON pointers (RFC 6901).

use std::borrow::Cow;

/// Returns a key as a token of a JSON pointer.
pub fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Returns the key of a token of a JSON pointer.
pub fn unescape(token: &str) -> Cow<'_, str> {
    match token.contains('~') {
        true => Cow::Owned(token.replace("~1", "/").replace("~0", "~")),
        false => Cow::Borrowed(token),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_escaped_and_read_back() {
        for (key, token) in [("a", "a"), ("a/b~c", "a~1b~0c"), ("~1", "~01"), ("", "")] {
            assert_eq!(escape(key), token);
            assert_eq!(unescape(token), key);
        }
    }
}
