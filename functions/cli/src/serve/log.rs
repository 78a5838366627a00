//! Logs on stderr: lines for people on a terminal, JSON for machines.

use crate::error::Error;
use crate::term;
use clap::ValueEnum;
use std::io::{self, IsTerminal as _};
use tracing_subscriber::EnvFilter;

/// The variable with the levels, such as `info` or `driftless_core=debug`.
const LEVELS: &str = "DRIFTLESS_LOG";
/// What is logged where the variable says nothing else: the client of API servers logs each failure without the server's name, and
/// its caller logs it with the object.
const DEFAULT: &str = "info,kube_client=off";

/// The form of the log.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text on a terminal, JSON otherwise
    Auto,
    /// A line for people
    Text,
    /// A JSON object a line
    Json,
}

/// Starts logging when the environment asks for it: for a command that draws on the terminal. Whether it did.
pub fn start_if_asked() -> Result<bool, Error> {
    let asked = std::env::var_os(LEVELS).is_some_and(|levels| !levels.is_empty());
    if asked {
        start(Format::Auto)?;
    }
    Ok(asked)
}

/// The variable's levels come after the defaults, and win over them.
fn filter(levels: &str) -> Result<EnvFilter, Error> {
    EnvFilter::try_new(format!("{DEFAULT},{levels}")).map_err(|error| {
        Error::usage(format!("{LEVELS}: {error}")).next("give a level such as info or debug")
    })
}

/// Starts logging.
pub fn start(format: Format) -> Result<(), Error> {
    let levels = std::env::var(LEVELS)
        .ok()
        .filter(|levels| !levels.is_empty());
    let filter = filter(levels.as_deref().unwrap_or_default())?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr);
    let done = match format {
        Format::Json => log.json().flatten_event(true).try_init(),
        Format::Auto if !io::stderr().is_terminal() => log.json().flatten_event(true).try_init(),
        Format::Auto | Format::Text => log
            .with_ansi(term::colours())
            .with_target(false)
            .compact()
            .try_init(),
    };
    done.map_err(|error| Error::new(format!("start the log: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_come_after_the_defaults() {
        for (levels, quiet) in [
            ("", true),
            ("debug", true),
            ("driftless_core=debug", true),
            ("kube_client=warn", false),
        ] {
            let Ok(filter) = filter(levels) else {
                panic!("{levels} is refused")
            };
            let shown = filter.to_string();
            assert_eq!(shown.contains("kube_client=off"), quiet, "{shown}");
        }
        assert!(filter("driftless=loud").is_err());
    }
}
