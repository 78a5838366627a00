//! Go's `time.Time` and `time.Duration` for templates.

use super::arg::{int, text};
use super::{Out, layout};
use driftless_go::duration;
use driftless_gotmpl::{FuncError, IntType, Kind, Method, Object, Param, Value};
use jiff::tz::TimeZone;
use std::any::Any;
use std::borrow::Cow;
use std::rc::Rc;

/// The nanoseconds of a second.
pub(super) const SECOND: i64 = 1_000_000_000;

const DAY: i64 = 86_400;

/// A moment in a time zone.
#[derive(Clone, Debug)]
pub(crate) struct Time {
    /// The seconds since 1970.
    pub seconds: i64,
    /// The nanoseconds in addition to the seconds.
    pub nanos: u32,
    /// The zone; `None` is UTC, which is also the local one.
    pub zone: Option<TimeZone>,
}

/// Date and time of day in a zone.
pub(super) struct Civil {
    pub year: i64,
    pub month: usize,
    pub day: i64,
    /// The day of the year, counted from 1.
    pub year_day: i64,
    /// The day of the week; 0 is Sunday.
    pub weekday: usize,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
    /// The offset in seconds east of Greenwich.
    pub offset: i64,
    /// The abbreviation of the zone, such as `CEST`.
    pub zone: String,
}

/// Returns the days since 1970 of a date in the proleptic Gregorian calendar.
pub(super) fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let shifted = (month + 9) % 12;
    let of_year = (153 * shifted + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Returns year, month and day of a day since 1970.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

impl Time {
    /// Creates a moment in UTC.
    pub fn utc(seconds: i64, nanos: u32) -> Self {
        Time {
            seconds,
            nanos,
            zone: None,
        }
    }

    /// Returns Go's zero time: the first of January of the year 1.
    pub fn zero() -> Self {
        Time::utc(-62_135_596_800, 0)
    }

    /// Returns the value for templates.
    pub fn value(self) -> Value {
        Value::Object(Rc::new(self))
    }

    /// Returns the time in a value, if it is one.
    pub fn of(value: &Value) -> Option<&Time> {
        match value {
            Value::Object(o) => o.as_any().downcast_ref(),
            _ => None,
        }
    }

    /// Returns offset and name of the zone at this moment.
    fn offset(&self) -> (i64, String) {
        let utc = || (0, "UTC".to_owned());
        let Some(zone) = &self.zone else {
            return utc();
        };
        let nearest = self.seconds.clamp(-377_705_023_201, 253_402_207_200);
        match jiff::Timestamp::from_second(nearest) {
            Ok(at) => {
                let info = zone.to_offset_info(at);
                (
                    i64::from(info.offset().seconds()),
                    info.abbreviation().to_owned(),
                )
            }
            Err(_) => utc(),
        }
    }

    pub(super) fn civil(&self) -> Civil {
        let (offset, zone) = self.offset();
        let local = self.seconds.saturating_add(offset);
        let (day_number, rest) = (local.div_euclid(DAY), local.rem_euclid(DAY));
        let (year, month, day) = date(day_number);
        Civil {
            year,
            month: month as usize,
            day,
            year_day: day_number - days(year, 1, 1) + 1,
            weekday: (day_number + 4).rem_euclid(7) as usize,
            hour: rest / 3_600,
            minute: rest / 60 % 60,
            second: rest % 60,
            offset,
            zone,
        }
    }

    /// Returns the moment `nanos` nanoseconds later.
    pub fn plus(&self, nanos: i64) -> Time {
        let sum = i128::from(self.seconds) * i128::from(SECOND)
            + i128::from(self.nanos)
            + i128::from(nanos);
        let second = i128::from(SECOND);
        Time {
            seconds: i64::try_from(sum.div_euclid(second)).unwrap_or(i64::MAX),
            nanos: sum.rem_euclid(second) as u32,
            zone: self.zone.clone(),
        }
    }

    /// Returns the nanoseconds since another moment, saturated.
    pub fn since(&self, other: &Time) -> i64 {
        let total = |t: &Time| i128::from(t.seconds) * i128::from(SECOND) + i128::from(t.nanos);
        let difference = total(self) - total(other);
        i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX })
    }

    fn order(&self, other: &Time) -> std::cmp::Ordering {
        (self.seconds, self.nanos).cmp(&(other.seconds, other.nanos))
    }

    /// Formats it as `2006-01-02T15:04:05.999999999Z07:00`.
    fn rfc3339(&self) -> String {
        layout::format(self, "2006-01-02T15:04:05.999999999Z07:00")
    }
}

