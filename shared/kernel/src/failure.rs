//! The failure of a step: its message, its consequence for the object, and when it is retried.

use crate::ports::{ErrorKind, PortError};
use driftless_flux::reason;
use std::fmt::Display;
use std::time::Duration;

/// The consequence of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A retry may succeed without a change; the duration is its minimum delay.
    Retry(Option<Duration>),
    /// Only a change of the object, its source or its secrets can help: `Stalled`.
    Terminal,
    /// The object waits for another one, which will requeue it.
    Waiting,
}

/// The reason that a step failed. The message goes into conditions and events, so it never contains
/// a secret.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The consequence of the failure.
    pub class: Class,
    /// The reason of the condition.
    pub reason: &'static str,
    /// The message of the condition.
    pub message: String,
    /// True if a service did not answer, or reported an internal error.
    pub is_unavailable: bool,
}

impl Failure {
    /// Creates a failure that is retried.
    pub fn retry(reason: &'static str, message: impl Display) -> Self {
        Self {
            class: Class::Retry(None),
            reason,
            message: message.to_string(),
            is_unavailable: false,
        }
    }

    /// Creates a failure that only a change can resolve.
    pub fn terminal(reason: &'static str, message: impl Display) -> Self {
        Self {
            class: Class::Terminal,
            reason,
            message: message.to_string(),
            is_unavailable: false,
        }
    }

    /// Creates the failure of an object that waits for another one.
    pub fn waiting(reason: &'static str, message: impl Display) -> Self {
        Self {
            class: Class::Waiting,
            reason,
            message: message.to_string(),
            is_unavailable: false,
        }
    }

    /// Converts the error of a port, with the reason of the failed operation.
    pub fn port(reason: &'static str, error: &PortError) -> Self {
        let class = match error.kind {
            ErrorKind::Unsupported => Class::Terminal,
            _ => Class::Retry(error.retry_after),
        };
        let reason = if error.kind == ErrorKind::Unsupported {
            reason::UNSUPPORTED
        } else {
            reason
        };
        Self {
            class,
            reason,
            message: error.message.clone(),
            is_unavailable: error.kind == ErrorKind::Unavailable,
        }
    }

    /// Sets the reason of the failed operation and adds a prefix to the message; terminal failures
    /// stay unchanged.
    #[must_use]
    pub fn during(mut self, reason: &'static str, prefix: impl Display) -> Self {
        if self.class == Class::Terminal {
            return self;
        }
        self.reason = reason;
        self.context(prefix)
    }

    /// Adds a prefix to the message.
    #[must_use]
    pub fn context(mut self, prefix: impl Display) -> Self {
        self.message = format!("{prefix}: {}", self.message);
        self
    }
}

/// Converts an error of a port for which no more specific reason is known.
impl From<PortError> for Failure {
    fn from(error: PortError) -> Self {
        Self::port(reason::FAILED, &error)
    }
}

/// The reason that the cluster of an object cannot be used.
pub enum TargetError {
    /// The kubeconfig's Secret, the ConfigMap or the service account does not exist.
    Gone(Failure),
    /// Any other failure.
    Failed(Failure),
}

impl TargetError {
    /// Adds a prefix to the message.
    #[must_use]
    pub fn context(self, prefix: &str) -> Self {
        match self {
            Self::Gone(failure) => Self::Gone(failure.context(prefix)),
            Self::Failed(failure) => Self::Failed(failure.context(prefix)),
        }
    }
}

impl From<TargetError> for Failure {
    fn from(error: TargetError) -> Failure {
        match error {
            TargetError::Gone(failure) | TargetError::Failed(failure) => failure,
        }
    }
}

impl From<Failure> for TargetError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}
