//! The terminal: what is for people goes to stderr, results go to stdout, colours only where somebody looks.

use crate::error::Error;
use std::io::{self, IsTerminal as _, Write as _};

/// Whether stderr may be coloured: a terminal, and `NO_COLOR` is not set.
pub fn colours() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Writes a result. A reader that went away (`| head`) is no failure.
pub fn result(text: &str) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done.map_err(|error| Error::new(format!("write to stdout: {error}"))),
    }
}

/// `Error: …`, and `Next: …` when a step is known.
pub fn error(error: &Error) {
    note(&paint("31", "Error:"), &error.message);
    if let Some(next) = &error.next {
        note(&paint("36", "Next:"), next);
    }
}

/// `► what is being done`.
pub fn action(text: &str) {
    note(&paint("36", "►"), text);
}

/// `◎ what is waited for`.
pub fn waiting(text: &str) {
    note(&paint("36", "◎"), text);
}

/// `✔ what is done`.
pub fn success(text: &str) {
    note(&paint("32", "✔"), text);
}

/// `✗ what is not`.
pub fn failure(text: &str) {
    note(&paint("31", "✗"), text);
}

/// A line for people.
pub fn note(mark: &str, text: &str) {
    // Nobody is left to tell when stderr is gone.
    let _ = writeln!(io::stderr().lock(), "{mark} {text}");
}

fn paint(colour: &str, text: &str) -> String {
    if colours() {
        format!("\u{1b}[{colour}m{text}\u{1b}[0m")
    } else {
        text.to_owned()
    }
}
