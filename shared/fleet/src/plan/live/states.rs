//! The inputs of a comparison.

use crate::plan::compare::Side;
use crate::plan::redact::Redactor;

/// Both states, and the values that no result may contain.
#[derive(Clone, Copy)]
pub struct States<'a> {
    /// The state before the change.
    pub old: &'a Side<'a>,
    /// The state after the change.
    pub new: &'a Side<'a>,
    /// The values that are replaced.
    pub redactor: &'a Redactor,
}
