//! Trees as `tar.gz`: reproducible when written, and checked as hostile input when read.

use bytes::Bytes;
use driftless_fuel::{Fuel, FuelKind, FuelLimits};
use driftless_kernel::ports::{Compute, ErrorKind, FetchLimits, PortError, Result, compute};
use driftless_manifest::{EntryKind, FileTree, TreeError, TreePath};
use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use std::io::{self, Read};
use tar::{Archive, Builder, Entry, EntryType, Header};

/// Maximum bytes of overhead of each entry: headers, padding, long names.
const ENTRY_OVERHEAD: u64 = 4096;
/// Unpacked bytes that are accepted at any compression ratio.
const RATIO_EXEMPT_BYTES: u64 = 1 << 20;
/// Unpacked bytes that are read in one step of work.
pub(crate) const BYTES_PER_STEP: usize = 16;
/// The steps of work for an entry, in addition to its bytes.
const STEPS_PER_ENTRY: usize = 20;
/// Maximum bytes of a link's target, as on Linux.
const LINK_LENGTH: usize = 4096;

/// Packs a tree in order of path, without times and owners, so that the same tree gives the same
/// bytes.
///
/// # Errors
/// `Invalid` for a link whose target cannot be written.
pub fn pack(tree: &FileTree) -> Result<Vec<u8>> {
    let write = || -> io::Result<Vec<u8>> {
        let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (path, entry) in tree.index().iter() {
            let content = tree
                .content(path)
                .map(|bytes| bytes.as_ref())
                .unwrap_or_default();
            let mut header = Header::new_gnu();
            match entry.kind {
                EntryKind::File => header.set_mode(0o644),
                EntryKind::Executable => header.set_mode(0o755),
                EntryKind::Link => {
                    header.set_mode(0o777);
                    header.set_entry_type(EntryType::Symlink);
                    set_target(&mut builder, &mut header, content)?;
                }
            }
            let data = if entry.kind == EntryKind::Link {
                &[]
            } else {
                content
            };
            header.set_size(data.len() as u64);
            builder.append_data(&mut header, path.as_str(), data)?;
        }
        builder.into_inner()?.finish()
    };
    write().map_err(|error| PortError::new(ErrorKind::Invalid, format!("pack the files: {error}")))
}

/// Writes a link's target byte by byte: `tar` would normalize a path.
fn set_target<W: io::Write>(
    builder: &mut Builder<W>,
    header: &mut Header,
    target: &[u8],
) -> io::Result<()> {
    if target.is_empty() || target.contains(&0) || target.len() > LINK_LENGTH {
        return Err(io::Error::other(
            "a link's target is empty, has a NUL byte or more than 4,096 bytes",
        ));
    }
    if target.len() <= 100 {
        return header.set_link_name_literal(target);
    }
    let mut long = Header::new_gnu();
    long.set_entry_type(EntryType::GNULongLink);
    long.set_path("././@LongLink")?;
    long.set_size(target.len() as u64 + 1);
    long.set_mode(0o644);
    long.set_cksum();
    builder.append(&long, target.chain(&[0u8][..]))?;
    header.set_link_name_literal(&target[..100])
}

/// Returns the most bytes of memory that [`unpack`] needs for an archive of this size.
pub fn memory_of(packed: u64, limits: &FetchLimits) -> u64 {
    let ratio = limits.ratio.saturating_mul(packed).max(RATIO_EXEMPT_BYTES);
    packed.saturating_add(limits.bytes.min(ratio))
}

/// Calls [`unpack`] as a computation of the process.
///
/// # Errors
/// Those of [`unpack`]; `Unavailable` if the computation panicked.
pub async fn unpack_apart(
    port: &dyn Compute,
    packed: Bytes,
    strip: bool,
    limits: FetchLimits,
) -> Result<FileTree> {
    let bytes = memory_of(packed.len() as u64, &limits);
    compute(port, bytes, move || unpack(&packed, strip, &limits)).await?
}

