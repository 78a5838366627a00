//! Date functions. The local time zone is UTC; `now` is an input of the render.

use super::arg::{any, bytes, out, text};
use super::cast::saturating_int;
use super::moment::{SECOND, Time};
use super::render_context::RenderContext;
use super::{A, Entry, NONE, Out, SA, SS, layout, layout_read};
use driftless_go::duration;
use driftless_gotmpl::{Exec, FuncError, IntType, Param, Value};
use jiff::tz::TimeZone;

pub(super) const TABLE: &[Entry] = &[
    ("now", NONE, |e, _| Ok(now(e)?.value())),
    ("date", SA, |e, a| date(e, &text(a, 0), any(a, 1), "Local")),
    ("dateInZone", SAS, |e, a| {
        date(e, &text(a, 0), any(a, 1), &text(a, 2))
    }),
    ("date_in_zone", SAS, |e, a| {
        date(e, &text(a, 0), any(a, 1), &text(a, 2))
    }),
    ("htmlDate", A, |e, a| {
        date(e, "2006-01-02", any(a, 0), "Local")
    }),
    ("htmlDateInZone", &[Param::Any, Param::Str], |e, a| {
        date(e, "2006-01-02", any(a, 0), &text(a, 1))
    }),
    ("dateModify", SPAN_TIME, modify),
    ("date_modify", SPAN_TIME, modify),
    ("mustDateModify", SPAN_TIME, must_modify),
    ("must_date_modify", SPAN_TIME, must_modify),
    ("toDate", SS, |e, a| {
        charge_parse(e, a)?;
        let read = layout_read::parse(&text(a, 0), &text(a, 1));
        Ok(read.unwrap_or_else(|_| Time::zero()).value())
    }),
    ("mustToDate", SS, |e, a| {
        charge_parse(e, a)?;
        Ok(layout_read::parse(&text(a, 0), &text(a, 1))?.value())
    }),
    ("unixEpoch", &[Param::Host("time.Time")], |_, a| {
        Ok(Value::str(time(any(a, 0))?.seconds.to_string()))
    }),
    ("ago", A, |e, a| {
        let now = now(e)?;
        let then = moment(any(a, 0), false).unwrap_or_else(|| now.clone());
        out(
            e,
            duration::format(duration::round(now.since(&then), SECOND)),
        )
    }),
    ("duration", A, |e, a| {
        let seconds = match any(a, 0) {
            Value::Str(s) => saturating_int(s),
            Value::Int(n, IntType::Int64) => *n,
            _ => 0,
        };
        out(e, duration::format(seconds.wrapping_mul(SECOND)))
    }),
    ("durationRound", A, duration_round),
];

const SAS: &[Param] = &[Param::Str, Param::Any, Param::Str];
const SPAN_TIME: &[Param] = &[Param::Str, Param::Host("time.Time")];

pub(super) fn now(exec: &Exec<'_>) -> Result<Time, FuncError> {
    let (seconds, nanos) = RenderContext::of(exec)?.now;
    Ok(Time::utc(seconds, nanos))
}

fn time(value: &Value) -> Result<&Time, FuncError> {
    Time::of(value).ok_or_else(|| "not a time".into())
}

/// Returns the moment of a time or of a number of seconds since 1970.
fn moment(value: &Value, int32: bool) -> Option<Time> {
    match value {
        Value::Int(n, IntType::Int | IntType::Int64) => Some(Time::utc(*n, 0)),
        Value::Int(n, IntType::Int32) if int32 => Some(Time::utc(*n, 0)),
        other => Time::of(other).cloned(),
    }
}

/// Loads a zone like Go's `time.LoadLocation`; `None` is UTC, which is also used for unknown zones.
fn zone(name: &str) -> Option<TimeZone> {
    if matches!(name, "" | "UTC" | "Local") {
        return None;
    }
    // Go looks for files: names are case-sensitive.
    let zone = jiff::tz::db().get(name).ok()?;
    (zone.iana_name() == Some(name)).then_some(zone)
}

fn date(exec: &mut Exec<'_>, form: &str, value: &Value, zone_name: &str) -> Out {
    let at = match moment(value, true) {
        Some(at) => at,
        None => now(exec)?,
    };
    let local = Time {
        zone: zone(zone_name),
        ..at
    };
    exec.charge_bytes(form.len().saturating_mul(4))?;
    out(exec, layout::format(&local, form))
}

/// Charges for reading a date: a failure quotes both strings.
fn charge_parse(exec: &mut Exec<'_>, a: &[Value]) -> Result<(), FuncError> {
    let length = bytes(a, 0).len() + bytes(a, 1).len();
    exec.ensure_capacity(length.saturating_mul(8))?;
    exec.charge(length as u64)
}

fn modify(_: &mut Exec<'_>, a: &[Value]) -> Out {
    let at = time(any(a, 1))?;
    Ok(match duration::parse(&text(a, 0)) {
        Ok(nanos) => at.plus(nanos).value(),
        Err(_) => any(a, 1).clone(),
    })
}

fn must_modify(_: &mut Exec<'_>, a: &[Value]) -> Out {
    let nanos = duration::parse(&text(a, 0))?;
    Ok(time(any(a, 1))?.plus(nanos).value())
}

/// Rounds like sprig's `durationRound`: the largest unit, truncated.
fn duration_round(exec: &mut Exec<'_>, a: &[Value]) -> Out {
    let nanos = match any(a, 0) {
        Value::Str(s) => duration::parse(&s.lossy()).unwrap_or(0),
        Value::Int(n, IntType::Int64) => *n,
        other => match Time::of(other) {
            Some(then) => now(exec)?.since(then),
            None => 0,
        },
    };
    let size = nanos.unsigned_abs();
    const UNITS: [(u64, &str); 6] = [
        (31_536_000, "y"),
        (2_592_000, "mo"),
        (86_400, "d"),
        (3_600, "h"),
        (60, "m"),
        (1, "s"),
    ];
    for (seconds, name) in UNITS {
        let unit = seconds * SECOND as u64;
        if size > unit {
            return out(exec, format!("{}{name}", size / unit));
        }
    }
    Ok(Value::str("0s"))
}
