//! The command in a process of its own, and the memory that it had.

use driftless_harness::command::driftless;
use std::fmt;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// What a case may take before it counts as one that does not end.
const PATIENCE: Duration = Duration::from_secs(300);
/// How often a process is asked for its peak.
const LOOK: Duration = Duration::from_millis(2);

/// A process that has ended.
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
    /// The most resident memory that it had, in KiB; nothing where the system does not tell it.
    pub peak: u64,
    took: Duration,
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.err.lines().next().unwrap_or_default();
        let first: String = first.chars().take(160).collect();
        write!(
            f,
            "{} MiB, {} ms: {first}",
            self.peak >> 10,
            self.took.as_millis()
        )
    }
}

/// Runs the command in a directory.
pub fn run(directory: &Path, arguments: &[&str]) -> Result<Ran, String> {
    let home = tempfile::tempdir().expect("a home");
    let file = |name: &str| home.path().join(name);
    let mut command: Command = driftless(home.path());
    command
        .args(arguments)
        .current_dir(directory)
        .stdout(File::create(file("out")).expect("a file"))
        .stderr(File::create(file("err")).expect("a file"))
        .stdin(Stdio::null());
    let start = Instant::now();
    let mut child = command.spawn().expect("run driftless");
    let (status, peak) = watched(&mut child, start)?;
    let text = |name: &str| {
        let bytes = std::fs::read(file(name)).expect("what it said");
        String::from_utf8_lossy(&bytes).into_owned()
    };
    Ok(Ran {
        code: status.code().unwrap_or(-1),
        out: text("out"),
        err: text("err"),
        peak,
        took: start.elapsed(),
    })
}

/// Waits for the end of a process; its peak is what it told last.
fn watched(child: &mut Child, start: Instant) -> Result<(ExitStatus, u64), String> {
    let mut peak = 0;
    loop {
        peak = peak_of(child.id()).unwrap_or(peak);
        if let Some(status) = child.try_wait().expect("a child") {
            return Ok((status, peak));
        }
        if start.elapsed() > PATIENCE {
            child.kill().expect("end the child");
            child.wait().expect("a child");
            return Err(format!("no end within {PATIENCE:?}, {} MiB", peak >> 10));
        }
        std::thread::sleep(LOOK);
    }
}

fn peak_of(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
