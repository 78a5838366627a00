//! The error of a fleet: its message, and the next step for the user.

use driftless_kernel::failure::Failure;
use driftless_kernel::ports::{ErrorKind, PortError};
use std::fmt::Display;

/// An error, with the next step if one is known, and the error that caused it.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The message, which begins with the object or `file:line`.
    pub message: String,
    /// The next step for the user.
    pub next: Option<String>,
    /// True if an option or an argument is wrong.
    pub is_usage: bool,
    /// The error that caused this one; its text is part of the message.
    source: Option<Cause>,
}

/// The error that caused another one.
type Cause = Box<dyn std::error::Error + Send + Sync>;

impl Error {
    /// Returns an error of the work.
    pub fn new(message: impl Display) -> Self {
        Self {
            message: message.to_string(),
            next: None,
            is_usage: false,
            source: None,
        }
    }

    /// Returns an error of the work with the message of its cause.
    pub fn caused_by(cause: impl Into<Cause>) -> Self {
        let cause = cause.into();
        Self {
            message: cause.to_string(),
            source: Some(cause),
            ..Self::new("")
        }
    }

    /// Puts what was tried before the message.
    #[must_use]
    pub fn context(mut self, tried: impl Display) -> Self {
        self.message = format!("{tried}: {}", self.message);
        self
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

impl From<PortError> for Error {
    fn from(error: PortError) -> Self {
        Self {
            next: next_step(&error).map(str::to_owned),
            ..Self::caused_by(error)
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::caused_by(failure)
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
