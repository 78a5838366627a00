//! Requests for parts of the blob with the packed files of an artifact.

use crate::archive::BYTES_PER_STEP;
use crate::artifact;
use bytes::Bytes;
use driftless_fuel::{OutOfFuel, Tank};
use driftless_kernel::concurrent;
use driftless_kernel::packed_files::{Head, PackedIndex, Piece};
use driftless_kernel::ports::{ErrorKind, PortError, Ports, Result, compute};
use futures::FutureExt as _;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// The bytes that the first request for packed files reads: the index of a usual repository, or all
/// files of a small one.
const HEAD: u64 = 128 << 10;
/// The bytes between two pieces that are read rather than skipped by another request.
const GAP: u64 = 64 << 10;
/// The most bytes of a request for several pieces.
const LONGEST: u64 = 8 << 20;
/// The requests for pieces that run concurrently.
const CONCURRENCY: usize = 8;

/// Reads the index of packed files, and keeps the pieces that were read with it; `None` if it is
/// lost or damaged.
pub(super) async fn read_index(ports: &Ports, hash: &str) -> Result<Option<Arc<PackedIndex>>> {
    let key = artifact::files_key(hash);
    let Some(head) = read(ports, &key, 0..HEAD).await? else {
        return Ok(None);
    };
    let (index, head) = match parse(ports, &key, head.clone()).await? {
        Some(Head::Index(index)) => (index, head),
        Some(Head::Incomplete(end)) if head.len() as u64 == HEAD => {
            let Some(rest) = read(ports, &key, HEAD..end).await? else {
                return Ok(None);
            };
            let head = Bytes::from([head, rest].concat());
            match parse(ports, &key, head.clone()).await? {
                Some(Head::Index(index)) => (index, head),
                _ => return Ok(None),
            }
        }
        _ => return Ok(None),
    };
    let pieces = index.pieces().iter().filter_map(|piece| {
        let frame = part(&head, 0, &index.range_of(piece))?;
        Some((piece.clone(), frame))
    });
    for (piece, frame) in pieces {
        if let Ok(contents) = piece.unpack(&frame) {
            ports.files.keep_piece(&piece, &contents);
        }
    }
    Ok(Some(Arc::new(index)))
}

/// Parses the first bytes of packed files; `None` if they are damaged, which is logged.
async fn parse(ports: &Ports, key: &str, head: Bytes) -> Result<Option<Head>> {
    let bytes = head.len() as u64;
    let read = move || PackedIndex::read(&head, artifact::limits());
    match compute(ports.compute.as_ref(), bytes, read).await? {
        Ok(head) => Ok(Some(head)),
        Err(error) => {
            tracing::warn!(key, "{error}");
            Ok(None)
        }
    }
}

/// Reads a part of packed files; `None` if they are lost, or end before it.
async fn read(ports: &Ports, key: &str, range: Range<u64>) -> Result<Option<Bytes>> {
    match ports.blobs.get_range(key, range).await {
        Err(error) if error.kind == ErrorKind::Unreadable => {
            tracing::warn!(key, "the packed files are incomplete: {error}");
            Ok(None)
        }
        found => found,
    }
}

/// The contents of pieces, by number.
pub(super) type Contents = Vec<(usize, Bytes)>;

/// Returns the contents of pieces: those that the process keeps, and the others by requests for
/// their ranges. `None` if the packed files are lost or damaged.
pub(super) async fn read_pieces(
    ports: &Ports,
    index: &Arc<PackedIndex>,
    hash: &str,
    wanted: BTreeSet<usize>,
    step: &Tank,
) -> Result<Option<Contents>> {
    let (mut found, mut missing) = (Contents::new(), Vec::new());
    for at in wanted {
        let Some(piece) = index.pieces().get(at) else {
            continue;
        };
        match ports.files.piece(piece) {
            Some(contents) => found.push((at, contents)),
            None => {
                let steps = usize::try_from(piece.bytes()).unwrap_or(usize::MAX) / BYTES_PER_STEP;
                let charged = step.steps(steps);
                charged.map_err(|error| refused(&error))?;
                missing.push(at);
            }
        }
    }
    let key = artifact::files_key(hash);
    let requests = ranges(index, &missing).into_iter().map(|(range, pieces)| {
        let (key, index) = (&key, index.clone());
        async move {
            let Some(bytes) = read(ports, key, range.clone()).await? else {
                return Ok(None);
            };
            let size = pieces.iter().filter_map(|at| index.pieces().get(*at));
            let size: u64 = size.map(Piece::bytes).sum();
            let unpack = move || unpack(&index, &bytes, range.start, &pieces);
            compute(ports.compute.as_ref(), size, unpack).await
        }
        .boxed()
    });
    for contents in concurrent::run(CONCURRENCY, requests.collect()).await {
        let contents: Option<Contents> = contents?;
        let Some(contents) = contents else {
            tracing::warn!(key, "the packed files of an artifact are damaged");
            return Ok(None);
        };
        for (at, contents) in contents {
            if let Some(piece) = index.pieces().get(at) {
                ports.files.keep_piece(piece, &contents);
            }
            found.push((at, contents));
        }
    }
    Ok(Some(found))
}

fn refused(error: &OutOfFuel) -> PortError {
    let message = format!("the files are refused: {error}");
    PortError::new(ErrorKind::Invalid, message)
}

/// Returns the ranges of the blob that have these pieces, which are in order, each with its pieces.
fn ranges(index: &PackedIndex, pieces: &[usize]) -> Vec<(Range<u64>, Vec<usize>)> {
    let mut ranges: Vec<(Range<u64>, Vec<usize>)> = Vec::new();
    for at in pieces {
        let Some(piece) = index.pieces().get(*at) else {
            continue;
        };
        let next = index.range_of(piece);
        match ranges.last_mut() {
            Some((range, pieces))
                if next.start.saturating_sub(range.end) <= GAP
                    && next.end.saturating_sub(range.start) <= LONGEST =>
            {
                range.end = next.end;
                pieces.push(*at);
            }
            _ => ranges.push((next, vec![*at])),
        }
    }
    ranges
}

/// Unpacks pieces from the bytes of the blob from `start` on; `None` if one is damaged.
fn unpack(index: &PackedIndex, bytes: &Bytes, start: u64, pieces: &[usize]) -> Option<Contents> {
    let unpack = |at: &usize| {
        let piece = index.pieces().get(*at)?;
        let frame = part(bytes, start, &index.range_of(piece))?;
        Some((*at, piece.unpack(&frame).ok()?))
    };
    pieces.iter().map(unpack).collect()
}

/// Returns a range of a blob from its bytes from `start` on.
fn part(bytes: &Bytes, start: u64, range: &Range<u64>) -> Option<Bytes> {
    let from = usize::try_from(range.start.checked_sub(start)?).ok()?;
    let to = usize::try_from(range.end.checked_sub(start)?).ok()?;
    (from <= to && to <= bytes.len()).then(|| bytes.slice(from..to))
}
