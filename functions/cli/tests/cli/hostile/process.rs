//! Runs the command in its own process, and measures its memory.

use driftless_harness::command::driftless;
use std::fmt;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The timeout of a case.
const TIMEOUT: Duration = Duration::from_secs(300);
/// The interval at which the peak memory of a process is read.
const POLL: Duration = Duration::from_millis(2);

/// The result of a process that has ended.
pub struct RunResult {
    pub code: i32,
    pub out: String,
    pub err: String,
    /// The peak of the resident memory in KiB; 0 if the system does not report it.
    pub peak: u64,
    took: Duration,
}

impl fmt::Display for RunResult {
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
pub fn run(directory: &Path, arguments: &[&str]) -> Result<RunResult, String> {
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
    let (status, peak) = wait(&mut child, start)?;
    let text = |name: &str| {
        let bytes = std::fs::read(file(name)).expect("the output");
        String::from_utf8_lossy(&bytes).into_owned()
    };
    Ok(RunResult {
        code: status.code().unwrap_or(-1),
        out: text("out"),
        err: text("err"),
        peak,
        took: start.elapsed(),
    })
}

/// Waits for the end of a process, and returns its status and peak memory.
fn wait(child: &mut Child, start: Instant) -> Result<(ExitStatus, u64), String> {
    let mut peak = 0;
    loop {
        peak = peak_of(child.id()).unwrap_or(peak);
        if let Some(status) = child.try_wait().expect("a child") {
            return Ok((status, peak));
        }
        if start.elapsed() > TIMEOUT {
            child.kill().expect("end the child");
            child.wait().expect("a child");
            return Err(format!("no end within {TIMEOUT:?}, {} MiB", peak >> 10));
        }
        std::thread::sleep(POLL);
    }
}

fn peak_of(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
