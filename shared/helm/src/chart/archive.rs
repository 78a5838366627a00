//! Packed charts: a .tgz read as a stream, with limits.

use super::{ChartFile, LoadLimits};
use crate::error::HelmError;
use driftless_fuel::{Fuel, OutOfFuel};
use driftless_go::Error as GoError;
use flate2::read::MultiGzDecoder;
use std::collections::HashSet;
use std::io::{BufReader, Read};
use std::sync::Arc;

/// Unpacks the files of a packed chart; the first directory of each name is dropped. `fuel` counts
/// the bytes of this archive and of the archives that contain it.
///
/// # Errors
/// Invalid gzip or tar; links; names that leave the chart; more than the limits.
pub(super) fn unpack(
    data: &[u8],
    name: &str,
    limits: &LoadLimits,
    fuel: &Fuel,
) -> Result<Vec<ChartFile>, HelmError> {
    let fail = |message: &str| HelmError::chart(name, message);
    // tar's own blocks are counted in addition.
    let most = limits.bytes.saturating_add(limits.files as u64 * 1536);
    let stream = BufReader::new(MultiGzDecoder::new(data)).take(most);
    let mut archive = tar::Archive::new(stream);
    let mut files = Vec::new();
    let mut names = Names::default();
    let (mut count, mut here) = (0, 0);
    let entries = archive
        .entries()
        .map_err(|_| fail("the archive cannot be read"))?;
    for entry in entries {
        let mut entry =
            entry.map_err(|_| fail("the archive is damaged, or larger than the limits allow"))?;
        count += 1;
        if count > limits.files {
            return Err(fail(&format!(
                "more than {} files and directories",
                limits.files
            )));
        }
        let kind = entry.header().entry_type();
        if kind.is_dir() || kind.is_pax_global_extensions() || kind.is_pax_local_extensions() {
            continue;
        }
        let path = String::from_utf8(entry.path_bytes().into_owned())
            .map_err(|_| fail("a file name in the archive is not UTF-8"))?;
        if !kind.is_file() && kind != tar::EntryType::Continuous {
            return Err(fail(&format!(
                "the archive holds a link or device: '{path}'"
            )));
        }
        let inner = inner_name(&path).map_err(|error| fail(error.as_str()))?;
        let size = entry.size();
        if entry.header().entry_size().ok() != Some(size) {
            return Err(fail(&format!(
                "two headers of '{path}' state different sizes"
            )));
        }
        here = size.saturating_add(here);
        let used = fuel.bytes(usize::try_from(size).unwrap_or(usize::MAX));
        check_size(limits, &path, size, here, used).map_err(|error| fail(error.as_str()))?;
        names.add(&inner).map_err(|error| fail(error.as_str()))?;
        let data = content(&mut entry, size)
            .map_err(|_| fail("the archive is damaged, or larger than the limits allow"))?;
        files.push(ChartFile { name: inner, data });
    }
    if files.is_empty() {
        return Err(fail("no files in chart archive"));
    }
    Ok(files)
}

/// Checks Helm's limits, with its messages: an archive of exactly the limit is also refused.
fn check_size(
    limits: &LoadLimits,
    path: &str,
    size: u64,
    here: u64,
    used: Result<(), OutOfFuel>,
) -> Result<(), GoError> {
    if limits.is_large_file(size) {
        return Err(format!("decompressed {}", limits.large_file(path)).into());
    }
    if here >= limits.bytes {
        return Err(format!(
            "decompressed chart is larger than the maximum size {}",
            limits.bytes
        )
        .into());
    }
    used.map_err(|out| {
        format!(
            "decompressed chart and its packed subcharts are larger than the maximum size {}",
            out.limit
        )
    })
    .map_err(Into::into)
}

/// Reads the bytes of an entry into their final allocation.
fn content(entry: &mut impl Read, size: u64) -> std::io::Result<Arc<[u8]>> {
    let size = usize::try_from(size).map_err(std::io::Error::other)?;
    let mut data: Arc<[u8]> = std::iter::repeat_n(0, size).collect();
    if let Some(bytes) = Arc::get_mut(&mut data) {
        entry.read_exact(bytes)?;
    }
    match strip_bom(&data) {
        bare if bare.len() < data.len() => Ok(Arc::from(bare)),
        _ => Ok(data),
    }
}

/// The names of an archive, folded like in a case-insensitive file system: readers that choose
/// differently between two entries must not get different charts.
#[derive(Default)]
struct Names {
    files: HashSet<String>,
    directories: HashSet<String>,
}

impl Names {
    fn add(&mut self, name: &str) -> Result<(), GoError> {
        let lower = name.to_lowercase();
        let mut directory = lower.as_str();
        while let Some((parent, _)) = directory.rsplit_once('/') {
            directory = parent;
            if self.files.contains(directory) {
                return Err(format!("'{name}' is below a path that is a file").into());
            }
            if !self.directories.insert(directory.to_owned()) {
                break;
            }
        }
        if self.directories.contains(&lower) || !self.files.insert(lower) {
            return Err(format!(
                "duplicate name '{name}' in the archive (or a name that differs only in case)"
            )
            .into());
        }
        Ok(())
    }
}

pub(super) fn strip_bom(content: &[u8]) -> &[u8] {
    content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content)
}

fn inner_name(path: &str) -> Result<String, GoError> {
    let path = path.replace('\\', "/");
    let (first, rest) = path.split_once('/').unwrap_or((&path, ""));
    if first == "Chart.yaml" {
        return Err("chart yaml not in base directory".into());
    }
    if rest.starts_with('/') {
        return Err("chart illegally contains absolute paths".into());
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in rest.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.pop().is_none() => {
                return Err("chart illegally references parent directory".into());
            }
            ".." => {}
            name => parts.push(name),
        }
    }
    let clean = parts.join("/");
    if clean.is_empty() {
        return Err(format!(
            "chart illegally contains content outside the base directory: '{path}'"
        )
        .into());
    }
    let b = clean.as_bytes();
    if b.len() > 1 && b[0].is_ascii_alphabetic() && b[1] == b':' {
        return Err("chart contains illegally named files".into());
    }
    Ok(clean)
}
