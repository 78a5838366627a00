//! The errors of functions.

/// The error of a function: its message becomes part of the template's error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FuncError {
    /// The message, as Go's function would return it.
    pub message: String,
    /// True if a budget of the execution is used up.
    pub budget: bool,
}

impl FuncError {
    /// Creates an error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        FuncError {
            message: message.into(),
            budget: false,
        }
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
