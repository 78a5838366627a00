//! What a command ends with when it fails.

use driftless_core::failure::Failure;
use driftless_core::ports::{ErrorKind, PortError};
use std::fmt::Display;
use std::io;
use std::path::Path;

/// The widest line of `--help`, in columns.
pub const WIDEST: usize = 100;

/// For `--help`.
pub const EXIT_CODES: &str = "Exit codes: 0 done, 1 failed, 2 wrong usage.";

/// Why a command failed, what to do next if that is known, and the exit code.
#[derive(Debug)]
pub struct Error {
    /// What failed, with the object or file:line.
    pub message: String,
    /// What to do about it.
    pub next: Option<String>,
    /// 1 failed, 2 wrong usage.
    pub code: u8,
}

impl Error {
    /// A failure.
    pub fn new(message: impl Display) -> Self {
        Self {
            message: message.to_string(),
            next: None,
            code: 1,
        }
    }

    /// A wrong use of the command line.
    pub fn usage(message: impl Display) -> Self {
        Self {
            code: 2,
            ..Self::new(message)
        }
    }

    /// A file that a flag names and that cannot be read; a wrong use of the command line where it does not exist.
    pub fn unreadable(flag: &str, file: &Path, error: &io::Error) -> Self {
        let shown = file.display();
        match error.kind() {
            io::ErrorKind::NotFound => Self::usage(format!("{flag}: {shown} does not exist"))
                .next(format!("name a file that exists with {flag}")),
            _ => Self::new(format!("{flag}: {shown}: {error}")),
        }
    }

    /// A flag of the real tool that this one does not have.
    pub fn unsupported(flag: &str, why: &str) -> Self {
        Self::usage(format!("{flag} is not supported: {why}")).next(format!("leave {flag} out"))
    }

    /// The same, with the server it is about, unless the message names it already.
    #[must_use]
    pub fn at(mut self, server: &str) -> Self {
        if !self.message.contains(server) {
            self.message = format!("{server}: {}", self.message);
        }
        self
    }

    /// The same, with a next step.
    #[must_use]
    pub fn next(mut self, step: impl Display) -> Self {
        self.next = Some(step.to_string());
        self
    }
}

impl From<PortError> for Error {
    fn from(error: PortError) -> Self {
        let step = match error.kind {
            ErrorKind::Denied => Some("check the credentials, and the roles of their user"),
            ErrorKind::Unavailable => {
                Some("check that the server can be reached from here, and try again")
            }
            ErrorKind::Conflict => Some("somebody else changed it meanwhile: try again"),
            ErrorKind::RateLimited => Some("wait, or give credentials with a higher limit"),
            _ => None,
        };
        Self {
            next: step.map(str::to_owned),
            ..Self::new(error)
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::new(failure)
    }
}
