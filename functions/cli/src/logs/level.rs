//! The levels of the log.

use clap::ValueEnum;

/// The levels, the lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Level {
    Trace,
    Debug,
    Info,
    #[value(alias = "warning")]
    Warn,
    Error,
}
