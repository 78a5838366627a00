//! The functions that every use of the language has, and helpers to declare more.

use ::cel::common::types::{CelBool, CelInt, CelString, LIST_TYPE};
use ::cel::common::value::{CowVal, Val};
use ::cel::{DeclarationError, Env, extensions};

use crate::arguments::items;
use crate::meter;

/// The names of CEL's own types.
pub const TYPES: [&str; 10] = [
    "int",
    "uint",
    "double",
    "bool",
    "string",
    "bytes",
    "list",
    "map",
    "null_type",
    "type",
];

/// Returns the language with CEL's own functions and cel-go's extensions for strings, encodings
/// and sets.
///
/// # Errors
/// A function that is declared already.
pub fn environment() -> Result<Env, DeclarationError> {
    let mut env = Env::stdlib();
    env.add_extension(extensions::strings)?;
    env.add_extension(extensions::encoders)?;
    env.add_extension(sets)?;
    meter::declare(&mut env)?;
    Ok(env)
}

/// Declares the functions of cel-go's `ext.Sets()`.
fn sets(env: &mut Env) -> Result<(), DeclarationError> {
    fn holds(list: &[&dyn Val], item: &dyn Val) -> bool {
        list.iter().any(|other| other.equals(item))
    }
    let lists = || vec![LIST_TYPE, LIST_TYPE];
    env.add_overload(
        "sets.contains",
        "list_sets_contains_list",
        lists(),
        |args| {
            let (all, some) = (items(&args, 0)?, items(&args, 1)?);
            Ok(truth(some.iter().all(|item| holds(&all, *item))))
        },
    )?;
    env.add_overload(
        "sets.equivalent",
        "list_sets_equivalent_list",
        lists(),
        |args| {
            let (a, b) = (items(&args, 0)?, items(&args, 1)?);
            let same =
                a.iter().all(|item| holds(&b, *item)) && b.iter().all(|item| holds(&a, *item));
            Ok(truth(same))
        },
    )?;
    env.add_overload(
        "sets.intersects",
        "list_sets_intersects_list",
        lists(),
        |args| {
            let (a, b) = (items(&args, 0)?, items(&args, 1)?);
            Ok(truth(a.iter().any(|item| holds(&b, *item))))
        },
    )
}

/// Returns a boolean as the result of a function.
#[must_use]
pub fn truth<'b, 'v>(answer: bool) -> CowVal<'b, 'v> {
    CowVal::owned(CelBool::from(answer))
}

/// Returns a string as the result of a function.
#[must_use]
pub fn string<'b, 'v>(answer: String) -> CowVal<'b, 'v> {
    CowVal::owned(CelString::from(answer))
}

/// Returns an integer as the result of a function.
#[must_use]
pub fn integer<'b, 'v>(answer: i64) -> CowVal<'b, 'v> {
    CowVal::owned(CelInt::from(answer))
}
