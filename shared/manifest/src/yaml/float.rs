//! Floating point numbers as Go's `strconv` and `encoding/json` write them.

/// The exponents that `'g'` writes without an `e` when it was asked for the shortest form.
const PLAIN: std::ops::Range<i32> = -4..6;

/// Whole numbers below 2^53 are exact as doubles.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The shortest decimal digits that read back as the same number, and the exponent of the first one.
fn shortest(scientific: &str) -> (String, i32) {
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    (mantissa.replace('.', ""), exponent.parse().unwrap_or(0))
}

/// `{:e}`, but where two numbers of the same length are as near as each other Go takes the even digit.
fn scientific(f: f64) -> String {
    let text = format!("{f:e}");
    let digits = text
        .split('e')
        .next()
        .map_or(1, |m| m.len() - usize::from(m.contains('.')));
    let even = format!("{f:.*e}", digits - 1);
    if even != text && even.parse() == Ok(f) {
        even
    } else {
        text
    }
}

/// A finite number without an exponent, as Go's `strconv.FormatFloat(f, 'f', -1, 64)` writes it.
pub fn plain_float(f: f64) -> String {
    let (digits, exponent) = shortest(&scientific(f.abs()));
    let mut out = String::from(if f.is_sign_negative() { "-" } else { "" });
    plain(&mut out, &digits, exponent);
    out
}

/// `strconv.FormatFloat(f, 'g', -1, 64)` for a finite number.
pub(crate) fn general(f: f64) -> String {
    general_digits(f.is_sign_negative(), &scientific(f.abs()))
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
    if f.fract() != 0.0 || f.abs() >= 1e21 {
        return serde_json::Number::from_f64(f);
    }
    if f.abs() < EXACT {
        return Some((f as i64).into());
    }
    // The shortest digits and zeros after them, which need not be the double's exact value.
    let (digits, exponent) = shortest(&scientific(f.abs()));
    let mut text = String::from(if f < 0.0 { "-" } else { "" });
    plain(&mut text, &digits, exponent);
    if let Ok(i) = text.parse::<i64>() {
        return Some(i.into());
    }
    if let Ok(u) = text.parse::<u64>() {
        return Some(u.into());
    }
    serde_json::Number::from_f64(f)
}
