//! The files of an artifact as one blob that is read by need: an index, and pieces that are
//! compressed independently. Pure.
//!
//! ```text
//! magic │ length of the index │ SHA-256 of the index │ index │ piece │ piece │ …
//! ```
//!
//! The index has every path with its kind, Git id and size, and of each piece its length and
//! SHA-256. A piece has the contents of consecutive files, joined. It begins at a directory where
//! possible, and its borders depend on the names of the directories, so that pieces of
//! directories without a change are the same in the next revision.

mod borders;
mod index;

pub use index::{Head, PackedIndex, Piece};

use driftless_manifest::FileTree;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use std::io::{self, Write as _};

/// The first bytes of every blob of this format.
const MAGIC: &[u8; 20] = b"driftless files v1\r\n";
/// The bytes before the index: the magic, the length of the index, and its SHA-256.
const HEADER: usize = MAGIC.len() + size_of::<u64>() + 32;

/// The limits of the files of an artifact.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most bytes of all files, and of the index.
    pub bytes: u64,
    /// The most files and links.
    pub files: usize,
}

/// The error of a blob that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The bytes are not those that were written.
    #[error("the packed files are damaged: {0}")]
    Damaged(&'static str),
    /// The files exceed the limits.
    #[error("the packed files are refused: {0}")]
    TooLarge(&'static str),
    /// The tree has no content of a file, or the index has no form in JSON.
    #[error("pack the files: {0}")]
    NotPacked(String),
}

/// Packs the files of a tree. The same tree gives the same bytes. Returns the blob and its index.
///
/// # Errors
/// The tree has no content of a file.
pub fn pack(tree: &FileTree) -> Result<(Vec<u8>, PackedIndex), FormatError> {
    let (mut pieces, mut frames) = (Vec::new(), Vec::new());
    for files in borders::split(tree.index()) {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
        for (path, _) in &files {
            let content = tree.content(path);
            let content = content.ok_or_else(|| {
                FormatError::NotPacked(format!("the content of '{path}' is not loaded"))
            })?;
            encoder.write_all(content).map_err(not_packed)?;
        }
        let frame = encoder.finish().map_err(not_packed)?;
        pieces.push(Piece::of(&files, frames.len() as u64, &frame));
        frames.extend(frame);
    }
    let index = PackedIndex::new(tree.shared_index(), pieces);
    let mut blob = index.to_bytes()?;
    blob.append(&mut frames);
    let start = (blob.len() as u64).saturating_sub(index.pieces_bytes());
    Ok((blob, index.starting_at(start)))
}

fn not_packed(error: io::Error) -> FormatError {
    FormatError::NotPacked(error.to_string())
}

#[cfg(test)]
mod tests;
