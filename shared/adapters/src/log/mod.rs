//! Sets up logging, and the export of traces.

mod lines;

pub use lines::{IDS, JsonLines};

use crate::trace::{self, Config, ConfigError};
use std::io;
use tracing::Subscriber;
use tracing_subscriber::filter::{FilterExt as _, LevelFilter, filter_fn};
use tracing_subscriber::fmt::format::JsonFields;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt};

/// The environment variable with the log levels.
const VARIABLE: &str = "DRIFTLESS_LOG";

/// The default levels. The clients' own spans and failures are left out, because their callers
/// decide what a failure means and log it once.
const DEFAULT: &str = "info,kube_client=off,octocrab=off,tower_http=off,hyper=off,aws_config=warn,aws_smithy_runtime=off";

/// Returns the filter with the directives of `given` after the defaults, which they override.
/// Invalid directives are ignored: a function with a misspelled log level still works.
fn filter(given: Option<String>) -> EnvFilter {
    let given = given.unwrap_or_default();
    let wanted = EnvFilter::try_new(format!("{DEFAULT},{given}"));
    wanted.unwrap_or_else(|_| EnvFilter::new(DEFAULT))
}

fn from_env() -> EnvFilter {
    filter(
        std::env::var(VARIABLE)
            .ok()
            .filter(|given| !given.trim().is_empty()),
    )
}

/// Logs JSON lines without times, for a function: Lambda adds the time itself. Exports traces if
/// the variables of OpenTelemetry have an endpoint; `function` names the service. A second call has
/// no effect.
pub fn init_lambda(function: &str) {
    let config = Config::from_env(function);
    let (config, refused) = match config {
        Ok(config) => (config, None),
        Err(error) => (None, Some(error)),
    };
    let lines = fmt::layer()
        .fmt_fields(JsonFields::new())
        .event_format(JsonLines::without_time())
        .with_filter(from_env());
    let subscriber = tracing_subscriber::registry().with(lines);
    let _already_set = subscriber.with(traces(config)).try_init();
    // A function with a misspelled variable still works.
    if let Some(error) = refused {
        tracing::error!("traces are not exported: {error}");
    }
}

/// The format of the log of a process with a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Lines of text.
    Text {
        /// True if the lines have colours.
        colours: bool,
    },
    /// A JSON object per line.
    Json,
}

/// The reason why a process cannot log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The variables of OpenTelemetry are not valid.
    #[error(transparent)]
    Traces(#[from] ConfigError),
    /// The process logs already.
    #[error(transparent)]
    Started(#[from] tracing_subscriber::util::TryInitError),
}

/// Logs to stderr with the levels of a filter. Exports traces if the variables of OpenTelemetry
/// have an endpoint; `service` names the process.
///
/// # Errors
/// The variables of OpenTelemetry are not valid, or the process logs already.
pub fn start(service: &str, levels: EnvFilter, format: Format) -> Result<(), LogError> {
    let traces = traces(Config::from_env(service)?);
    let lines = fmt::layer().with_writer(io::stderr);
    let lines: Box<dyn Layer<Registry> + Send + Sync> = match format {
        Format::Json => lines
            .fmt_fields(JsonFields::new())
            .event_format(JsonLines::with_time())
            .with_filter(levels)
            .boxed(),
        // A line of text has the ids that its event has, and not those of its spans.
        Format::Text { colours } => lines
            .with_ansi(colours)
            .with_target(false)
            .compact()
            .with_filter(levels.and(filter_fn(|metadata| metadata.is_event())))
            .boxed(),
    };
    Ok(tracing_subscriber::registry()
        .with(lines)
        .with(traces)
        .try_init()?)
}

/// Returns the layer that exports the spans of this project; `None` without a configuration.
fn traces<S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync>(
    config: Option<Config>,
) -> Option<impl Layer<S>> {
    let tracer = trace::start(config?);
    let layer = tracing_opentelemetry::layer()
        .with_tracer(tracer)
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_tracked_inactivity(false)
        .with_context_activation(false);
    // Not the events, whose messages may be long, and not the spans of clients, which may have
    // URLs. The filter has no state, so that each callsite is decided once.
    let own = |metadata: &tracing::Metadata<'_>| {
        metadata.is_span() && metadata.target().starts_with("driftless")
    };
    let own = filter_fn(own).with_max_level_hint(LevelFilter::TRACE);
    Some(layer.with_filter(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_filter_wins_and_a_broken_one_changes_nothing() {
        let shown = |given: Option<&str>| filter(given.map(str::to_owned)).to_string();
        assert!(shown(None).contains("kube_client=off"));
        let more = shown(Some("debug,driftless=trace"));
        assert!(more.contains("driftless=trace") && more.contains("octocrab=off"));
        assert!(more.split(',').any(|one| one == "debug"), "{more}");
        assert!(!more.split(',').any(|one| one == "info"), "{more}");
        assert_eq!(shown(Some("a=b=c")), shown(None));
    }
}
