//! The cost limits for hostile input: one counter of time and memory for every engine.
//!
//! The caller's options set the limits ([`FuelLimits`]); the engine creates a [`Fuel`] from them
//! and charges it before it spends time or allocates something. [`OutOfFuel`] names which of the
//! four ran out; each engine converts it to its own error, with the place. Steps that have run out
//! stay so: after one ignored error, the next charge fails as well.
//!
//! | | one unit |
//! | --- | --- |
//! | steps | about 50 ns of work: a comparison, a visited value, 16 to 64 bytes of input |
//! | bytes | a byte of text or output |
//! | nodes | a value in memory: a scalar, a list; a map is five; 64 bytes of a string are one more where strings are kept |
//! | depth | a level of nesting: deeper values are never created, so that values can be walked and dropped by recursion |
//!
//! The limits of the engines, which are the defaults of these types:
//!
//! | input or result | steps | bytes | nodes | depth | other limits |
//! | --- | --- | --- | --- | --- | --- |
//! | one YAML file ([`yaml::Limits`](crate::yaml::Limits)), aliases expanded and tags in full | the caller's | 16 MiB | 1,000,000 | 1,000 | 50,000 documents |
//! | one kustomize build (`driftless_kustomize::Limits`) | 40,000,000 | 64 MiB of files | 1,500,000 | 1,000 in an object | 64 levels of bases, 5,000 kustomizations, 50,000 objects, 64 MiB of output |
//! | a kustomization, or YAML inside a value | the build's | 4 MiB inside a value | 250,000 | 1,000 | |
//! | the selectors of one list (`driftless_kustomize::SelectorBudget`) | 40,000,000 | | | | 64 KiB and 1,000 Unicode classes for each expression |
//! | the substitution in all objects of a build | 40,000,000 | 16 MiB for each string, 96 MiB in total | 4,000,000 | 64 expansions | 20,000,000 steps for each string |
//! | the templates of a chart (`driftless_gotmpl::Limits`) | 20,000,000 | 64 MiB | 250,000 variables at one time | 1,000 templates | 600,000 tokens, 500 nested actions or parentheses |
//! | the files of a chart (`driftless_helm::LoadLimits`) | 40,000,000 | 100 MiB for each archive, 120 MiB in total, 5 MiB for each file (Helm 3), 8 MiB of values | 400,000 in all YAML of the chart and its subcharts, 200,000 in one values file | 32 subcharts, 64 directories | 20,000 files |
//! | the documents that a chart renders | 25,000,000 | | 5,000,000, with a post-renderer 1,000,000 | 1,000 | |
//! | one SOPS file | 20,000,000 | 16 MiB | 500,000 | 1,000 | 512 keys, a rule of 4 KiB |

use serde_json::Value;
use std::cell::Cell;
use std::fmt;

/// The work, text and nodes that one evaluation may use, so that hostile input ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FuelLimits {
    /// Steps of work.
    pub steps: usize,
    /// Bytes of text.
    pub bytes: usize,
    /// Values in memory.
    pub nodes: usize,
    /// Levels of nesting.
    pub depth: usize,
}

impl FuelLimits {
    /// No limits, as the base of some: `FuelLimits { bytes: 10, ..FuelLimits::NONE }`.
    pub const NONE: Self = Self {
        steps: usize::MAX,
        bytes: usize::MAX,
        nodes: usize::MAX,
        depth: usize::MAX,
    };
}

/// The units that a [`Fuel`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FuelKind {
    /// Steps of work.
    Steps,
    /// Bytes of text.
    Bytes,
    /// Values in memory.
    Nodes,
    /// Levels of nesting.
    Depth,
}

impl fmt::Display for FuelKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FuelKind::Steps => "steps",
            FuelKind::Bytes => "bytes",
            FuelKind::Nodes => "values",
            FuelKind::Depth => "levels of nesting",
        })
    }
}

/// The error of a limit that is exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("more than {limit} {which}")]
pub struct OutOfFuel {
    /// The unit that ran out.
    pub which: FuelKind,
    /// The limit of that unit.
    pub limit: usize,
}

/// Bytes of a string that count as one more node.
const TEXT_PER_NODE: usize = 64;

