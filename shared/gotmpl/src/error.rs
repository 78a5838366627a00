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
