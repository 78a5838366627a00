//! The gate that every call of the core to the outside passes: it adds latency and faults.

use crate::lambda::{self, Invocation};
use crate::rng::Rng;
use crate::trace::Trace;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The time that a client of AWS or GitHub waits for an answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(20);

/// The kind of a call, by what is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A request to a Git host.
    Git,
    /// A read of the bucket.
    BlobRead,
    /// A LIST of the bucket.
    BlobList,
    /// A write of the bucket.
    BlobWrite,
    /// Messages are sent to the queue.
    Send,
    /// A read of the secret manager.
    Secret,
    /// A read of an API server.
    ApiRead,
    /// A write to an API server.
    ApiWrite,
}

/// The way in which a call fails.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// An error without an effect.
    Before,
    /// An error after the effect.
    After,
    /// No answer in time; the effect may have happened.
    Hang,
    /// The function is cut off here, without the effect.
    Kill,
    /// The function is cut off here, with the effect.
    KillAfter,
    /// The effect; then the whole function is frozen for this time, and continues with the answer.
    Freeze(Duration),
}

/// The failure that the caller of a port sees.
#[derive(Clone, Copy, Debug)]
pub enum Trouble {
    /// No effect; the number selects one of the port's errors.
    Before(u64),
    /// The effect happened, and the answer is lost.
    After(u64),
    /// No answer in time.
    TimedOut,
}

/// The selection of the calls that fail.
#[derive(Clone, Debug)]
pub enum Plan {
    /// No call fails.
    Clean,
    /// Calls fail at random.
    Random(Weather),
    /// One call fails, by its number.
    At(u64, Fault),
    /// Each call fails whose name contains the string.
    Named(String, Fault),
}

/// The number of faults of each kind, of 10,000 calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    /// Errors without an effect.
    pub before: u32,
    /// Errors after an effect.
    pub after: u32,
    /// Calls without an answer.
    pub hang: u32,
    /// Functions that are cut off.
    pub kill: u32,
    /// Functions that are frozen.
    pub freeze: u32,
}

/// The gate that all calls pass.
pub struct Gate {
    state: Mutex<State>,
    /// The trace that notes each call.
    pub trace: Arc<Trace>,
    /// The inventory entries that [`crate::bugs::Bug::InventoryAdvances`] drops.
    pub forgotten: Mutex<BTreeSet<String>>,
}

struct State {
    rng: Rng,
    plan: Plan,
    number: u64,
    counting: bool,
    /// The number of faults by name.
    faults: BTreeMap<&'static str, u64>,
    /// The number of calls by kind.
    calls: BTreeMap<Kind, u64>,
    /// The bytes that functions received, by the kind of the call.
    received: BTreeMap<Kind, u64>,
    /// The longest latency of a call in milliseconds.
    slow: u64,
}

