//! Child processes that never outlive the test.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Timeout of waits that should always succeed: only a hang takes this long,
/// not a slow or busy machine.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Runs its arguments as a child and ends the whole process group when its
/// standard input closes, which the kernel does when the test process ends in
/// any way. (A parent-death signal would fire when the *thread* that spawned
/// the child ends, and a shared server outlives the test that started it.)
const GUARD: &str = r#"
exec 3<&0
"$@" </dev/null 3<&- & child=$!
trap '' TERM
( PATH=/usr/bin:/bin; cat <&3 >/dev/null; kill -TERM 0; sleep 0.1; kill -KILL $child; sleep 0.1; kill -KILL 0 ) &
wait $child
"#;

/// A running server with its output in a log file.
pub struct Server {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Server {
    /// Starts `program` with `args`; standard output and error are appended to `log`.
    pub fn start<A: AsRef<OsStr>>(
        name: &str,
        program: &Path,
        args: impl IntoIterator<Item = A>,
        env: &[(String, String)],
        log: &Path,
    ) -> Self {
        let output = File::options()
            .create(true)
            .append(true)
            .open(log)
            .unwrap_or_else(|e| panic!("open the log {}: {e}", log.display()));
        let errors = output.try_clone().expect("duplicate a log handle");
        let args: Vec<OsString> = args.into_iter().map(|a| a.as_ref().into()).collect();
        let child = Command::new("sh")
            .args(["-c", GUARD, "guard"])
            .arg(program)
            .args(args)
            .envs(env.iter().map(|(k, v)| (k, v)))
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(errors)
            .process_group(0)
            .spawn()
            .unwrap_or_else(|e| panic!("start {name} ({}): {e}", program.display()));
        Self {
            name: name.to_owned(),
            child,
            log: log.to_owned(),
        }
    }

    /// Polls `ready` until it is true; panics with the end of the log when the
    /// server ends or [`PATIENCE`] is over.
    pub fn wait_ready(&mut self, ready: impl Fn() -> bool) {
        let start = Instant::now();
        while !ready() {
            if let Ok(Some(status)) = self.child.try_wait() {
                panic!("{} ended ({status}):\n{}", self.name, self.log_tail());
            }
            assert!(
                start.elapsed() < PATIENCE,
                "{} is not ready after {PATIENCE:?}:\n{}",
                self.name,
                self.log_tail()
            );
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// Ends the server and waits until it is gone.
    pub fn stop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }

    /// Returns the process of the program, which is a child of the guard.
    pub fn process(&self) -> u32 {
        let guard = self.child.id();
        let found = children(guard).into_iter().min();
        found.unwrap_or_else(|| panic!("{} does not run:\n{}", self.name, self.log_tail()))
    }

    /// Returns the path of the log file.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Returns the last lines of the log.
    pub fn log_tail(&self) -> String {
        tail(&self.log, 40)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- end of the log of {}:\n{}", self.name, self.log_tail());
        }
        self.stop();
    }
}

/// Returns the children of a process. The guard starts the program first, so that it has the
/// smallest number unless the numbers start again.
fn children(process: u32) -> Vec<u32> {
    let path = format!("/proc/{process}/task/{process}/children");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace()
        .filter_map(|one| one.parse().ok())
        .collect()
}

/// Returns the last `lines` lines of a file, or the error in parentheses if the file cannot be
/// read.
pub fn tail(path: &Path, lines: usize) -> String {
    match std::fs::read(path) {
        Err(e) => format!("({}: {e})", path.display()),
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            let all: Vec<&str> = text.lines().collect();
            all[all.len().saturating_sub(lines)..].join("\n")
        }
    }
}

/// Runs a command to its end and returns its standard output; panics with its
/// output when it fails.
pub fn run(command: &mut Command) -> String {
    let output = command
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|e| panic!("run {command:?}: {e}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Sends SIGKILL to a process. Returns whether the process existed.
pub fn kill(process: u32) -> bool {
    let mut kill = Command::new("kill");
    let ended = kill.args(["-KILL", &process.to_string()]).output();
    ended.expect("run kill").status.success()
}
