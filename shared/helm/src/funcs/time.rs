//! Go's `time.Time` and `time.Duration` for templates.

use super::arg::{int, text};
use super::moment::{DAY, SECOND, Time, days};
use super::{Out, layout};
use driftless_go::duration;
use driftless_gotmpl::{FuncError, IntType, Kind, Method, Object, Param, Value};
use std::any::Any;
use std::borrow::Cow;
use std::rc::Rc;

impl Time {
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
