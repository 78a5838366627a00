//! Packed charts: the bytes of a tar file, and those of a `.tgz`.

use super::chart;
use driftless_helm::{Chart, Compat, LoadLimits};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write as _;
use std::path::Path;

/// The size limit of an unpacked chart.
const MAX_UNPACKED: u64 = 4 << 20;

/// Loads the input unchanged, and packed: few inputs are a gzip file with a valid checksum.
pub fn run(data: &[u8]) {
    load(data);
    load(&packed(data));
}

fn load(packed: &[u8]) {
    let limits = LoadLimits {
        bytes: MAX_UNPACKED,
        ..LoadLimits::default()
    };
    for compat in [Compat::Helm3, Compat::Helm4] {
        let Ok(chart) = Chart::from_archive(packed, "chart.tgz", compat, &limits) else {
            continue;
        };
        let files = chart.files.iter().chain(&chart.templates);
        let bytes: u64 = files.map(|file| file.data.len() as u64).sum();
        assert!(bytes <= MAX_UNPACKED, "{bytes} bytes of files");
    }
}

fn packed(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let written = encoder.write_all(data);
    written.expect("writing to memory");
    encoder.finish().expect("writing to memory")
}

/// Returns the charts of the corpus as tar files, and one of them packed.
pub fn seeds(corpus: &Path) -> Vec<Vec<u8>> {
    let charts = chart::charts(corpus);
    let mut seeds: Vec<Vec<u8>> = charts.iter().take(40).map(|files| tar(files)).collect();
    seeds.extend(seeds.first().map(|first| packed(first)));
    seeds
}

/// Returns a tar file in the old format: names, sizes and checksums in octal digits.
fn tar(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    const BLOCK: usize = 512;
    let mut out = Vec::new();
    for (name, data) in files {
        let mut header = [0u8; BLOCK];
        let name = format!("top/{name}");
        let length = name.len().min(100);
        header[..length].copy_from_slice(&name.as_bytes()[..length]);
        header[100..108].copy_from_slice(b"0000644\0");
        header[124..136].copy_from_slice(format!("{:011o}\0", data.len()).as_bytes());
        header[136..148].copy_from_slice(b"00000000000\0");
        header[148..156].fill(b' ');
        header[156] = b'0';
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        out.extend_from_slice(&header);
        out.extend_from_slice(data);
        out.resize(out.len().next_multiple_of(BLOCK), 0);
    }
    out.resize(out.len() + 2 * BLOCK, 0);
    out
}
