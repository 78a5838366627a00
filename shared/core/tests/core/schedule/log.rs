//! The log of a step.

use super::world::World;
use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// The fields of every event of one thread, as `name=value`. The subscriber is global, because
/// tracing caches what is enabled.
#[derive(Clone)]
struct Lines(Arc<Mutex<String>>, ThreadId);

struct Line<'a>(&'a mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{}={value:?} ", field.name()).unwrap();
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "driftless_core::step"
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        if std::thread::current().id() != self.1 {
            return;
        }
        let mut text = self.0.lock().unwrap();
        event.record(&mut Line(&mut text));
        text.push('\n');
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn a_delay_is_logged_as_seconds_and_left_out_if_absent() {
    let lines = Lines(Arc::default(), std::thread::current().id());
    tracing::subscriber::set_global_default(lines.clone()).unwrap();
    let world = World::start();
    world.run_until(Duration::from_secs(15), |_| {});
    world.heal();
    world.run_until(Duration::from_secs(40), |_| {});
    let text = lines.0.lock().unwrap().clone();
    let steps: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("object="))
        .collect();
    assert_eq!(steps.len(), 3, "{text}");
    assert!(
        steps[0].contains("requeue_after_seconds=10.0 "),
        "{}",
        steps[0]
    );
    assert!(
        steps[1].contains("requeue_after_seconds=20.0 "),
        "{}",
        steps[1]
    );
    assert!(!steps[2].contains("requeue_after"), "{}", steps[2]);
    assert!(!text.contains("Some(") && !text.contains("None"), "{text}");
}
