//! The statement of cosign 2: a JSON text that names the digest of what is signed.

use serde_json::Value;

/// Whether a statement speaks of the manifest with that digest (`sha256:…`).
pub(super) fn speaks_of(statement: &[u8], digest: &str) -> bool {
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
        assert!(speaks_of(statement("sha256:aa").as_bytes(), "sha256:aa"));
        assert!(!speaks_of(statement("sha256:ab").as_bytes(), "sha256:aa"));
        assert!(!speaks_of(b"{}", "sha256:aa"));
        assert!(!speaks_of(b"", ""));
    }
}
