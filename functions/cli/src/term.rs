//! The terminal: what is for people goes to stderr, results go to stdout, colours only where somebody looks.

use crate::error::Error;
use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write as _};

/// Whether stderr is a terminal that can draw lines again.
pub fn draws() -> bool {
    io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|name| name != "dumb")
}

/// Whether stderr may be coloured: a terminal, and `NO_COLOR` is not set.
pub fn colours() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// The sign before a line for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// What is being done.
    Action,
    /// What is waited for.
    Waiting,
    /// What is done.
    Success,
    /// What is not.
    Failure,
    /// What is left alone.
    Suspended,
}

impl Mark {
    /// The sign, one column wide.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Action => "►",
            Self::Waiting => "◎",
            Self::Success => "✔",
            Self::Failure => "✗",
            Self::Suspended => "‖",
        }
    }

    /// The sign in its colour.
    pub fn shown(self, colours: bool) -> Cow<'static, str> {
        let colour = match self {
            Self::Action | Self::Waiting => "36",
            Self::Success => "32",
            Self::Failure => "31",
            Self::Suspended => "33",
        };
        paint(colours, colour, self.sign())
    }
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
    note(&paint(colours(), "31", "Error:"), &error.message);
    if let Some(step) = &error.next {
        next(step);
    }
}

/// `Next: what to do`.
pub fn next(step: &str) {
    note(&paint(colours(), "36", "Next:"), step);
}

/// `► what is being done`.
pub fn action(text: &str) {
    marked(Mark::Action, text);
}

/// `◎ what is waited for`.
pub fn waiting(text: &str) {
    marked(Mark::Waiting, text);
}

/// `✔ what is done`.
pub fn success(text: &str) {
    marked(Mark::Success, text);
}

/// `✗ what is not`.
pub fn failure(text: &str) {
    marked(Mark::Failure, text);
}

/// A line with its mark.
pub fn marked(mark: Mark, text: &str) {
    note(&mark.shown(colours()), text);
}

/// A line for people without a mark, such as a command to copy.
pub fn line(text: &str) {
    // Nobody is left to tell when stderr is gone.
    let _ = writeln!(io::stderr().lock(), "{}", plain(text));
}

fn note(mark: &str, text: &str) {
    // Nobody is left to tell when stderr is gone.
    let _ = writeln!(io::stderr().lock(), "{mark} {}", plain(text));
}

/// A text without characters that a terminal obeys: messages quote what others wrote, and an escape sequence in them would
/// move the cursor or rewrite what stands above. Ends of lines and tabs stay.
pub fn plain(text: &str) -> Cow<'_, str> {
    let obeyed = |one: char| {
        one.is_control() && !matches!(one, '\n' | '\t')
            || matches!(one, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    match text.contains(obeyed) {
        true => text.replace(obeyed, "\u{fffd}").into(),
        false => text.into(),
    }
}

fn paint(colours: bool, colour: &str, text: &'static str) -> Cow<'static, str> {
    match colours {
        true => format!("\u{1b}[{colour}m{text}\u{1b}[0m").into(),
        false => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        assert_eq!(plain("two\n\tlines é ✔"), "two\n\tlines é ✔");
        assert_eq!(
            plain("a\u{1b}[2Jb\r\u{9b}c"),
            "a\u{fffd}[2Jb\u{fffd}\u{fffd}c"
        );
        assert_eq!(plain("\u{202e}cba"), "\u{fffd}cba");
    }
}
