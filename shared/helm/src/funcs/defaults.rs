//! Functions that choose between values: default, coalesce, ternary.

use super::arg::any;
use super::{A, AA, Entry};
use driftless_gotmpl::{Param, Value};

pub(super) const TABLE: &[Entry] = &[
    ("empty", A, |_, a| Ok(Value::Bool(empty(any(a, 0))))),
    ("ternary", &[Param::Any, Param::Any, Param::Bool], |_, a| {
        let first = matches!(a.get(2), Some(Value::Bool(true)));
        Ok(any(a, usize::from(!first)).clone())
    }),
];

pub(super) const VARIADIC: &[Entry] = &[
    ("default", AA, |_, a| match a.get(1) {
        Some(value) if !empty(value) => Ok(value.clone()),
        _ => Ok(any(a, 0).clone()),
    }),
    ("coalesce", A, |_, a| {
        let found = a.iter().find(|v| !empty(v));
        Ok(found.cloned().unwrap_or(Value::Nil))
    }),
    ("all", A, |_, a| {
        Ok(Value::Bool(a.iter().all(|v| !empty(v))))
    }),
    ("any", A, |_, a| {
        Ok(Value::Bool(a.iter().any(|v| !empty(v))))
    }),
];

/// Checks like sprig's `empty`: the zero value of its type, but a struct never is.
pub(super) fn empty(value: &Value) -> bool {
    !value.truth()
}
