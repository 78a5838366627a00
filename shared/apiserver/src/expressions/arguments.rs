//! The arguments and results of functions.

use ::cel::ExecutionError;
use ::cel::common::types::{CelBool, CelInt, CelString};
use ::cel::common::value::CowVal;

pub(crate) fn truth<'b, 'v>(answer: bool) -> CowVal<'b, 'v> {
    CowVal::owned(CelBool::from(answer))
}

pub(crate) fn string<'b, 'v>(answer: String) -> CowVal<'b, 'v> {
    CowVal::owned(CelString::from(answer))
}

pub(crate) fn integer<'b, 'v>(answer: i64) -> CowVal<'b, 'v> {
    CowVal::owned(CelInt::from(answer))
}

/// Returns an argument as a string.
///
/// # Errors
/// An argument of another type.
pub(crate) fn text<'a>(
    args: &'a [CowVal<'_, '_>],
    index: usize,
) -> Result<&'a str, ExecutionError> {
    args.get(index)
        .and_then(|arg| arg.downcast_ref::<CelString<'_>>())
        .map(CelString::inner)
        .ok_or(ExecutionError::MissingArgumentOrTarget)
}

pub(super) fn number(args: &[CowVal<'_, '_>], index: usize) -> Result<i64, ExecutionError> {
    args.get(index)
        .and_then(|arg| arg.downcast_ref::<CelInt>())
        .map(|number| *number.inner())
        .ok_or(ExecutionError::MissingArgumentOrTarget)
}
