//! The functions of Helm that are bound to a render: include, tpl, required, fail, lookup.

use super::render_context::RenderContext;
use crate::message::warn_wrap;
use crate::options::Lookup;
use driftless_go::quote::quote;
use driftless_gotmpl::{Exec, Execution, FuncError, Function, Functions, Param, Str, Value};
use serde_json::Value as Json;

/// Adds the functions that are bound to a render.
pub(super) fn register(functions: &mut Functions) {
    const TEXT_ANY: &[Param] = &[Param::Str, Param::Any];
    const LOOKUP: &[Param] = &[Param::Str, Param::Str, Param::Str, Param::Str];
    functions.insert("include", Function::nested(TEXT_ANY, include));
    functions.insert("tpl", Function::nested(TEXT_ANY, tpl));
    functions.insert("required", Function::new(TEXT_ANY, required));
    functions.insert("fail", Function::new(&[Param::Str], fail));
    functions.insert("lookup", Function::new(LOOKUP, lookup));
}

/// Helm's limit on nested includes of one name.
const MAX_INCLUDES: usize = 1_000;

fn text(args: &[Value], at: usize) -> Str {
    args.get(at)
        .and_then(Value::as_str)
        .cloned()
        .unwrap_or_default()
}

fn data(args: &[Value]) -> Value {
    args.get(1).cloned().unwrap_or_default()
}

fn include(execution: &mut dyn Execution<'_>, args: &[Value]) -> Result<Value, FuncError> {
    let host = RenderContext::of(execution.exec())?;
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
    let done = execution.execute(&name.lossy(), data(args));
    if let Some(count) = host.included.borrow_mut().get_mut(&name) {
        *count -= 1;
    }
    Ok(Value::str(done?))
}

/// The maximal bytes of a template that an error of `tpl` quotes.
const MAX_QUOTED_BYTES: usize = 4 << 10;

/// The name of templates that `tpl` creates: Helm's root template.
const ROOT: &str = "gotpl";

fn tpl(execution: &mut dyn Execution<'_>, args: &[Value]) -> Result<Value, FuncError> {
    let source = text(args, 0);
    match execution.execute_text(ROOT, &source, data(args)) {
        Ok(out) => Ok(Value::str(without_no_value(out))),
        Err(error) => {
            let action = match error.kind {
                driftless_gotmpl::ErrorKind::Parse => "cannot parse template",
                _ => "error during tpl function execution for",
            };
            let mut error = FuncError::from(error);
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
    let host = RenderContext::of(exec)?;
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

/// Removes the marks of missing values, as Helm does.
pub(crate) fn without_no_value(text: Vec<u8>) -> Vec<u8> {
    const MARK: &[u8] = b"<no value>";
    let Some(first) = find(&text, MARK) else {
        return text;
    };
    let mut out = text[..first].to_vec();
    let mut rest = &text[first + MARK.len()..];
    while let Some(at) = find(rest, MARK) {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at + MARK.len()..];
    }
    out.extend_from_slice(rest);
    out
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + text[from..].iter().position(|b| *b == wanted[0])?;
        if text[at..].starts_with(wanted) {
            return Some(at);
        }
        from = at + 1;
    }
}
