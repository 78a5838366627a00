//! Resource quantities in the form that the API server writes: `0.5` as `500m`,
//! `1024Mi` as `1Gi`.

/// Returns the canonical form; `None` if the string is not a quantity.
pub fn canonical(text: &str) -> Option<String> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let end = digits
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(digits.len());
    let (number, suffix) = digits.split_at(end);
    if number.is_empty() || number == "." || number.matches('.').count() > 1 {
        return None;
    }
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let fraction = fraction.trim_end_matches('0');
    let mantissa: i128 = format!("0{whole}{fraction}").parse().ok()?;
    let places = i32::try_from(fraction.len()).ok()?;
    if let Some(power) = binary(suffix) {
        return binary_text(sign, mantissa, places, power);
    }
    let (exponent, scientific) = decimal(suffix)?;
    decimal_text(sign, mantissa, exponent - places, scientific)
}

fn binary(suffix: &str) -> Option<u32> {
    Some(match suffix {
        "Ki" => 10,
        "Mi" => 20,
        "Gi" => 30,
        "Ti" => 40,
        "Pi" => 50,
        "Ei" => 60,
        _ => return None,
    })
}

fn decimal(suffix: &str) -> Option<(i32, bool)> {
    Some(match suffix {
        "" => (0, false),
        "n" => (-9, false),
        "u" => (-6, false),
        "m" => (-3, false),
        "k" => (3, false),
        "M" => (6, false),
        "G" => (9, false),
        "T" => (12, false),
        "P" => (15, false),
        "E" => (18, false),
        other => {
            let digits = other.strip_prefix(['e', 'E'])?;
            (digits.parse().ok()?, true)
        }
    })
}

fn binary_text(sign: &str, mantissa: i128, places: i32, power: u32) -> Option<String> {
    let divisor = 10_i128.checked_pow(u32::try_from(places).ok()?)?;
    let product = mantissa.checked_mul(1_i128.checked_shl(power)?)?;
    if product % divisor != 0 {
        // A fraction of a byte is written in decimal thousandths.
        let scaled = product.checked_mul(1000)?;
        let up = i128::from(scaled % divisor != 0);
        return decimal_text(sign, scaled / divisor + up, -3, false);
    }
    let mut value = product / divisor;
    if value < 1024 {
        return decimal_text(sign, value, 0, false);
    }
    let mut unit = 0;
    while value % 1024 == 0 && unit < 6 {
        value /= 1024;
        unit += 1;
    }
    let suffix = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][unit];
    Some(format!("{sign}{value}{suffix}"))
}

fn decimal_text(sign: &str, mantissa: i128, exponent: i32, scientific: bool) -> Option<String> {
    if mantissa == 0 {
        return Some("0".to_owned());
    }
    let (mut mantissa, mut exponent) = (mantissa, exponent);
    while mantissa % 10 == 0 {
        mantissa /= 10;
        exponent += 1;
    }
    if exponent < -9 {
        // Finer than a billionth: rounded up.
        let by = 10_i128.checked_pow(u32::try_from(-9 - exponent).ok()?)?;
        mantissa = mantissa / by + i128::from(mantissa % by != 0);
        exponent = -9;
    }
    while exponent % 3 != 0 {
        mantissa = mantissa.checked_mul(10)?;
        exponent -= 1;
    }
    let suffix = match exponent {
        0 => String::new(),
        _ if scientific => format!("e{exponent}"),
        -9 => "n".into(),
        -6 => "u".into(),
        -3 => "m".into(),
        3 => "k".into(),
        6 => "M".into(),
        9 => "G".into(),
        12 => "T".into(),
        15 => "P".into(),
        18 => "E".into(),
        other => format!("e{other}"),
    };
    Some(format!("{sign}{mantissa}{suffix}"))
}

/// Returns the value in thousandths, for comparisons; `None` if the string is not a quantity.
pub fn thousandths(text: &str) -> Option<i128> {
    let canonical = canonical(text)?;
    let end = canonical
        .find(|c: char| !c.is_ascii_digit() && c != '-')
        .unwrap_or(canonical.len());
    let (number, suffix) = canonical.split_at(end);
    let number: i128 = number.parse().ok()?;
    if let Some(power) = binary(suffix) {
        return number.checked_mul(1000)?.checked_mul(1 << power);
    }
    let (exponent, _) = decimal(suffix)?;
    let shift = exponent + 3;
    if shift >= 0 {
        number.checked_mul(10_i128.checked_pow(u32::try_from(shift).ok()?)?)
    } else {
        Some(number / 10_i128.checked_pow(u32::try_from(-shift).ok()?)?)
    }
}

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn forms() {
        for (text, expected) in [
            ("0.5", "500m"),
            ("1000m", "1"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("100", "100"),
            ("1000", "1k"),
            ("2000k", "2M"),
            ("0", "0"),
            ("1e3", "1e3"),
            ("0.1m", "100u"),
            ("1Ki", "1Ki"),
            ("512", "512"),
        ] {
            assert_eq!(canonical(text).as_deref(), Some(expected), "{text}");
        }
        for text in ["", "x", "1.2.3", "1 Gi", "1q"] {
            assert_eq!(canonical(text), None, "{text}");
        }
    }
}
