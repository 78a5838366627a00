//! The conversion of the client's errors.

use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::{Error as ServerError, ErrorCode};
use driftless_kernel::ports::{ErrorKind, PortError};
use std::error::Error;
use std::fmt::Display;

/// Returns an error without an answer: the outcome of a write is not known.
pub(crate) fn unavailable(operation: &str, error: impl Display) -> PortError {
    PortError::new(ErrorKind::Unavailable, format!("{operation}: {error}"))
}

/// Returns the error of an answer that has another form than expected.
pub(crate) fn unreadable(operation: &str, problem: impl Display) -> PortError {
    PortError::new(ErrorKind::Unreadable, format!("{operation}: {problem}"))
}

/// Returns whether the server refused a message because of the sequence that it expected.
pub(crate) fn is_conflict(error: &PublishError) -> bool {
    let is_constant =
        |error: &ServerError| error.error_code() == ErrorCode::STREAM_WRONG_LAST_SEQUENCE_CONSTANT;
    error.kind() == PublishErrorKind::WrongLastSequence
        || error
            .source()
            .and_then(|source| source.downcast_ref::<ServerError>())
            .is_some_and(is_constant)
}

/// Converts the error of a message to a stream.
pub(crate) fn of_publish(operation: &str, error: &PublishError) -> PortError {
    let kind = match error.kind() {
        PublishErrorKind::StreamNotFound => ErrorKind::NotFound,
        PublishErrorKind::MaxPayloadExceeded => ErrorKind::Invalid,
        PublishErrorKind::WrongLastSequence | PublishErrorKind::WrongLastMessageId => {
            ErrorKind::Conflict
        }
        _ => ErrorKind::Unavailable,
    };
    PortError::new(kind, format!("{operation}: {error}"))
}
