//! Fields, keys and methods.

use super::frame::{Frame, Slot};
use super::{Executor, Result, is_nil_interface};
use crate::parse::Term;
use crate::set::MissingKey;
use crate::value::{Elem, Method, Str, Value};

impl Executor<'_> {
    #[expect(clippy::too_many_arguments, reason = "the parts of one call")]
    pub(super) fn field<'t>(
        &mut self,
        frame: &mut Frame<'t>,
        dot: &Slot,
        receiver: Slot,
        term: &'t Term,
        name: &Str,
        args: &'t [Term],
        last: Option<Value>,
    ) -> Result<Slot> {
        if matches!(receiver.value, Value::NoValue) {
            if self.missing == MissingKey::Error {
                let key = driftless_go::quote::quote(name);
                return Err(frame.error(format!("nil data; no entry for key {key}")));
            }
            return Ok(Slot::plain(Value::NoValue));
        }
        if is_nil_interface(&receiver) {
            return Err(frame.error(format!("nil pointer evaluating interface {{}}.{name}")));
        }
        if let Some(method) = find_method(&receiver.value, name) {
            return self.method(frame, dot, term, method, receiver.value, args, last);
        }
        let has_args = !args.is_empty() || last.is_some();
        match &receiver.value {
            Value::Object(object) => {
                if let Some(value) = name.utf8().and_then(|n| object.field(n)) {
                    if has_args {
                        return Err(frame.error(format!(
                            "{name} has arguments but cannot be invoked as function"
                        )));
                    }
                    return Ok(Slot::plain(value));
                }
            }
            Value::Map(map) => {
                if has_args {
                    return Err(frame.error(format!("{name} is not a method but has arguments")));
                }
                let iface = map.info().elem == Elem::Any;
                let value = match map.get(name.as_bytes()) {
                    Some(value) => value,
                    None => match self.missing {
                        MissingKey::Default => return Ok(Slot::plain(Value::NoValue)),
                        MissingKey::Zero => map.info().zero(),
                        MissingKey::Error => {
                            let key = driftless_go::quote::quote(name);
                            return Err(frame.error(format!("map has no entry for key {key}")));
                        }
                    },
                };
                return Ok(Slot { value, iface });
            }
            _ => {}
        }
        let type_name = receiver.type_name();
        Err(frame.error(format!("can't evaluate field {name} in type {type_name}")))
    }
}

fn find_method(value: &Value, name: &Str) -> Option<&'static Method> {
    let methods = match value {
        Value::Map(map) => map.info().methods,
        Value::List(list) => list.info().methods,
        Value::Object(object) => object.methods(),
        _ => return None,
    };
    methods
        .iter()
        .find(|m| m.name.as_bytes() == name.as_bytes())
}
