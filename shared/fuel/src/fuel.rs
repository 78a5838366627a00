//! The counters of work, text, values and nesting, and their limits.

use crate::limits::{FuelKind, FuelLimits, OutOfFuel};
use crate::tank::Tank;
use std::cell::Cell;

/// Bytes of a string that count as one more node.
pub const TEXT_PER_NODE: usize = 64;

/// The nodes that a map counts as, in addition to itself: in JSON its table has room for at least
/// eleven fields.
pub const MAP_NODES: usize = 4;

/// Returns the nodes that a scalar with a string of `length` bytes counts as.
pub fn text_nodes(length: usize) -> usize {
    1 + length / TEXT_PER_NODE
}

/// The counters of one piece of work, with its [`FuelLimits`]. Charged through a shared reference,
/// so that every part of the work can hold one; it belongs to one thread.
#[derive(Debug)]
pub struct Fuel {
    limits: FuelLimits,
    steps: Cell<usize>,
    bytes: Cell<usize>,
    nodes: Cell<usize>,
    /// The tank that the limits were taken from, and the ceilings up to which they were.
    tank: Option<(Tank, FuelLimits)>,
}

impl Tank {
    /// Returns the fuel of a part that begins now: up to its ceilings, as far as the tank has it. A
    /// unit for which the part has no ceiling is not charged to the tank.
    pub fn part(&self, ceilings: FuelLimits) -> Fuel {
        let mut fuel = Fuel::new(self.take(ceilings));
        fuel.tank = Some((self.clone(), ceilings));
        fuel
    }
}

impl Fuel {
    /// Returns a fuel of which nothing is spent.
    pub fn new(limits: FuelLimits) -> Self {
        Self {
            limits,
            steps: Cell::new(0),
            bytes: Cell::new(0),
            nodes: Cell::new(0),
            tank: None,
        }
    }

    /// Returns the limits that the evaluation began with, of which some may be used up.
    pub fn limits(&self) -> FuelLimits {
        self.limits
    }

    /// Charges steps of work.
    ///
    /// # Errors
    /// The limit is exceeded.
    #[inline]
    pub fn steps(&self, steps: usize) -> Result<(), OutOfFuel> {
        self.spend(&self.steps, steps, self.limits.steps, FuelKind::Steps)
    }

    /// Charges bytes that are about to be read or created.
    ///
    /// # Errors
    /// The limit is exceeded.
    #[inline]
    pub fn bytes(&self, bytes: usize) -> Result<(), OutOfFuel> {
        self.spend(&self.bytes, bytes, self.limits.bytes, FuelKind::Bytes)
    }

    /// Charges values that are about to be created.
    ///
    /// # Errors
    /// The limit is exceeded.
    #[inline]
    pub fn nodes(&self, nodes: usize) -> Result<(), OutOfFuel> {
        self.spend(&self.nodes, nodes, self.limits.nodes, FuelKind::Nodes)
    }

    /// Checks a level of nesting that is about to be created: `levels` includes it.
    ///
    /// # Errors
    /// The limit is exceeded.
    #[inline]
    pub fn depth(&self, levels: usize) -> Result<(), OutOfFuel> {
        self.check(levels, self.limits.depth, FuelKind::Depth)
    }

    /// Checks that `bytes` are left, without charging them: for a value whose exact size is known
    /// only later.
    ///
    /// # Errors
    /// The limit is exceeded.
    #[inline]
    pub fn room_for_bytes(&self, bytes: usize) -> Result<(), OutOfFuel> {
        let all = self.bytes.get().saturating_add(bytes);
        self.check(all, self.limits.bytes, FuelKind::Bytes)
    }

    /// Checks that `nodes` are left, without charging them.
    ///
    /// # Errors
    /// The limit is exceeded.
    #[inline]
    pub fn room_for_nodes(&self, nodes: usize) -> Result<(), OutOfFuel> {
        let all = self.nodes.get().saturating_add(nodes);
        self.check(all, self.limits.nodes, FuelKind::Nodes)
    }

    /// Returns the bytes of text that the evaluation may still produce.
    pub fn bytes_left(&self) -> usize {
        self.limits.bytes.saturating_sub(self.bytes.get())
    }

    /// Returns the values that are left.
    pub fn nodes_left(&self) -> usize {
        self.limits.nodes.saturating_sub(self.nodes.get())
    }

