//! Go's layouts of times: `Mon Jan 2 15:04:05 MST 2006`.

use super::moment::{Civil, Time};
use std::fmt::Write as _;

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

pub(super) const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

/// An element of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    LongMonth,
    Month,
    NumMonth,
    ZeroMonth,
    LongWeekday,
    Weekday,
    Day,
    UnderDay,
    ZeroDay,
    UnderYearDay,
    ZeroYearDay,
    Hour,
    Hour12,
    ZeroHour12,
    Minute,
    ZeroMinute,
    Second,
    ZeroSecond,
    LongYear,
    Year,
    Pm,
    SmallPm,
    ZoneName,
    /// An offset from UTC; `Z` means that UTC is written as `Z`.
    Offset {
        z: bool,
        form: Offset,
    },
    /// A fraction of a second with its separator and digits: `.000` (fixed) or `.999` (cut).
    Fraction {
        comma: bool,
        fixed: bool,
        digits: usize,
    },
}

/// The form of an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offset {
    /// `-07`
    Hours,
    /// `-0700`
    Minutes,
    /// `-07:00`
    ColonMinutes,
    /// `-070000`
    Seconds,
    /// `-07:00:00`
    ColonSeconds,
}

/// Returns the element at the start of a layout, and its length.
fn element(rest: &[u8]) -> Option<(Element, usize)> {
    use Element as E;
    const PLAIN: [(&[u8], Element); 22] = [
        (b"January", E::LongMonth),
        (b"Monday", E::LongWeekday),
        (b"MST", E::ZoneName),
        (b"002", E::ZeroYearDay),
        (b"01", E::ZeroMonth),
        (b"02", E::ZeroDay),
        (b"03", E::ZeroHour12),
        (b"04", E::ZeroMinute),
        (b"05", E::ZeroSecond),
        (b"06", E::Year),
        (b"15", E::Hour),
        (b"1", E::NumMonth),
        (b"2006", E::LongYear),
        (b"2", E::Day),
        (b"__2", E::UnderYearDay),
        (b"_2", E::UnderDay),
        (b"3", E::Hour12),
        (b"4", E::Minute),
        (b"5", E::Second),
        (b"PM", E::Pm),
        (b"pm", E::SmallPm),
        (b"Jan", E::Month),
    ];
    let lower_behind = |n: usize| rest.get(n).is_some_and(u8::is_ascii_lowercase);
    match rest.first()? {
        b'-' | b'Z' => return offset(rest),
        b'.' | b',' => return fraction(rest),
        _ => {}
    }
    if rest.starts_with(b"Mon") && !rest.starts_with(b"Monday") {
        return (!lower_behind(3)).then_some((E::Weekday, 3));
    }
    let (text, element) = PLAIN.iter().find(|(text, _)| rest.starts_with(text))?;
    if *element == E::Month && lower_behind(3) {
        return None;
    }
    Some((*element, text.len()))
}

fn offset(rest: &[u8]) -> Option<(Element, usize)> {
    let forms: [(&[u8], Offset); 5] = [
        (b"070000", Offset::Seconds),
        (b"07:00:00", Offset::ColonSeconds),
        (b"0700", Offset::Minutes),
        (b"07:00", Offset::ColonMinutes),
        (b"07", Offset::Hours),
    ];
    let (text, form) = forms.iter().find(|(text, _)| rest[1..].starts_with(text))?;
    let z = rest[0] == b'Z';
    Some((Element::Offset { z, form: *form }, text.len() + 1))
}

fn fraction(rest: &[u8]) -> Option<(Element, usize)> {
    let digit = *rest.get(1).filter(|d| matches!(d, b'0' | b'9'))?;
    let digits = rest[1..].iter().take_while(|b| **b == digit).count();
    if rest.get(1 + digits).is_some_and(u8::is_ascii_digit) {
        return None;
    }
    let element = Element::Fraction {
        comma: rest[0] == b',',
        fixed: digit == b'0',
        digits,
    };
    Some((element, digits + 1))
}

