//! The error of a fleet: its message, and the next step for the user.

use driftless_kernel::failure::Failure;
use driftless_kernel::ports::{ErrorKind, PortError};
use std::fmt::{self, Display};

/// An error, with the next step if one is known.
#[derive(Debug)]
pub struct Error {
    /// The message, which begins with the object or `file:line`.
    pub message: String,
    /// The next step for the user.
    pub next: Option<String>,
    /// True if an option or an argument is wrong.
    pub is_usage: bool,
}

impl Error {
    /// Returns an error of the work.
    pub fn new(message: impl Display) -> Self {
        Self {
            message: message.to_string(),
            next: None,
            is_usage: false,
        }
    }

    /// Returns an error of an option or an argument.
    pub fn usage(message: impl Display) -> Self {
        Self {
            is_usage: true,
            ..Self::new(message)
        }
    }

    /// Sets the next step.
    #[must_use]
    pub fn next(mut self, step: impl Display) -> Self {
        self.next = Some(step.to_string());
        self
    }
}

impl Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<PortError> for Error {
    fn from(error: PortError) -> Self {
        Self {
            next: next_step(&error).map(str::to_owned),
            ..Self::new(error)
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::new(failure)
    }
}

/// Returns the next step after a failed request; `None` if the message is sufficient.
pub fn next_step(error: &PortError) -> Option<&'static str> {
    match error.kind {
        ErrorKind::Denied => Some("check the credentials, and the roles of their user"),
        ErrorKind::Unavailable => {
            Some("check that the server can be reached from here, and try again")
        }
        ErrorKind::Conflict => Some("another writer has changed the object: try again"),
        ErrorKind::RateLimited => Some("wait, or give credentials with a higher limit"),
        _ => None,
    }
}
