//! The cost of writing a value.

use super::equal::{MAX_DEPTH, too_deep};
use driftless_gotmpl::{Exec, FuncError, Value};
use serde_json::Value as Json;

/// Charges for writing a value: the result may be far larger than the value in memory, because
/// parts can be shared.
pub(super) fn pay(exec: &mut Exec<'_>, value: &Value, depth: usize) -> Result<(), FuncError> {
    exec.charge(1)?;
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    match value {
        Value::Str(s) => {
            // In double quotes every byte may become an escape of six bytes.
            exec.ensure_capacity(s.len().saturating_mul(6))?;
            exec.charge_bytes(s.len())
        }
        Value::Bytes(b) => {
            exec.ensure_capacity(b.len().saturating_mul(2))?;
            exec.charge_bytes(b.len())
        }
        Value::List(list) => {
            exec.charge_bytes(list.len().saturating_mul(size_of::<Json>()))?;
            list.items()
                .iter()
                .try_for_each(|v| pay(exec, v, depth + 1))
        }
        Value::Map(map) => {
            exec.charge_bytes(map.len().saturating_mul(2 * size_of::<Json>()))?;
            let entries = map.entries();
            entries.values().try_for_each(|v| pay(exec, v, depth + 1))
        }
        _ => Ok(()),
    }
}