/// Returns the next element of a layout, with the literal before it and the rest.
pub(super) fn next(layout: &str) -> Option<(&str, Element, &str)> {
    let bytes = layout.as_bytes();
    for i in 0..bytes.len() {
        if !bytes[i].is_ascii() {
            continue;
        }
        if bytes[i..].starts_with(b"_2006") {
            return Some((&layout[..=i], Element::LongYear, &layout[i + 5..]));
        }
        if let Some((element, length)) = element(&bytes[i..]) {
            return Some((&layout[..i], element, &layout[i + length..]));
        }
    }
    None
}

/// Formats like Go's `Time.Format`.
pub(super) fn format(time: &Time, layout: &str) -> String {
    let civil = time.civil();
    let mut out = String::with_capacity(layout.len() + 16);
    let mut rest = layout;
    while let Some((before, element, after)) = next(rest) {
        out.push_str(before);
        // Writing to a String cannot fail.
        let _ = write_element(&mut out, element, &civil, time.nanos);
        rest = after;
    }
    out.push_str(rest);
    out
}

fn write_element(out: &mut String, element: Element, c: &Civil, nanos: u32) -> std::fmt::Result {
    use Element as E;
    let hour12 = if c.hour % 12 == 0 { 12 } else { c.hour % 12 };
    match element {
        E::LongMonth => out.write_str(MONTHS[c.month - 1]),
        E::Month => out.write_str(&MONTHS[c.month - 1][..3]),
        E::NumMonth => write!(out, "{}", c.month),
        E::ZeroMonth => write!(out, "{:02}", c.month),
        E::LongWeekday => out.write_str(DAYS[c.weekday]),
        E::Weekday => out.write_str(&DAYS[c.weekday][..3]),
        E::Day => write!(out, "{}", c.day),
        E::UnderDay => write!(out, "{:2}", c.day),
        E::ZeroDay => write!(out, "{:02}", c.day),
        E::UnderYearDay => write!(out, "{:3}", c.year_day),
        E::ZeroYearDay => write!(out, "{:03}", c.year_day),
        E::Hour => write!(out, "{:02}", c.hour),
        E::Hour12 => write!(out, "{hour12}"),
        E::ZeroHour12 => write!(out, "{hour12:02}"),
        E::Minute => write!(out, "{}", c.minute),
        E::ZeroMinute => write!(out, "{:02}", c.minute),
        E::Second => write!(out, "{}", c.second),
        E::ZeroSecond => write!(out, "{:02}", c.second),
        E::LongYear if c.year < 0 => write!(out, "-{:04}", -c.year),
        E::LongYear => write!(out, "{:04}", c.year),
        E::Year => write!(out, "{:02}", c.year.max(0) % 100),
        E::Pm => out.write_str(if c.hour >= 12 { "PM" } else { "AM" }),
        E::SmallPm => out.write_str(if c.hour >= 12 { "pm" } else { "am" }),
        E::ZoneName => out.write_str(&c.zone),
        E::Offset { z: true, .. } if c.offset == 0 => out.write_char('Z'),
        E::Offset { form, .. } => write_offset(out, form, c.offset),
        E::Fraction {
            comma,
            fixed,
            digits,
        } => {
            let all = format!("{nanos:09}");
            let mut decimals = all[..digits.min(9)].to_owned();
            if !fixed {
                decimals.truncate(decimals.trim_end_matches('0').len());
                if decimals.is_empty() {
                    return Ok(());
                }
            }
            decimals.extend(std::iter::repeat_n(
                '0',
                if fixed { digits.saturating_sub(9) } else { 0 },
            ));
            write!(out, "{}{decimals}", if comma { ',' } else { '.' })
        }
    }
}

fn write_offset(out: &mut String, form: Offset, offset: i64) -> std::fmt::Result {
    let sign = if offset < 0 { '-' } else { '+' };
    let size = offset.abs();
    let (h, m, s) = (size / 3_600, size / 60 % 60, size % 60);
    match form {
        Offset::Hours => write!(out, "{sign}{h:02}"),
        Offset::Minutes => write!(out, "{sign}{h:02}{m:02}"),
        Offset::ColonMinutes => write!(out, "{sign}{h:02}:{m:02}"),
        Offset::Seconds => write!(out, "{sign}{h:02}{m:02}{s:02}"),
        Offset::ColonSeconds => write!(out, "{sign}{h:02}:{m:02}:{s:02}"),
    }
}
