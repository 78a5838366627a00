//! Errors of templates, worded as Go words them.

/// Why a template was not parsed or executed. Shown as Go words it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// What happened.
    pub kind: ErrorKind,
    /// The whole message, with the place.
    pub message: String,
    /// The template it happened in, by the name it was parsed under.
    pub template: String,
    /// The line, from 1; 0 if unknown.
    pub line: usize,
}

/// Bytes of a message: templates can make up texts of any size, and each level around an error repeats it.
const LONGEST: usize = 16 << 10;

/// A message cut to the size that errors may have.
pub fn shortened(mut message: String) -> String {
    if message.len() > LONGEST {
        let end = message.floor_char_boundary(LONGEST);
        let more = message.len() - end;
        message.truncate(end);
        message.shrink_to_fit();
        message.push_str(&format!("… ({more} bytes more)"));
    }
    message
}

/// What kind of failure an [`Error`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The text is no template.
    Parse,
    /// An action failed.
    Exec,
    /// A budget is used up.
    Budget,
    /// There is no template of the name that was to be executed.
    NoTemplate,
}
