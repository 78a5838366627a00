//! A trusted root: the authorities and logs of a Sigstore, as its `trusted_root.json` names them.

use crate::flux::shorten;
use serde_json::{Value, json};
use sigstore_verify::Verifier;
use sigstore_verify::trust_root::{SIGSTORE_PRODUCTION_TRUSTED_ROOT, TrustedRoot};

/// Bytes of a trusted root; that of the public Sigstore has 7 KiB.
const BYTES: usize = 256 << 10;
/// Authorities, or logs, of one kind.
const MANY: usize = 32;
/// How its media type begins.
const MEDIA_TYPE: &str = "application/vnd.dev.sigstore.trustedroot";
/// Lists of a trusted root, and the text that each of their members may lack: protocol buffers leave out what is empty.
const LISTS: [(&str, &str); 4] = [
    ("tlogs", "baseUrl"),
    ("ctlogs", "baseUrl"),
    ("certificateAuthorities", "uri"),
    ("timestampAuthorities", "uri"),
];

/// Authorities and logs that are trusted.
pub(in crate::source::verify) struct Root(Verifier);

impl Root {
    /// Of when the built-in one is: when its crate was published.
    pub const PUBLIC_DATE: &str = "2026-10-23";

    /// Reads a `trusted_root.json`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(text: &[u8]) -> Result<Self, String> {
        if text.len() > BYTES {
            return Err(format!("has more than {} KiB", BYTES >> 10));
        }
        let root: Value = serde_json::from_slice(text).map_err(|_| "is not JSON")?;
        let kind = root["mediaType"].as_str().unwrap_or_default();
        if !kind.starts_with(MEDIA_TYPE) {
            return Err(format!(
                "is not a trusted root: expected the mediaType {MEDIA_TYPE}+json"
            ));
        }
        let root = serde_json::from_value::<TrustedRoot>(complete(root)?);
        let root = root.map_err(|error| cannot(&error))?;
        Verifier::new(&root)
            .map(Self)
            .map_err(|error| cannot(&error))
    }

    /// That of the public Sigstore, as it was at [`PUBLIC_DATE`](Self::PUBLIC_DATE). The library's makers take it from Sigstore's TUF
    /// repository.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn public() -> Result<Self, String> {
        Self::read(SIGSTORE_PRODUCTION_TRUSTED_ROOT.as_bytes())
    }

    pub(super) fn verifier(&self) -> &Verifier {
        &self.0
    }
}

fn cannot(error: &dyn std::error::Error) -> String {
    format!("cannot be used: {}", shorten(&error.to_string(), 300))
}

/// Bounds the lists, and gives their members the texts that the library wants.
fn complete(mut root: Value) -> Result<Value, String> {
    for (list, text) in LISTS {
        let Some(members) = root[list].as_array_mut() else {
            continue;
        };
        if members.len() > MANY {
            return Err(format!("has more than {MANY} {list}"));
        }
        for member in members.iter_mut().filter_map(Value::as_object_mut) {
            member.entry(text).or_insert_with(|| json!(""));
        }
    }
    Ok(root)
}
