//! Where log lines go.

use tracing_subscriber::EnvFilter;

/// What is logged when `RUST_LOG` says nothing: the clients' own spans and failures are left out, because whoever calls
/// them decides what a failure means and logs it once.
const DEFAULT: &str = "info,kube_client=off,octocrab=off,tower_http=off,hyper=off,aws_config=warn,aws_smithy_runtime=off";

fn filter() -> EnvFilter {
    EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT))
}

/// JSON lines without times, for a function: the runtime adds the time itself. A second call changes nothing.
pub fn init_lambda() {
    let lines = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .without_time()
        .with_env_filter(filter());
    let _already_set = lines.try_init();
}

/// Plain lines on the standard error stream, for a terminal. A second call changes nothing.
pub fn init_terminal() {
    let lines = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_env_filter(filter());
    let _already_set = lines.try_init();
}
