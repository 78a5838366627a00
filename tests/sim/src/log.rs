//! The log of the functions: its lines are lines of the trace, and must not contain a secret.

use crate::trace::Trace;
use crate::world::CANARY;
use std::cell::RefCell;
use std::fmt::{self, Write as _};
use std::sync::{Arc, Once, Weak};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{Interest, Subscriber};
use tracing::{Event, Level, Metadata};

thread_local! {
    static TRACE: RefCell<Weak<Trace>> = const { RefCell::new(Weak::new()) };
}

/// Sends the log of this thread to a trace from now on.
pub fn send_to(trace: &Arc<Trace>) {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // Another subscriber of the process keeps the log from the traces; runs differ in no other
        // way.
        let _ = tracing::subscriber::set_global_default(Log);
    });
    TRACE.with_borrow_mut(|current| *current = Arc::downgrade(trace));
}

struct Log;

impl Log {
    fn is_logged(metadata: &Metadata<'_>) -> bool {
        let target = metadata.target();
        let functions = ["driftless_core", "reconcile", "drift", "webhook"];
        let is_ours = |function: &&str| target.split("::").next() == Some(*function);
        *metadata.level() <= Level::INFO && functions.iter().any(is_ours)
    }
}

impl Subscriber for Log {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        match Self::is_logged(metadata) {
            true => Interest::always(),
            false => Interest::never(),
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        Self::is_logged(metadata)
    }

    fn event(&self, event: &Event<'_>) {
        let Some(trace) = TRACE.with_borrow(Weak::upgrade) else {
            return;
        };
        let mut line = Line(format!("log {}:", event.metadata().target()));
        event.record(&mut line);
        trace.line(&line.0);
        if line.0.contains(CANARY) {
            trace.violation('S', "a log line contains the canary");
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// A line of the log: its message and fields.
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let written = match field.name() {
            "message" => write!(self.0, " {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
        written.expect("a string takes every write");
    }
}
