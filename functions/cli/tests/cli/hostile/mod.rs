//! Repositories and charts that want to cost more than they may. Each is made here, and given to the command itself: it must
//! be refused with what is wrong and where (or be answered), and the process must never have more than 256 MiB.
//!
//! What a case takes in time is not judged, since tests are not optimised and machines are shared: a case that does not end is.

mod charts;
mod checks;
mod kustomizations;
mod patches;
mod process;
mod texts;

use process::Ran;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What must come of a case.
enum Want {
    /// An error that has all of these words.
    Refused(&'static [&'static str]),
    /// An answer.
    Answered,
    /// Either: it only has to end within its means.
    Ends,
}

/// Files, and what the command is to do with their directory.
struct Case {
    name: &'static str,
    command: &'static [&'static str],
    files: Vec<(String, String)>,
    want: Want,
}

/// A case that is refused.
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
        want: Want::Refused(words),
    }
}

/// A case that is answered.
fn answered(
    name: &'static str,
    command: &'static [&'static str],
    files: Vec<(&str, String)>,
) -> Case {
    Case {
        want: Want::Answered,
        ..refused(name, command, files, &[])
    }
}

/// A case that ends, in one way or the other.
fn ends(name: &'static str, command: &'static [&'static str], files: Vec<(&str, String)>) -> Case {
    Case {
        want: Want::Ends,
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

/// What a process may have at its peak, in KiB.
const MEMORY: u64 = 256 << 10;
/// Bytes of a message: what a repository makes up must not flood a log.
const MESSAGE: usize = 4 << 10;
/// Cases that run at the same time.
const AT_ONCE: usize = 2;

#[test]
fn hostile_inputs_are_refused() {
    let cases = cases();
    let (next, bad) = (AtomicUsize::new(0), std::sync::Mutex::new(Vec::new()));
    let work = || {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(why) = held(case) {
                let mut bad = bad.lock().expect("no worker panics");
                bad.push(format!("{}: {why}", case.name));
            }
        }
    };
    std::thread::scope(|scope| {
        (0..AT_ONCE).for_each(|_| drop(scope.spawn(work)));
    });
    let bad = bad.into_inner().expect("no worker panics");
    assert!(
        bad.is_empty(),
        "{} of {} cases are not held:\n{}",
        bad.len(),
        cases.len(),
        bad.join("\n")
    );
}

/// Runs a case, and judges it.
fn held(case: &Case) -> Result<(), String> {
    let directory = tempfile::tempdir().expect("a directory");
    for (path, text) in &case.files {
        let file = directory.path().join(path);
        std::fs::create_dir_all(file.parent().expect("a directory")).expect("a directory");
        std::fs::write(file, text).expect("write a file");
    }
    let ran = process::run(directory.path(), case.command)?;
    eprintln!("{}: {ran}", case.name);
    judged(case, &ran, directory.path())
}

fn judged(case: &Case, ran: &Ran, directory: &Path) -> Result<(), String> {
    let said = format!("{}{}", ran.err, ran.out);
    let shown: String = said.chars().take(600).collect();
    match (&case.want, ran.code) {
        (Want::Answered, 0) | (Want::Ends, 0 | 1) => {}
        (Want::Refused(words), 1) => {
            if let Some(word) = words.iter().find(|word| !said.contains(**word)) {
                return Err(format!("'{word}' is not in: {shown}"));
            }
            if said.len() > MESSAGE + directory.as_os_str().len() {
                return Err(format!("{} bytes of message: {shown}", said.len()));
            }
        }
        (_, code) => return Err(format!("ended with {code}: {shown}")),
    }
    if ran.peak > MEMORY {
        return Err(format!("{} MiB at its peak", ran.peak >> 10));
    }
    Ok(())
}
