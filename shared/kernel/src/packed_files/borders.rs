//! The division of the files of a tree into pieces.

use driftless_manifest::{BlobId, Entry, TreeIndex, TreePath};

/// The bytes of content from which a piece ends at the next directory.
const ENOUGH: u64 = 32 << 10;
/// The bytes of content from which a piece ends at a directory whose name is a landmark, so that a
/// new file moves no border behind the next landmark.
const LANDMARK: u64 = ENOUGH / 4;
/// The bytes of content that a piece with several files has at most.
const MOST: u64 = 256 << 10;
/// The files that a piece has at most.
const MOST_FILES: usize = 1024;

/// The files of a piece.
pub(super) type Files<'t> = Vec<(&'t TreePath, &'t Entry)>;

/// Returns the files of each piece, in order of path.
pub(super) fn split(tree: &TreeIndex) -> Vec<Files<'_>> {
    let mut pieces = Vec::new();
    let (mut piece, mut bytes) = (Files::new(), 0_u64);
    for (path, entry) in tree.iter() {
        let ends = piece.last().is_some_and(|(last, _)| {
            let is_full = piece.len() == MOST_FILES || bytes.saturating_add(entry.size) > MOST;
            is_full || bytes >= LANDMARK && begins_directory(last, path, bytes)
        });
        if ends {
            pieces.push(std::mem::take(&mut piece));
            bytes = 0;
        }
        bytes = bytes.saturating_add(entry.size);
        piece.push((path, entry));
    }
    pieces.extend(Some(piece).filter(|piece| !piece.is_empty()));
    pieces
}

/// Returns whether a piece of this many bytes ends before `next`, because its directory is another
/// one than that of `last`.
fn begins_directory(last: &TreePath, next: &TreePath, bytes: u64) -> bool {
    let directory = next.parent();
    if last.parent() == directory {
        return false;
    }
    let [first, ..] = BlobId::of(directory.as_str().as_bytes()).bytes();
    bytes >= ENOUGH || first.is_multiple_of(4)
}
