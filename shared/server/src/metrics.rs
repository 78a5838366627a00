//! Counters of one process, in Prometheus's text format.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The counters of the process.
#[derive(Default)]
pub(crate) struct Metrics {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The number of steps by kind and result.
    steps: BTreeMap<(&'static str, &'static str), u64>,
    /// The number of steps and their total time in seconds, by kind.
    seconds: BTreeMap<&'static str, (u64, f64)>,
    /// The number of requests by path and status.
    requests: BTreeMap<(&'static str, u16), u64>,
    /// The number of sweeps by result.
    sweeps: BTreeMap<&'static str, u64>,
    /// The number of connections that came when all places were taken, by result.
    crowded: BTreeMap<&'static str, u64>,
}

impl Metrics {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a step that has ended.
    pub(crate) fn step(&self, kind: &'static str, result: &'static str, took: Duration) {
        let mut state = self.lock();
        *state.steps.entry((kind, result)).or_default() += 1;
        let (count, seconds) = state.seconds.entry(kind).or_default();
        *count += 1;
        *seconds += took.as_secs_f64();
    }

    /// Counts an answered request.
    pub(crate) fn request(&self, path: &'static str, status: u16) {
        *self.lock().requests.entry((path, status)).or_default() += 1;
    }

    /// Counts a connection that came when all places were taken.
    pub(crate) fn count_refused_connection(&self, result: &'static str) {
        *self.lock().crowded.entry(result).or_default() += 1;
    }

    /// Counts a sweep that has ended.
    pub(crate) fn sweep(&self, result: &'static str) {
        *self.lock().sweeps.entry(result).or_default() += 1;
    }

    /// Renders all metrics for `GET /metrics`.
    pub(crate) fn render(&self, queue: usize) -> String {
        let state = self.lock();
        let mut text = String::new();
        head(
            &mut text,
            "driftless_steps_total",
            "counter",
            "Steps, by kind of object and result.",
        );
        for ((kind, result), count) in &state.steps {
            let _ = writeln!(
                text,
                "driftless_steps_total{{kind=\"{kind}\",result=\"{result}\"}} {count}"
            );
        }
        head(
            &mut text,
            "driftless_step_seconds",
            "summary",
            "Duration of steps, by kind of object.",
        );
        for (kind, (count, seconds)) in &state.seconds {
            let _ = writeln!(
                text,
                "driftless_step_seconds_sum{{kind=\"{kind}\"}} {seconds}"
            );
            let _ = writeln!(
                text,
                "driftless_step_seconds_count{{kind=\"{kind}\"}} {count}"
            );
        }
        head(
            &mut text,
            "driftless_sweeps_total",
            "counter",
            "Sweeps of the timer, by result.",
        );
        for (result, count) in &state.sweeps {
            let _ = writeln!(
                text,
                "driftless_sweeps_total{{result=\"{result}\"}} {count}"
            );
        }
        head(
            &mut text,
            "driftless_http_requests_total",
            "counter",
            "Requests, by path and status.",
        );
        for ((path, status), count) in &state.requests {
            let _ = writeln!(
                text,
                "driftless_http_requests_total{{path=\"{path}\",status=\"{status}\"}} {count}"
            );
        }
        head(
            &mut text,
            "driftless_http_crowded_connections_total",
            "counter",
            "Connections that came when all places were taken, by result: replaced another one, or refused.",
        );
        for (result, count) in &state.crowded {
            let _ = writeln!(
                text,
                "driftless_http_crowded_connections_total{{result=\"{result}\"}} {count}"
            );
        }
        head(
            &mut text,
            "driftless_queue_length",
            "gauge",
            "Requests that wait in the queue.",
        );
        let _ = writeln!(text, "driftless_queue_length {queue}");
        text
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renders_every_family() {
        let metrics = Metrics::default();
        metrics.step("Kustomization", "done", Duration::from_millis(500));
        metrics.step("Kustomization", "failed", Duration::from_millis(250));
        metrics.request("/webhook", 202);
        metrics.sweep("done");
        metrics.count_refused_connection("replaced");
        let text = metrics.render(3);
        for line in [
            "driftless_steps_total{kind=\"Kustomization\",result=\"failed\"} 1",
            "driftless_step_seconds_sum{kind=\"Kustomization\"} 0.75",
            "driftless_step_seconds_count{kind=\"Kustomization\"} 2",
            "driftless_http_requests_total{path=\"/webhook\",status=\"202\"} 1",
            "driftless_sweeps_total{result=\"done\"} 1",
            "driftless_http_crowded_connections_total{result=\"replaced\"} 1",
            "driftless_queue_length 3",
        ] {
            assert!(
                text.lines().any(|have| have == line),
                "{line} is not in:\n{text}"
            );
        }
    }
}
