//! Packed charts (cases 20 and 21): bombs, links, names that leave the directory, wrong headers.

use super::engine::{CHART, Case, Done, Want, answered, case, failed, refused};
use driftless_helm::{Chart, Compat, LoadLimits};
use std::io::Write as _;
use tar::EntryType;

/// Appends an entry to an archive with exactly this name: `set_path` would refuse the names under
/// test.
fn entry(builder: &mut tar::Builder<Vec<u8>>, name: &str, data: &[u8], kind: EntryType) {
    let mut header = tar::Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_size(data.len() as u64);
    header.set_entry_type(kind);
    header.set_mode(0);
    header.set_cksum();
    builder.append(&header, data).unwrap();
}

fn gzip(tar: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(tar).unwrap();
    gzip.finish().unwrap()
}

fn packed(entries: &[(&str, &[u8], EntryType)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    entry(
        &mut builder,
        "top/Chart.yaml",
        CHART.as_bytes(),
        EntryType::Regular,
    );
    for (name, data, kind) in entries {
        entry(&mut builder, name, data, *kind);
    }
    gzip(&builder.into_inner().unwrap())
}

fn load(data: &[u8]) -> Done {
    let chart = Chart::from_archive(data, "x.tgz", Compat::Helm3, &LoadLimits::default());
    let chart = chart.map_err(failed)?;
    Ok(format!("{} with {} files", chart.name(), chart.files.len()))
}

fn one(name: &str, want: Want, entry: &'static str, data: &'static [u8], kind: EntryType) -> Case {
    case(&format!("archive with {name}"), want, move || {
        load(&packed(&[(entry, data, kind)]))
    })
}

pub fn cases() -> Vec<Case> {
    use EntryType::{Block, Char, Directory, Fifo, Link, Regular, Symlink};
    let named = || refused(&["x.tgz"]);
    vec![
        one(
            "nothing odd",
            answered(&["top with 1 files"]),
            "top/x",
            b"x",
            Regular,
        ),
        one(
            "a name above its directory",
            named(),
            "top/../../x",
            b"",
            Regular,
        ),
        one("an absolute name", named(), "top//etc/passwd", b"", Regular),
        one("a drive", named(), "top/c:/x", b"", Regular),
        one("a backslash", named(), "top\\..\\..\\x", b"", Regular),
        one(
            "Chart.yaml at its root",
            named(),
            "Chart.yaml",
            b"",
            Regular,
        ),
        one("a duplicate name", named(), "top/Chart.yaml", b"", Regular),
        one("a case twin", named(), "top/chart.YAML", b"", Regular),
        one("a symlink", named(), "top/link", b"", Symlink),
        one("a hard link", named(), "top/link", b"", Link),
        one("a device", named(), "top/null", b"", Char),
        one("a disk", named(), "top/sda", b"", Block),
        one("a pipe", named(), "top/pipe", b"", Fifo),
        case(
            "archive with a symlink and then a file below it",
            named(),
            || {
                load(&packed(&[
                    ("top/d", b"", Symlink),
                    ("top/d/x", b"", Regular),
                ]))
            },
        ),
        case(
            "archive with a directory of mode 0",
            answered(&["top with 1 files"]),
            || {
                load(&packed(&[
                    ("top/d", b"", Directory),
                    ("top/d/x", b"", Regular),
                ]))
            },
        ),
        case(
            "archive with a file and then a file below it",
            named(),
            || {
                load(&packed(&[
                    ("top/d", b"", Regular),
                    ("top/d/x", b"", Regular),
                ]))
            },
        ),
        case("archive that is not gzip", named(), || load(b"no gzip")),
        case("archive that is cut off", named(), || {
            load(&packed(&[])[..60])
        }),
        case("archive whose PAX size is another", named(), pax_size),
        case("archive with a size beyond itself", named(), lying_size),
        case("archive of 1 GiB of zeros", named(), || load(&zeros(256))),
        case("archive of 20 GiB of zeros", named(), || {
            load(&zeros(5_000))
        }),
        case("archive of zeros, packed two times", named(), || {
            load(&gzip(&zeros(5_000)))
        }),
        case("archive with a file of 6 MiB", named(), || {
            load(&packed(&[("top/large", &vec![0; 6 << 20], Regular)]))
        }),
        case("archive with 25,000 files", named(), || many(Regular)),
        case("archive with 25,000 directories", named(), || {
            many(Directory)
        }),
        case("archive in archive in archive", refused(&["deep"]), nested),
    ]
}

/// Returns a chart with this many files of 4 MiB of zeros: gzip allows packed pieces in sequence.
fn zeros(files: usize) -> Vec<u8> {
    let data = gzip(&vec![0; 4 << 20]);
    let mut out = Vec::new();
    for i in 0..files {
        let mut header = tar::Header::new_gnu();
        header.set_path(format!("top/f{i}")).unwrap();
        header.set_size(4 << 20);
        header.set_cksum();
        out.extend_from_slice(&gzip(header.as_bytes()));
        out.extend_from_slice(&data);
    }
    out
}

fn many(kind: EntryType) -> Done {
    let mut builder = tar::Builder::new(Vec::new());
    for i in 0..25_000 {
        entry(&mut builder, &format!("top/f{i}"), b"", kind);
    }
    load(&gzip(&builder.into_inner().unwrap()))
}

/// Builds an archive whose PAX header states 0 bytes, the classic one 512: readers that differ see
/// different entries.
fn pax_size() -> Done {
    let mut builder = tar::Builder::new(Vec::new());
    entry(
        &mut builder,
        "top/Chart.yaml",
        CHART.as_bytes(),
        EntryType::Regular,
    );
    entry(
        &mut builder,
        "PaxHeader",
        b"10 size=0\n",
        EntryType::XHeader,
    );
    let mut smuggled = tar::Header::new_gnu();
    smuggled.set_path("top/smuggled").unwrap();
    smuggled.set_size(0);
    smuggled.set_cksum();
    entry(
        &mut builder,
        "top/cover",
        smuggled.as_bytes(),
        EntryType::Regular,
    );
    load(&gzip(&builder.into_inner().unwrap()))
}

fn lying_size() -> Done {
    let mut header = tar::Header::new_gnu();
    header.set_path("top/Chart.yaml").unwrap();
    header.set_size(4 << 30);
    header.set_cksum();
    let mut tar = header.as_bytes().to_vec();
    tar.extend_from_slice(CHART.as_bytes());
    load(&gzip(&tar))
}

/// Builds packed charts that are nested as subcharts.
fn nested() -> Done {
    let mut inner = packed(&[]);
    for _ in 0..40 {
        inner = packed(&[("top/charts/top.tgz", &inner, EntryType::Regular)]);
    }
    load(&inner)
}
