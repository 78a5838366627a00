//! Functions on types and kinds.

use super::arg::{any, bytes, out};
use super::equal::deep_equal;
use super::{A, AA, Entry, SA};
use driftless_gotmpl::Value;

/// Go's error where a function reads the type of a nil argument.
pub(super) const ZERO_VALUE: &str = "reflect: call of reflect.Value.Type on zero Value";

pub(super) const TABLE: &[Entry] = &[
    ("typeOf", A, |e, a| out(e, any(a, 0).type_name())),
    ("typeIs", SA, |_, a| {
        Ok(Value::Bool(any(a, 1).type_name().as_bytes() == bytes(a, 0)))
    }),
    ("typeIsLike", SA, |_, a| {
        let have = any(a, 1).type_name();
        let bare = have.strip_prefix('*').unwrap_or(&have);
        let wanted = bytes(a, 0);
        Ok(Value::Bool(
            have.as_bytes() == wanted || bare.as_bytes() == wanted,
        ))
    }),
    ("kindOf", A, |e, a| out(e, any(a, 0).kind().name())),
    ("kindIs", SA, |_, a| {
        Ok(Value::Bool(
            any(a, 1).kind().name().as_bytes() == bytes(a, 0),
        ))
    }),
    ("deepEqual", AA, |e, a| {
        Ok(Value::Bool(deep_equal(e, any(a, 0), any(a, 1), 0)?))
    }),
];
