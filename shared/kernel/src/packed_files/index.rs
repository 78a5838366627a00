//! The index of packed files.

use super::borders::Files;
use super::{FormatError, HEADER, Limits, MAGIC};
use bytes::Bytes;
use driftless_manifest::{BlobId, Entry, EntryKind, FileTree, TreeIndex, TreePath};
use flate2::Compression;
use flate2::bufread::DeflateDecoder;
use flate2::write::DeflateEncoder;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::io::{Read as _, Write as _};
use std::ops::Range;
use std::sync::Arc;

/// The bytes of memory that a path of an index needs in addition to its name.
const PATH_OVERHEAD: u64 = 128;

/// The index of packed files: all paths, and where their contents are.
#[derive(Clone, Debug)]
pub struct PackedIndex {
    tree: Arc<TreeIndex>,
    pieces: Vec<Piece>,
    /// The position of the first piece in the blob.
    pub(super) start: u64,
}

/// The contents of consecutive files, compressed together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The first file.
    first: TreePath,
    /// The number of files.
    pub(super) files: usize,
    /// The bytes of all contents.
    bytes: u64,
    /// The position in the pieces of the blob.
    range: Range<u64>,
    /// The SHA-256 of the compressed bytes.
    digest: [u8; 32],
}

/// The result of reading the first bytes of a blob.
#[derive(Debug)]
pub enum Head {
    /// The index of the blob, which is complete.
    Index(PackedIndex),
    /// The index ends at this position, so that more bytes are needed.
    Incomplete(u64),
}

/// The document of an index: the files in order of path, and of each piece the number of files, the
/// compressed bytes and their SHA-256.
#[derive(Serialize, Deserialize)]
struct Document {
    files: Vec<(TreePath, EntryKind, BlobId, u64)>,
    pieces: Vec<(usize, u64, String)>,
}

impl Piece {
    pub(super) fn of(files: &Files<'_>, start: u64, frame: &[u8]) -> Self {
        let first = files.first().map(|(path, _)| (*path).clone());
        Self {
            first: first.unwrap_or_default(),
            files: files.len(),
            bytes: files.iter().map(|(_, entry)| entry.size).sum(),
            range: start..start.saturating_add(frame.len() as u64),
            digest: Sha256::digest(frame).into(),
        }
    }

    /// Returns the SHA-256 of the compressed bytes, which names the contents in a cache.
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }

    /// Returns the bytes of all contents.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the contents from the compressed bytes, after a check of their digest.
    ///
    /// # Errors
    /// The bytes are not those that were written.
    pub fn unpack(&self, frame: &[u8]) -> Result<Bytes, FormatError> {
        if <[u8; 32]>::from(Sha256::digest(frame)) != self.digest {
            return Err(FormatError::Damaged("a piece has another digest"));
        }
        inflate(frame, self.bytes)
            .filter(|contents| contents.len() as u64 == self.bytes)
            .ok_or(FormatError::Damaged("a piece has another size"))
    }
}

impl PackedIndex {
    pub(super) fn new(tree: Arc<TreeIndex>, pieces: Vec<Piece>) -> Self {
        Self {
            tree,
            pieces,
            start: 0,
        }
    }

    pub(super) fn starting_at(self, start: u64) -> Self {
        Self { start, ..self }
    }

    pub(super) fn pieces_bytes(&self) -> u64 {
        self.pieces.last().map_or(0, |piece| piece.range.end)
    }

    /// Returns the header and the index, as the blob begins with them.
    pub(super) fn to_bytes(&self) -> Result<Vec<u8>, FormatError> {
        let files = self.tree.iter().map(|(path, entry)| {
            let Entry { kind, id, size } = entry.clone();
            (path.clone(), kind, id, size)
        });
        let pieces = self.pieces.iter().map(|piece| {
            let length = piece.range.end.saturating_sub(piece.range.start);
            (piece.files, length, hex::encode(piece.digest))
        });
        let document = Document {
            files: files.collect(),
            pieces: pieces.collect(),
        };
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
        serde_json::to_writer(&mut encoder, &document)
            .map_err(|error| FormatError::NotPacked(error.to_string()))?;
        encoder.flush().map_err(super::not_packed)?;
        let packed = encoder.finish().map_err(super::not_packed)?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend((packed.len() as u64).to_le_bytes());
        bytes.extend(Sha256::digest(&packed));
        bytes.extend(packed);
        Ok(bytes)
    }

