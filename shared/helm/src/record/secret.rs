//! The conversion between a release and the Secret in which Helm keeps it.

use super::Release;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use driftless_go::json;
use driftless_manifest::Object;
use flate2::Compression;
use flate2::read::{GzEncoder, MultiGzDecoder};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Read;

/// The Secret's type.
pub const SECRET_TYPE: &str = "helm.sh/release.v1";
/// The label that selects all records in a LIST; `name=NAME` restricts it to one release.
pub const OWNER_LABELS: (&str, &str) = ("owner", "helm");

/// The labels that Helm reserves for itself.
const SYSTEM_LABELS: [&str; 6] = [
    "name",
    "owner",
    "status",
    "version",
    "createdAt",
    "modifiedAt",
];
const GZIP: [u8; 3] = [0x1f, 0x8b, 0x08];
/// The maximal bytes of a Secret in Kubernetes.
const SECRET_BYTES: usize = 1 << 20;

/// Returns the name of the Secret: `sh.helm.release.v1.NAME.vN`.
pub fn secret_name(release: &str, version: i64) -> String {
    format!("sh.helm.release.v1.{release}.v{version}")
}

/// The limits of reading a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordLimits {
    /// The bytes of the packed record.
    pub packed: usize,
    /// The bytes of the unpacked record.
    pub bytes: usize,
}

impl Default for RecordLimits {
    /// Returns 2 MiB packed (Kubernetes allows a Secret half of that), 64 MiB unpacked.
    fn default() -> Self {
        RecordLimits {
            packed: 2 << 20,
            bytes: 64 << 20,
        }
    }
}

/// The error of reading or writing a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The Secret does not contain a valid record.
    #[error("Secret {secret} holds no Helm release: {reason}")]
    Unreadable {
        /// The Secret as `namespace/name`.
        secret: String,
        /// The reason, without the content.
        reason: String,
    },
    /// The record is larger than the limits.
    #[error("Secret {secret} holds a Helm release of more than {limit} bytes")]
    TooLarge {
        /// The Secret as `namespace/name`.
        secret: String,
        /// The limit in bytes.
        limit: usize,
    },
    /// The release does not fit into a Secret.
    #[error(
        "release {release} is {bytes} bytes when packed, and a Secret holds at most {SECRET_BYTES}: make the chart smaller, its files and values count too"
    )]
    DoesNotFit {
        /// The name and revision of the release.
        release: String,
        /// The bytes of the packed record.
        bytes: usize,
    },
}

/// The label with the time at which a Secret was written, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// The label `createdAt`, of a new Secret.
    Created(i64),
    /// The label `modifiedAt`, of a Secret that is written again; Helm then drops `createdAt`.
    Modified(i64),
}

impl Release {
    /// Reads a Secret that Helm 3.22, Helm 4.3 or driftless has written.
    ///
    /// # Errors
    /// [`RecordError`], which names the Secret and never its content.
    pub fn from_secret(secret: &Object, limits: &RecordLimits) -> Result<Release, RecordError> {
        let id = format!("{}/{}", secret.namespace(), secret.name());
        let unreadable = |reason: &str| RecordError::Unreadable {
            secret: id.clone(),
            reason: reason.to_owned(),
        };
        let too_large = |limit| RecordError::TooLarge {
            secret: id.clone(),
            limit,
        };
        let data = secret
            .pointer("/data/release")
            .and_then(|data| data.as_str())
            .ok_or_else(|| unreadable("data.release is missing"))?;
        if data.len() / 4 * 3 > limits.packed {
            return Err(too_large(limits.packed));
        }
        let inner = STANDARD
            .decode(data)
            .map_err(|_| unreadable("data.release is not valid base64"))?;
        let packed = STANDARD
            .decode(inner.trim_ascii_end())
            .map_err(|_| unreadable("data.release does not hold base64 within its base64"))?;
        let text = if packed.starts_with(&GZIP) {
            let mut text = Vec::with_capacity(packed.len().saturating_mul(4).min(limits.bytes));
            MultiGzDecoder::new(packed.as_slice())
                .take(limits.bytes as u64 + 1)
                .read_to_end(&mut text)
                .map_err(|_| unreadable("the packed record is damaged"))?;
            text
        } else {
            packed
        };
        if text.len() > limits.bytes {
            return Err(too_large(limits.bytes));
        }
        // serde_json's messages may contain values.
        let mut release: Release = serde_json::from_slice(&text).map_err(|e| {
            unreadable(&format!(
                "the record is not the JSON of a release ({:?} error in line {}, column {})",
                e.classify(),
                e.line(),
                e.column()
            ))
        })?;
        if secret.name() != secret_name(&release.name, release.version) {
            return Err(unreadable(&format!(
                "the name of the Secret is not that of revision {} of its release",
                release.version
            )));
        }
        let labels = secret.meta_map("labels").into_iter().flatten();
        release.labels = labels
            .filter(|(key, _)| !SYSTEM_LABELS.contains(&key.as_str()))
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect();
        Ok(release)
    }

    /// Creates the Secret of the release in the namespace of its storage.
    ///
    /// # Errors
    /// [`RecordError::DoesNotFit`].
    pub fn to_secret(&self, namespace: &str, stamp: Stamp) -> Result<Object, RecordError> {
        let name = secret_name(&self.name, self.version);
        let unwritable = |reason: String| RecordError::Unreadable {
            secret: format!("{namespace}/{name}"),
            reason,
        };
        let text = json::to_string(self).map_err(|e| unwritable(e.to_string()))?;
        let mut packed = Vec::new();
        GzEncoder::new(text.as_bytes(), Compression::best())
            .read_to_end(&mut packed)
            .map_err(|e| unwritable(e.to_string()))?;
        let inner = STANDARD.encode(packed);
        if inner.len() > SECRET_BYTES {
            return Err(RecordError::DoesNotFit {
                release: format!("{}.v{}", self.name, self.version),
                bytes: inner.len(),
            });
        }
        Object::new(json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": namespace, "labels": self.all_labels(stamp)},
            "type": SECRET_TYPE,
            "data": {"release": STANDARD.encode(inner)},
        }))
        .map_err(|e| unwritable(e.to_string()))
    }

    fn all_labels(&self, stamp: Stamp) -> BTreeMap<String, String> {
        let (stamp, seconds) = match stamp {
            Stamp::Created(seconds) => ("createdAt", seconds),
            Stamp::Modified(seconds) => ("modifiedAt", seconds),
        };
        let own = [
            (stamp, seconds.to_string()),
            ("name", self.name.clone()),
            (OWNER_LABELS.0, OWNER_LABELS.1.to_owned()),
            ("status", self.info.status.to_string()),
            ("version", self.version.to_string()),
        ];
        let mut labels = self.labels.clone();
        labels.extend(own.map(|(key, value)| (key.to_owned(), value)));
        labels
    }
}
