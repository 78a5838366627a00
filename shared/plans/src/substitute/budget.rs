//! The limits of a substitution, and its errors.

use driftless_fuel::{Fuel, FuelKind, OutOfFuel};

/// The reason that an expansion has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum EvalError {
    #[error("variable not set (strict mode): {0:?}")]
    NotSet(String),
    #[error("the substring {{{0}:…}} ends before it starts")]
    Substring(String),
    #[error("the value of {0:?} would be cut inside a character")]
    BrokenCharacter(String),
    #[error("the result is larger than {0} bytes")]
    TooLarge(usize),
    #[error("the patterns need more work than the limit of one object")]
    TooMuchWork,
}

impl From<OutOfFuel> for EvalError {
    fn from(out: OutOfFuel) -> Self {
        match out.which {
            FuelKind::Bytes => EvalError::TooLarge(out.limit),
            _ => EvalError::TooMuchWork,
        }
    }
}

/// The limits of one substitution.
pub(super) struct Budget<'f> {
    /// The bytes that all pieces together may have, and the steps for matching patterns.
    pub own: Fuel,
    /// The fuel that all substitutions of a build share.
    pub all: &'f Fuel,
}

impl Budget<'_> {
    pub(super) fn step(&self, size: usize) -> Result<(), EvalError> {
        self.own.steps(size + 1)?;
        Ok(self.all.steps(size + 1)?)
    }

    pub(super) fn write(&self, size: usize) -> Result<(), EvalError> {
        self.own.bytes(size)?;
        Ok(self.all.bytes(size)?)
    }
}