/// The nodes that a map counts as, in addition to itself: in JSON its table has room for at least
/// eleven fields.
pub const MAP_NODES: usize = 4;

/// Returns the nodes that a scalar with a string of `length` bytes counts as.
pub fn text_nodes(length: usize) -> usize {
    1 + length / TEXT_PER_NODE
}

/// Returns the nodes that a JSON value counts as, with its contents.
pub fn value_nodes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        Value::String(text) => text_nodes(text.len()),
        Value::Array(items) => 1 + items.iter().map(value_nodes).sum::<usize>(),
        Value::Object(map) => {
            let field =
                |(key, value): (&String, &Value)| key.len() / TEXT_PER_NODE + value_nodes(value);
            1 + MAP_NODES + map.iter().map(field).sum::<usize>()
        }
    }
}

/// The counters of one piece of work, with its [`FuelLimits`]. Charged through a shared reference,
/// so that every part of the work can hold one; it belongs to one thread.
#[derive(Debug)]
pub struct Fuel {
    limits: FuelLimits,
    steps: Cell<usize>,
    bytes: Cell<usize>,
    nodes: Cell<usize>,
}

impl Fuel {
    /// Returns a fuel of which nothing is spent.
    pub fn new(limits: FuelLimits) -> Self {
        Self {
            limits,
            steps: Cell::new(0),
            bytes: Cell::new(0),
            nodes: Cell::new(0),
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
        spend(&self.steps, steps, self.limits.steps, FuelKind::Steps)
    }

    /// Charges bytes that are about to be read or created.
    ///
    /// # Errors
    /// The limit is exceeded.
    #[inline]
    pub fn bytes(&self, bytes: usize) -> Result<(), OutOfFuel> {
        spend(&self.bytes, bytes, self.limits.bytes, FuelKind::Bytes)
    }

    /// Charges values that are about to be created.
    ///
    /// # Errors
    /// The limit is exceeded.
    #[inline]
    pub fn nodes(&self, nodes: usize) -> Result<(), OutOfFuel> {
        spend(&self.nodes, nodes, self.limits.nodes, FuelKind::Nodes)
    }

    /// Checks a level of nesting that is about to be created: `levels` includes it.
    ///
    /// # Errors
    /// The limit is exceeded.
    #[inline]
    pub fn depth(&self, levels: usize) -> Result<(), OutOfFuel> {
        check(levels, self.limits.depth, FuelKind::Depth)
    }

    /// Checks that `bytes` are left, without charging them: for a value whose exact size is known
    /// only later.
    ///
    /// # Errors
    /// The limit is exceeded.
    #[inline]
    pub fn room_for_bytes(&self, bytes: usize) -> Result<(), OutOfFuel> {
        let all = self.bytes.get().saturating_add(bytes);
        check(all, self.limits.bytes, FuelKind::Bytes)
    }

    /// Checks that `nodes` are left, without charging them.
    ///
    /// # Errors
    /// The limit is exceeded.
    #[inline]
    pub fn room_for_nodes(&self, nodes: usize) -> Result<(), OutOfFuel> {
        let all = self.nodes.get().saturating_add(nodes);
        check(all, self.limits.nodes, FuelKind::Nodes)
    }

    /// Refuses a value that is nested too deeply below `above` levels.
    ///
    /// # Errors
    /// [`FuelKind::Depth`].
    pub fn depth_of(&self, above: usize, value: &Value) -> Result<(), OutOfFuel> {
        self.depth(above)?;
        match value {
            Value::Array(items) => items
                .iter()
                .try_for_each(|item| self.depth_of(above + 1, item)),
            Value::Object(map) => map
                .values()
                .try_for_each(|item| self.depth_of(above + 1, item)),
            _ => Ok(()),
        }
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
}

#[inline]
fn spend(spent: &Cell<usize>, more: usize, limit: usize, which: FuelKind) -> Result<(), OutOfFuel> {
    let all = spent.get().saturating_add(more);
    spent.set(all);
    check(all, limit, which)
}

#[inline]
fn check(all: usize, limit: usize, which: FuelKind) -> Result<(), OutOfFuel> {
    if all > limit {
        return Err(OutOfFuel { which, limit });
    }
    Ok(())
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
        Err(OutOfFuel { which, limit })
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
