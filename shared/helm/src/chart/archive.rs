//! Packed charts: a .tgz read as a stream, with caps.

use super::{ChartFile, LoadLimits};
use crate::error::HelmError;
use flate2::read::MultiGzDecoder;
use std::collections::HashSet;
use std::io::{BufReader, Read};
use std::sync::Arc;

/// The files of a packed chart; the first folder of each name is dropped.
///
/// # Errors
/// What is no gzip or tar; links; names that leave the chart; more than the limits.
pub(super) fn unpack(
    data: &[u8],
    name: &str,
    limits: &LoadLimits,
    used: &mut u64,
) -> Result<Vec<ChartFile>, HelmError> {
    let fail = |message: &str| HelmError::chart(name, message);
    let allowed = (1 << 20) + limits.ratio.saturating_mul(data.len() as u64);
    let cap = limits.bytes.min(allowed);
    // One byte more than allowed shows that there is more; tar's own blocks count too.
    let stream = BufReader::new(MultiGzDecoder::new(data))
        .take(cap.saturating_add(limits.files as u64 * 1536));
    let mut archive = tar::Archive::new(stream);
    let mut files = Vec::new();
    let mut names = Names::default();
    let mut count = 0;
    let entries = archive
        .entries()
        .map_err(|_| fail("the archive cannot be read"))?;
    for entry in entries {
        let mut entry =
            entry.map_err(|_| fail("the archive is damaged, or larger than the limits allow"))?;
        count += 1;
        if count > limits.files {
            return Err(fail(&format!(
                "more than {} files and folders",
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
        let inner = inner_name(&path).map_err(|e| fail(&e))?;
        let size = entry.size();
        if entry.header().entry_size().ok() != Some(size) {
            return Err(fail(&format!("two headers of '{path}' differ in its size")));
        }
        *used += size;
        if size > limits.file_bytes || *used > cap {
            return Err(fail(&format!(
                "'{path}' makes the chart larger than the limits allow"
            )));
        }
        let mut content = Vec::with_capacity(size as usize);
        entry
            .read_to_end(&mut content)
            .map_err(|_| fail("the archive is damaged, or larger than the limits allow"))?;
        names.add(&inner).map_err(|why| fail(&why))?;
        files.push(ChartFile {
            name: inner,
            data: Arc::from(strip_bom(&content)),
        });
    }
    if files.is_empty() {
        return Err(fail("no files in chart archive"));
    }
    Ok(files)
}

/// The names of an archive, as a file system that knows no case would have them: readers that differ in which of two
/// entries counts must not be told apart.
#[derive(Default)]
struct Names {
    files: HashSet<String>,
    folders: HashSet<String>,
}

impl Names {
    fn add(&mut self, name: &str) -> Result<(), String> {
        let lower = name.to_lowercase();
        let mut folder = lower.as_str();
        while let Some((parent, _)) = folder.rsplit_once('/') {
            folder = parent;
            if self.files.contains(folder) {
                return Err(format!("'{name}' stands below a file"));
            }
            if !self.folders.insert(folder.to_owned()) {
                break;
            }
        }
        if self.folders.contains(&lower) || !self.files.insert(lower) {
            return Err(format!(
                "'{name}' stands twice in the archive, or differs from another name in case alone"
            ));
        }
        Ok(())
    }
}

pub(super) fn strip_bom(content: &[u8]) -> &[u8] {
    content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content)
}

fn inner_name(path: &str) -> Result<String, String> {
    let path = path.replace('\\', "/");
    let (first, rest) = path.split_once('/').unwrap_or((&path, ""));
    if first == "Chart.yaml" {
        return Err("chart yaml not in base directory".to_owned());
    }
    if rest.starts_with('/') {
        return Err("chart illegally contains absolute paths".to_owned());
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in rest.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.pop().is_none() => {
                return Err("chart illegally references parent directory".to_owned());
            }
            ".." => {}
            name => parts.push(name),
        }
    }
    let clean = parts.join("/");
    if clean.is_empty() {
        return Err(format!(
            "chart illegally contains content outside the base directory: '{path}'"
        ));
    }
    let b = clean.as_bytes();
    if b.len() > 1 && b[0].is_ascii_alphabetic() && b[1] == b':' {
        return Err("chart contains illegally named files".to_owned());
    }
    Ok(clean)
}
