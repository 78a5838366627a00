//! The statement of cosign 2: a JSON document with the digest of the signed manifest.

use serde_json::Value;

/// Returns whether a statement is for the manifest with this digest (`sha256:…`).
pub(super) fn is_for(statement: &[u8], digest: &str) -> bool {
    let statement = serde_json::from_slice::<Value>(statement).unwrap_or_default();
    let named = statement.pointer("/critical/image/docker-manifest-digest");
    named.and_then(Value::as_str) == Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements() {
        let statement = |digest: &str| {
            format!(
                r#"{{"critical":{{"identity":{{"docker-reference":"r"}},"image":{{"docker-manifest-digest":"{digest}"}},"type":"t"}},"optional":null}}"#
            )
        };
        assert!(is_for(statement("sha256:aa").as_bytes(), "sha256:aa"));
        assert!(!is_for(statement("sha256:ab").as_bytes(), "sha256:aa"));
        assert!(!is_for(b"{}", "sha256:aa"));
        assert!(!is_for(b"", ""));
    }
}
