//! Errors of templates, with Go's messages.

use crate::func_error::FuncError;
use driftless_fuel::Span;

/// The error of parsing or executing a template. Displayed like Go's error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct Error {
    /// The kind of failure.
    pub kind: ErrorKind,
    /// The whole message, with the position as Go writes it: its columns count bytes from 0.
    pub message: String,
    /// The name under which the failing template was parsed, with the line and the column of the
    /// action. A parse error has the place of the last token; a template that does not exist has
    /// only its name.
    pub span: Span,
    /// The error of the function that failed, if it was one. The message repeats it.
    #[source]
    pub cause: Option<Box<FuncError>>,
}

impl Error {
    /// Returns an error without a cause, its message cut to the maximal size.
    pub(crate) fn new(kind: ErrorKind, message: String, span: Span) -> Self {
        Self {
            kind,
            message: shortened(message),
            span,
            cause: None,
        }
    }
}

/// The maximal bytes of a message: templates can create strings of any size, and each level around
/// an error repeats it.
const MAX_BYTES: usize = 16 << 10;

/// Cuts a message to the maximal size of errors.
pub fn shortened(mut message: String) -> String {
    if message.len() > MAX_BYTES {
        let end = message.floor_char_boundary(MAX_BYTES);
        let more = message.len() - end;
        message.truncate(end);
        message.shrink_to_fit();
        message.push_str(&format!("… ({more} bytes more)"));
    }
    message
}

/// The kind of failure of an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The text is not a valid template.
    Parse,
    /// An action failed.
    Exec,
    /// A budget is used up.
    Budget,
    /// The template to execute does not exist.
    NoTemplate,
}
