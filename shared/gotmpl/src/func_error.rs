//! The errors of functions.

/// The error of a function: its message becomes part of the template's error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct FuncError {
    /// The message, as Go's function would return it.
    pub message: String,
    /// True if a budget of the execution is used up.
    pub budget: bool,
}

impl FuncError {
    /// Returns an error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        FuncError {
            message: message.into(),
            budget: false,
        }
    }

    /// Returns the error of a budget that is used up.
    pub fn out_of_budget(message: impl Into<String>) -> Self {
        FuncError {
            message: message.into(),
            budget: true,
        }
    }
}

impl From<crate::Error> for FuncError {
    /// Returns the error of a function that executed a template, which failed.
    fn from(error: crate::Error) -> Self {
        FuncError {
            budget: error.kind == crate::ErrorKind::Budget,
            message: error.message,
        }
    }
}

impl From<driftless_go::Error> for FuncError {
    fn from(error: driftless_go::Error) -> Self {
        Self::new(error)
    }
}

impl From<String> for FuncError {
    fn from(message: String) -> Self {
        Self::new(message)
    }
}

impl From<&str> for FuncError {
    fn from(message: &str) -> Self {
        Self::new(message)
    }
}
