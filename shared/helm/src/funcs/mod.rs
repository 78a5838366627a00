//! The functions of Helm's templates: sprig's and Helm's own, one file per family.
//!
//! [`RenderContext`] provides time and entropy. Each file of a family has a `TABLE` of functions
//! and a `VARIADIC` table of those whose last parameter may be repeated any number of times;
//! parameters have Go's types, so that a template's arguments are checked before the code runs.
//! Where Go panics, the function fails with the panic's message, because Go's templates convert it
//! to an error.

mod arg;
mod cast;
mod certificate;
mod crypto;
mod dates;
mod decimal;
mod defaults;
mod dict;
mod dsa_key;
mod duration;
mod encode;
mod equal;
mod json_read;
mod json_write;
mod key_budget;
mod keys;
mod layout;
mod layout_read;
mod letter_case;
mod list;
mod lossy_utf8;
mod merge;
mod moment;
mod number;
mod pad;
mod password;
mod paths;
mod pretty;
mod private_key;
mod random;
mod random_source;
mod re2;
mod reflect;
mod regex;
mod regexp;
mod render_context;
mod rsa_key;
mod split;
mod template;
mod text;
mod time;
mod toml_read;
mod toml_write;
pub(crate) mod url;
mod version;
mod write_cost;

pub(crate) use render_context::RenderContext;
pub(crate) use template::without_no_value;

use crate::compat::Compat;
use driftless_gotmpl::{FuncError, Function, Functions, Param, Plain, Value};
use std::sync::LazyLock;

/// The result of a function.
type Out = Result<Value, FuncError>;

/// A function: name, parameters, code.
type Entry = (&'static str, &'static [Param], Plain);

const NONE: &[Param] = &[];
const S: &[Param] = &[Param::Str];
const SS: &[Param] = &[Param::Str, Param::Str];
const SSS: &[Param] = &[Param::Str, Param::Str, Param::Str];
const I: &[Param] = &[Param::Int];
const IS: &[Param] = &[Param::Int, Param::Str];
const IIS: &[Param] = &[Param::Int, Param::Int, Param::Str];
const A: &[Param] = &[Param::Any];
const AA: &[Param] = &[Param::Any, Param::Any];
const SA: &[Param] = &[Param::Str, Param::Any];
const M: &[Param] = &[Param::Map];
const MS: &[Param] = &[Param::Map, Param::Str];

/// Returns all functions of a version of Helm. The tables are created once per process.
pub(crate) fn functions(compat: Compat) -> Functions {
    static HELM3: LazyLock<Functions> = LazyLock::new(|| table(Compat::Helm3));
    static HELM4: LazyLock<Functions> = LazyLock::new(|| table(Compat::Helm4));
    match compat {
        Compat::Helm3 => HELM3.clone(),
        Compat::Helm4 => HELM4.clone(),
    }
}

fn table(compat: Compat) -> Functions {
    let mut functions = Functions::new();
    for (name, params, call) in [
        cast::TABLE,
        crypto::TABLE,
        dates::TABLE,
        defaults::TABLE,
        dict::TABLE,
        encode::TABLE,
        keys::TABLE,
        list::TABLE,
        number::TABLE,
        pad::TABLE,
        password::TABLE,
        paths::TABLE,
        random::TABLE,
        reflect::TABLE,
        regex::TABLE,
        split::TABLE,
        text::TABLE,
        url::TABLE,
        letter_case::TABLE,
    ]
    .into_iter()
    .flatten()
    {
        functions.insert(name, Function::new(params, *call));
    }
    for (name, params, call) in [
        defaults::VARIADIC,
        dict::VARIADIC,
        list::VARIADIC,
        number::VARIADIC,
        text::VARIADIC,
    ]
    .into_iter()
    .flatten()
    {
        functions.insert(name, Function::variadic(params, *call));
    }
    version::register(&mut functions);
    template::register(&mut functions);
    if compat == Compat::Helm4 {
        for (name, params, call) in [duration::HELM4, encode::HELM4].into_iter().flatten() {
            functions.insert(name, Function::new(params, *call));
        }
    }
    functions
}
