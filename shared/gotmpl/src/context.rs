//! The part of an execution that functions see: its budget, and the host's own state.

use crate::fmt;
use crate::func_error::FuncError;
use crate::value::Value;
use driftless_fuel::{Fuel, FuelKind, FuelLimits, OutOfFuel};
use std::any::Any;

/// The limits of one execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The actions, commands and iterations, and the steps that functions charge for their work.
    pub steps: u64,
    /// The levels of templates that call each other.
    pub depth: usize,
    /// The total bytes that templates write and functions create.
    pub bytes: u64,
    /// The variables at one time, of all running templates.
    pub nodes: usize,
}

impl From<Limits> for FuelLimits {
    fn from(limits: Limits) -> Self {
        let most = |amount: u64| usize::try_from(amount).unwrap_or(usize::MAX);
        Self {
            steps: most(limits.steps),
            bytes: most(limits.bytes),
            nodes: limits.nodes,
            depth: limits.depth,
        }
    }
}

impl Default for Limits {
    /// Returns 20 million steps (about a second), 1,000 levels, 64 MiB in total, 250,000 variables.
    /// A stored release has at most 1 MiB.
    fn default() -> Self {
        Limits {
            steps: 20_000_000,
            depth: 1_000,
            bytes: 64 << 20,
            nodes: 250_000,
        }
    }
}

/// The bytes of a printed value that cost one step.
pub(crate) const PRINTED_BYTES_PER_STEP: u64 = 4;

/// A running execution, as functions see it.
pub struct Exec<'h> {
    host: &'h dyn Any,
    pub(crate) fuel: Fuel,
}

impl<'h> Exec<'h> {
    pub(crate) fn new(host: &'h dyn Any, fuel: Fuel) -> Self {
        Exec { host, fuel }
    }

    /// Returns the host's own state, if it is of this type.
    pub fn host<T: Any>(&self) -> Option<&'h T> {
        self.host.downcast_ref()
    }

    /// Charges `steps` to the budget.
    ///
    /// # Errors
    /// The budget is used up.
    pub fn charge(&mut self, steps: u64) -> Result<(), FuncError> {
        let steps = usize::try_from(steps).unwrap_or(usize::MAX);
        Ok(self.fuel.steps(steps)?)
    }

    /// Charges `bytes` to the budget, and a step for every 64 of them.
    ///
    /// # Errors
    /// The budget is used up.
    pub fn charge_bytes(&mut self, bytes: usize) -> Result<(), FuncError> {
        self.fuel.bytes(bytes)?;
        Ok(self.fuel.steps(bytes / 64)?)
    }

    /// Checks that a result of this size, in the worst case, fits into the rest of the budget,
    /// before it is created.
    ///
    /// # Errors
    /// The result does not fit.
    pub fn ensure_capacity(&self, bytes: usize) -> Result<(), FuncError> {
        Ok(self.fuel.room_for_bytes(bytes)?)
    }

    /// Returns the rest of the budget, for functions that pass it on to their callees. Values that
    /// they charge are given back when they are freed: those that remain are charged in bytes.
    pub fn fuel(&self) -> &Fuel {
        &self.fuel
    }

    /// Returns the bytes that are left of the budget.
    pub(crate) fn bytes_left(&self) -> usize {
        self.fuel.bytes_left()
    }

    /// Formats a value as `%v`, and charges for it.
    ///
    /// # Errors
    /// The budget is used up.
    pub fn display(&mut self, value: &Value) -> Result<Vec<u8>, FuncError> {
        let text = fmt::sprint_within(self.bytes_left(), std::slice::from_ref(value));
        self.charge_bytes(text.len())?;
        self.charge(text.len() as u64 / PRINTED_BYTES_PER_STEP)?;
        Ok(text)
    }
}

impl From<OutOfFuel> for FuncError {
    fn from(out: OutOfFuel) -> Self {
        let unit = match out.which {
            FuelKind::Steps => "steps",
            FuelKind::Bytes => "bytes",
            FuelKind::Nodes => "variables",
            FuelKind::Depth => "levels",
        };
        FuncError::out_of_budget(format!("the template's budget of {unit} is used up"))
    }
}
