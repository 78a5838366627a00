//! The units that are counted, their limits, and the error of one that has run out.

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

    /// Returns the limit of a unit.
    pub(crate) fn of(&self, which: FuelKind) -> usize {
        match which {
            FuelKind::Steps => self.steps,
            FuelKind::Bytes => self.bytes,
            FuelKind::Nodes => self.nodes,
            FuelKind::Depth => self.depth,
        }
    }
}

/// The units that a [`Fuel`](crate::Fuel) counts.
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
    /// True if the limit is that of a [`Tank`](crate::Tank), which other parts have used as well.
    pub of_tank: bool,
}
