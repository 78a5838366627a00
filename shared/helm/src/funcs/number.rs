//! Arithmetic functions, and lists of numbers.

use super::arg::{any, int};
use super::cast::{to_float, to_int};
use super::decimal::Decimal;
use super::{A, AA, Entry, I, Out};
use driftless_gotmpl::{Exec, FuncError, List, Param, TypeInfo, Value};

pub(super) const TABLE: &[Entry] = &[
    ("add1", A, |_, a| {
        Ok(Value::int64(to_int(any(a, 0)).wrapping_add(1)))
    }),
    ("sub", AA, |_, a| {
        Ok(Value::int64(
            to_int(any(a, 0)).wrapping_sub(to_int(any(a, 1))),
        ))
    }),
    ("div", AA, |_, a| divide(a, i64::wrapping_div)),
    ("mod", AA, |_, a| divide(a, i64::wrapping_rem)),
    ("add1f", A, |_, a| {
        decimal(to_float(any(a, 0)), &[Value::int(1)], |x, y| Some(x.add(y)))
    }),
    ("floor", A, |_, a| {
        Ok(Value::Float(to_float(any(a, 0)).floor()))
    }),
    ("ceil", A, |_, a| {
        Ok(Value::Float(to_float(any(a, 0)).ceil()))
    }),
    ("until", I, |e, a| {
        let count = int(a, 0);
        ints(e, 0, count, if count < 0 { -1 } else { 1 })
    }),
    (
        "untilStep",
        &[Param::Int, Param::Int, Param::Int],
        |e, a| ints(e, int(a, 0), int(a, 1), int(a, 2)),
    ),
];

pub(super) const VARIADIC: &[Entry] = &[
    ("add", A, |_, a| {
        Ok(Value::int64(
            a.iter().fold(0, |sum, v| sum.wrapping_add(to_int(v))),
        ))
    }),
    ("mul", AA, |_, a| {
        let rest = a.get(1..).unwrap_or_default();
        Ok(Value::int64(
            rest.iter()
                .fold(to_int(any(a, 0)), |p, v| p.wrapping_mul(to_int(v))),
        ))
    }),
    ("max", AA, |_, a| extreme(a, i64::max)),
    ("biggest", AA, |_, a| extreme(a, i64::max)),
    ("min", AA, |_, a| extreme(a, i64::min)),
    ("maxf", AA, |_, a| extreme_float(a, f64::max)),
    ("minf", AA, |_, a| extreme_float(a, f64::min)),
    ("addf", A, |_, a| decimal(0.0, a, |x, y| Some(x.add(y)))),
    ("subf", AA, |_, a| over(a, |x, y| Some(x.sub(y)))),
    ("mulf", AA, |_, a| over(a, |x, y| Some(x.mul(y)))),
    ("divf", AA, |_, a| over(a, Decimal::div)),
    ("round", &[Param::Any, Param::Int, Param::Float64], round),
    ("seq", I, seq),
];

fn divide(a: &[Value], by: fn(i64, i64) -> i64) -> Out {
    match to_int(any(a, 1)) {
        0 => Err("runtime error: integer divide by zero".into()),
        divisor => Ok(Value::int64(by(to_int(any(a, 0)), divisor))),
    }
}

fn extreme(a: &[Value], pick: fn(i64, i64) -> i64) -> Out {
    let numbers = a.iter().map(to_int);
    Ok(Value::int64(numbers.reduce(pick).unwrap_or(0)))
}

/// Computes like Go's `math.Max` and `math.Min`: NaN wins.
fn extreme_float(a: &[Value], pick: fn(f64, f64) -> f64) -> Out {
    let numbers = a.iter().map(to_float);
    let best = numbers.reduce(|x, y| {
        if x.is_nan() || y.is_nan() {
            f64::NAN
        } else {
            pick(x, y)
        }
    });
    Ok(Value::Float(best.unwrap_or(0.0)))
}

type Operation = fn(&Decimal, &Decimal) -> Option<Decimal>;

fn over(a: &[Value], operation: Operation) -> Out {
    decimal(
        to_float(any(a, 0)),
        a.get(1..).unwrap_or_default(),
        operation,
    )
}

fn decimal(first: f64, rest: &[Value], operation: Operation) -> Out {
    let read = |f: f64| {
        Decimal::new(f).ok_or_else(|| {
            let printed = driftless_go::float::format(f, 'g', None);
            FuncError::new(format!("Cannot create a Decimal from {printed}"))
        })
    };
    let mut result = read(first)?;
    for value in rest {
        result = operation(&result, &read(to_float(value))?)
            .ok_or_else(|| FuncError::new("decimal division by 0"))?;
    }
    Ok(Value::Float(result.to_f64()))
}

fn round(_: &mut Exec<'_>, a: &[Value]) -> Out {
    let on = match a.get(2) {
        Some(Value::Float(f)) => *f,
        _ => 0.5,
    };
    let power = 10f64.powi(i32::try_from(int(a, 1)).unwrap_or(i32::MAX));
    let digit = power * to_float(any(a, 0));
    let rounded = if digit.fract() >= on {
        digit.ceil()
    } else {
        digit.floor()
    };
    Ok(Value::Float(rounded / power))
}

/// Returns the numbers from `start` up to, but not including, `stop`.
fn steps(exec: &mut Exec<'_>, start: i64, stop: i64, step: i64) -> Result<Vec<i64>, FuncError> {
    let forward = stop >= start;
    if forward && step <= 0 || !forward && step >= 0 {
        return Ok(Vec::new());
    }
    let distance = stop.abs_diff(start);
    let count = distance.div_ceil(step.unsigned_abs());
    exec.charge_bytes(
        usize::try_from(count)
            .unwrap_or(usize::MAX)
            .saturating_mul(32),
    )?;
    let mut out = Vec::new();
    let mut at = start;
    while if forward { at < stop } else { at > stop } {
        out.push(at);
        match at.checked_add(step) {
            Some(next) => at = next,
            None => break,
        }
    }
    Ok(out)
}

fn ints(exec: &mut Exec<'_>, start: i64, stop: i64, step: i64) -> Out {
    let numbers = steps(exec, start, stop, step)?;
    let items = numbers.into_iter().map(Value::int).collect();
    Ok(Value::List(List::typed(&TypeInfo::INTS, items)))
}

fn seq(exec: &mut Exec<'_>, a: &[Value]) -> Out {
    let n: Vec<i64> = (0..a.len()).map(|i| int(a, i)).collect();
    let (start, end, step) = match n.as_slice() {
        [end] => (1, *end, None),
        [start, end] => (*start, *end, None),
        [start, step, end] => (*start, *end, Some(*step)),
        _ => return Ok(Value::str("")),
    };
    let direction = if end < start { -1 } else { 1 };
    if end < start && step.is_some_and(|s| s > 0) {
        return Ok(Value::str(""));
    }
    let numbers = steps(
        exec,
        start,
        end.wrapping_add(direction),
        step.unwrap_or(direction),
    )?;
    let words: Vec<String> = numbers.iter().map(i64::to_string).collect();
    Ok(Value::str(words.join(" ")))
}
