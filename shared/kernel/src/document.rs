//! The documents in the bucket and in the queue: JSON with the number of its format.
//!
//! The rule for releases, so that an upgrade and its roll back lose no work:
//!
//! - A new field, which older programs may ignore and drop at their next write, does not raise
//!   [`FORMAT`]: programs of the same format read each other's documents.
//! - A change that an older program would misunderstand raises it: a new meaning of a field, a new
//!   value of an enumeration, or a setting of a hub that forbids something.
//! - A program reads every older format. It never acts on a newer one: see
//!   [`crate::state`] for records, and [`crate::hub::settings`] for registrations. A message with
//!   a newer format returns to the queue.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The format of the documents that this version writes, and the newest that it reads. A document
/// without a number has the first one.
pub const FORMAT: u64 = 1;

/// The reason why a document cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// The document has a newer format.
    #[error(
        "written by a newer driftless: it has the format {0}, and version {version} reads formats up to {FORMAT}",
        version = env!("CARGO_PKG_VERSION")
    )]
    Newer(u64),
    /// The bytes are not such a document. The message has the position alone: the error itself may
    /// quote the document.
    #[error("line {}, column {}", .0.line(), .0.column())]
    Damaged(serde_json::Error),
}

/// A document with its number, in the form of the bucket.
#[derive(Serialize)]
struct Numbered<'a, T> {
    format: u64,
    #[serde(flatten)]
    document: &'a T,
}

/// The number of a document, read before the document itself.
#[derive(Deserialize)]
struct Number {
    #[serde(default = "first")]
    format: u64,
}

fn first() -> u64 {
    1
}

/// Returns the JSON of a document, which must be a map without a field `format`.
///
/// # Errors
/// The document is not a map, or cannot be JSON.
pub fn encode<T: Serialize>(document: &T) -> serde_json::Result<String> {
    serde_json::to_string(&Numbered {
        format: FORMAT,
        document,
    })
}

/// Reads a document. Unknown fields are ignored.
///
/// # Errors
/// The document is damaged or of a newer format.
pub fn decode<T: DeserializeOwned>(json: &[u8]) -> Result<T, DocumentError> {
    let number: Number = serde_json::from_slice(json).map_err(DocumentError::Damaged)?;
    if number.format > FORMAT {
        return Err(DocumentError::Newer(number.format));
    }
    serde_json::from_slice(json).map_err(DocumentError::Damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Wait {
        until: u64,
    }

    #[test]
    fn a_document_has_its_format_and_is_read_without_one() {
        let text = encode(&Wait { until: 7 }).unwrap();
        assert_eq!(text, r#"{"format":1,"until":7}"#);
        for text in [&*text, r#"{"until":7}"#, r#"{"until":7,"new":{"a":[]}}"#] {
            let read: Wait = decode(text.as_bytes()).unwrap();
            assert_eq!(read, Wait { until: 7 }, "{text}");
        }
        assert!(encode(&"text").is_err(), "no place for the format");
    }

    #[test]
    fn a_newer_document_is_told_from_a_damaged_one_and_is_not_quoted() {
        let newer = decode::<Wait>(br#"{"format":2,"until":{"or":"never"}}"#).unwrap_err();
        assert!(matches!(newer, DocumentError::Newer(2)), "{newer}");
        for text in [
            r#"{"until":"s3cret"}"#,
            r#"{"format":"s3cret","until":1}"#,
            "s3cret",
            "[]",
            "",
        ] {
            let error = decode::<Wait>(text.as_bytes()).unwrap_err();
            assert!(matches!(error, DocumentError::Damaged(_)), "{text}");
            assert!(!error.to_string().contains("s3cret"), "{error}");
        }
    }
}
