//! Quantities in expressions: `quantity('1Gi').isLessThan(..)`.

use ::cel::common::types::{CelDouble, INT_TYPE, STRING_TYPE, Type};
use ::cel::common::value::CowVal;
use ::cel::{DeclarationError, Env, ExecutionError};
use driftless_cel::arguments::{number, text};
use driftless_cel::functions::{integer, truth};

use super::own_type::{own, own_type};
use crate::values::quantity;

static QUANTITY: Type = Type::new_unspecified_type("kubernetes.Quantity");

/// A quantity in thousandths.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Quantity(i128);

own_type!(Quantity, QUANTITY, equal);

fn of(args: &[CowVal<'_, '_>], index: usize) -> Result<i128, ExecutionError> {
    own(args, index).map(|quantity: &Quantity| quantity.0)
}

fn whole(value: i128) -> Option<i64> {
    (value % 1000 == 0)
        .then(|| i64::try_from(value / 1000).ok())
        .flatten()
}

fn sum<'b, 'v>(a: i128, b: Option<i128>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let total = b.and_then(|b| a.checked_add(b));
    total
        .map(|total| CowVal::owned(Quantity(total)))
        .ok_or_else(|| ExecutionError::function_error("quantity", "integer overflow"))
}

/// Declares the functions for quantities.
///
/// # Errors
/// A function that is declared already.
pub(super) fn declare(env: &mut Env) -> Result<(), DeclarationError> {
    let own = || QUANTITY.to_owned();
    let member = |env: &mut Env, name: &str, id: &str, args: Vec<Type>, op| {
        env.add_member_overload(name, id, QUANTITY.to_owned(), args, op)
    };
    env.add_overload(
        "isQuantity",
        "is_quantity_string",
        vec![STRING_TYPE],
        |args| Ok(truth(quantity::thousandths(text(&args, 0)?).is_some())),
    )?;
    env.add_overload("quantity", "string_to_quantity", vec![STRING_TYPE], |args| {
        let written = text(&args, 0)?;
        quantity::thousandths(written)
            .map(|value| CowVal::owned(Quantity(value)))
            .ok_or_else(|| {
                let message = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
                ExecutionError::function_error("quantity", message)
            })
    })?;
    member(env, "sign", "quantity_sign", vec![], |args| {
        Ok(integer(
            i64::try_from(of(&args, 0)?.signum()).unwrap_or_default(),
        ))
    })?;
    member(env, "isInteger", "quantity_is_integer", vec![], |args| {
        Ok(truth(whole(of(&args, 0)?).is_some()))
    })?;
    member(env, "asInteger", "quantity_as_integer", vec![], |args| {
        whole(of(&args, 0)?).map(integer).ok_or_else(|| {
            ExecutionError::function_error("asInteger", "cannot convert value to integer")
        })
    })?;
    member(
        env,
        "asApproximateFloat",
        "quantity_get_float",
        vec![],
        |args| {
            let value: f64 = of(&args, 0)?.to_string().parse().unwrap_or(f64::NAN);
            Ok(CowVal::owned(CelDouble::from(value / 1000.0)))
        },
    )?;
    member(env, "add", "quantity_add", vec![own()], |args| {
        sum(of(&args, 0)?, Some(of(&args, 1)?))
    })?;
    member(env, "add", "quantity_add_int", vec![INT_TYPE], |args| {
        sum(of(&args, 0)?, Some(i128::from(number(&args, 1)?) * 1000))
    })?;
    member(env, "sub", "quantity_sub", vec![own()], |args| {
        sum(of(&args, 0)?, of(&args, 1)?.checked_neg())
    })?;
    member(env, "sub", "quantity_sub_int", vec![INT_TYPE], |args| {
        sum(of(&args, 0)?, Some(-i128::from(number(&args, 1)?) * 1000))
    })?;
    member(
        env,
        "isGreaterThan",
        "quantity_is_greater_than",
        vec![own()],
        |args| Ok(truth(of(&args, 0)? > of(&args, 1)?)),
    )?;
    member(
        env,
        "isLessThan",
        "quantity_is_less_than",
        vec![own()],
        |args| Ok(truth(of(&args, 0)? < of(&args, 1)?)),
    )?;
    member(
        env,
        "compareTo",
        "quantity_compare_to",
        vec![own()],
        |args| Ok(integer(of(&args, 0)?.cmp(&of(&args, 1)?) as i64)),
    )
}
