//! Errors of templates, with Go's messages.

/// The error of parsing or executing a template. Displayed like Go's error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The kind of failure.
    pub kind: ErrorKind,
    /// The whole message, with the position.
    pub message: String,
    /// The name under which the failing template was parsed.
    pub template: String,
    /// The line, counted from 1; 0 if unknown.
    pub line: usize,
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
