//! The failure of a step: its message, its consequence for the object, and when it is retried.

use crate::ports::{ErrorKind, PortError};
use driftless_flux::reason;
use std::error::Error;
use std::fmt::Display;
use std::sync::Arc;
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
#[derive(Clone, Debug)]
pub struct Failure {
    /// The consequence of the failure.
    pub class: Class,
    /// The reason of the condition.
    pub reason: &'static str,
    /// The message of the condition.
    pub message: String,
    /// True if a service did not answer, or reported an internal error.
    pub is_unavailable: bool,
    /// The error that caused the failure; its text is part of the message. It may have the place in
    /// a file. Not for statuses and events: the message alone goes there.
    pub source: Option<Cause>,
}

/// The error that caused a failure.
pub type Cause = Arc<dyn Error + Send + Sync>;

impl Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Failure {
    /// Returns the cause itself: a derived implementation would return the `Arc`, which is an error
    /// of another type.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|cause| cause as &dyn Error)
    }
}

impl Failure {
    /// Creates a failure that is retried.
    pub fn retry(reason: &'static str, message: impl Display) -> Self {
        Self {
            class: Class::Retry(None),
            reason,
            message: message.to_string(),
            is_unavailable: false,
            source: None,
        }
    }

    /// Creates a failure that only a change can resolve.
    pub fn terminal(reason: &'static str, message: impl Display) -> Self {
        Self {
            class: Class::Terminal,
            reason,
            message: message.to_string(),
            is_unavailable: false,
            source: None,
        }
    }

    /// Creates the failure of an object that waits for another one.
    pub fn waiting(reason: &'static str, message: impl Display) -> Self {
        Self {
            class: Class::Waiting,
            reason,
            message: message.to_string(),
            is_unavailable: false,
            source: None,
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
            source: Some(Arc::new(error.clone())),
        }
    }

    /// Sets the error that caused the failure, whose text is part of the message.
    #[must_use]
    pub fn caused_by(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_keeps_its_cause_and_its_message() {
        let error = PortError::new(ErrorKind::Unavailable, "no answer");
        let failure = Failure::port(reason::FAILED, &error).context("read");
        assert_eq!(failure.to_string(), "read: no answer");
        let source = failure.source().unwrap();
        let source = source.downcast_ref::<PortError>().unwrap();
        assert_eq!(source.message, error.message);
        assert!(Failure::retry(reason::FAILED, "text").source().is_none());
        let own = Failure::terminal(reason::FAILED, &error).caused_by(error);
        assert!(
            own.clone().source().is_some() && own.during(reason::FAILED, "a").source().is_some()
        );
    }
}
