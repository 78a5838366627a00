//! The fuel of a whole step, of which each part of the work takes its own.

use crate::limits::{FuelKind, FuelLimits, OutOfFuel};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The fuel of work with several parts, which may run on several threads. A clone is the same tank.
///
/// Each part takes a [`Fuel`](crate::Fuel) with its ceilings ([`Tank::part`]) while it runs. Then
/// its steps and bytes stay spent, and its values go back to the tank: they are those in memory at
/// one time.
///
/// ```
/// use driftless_fuel::{FuelLimits, Tank};
///
/// let tank = Tank::new(FuelLimits { steps: 100, ..FuelLimits::NONE });
/// let ceilings = FuelLimits { steps: 70, ..FuelLimits::NONE };
/// assert!(tank.part(ceilings).steps(60).is_ok());
/// // The first part has left 40 of the 100 steps.
/// let refused = tank.part(ceilings).steps(50).unwrap_err();
/// assert_eq!(refused.to_string(), "more than 100 steps");
/// ```
#[derive(Debug, Clone)]
pub struct Tank(Arc<State>);

#[derive(Debug)]
struct State {
    limits: FuelLimits,
    /// The rest that no part has spent or taken; `usize::MAX` stays so.
    steps: AtomicUsize,
    bytes: AtomicUsize,
    nodes: AtomicUsize,
}

impl Default for Tank {
    /// Returns a tank without limits.
    fn default() -> Self {
        Self::new(FuelLimits::NONE)
    }
}

impl Tank {
    /// Returns a full tank.
    pub fn new(limits: FuelLimits) -> Self {
        Self(Arc::new(State {
            limits,
            steps: AtomicUsize::new(limits.steps),
            bytes: AtomicUsize::new(limits.bytes),
            nodes: AtomicUsize::new(limits.nodes),
        }))
    }

    /// Charges steps of work outside of a part.
    ///
    /// # Errors
    /// The tank has fewer: then it is empty.
    pub fn steps(&self, steps: usize) -> Result<(), OutOfFuel> {
        if take(&self.0.steps, steps) < steps {
            return Err(self.empty(FuelKind::Steps));
        }
        Ok(())
    }

    /// Charges bytes that are read outside of a part.
    ///
    /// # Errors
    /// The tank has fewer: then it is empty.
    pub fn bytes(&self, bytes: usize) -> Result<(), OutOfFuel> {
        if take(&self.0.bytes, bytes) < bytes {
            return Err(self.empty(FuelKind::Bytes));
        }
        Ok(())
    }

    /// Takes the fuel of a part: up to its ceilings, as far as the tank has it.
    pub(crate) fn take(&self, ceilings: FuelLimits) -> FuelLimits {
        FuelLimits {
            steps: take(&self.0.steps, ceilings.steps),
            bytes: take(&self.0.bytes, ceilings.bytes),
            nodes: take(&self.0.nodes, ceilings.nodes),
            depth: ceilings.depth.min(self.0.limits.depth),
        }
    }

    /// Returns what is left: not spent, and not taken by a part that still runs.
    pub fn left(&self) -> FuelLimits {
        FuelLimits {
            steps: self.0.steps.load(Ordering::Relaxed),
            bytes: self.0.bytes.load(Ordering::Relaxed),
            nodes: self.0.nodes.load(Ordering::Relaxed),
            depth: self.0.limits.depth,
        }
    }

    /// Returns the error of a unit that has run out.
    pub(crate) fn empty(&self, which: FuelKind) -> OutOfFuel {
        let limit = self.0.limits.of(which);
        OutOfFuel {
            which,
            limit,
            of_tank: true,
        }
    }

    /// Puts back what a part has taken and not spent.
    pub(crate) fn put_back(&self, taken: FuelLimits, spent: FuelLimits) {
        put_back(&self.0.steps, taken.steps, spent.steps);
        put_back(&self.0.bytes, taken.bytes, spent.bytes);
        put_back(&self.0.nodes, taken.nodes, spent.nodes);
    }
}

/// Takes up to `most` and returns what was taken.
fn take(left: &AtomicUsize, most: usize) -> usize {
    if most == usize::MAX {
        return most;
    }
    let less = |left: usize| (left != usize::MAX).then(|| left.saturating_sub(most));
    match left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) {
        Ok(before) => before.min(most),
        Err(_) => most,
    }
}

fn put_back(left: &AtomicUsize, taken: usize, spent: usize) {
    if taken == usize::MAX {
        return;
    }
    let rest = taken.saturating_sub(spent);
    let all = |left: usize| (left != usize::MAX).then(|| left.saturating_add(rest));
    // A unit without a limit stays so.
    let _ = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, all);
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: FuelLimits = FuelLimits {
        steps: 100,
        bytes: 100,
        nodes: 100,
        depth: 10,
    };

    fn all(amount: usize) -> FuelLimits {
        FuelLimits {
            steps: amount,
            bytes: amount,
            nodes: amount,
            depth: amount,
        }
    }

    #[test]
    fn an_ended_part_keeps_its_steps_and_bytes_and_returns_its_values() {
        let tank = Tank::new(LIMITS);
        let part = tank.part(all(60));
        assert_eq!((tank.left().steps, tank.left().nodes), (40, 40));
        assert!(part.steps(50).is_ok() && part.bytes(20).is_ok() && part.nodes(60).is_ok());
        drop(part);
        let left = tank.left();
        assert_eq!((left.steps, left.bytes, left.nodes), (50, 80, 100));
    }

    #[test]
    fn a_part_ends_at_its_own_ceiling_or_at_that_of_the_tank() {
        let tank = Tank::new(LIMITS);
        let own = tank.part(all(60)).steps(61).unwrap_err();
        assert_eq!((own.which, own.limit), (FuelKind::Steps, 60));
        assert_eq!(tank.left().steps, 40);
        let part = tank.part(all(60));
        assert!(part.steps(40).is_ok());
        assert_eq!(part.steps(1).unwrap_err().limit, 100);
        assert_eq!(part.depth(11).unwrap_err().limit, 10);
        assert_eq!(tank.steps(1).unwrap_err().limit, 100);
    }

    #[test]
    fn a_unit_without_a_ceiling_is_not_charged_to_the_tank() {
        let tank = Tank::new(LIMITS);
        let part = tank.part(FuelLimits::NONE);
        assert!(part.steps(1_000).is_ok());
        drop(part);
        assert_eq!(tank.left().steps, 100);
        let none = Tank::default();
        let (one, two) = (none.part(all(60)), none.part(all(60)));
        assert!(one.steps(60).is_ok() && two.steps(60).is_ok());
        drop((one, two));
        assert_eq!(none.left(), FuelLimits::NONE);
    }

    #[test]
    fn parts_on_several_threads_never_spend_more_than_the_tank_has() {
        let tank = Tank::new(all(1_000));
        let spent = std::thread::scope(|scope| {
            let spend = || {
                let part = tank.part(all(300));
                (0..300).take_while(|_| part.steps(1).is_ok()).count()
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(spend)).collect();
            let counts = threads.into_iter().map(|thread| thread.join().unwrap());
            counts.sum::<usize>()
        });
        assert!((300..=1_000).contains(&spent), "{spent}");
        assert_eq!(tank.left().nodes, 1_000);
    }
}
