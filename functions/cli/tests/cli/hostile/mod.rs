//! Repositories and charts that try to exhaust memory or time. Each is generated here and given to
//! the command itself: it must be refused with the problem and its place (or be rendered), and the
//! process must never have more than 256 MiB. The time of a case is not checked, because tests are
//! not optimised and machines are shared. Only a case that does not end fails.

mod charts;
mod checks;
mod kustomizations;
mod patches;
mod process;
mod texts;

use process::RunResult;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The expected result of a case.
enum Expected {
    /// An error with all of these words.
    Refused(&'static [&'static str]),
    /// A successful run.
    Succeeds,
    /// An error or success, within the limits.
    Ends,
}

/// Files, and the command that is run in their directory.
struct Case {
    name: &'static str,
    command: &'static [&'static str],
    files: Vec<(String, String)>,
    expected: Expected,
}

/// Returns a case that is refused.
fn refused(
    name: &'static str,
    command: &'static [&'static str],
    files: Vec<(&str, String)>,
    words: &'static [&'static str],
) -> Case {
    let files = files.into_iter();
    Case {
        name,
        command,
        files: files.map(|(path, text)| (path.to_owned(), text)).collect(),
        expected: Expected::Refused(words),
    }
}

/// Returns a case that succeeds.
fn succeeds(
    name: &'static str,
    command: &'static [&'static str],
    files: Vec<(&str, String)>,
) -> Case {
    Case {
        expected: Expected::Succeeds,
        ..refused(name, command, files, &[])
    }
}

/// Returns a case that may fail or succeed.
fn ends(name: &'static str, command: &'static [&'static str], files: Vec<(&str, String)>) -> Case {
    Case {
        expected: Expected::Ends,
        ..refused(name, command, files, &[])
    }
}

fn cases() -> Vec<Case> {
    [
        charts::cases(),
        checks::cases(),
        kustomizations::cases(),
        patches::cases(),
        texts::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The limit of the peak memory of a process, in KiB.
const MAX_MEMORY: u64 = 256 << 10;
/// The limit of the size of a message in bytes: a repository must not flood a log.
const MAX_MESSAGE: usize = 4 << 10;
/// The number of cases that run at the same time.
const AT_ONCE: usize = 2;

#[test]
fn hostile_inputs_are_refused() {
    let cases = cases();
    let (next, bad) = (AtomicUsize::new(0), std::sync::Mutex::new(Vec::new()));
    let work = || {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(reason) = check(case) {
                let mut bad = bad.lock().expect("no worker panics");
                bad.push(format!("{}: {reason}", case.name));
            }
        }
    };
    std::thread::scope(|scope| {
        (0..AT_ONCE).for_each(|_| drop(scope.spawn(work)));
    });
    let bad = bad.into_inner().expect("no worker panics");
    assert!(
        bad.is_empty(),
        "{} of {} cases failed:\n{}",
        bad.len(),
        cases.len(),
        bad.join("\n")
    );
}

/// Runs a case, and checks its result.
fn check(case: &Case) -> Result<(), String> {
    let directory = tempfile::tempdir().expect("a directory");
    for (path, text) in &case.files {
        let file = directory.path().join(path);
        std::fs::create_dir_all(file.parent().expect("a directory")).expect("a directory");
        std::fs::write(file, text).expect("write a file");
    }
    let ran = process::run(directory.path(), case.command)?;
    eprintln!("{}: {ran}", case.name);
    check_result(case, &ran, directory.path())
}

fn check_result(case: &Case, ran: &RunResult, directory: &Path) -> Result<(), String> {
    let output = format!("{}{}", ran.err, ran.out);
    let shown: String = output.chars().take(600).collect();
    match (&case.expected, ran.code) {
        (Expected::Succeeds, 0) | (Expected::Ends, 0 | 1) => {}
        (Expected::Refused(words), 1) => {
            if let Some(word) = words.iter().find(|word| !output.contains(**word)) {
                return Err(format!("'{word}' is not in: {shown}"));
            }
            if output.len() > MAX_MESSAGE + directory.as_os_str().len() {
                return Err(format!("{} bytes of message: {shown}", output.len()));
            }
        }
        (_, code) => return Err(format!("ended with {code}: {shown}")),
    }
    if ran.peak > MAX_MEMORY {
        return Err(format!("{} MiB at its peak", ran.peak >> 10));
    }
    Ok(())
}
