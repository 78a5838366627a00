//! Percent-encoding of paths of URLs.

/// Encodes all bytes except the unreserved characters of RFC 3986, also slashes: the result is one
/// segment of a path.
pub(crate) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte))
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// Encodes a path, and keeps its slashes.
pub(crate) fn encode_path(path: &str) -> String {
    let segments: Vec<String> = path.split('/').map(encode).collect();
    segments.join("/")
}

#[cfg(test)]
mod tests {
    use super::{encode, encode_path};

    #[test]
    fn a_path_is_one_segment() {
        assert_eq!(encode("acme/web_ui-1.0/é"), "acme%2Fweb_ui-1.0%2F%C3%A9");
        assert_eq!(encode_path("a b/~c/"), "a%20b/~c/");
    }
}
