//! The log of `serve` in a file or on stdin.

use super::entry::Entry;
use super::filter::{Filter, Printer};
use crate::error::Error;
use std::io::BufRead as _;
use std::path::Path;
use std::time::Duration;
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, SeekFrom};

/// The interval at which a followed file is read.
const POLL: Duration = Duration::from_millis(500);
/// The most bytes of a line; the rest is dropped.
const MAX_LINE: usize = 1 << 20;
const FLAG: &str = "--file";

/// Prints the entries of a file, or of stdin for `-`.
///
/// # Errors
/// The file cannot be read.
pub async fn run(path: &Path, filter: &Filter, printer: &Printer) -> Result<(), Error> {
    if path == Path::new("-") {
        return stdin(filter, printer);
    }
    let failed = |error: std::io::Error| Error::unreadable(FLAG, path, error);
    let mut file = File::open(path).await.map_err(failed)?;
    if file.metadata().await.map_err(failed)?.is_dir() {
        return Err(
            Error::usage(format!("{FLAG}: {} is a directory", path.display()))
                .next("name the file that the log of driftless serve is written to"),
        );
    }
    let mut lines = Lines::default();
    let mut position = read(&mut file, &mut lines).await.map_err(failed)?;
    printer.first(&lines.entries(filter, !printer.follows))?;
    if !printer.follows {
        return Ok(());
    }
    loop {
        tokio::time::sleep(POLL).await;
        // A rotated file is another one at the same path.
        let mut now = match File::open(path).await {
            Ok(now) => now,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(failed(error)),
        };
        let length = now.metadata().await.map_err(failed)?.len();
        if length < position {
            position = 0;
            lines = Lines::default();
        }
        now.seek(SeekFrom::Start(position)).await.map_err(failed)?;
        position += read(&mut now, &mut lines).await.map_err(failed)?;
        printer.more(&lines.entries(filter, false))?;
    }
}

async fn read(file: &mut File, lines: &mut Lines) -> std::io::Result<u64> {
    let mut buffer = vec![0; 64 * 1024];
    let mut total = 0;
    loop {
        let count = file.read(&mut buffer).await?;
        if count == 0 {
            return Ok(total);
        }
        lines.add(buffer.get(..count).unwrap_or_default());
        total += count as u64;
    }
}

/// Prints each entry of stdin at once. Nothing else runs meanwhile.
fn stdin(filter: &Filter, printer: &Printer) -> Result<(), Error> {
    let failed = |error: std::io::Error| Error::caused_by(error).context("read stdin");
    let mut stdin = std::io::stdin().lock();
    let mut all = Vec::new();
    loop {
        let mut line = Vec::new();
        if stdin.read_until(b'\n', &mut line).map_err(failed)? == 0 {
            return printer.first(&all);
        }
        let text = String::from_utf8_lossy(&line);
        let entry = Entry::parse(&text).filter(|entry| filter.has(entry));
        match (entry, printer.tail) {
            (Some(entry), None) => printer.more(&[entry])?,
            // The last lines are known at the end.
            (Some(entry), Some(_)) => all.push(entry),
            (None, _) => {}
        }
    }
}

/// The lines that were read and not yet printed.
#[derive(Default)]
struct Lines {
    whole: Vec<String>,
    rest: Vec<u8>,
}

impl Lines {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                b'\n' => {
                    let line = std::mem::take(&mut self.rest);
                    self.whole.push(String::from_utf8_lossy(&line).into_owned());
                }
                other if self.rest.len() < MAX_LINE => self.rest.push(*other),
                _ => {}
            }
        }
    }

    /// Takes the entries of the whole lines; at the end also that of a last line without a line
    /// break.
    fn entries(&mut self, filter: &Filter, is_end: bool) -> Vec<Entry> {
        if is_end && !self.rest.is_empty() {
            self.add(b"\n");
        }
        let lines = std::mem::take(&mut self.whole);
        let entries = lines.iter().filter_map(|line| Entry::parse(line));
        entries.filter(|entry| filter.has(entry)).collect()
    }
}
