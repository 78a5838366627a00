//! One failure of a step: what happened, what it means for the object, and when to try again.

use crate::flux::reason;
use crate::ports::{ErrorKind, PortError};
use std::fmt::Display;
use std::time::Duration;

/// What a failure means for the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It may work later by itself: try again, after this long at the least.
    Retry(Option<Duration>),
    /// Only a change of the object, its source or its secrets can help: `Stalled`.
    Terminal,
    /// It waits for another object, which will wake it.
    Waiting,
}

/// Why a step ended without success. The message goes into conditions and events, so it never carries a secret.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// What it means for the work.
    pub class: Class,
    /// The condition's reason.
    pub reason: &'static str,
    /// The condition's message.
    pub message: String,
}

impl Failure {
    /// It may work later.
    pub fn retry(reason: &'static str, message: impl Display) -> Self {
        Self {
            class: Class::Retry(None),
            reason,
            message: message.to_string(),
        }
    }

    /// Only a change can help.
    pub fn terminal(reason: &'static str, message: impl Display) -> Self {
        Self {
            class: Class::Terminal,
            reason,
            message: message.to_string(),
        }
    }

    /// It waits for another object.
    pub fn waiting(reason: &'static str, message: impl Display) -> Self {
        Self {
            class: Class::Waiting,
            reason,
            message: message.to_string(),
        }
    }

    /// A port's refusal, under the reason of what was tried.
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
        }
    }

    /// The same failure as one of what was tried, with words before its message; what nothing but a change can help says so by
    /// itself.
    #[must_use]
    pub fn during(mut self, reason: &'static str, what: impl Display) -> Self {
        if self.class == Class::Terminal {
            return self;
        }
        self.reason = reason;
        self.context(what)
    }

    /// The same failure with words before its message.
    #[must_use]
    pub fn context(mut self, what: impl Display) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }
}

/// A port failed where no better reason is known.
impl From<PortError> for Failure {
    fn from(error: PortError) -> Self {
        Self::port(reason::FAILED, &error)
    }
}

/// Why the cluster of an object cannot be used.
pub enum TargetError {
    /// The kubeconfig's Secret, the ConfigMap or the service account is not there (any more).
    Gone(Failure),
    /// Anything else.
    Failed(Failure),
}

impl TargetError {
    /// The same with words before its message.
    #[must_use]
    pub fn context(self, what: &str) -> Self {
        match self {
            Self::Gone(failure) => Self::Gone(failure.context(what)),
            Self::Failed(failure) => Self::Failed(failure.context(what)),
        }
    }
}

impl From<TargetError> for Failure {
    fn from(none: TargetError) -> Failure {
        match none {
            TargetError::Gone(failure) | TargetError::Failed(failure) => failure,
        }
    }
}

impl From<Failure> for TargetError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}
