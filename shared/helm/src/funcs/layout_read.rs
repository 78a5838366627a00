//! The reader of times in Go's layouts.

use super::layout::{DAYS, Element, MONTHS, Offset, next};
use super::moment::{Time, days};
use driftless_go::Error as GoError;
use driftless_go::quote::quote;
use jiff::tz::TimeZone;

/// Parses like Go's `time.Parse`, in UTC if the value does not name a zone.
///
/// # Errors
/// Go's message.
pub(super) fn parse(layout: &str, text: &str) -> Result<Time, GoError> {
    let mut fields = Fields::default();
    let (mut rest, mut value) = (layout, text);
    let bad = |value: &str, element: &str| {
        format!(
            "parsing time {} as {}: cannot parse {} as {}",
            quote(text.as_bytes()),
            quote(layout.as_bytes()),
            quote(value.as_bytes()),
            quote(element.as_bytes())
        )
    };
    while let Some((before, element, after)) = next(rest) {
        let name = &rest[before.len()..rest.len() - after.len()];
        value = skip(value, before).ok_or_else(|| bad(value, before))?;
        value = match fields.read(element, value, after) {
            Ok(left) => left,
            Err(ParseError::Value) => return Err(bad(value, name).into()),
            Err(ParseError::Range(field)) => {
                let text = quote(text.as_bytes());
                return Err(format!("parsing time {text}: {field} out of range").into());
            }
        };
        rest = after;
    }
    value = skip(value, rest).ok_or_else(|| bad(value, rest))?;
    if !value.is_empty() {
        let (text, value) = (quote(text.as_bytes()), quote(value.as_bytes()));
        return Err(format!("parsing time {text}: extra text: {value}").into());
    }
    fields
        .time()
        .map_err(|field| {
            let text = quote(text.as_bytes());
            format!("parsing time {text}: {field} out of range")
        })
        .map_err(Into::into)
}

/// Skips a layout's literal text; runs of spaces match any number of them.
fn skip<'v>(mut value: &'v str, prefix: &str) -> Option<&'v str> {
    let mut prefix = prefix;
    while let Some(c) = prefix.chars().next() {
        if c == ' ' {
            if !value.is_empty() && !value.starts_with(' ') {
                return None;
            }
            prefix = prefix.trim_start_matches(' ');
            value = value.trim_start_matches(' ');
            continue;
        }
        value = value.strip_prefix(c)?;
        prefix = &prefix[c.len_utf8()..];
    }
    Some(value)
}

enum ParseError {
    Value,
    Range(&'static str),
}

#[derive(Default)]
struct Fields {
    year: i64,
    month: Option<i64>,
    day: Option<i64>,
    year_day: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    nanos: u32,
    pm: Option<bool>,
    offset: Option<i64>,
}

/// Reads the first `max` digits, at least `min`.
fn digits(value: &str, min: usize, max: usize) -> Result<(i64, &str), ParseError> {
    let count = value
        .bytes()
        .take(max)
        .take_while(u8::is_ascii_digit)
        .count();
    if count < min {
        return Err(ParseError::Value);
    }
    let number = value[..count].parse().map_err(|_| ParseError::Value)?;
    Ok((number, &value[count..]))
}

fn name<'v>(value: &'v str, names: &[&str], length: usize) -> Result<(usize, &'v str), ParseError> {
    for (i, name) in names.iter().enumerate() {
        let wanted = &name[..length.min(name.len())];
        if let Some(head) = value.get(..wanted.len())
            && head.eq_ignore_ascii_case(wanted)
        {
            return Ok((i, &value[wanted.len()..]));
        }
    }
    Err(ParseError::Value)
}

fn range(
    number: i64,
    limit: std::ops::RangeInclusive<i64>,
    field: &'static str,
) -> Result<i64, ParseError> {
    if limit.contains(&number) {
        Ok(number)
    } else {
        Err(ParseError::Range(field))
    }
}