/// Unpacks a tree. `strip` removes the first directory, which must then be the same for all files,
/// as in GitHub's tarballs. Links are kept as links, wherever they lead: readers of the tree do not
/// follow them outside.
///
/// # Errors
/// `Unreadable` for an incomplete or invalid `tar.gz`; `Invalid` for refused content: more than
/// `limits`, hard links, devices, names that are absolute or have `..`, duplicate names,
/// contradictory sizes.
pub fn unpack(packed: &[u8], strip: bool, limits: &FetchLimits) -> Result<FileTree> {
    let fuel = limits.fuel.part(ceilings(packed.len() as u64, limits));
    let mut archive = Archive::new(Capped {
        inner: GzDecoder::new(packed),
        fuel: &fuel,
    });
    let mut unpacking = Unpacking {
        tree: FileTree::new(),
        strip,
        top: None,
        limits,
        fuel: &fuel,
        bytes: 0,
    };
    for entry in archive.entries().map_err(broken)? {
        unpacking.take(entry.map_err(broken)?)?;
    }
    // The checksum is at the very end, and nothing else may follow.
    let mut rest = archive.into_inner();
    let mut buffer = [0; 8192];
    loop {
        match rest.read(&mut buffer).map_err(broken)? {
            0 => break,
            n if buffer[..n].iter().all(|byte| *byte == 0) => {}
            _ => return Err(refused("unexpected data after the end of the archive")),
        }
    }
    if !rest.inner.into_inner().is_empty() {
        return Err(refused(
            "unexpected data after the end of the compressed data",
        ));
    }
    Ok(unpacking.tree)
}

/// Returns the ceilings of an archive: the bytes of everything that is unpacked, which are more
/// than those of the files, and a value for each entry. Its steps are those that they need.
fn ceilings(packed: u64, limits: &FetchLimits) -> FuelLimits {
    let ratio = limits.ratio.saturating_mul(packed).max(RATIO_EXEMPT_BYTES);
    let overhead = ENTRY_OVERHEAD.saturating_mul(limits.files as u64 + 16);
    let bytes = limits.bytes.saturating_add(overhead).min(ratio);
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    let nodes = limits.files.saturating_mul(2);
    FuelLimits {
        // Each read of a few bytes costs a step more.
        steps: (bytes / BYTES_PER_STEP).saturating_add(nodes.saturating_mul(2 * STEPS_PER_ENTRY)),
        bytes,
        nodes,
        ..FuelLimits::NONE
    }
}

struct Unpacking<'a> {
    tree: FileTree,
    strip: bool,
    top: Option<String>,
    limits: &'a FetchLimits,
    fuel: &'a Fuel,
    /// The bytes of the files.
    bytes: u64,
}

