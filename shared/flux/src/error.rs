//! The errors of fields, and of other input, with an invalid value.

use std::borrow::Cow;
use std::fmt::Display;

/// The error of a field of a Flux object. Displayed as the message of the object's condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FieldError {
    /// A part of the object has fields of other types than the API.
    #[error("{part}: {reason}")]
    Type {
        /// `spec` or `status`.
        part: &'static str,
        /// The message of the parser, which names the field.
        reason: String,
    },
    /// A field is not a valid duration.
    #[error("{field}: {source}")]
    Duration {
        /// The path of the field, such as `spec.interval`.
        field: String,
        /// The reason that the value is not accepted.
        source: DurationError,
    },
    /// A field has a value that is not supported, or contradicts another one. The text names the
    /// field.
    #[error("{0}")]
    Value(String),
}

impl FieldError {
    /// Returns a conversion of the error of the duration of a field.
    pub(crate) fn in_field(field: &str) -> impl FnOnce(DurationError) -> Self {
        let field = field.to_owned();
        move |source| Self::Duration { field, source }
    }
}

/// The error of a string that is not an accepted duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DurationError {
    /// The string is not a duration of Go, or the duration is negative.
    #[error("'{0}' is not a valid duration: expected numbers with units such as 30s, 10m or 1h30m")]
    Syntax(String),
    /// The duration is longer than ten years.
    #[error("'{0}' is too long: at most ten years")]
    TooLong(String),
}

/// The error of input that is not valid: a key, a policy, a pattern, a reference, a flag. Displayed
/// as a part of the message of a condition, so it never contains a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(Cow<'static, str>);

impl Invalid {
    /// Returns an error with the message of another one.
    pub fn new(message: impl Display) -> Self {
        message.to_string().into()
    }
}

impl From<&'static str> for Invalid {
    fn from(message: &'static str) -> Self {
        Self(message.into())
    }
}

impl From<String> for Invalid {
    fn from(message: String) -> Self {
        Self(message.into())
    }
}
