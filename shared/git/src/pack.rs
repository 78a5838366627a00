//! Unpacks a server's pack. The sizes, bases and ids that it announces are not trusted.

use crate::error::{Error, Limit, Result, protocol};
use crate::limits::{BYTES_PER_STEP, Deadline, Limits, STEPS_PER_OBJECT};
use bytes::Bytes;
use driftless_fuel::{Fuel, FuelKind, OutOfFuel};
use gix_hash::{Kind as Hash, ObjectId};
use gix_object::Kind;
use gix_pack::data::decode::entry::ResolvedBase;
use gix_pack::data::decode::header::ResolvedBase as KnownBase;
use gix_pack::data::entry::Header;
use gix_pack::data::{Entry, File, header};
use gix_zlib::Inflate;
use std::collections::HashMap;
use std::path::PathBuf;

/// The objects of a pack, by the ids that are computed from their bytes.
#[derive(Default)]
pub(crate) struct Objects(HashMap<ObjectId, (Kind, Bytes)>);

impl Objects {
    /// Returns the bytes of an object. Fails if it is missing or of another kind.
    pub fn get(&self, id: &ObjectId, kind: Kind) -> Result<&Bytes> {
        match self.0.get(id) {
            Some((found, bytes)) if *found == kind => Ok(bytes),
            Some((found, _)) => protocol(format!("object {id} is a {found} and not a {kind}")),
            None => protocol(format!("the pack has no {kind} {id}")),
        }
    }

    /// Adds the objects of another pack.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Returns the number of bytes of all objects.
    pub fn bytes(&self) -> u64 {
        self.0.values().map(|(_, bytes)| bytes.len() as u64).sum()
    }

    /// Returns the number of objects.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the kind of an object.
    pub fn kind(&self, id: &ObjectId) -> Option<Kind> {
        self.0.get(id).map(|(kind, _)| *kind)
    }
}

/// Unpacks all objects of a pack.
///
/// # Errors
/// Fails if the pack exceeds a limit, is damaged, or needs an object that it does not contain.
pub(crate) fn unpack(pack: Vec<u8>, limits: &Limits, deadline: Deadline) -> Result<Objects> {
    if !is_whole(&pack) {
        return protocol("the pack's checksum is wrong");
    }
    let file = File::from_data(pack, PathBuf::new(), Hash::Sha1).map_err(damaged)?;
    let mut unpacking = Unpacker {
        file,
        fuel: limits.fuel.part(limits.of_pack()),
        deadline,
        inflate: Inflate::default(),
        objects: Objects::default(),
        deltas: HashMap::new(),
    };
    let mut ready = unpacking.entries()?;
    while let Some(base) = ready.pop() {
        unpacking.apply(base, &mut ready)?;
    }
    match unpacking.deltas.is_empty() {
        true => Ok(unpacking.objects),
        false => protocol("the pack has a delta without its base"),
    }
}

/// Returns whether a pack ends with the SHA-1 of the bytes before it.
fn is_whole(pack: &[u8]) -> bool {
    let Some(at) = pack.len().checked_sub(Hash::Sha1.len_in_bytes()) else {
        return false;
    };
    let (before, checksum) = pack.split_at(at);
    let mut hasher = gix_hash::hasher(Hash::Sha1);
    hasher.update(before);
    hasher
        .try_finalize()
        .is_ok_and(|found| found.as_slice() == checksum)
}

/// The base that a delta names.
#[derive(PartialEq, Eq, Hash, Clone, Copy)]
enum Base {
    Offset(u64),
    Id(ObjectId),
}

/// An unpacked object that deltas may have as their base.
struct Ready {
    offset: u64,
    id: ObjectId,
    /// The number of deltas from which it was unpacked.
    depth: usize,
}

struct Unpacker {
    file: File<Vec<u8>>,
    fuel: Fuel,
    deadline: Deadline,
    inflate: Inflate,
    objects: Objects,
    /// The deltas whose base is not yet unpacked.
    deltas: HashMap<Base, Vec<(u64, Entry)>>,
}

