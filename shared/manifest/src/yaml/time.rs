//! Timestamps in the forms of Go's yaml packages.

/// The parts of a timestamp that RFC 3339 needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timestamp {
    year: u32,
    month: u32,
    day: u32,
    hour: u32,
    minute: u32,
    second: u32,
    nanos: u32,
    /// The offset in minutes east of UTC; `None` for UTC.
    offset: Option<i32>,
}

/// Parses `2001-1-2`, `2001-1-2T15:4:5.9Z`, `...t...+01:00` and `2001-1-2 15:4:5.9`, and no other
/// form.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    if bytes.len() < 8 || bytes[4] != b'-' || !bytes[..4].iter().all(u8::is_ascii_digit) {
        return None;
    }
    let year = text[..4].parse().ok()?;
    let (month, rest) = field(text.get(5..)?)?;
    let (day, rest) = field(rest.strip_prefix('-')?)?;
    let mut t = Timestamp {
        year,
        month,
        day,
        hour: 0,
        minute: 0,
        second: 0,
        nanos: 0,
        offset: None,
    };
    if !(1..=12).contains(&month) || day == 0 || day > days(year, month) {
        return None;
    }
    if rest.is_empty() {
        return Some(t);
    }
    let zoned = rest.starts_with(['T', 't']);
    let rest = rest.strip_prefix(['T', 't', ' '])?;
    let (hour, rest) = field(rest)?;
    let (minute, rest) = field(rest.strip_prefix(':')?)?;
    let (second, rest) = field(rest.strip_prefix(':')?)?;
    let (nanos, rest) = fraction(rest)?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    (t.hour, t.minute, t.second, t.nanos) = (hour, minute, second, nanos);
    if zoned {
        t.offset = zone(rest)?;
        return Some(t);
    }
    rest.is_empty().then_some(t)
}

/// Parses one or two digits.
fn field(text: &str) -> Option<(u32, &str)> {
    let count = text.bytes().take(2).take_while(u8::is_ascii_digit).count();
    Some((text.get(..count)?.parse().ok()?, &text[count..]))
}

/// Parses an optional fraction, `.123456789`. Go also accepts a comma, and drops digits below a
/// nanosecond.
fn fraction(text: &str) -> Option<(u32, &str)> {
    let Some(digits) = text.strip_prefix(['.', ',']) else {
        return Some((0, text));
    };
    let count = digits.bytes().take_while(u8::is_ascii_digit).count();
    if count == 0 {
        return None;
    }
    let nanos = digits
        .bytes()
        .take(count)
        .chain(std::iter::repeat(b'0'))
        .take(9);
    Some((
        nanos.fold(0, |n, b| n * 10 + u32::from(b - b'0')),
        &digits[count..],
    ))
}

fn zone(text: &str) -> Option<Option<i32>> {
    if text == "Z" {
        return Some(None);
    }
    let b = text.as_bytes();
    let digit = |i: usize| {
        b.get(i)
            .filter(|c| c.is_ascii_digit())
            .map(|c| i32::from(c - b'0'))
    };
    if b.len() != 6 || b[3] != b':' {
        return None;
    }
    let (hours, minutes) = (digit(1)? * 10 + digit(2)?, digit(4)? * 10 + digit(5)?);
    if hours > 24 || minutes > 60 {
        return None;
    }
    match b[0] {
        b'+' => Some(Some(hours * 60 + minutes)),
        b'-' => Some(Some(-(hours * 60 + minutes))),
        _ => None,
    }
}

fn days(year: u32, month: u32) -> u32 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => {
            29
        }
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl Timestamp {
    /// Formats the timestamp like the JSON of Go's `time.Time`: RFC 3339 with as many digits of the
    /// second as needed.
    pub(crate) fn rfc3339(&self) -> String {
        let mut out = format!(
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
            self.year, self.month, self.day, self.hour, self.minute, self.second
        );
        if self.nanos != 0 {
            let digits = format!(".{:09}", self.nanos);
            out.push_str(digits.trim_end_matches('0'));
        }
        match self.offset {
            None | Some(0) => out.push('Z'),
            Some(o) => {
                let (sign, o) = if o < 0 { ('-', -o) } else { ('+', o) };
                out.push_str(&format!("{sign}{:02}:{:02}", o / 60, o % 60));
            }
        }
        out
    }
}
