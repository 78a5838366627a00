//! The runtime of the servers of this crate: the test may have another one.

use std::sync::OnceLock;
use tokio::runtime::Runtime;

/// Returns the runtime, which is started once in a process.
pub(crate) fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("harness")
            .enable_all()
            .build()
            .expect("a runtime")
    })
}
