//! Reads the arguments of functions.

use ::cel::ExecutionError;
use ::cel::common::types::{CelInt, CelString};
use ::cel::common::value::{CowVal, Val};

/// Returns an argument as a string.
///
/// # Errors
/// An argument of another type.
pub fn text<'a>(args: &'a [CowVal<'_, '_>], index: usize) -> Result<&'a str, ExecutionError> {
    args.get(index)
        .and_then(|arg| arg.downcast_ref::<CelString<'_>>())
        .map(CelString::inner)
        .ok_or(ExecutionError::MissingArgumentOrTarget)
}

/// Returns an argument as an integer.
///
/// # Errors
/// An argument of another type.
pub fn number(args: &[CowVal<'_, '_>], index: usize) -> Result<i64, ExecutionError> {
    args.get(index)
        .and_then(|arg| arg.downcast_ref::<CelInt>())
        .map(|number| *number.inner())
        .ok_or(ExecutionError::MissingArgumentOrTarget)
}

/// Returns the items of an argument that is a list.
///
/// # Errors
/// An argument of another type.
pub fn items<'a, 'v>(
    args: &'a [CowVal<'_, 'v>],
    index: usize,
) -> Result<Vec<&'a (dyn Val + 'v)>, ExecutionError> {
    let found = args
        .get(index)
        .and_then(|arg| arg.as_iterable())
        .ok_or(ExecutionError::MissingArgumentOrTarget)?;
    let mut rest = found.iter();
    let mut out = Vec::new();
    while let Some(item) = rest.next() {
        out.push(item);
    }
    Ok(out)
}
