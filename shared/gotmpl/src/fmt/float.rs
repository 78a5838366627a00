//! Go's `strconv.FormatFloat`.

/// Digits behind the point that a float64 can have; Rust's formatting takes no precision above 65,535.
const EXACT: usize = 1_100;

/// Formats as `strconv.FormatFloat(f, verb, precision, 64)`: `e`, `E`, `f`, `g`, `G`, `b`, `x`, `X`; no precision means as
/// many digits as are needed to read the same number again.
pub fn format_float(f: f64, verb: char, precision: Option<usize>) -> String {
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
            None => format!("{f}"),
        },
        'e' | 'E' => exponent(&scientific(f, precision), verb),
        'g' | 'G' => general(f, verb, precision),
        'b' => binary(f),
        'x' | 'X' => hexadecimal(f, verb, precision),
        _ => format!("%{verb}"),
    }
}

/// `d.ddde±x` as Rust writes it.
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
        None => format!("{f:e}"),
    }
}

/// Rust's `1.5e7` -> Go's `1.5e+07`.
fn exponent(text: &str, verb: char) -> String {
    let (mantissa, exp) = text.split_once('e').unwrap_or((text, "0"));
    let (sign, digits) = match exp.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exp),
    };
    format!("{mantissa}{verb}{sign}{digits:0>2}")
}

fn general(f: f64, verb: char, precision: Option<usize>) -> String {
    let shortest = precision.is_none();
    let wanted = precision.map(|p| p.max(1));
    let text = scientific(f, wanted.map(|p| p - 1));
    let (mantissa, exp) = text.split_once('e').unwrap_or((&text, "0"));
    let exp: i32 = exp.parse().unwrap_or(0);
    let negative = mantissa.starts_with('-');
    let mut digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    if !shortest {
        let kept = digits.trim_end_matches('0').len().max(1);
        digits.truncate(kept);
    }
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let mut limit = i32::try_from(wanted.unwrap_or(6)).unwrap_or(i32::MAX);
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
    let point = exp + 1;
    let body = if point <= 0 {
        format!("0.{}{digits}", "0".repeat(point.unsigned_abs() as usize))
    } else if point >= count {
        format!("{digits}{}", "0".repeat((point - count) as usize))
    } else {
        let (head, tail) = digits.split_at(point as usize);
        format!("{head}.{tail}")
    };
    format!("{sign}{body}")
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
    // One digit before the point: the leading one stands at bit 60.
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
