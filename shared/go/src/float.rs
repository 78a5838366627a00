//! Floating-point numbers in the formats of Go's `strconv.FormatFloat` and `encoding/json`.

/// The most digits after the point of a float64; Rust's formatting accepts no precision above
/// 65,535.
const EXACT: usize = 1_100;

/// Formats a number by `strconv.FormatFloat(f, verb, precision, 64)` for the verbs `e`, `E`, `f`,
/// `F`, `g`, `G`, `b`, `x` and `X`. No precision means the fewest digits that parse to the same
/// number. An unknown verb gives `%` and the verb, as in Go.
pub fn format(f: f64, verb: char, precision: Option<usize>) -> String {
    if f.is_nan() {
        return "NaN".to_owned();
    }
    if f.is_infinite() {
        return if f > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    match verb {
        'f' | 'F' => match precision {
            Some(p) => {
                let kept = p.min(EXACT);
                format!("{f:.kept$}{}", "0".repeat(p - kept))
            }
            None => plain(&scientific(f, None)),
        },
        'e' | 'E' => exponent(&scientific(f, precision), verb),
        'g' | 'G' => general(f, verb, precision),
        'b' => binary(f),
        'x' | 'X' => hexadecimal(f, verb, precision),
        _ => format!("%{verb}"),
    }
}

/// Formats the nearest float32 by `strconv.FormatFloat(f, 'g', -1, 32)`; `None` if it is not
/// finite.
pub fn format_float32(f: f64) -> Option<String> {
    let narrow = f as f32;
    narrow
        .is_finite()
        .then(|| general_text(&format!("{narrow:e}"), 'g', None))
}

/// Formats a finite number by `encoding/json`: with an exponent only below 1e-6 and from 1e21 on.
pub fn json(f: f64) -> String {
    let abs = f.abs();
    if abs != 0.0 && !(1e-6..1e21).contains(&abs) {
        let text = format(f, 'e', None);
        // Small negative exponents have one digit less: e-09 becomes e-9.
        return match text.split_once("e-0") {
            Some((mantissa, digit)) => format!("{mantissa}e-{digit}"),
            None => text,
        };
    }
    format(f, 'f', None)
}

/// Formats a number in Rust's form `d.ddde±x`.
fn scientific(f: f64, precision: Option<usize>) -> String {
    match precision {
        Some(p) => {
            let kept = p.min(EXACT);
            let text = format!("{f:.kept$e}");
            match text.split_once('e') {
                Some((mantissa, exp)) if p > kept => {
                    format!("{mantissa}{}e{exp}", "0".repeat(p - kept))
                }
                _ => text,
            }
        }
        None => shortest(f),
    }
}

/// Returns the fewest digits that parse to the same number. If two numbers of that length are
/// equally near, Go takes the even digit.
fn shortest(f: f64) -> String {
    let text = format!("{f:e}");
    let mantissa = text.split('e').next().unwrap_or(&text);
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).count();
    let even = format!("{f:.*e}", digits.saturating_sub(1));
    if even != text && even.parse() == Ok(f) {
        even
    } else {
        text
    }
}

/// Converts `d.ddde±x` to a form without an exponent.
fn plain(scientific: &str) -> String {
    let (mantissa, exp) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let sign = if mantissa.starts_with('-') { "-" } else { "" };
    format!("{sign}{}", pointed(&digits, exp.parse().unwrap_or(0)))
}

/// Formats digits with a point after the first `exp + 1` of them, and adds zeros if there are
/// fewer.
fn pointed(digits: &str, exp: i32) -> String {
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let point = exp.saturating_add(1);
    if point <= 0 {
        return format!("0.{}{digits}", "0".repeat(point.unsigned_abs() as usize));
    }
    if point >= count {
        return format!("{digits}{}", "0".repeat((point - count) as usize));
    }
    let (whole, fraction) = digits.split_at(point as usize);
    format!("{whole}.{fraction}")
}

/// Converts Rust's `1.5e7` to Go's `1.5e+07`.
fn exponent(text: &str, verb: char) -> String {
    let (mantissa, exp) = text.split_once('e').unwrap_or((text, "0"));
    let (sign, digits) = match exp.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exp),
    };
    format!("{mantissa}{verb}{sign}{digits:0>2}")
}

fn general(f: f64, verb: char, precision: Option<usize>) -> String {
    let significant = precision.map(|p| p.max(1));
    general_text(
        &scientific(f, significant.map(|p| p - 1)),
        verb,
        significant,
    )
}