    /// Reads the index from the first bytes of a blob.
    ///
    /// # Errors
    /// The blob is damaged, or has more files than the limits allow.
    pub fn read(head: &[u8], limits: Limits) -> Result<Head, FormatError> {
        let damaged = FormatError::Damaged;
        let Some((header, rest)) = head.split_at_checked(HEADER) else {
            return Err(damaged("the header is incomplete"));
        };
        let Some(header) = header.strip_prefix(MAGIC) else {
            return Err(damaged("the header is another one"));
        };
        let (length, digest) = header
            .split_first_chunk::<8>()
            .ok_or(damaged("the header is incomplete"))?;
        let length = u64::from_le_bytes(*length);
        if length > limits.bytes {
            return Err(FormatError::TooLarge("the index is too large"));
        }
        let start = (HEADER as u64).saturating_add(length);
        let length = usize::try_from(length).map_err(|_| damaged("the index is too large"))?;
        let Some((packed, _)) = rest.split_at_checked(length) else {
            return Ok(Head::Incomplete(start));
        };
        if Sha256::digest(packed)[..] != *digest {
            return Err(damaged("the index has another digest"));
        }
        let text = inflate(packed, limits.bytes).ok_or(damaged("the index is not compressed"))?;
        let document: Document = serde_json::from_slice(&text)
            .map_err(|_| damaged("the index is not the expected JSON"))?;
        if document.files.len() > limits.files {
            return Err(FormatError::TooLarge("too many files"));
        }
        let index = Self::from_document(document, limits)?;
        Ok(Head::Index(index.starting_at(start)))
    }

    fn from_document(document: Document, limits: Limits) -> Result<Self, FormatError> {
        let sizes = document.files.iter().map(|(.., size)| *size);
        let total = sizes.fold(0_u64, u64::saturating_add);
        if total > limits.bytes {
            return Err(FormatError::TooLarge("the files are too large"));
        }
        let (mut pieces, mut left) = (Vec::new(), &document.files[..]);
        let mut start = 0_u64;
        for (files, length, digest) in document.pieces {
            let of_piece = left.split_at_checked(files);
            let Some((own @ [(first, ..), ..], rest)) = of_piece else {
                return Err(FormatError::Damaged("a piece has no files"));
            };
            let end = start.saturating_add(length);
            let mut piece = Piece {
                first: first.clone(),
                files,
                bytes: own.iter().map(|(.., size)| size).sum(),
                range: start..end,
                digest: [0; 32],
            };
            hex::decode_to_slice(&digest, &mut piece.digest)
                .map_err(|_| FormatError::Damaged("a digest is not one"))?;
            pieces.push(piece);
            (left, start) = (rest, end);
        }
        if !left.is_empty() || !document.files.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(FormatError::Damaged("the pieces do not have all files"));
        }
        let files = document.files.into_iter();
        let tree: TreeIndex = files
            .map(|(path, kind, id, size)| (path, Entry { kind, id, size }))
            .collect();
        Ok(Self::new(Arc::new(tree), pieces))
    }

    /// Returns the paths and ids of all files.
    pub fn tree(&self) -> &Arc<TreeIndex> {
        &self.tree
    }

    /// Returns the pieces, in the order of the blob.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Returns the bytes of a piece in the blob.
    pub fn range_of(&self, piece: &Piece) -> Range<u64> {
        let Range { start, end } = piece.range;
        self.start.saturating_add(start)..self.start.saturating_add(end)
    }

    /// Returns the number of the piece that has a file of the index.
    pub fn piece_of(&self, path: &TreePath) -> Option<usize> {
        self.tree.get(path)?;
        let after = self.pieces.partition_point(|piece| piece.first <= *path);
        after.checked_sub(1)
    }

    /// Returns the files of a piece with their contents.
    pub fn files_of(&self, piece: &Piece, contents: &Bytes) -> Vec<(TreePath, Bytes)> {
        let mut left = contents.clone();
        let files = self.tree.from_path(&piece.first).take(piece.files);
        let with_content = files.map_while(|(path, entry)| {
            let size = usize::try_from(entry.size).ok()?;
            let content = (size <= left.len()).then(|| left.split_to(size))?;
            Some((path.clone(), content))
        });
        with_content.collect()
    }

    /// Returns the contents of a piece from the tree that was packed.
    pub fn contents_of(&self, piece: &Piece, tree: &FileTree) -> Bytes {
        let files = self.tree.from_path(&piece.first).take(piece.files);
        let contents: Vec<&[u8]> = files
            .filter_map(|(path, _)| tree.content(path).map(Bytes::as_ref))
            .collect();
        Bytes::from(contents.concat())
    }

    /// Returns the bytes of memory that the index needs.
    pub fn memory(&self) -> u64 {
        let paths = self.tree.iter();
        paths
            .map(|(path, _)| path.as_str().len() as u64 + PATH_OVERHEAD)
            .sum()
    }
}

/// Returns the decompressed bytes; `None` if they are not complete, or more than `most`.
fn inflate(packed: &[u8], most: u64) -> Option<Bytes> {
    let mut contents = Vec::new();
    let mut decoder = DeflateDecoder::new(packed).take(most.saturating_add(1));
    decoder.read_to_end(&mut contents).ok()?;
    let is_whole = decoder.into_inner().into_inner().is_empty();
    (is_whole && contents.len() as u64 <= most).then(|| contents.into())
}
