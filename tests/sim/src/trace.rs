//! The trace of a run: a hash of all lines, and the last lines.

use std::collections::VecDeque;
use std::sync::Mutex;
use tokio::time::Instant;

/// The number of lines that are kept unless all are.
const KEPT_LINES: usize = 400;

/// The lines of one run.
pub struct Trace {
    start: Instant,
    state: Mutex<State>,
    all: bool,
}

struct State {
    lines: VecDeque<String>,
    hash: u64,
    count: u64,
    operations: Vec<String>,
    violations: Vec<String>,
}

impl Trace {
    /// Returns an empty trace; `all` keeps every line.
    pub fn new(all: bool) -> Self {
        Self {
            start: Instant::now(),
            state: Mutex::new(State {
                lines: VecDeque::new(),
                hash: 0xcbf2_9ce4_8422_2325,
                count: 0,
                operations: Vec::new(),
                violations: Vec::new(),
            }),
            all,
        }
    }

    fn stamp(&self) -> String {
        format!("{:>9.3}", self.start.elapsed().as_secs_f64())
    }

    /// Notes a line.
    pub fn line(&self, text: &str) {
        let line = format!("{} {text}", self.stamp());
        let mut state = self.state.lock().expect("the trace");
        for byte in line.bytes() {
            state.hash = (state.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        state.count += 1;
        state.lines.push_back(line);
        if !self.all && state.lines.len() > KEPT_LINES {
            state.lines.pop_front();
        }
    }

    /// Notes an operation of a user or of the world.
    pub fn operation(&self, text: &str) {
        self.line(&format!("== {text}"));
        let line = format!("{} {text}", self.stamp());
        self.state.lock().expect("the trace").operations.push(line);
    }

    /// Notes that an invariant does not hold.
    pub fn violation(&self, invariant: char, text: &str) {
        self.line(&format!("!! {invariant}: {text}"));
        let line = format!("{invariant} at {}: {text}", self.stamp().trim());
        self.state.lock().expect("the trace").violations.push(line);
    }

    /// Returns whether an invariant was violated.
    pub fn is_violated(&self) -> bool {
        !self.state.lock().expect("the trace").violations.is_empty()
    }

    /// Returns the hash, the number of lines, the last lines, the operations and the violations.
    pub fn end(&self) -> TraceResult {
        let state = self.state.lock().expect("the trace");
        TraceResult {
            hash: state.hash,
            count: state.count,
            lines: state.lines.iter().cloned().collect(),
            operations: state.operations.clone(),
            violations: state.violations.clone(),
        }
    }
}

/// The hash of a run, and the violations that were found in it.
#[derive(Clone, Debug, Default)]
pub struct TraceResult {
    /// The hash of all lines, which is equal for equal runs.
    pub hash: u64,
    /// The number of all lines.
    pub count: u64,
    /// The last lines, or all.
    pub lines: Vec<String>,
    /// The operations of users.
    pub operations: Vec<String>,
    /// The violations of invariants.
    pub violations: Vec<String>,
}
