//! The state of a render that functions can access, and the functions that are bound to it:
//! include, tpl, required, fail, lookup.

use crate::message::warn_wrap;
use crate::render::{Lookup, Options, without_no_value};
use driftless_go::quote::quote;
use driftless_gotmpl::{Exec, FuncError, Function, Functions, Param, Str, Value};
use serde_json::Value as Json;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// The state of one render. Functions get it by `exec.host::<RenderContext>()`.
pub(crate) struct RenderContext {
    /// The result of `now`, in seconds and nanoseconds since 1970.
    pub now: (i64, u32),
    /// The objects for `lookup`; `None` without a cluster.
    lookups: Option<Arc<BTreeMap<Lookup, Json>>>,
    /// The source of randomness, from the seed in the options.
    pub random: crate::funcs::Random,
    /// The rest of the budget of new keys.
    pub keys: crate::funcs::KeyBudget,
    /// The expressions that were charged.
    pub compiled: crate::funcs::Compiled,
    needs: RefCell<BTreeSet<Lookup>>,
    /// The number of running includes of each name.
    included: RefCell<HashMap<Str, usize>>,
}

impl RenderContext {
    pub fn new(options: &Options) -> Self {
        RenderContext {
            now: options.now,
            lookups: options.lookups.clone(),
            random: crate::funcs::Random::new(options.entropy),
            keys: crate::funcs::KeyBudget::default(),
            compiled: RefCell::default(),
            needs: RefCell::default(),
            included: RefCell::default(),
        }
    }

    /// Returns the objects that were looked up and are not known.
    pub fn needs(&self) -> Vec<Lookup> {
        self.needs.borrow().iter().cloned().collect()
    }
}

/// Adds the functions that are bound to a render.
pub(crate) fn register(functions: &mut Functions) {
    const TEXT_ANY: &[Param] = &[Param::Str, Param::Any];
    const LOOKUP: &[Param] = &[Param::Str, Param::Str, Param::Str, Param::Str];
    functions.insert("include", Function::new(TEXT_ANY, include));
    functions.insert("tpl", Function::new(TEXT_ANY, tpl));
    functions.insert("required", Function::new(TEXT_ANY, required));
    functions.insert("fail", Function::new(&[Param::Str], fail));
    functions.insert("lookup", Function::new(LOOKUP, lookup));
}

/// Helm's limit on nested includes of one name.
const MAX_INCLUDES: usize = 1_000;

fn host<'h>(exec: &Exec<'h>) -> Result<&'h RenderContext, FuncError> {
    exec.host::<RenderContext>()
        .ok_or_else(|| "no chart is rendered".into())
}

fn text(args: &[Value], at: usize) -> Str {
    args.get(at)
        .and_then(Value::as_str)
        .cloned()
        .unwrap_or_default()
}

fn data(args: &[Value]) -> Value {
    args.get(1).cloned().unwrap_or_default()
}

fn include(exec: &mut Exec<'_>, args: &[Value]) -> Result<Value, FuncError> {
    let host = host(exec)?;
    let name = text(args, 0);
    {
        let mut included = host.included.borrow_mut();
        let count = included.entry(name.clone()).or_default();
        if *count > MAX_INCLUDES {
            return Err(format!(
                "rendering template has a nested reference name: {name}: unable to execute template"
            )
            .into());
        }
        *count += 1;
    }
    let done = exec.execute(&name.lossy(), data(args));
    if let Some(count) = host.included.borrow_mut().get_mut(&name) {
        *count -= 1;
    }
    Ok(Value::str(done.map_err(nested)?))
}

/// Converts an error of a template to a function's.
fn nested(error: driftless_gotmpl::Error) -> FuncError {
    FuncError {
        budget: error.kind == driftless_gotmpl::ErrorKind::Budget,
        message: error.message,
    }
}

/// The maximal bytes of a template that an error of `tpl` quotes.
const MAX_QUOTED_BYTES: usize = 4 << 10;

/// The name of templates that `tpl` creates: Helm's root template.
const ROOT: &str = "gotpl";

fn tpl(exec: &mut Exec<'_>, args: &[Value]) -> Result<Value, FuncError> {
    let source = text(args, 0);
    match exec.execute_text(ROOT, &source, data(args)) {
        Ok(out) => Ok(Value::str(without_no_value(out))),
        Err(error) => {
            let action = match error.kind {
                driftless_gotmpl::ErrorKind::Parse => "cannot parse template",
                _ => "error during tpl function execution for",
            };
            let mut error = nested(error);
            if !error.budget {
                let head = &source[..source.len().min(MAX_QUOTED_BYTES)];
                error.message = format!("{action} {}: {}", quote(head), error.message);
            }
            Err(error)
        }
    }
}

/// The maximal bytes of a message with which a chart fails.
const MAX_WARNING_BYTES: usize = 8 << 10;

fn required(_: &mut Exec<'_>, args: &[Value]) -> Result<Value, FuncError> {
    let value = data(args);
    let missing = value.is_nil() || value.as_str().is_some_and(|s| s.is_empty());
    if missing {
        return Err(chart_error(args));
    }
    Ok(value)
}

fn fail(_: &mut Exec<'_>, args: &[Value]) -> Result<Value, FuncError> {
    Err(chart_error(args))
}

/// Returns the chart's own message as an error.
fn chart_error(args: &[Value]) -> FuncError {
    let text = text(args, 0);
    warn_wrap(&String::from_utf8_lossy(
        &text[..text.len().min(MAX_WARNING_BYTES)],
    ))
    .into()
}

/// Finds nothing without a cluster. With one, unknown objects are recorded and treated as absent;
/// the result of the render is then discarded.
fn lookup(exec: &mut Exec<'_>, args: &[Value]) -> Result<Value, FuncError> {
    let host = host(exec)?;
    let nothing = Value::map::<&str>([]);
    let Some(known) = &host.lookups else {
        return Ok(nothing);
    };
    let word = |at| text(args, at).lossy().into_owned();
    let wanted = Lookup {
        api_version: word(0),
        kind: word(1),
        namespace: word(2),
        name: word(3),
    };
    match known.get(&wanted) {
        Some(Json::Null) => Ok(nothing),
        Some(object) => Ok(crate::convert::to_value(object)),
        None => {
            host.needs.borrow_mut().insert(wanted);
            Ok(nothing)
        }
    }
}
