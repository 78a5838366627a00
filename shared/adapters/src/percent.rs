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

/// Decodes `%XX`; other bytes, and a `%` without two hex digits, stay unchanged.
pub(crate) fn decode(text: &str) -> Vec<u8> {
    let digit = |byte: Option<&u8>| char::from(*byte?).to_digit(16);
    let (bytes, mut at) = (text.as_bytes(), 0);
    let mut decoded = Vec::with_capacity(bytes.len());
    while let Some(byte) = bytes.get(at) {
        match (byte, digit(bytes.get(at + 1)), digit(bytes.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                decoded.push((high * 16 + low) as u8);
                at += 3;
            }
            _ => {
                decoded.push(*byte);
                at += 1;
            }
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::{decode, encode, encode_path};

    #[test]
    fn what_was_encoded_is_decoded() {
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
