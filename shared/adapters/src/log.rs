//! Sets up logging for functions and terminals.

use tracing_subscriber::EnvFilter;

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

/// Logs JSON lines without times, for a function: the runtime adds the time itself. A second call
/// has no effect.
pub fn init_lambda() {
    let lines = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .without_time()
        .with_env_filter(from_env());
    let _already_set = lines.try_init();
}

/// Logs plain lines to stderr, for a terminal. A second call has no effect.
pub fn init_terminal() {
    let lines = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_env_filter(from_env());
    let _already_set = lines.try_init();
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