impl Gate {
    /// Returns a gate without faults.
    pub fn new(rng: Rng, slow: u64, trace: Arc<Trace>) -> Self {
        let state = State {
            rng,
            plan: Plan::Clean,
            number: 0,
            counting: false,
            faults: BTreeMap::new(),
            calls: BTreeMap::new(),
            received: BTreeMap::new(),
            slow,
        };
        Self {
            state: Mutex::new(state),
            trace,
            forgotten: Mutex::default(),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("the gate")
    }

    /// Sets the plan; calls are numbered from here.
    pub fn plan(&self, plan: Plan) {
        let mut state = self.state();
        state.plan = plan;
        state.number = 0;
        state.counting = true;
    }

    /// Returns the number of calls since the plan was set.
    pub fn number(&self) -> u64 {
        self.state().number
    }

    /// Returns the number of calls, and the number of faults by name.
    pub fn counts(&self) -> (u64, BTreeMap<&'static str, u64>) {
        let state = self.state();
        (state.calls.values().sum(), state.faults.clone())
    }

    /// Returns the number of calls by kind.
    pub fn kinds(&self) -> BTreeMap<Kind, u64> {
        self.state().calls.clone()
    }

    /// Returns the bytes that functions received, by the kind of the call.
    pub fn received(&self) -> BTreeMap<Kind, u64> {
        self.state().received.clone()
    }

    /// Counts the bytes of a response: those in the memory of the invocation, and those that were
    /// sent.
    pub fn receive(&self, kind: Kind, in_memory: usize, sent: usize) {
        *self.state().received.entry(kind).or_default() += sent as u64;
        if lambda::receive(in_memory as u64)
            && let Some(invocation) = lambda::current()
        {
            self.trace.line(&format!("{invocation} is out of memory"));
        }
    }

    /// Makes a call. `effect` does the work of the service; `refuse` makes the answer of a call
    /// that fails.
    pub async fn call<T>(
        &self,
        kind: Kind,
        name: &str,
        timeout: Option<Duration>,
        effect: impl FnOnce() -> T,
        refuse: impl FnOnce(Trouble) -> T,
    ) -> T {
        let (fault, dice, there, back) = self.decide(kind, name);
        let invocation = lambda::current();
        self.note(invocation.as_deref(), kind, name, fault);
        let frozen_time = |one: &Arc<Invocation>| one.frozen_time();
        let before = invocation.as_ref().map(frozen_time);
        tokio::time::sleep(there).await;
        if invocation.as_ref().map(frozen_time) != before {
            // The function was frozen while the request was on its way, so its connection has timed
            // out.
            return refuse(Trouble::TimedOut);
        }
        let answer = match fault {
            Some(Fault::Before) => refuse(Trouble::Before(dice)),
            Some(Fault::Kill) => lambda::kill(invocation.as_deref()).await,
            Some(Fault::KillAfter) => {
                drop(effect());
                lambda::kill(invocation.as_deref()).await
            }
            Some(Fault::After) => {
                drop(effect());
                refuse(Trouble::After(dice))
            }
            Some(Fault::Hang) => {
                if dice.is_multiple_of(2) {
                    drop(effect());
                }
                tokio::time::sleep(timeout.unwrap_or(CLIENT_TIMEOUT)).await;
                refuse(Trouble::TimedOut)
            }
            Some(Fault::Freeze(time)) => {
                let answer = effect();
                lambda::freeze(invocation.as_deref(), time).await;
                answer
            }
            None => effect(),
        };
        tokio::time::sleep(back).await;
        answer
    }

    fn decide(&self, kind: Kind, name: &str) -> (Option<Fault>, u64, Duration, Duration) {
        let mut state = self.state();
        *state.calls.entry(kind).or_default() += 1;
        let number = state.number;
        state.number += u64::from(state.counting);
        let slow = state.slow;
        let there = Duration::from_millis(state.rng.between(1, slow));
        let back = Duration::from_millis(state.rng.between(0, slow));
        let dice = state.rng.number();
        let fault = match state.plan.clone() {
            Plan::Clean => None,
            Plan::At(at, fault) => (at == number).then_some(fault),
            Plan::Named(text, fault) => name.contains(&text).then_some(fault),
            Plan::Random(weather) => random(&mut state.rng, weather, kind),
        };
        if let Some(fault) = fault {
            let name = match fault {
                Fault::Before => "before",
                Fault::After => "after",
                Fault::Hang => "hang",
                Fault::Kill => "kill",
                Fault::KillAfter => "kill after",
                Fault::Freeze(_) => "freeze",
            };
            *state.faults.entry(name).or_default() += 1;
        }
        (fault, dice, there, back)
    }

    fn note(&self, invocation: Option<&Invocation>, kind: Kind, name: &str, fault: Option<Fault>) {
        let who = invocation.map_or_else(|| "-".to_owned(), Invocation::to_string);
        let fault = fault.map_or_else(String::new, |fault| format!(" <- {fault:?}"));
        let number = self.number();
        self.trace
            .line(&format!("{who} #{number} {kind:?} {name}{fault}"));
    }
}

fn random(rng: &mut Rng, weather: Weather, kind: Kind) -> Option<Fault> {
    let faults = [
        (weather.before, Fault::Before),
        (weather.after, Fault::After),
        (weather.hang, Fault::Hang),
        (weather.kill / 2, Fault::Kill),
        (weather.kill.div_ceil(2), Fault::KillAfter),
        (weather.freeze, Fault::Freeze(Duration::ZERO)),
    ];
    let mut at = u32::try_from(rng.number() % 10_000).unwrap_or_default();
    for (chance, fault) in faults {
        if at < chance {
            return match fault {
                Fault::Freeze(_) => Some(Fault::Freeze(Duration::from_secs(rng.between(20, 400)))),
                // A read has no effect that could be left behind.
                Fault::After if matches!(kind, Kind::ApiRead | Kind::BlobRead | Kind::BlobList) => {
                    Some(Fault::Before)
                }
                fault => Some(fault),
            };
        }
        at -= chance;
    }
    None
}
