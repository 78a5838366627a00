//! Floating point numbers as Go's `strconv` and `encoding/json` write them.

/// The exponents that `'g'` writes without an `e` when it was asked for the shortest form.
const PLAIN: std::ops::Range<i32> = -4..6;

/// Shortest decimal digits, and the exponent of the first one.
fn shortest(scientific: &str) -> (String, i32) {
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    (mantissa.replace('.', ""), exponent.parse().unwrap_or(0))
}

/// `strconv.FormatFloat(f, 'g', -1, 64)` for a finite number.
pub(crate) fn general(f: f64) -> String {
    general_digits(f.is_sign_negative(), &format!("{:e}", f.abs()))
}

/// `strconv.FormatFloat(f, 'g', -1, 32)` for a finite number: what sigs.k8s.io/yaml makes of a float that is a key.
pub(crate) fn general32(f: f64) -> Option<String> {
    let narrow = f as f32;
    narrow
        .is_finite()
        .then(|| general_digits(narrow.is_sign_negative(), &format!("{:e}", narrow.abs())))
}

fn general_digits(negative: bool, scientific: &str) -> String {
    let (digits, exponent) = shortest(scientific);
    let mut out = String::with_capacity(digits.len() + 8);
    if negative {
        out.push('-');
    }
    if PLAIN.contains(&exponent) {
        plain(&mut out, &digits, exponent);
    } else {
        exponential(&mut out, &digits, exponent);
    }
    out
}

fn plain(out: &mut String, digits: &str, exponent: i32) {
    if exponent < 0 {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', (-exponent - 1) as usize));
        out.push_str(digits);
        return;
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        out.push_str(digits);
        out.extend(std::iter::repeat_n('0', whole - digits.len()));
    } else {
        out.push_str(&digits[..whole]);
        out.push('.');
        out.push_str(&digits[whole..]);
    }
}

fn exponential(out: &mut String, digits: &str, exponent: i32) {
    out.push_str(&digits[..1]);
    if digits.len() > 1 {
        out.push('.');
        out.push_str(&digits[1..]);
    }
    out.push('e');
    out.push(if exponent < 0 { '-' } else { '+' });
    out.push_str(&format!("{:02}", exponent.abs()));
}

/// The number that stands in the JSON text which Go writes for a float: `1e3` becomes the integer 1000, because
/// `encoding/json` writes it without a point.
pub(crate) fn json_number(f: f64) -> Option<serde_json::Number> {
    // 2^63 and 2^64 are exact as doubles.
    if f.fract() == 0.0 && f.abs() < 1e21 {
        if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&f) {
            return Some((f as i64).into());
        }
        if (0.0..18_446_744_073_709_551_616.0).contains(&f) {
            return Some((f as u64).into());
        }
    }
    serde_json::Number::from_f64(f)
}
