//! The error of a command, with its exit code.

use driftless_kernel::failure::Failure;
use driftless_kernel::ports::PortError;
use std::fmt::Display;
use std::io;
use std::path::Path;

/// The maximum width of `--help`, in columns.
pub const MAX_HELP_WIDTH: usize = 100;

/// The last line of every `--help`.
pub const EXIT_CODES: &str = "Exit codes: 0 done, 1 failed, 2 wrong usage.";

/// The error of a command: its message, the next step if one is known, and the exit code.
#[derive(Debug)]
pub struct Error {
    /// The message, which begins with the object or `file:line`.
    pub message: String,
    /// The next step for the user.
    pub next: Option<String>,
    /// The exit code: 1 failed, 2 wrong usage.
    pub code: u8,
}

impl Error {
    /// Returns an error with exit code 1.
    pub fn new(message: impl Display) -> Self {
        Self {
            message: message.to_string(),
            next: None,
            code: 1,
        }
    }

    /// Returns an error of usage, with exit code 2.
    pub fn usage(message: impl Display) -> Self {
        Self {
            code: 2,
            ..Self::new(message)
        }
    }

    /// Returns the error for a file of a flag that cannot be read; an error of usage if it does not
    /// exist.
    pub fn unreadable(flag: &str, file: &Path, error: &io::Error) -> Self {
        let shown = file.display();
        match error.kind() {
            io::ErrorKind::NotFound => Self::usage(format!("{flag}: {shown} does not exist"))
                .next(format!("name a file that exists with {flag}")),
            _ => Self::new(format!("{flag}: {shown}: {error}")),
        }
    }

    /// Returns the error for a flag of Flux, kustomize or Helm that driftless does not support.
    pub fn unsupported(flag: &str, reason: &str) -> Self {
        Self::usage(format!("{flag} is not supported: {reason}")).next(format!("leave {flag} out"))
    }

    /// Adds the server to the message, unless the message already names it.
    #[must_use]
    pub fn at(mut self, server: &str) -> Self {
        if !self.message.contains(server) {
            self.message = format!("{server}: {}", self.message);
        }
        self
    }

    /// Sets the next step.
    #[must_use]
    pub fn next(mut self, step: impl Display) -> Self {
        self.next = Some(step.to_string());
        self
    }
}

impl From<PortError> for Error {
    fn from(error: PortError) -> Self {
        driftless_fleet::Error::from(error).into()
    }
}

impl From<driftless_fleet::Error> for Error {
    fn from(error: driftless_fleet::Error) -> Self {
        Self {
            code: if error.is_usage { 2 } else { 1 },
            message: error.message,
            next: error.next,
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::new(failure)
    }
}
