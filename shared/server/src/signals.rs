//! The signals that end a process.

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals SIGINT and SIGTERM.
pub struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
}

/// The handler of a signal cannot be installed.
#[derive(Debug, thiserror::Error)]
#[error("wait for signals")]
pub struct SignalError(#[from] io::Error);

impl StopSignals {
    /// Installs the handlers of the signals.
    ///
    /// # Errors
    /// The operating system refuses a handler.
    pub fn new() -> Result<Self, SignalError> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for a signal.
    pub async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
