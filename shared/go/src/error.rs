//! The error of input that a Go program would refuse.

use std::fmt;

/// The error of a Go program, with its message.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Error(String);

impl Error {
    /// Returns an error with this message.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the message, as Go writes it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl From<String> for Error {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Error {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<Error> for String {
    fn from(error: Error) -> Self {
        error.0
    }
}
