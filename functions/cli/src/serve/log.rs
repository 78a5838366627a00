//! The log on stderr: text on a terminal, JSON otherwise.

use crate::error::Error;
use crate::term;
use clap::ValueEnum;
use driftless_adapters::log::{self, LogError};
use std::io::{self, IsTerminal as _};
use tracing_subscriber::EnvFilter;

/// The environment variable with the levels, such as `info` or `driftless=debug`.
const LEVELS: &str = "DRIFTLESS_LOG";
/// The default levels. The logs of kube_client and kube_runtime are off: they log each failure
/// without the server's name, and the caller logs the same failure with the object. Those of
/// async_nats are off, because the connection's events are logged by driftless_nats.
const DEFAULT: &str = "info,kube_client=off,kube_runtime=off,async_nats=off";

/// The format of the log.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text on a terminal, JSON otherwise
    Auto,
    /// A line of text
    Text,
    /// A JSON object per line
    Json,
}

/// Starts logging if the environment variable is set, for a command that draws on the terminal.
/// Returns whether it did.
pub fn start_if_asked() -> Result<bool, Error> {
    let is_set = std::env::var_os(LEVELS).is_some_and(|levels| !levels.is_empty());
    if is_set {
        start("demo", Format::Auto)?;
    }
    Ok(is_set)
}

/// Adds the levels of the variable after the defaults, over which they take precedence.
fn filter(levels: &str) -> Result<EnvFilter, Error> {
    EnvFilter::try_new(format!("{DEFAULT},{levels}")).map_err(|error| {
        Error::usage(format!("{LEVELS}: {error}")).next("give a level such as info or debug")
    })
}

/// Starts logging with the levels of the environment variable, and the export of traces if the
/// variables of OpenTelemetry have an endpoint. `service` names the process.
pub fn start(service: &str, format: Format) -> Result<(), Error> {
    let levels = std::env::var(LEVELS)
        .ok()
        .filter(|levels| !levels.is_empty());
    let filter = filter(levels.as_deref().unwrap_or_default())?;
    let format = match format {
        Format::Json => log::Format::Json,
        Format::Auto if !io::stderr().is_terminal() => log::Format::Json,
        Format::Auto | Format::Text => log::Format::Text {
            colours: term::colours(),
        },
    };
    log::start(service, filter, format).map_err(|error| match error {
        LogError::Traces(error) => Error::usage(error.to_string()),
        LogError::Started(error) => Error::caused_by(error).context("start the log"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_come_after_the_defaults() {
        for (levels, quiet) in [
            ("", true),
            ("debug", true),
            ("driftless=debug", true),
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