impl Unpacking<'_> {
    fn take<R: Read>(&mut self, mut entry: Entry<'_, R>) -> Result<()> {
        let kind = entry.header().entry_type();
        if kind.is_pax_global_extensions() {
            // A comment, such as the commit that `git archive` puts there.
            return Ok(());
        }
        let spent = self.fuel.nodes(1);
        spent
            .and_then(|()| self.fuel.steps(STEPS_PER_ENTRY))
            .map_err(|out| match out.which {
                FuelKind::Nodes => {
                    refused(format!("more than {} files and directories", out.limit))
                }
                _ => refused(out),
            })?;
        let name = String::from_utf8(entry.path_bytes().into_owned())
            .map_err(|_| refused("a name is not UTF-8"))?;
        let Some(path) = self.place(&name)? else {
            return Ok(());
        };
        check_size(&mut entry, &name)?;
        let (kind, content) = match kind {
            EntryType::Directory => return Ok(()),
            EntryType::Regular => {
                let executable = entry.header().mode().map_err(broken)? & 0o100 != 0;
                let kind = if executable {
                    EntryKind::Executable
                } else {
                    EntryKind::File
                };
                (kind, self.content(&mut entry)?)
            }
            EntryType::Symlink => {
                let target = entry
                    .link_name_bytes()
                    .map(|target| target.into_owned())
                    .unwrap_or_default();
                if entry.size() != 0 || target.is_empty() || target.len() > LINK_LENGTH {
                    return Err(refused(format!(
                        "'{name}' is a link without a target, with content or with a target that is too long"
                    )));
                }
                (EntryKind::Link, target)
            }
            other => {
                let reason = format!(
                    "'{name}' is neither a file, a directory nor a symbolic link (type {:?})",
                    other.as_byte()
                );
                return Err(refused(reason));
            }
        };
        if path.is_root() || self.tree.index().len() >= self.limits.files {
            return Err(refused(format!(
                "more than {} files, or a file without a name",
                self.limits.files
            )));
        }
        self.tree
            .insert(path, kind, content)
            .map_err(|error: TreeError| refused(error))
    }

    /// Returns the path of an entry in the tree; `None` for the root and the stripped directory.
    fn place(&mut self, name: &str) -> Result<Option<TreePath>> {
        let name = name.strip_suffix('/').unwrap_or(name);
        // `tar -c .` writes names with this prefix.
        let name = name.strip_prefix("./").unwrap_or(name);
        if matches!(name, "" | ".") {
            return Ok(None);
        }
        let clean = TreePath::new(name).map_err(refused)?;
        if clean.as_str() != name || clean.is_root() {
            return Err(refused(format!("'{name}' is not a valid relative path")));
        }
        if !self.strip {
            return Ok(Some(clean));
        }
        let (top, rest) = name
            .split_once('/')
            .map_or((name, None), |(top, rest)| (top, Some(rest)));
        if self.top.get_or_insert_with(|| top.to_owned()) != top {
            return Err(refused(format!(
                "'{name}' is not in the same top directory as the other files"
            )));
        }
        rest.map(TreePath::new).transpose().map_err(refused)
    }

    fn content<R: Read>(&mut self, entry: &mut Entry<'_, R>) -> Result<Vec<u8>> {
        let size = entry.size();
        self.bytes = self.bytes.saturating_add(size);
        if self.bytes > self.limits.bytes {
            return Err(refused(format!(
                "the files have more than {} bytes",
                self.limits.bytes
            )));
        }
        let mut content =
            Vec::with_capacity(usize::try_from(size.min(RATIO_EXEMPT_BYTES)).unwrap_or_default());
        entry.read_to_end(&mut content).map_err(broken)?;
        if content.len() as u64 != size {
            return Err(PortError::new(
                ErrorKind::Unreadable,
                "the archive ends in the middle of a file",
            ));
        }
        Ok(content)
    }
}

/// Checks that a size in an extension is the header's: two readers of one archive must see the same
/// entries.
fn check_size<R: Read>(entry: &mut Entry<'_, R>, name: &str) -> Result<()> {
    let plain = entry.header().entry_size().map_err(broken)?;
    let Some(extensions) = entry.pax_extensions().map_err(broken)? else {
        return Ok(());
    };
    for extension in extensions {
        let extension = extension.map_err(broken)?;
        if extension.key_bytes() == b"size" && extension.value() != Ok(plain.to_string().as_str()) {
            return Err(refused(format!("'{name}' has two different sizes")));
        }
    }
    Ok(())
}

/// A reader that fails when the fuel for its bytes has run out.
struct Capped<'f, R> {
    inner: R,
    fuel: &'f Fuel,
}

impl<R: Read> Read for Capped<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        let spent = self.fuel.bytes(n);
        spent
            .and_then(|()| self.fuel.steps(n / BYTES_PER_STEP))
            .map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        Ok(n)
    }
}