impl Fields {
    fn read<'v>(
        &mut self,
        element: Element,
        value: &'v str,
        after: &str,
    ) -> Result<&'v str, ParseError> {
        use Element as E;
        let (number, rest) = match element {
            E::Year => {
                let (year, rest) = digits(value, 2, 2)?;
                self.year = year + if year >= 69 { 1900 } else { 2000 };
                return Ok(rest);
            }
            E::LongYear => {
                let (year, rest) = digits(value, 4, 4)?;
                self.year = year;
                return Ok(rest);
            }
            E::Month | E::LongMonth => {
                let length = if element == E::Month { 3 } else { 9 };
                let (i, rest) = name(value, &MONTHS, length)?;
                self.month = Some(i as i64 + 1);
                return Ok(rest);
            }
            E::Weekday | E::LongWeekday => {
                let length = if element == E::Weekday { 3 } else { 9 };
                return name(value, &DAYS, length).map(|(_, rest)| rest);
            }
            E::ZoneName => return self.zone_name(value),
            E::Offset { z, form } => return self.offset(value, z, form),
            E::Pm | E::SmallPm => {
                let head = value.get(..2).ok_or(ParseError::Value)?;
                let (am, pm) = if element == E::Pm {
                    ("AM", "PM")
                } else {
                    ("am", "pm")
                };
                self.pm = Some(match head {
                    h if h == am => false,
                    h if h == pm => true,
                    _ => return Err(ParseError::Value),
                });
                return Ok(&value[2..]);
            }
            E::Fraction { fixed, digits, .. } => return self.fraction(value, fixed, digits),
            E::UnderDay => digits(value.strip_prefix(' ').unwrap_or(value), 1, 2)?,
            E::UnderYearDay => digits(value.trim_start_matches(' '), 1, 3)?,
            E::ZeroYearDay => digits(value, 3, 3)?,
            E::ZeroMonth | E::ZeroDay | E::ZeroHour12 | E::ZeroMinute | E::ZeroSecond => {
                digits(value, 2, 2)?
            }
            E::NumMonth | E::Day | E::Hour | E::Hour12 | E::Minute | E::Second => {
                digits(value, 1, 2)?
            }
        };
        match element {
            E::NumMonth | E::ZeroMonth => self.month = Some(range(number, 1..=12, "month")?),
            E::Day | E::UnderDay | E::ZeroDay => self.day = Some(number),
            E::UnderYearDay | E::ZeroYearDay => self.year_day = Some(number),
            E::Hour => self.hour = range(number, 0..=23, "hour")?,
            E::Hour12 | E::ZeroHour12 => self.hour = range(number, 0..=12, "hour")?,
            E::Minute | E::ZeroMinute => self.minute = range(number, 0..=59, "minute")?,
            _ => {
                self.second = range(number, 0..=59, "second")?;
                return Ok(self.hidden_fraction(rest, after));
            }
        }
        Ok(rest)
    }

    /// Reads a fraction after the seconds, also if the layout does not have one.
    fn hidden_fraction<'v>(&mut self, rest: &'v str, after: &str) -> &'v str {
        let b = rest.as_bytes();
        let starts = b.len() > 1 && matches!(b[0], b'.' | b',') && b[1].is_ascii_digit();
        let named = matches!(next(after), Some(("", Element::Fraction { .. }, _)));
        if !starts || named {
            return rest;
        }
        let count = b[1..].iter().take_while(|d| d.is_ascii_digit()).count();
        self.nanos = nanos(&rest[1..=count]);
        &rest[count + 1..]
    }

    fn fraction<'v>(
        &mut self,
        value: &'v str,
        fixed: bool,
        wanted: usize,
    ) -> Result<&'v str, ParseError> {
        let b = value.as_bytes();
        let separated = matches!(b.first(), Some(b'.' | b','));
        if !separated || !b.get(1).is_some_and(u8::is_ascii_digit) {
            return if fixed {
                Err(ParseError::Value)
            } else {
                Ok(value)
            };
        }
        let have = b[1..].iter().take_while(|d| d.is_ascii_digit()).count();
        if fixed && have < wanted {
            return Err(ParseError::Value);
        }
        let count = if fixed { wanted } else { have.min(9) };
        self.nanos = nanos(&value[1..=count]);
        Ok(&value[count + 1..])
    }

    fn zone_name<'v>(&mut self, value: &'v str) -> Result<&'v str, ParseError> {
        if let Some(rest) = value.strip_prefix("UTC") {
            self.offset = Some(0);
            return Ok(rest);
        }
        let count = value
            .bytes()
            .take(6)
            .take_while(u8::is_ascii_uppercase)
            .count();
        if !(3..=5).contains(&count) {
            return Err(ParseError::Value);
        }
        Ok(&value[count..])
    }

    fn offset<'v>(&mut self, value: &'v str, z: bool, form: Offset) -> Result<&'v str, ParseError> {
        if z && let Some(rest) = value.strip_prefix('Z') {
            self.offset = Some(0);
            return Ok(rest);
        }
        let sign = match value.as_bytes().first() {
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ => return Err(ParseError::Value),
        };
        let colon = matches!(form, Offset::ColonMinutes | Offset::ColonSeconds);
        let parts = match form {
            Offset::Hours => 1,
            Offset::Minutes | Offset::ColonMinutes => 2,
            Offset::Seconds | Offset::ColonSeconds => 3,
        };
        let mut rest = &value[1..];
        let mut seconds = 0;
        for (i, unit) in [3_600, 60, 1].into_iter().take(parts).enumerate() {
            if i > 0 && colon {
                rest = rest.strip_prefix(':').ok_or(ParseError::Value)?;
            }
            let (number, left) = digits(rest, 2, 2)?;
            range(number, 0..=if i == 0 { 24 } else { 60 }, "time zone offset")?;
            seconds += number * unit;
            rest = left;
        }
        self.offset = Some(sign * seconds);
        Ok(rest)
    }

    fn time(self) -> Result<Time, &'static str> {
        let leap = self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0);
        let hour = match self.pm {
            Some(true) if self.hour < 12 => self.hour + 12,
            Some(false) if self.hour == 12 => 0,
            _ => self.hour,
        };
        let day_number = match (self.year_day, self.month, self.day) {
            (Some(n), month, day) => {
                if !(1..=365 + i64::from(leap)).contains(&n) {
                    return Err("day-of-year");
                }
                let number = days(self.year, 1, 1) + n - 1;
                if let (Some(m), Some(d)) = (month, day)
                    && days(self.year, m, d) != number
                {
                    return Err("day-of-year does not match month");
                }
                number
            }
            (None, month, day) => {
                let (month, day) = (month.unwrap_or(1), day.unwrap_or(1));
                let last = match month {
                    2 => 28 + i64::from(leap),
                    4 | 6 | 9 | 11 => 30,
                    _ => 31,
                };
                if !(1..=last).contains(&day) {
                    return Err("day");
                }
                days(self.year, month, day)
            }
        };
        let offset = self.offset.unwrap_or(0);
        let zone = i32::try_from(offset)
            .ok()
            .filter(|o| *o != 0)
            .and_then(|o| jiff::tz::Offset::from_seconds(o).ok())
            .map(TimeZone::fixed);
        Ok(Time {
            seconds: day_number * 86_400 + hour * 3_600 + self.minute * 60 + self.second - offset,
            nanos: self.nanos,
            zone,
        })
    }
}

fn nanos(digits: &str) -> u32 {
    let padded = format!("{digits:0<9}");
    padded[..9].parse().unwrap_or(0)
}
