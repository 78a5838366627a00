//! The error of a command, with its exit code.

use driftless_fleet::excerpt;
use driftless_fuel::Span;
use driftless_kernel::failure::Failure;
use driftless_kernel::ports::PortError;
use driftless_server::{DataDirectoryError, RegisterError, ServerError, SignalError};
use std::fmt::Display;
use std::io;
use std::path::Path;

/// The maximum width of `--help`, in columns.
pub const MAX_HELP_WIDTH: usize = 100;

/// The last line of every `--help`.
pub const EXIT_CODES: &str = "Exit codes: 0 done, 1 failed, 2 wrong usage.";

/// The error of a command: its message, the next step if one is known, the exit code, and the error
/// that caused it.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The message, which begins with the object or `file:line`.
    pub message: String,
    /// The next step for the user.
    pub next: Option<String>,
    /// The exit code: 1 failed, 2 wrong usage.
    pub code: u8,
    /// The line of the file with the error, if its file has no secret values.
    pub excerpt: Option<String>,
    /// The error that caused this one; its text is part of the message.
    source: Option<Cause>,
}

/// The error that caused the error of a command.
type Cause = Box<dyn std::error::Error + Send + Sync>;

impl Error {
    /// Returns an error with exit code 1, for a command that detects it.
    pub fn new(message: impl Display) -> Self {
        Self {
            message: message.to_string(),
            next: None,
            code: 1,
            excerpt: None,
            source: None,
        }
    }

    /// Returns an error with exit code 1 and the message of its cause.
    pub fn caused_by(cause: impl Into<Cause>) -> Self {
        let cause = cause.into();
        Self {
            message: cause.to_string(),
            source: Some(cause),
            ..Self::new("")
        }
    }

    /// Returns the same, for a cause whose message leaves out what caused it: the message is that
    /// of each error of the chain.
    pub fn chain(cause: impl Into<Cause>) -> Self {
        let mut error = Self::caused_by(cause);
        let mut next = std::error::Error::source(&error).and_then(std::error::Error::source);
        let mut message = error.message.clone();
        while let Some(source) = next {
            message = format!("{message}: {source}");
            next = source.source();
        }
        error.message = message;
        error
    }

    /// Puts what was tried before the message.
    #[must_use]
    pub fn context(mut self, tried: impl Display) -> Self {
        self.message = format!("{tried}: {}", self.message);
        self
    }

    /// Returns an error of usage, with exit code 2.
    pub fn usage(message: impl Display) -> Self {
        Self::new(message).with_code(2)
    }

    /// Returns the error for a file of a flag that cannot be read; an error of usage if it does not
    /// exist.
    pub fn unreadable(flag: &str, file: &Path, error: io::Error) -> Self {
        let shown = file.display();
        match error.kind() {
            io::ErrorKind::NotFound => Self::usage(format!("{flag}: {shown} does not exist"))
                .next(format!("name a file that exists with {flag}")),
            _ => Self::caused_by(error).context(format!("{flag}: {shown}")),
        }
    }

    /// Returns the error for a flag of Flux, kustomize or Helm that driftless does not support.
    pub fn unsupported(flag: &str, reason: &str) -> Self {
        Self::usage(format!("{flag} is not supported: {reason}")).next(format!("leave {flag} out"))
    }

    /// Sets the exit code.
    #[must_use]
    pub fn with_code(self, code: u8) -> Self {
        Self { code, ..self }
    }

    /// Adds the server to the message, unless the message already names it.
    #[must_use]
    pub fn at(mut self, server: &str) -> Self {
        if !self.message.contains(server) {
            self.message = format!("{server}: {}", self.message);
        }
        self
    }

    /// Adds the line of the file with the error: `root` is the directory of the files, and `place`
    /// the file below it. Nothing is added for a file that may have secret values.
    #[must_use]
    pub fn at_line(mut self, root: &Path, place: Option<&Span>) -> Self {
        let place = place.filter(|place| place.column > 0);
        self.excerpt = place.and_then(|place| {
            let content = std::fs::read(root.join(&place.file)).ok()?;
            excerpt(&content, place)
        });
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
            message: error.message.clone(),
            next: error.next.clone(),
            excerpt: None,
            source: Some(Box::new(error)),
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::caused_by(failure)
    }
}

impl From<SignalError> for Error {
    fn from(error: SignalError) -> Self {
        Self::chain(error)
    }
}

impl From<ServerError> for Error {
    fn from(error: ServerError) -> Self {
        Self::caused_by(error)
    }
}

impl From<DataDirectoryError> for Error {
    fn from(error: DataDirectoryError) -> Self {
        let is_used = matches!(error, DataDirectoryError::InUse { .. });
        let error = Self::chain(error);
        match is_used {
            true => error.next("end it, or give another directory with --data"),
            false => error,
        }
    }
}

impl From<RegisterError> for Error {
    fn from(error: RegisterError) -> Self {
        match error {
            RegisterError::State(error) => error.into(),
            RegisterError::Connect(failure) => failure.into(),
            RegisterError::Install { server, source } => Self::from(source).at(&server),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    #[test]
    fn an_error_keeps_its_cause() {
        let cause = io::Error::new(io::ErrorKind::PermissionDenied, "not yours");
        let error = Error::caused_by(cause).context("read a");
        assert_eq!(error.to_string(), "read a: not yours");
        let cause = error.source().and_then(|cause| cause.downcast_ref());
        assert!(
            cause.is_some_and(|cause: &io::Error| cause.kind() == io::ErrorKind::PermissionDenied)
        );
    }

    #[test]
    fn a_chain_is_one_message() {
        let path = "a".into();
        let source = io::Error::other("no room");
        let error = Error::from(DataDirectoryError::Create { path, source });
        assert_eq!(error.message, "create a: no room");
    }
}