fn broken(error: io::Error) -> PortError {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(error) = source {
        if error
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::FileTooLarge)
        {
            return refused("the unpacked files are larger than a source may be");
        }
        source = error.source();
    }
    if error.kind() == io::ErrorKind::FileTooLarge {
        return refused("the unpacked files are larger than a source may be");
    }
    PortError::new(
        ErrorKind::Unreadable,
        format!("the archive cannot be read: {error}"),
    )
}

fn refused(reason: impl std::fmt::Display) -> PortError {
    PortError::new(
        ErrorKind::Invalid,
        format!("the archive is refused: {reason}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_fuel::Tank;

    fn path(text: &str) -> TreePath {
        TreePath::new(text).unwrap()
    }

    fn gzip(tar: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        io::Write::write_all(&mut encoder, tar).unwrap();
        encoder.finish().unwrap()
    }

    /// Returns one entry with its name and type unchanged.
    fn entry(name: &str, kind: EntryType, link: &str, content: &[u8]) -> Vec<u8> {
        let mut header = Header::new_ustar();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        header.set_link_name_literal(link).unwrap();
        header.set_cksum();
        let mut bytes = header.as_bytes().to_vec();
        bytes.extend_from_slice(content);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
        bytes
    }

    fn archive(entries: &[Vec<u8>]) -> Vec<u8> {
        gzip(&[entries.concat(), vec![0; 1024]].concat())
    }

    fn file(name: &str) -> Vec<u8> {
        entry(name, EntryType::Regular, "", b"content")
    }

    #[test]
    fn packing_is_reproducible_and_reversible() {
        let mut tree =
            FileTree::from_files([("a/b.yaml", "x: 1\n"), ("a.yaml", ""), ("é", "ü")]).unwrap();
        tree.insert(
            path(&format!("deep/{}/x", "n".repeat(180))),
            EntryKind::Executable,
            "#!",
        )
        .unwrap();
        tree.insert(path("links/plain"), EntryKind::Link, "../a//./b.yaml/")
            .unwrap();
        tree.insert(path("links/long"), EntryKind::Link, "../".repeat(80))
            .unwrap();
        let packed = pack(&tree).unwrap();
        assert_eq!(packed, pack(&tree.clone()).unwrap());
        let back = unpack(&packed, false, &FetchLimits::default()).unwrap();
        assert_eq!(back.index(), tree.index());
        assert_eq!(
            back.content(&path("links/plain")).unwrap(),
            "../a//./b.yaml/"
        );
        let empty = unpack(
            &pack(&FileTree::new()).unwrap(),
            false,
            &FetchLimits::default(),
        )
        .unwrap();
        assert!(empty.index().is_empty());
    }

    #[test]
    fn the_first_directory_is_stripped() {
        let pax = entry(
            "pax_global_header",
            EntryType::XGlobalHeader,
            "",
            b"13 comment=x\n",
        );
        let top = entry("o-r-sha/", EntryType::Directory, "", b"");
        let good = archive(&[
            pax,
            top,
            file("o-r-sha/a/b"),
            entry("o-r-sha/l", EntryType::Symlink, "a", b""),
        ]);
        let tree = unpack(&good, true, &FetchLimits::default()).unwrap();
        let names: Vec<_> = tree.index().iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(names, ["a/b", "l"]);
        let two = archive(&[file("one/a"), file("two/b")]);
        assert_eq!(
            unpack(&two, true, &FetchLimits::default())
                .unwrap_err()
                .kind,
            ErrorKind::Invalid
        );
        assert!(unpack(&two, false, &FetchLimits::default()).is_ok());
    }

    #[test]
    fn refuses_hostile_entries() {
        let mut smuggled = entry("x", EntryType::XHeader, "", b"12 size=900\n");
        smuggled.extend(file("a"));
        for (case, entries) in [
            ("absolute", vec![file("/etc/passwd")]),
            ("climbs", vec![file("a/../../b")]),
            ("climbs inside", vec![file("a/../b")]),
            ("dot", vec![file("a/./b")]),
            ("dots", vec![file("././a")]),
            ("duplicate", vec![file("a"), file("a")]),
            ("duplicate with ./", vec![file("a"), file("./a")]),
            (
                "below a link",
                vec![entry("a", EntryType::Symlink, "/etc", b""), file("a/b")],
            ),
            ("over a directory", vec![file("a/b"), file("a")]),
            (
                "hard link",
                vec![file("a"), entry("b", EntryType::Link, "a", b"")],
            ),
            ("device", vec![entry("a", EntryType::Char, "", b"")]),
            ("pipe", vec![entry("a", EntryType::Fifo, "", b"")]),
            ("sparse", vec![entry("a", EntryType::GNUSparse, "", b"")]),
            ("two sizes", vec![smuggled]),
            (
                "link with content",
                vec![entry("a", EntryType::Symlink, "b", b"content")],
            ),
        ] {
            let result = unpack(&archive(&entries), false, &FetchLimits::default());
            assert!(result.is_err(), "{case} is taken");
        }
        let from_here = unpack(&archive(&[file("./a")]), false, &FetchLimits::default());
        assert_eq!(from_here.unwrap().index().len(), 1);
        // Names that differ only in case are two files.
        assert_eq!(
            unpack(
                &archive(&[file("a"), file("A")]),
                false,
                &FetchLimits::default()
            )
            .unwrap()
            .index()
            .len(),
            2
        );
    }

    #[test]
    fn refuses_broken_and_padded_archives() {
        let good = archive(&[file("a"), file("b")]);
        for cut in 1..good.len() {
            assert!(
                unpack(&good[..cut], false, &FetchLimits::default()).is_err(),
                "cut at {cut}"
            );
        }
        let mut flipped = good.clone();
        let crc = flipped.len() - 6;
        flipped[crc] ^= 1;
        assert_eq!(
            unpack(&flipped, false, &FetchLimits::default())
                .unwrap_err()
                .kind,
            ErrorKind::Unreadable
        );
        assert!(
            unpack(
                &[good.clone(), good].concat(),
                false,
                &FetchLimits::default()
            )
            .is_err()
        );
        let behind = gzip(&[file("a"), vec![0; 1024], file("b")].concat());
        assert_eq!(
            unpack(&behind, false, &FetchLimits::default())
                .unwrap_err()
                .kind,
            ErrorKind::Invalid
        );
        assert_eq!(
            unpack(b"<html>", false, &FetchLimits::default())
                .unwrap_err()
                .kind,
            ErrorKind::Unreadable
        );
        assert!(unpack(b"", false, &FetchLimits::default()).is_err());
    }

    #[test]
    fn an_archive_above_its_limits_is_refused() {
        let big = archive(&[entry("a", EntryType::Regular, "", &vec![b'x'; 4 << 20])]);
        let limits = FetchLimits {
            bytes: 8 << 20,
            files: 2,
            ratio: 10_000,
            ..FetchLimits::default()
        };
        assert!(unpack(&big, false, &limits).is_ok());
        for tight in [
            FetchLimits {
                bytes: 1 << 20,
                ..limits.clone()
            },
            FetchLimits {
                ratio: 2,
                ..limits.clone()
            },
            FetchLimits {
                fuel: Tank::new(FuelLimits {
                    steps: 100,
                    ..FuelLimits::NONE
                }),
                ..limits.clone()
            },
        ] {
            assert_eq!(
                unpack(&big, false, &tight).unwrap_err().kind,
                ErrorKind::Invalid
            );
        }
        let three = archive(&[file("a"), file("b"), file("c")]);
        assert_eq!(
            unpack(&three, false, &limits).unwrap_err().kind,
            ErrorKind::Invalid
        );
        let directories: Vec<_> = (0..5)
            .map(|n| entry(&format!("d{n}/"), EntryType::Directory, "", b""))
            .collect();
        assert_eq!(
            unpack(&archive(&directories), false, &limits)
                .unwrap_err()
                .kind,
            ErrorKind::Invalid
        );
    }
}
