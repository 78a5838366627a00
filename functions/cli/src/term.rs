//! The terminal: messages go to stderr, results to stdout, colours only to a terminal.

use crate::error::Error;
use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write as _};

/// Returns whether stderr is a terminal on which lines can be redrawn.
pub fn draws() -> bool {
    io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|name| name != "dumb")
}

/// Returns whether stderr may be coloured: it is a terminal, and `NO_COLOR` is not set.
pub fn colours() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Returns whether stdout is a terminal on which lines can be redrawn.
pub fn draws_on_stdout() -> bool {
    io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|name| name != "dumb")
}

/// Returns whether results may be coloured: stdout is a terminal, and `NO_COLOR` is not set.
pub fn colours_on_stdout() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Returns the width of stdout in columns: 80 if it is not a terminal.
pub fn width_of_stdout() -> usize {
    match io::stdout().is_terminal() {
        true => usize::from(console::Term::stdout().size().1),
        false => 80,
    }
}

/// Returns a string in a colour, if one is given.
pub fn painted(colour: Option<&str>, text: &str) -> String {
    match colour {
        Some(colour) => format!("\u{1b}[{colour}m{text}\u{1b}[0m"),
        None => text.to_owned(),
    }
}

/// Colours an excerpt of a file: the frame, and the caret. Control characters are replaced.
pub fn excerpt(text: &str, colours: bool) -> String {
    let text = plain(text);
    if !colours {
        return text.into_owned();
    }
    let line = |line: &str| match (line.split_once('|'), line.ends_with('^')) {
        (Some((before, caret)), true) => {
            painted(Some("34"), &format!("{before}|")) + &painted(Some("31"), caret)
        }
        (Some((before, text)), false) => painted(Some("34"), &format!("{before}|")) + text,
        (None, _) => painted(Some("34"), line),
    };
    let lines = text.lines().map(|text| line(text) + "\n");
    lines.collect()
}

/// The kind of a message, shown by a sign before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Something that is being done.
    Action,
    /// Something that the command waits for.
    Waiting,
    /// Something that was done.
    Success,
    /// Something that failed.
    Failure,
    /// Something that is suspended.
    Suspended,
}

impl Mark {
    /// Returns the sign, which is one column wide.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Action => "►",
            Self::Waiting => "◎",
            Self::Success => "✔",
            Self::Failure => "✗",
            Self::Suspended => "‖",
        }
    }

    /// Returns the sign in its colour.
    pub fn coloured(self, colours: bool) -> Cow<'static, str> {
        let colour = match self {
            Self::Action | Self::Waiting => "36",
            Self::Success => "32",
            Self::Failure => "31",
            Self::Suspended => "33",
        };
        paint(colours, colour, self.sign())
    }
}

/// Writes a result to stdout. A closed pipe (`| head`) is not an error.
pub fn result(text: &str) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done.map_err(|error| Error::caused_by(error).context("write to stdout")),
    }
}

/// Prints `Error: …`, the excerpt of the file with the error, and `Next: …` if there is a next
/// step.
pub fn error(error: &Error) {
    note(&paint(colours(), "31", "Error:"), &error.message);
    if let Some(text) = &error.excerpt {
        // If stderr is closed, the error cannot be reported anywhere.
        let _ = write!(io::stderr().lock(), "{}", excerpt(text, colours()));
    }
    if let Some(step) = &error.next {
        next(step);
    }
}

/// Prints `Next: …`.
pub fn next(step: &str) {
    note(&paint(colours(), "36", "Next:"), step);
}

/// Prints `► …`, something that is being done.
pub fn action(text: &str) {
    marked(Mark::Action, text);
}

/// Prints `◎ …`, something that the command waits for.
pub fn waiting(text: &str) {
    marked(Mark::Waiting, text);
}

/// Prints `✔ …`, something that was done.
pub fn success(text: &str) {
    marked(Mark::Success, text);
}

/// Prints `✗ …`, something that failed.
pub fn failure(text: &str) {
    marked(Mark::Failure, text);
}

/// Prints a line with a mark.
pub fn marked(mark: Mark, text: &str) {
    note(&mark.coloured(colours()), text);
}

/// Asks a question on stderr, and returns whether the answer on stdin is yes.
///
/// # Errors
/// The terminal cannot be written or read.
pub fn confirm(question: &str) -> Result<bool, Error> {
    let failed = |error: io::Error| Error::caused_by(error).context("ask on the terminal");
    let mut out = io::stderr().lock();
    write!(out, "{question} [y/N] ").map_err(failed)?;
    out.flush().map_err(failed)?;
    let mut line = String::new();
    io::stdin().read_line(&mut line).map_err(failed)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

/// Prints a line without a mark, such as a command to copy.
pub fn line(text: &str) {
    // If stderr is closed, the error cannot be reported anywhere.
    let _ = writeln!(io::stderr().lock(), "{}", plain(text));
}

fn note(mark: &str, text: &str) {
    // If stderr is closed, the error cannot be reported anywhere.
    let _ = writeln!(io::stderr().lock(), "{mark} {}", plain(text));
}

/// Replaces the control characters of a string: messages quote foreign input, whose escape
/// sequences could move the cursor or overwrite lines. Line ends and tabs stay.
pub fn plain(text: &str) -> Cow<'_, str> {
    let is_control = |one: char| {
        one.is_control() && !matches!(one, '\n' | '\t')
            || matches!(one, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    match text.contains(is_control) {
        true => text.replace(is_control, "\u{fffd}").into(),
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
    fn control_characters_are_replaced() {
        assert_eq!(plain("two\n\tlines é ✔"), "two\n\tlines é ✔");
        assert_eq!(
            plain("a\u{1b}[2Jb\r\u{9b}c"),
            "a\u{fffd}[2Jb\u{fffd}\u{fffd}c"
        );
        assert_eq!(plain("\u{202e}cba"), "\u{fffd}cba");
    }
}
