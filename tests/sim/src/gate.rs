//! Every call of the core to the outside passes here: it takes its time, and it may go wrong.

use crate::lambda::{self, Invocation};
use crate::rng::Rng;
use crate::trace::Trace;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long a client of AWS or GitHub waits for an answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(20);

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A Git host.
    Git,
    /// A read of the bucket.
    BlobRead,
    /// A write of the bucket.
    BlobWrite,
    /// The queue takes messages.
    Send,
    /// The secret manager.
    Secret,
    /// A read of an API server.
    ApiRead,
    /// A write to an API server.
    ApiWrite,
}

/// How a call goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// An error, and no effect.
    Before,
    /// The effect, and an error.
    After,
    /// No answer in time; whether there was an effect is open.
    Hang,
    /// The function is cut off here, without the effect.
    Kill,
    /// The function is cut off here, with the effect.
    KillAfter,
    /// The effect; then the whole function stands still for so long, and goes on with the answer.
    Freeze(Duration),
}

/// What the caller of a port is told.
#[derive(Clone, Copy, Debug)]
pub enum Trouble {
    /// Nothing happened; the number says which of the port's errors it is.
    Before(u64),
    /// It happened, and the answer is lost.
    After(u64),
    /// No answer in time.
    TimedOut,
}

/// Which calls go wrong.
#[derive(Clone, Debug)]
pub enum Plan {
    /// None.
    Clean,
    /// By chance: so many of 10,000.
    Random(Weather),
    /// One, by its number.
    At(u64, Fault),
}

/// How often what goes wrong, of 10,000 calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    /// Errors without an effect.
    pub before: u32,
    /// Errors behind an effect.
    pub after: u32,
    /// No answers.
    pub hang: u32,
    /// Kills.
    pub kill: u32,
    /// Freezes.
    pub freeze: u32,
}

/// The way of all calls.
pub struct Gate {
    state: Mutex<State>,
    /// Where it is told.
    pub trace: Arc<Trace>,
    /// What a planted bug forgets.
    pub forgotten: Mutex<BTreeSet<String>>,
}

struct State {
    rng: Rng,
    plan: Plan,
    number: u64,
    counting: bool,
    /// How often each fault was met.
    faults: BTreeMap<&'static str, u64>,
    /// How many calls of each kind there were.
    calls: BTreeMap<Kind, u64>,
    /// The longest latency of a call in milliseconds.
    slow: u64,
}

impl Gate {
    /// A gate without faults.
    pub fn new(rng: Rng, slow: u64, trace: Arc<Trace>) -> Self {
        let state = State {
            rng,
            plan: Plan::Clean,
            number: 0,
            counting: false,
            faults: BTreeMap::new(),
            calls: BTreeMap::new(),
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

    /// From now on this goes wrong; calls are numbered from here.
    pub fn plan(&self, plan: Plan) {
        let mut state = self.state();
        state.plan = plan;
        state.number = 0;
        state.counting = true;
    }

    /// How many calls passed since the plan was made.
    pub fn number(&self) -> u64 {
        self.state().number
    }

    /// How many calls there were, and how many of each fault.
    pub fn counts(&self) -> (u64, BTreeMap<&'static str, u64>) {
        let state = self.state();
        (state.calls.values().sum(), state.faults.clone())
    }

    /// How many calls of each kind there were.
    pub fn kinds(&self) -> BTreeMap<Kind, u64> {
        self.state().calls.clone()
    }

    /// Makes a call: `effect` is what happens outside, `refuse` makes the answer when it goes wrong.
    pub async fn call<T>(
        &self,
        kind: Kind,
        name: &str,
        timeout: Option<Duration>,
        effect: impl FnOnce() -> T,
        refuse: impl FnOnce(Trouble) -> T,
    ) -> T {
        let (fault, dice, there, back) = self.decide(kind);
        let invocation = lambda::current();
        self.note(invocation.as_deref(), kind, name, fault);
        let stood = |one: &Arc<Invocation>| one.stood();
        let before = invocation.as_ref().map(stood);
        tokio::time::sleep(there).await;
        if invocation.as_ref().map(stood) != before {
            // The function stood still while this was on its way: the connection is long gone.
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

    fn decide(&self, kind: Kind) -> (Option<Fault>, u64, Duration, Duration) {
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
                Fault::After if matches!(kind, Kind::ApiRead | Kind::BlobRead) => {
                    Some(Fault::Before)
                }
                fault => Some(fault),
            };
        }
        at -= chance;
    }
    None
}
