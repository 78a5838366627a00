//! A trusted root: the authorities and logs of a Sigstore, from its `trusted_root.json`.

use driftless_flux::{Invalid, shorten};
use serde_json::{Value, json};
use sigstore_verify::Verifier;
use sigstore_verify::trust_root::{SIGSTORE_PRODUCTION_TRUSTED_ROOT, TrustedRoot};

/// Maximum bytes of a trusted root; that of the public Sigstore has 7 KiB.
const MAX_BYTES: usize = 256 << 10;
/// Maximum number of authorities, or logs, of one kind.
const MAX_MEMBERS: usize = 32;
/// The prefix of the media types of all versions.
const MEDIA_TYPE: &str = "application/vnd.dev.sigstore.trustedroot";
/// The lists of a trusted root, and the string field that their members may lack: protocol buffers
/// omit empty fields.
const LISTS: [(&str, &str); 4] = [
    ("tlogs", "baseUrl"),
    ("ctlogs", "baseUrl"),
    ("certificateAuthorities", "uri"),
    ("timestampAuthorities", "uri"),
];

/// The trusted authorities and logs.
pub(crate) struct Root(Verifier);

impl Root {
    /// The date of the built-in trusted root: when its crate was published.
    pub const PUBLIC_DATE: &str = "2026-10-23";

    /// Reads a `trusted_root.json`.
    ///
    /// # Errors
    /// The rest of a sentence about the file, such as "is not JSON".
    pub fn read(text: &[u8]) -> Result<Self, Invalid> {
        if text.len() > MAX_BYTES {
            return Err(format!("has more than {} KiB", MAX_BYTES >> 10).into());
        }
        let root: Value = serde_json::from_slice(text).map_err(|_| "is not JSON")?;
        let kind = root["mediaType"].as_str().unwrap_or_default();
        if !kind.starts_with(MEDIA_TYPE) {
            return Err(
                format!("is not a trusted root: expected the mediaType {MEDIA_TYPE}+json").into(),
            );
        }
        let root = serde_json::from_value::<TrustedRoot>(complete(root)?);
        let root = root.map_err(|error| cannot(&error))?;
        Verifier::new(&root)
            .map(Self)
            .map_err(|error| cannot(&error))
    }

    /// Returns the trusted root of the public Sigstore as of [`PUBLIC_DATE`](Self::PUBLIC_DATE).
    /// The library takes it from Sigstore's TUF repository.
    ///
    /// # Errors
    /// The same as [`read`](Self::read).
    pub fn public() -> Result<Self, Invalid> {
        Self::read(SIGSTORE_PRODUCTION_TRUSTED_ROOT.as_bytes())
    }

    pub(super) fn verifier(&self) -> &Verifier {
        &self.0
    }
}

fn cannot(error: &dyn std::error::Error) -> Invalid {
    format!("cannot be used: {}", shorten(&error.to_string(), 300)).into()
}

/// Bounds the lists, and adds the fields to their members that the library requires.
fn complete(mut root: Value) -> Result<Value, Invalid> {
    for (list, field) in LISTS {
        let Some(members) = root[list].as_array_mut() else {
            continue;
        };
        if members.len() > MAX_MEMBERS {
            return Err(format!("has more than {MAX_MEMBERS} {list}").into());
        }
        for member in members.iter_mut().filter_map(Value::as_object_mut) {
            member.entry(field).or_insert_with(|| json!(""));
        }
    }
    Ok(root)
}