    /// Returns the values that were charged and not given back.
    pub fn nodes_spent(&self) -> usize {
        self.nodes.get()
    }

    /// Returns the steps that were charged.
    pub fn steps_spent(&self) -> usize {
        self.steps.get()
    }

    /// Gives back values that are no longer in memory, and the bytes of their strings. A unit that
    /// has run out gets nothing back.
    pub fn give_back(&self, nodes: usize, bytes: usize) {
        give_back(&self.nodes, nodes, self.limits.nodes);
        give_back(&self.bytes, bytes, self.limits.bytes);
    }

    #[inline]
    fn spend(
        &self,
        spent: &Cell<usize>,
        more: usize,
        limit: usize,
        which: FuelKind,
    ) -> Result<(), OutOfFuel> {
        let all = spent.get().saturating_add(more);
        spent.set(all);
        self.check(all, limit, which)
    }

    #[inline]
    fn check(&self, all: usize, limit: usize, which: FuelKind) -> Result<(), OutOfFuel> {
        if all > limit {
            return Err(self.out(which));
        }
        Ok(())
    }

    /// Returns the error of a unit that has run out here: at its own limit, or at that of the tank.
    #[cold]
    fn out(&self, which: FuelKind) -> OutOfFuel {
        let limit = self.limits.of(which);
        match &self.tank {
            Some((tank, ceilings)) if limit < ceilings.of(which) => tank.empty(which),
            _ => OutOfFuel {
                which,
                limit,
                of_tank: false,
            },
        }
    }
}

impl Drop for Fuel {
    fn drop(&mut self) {
        if let Some((tank, _)) = &self.tank {
            let spent = FuelLimits {
                steps: self.steps.get(),
                bytes: self.bytes.get(),
                nodes: 0,
                depth: 0,
            };
            tank.put_back(self.limits, spent);
        }
    }
}

fn give_back(spent: &Cell<usize>, less: usize, limit: usize) {
    if spent.get() <= limit {
        spent.set(spent.get().saturating_sub(less));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: FuelLimits = FuelLimits {
        steps: 10,
        bytes: 20,
        nodes: 30,
        depth: 2,
    };

    fn out<T>(which: FuelKind, limit: usize) -> Result<T, OutOfFuel> {
        Err(OutOfFuel {
            which,
            limit,
            of_tank: false,
        })
    }

    #[test]
    fn each_ends_at_its_limit_and_stays_there() {
        let fuel = Fuel::new(LIMITS);
        assert_eq!(fuel.steps(10), Ok(()));
        assert_eq!(fuel.steps(0), Ok(()));
        assert_eq!(fuel.steps(1), out(FuelKind::Steps, 10));
        assert_eq!(fuel.steps(0), out(FuelKind::Steps, 10));
        assert_eq!(fuel.bytes(usize::MAX), out(FuelKind::Bytes, 20));
        assert_eq!(fuel.bytes(usize::MAX), out(FuelKind::Bytes, 20));
        assert_eq!(fuel.nodes(31), out(FuelKind::Nodes, 30));
        assert_eq!(fuel.depth(2), Ok(()));
        assert_eq!(fuel.depth(3), out(FuelKind::Depth, 2));
        fuel.give_back(31, 0);
        assert_eq!(fuel.nodes_left(), 0);
    }

    #[test]
    fn returned_fuel_can_be_spent_again() {
        let fuel = Fuel::new(LIMITS);
        assert_eq!(fuel.nodes(30), Ok(()));
        assert_eq!(fuel.bytes(15), Ok(()));
        fuel.give_back(20, 10);
        assert_eq!((fuel.nodes_left(), fuel.bytes_left()), (20, 15));
        assert_eq!(fuel.room_for_nodes(20), Ok(()));
        assert_eq!(fuel.room_for_nodes(21), out(FuelKind::Nodes, 30));
        assert_eq!(fuel.room_for_bytes(16), out(FuelKind::Bytes, 20));
        assert_eq!(fuel.nodes_spent(), 10);
    }

    #[test]
    fn the_error_names_the_unit_that_ran_out() {
        let error = Fuel::new(LIMITS).nodes(31).unwrap_err();
        assert_eq!(error.to_string(), "more than 30 values");
    }
}
