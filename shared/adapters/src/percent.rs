//! Percent-encoding of paths of URLs.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// All bytes except the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');
/// The same without the slash.
const RESERVED_IN_PATH: &AsciiSet = &RESERVED.remove(b'/');

/// Encodes all bytes except the unreserved characters of RFC 3986, also slashes: the result is one
/// segment of a path.
pub(crate) fn encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// Encodes a path, and keeps its slashes.
pub(crate) fn encode_path(path: &str) -> String {
    utf8_percent_encode(path, RESERVED_IN_PATH).to_string()
}

/// Decodes `%XX`; other bytes, and a `%` without two hex digits, stay unchanged.
pub(crate) fn decode(text: &str) -> Vec<u8> {
    percent_decode_str(text).collect()
}

#[cfg(test)]
mod tests {
    use super::{decode, encode, encode_path};

    #[test]
    fn encoded_text_decodes_to_itself() {
        for text in ["acme/web_ui", "a@b:c%é", "100%", "%4"] {
            assert_eq!(decode(&encode(text)), text.as_bytes());
        }
        assert_eq!(decode("100%%4"), b"100%%4");
    }

    #[test]
    fn a_path_is_one_segment() {
        assert_eq!(encode("acme/web_ui-1.0/é"), "acme%2Fweb_ui-1.0%2F%C3%A9");
        assert_eq!(encode_path("a b/~c/"), "a%20b/~c/");
    }
}
