//! The progress and the errors of the phases of an action.

use driftless_flux::reason;
use driftless_kernel::applier::NotChanged;
use driftless_kernel::failure::Failure;
use driftless_kernel::ports::{ErrorKind, PortError};

/// The reason why a phase of a Helm action did not end.
#[derive(Debug)]
pub enum PhaseError {
    /// The phase failed, and with it the release.
    Failed(String),
    /// The cluster could not be reached: the action continues later with the same phase.
    Transient(Failure),
}

impl From<PortError> for PhaseError {
    fn from(error: PortError) -> Self {
        match error.kind {
            ErrorKind::Unavailable | ErrorKind::RateLimited | ErrorKind::Unreadable => {
                Self::Transient(Failure::port(reason::FAILED, &error))
            }
            _ => Self::Failed(error.message),
        }
    }
}

impl From<NotChanged> for PhaseError {
    fn from(NotChanged { attempt, error }: NotChanged) -> Self {
        match (Self::from(error), attempt) {
            (Self::Failed(message), Some(attempt)) => Self::Failed(format!("{attempt}: {message}")),
            (other, _) => other,
        }
    }
}

/// Converts the error of a phase to a failure of the step: a failure of the release that could not
/// be recorded is tried again.
impl From<PhaseError> for Failure {
    fn from(broken: PhaseError) -> Self {
        match broken {
            PhaseError::Failed(message) => Self::retry(reason::FAILED, message),
            PhaseError::Transient(failure) => failure,
        }
    }
}

/// Converts the error of a write or delete of a release record. After a conflict the release has
/// not failed: another client, such as `helm rollback`, has changed the record since it was read,
/// and the next step reads the records again and decides.
pub fn record_error(error: PortError) -> PhaseError {
    match error.kind {
        ErrorKind::Conflict => {
            let failure = Failure::port(reason::FAILED, &error);
            PhaseError::Transient(failure.context("a release record was changed by another client"))
        }
        _ => error.into(),
    }
}

/// The progress of a phase.
pub enum Step {
    /// The phase is done.
    Done,
    /// The objects that are waited for, with their status.
    Waiting(String),
}

/// The progress of an action.
pub enum Progress {
    /// The action has ended, with an error if it failed.
    Over(Option<String>),
    /// The objects that are waited for, with their status.
    Waiting(String),
}