/// Converts digits in the form `e` to the form `g`; `significant` is the requested number of
/// significant digits.
fn general_text(text: &str, verb: char, significant: Option<usize>) -> String {
    let shortest = significant.is_none();
    let (mantissa, exp) = text.split_once('e').unwrap_or((text, "0"));
    let exp: i32 = exp.parse().unwrap_or(0);
    let negative = mantissa.starts_with('-');
    let mut digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    if !shortest {
        let kept = digits.trim_end_matches('0').len().max(1);
        digits.truncate(kept);
    }
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let mut limit = i32::try_from(significant.unwrap_or(6)).unwrap_or(i32::MAX);
    if shortest {
        limit = 6;
    } else if limit > count && count > exp {
        limit = count;
    }
    let sign = if negative { "-" } else { "" };
    if exp < -4 || exp >= limit {
        let e = if verb == 'G' { 'E' } else { 'e' };
        let (head, tail) = digits.split_at(1);
        let dot = if tail.is_empty() { "" } else { "." };
        let exp_sign = if exp < 0 { '-' } else { '+' };
        return format!("{sign}{head}{dot}{tail}{e}{exp_sign}{:02}", exp.abs());
    }
    format!("{sign}{}", pointed(&digits, exp))
}

fn parts(f: f64) -> (bool, u64, i32) {
    let bits = f.to_bits();
    let exp = ((bits >> 52) & 0x7ff) as i32;
    let mantissa = bits & ((1 << 52) - 1);
    let (mantissa, exp) = if exp == 0 {
        (mantissa, 1)
    } else {
        (mantissa | (1 << 52), exp)
    };
    (f.is_sign_negative(), mantissa, exp - 1023)
}

fn binary(f: f64) -> String {
    let (negative, mantissa, exp) = parts(f);
    let sign = if negative { "-" } else { "" };
    format!("{sign}{mantissa}p{:+}", exp - 52)
}

fn hexadecimal(f: f64, verb: char, precision: Option<usize>) -> String {
    let (negative, mut mantissa, mut exp) = parts(f);
    if mantissa == 0 {
        exp = 0;
    }
    // One digit before the point: the leading one is at bit 60.
    mantissa <<= 8;
    while mantissa != 0 && mantissa & (1 << 60) == 0 {
        mantissa <<= 1;
        exp -= 1;
    }
    if let Some(p) = precision
        && p < 15
    {
        let shift = p as u32 * 4;
        let extra = (mantissa << shift) & ((1 << 60) - 1);
        mantissa >>= 60 - shift;
        if extra | (mantissa & 1) > 1 << 59 {
            mantissa += 1;
        }
        mantissa <<= 60 - shift;
        if mantissa & (1 << 61) != 0 {
            mantissa >>= 1;
            exp += 1;
        }
    }
    let mut digits = format!("{:015x}", mantissa & ((1 << 60) - 1));
    match precision {
        None => digits.truncate(digits.trim_end_matches('0').len()),
        Some(p) if p <= 15 => digits.truncate(p),
        Some(p) => digits.push_str(&"0".repeat(p - 15)),
    }
    let sign = if negative { "-" } else { "" };
    let exp_sign = if exp < 0 { '-' } else { '+' };
    let dot = if digits.is_empty() { "" } else { "." };
    let text = format!(
        "{sign}0x{}{dot}{digits}p{exp_sign}{:02}",
        (mantissa >> 60) & 1,
        exp.abs()
    );
    if verb == 'X' {
        text.to_uppercase()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_go_formats() {
        for (f, verb, precision, text) in [
            (0.0, 'g', None, "0"),
            (-0.0, 'g', None, "-0"),
            (123456.0, 'g', None, "123456"),
            (1234567.0, 'g', None, "1.234567e+06"),
            (1e-5, 'g', None, "1e-05"),
            (0.0001, 'g', None, "0.0001"),
            (1e21, 'f', None, "1000000000000000000000"),
            (2.5e-7, 'f', None, "0.00000025"),
            (-1.5, 'f', Some(0), "-2"),
            (9007199254740993.0, 'e', None, "9.007199254740992e+15"),
            (5e-324, 'e', None, "5e-324"),
            (1.0, 'b', None, "4503599627370496p-52"),
            (f64::NAN, 'g', None, "NaN"),
            (f64::INFINITY, 'f', None, "+Inf"),
        ] {
            assert_eq!(format(f, verb, precision), text, "{f} as {verb}");
        }
    }

    #[test]
    fn as_go_writes_in_json() {
        for (f, text) in [
            (1e-7, "1e-7"),
            (1.5e-10, "1.5e-10"),
            (1e-6, "0.000001"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (-0.0, "-0"),
        ] {
            assert_eq!(json(f), text);
        }
        assert_eq!(format_float32(0.1).as_deref(), Some("0.1"));
        assert_eq!(format_float32(1e39), None);
    }
}