impl Unpacker {
    /// Reads every entry once, in order: the start of an entry is known only after the entry before
    /// it was read.
    fn entries(&mut self) -> Result<Vec<Ready>> {
        let count = self.file.num_objects() as usize;
        self.fuel.nodes(count).map_err(over)?;
        let mut ready = Vec::new();
        let mut offset = header::SIZE as u64;
        for _ in 0..count {
            self.deadline.check()?;
            if offset >= self.file.pack_end() as u64 {
                return protocol("the pack has fewer objects than it announces");
            }
            let entry = self.file.entry(offset).map_err(damaged)?;
            self.take(entry.decompressed_size)?;
            let mut bytes = vec![0; entry.decompressed_size as usize];
            let packed = self
                .file
                .decompress_entry(&entry, &mut self.inflate, &mut bytes);
            let next = entry.data_offset + packed.map_err(damaged)? as u64;
            match entry.header {
                Header::OfsDelta { base_distance } => {
                    let base = entry.checked_base_pack_offset(base_distance);
                    let Some(base) = base else {
                        return protocol("a delta's base is before the pack");
                    };
                    self.wait(Base::Offset(base), offset, entry);
                }
                Header::RefDelta { base_id } => self.wait(Base::Id(base_id), offset, entry),
                _ => {
                    let Some(kind) = entry.header.as_kind() else {
                        return protocol("an object has no kind");
                    };
                    let id = self.keep(kind, bytes)?;
                    ready.push(Ready {
                        offset,
                        id,
                        depth: 0,
                    });
                }
            }
            offset = next;
        }
        match offset == self.file.pack_end() as u64 {
            true => Ok(ready),
            false => protocol("the pack has more bytes than objects"),
        }
    }

    fn wait(&mut self, base: Base, offset: u64, entry: Entry) {
        self.deltas.entry(base).or_default().push((offset, entry));
    }

    /// Unpacks the deltas that have this object as their base.
    fn apply(&mut self, base: Ready, ready: &mut Vec<Ready>) -> Result<()> {
        let places = [Base::Offset(base.offset), Base::Id(base.id)];
        let waiting = places
            .into_iter()
            .filter_map(|place| self.deltas.remove(&place));
        let waiting: Vec<(u64, Entry)> = waiting.flatten().collect();
        if waiting.is_empty() {
            return Ok(());
        }
        let depth = base.depth + 1;
        self.fuel.depth(depth).map_err(over)?;
        let found = self.objects.0.get(&base.id).cloned();
        let Some((kind, bytes)) = found else {
            return protocol("a delta has no base");
        };
        for (offset, mut entry) in waiting {
            self.deadline.check()?;
            // Refer to the base by id in every case: the decoder then takes the base from `resolve`
            // and follows no chain.
            entry.header = Header::RefDelta { base_id: base.id };
            let known = |_: &gix_hash::oid| {
                Ok(Some(KnownBase::OutOfPack {
                    kind,
                    num_deltas: None,
                }))
            };
            let header = self
                .file
                .decode_header(entry.clone(), &mut self.inflate, &known);
            self.take(header.map_err(damaged)?.object_size)?;
            let resolve = |_: &gix_hash::oid, out: &mut Vec<u8>| {
                out.clear();
                out.extend_from_slice(&bytes);
                Ok(Some(ResolvedBase::OutOfPack {
                    kind,
                    end: out.len(),
                }))
            };
            let mut out = Vec::new();
            let decoded = self.file.decode_entry(
                entry,
                &mut out,
                &mut self.inflate,
                &resolve,
                &mut gix_pack::cache::Never,
            );
            decoded.map_err(damaged)?;
            // The decoder truncates the buffer to the object but keeps its larger capacity.
            out.shrink_to_fit();
            let id = self.keep(kind, out)?;
            ready.push(Ready { offset, id, depth });
        }
        Ok(())
    }

    fn take(&mut self, bytes: u64) -> Result<()> {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.fuel.bytes(bytes).map_err(over)?;
        let steps = STEPS_PER_OBJECT + bytes / BYTES_PER_STEP;
        self.fuel.steps(steps).map_err(over)
    }

    fn keep(&mut self, kind: Kind, bytes: Vec<u8>) -> Result<ObjectId> {
        let id = gix_object::compute_hash(Hash::Sha1, kind, &bytes).map_err(damaged)?;
        self.objects.0.insert(id, (kind, bytes.into()));
        Ok(id)
    }
}

/// Returns the limit of a pack that is exceeded.
fn over(out: OutOfFuel) -> Error {
    Error::Limit(match out.which {
        FuelKind::Steps => Limit::Steps(out.limit),
        FuelKind::Bytes => Limit::Unpacked(out.limit as u64),
        FuelKind::Nodes => Limit::Objects(out.limit),
        FuelKind::Depth => Limit::Deltas(out.limit),
    })
}

fn damaged(error: impl std::fmt::Display) -> Error {
    let message = crate::error::quoted(error.to_string().as_bytes());
    Error::Protocol(format!("the pack is damaged: {message}"))
}