/// A named number with its printed form: a month, a weekday, a duration.
struct Named {
    type_name: &'static str,
    int: IntType,
    number: i64,
    text: String,
    methods: &'static [Method],
}

impl Object for Named {
    fn type_name(&self) -> Cow<'static, str> {
        Cow::Borrowed(self.type_name)
    }
    fn kind(&self) -> Kind {
        Kind::Int(self.int)
    }
    fn integer(&self) -> Option<i64> {
        Some(self.number)
    }
    fn fields(&self) -> Vec<(&'static str, Value)> {
        Vec::new()
    }
    fn methods(&self) -> &'static [Method] {
        self.methods
    }
    fn string(&self) -> Option<String> {
        Some(self.text.clone())
    }
    fn json(&self) -> Option<Value> {
        Some(Value::Int(self.number, self.int))
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Returns a `time.Duration` of `nanos` nanoseconds.
pub(super) fn duration_value(nanos: i64) -> Value {
    Value::Object(Rc::new(Named {
        type_name: "time.Duration",
        int: IntType::Int64,
        number: nanos,
        text: duration::format(nanos),
        methods: DURATION_METHODS,
    }))
}

/// Returns the nanoseconds of a `time.Duration`.
pub(super) fn nanos_of(value: &Value) -> Option<i64> {
    match value {
        Value::Object(o) if o.type_name() == "time.Duration" => o.integer(),
        _ => None,
    }
}

fn named(type_name: &'static str, number: i64, text: &str) -> Value {
    Value::Object(Rc::new(Named {
        type_name,
        int: IntType::Int,
        number,
        text: text.to_owned(),
        methods: NAMED_METHODS,
    }))
}

/// The methods of months and weekdays.
const NAMED_METHODS: &[Method] = &[Method {
    name: "String",
    params: &[],
    variadic: false,
    call: |_, value, _| match value {
        Value::Object(object) => Ok(Value::str(object.string().unwrap_or_default())),
        _ => Err("not a name".into()),
    },
}];

fn time(value: &Value) -> Result<&Time, FuncError> {
    Time::of(value).ok_or_else(|| "not a time".into())
}

fn nanos(value: &Value) -> Result<i64, FuncError> {
    nanos_of(value).ok_or_else(|| "not a duration".into())
}

const OTHER: &[Param] = &[Param::Host("time.Time")];
const SPAN: &[Param] = &[Param::Host("time.Duration")];
const DATE: &[Param] = &[Param::Int, Param::Int, Param::Int];

macro_rules! method {
    ($name:literal, $params:expr, $of:ident, |$t:ident, $a:ident| $body:expr) => {
        Method {
            name: $name,
            params: $params,
            variadic: false,
            call: |_, receiver, $a| -> Out {
                let $t = $of(receiver)?;
                $body
            },
        }
    };
}

const TIME_METHODS: &[Method] = &[
    method!("Year", &[], time, |t, _a| Ok(Value::int(t.civil().year))),
    method!("Month", &[], time, |t, _a| {
        let month = t.civil().month;
        Ok(named("time.Month", month as i64, layout::MONTHS[month - 1]))
    }),
    method!("Day", &[], time, |t, _a| Ok(Value::int(t.civil().day))),
    method!("Hour", &[], time, |t, _a| Ok(Value::int(t.civil().hour))),
    method!("Minute", &[], time, |t, _a| Ok(Value::int(
        t.civil().minute
    ))),
    method!("Second", &[], time, |t, _a| Ok(Value::int(
        t.civil().second
    ))),
    method!("Nanosecond", &[], time, |t, _a| Ok(Value::int(i64::from(
        t.nanos
    )))),
    method!("YearDay", &[], time, |t, _a| Ok(Value::int(
        t.civil().year_day
    ))),
    method!("Weekday", &[], time, |t, _a| {
        let day = t.civil().weekday;
        Ok(named("time.Weekday", day as i64, layout::DAYS[day]))
    }),
    method!("Unix", &[], time, |t, _a| Ok(Value::int64(t.seconds))),
    method!("UnixMilli", &[], time, |t, _a| {
        Ok(Value::int64(
            t.seconds
                .wrapping_mul(1_000)
                .wrapping_add(i64::from(t.nanos) / 1_000_000),
        ))
    }),
    method!("UnixMicro", &[], time, |t, _a| {
        Ok(Value::int64(
            t.seconds
                .wrapping_mul(1_000_000)
                .wrapping_add(i64::from(t.nanos) / 1_000),
        ))
    }),
    method!("UnixNano", &[], time, |t, _a| {
        Ok(Value::int64(
            t.seconds
                .wrapping_mul(SECOND)
                .wrapping_add(i64::from(t.nanos)),
        ))
    }),
    method!("IsZero", &[], time, |t, _a| {
        Ok(Value::Bool(t.order(&Time::zero()).is_eq()))
    }),
    method!("UTC", &[], time, |t, _a| Ok(
        Time::utc(t.seconds, t.nanos).value()
    )),
    method!("Local", &[], time, |t, _a| Ok(Time::utc(
        t.seconds, t.nanos
    )
    .value())),
    method!("String", &[], time, |t, _a| Ok(Value::str(
        t.string().unwrap_or_default()
    ))),
    method!("Format", &[Param::Str], time, |t, a| {
        Ok(Value::str(layout::format(t, &text(a, 0))))
    }),
    method!("Before", OTHER, time, |t, a| Ok(Value::Bool(
        t.order(time(&a[0])?).is_lt()
    ))),
    method!("After", OTHER, time, |t, a| Ok(Value::Bool(
        t.order(time(&a[0])?).is_gt()
    ))),
    method!("Equal", OTHER, time, |t, a| Ok(Value::Bool(
        t.order(time(&a[0])?).is_eq()
    ))),
    method!("Compare", OTHER, time, |t, a| Ok(Value::int(
        t.order(time(&a[0])?) as i64
    ))),
    method!("Sub", OTHER, time, |t, a| Ok(duration_value(
        t.since(time(&a[0])?)
    ))),
    method!("Add", SPAN, time, |t, a| Ok(t.plus(nanos(&a[0])?).value())),
    method!("AddDate", DATE, time, |t, a| {
        Ok(add_date(t, int(a, 0), int(a, 1), int(a, 2)).value())
    }),
];

const DURATION_METHODS: &[Method] = &[
    method!("String", &[], nanos, |n, _a| Ok(Value::str(
        duration::format(n)
    ))),
    method!("Nanoseconds", &[], nanos, |n, _a| Ok(Value::int64(n))),
    method!("Microseconds", &[], nanos, |n, _a| Ok(Value::int64(
        n / 1_000
    ))),
    method!("Milliseconds", &[], nanos, |n, _a| Ok(Value::int64(
        n / 1_000_000
    ))),
    method!("Seconds", &[], nanos, |n, _a| Ok(Value::Float(
        duration::float(n, SECOND)
    ))),
    method!("Minutes", &[], nanos, |n, _a| {
        Ok(Value::Float(duration::float(n, 60 * SECOND)))
    }),
    method!("Hours", &[], nanos, |n, _a| {
        Ok(Value::Float(duration::float(n, 3_600 * SECOND)))
    }),
    method!("Abs", &[], nanos, |n, _a| Ok(duration_value(
        n.saturating_abs()
    ))),
    method!("Round", SPAN, nanos, |n, a| {
        Ok(duration_value(duration::round(n, nanos(&a[0])?)))
    }),
    method!("Truncate", SPAN, nanos, |n, a| {
        Ok(duration_value(duration::truncate(n, nanos(&a[0])?)))
    }),
];

/// Returns the time after adding years, months and days, normalized like Go.
fn add_date(t: &Time, years: i64, months: i64, more_days: i64) -> Time {
    let c = t.civil();
    let month = (c.month as i64 - 1).saturating_add(months);
    let year = c
        .year
        .saturating_add(years)
        .saturating_add(month.div_euclid(12));
    let first = days(
        year.clamp(-100_000_000, 100_000_000),
        month.rem_euclid(12) + 1,
        1,
    );
    let day = first.saturating_add(c.day - 1).saturating_add(more_days);
    let local = day
        .saturating_mul(DAY)
        .saturating_add(c.hour * 3_600 + c.minute * 60 + c.second);
    Time {
        seconds: local.saturating_sub(c.offset),
        nanos: t.nanos,
        zone: t.zone.clone(),
    }
}

impl Object for Time {
    fn type_name(&self) -> Cow<'static, str> {
        Cow::Borrowed("time.Time")
    }
    fn fields(&self) -> Vec<(&'static str, Value)> {
        Vec::new()
    }
    fn methods(&self) -> &'static [Method] {
        TIME_METHODS
    }
    fn string(&self) -> Option<String> {
        Some(layout::format(
            self,
            "2006-01-02 15:04:05.999999999 -0700 MST",
        ))
    }
    fn json(&self) -> Option<Value> {
        Some(Value::str(self.rfc3339()))
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
