//! Converts floats of YAML to numbers of JSON.

use driftless_go::float;
use serde_json::Number;

/// Whole numbers below 2^53 are exact as doubles.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Converts a float to the number in Go's JSON: `1e3` becomes the integer 1000, because
/// `encoding/json` writes it without a point. `None` for NaN and the infinities.
pub(super) fn json_number(f: f64) -> Option<Number> {
    if f.fract() != 0.0 || f.abs() >= 1e21 {
        return Number::from_f64(f);
    }
    if f.abs() < EXACT {
        return Some((f as i64).into());
    }
    // The shortest digits, with zeros after them, may differ from the double's exact value.
    let text = float::format(f, 'f', None);
    if let Ok(i) = text.parse::<i64>() {
        return Some(i.into());
    }
    if let Ok(u) = text.parse::<u64>() {
        return Some(u.into());
    }
    Number::from_f64(f)
}
