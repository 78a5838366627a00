//! The run of a case in a separate process, and its cost.

use super::engine::{Case, Done, Want};
use crate::usage::{peak, used};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const WHICH: &str = "DRIFTLESS_HOSTILE_CASE";

/// The maximal memory of a process, in KiB.
const MEMORY: u64 = 256 << 10;

/// The maximal bytes of a message: strings of a chart must not flood a log.
const MESSAGE: usize = 17 << 10;

/// Runs the case that the parent process requests.
pub fn child(cases: &[Case]) {
    let Ok(name) = std::env::var(WHICH) else {
        return;
    };
    let case = cases.iter().find(|c| c.name == name).unwrap();
    let before = used();
    let done = (case.run)();
    let took = used().saturating_sub(before);
    let peak = peak();
    let verdict = judged(&case.want, &done);
    let shown = match &done {
        Ok(text) => format!("{} bytes", text.len()),
        Err((message, _)) => message.chars().take(110).collect::<String>(),
    };
    println!(
        "\n{name}: {} ms, {} MiB: {}",
        took,
        peak >> 10,
        shown.replace('\n', " ")
    );
    if let Err(why) = verdict {
        panic!("{name}: {why}");
    }
    assert!(peak <= MEMORY, "{name}: {} MiB at its peak", peak >> 10);
}

fn judged(want: &Want, done: &Done) -> Result<(), String> {
    if let Err((message, _)) = done
        && message.len() > MESSAGE
    {
        return Err(format!("a message of {} bytes", message.len()));
    }
    let missing = |words: &[String], text: &str| match words.iter().find(|w| !text.contains(*w)) {
        Some(word) => Err(format!(
            "{word:?} is not in: {}",
            text.chars().take(600).collect::<String>()
        )),
        None => Ok(()),
    };
    match (want, done) {
        (Want::Ends, _) => Ok(()),
        (Want::Refused(words), Err((message, _))) => missing(words, message),
        (Want::Budget(file), Err((message, true))) => missing(std::slice::from_ref(file), message),
        (Want::Budget(_), Err((message, false))) => Err(format!("not the budget: {message}")),
        (Want::Answered(words), Ok(text)) => missing(words, text),
        (Want::Answered(_), Err((message, _))) => Err(format!("refused: {message}")),
        (_, Ok(text)) => Err(format!("answered with {} bytes", text.len())),
    }
}

/// The time after which a case counts as endless.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The number of cases that run at the same time.
const PARALLEL_CASES: usize = 2;

/// Runs every case in a separate process and returns the failures.
pub fn run_all(cases: &[Case]) -> Vec<String> {
    let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    let (next, bad) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(why) = run(name) {
                bad.lock().unwrap().push(why);
            }
        }
    };
    std::thread::scope(|scope| {
        (0..PARALLEL_CASES).for_each(|_| drop(scope.spawn(work)));
    });
    bad.into_inner().unwrap()
}

/// Runs a case in a separate process.
fn run(name: &str) -> Result<(), String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "hostile::one_case",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(WHICH, name)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() && start.elapsed() < TIMEOUT {
        std::thread::sleep(Duration::from_millis(2));
    }
    // Killing a process that has already ended has no effect.
    child.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let head = format!("{name}: ");
    let line = text.lines().find(|l| l.starts_with(&head));
    println!("{}", line.unwrap_or(&head));
    if output.status.success() && line.is_some() {
        return Ok(());
    }
    let error = String::from_utf8_lossy(&output.stderr);
    let failure = error.lines().find(|l| l.starts_with(&head));
    Err(match failure {
        Some(failure) => failure.to_owned(),
        None => format!("{head}ended with {}: {error}", output.status),
    })
}
